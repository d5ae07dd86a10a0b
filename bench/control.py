"""A request table with one claimed request, on an emulator, and the environment that a deployment gives a function.

The request is accepted by the project's own function and claimed by the transitions that the graph runs, so a step
that a bench calls has a real record to prove its fence on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from bench.processes import CREDENTIALS, BenchError, run_worker
from handlers.core import clock
from handlers.core.record import Record
from handlers.core.request_table import expressions, request_key
from handlers.core.states import VERIFY_STEP
from handlers.core.transition import render
from handlers.core.transitions import CLAIM, DISPATCH
from local.emulator import ACCOUNT, REGION, Emulator
from statemachine.deletion import workflow
from statemachine.frame import REQUEST
from statemachine.functions import FunctionSpec, function_specs
from statemachine.step import Value

TABLE = "deletions"
USER = "user-a1b2"
PLAN = workflow(identity=False)
SPECS = {spec.role: spec for spec in function_specs(PLAN)}
_OWNER = f"arn:aws:states:{REGION}:{ACCOUNT}:execution:deletion:bench"


@dataclass(frozen=True, slots=True)
class Control:
    """One emulator's request table."""

    emulator: Emulator

    def claimed(self) -> str:
        """A request of USER that an execution has claimed; its id."""
        request = self.accepted()
        self._write(DISPATCH, request, attempt=0, attempt_base=0)
        steps = (*(step.name for step in PLAN.steps), VERIFY_STEP)
        self._write(CLAIM, request, each=steps, attempt=1, me=_OWNER, definition="bench")
        return request

    def accepted(self) -> str:
        """A request of USER that is due at once; its id."""
        event = {"user_id": USER, "identifiers": {}, "grace_days": 0}
        return str(self.invoke(REQUEST, event, **self._request_values())["deletion_request_id"])

    def invoke(self, role: str, event: Mapping[str, Any], **values: str) -> Mapping[str, Any]:
        """Call a function until it is done; the answer."""
        return run_worker(SPECS[role].handler, event, self.environment(role, **values)).answer

    def environment(self, role: str, **values: str) -> dict[str, str]:
        """What a deployment sets for the function, with these for what only a deployment knows."""
        known = {"request_table": TABLE, "metrics_namespace": "Bench", **values}
        return {**_filled(SPECS[role], known), **self.emulator.environment(), **CREDENTIALS}

    def event(self, request: str, step: str) -> Mapping[str, str]:
        """What the graph calls a step with."""
        return {"deletion_request_id": request, "owner": _OWNER, "step": step}

    def record(self, request: str) -> Record:
        """As it stands now."""
        answer = self.emulator.client("dynamodb").get_item(
            TableName=TABLE, Key=request_key(request), ConsistentRead=True
        )
        return Record.of(answer["Item"])

    def _write(self, transition: Any, request: str, *, each: tuple[str, ...] = (), **values: object) -> None:
        given = {"now": clock.now(), "due_at": clock.now() + 900, **values}
        rendered = render(transition, each=each)
        call = expressions(TABLE, request_key(request), rendered, given)
        self.emulator.client("dynamodb").update_item(**call)

    def _request_values(self) -> dict[str, str]:
        # A key of its own for each request: USER may have several at a time here, one for each run.
        day = int(timedelta(days=1).total_seconds())
        key = self.emulator.client("kms").create_key(KeySpec="HMAC_256", KeyUsage="GENERATE_VERIFY_MAC")
        return {
            "realm": "bench",
            "hmac_key_id": key["KeyMetadata"]["KeyId"],
            "identifiers": "[]",
            "grace_default": "0",
            "grace_minimum": "0",
            "grace_maximum": str(day),
            "erase_within": str(45 * day),
            # Nothing is scheduled for what is due at once.
            "schedule_group": "none",
            "schedule_role_arn": "none",
            "dispatch_arn": "none",
            "schedule_dead_letters_arn": "none",
        }


@contextmanager
def control() -> Iterator[Control]:
    """An emulator with an empty request table."""
    with Emulator.start(permissions=False) as emulator:
        make_table(emulator, TABLE, index=True, pk="S")
        yield Control(emulator)


def make_table(emulator: Emulator, name: str, *, index: bool = False, **keys: str) -> None:
    """A table with these keys (attribute=type, the partition key first); index: with the request table's `due`."""
    due = {"due_shard": "N", "due_at": "N"} if index else {}
    more: dict[str, Any] = {}
    if index:
        more["GlobalSecondaryIndexes"] = [
            {"IndexName": "due", "KeySchema": _key_schema(due), "Projection": {"ProjectionType": "KEYS_ONLY"}}
        ]
    emulator.client("dynamodb").create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": kind} for key, kind in {**keys, **due}.items()],
        KeySchema=_key_schema(keys),
        **more,
    )


def _key_schema(keys: Mapping[str, str]) -> list[Mapping[str, str]]:
    return [{"AttributeName": key, "KeyType": role} for key, role in zip(keys, ("HASH", "RANGE"), strict=False)]


def _filled(spec: FunctionSpec, values: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for name, value in spec.environment.items():
        if not isinstance(value, Value):
            found[name] = value
        elif value.name in values:
            found[name] = values[value.name]
        elif not value.optional:
            raise BenchError(f"{spec.role} needs a value for {value.name}")
    return found
