"""How one deletion grows with the user's data: transitions, invocations, history events and control writes.

    python -m bench.growth --sizes 10 10000 1000000

Measured: whole executions of the rendered graph with the real handlers. Not real: the stores are on paper, answered
inside this process, and time does not pass; an invocation's time is used up by its deletes, at the rates that AWS
documents for one prefix and one partition (`KEYS_A_SECOND`, `ITEMS_A_SECOND`). History events are counted by the
documented events of each kind of state (`EVENTS`). The user has as many file versions as items.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from moto import mock_aws
from sfnx.testing import Execution

from bench import report
from bench.paper_bucket import Bucket, unset
from bench.processes import BenchError
from bench.report import Table
from statemachine.deletion import DELETE_FILES, DELETE_RECORDS, workflow
from tests import world as worlds
from tests.machine import Machine
from tests.wire import Call, answered
from tests.world import Context, World

KEYS_A_SECOND = 3500
"""Of one prefix (https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html)."""
ITEMS_A_SECOND = 500
"""Of one partition: 1,000 write units, two for a delete in a transaction (https://docs.aws.amazon.com/amazondynamodb/
latest/developerguide/bp-partition-key-design.html)."""
MOST_EVENTS = 1000
RESERVE = 30
"""Seconds that an invocation keeps back."""
EVENTS = {"Task": 5, "Choice": 2, "Wait": 2, "Pass": 2, "Succeed": 2, "Fail": 1}
"""History events of a state that is entered once: of a Task entered, scheduled, started, succeeded, exited (https://
docs.aws.amazon.com/step-functions/latest/apireference/API_HistoryEvent.html)."""
_CONTROL = frozenset({"UpdateItem", "TransactWriteItems"})
_LONG_AGO = datetime(2026, 1, 31, tzinfo=UTC)


class Tally(list[Call]):
    """Counts the calls that a world notes, and keeps none of them: a million objects would fill the memory."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: Counter[str] = Counter()

    def append(self, call: Call) -> None:
        """Count it."""
        self.numbers[call.operation] += 1


@dataclass(slots=True)
class Stores:
    """A user's files and items on paper, put in the place of moto's."""

    world: World
    objects: int
    files: Bucket = field(init=False)
    items: bytearray = field(init=False)
    """1 for each item that is gone."""
    spent: float = 0.0
    """Seconds of deletes so far."""

    def __post_init__(self) -> None:
        self.files = Bucket(self.objects, f"users/{worlds.USER}/")
        self.items = bytearray(self.objects)
        self.world.wire.answers.update(
            {
                "ListObjectVersions": self._list,
                "ListMultipartUploads": lambda call: answered(IsTruncated=False)(call),
                "DeleteObjects": self._delete,
                "Query": self._query,
                "TransactWriteItems": self._transact,
            }
        )

    def left(self) -> int:
        """How many objects are still there."""
        return self.items.count(0) + len(self.files.left(0, self.objects))

    def _list(self, call: Call) -> Any:
        size = call.params.get("MaxKeys", 1000)
        start = self.files.after(call.params.get("KeyMarker", ""), call.params.get("VersionIdMarker", ""))
        found = self.files.left(start, size + 1)
        entries = [self._entry(number) for number in found[:size]]
        more = len(found) > size
        marker = {"NextKeyMarker": entries[-1]["Key"], "NextVersionIdMarker": entries[-1]["VersionId"]} if more else {}
        return answered(Versions=entries, IsTruncated=more, **marker)(call)

    def _entry(self, number: int) -> Mapping[str, Any]:
        return {"Key": self.files.key(number), "VersionId": str(number), "LastModified": _LONG_AGO}

    def _delete(self, call: Call) -> Any:
        entries = call.params["Delete"]["Objects"]
        for entry in entries:
            self.files.delete_one(entry["Key"], int(entry["VersionId"]))
        self.spent += len(entries) / KEYS_A_SECOND
        return answered()(call)

    def _query(self, call: Call) -> Any:
        if call.params["TableName"] != "orders":
            return None
        size = call.params.get("Limit", 1000)
        start = call.params.get("ExclusiveStartKey")
        found = unset(self.items, int(start["sk"]["S"]) + 1 if start else 0, size + 1)
        items = [{"pk": {"S": f"USER#{worlds.USER}"}, "sk": {"S": f"{number:08}"}} for number in found[:size]]
        more = {"LastEvaluatedKey": items[-1]} if len(found) > size else {}
        return answered(Items=items, Count=len(items), **more)(call)

    def _transact(self, call: Call) -> Any:
        """The control write happens in moto, the deletes here."""
        actions = call.params["TransactItems"]
        deletes = [action for action in actions if "Delete" in action]
        if not deletes:
            return None
        others = [action for action in actions if "Delete" not in action]
        self.world.dynamodb.transact_write_items(TransactItems=others)
        for action in deletes:
            self.items[int(action["Delete"]["Key"]["sk"]["S"])] = 1
        self.spent += len(deletes) / ITEMS_A_SECOND
        return answered()(call)


@dataclass
class Budget(Context):
    """Lambda's context: the timeout, less what the deletes of this invocation took."""

    stores: Stores | None = None
    timeout: float = 0.0
    begun: float = 0.0

    def get_remaining_time_in_millis(self) -> int:
        """Until the invocation would be killed."""
        assert self.stores is not None
        return int((self.timeout - (self.stores.spent - self.begun)) * 1000)


@dataclass
class PacedMachine(Machine):
    """A machine whose invocations have the time of their function."""

    stores: Stores | None = None

    def invoke(self, role: str, event: Mapping[str, Any]) -> Any:
        """As Lambda does, with the time that the function has."""
        assert self.stores is not None
        before = self.context
        timeout = self.specs[role].timeout.total_seconds()
        self.context = Budget(stores=self.stores, timeout=timeout, begun=self.stores.spent)
        try:
            return super().invoke(role, event)
        finally:
            self.context = before


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """What one deletion took."""

    objects: int
    """Versions, and as many items."""
    executions: int
    transitions: int
    invocations: int
    events: int
    """History events of the longest execution."""
    control_writes: int
    """Of the request table, by functions and by the graph."""
    calls: int
    """AWS calls of the functions."""
    left: int


def measure(given: argparse.Namespace) -> Sequence[Table]:
    """Every size."""
    grown = [grow(objects) for objects in given.sizes]
    return [_table(grown), _capacity()]


def grow(objects: int) -> Grown:
    """Delete a user with so many versions and so many items."""
    with _world() as world:
        world.make_user()
        stores = Stores(world, objects)
        machine = PacedMachine(world, workflow(identity=True), stores=stores)
        request = machine.dispatched()
        tally = Tally()
        world.wire.calls = tally
        executions = [machine.execute(request)]
        while world.record(request)["status"] == "RETRYABLE":
            executions.append(machine.retry(request))
        if world.record(request)["status"] != "COMPLETED":
            raise BenchError(f"{objects} objects end as {world.record(request)['status']}")
        types = {name: state["Type"] for name, state in json.loads(machine.definition)["States"].items()}
        written = sum(call.resource.endswith(":updateItem") for one in executions for call in one.calls)
        return Grown(
            objects=objects,
            executions=len(executions),
            transitions=sum(len(one.states) for one in executions),
            invocations=len(machine.invocations),
            events=max(_events(one, types) for one in executions),
            control_writes=written + sum(tally.numbers[one] for one in _CONTROL),
            calls=tally.numbers.total(),
            left=stores.left(),
        )


@contextmanager
def _world() -> Iterator[World]:
    # What functions print (metrics) is no part of the results.
    with redirect_stdout(io.StringIO()), pytest.MonkeyPatch.context() as patch, mock_aws():
        world = World(patch)
        try:
            yield world
        finally:
            world.close()


def _events(execution: Execution, types: Mapping[str, str]) -> int:
    begin_and_end = 2
    return begin_and_end + sum(EVENTS[types[state]] for state in execution.states)


def _table(grown: Sequence[Grown]) -> Table:
    head = (
        "versions and as many items",
        "executions",
        "transitions",
        "Lambda invocations",
        "history events",
        "control writes",
        "AWS calls",
        "calls an object",
    )
    rows = tuple(
        (
            f"{one.objects:,}",
            str(one.executions),
            str(one.transitions),
            str(one.invocations),
            str(one.events),
            f"{one.control_writes:,}",
            f"{one.calls:,}",
            f"{one.calls / (2 * one.objects):.4f}",
        )
        for one in grown
    )
    wrong = [f"{one.left} of {one.objects} are left" for one in grown if one.left]
    wrong += [f"{one.events} history events for {one.objects}" for one in grown if one.events >= MOST_EVENTS]
    facts = {"sizes": [asdict(one) for one in grown]}
    return Table(name="growth", head=head, rows=rows, wrong=tuple(wrong), facts=facts)


def _capacity() -> Table:
    """How much one attempt can do, by its bounds: computed."""
    rows = []
    for step, rate in ((DELETE_RECORDS, ITEMS_A_SECOND), (DELETE_FILES, KEYS_A_SECOND)):
        usable = step.timeout.total_seconds() - RESERVE
        rows.append((step.name, str(step.turns), f"{usable:.0f}", f"{rate:,}", f"{step.turns * usable * rate:,.0f}"))
    head = ("step", "turns", "usable seconds a turn", "deletes a second", "deletes in one attempt")
    return Table(name="growth-capacity", head=head, rows=tuple(rows))


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 10_000, 1_000_000])


if __name__ == "__main__":
    sys.exit(report.run(__doc__ or "", _arguments, measure))
