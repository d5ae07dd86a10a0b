"""What deleting a user's items costs: the fenced transactions of the step against boto3's batch_writer, in one run.

    python -m bench.records --items 100000

Both run against the tables of one emulator, so times compare the callers and not DynamoDB. Write units are computed
from the calls by the documented rules (`units`).
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from bench import report
from bench.control import SPECS, USER, Control, control, make_table
from bench.processes import CREDENTIALS, Ran, run_worker
from bench.report import Table
from handlers.core.record import Record
from handlers.core.stores import RecordStore, to_json
from local.emulator import Emulator
from statemachine.deletion import DELETE_RECORDS
from statemachine.frame import role_of

TABLE = "orders"
PARTITION = f"USER#{USER}"
NEIGHBOUR = f"{PARTITION}0"
"""A partition that a careless prefix would take along."""
STEP, BATCH_WRITER = "DeleteRecords", "boto3 batch_writer"
GOAL = 2.1
"""Times the write units of the batch_writer."""
_KEPT = 10
_PUTS = 25
_UNIT = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One contender's run."""

    contender: str
    items: int
    ran: Ran
    left: int
    kept: int
    """Items of the neighbour that are still there."""
    control_size: int = 0
    """Bytes of the request's record afterwards; 0 for who writes none."""
    counted: int | None = None

    @property
    def units(self) -> int:
        """Write units on AWS."""
        return units(self.ran.calls, self.items, self.control_size)


def units(calls: Mapping[str, int], items: int, control_size: int) -> int:
    """Write units of deleting items of at most 1 KB, with the writes of a control item of this size.

    One a KB of the item, two in a transaction (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/
    transaction-apis.html#transaction-capacity-handling). A write outside of one that renews the lease also moves an
    entry of the index: one delete and one put (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/
    GSI.html#GSI.ThroughputConsiderations.Writes).
    """
    size = math.ceil(control_size / _UNIT)
    transactions = calls.get("TransactWriteItems", 0)
    deletes = 2 * items if transactions else items
    return deletes + 2 * size * transactions + (size + 2) * calls.get("UpdateItem", 0)


def measure(given: argparse.Namespace) -> Sequence[Table]:
    """Both contenders in turn."""
    results = []
    with control() as table:
        make_table(table.emulator, TABLE, pk="S", sk="S")
        seed(table.emulator, NEIGHBOUR, _KEPT)
        for _ in range(given.runs):
            for run in (run_step, run_batch_writer):
                seed(table.emulator, PARTITION, given.items)
                results.append(run(table, given.items))
    return [_table(results)]


def seed(emulator: Emulator, partition: str, items: int) -> None:
    """Put so many items of about 100 bytes."""
    client = emulator.client("dynamodb")

    def put(start: int) -> None:
        numbers = range(start, min(start + _PUTS, items))
        text = {"S": "x" * 60}
        puts = [{"Item": {"pk": {"S": partition}, "sk": {"S": f"ORDER#{n:08}"}, "text": text}} for n in numbers]
        client.batch_write_item(RequestItems={TABLE: [{"PutRequest": one} for one in puts]})

    with ThreadPoolExecutor(4) as threads:
        for _ in threads.map(put, range(0, items, _PUTS)):
            pass


def count(emulator: Emulator, partition: str) -> int:
    """How many items a partition has; no code of the handlers."""
    pages = (
        emulator.client("dynamodb")
        .get_paginator("query")
        .paginate(
            TableName=TABLE,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": partition}},
            ConsistentRead=True,
            Select="COUNT",
        )
    )
    return sum(page["Count"] for page in pages)


def run_step(table: Control, items: int) -> Result:
    """The project's step, called as Lambda calls it until it is done."""
    request = table.claimed()
    store = RecordStore(name="orders", table=TABLE, partition_key="pk", partition="USER#{user_id}", sort_key="sk")
    role = role_of(DELETE_RECORDS)
    ran = run_worker(
        SPECS[role].handler,
        table.event(request, DELETE_RECORDS.name),
        table.environment(role, record_stores=to_json((store,))),
        timeout=DELETE_RECORDS.timeout.total_seconds(),
    )
    record = table.record(request)
    return Result(
        contender=STEP,
        items=items,
        ran=ran,
        control_size=_size(record),
        counted=record.step(DELETE_RECORDS.name).deleted.get("orders", 0),
        **_looked_at(table),
    )


def run_batch_writer(table: Control, items: int) -> Result:
    """The usual loop."""
    event = {"table": TABLE, "partition": PARTITION}
    variables = {**table.emulator.environment(), **CREDENTIALS}
    ran = run_worker("bench.contenders.items_by_batch_writer", event, variables)
    return Result(contender=BATCH_WRITER, items=items, ran=ran, **_looked_at(table))


def _looked_at(table: Control) -> dict[str, Any]:
    return {"left": count(table.emulator, PARTITION), "kept": count(table.emulator, NEIGHBOUR)}


def _size(record: Record) -> int:
    """About what DynamoDB counts: names and values as text."""
    return len(json.dumps(record.attributes, separators=(",", ":")).encode())


def _table(results: Sequence[Result]) -> Table:
    by_name = {name: [one for one in results if one.contender == name] for name in (STEP, BATCH_WRITER)}
    base = by_name[BATCH_WRITER]
    rows = []
    for name, runs in by_name.items():
        seconds = statistics.median(one.ran.seconds for one in runs)
        calls = runs[0].ran.calls
        writes = sum(calls.get(one, 0) for one in ("TransactWriteItems", "BatchWriteItem", "UpdateItem"))
        rows.append(
            (
                name,
                f"{seconds:.1f}",
                f"{seconds / statistics.median(one.ran.seconds for one in base):.2f}",
                f"{writes:,} + {calls.get('Query', 0):,}",
                f"{runs[0].units:,}",
                f"{runs[0].units / base[0].units:.2f}",
                f"{statistics.median(one.ran.cpu for one in runs):.1f}",
                f"{max(one.ran.peak for one in runs):.0f}",
                str(max(one.left for one in runs)),
            )
        )
    head = (
        "who",
        "seconds",
        "ratio",
        "writes + queries",
        "write units on AWS",
        "ratio",
        "its CPU s",
        "peak MiB",
        "left",
    )
    wrong = [text for one in results for text in _wrong(one)]
    facts = {"runs": [{**asdict(one), "units": one.units} for one in results], "goal": GOAL}
    return Table(name="records", head=head, rows=tuple(rows), wrong=tuple(wrong), facts=facts)


def _wrong(result: Result) -> list[str]:
    found = []
    if result.left:
        found.append(f"{result.contender} left {result.left} of {result.items}")
    if result.kept != _KEPT:
        found.append(f"{result.contender} left the neighbour {result.kept} of {_KEPT}")
    if result.counted not in (None, result.items):
        found.append(f"{result.contender} counted {result.counted}, there were {result.items}")
    return found


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=1, help="of each; the median is shown")


if __name__ == "__main__":
    sys.exit(report.run(__doc__ or "", _arguments, measure))
