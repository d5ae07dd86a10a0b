"""Looks after every request whose time has come: dispatches, recovers, or releases it.

Safe to repeat because: it only calls what schedule, event and operator call too, each conditional on what it read; runs
that overlap do no harm. Records are independent of each other: one that cannot be handled is reported, deferred and
passed by.
Leaves open: what is due beyond one run's limit waits for the next run, a minute later.
"""

import heapq
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from threading import Lock
from typing import Any

from handlers.core import aws, clock, settings, telemetry
from handlers.core.checkpoint import LambdaContext
from handlers.core.errors import DeletionError
from handlers.core.frame import AWS_ERRORS, lambda_handler
from handlers.core.record import Record
from handlers.core.request_table import ConditionFailed, RequestTable
from handlers.core.states import DUE_SHARDS, REQUEST_PREFIX, Status
from handlers.core.transitions import DEFER
from handlers.dispatch import dispatch
from handlers.operations import release
from handlers.recover import recover

WORKERS = 8
RESERVE = timedelta(seconds=15)
"""Kept back at the end of a run for the calls under way."""
DEFERRED = timedelta(minutes=15)
"""When a record that could not be handled is looked at again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSettings:
    """What the sweeper needs besides the settings of what it calls."""

    request_table: str
    """The request table's name."""
    due_index: str
    """Its sparse index by due_shard and due_at."""
    sweep_limit: int
    """Records that one run looks after at most."""
    start_rate: int
    """Records looked after a second at most: StartExecution and DescribeExecution have quotas."""


@dataclass(frozen=True, slots=True, order=True)
class Due:
    """An entry of the index; the oldest sorts first."""

    due_at: int
    deletion_request_id: str


@dataclass(slots=True)
class Pace:
    """Spreads calls of several threads evenly over time."""

    rate: int
    _lock: Lock = field(default_factory=Lock)
    _next: float = 0.0

    def wait(self) -> None:
        """Return when it is this caller's turn."""
        with self._lock:
            now = time.monotonic()
            turn = max(self._next, now)
            self._next = turn + 1 / self.rate
        if turn > now:
            time.sleep(turn - now)


@lambda_handler(*AWS_ERRORS)
def handler(_event: Any, context: LambdaContext) -> Mapping[str, object]:
    """One run: the oldest first, bounded by the limit and by time; answers with counts per outcome."""
    own = settings.load(SweepSettings)
    table = RequestTable(own.request_table)
    now = clock.now()
    due = list(islice(overdue(own, now), own.sweep_limit))
    pace = Pace(own.start_rate)
    with ThreadPoolExecutor(WORKERS) as pool:
        outcomes = Counter(pool.map(lambda one: _look_after(table, one, pace, context), due))
    _publish(due, outcomes, now)
    return {outcome: outcomes[outcome] for outcome in sorted(outcomes)}


def overdue(own: SweepSettings, now: int) -> Iterator[Due]:
    """What is due, of all shards, the oldest first; pages are read as far as somebody asks."""
    return heapq.merge(*(_shard(own, shard, now) for shard in range(DUE_SHARDS)))


def _shard(own: SweepSettings, shard: int, now: int) -> Iterator[Due]:
    request: dict[str, Any] = {
        "TableName": own.request_table,
        "IndexName": own.due_index,
        "KeyConditionExpression": "#shard = :shard AND #due_at <= :now",
        "ExpressionAttributeNames": {"#shard": "due_shard", "#due_at": "due_at"},
        "ExpressionAttributeValues": {":shard": {"N": str(shard)}, ":now": {"N": str(now)}},
        "Limit": own.sweep_limit,
    }
    while True:
        with aws.our_errors("Query"):
            answer = aws.client("dynamodb").query(**request)
        for item in answer["Items"]:
            yield Due(int(item["due_at"]["N"]), item["pk"]["S"].removeprefix(REQUEST_PREFIX))
        if "LastEvaluatedKey" not in answer:
            return
        request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]


def _look_after(table: RequestTable, due: Due, pace: Pace, context: LambdaContext) -> str:
    if context.get_remaining_time_in_millis() < RESERVE.total_seconds() * 1000:
        return "left for the next run"
    pace.wait()
    try:
        return _handle(table, due.deletion_request_id)
    except Exception as error:  # noqa: BLE001 (one record, whatever is wrong with it, must not hold up the others)
        name, place = type(error).__name__, telemetry.place_of(error)
    telemetry.log("not handled", deletion_request_id=due.deletion_request_id, error=name, place=place)
    _defer(table, due)
    return "not handled"


def _handle(table: RequestTable, deletion_request_id: str) -> str:
    record = table.read(deletion_request_id)
    if record is None or not record.due_at or record.due_at > clock.now():
        return "not due any more"
    if record.status is Status.PROCESSING:
        return "recovered" if recover(table, record) else "still running"
    if record.status is Status.HELD:
        release(table, record)
        return "released"
    return _dispatched(table, record)


def _dispatched(table: RequestTable, record: Record) -> str:
    return "dispatched" if dispatch(table, record.deletion_request_id)["dispatched"] else "not dispatched"


def _defer(table: RequestTable, due: Due) -> None:
    """Put a record that could not be handled behind the others, whatever state it is in."""
    values = {"due_at": clock.now() + int(DEFERRED.total_seconds()), "due_before": due.due_at}
    try:
        table.update_unread(DEFER, due.deletion_request_id, values)
    except ConditionFailed:
        # Somebody else looked after it meanwhile.
        return
    except DeletionError as error:
        telemetry.log("not deferred", deletion_request_id=due.deletion_request_id, error=type(error).__name__)


def _publish(due: list[Due], outcomes: Counter[str], now: int) -> None:
    telemetry.count("Overdue", len(due))
    telemetry.count("OldestOverdue", now - due[0].due_at if due else 0, unit=telemetry.SECONDS)
    telemetry.count("StuckProcessing", outcomes["still running"])
    telemetry.count("NotHandled", outcomes["not handled"])
    telemetry.log("swept", remaining=dict(outcomes))
