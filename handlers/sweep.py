"""Looks after every request whose time has come: dispatches, recovers, or releases it.

Safe to repeat because: it only calls what schedule, event and operator call too, each conditional on what it read; runs
that overlap do no harm. Records are independent of each other: one that cannot be handled is reported, deferred and
passed by.
Leaves open: what is due beyond one run's shares waits for the next run, a minute later: one share is of starts, one of
owners that are looked at, and a run reads past what its share of looks cannot hold, as far as its time allows; an
execution that runs past its lease and dies without its event being delivered is found up to LOOK_AGAIN later. While the
index cannot be read a run knows nothing and fails, and its silence is what rings.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any, TypeVar

from handlers.core import aws, clock, metrics, settings, telemetry
from handlers.core.checkpoint import LambdaContext
from handlers.core.errors import DeletionError, PersonHeld
from handlers.core.frame import AWS_ERRORS, lambda_handler
from handlers.core.pace import Pace
from handlers.core.record import Record
from handlers.core.request_table import ConditionFailed, RequestTable
from handlers.core.states import DUE_SHARDS, REQUEST_PREFIX, Status
from handlers.core.transitions import DEFER
from handlers.dispatch import dispatch
from handlers.operations import hold, release
from handlers.recover import recover

WORKERS = 8
LOOKERS = 4
"""Those who ask for owners; a slow answer there holds up no start."""
ANSWER = timedelta(seconds=2)
"""For what a run says at its end."""
RESERVE = timedelta(seconds=aws.CONNECT_SECONDS + aws.READ_SECONDS + aws.LONGEST_PAUSE_SECONDS) + ANSWER
"""Kept back at the end of a run: the tries under way may hang and be followed by a pause, then nothing more is sent."""
DEFERRED = timedelta(minutes=15)
"""When a record that could not be handled is looked at again."""
LOOK_AGAIN = timedelta(minutes=5)
"""When an execution that runs past its lease is looked at again: until then it holds up nobody."""
LEFT = "left for the next run"
"""What comes of a record for which a run has no time or no share."""

_Outcome = TypeVar("_Outcome")


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSettings:
    """What the sweeper needs besides the settings of what it calls."""

    request_table: str
    """The request table's name."""
    due_index: str
    """Its sparse index by due_shard and due_at."""
    sweep_limit: int
    """Records that one run looks after at most, besides PROCESSING ones: of these as many as can be looked at."""
    start_rate: int
    """Starts and releases a second at most: StartExecution has a quota."""
    describe_rate: int
    """Looks at owners a second at most: DescribeExecution has a smaller one."""
    attempt_worst_case: timedelta
    """How long one attempt may take."""


@dataclass(frozen=True, slots=True, order=True)
class Due:
    """An entry of the index; the oldest sorts first."""

    due_at: int
    deletion_request_id: str


@lambda_handler(*AWS_ERRORS)
def handler(_event: Any, context: LambdaContext) -> Mapping[str, object]:
    """One run: the oldest first, bounded by the limit and by time; answers with counts per outcome."""
    own = settings.load(SweepSettings)
    table = RequestTable(own.request_table)
    now = clock.now()
    entries = overdue(own, now)
    due = list(islice(entries, own.sweep_limit))
    # First of all, so that it is known whatever becomes of the run.
    _publish_due(due, now)
    run = _Run(table, context, starts=Pace(own.start_rate), looks=Pace(own.describe_rate))
    outcomes = _hand_out(run, own, due, entries)
    _publish_outcomes(outcomes)
    return {outcome: outcomes[outcome] for outcome in sorted(outcomes)}


def _hand_out(run: "_Run", own: SweepSettings, due: list[Due], entries: Iterator[Due]) -> Counter[str]:
    """Look after these, then after further entries until the shares of starts and looks are given away."""
    starts, looks = own.sweep_limit, int(run.seconds_left() * own.describe_rate)
    handled: list[Future[str]] = []
    outcomes: Counter[str] = Counter()
    with ThreadPoolExecutor(WORKERS) as starters, ThreadPoolExecutor(LOOKERS) as lookers:
        while due:
            for one, seen in zip(due, starters.map(run.read, due), strict=True):
                if not _is_processing(seen):
                    starts -= 1
                    handled.append(starters.submit(run.look_after, one, seen))
                elif looks > 0:
                    looks -= 1
                    handled.append(lookers.submit(run.look_after, one, seen))
                else:
                    outcomes[LEFT] += 1
            due = run.further(entries, starts)
        outcomes.update(future.result() for future in handled)
    return outcomes


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


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of the sweeper."""

    table: RequestTable
    context: LambdaContext
    starts: Pace
    looks: Pace

    def seconds_left(self) -> float:
        """How long the run may go on beginning something; below 0 when it may not."""
        return self.context.get_remaining_time_in_millis() / 1000 - RESERVE.total_seconds()

    def further(self, entries: Iterator[Due], number: int) -> list[Due]:
        """So many more entries, none if they cannot be read in time: the run still says what it has done."""
        try:
            with aws.only_while(self._has_time):
                return list(islice(entries, number))
        except (DeletionError, aws.TimeIsUp) as error:
            telemetry.log("not listed", error=type(error).__name__)
            return []

    def read(self, due: Due) -> Record | str:
        """The record, or what came of it already."""
        return self._guarded(due, lambda: self._due_record(due))

    def look_after(self, due: Due, seen: Record | str) -> str:
        """What came of a record that was read."""
        return seen if isinstance(seen, str) else self._guarded(due, lambda: self._handle(due, seen))

    def _due_record(self, due: Due) -> Record | str:
        record = self.table.read(due.deletion_request_id)
        if record is None or not record.due_at or record.due_at > clock.now():
            return "not due any more"
        _warn(record)
        return record

    def _handle(self, due: Due, record: Record) -> str:
        if record.status is Status.PROCESSING:
            # A first failure's next attempt is started at once.
            self.looks.wait()
            self.starts.wait()
            return self._recovered(due, record)
        self.starts.wait()
        if record.status is Status.HELD:
            return _released(self.table, record)
        return _dispatched(self.table, record)

    def _recovered(self, due: Due, record: Record) -> str:
        if recover(self.table, record):
            return "recovered"
        telemetry.log("still running", deletion_request_id=due.deletion_request_id)
        self._defer(due, LOOK_AGAIN)
        return "still running"

    def _guarded(self, due: Due, work: Callable[[], _Outcome]) -> _Outcome | str:
        if not self._has_time():
            return LEFT
        try:
            with aws.only_while(self._has_time):
                return work()
        except aws.TimeIsUp:
            return LEFT
        except Exception as error:  # noqa: BLE001 (one record, whatever is wrong with it, must not hold up the others)
            name, place = type(error).__name__, telemetry.place_of(error)
        telemetry.log("not handled", deletion_request_id=due.deletion_request_id, error=name, place=place)
        self._defer(due, DEFERRED)
        return "not handled"

    def _defer(self, due: Due, wait: timedelta) -> None:
        """Put a record behind the others, whatever state it is in."""
        values = {"due_at": clock.now() + int(wait.total_seconds()), "due_before": due.due_at}
        try:
            with aws.only_while(self._has_time):
                self.table.update_unread(DEFER, due.deletion_request_id, values)
        except ConditionFailed:
            # Somebody else looked after it meanwhile.
            return
        except (DeletionError, aws.TimeIsUp) as error:
            telemetry.log("not deferred", deletion_request_id=due.deletion_request_id, error=type(error).__name__)

    def _has_time(self) -> bool:
        return self.seconds_left() >= 0


def _is_processing(seen: Record | str) -> bool:
    return isinstance(seen, Record) and seen.status is Status.PROCESSING


def _warn(record: Record) -> None:
    """Say so if even an attempt that began now could end after erase_by."""
    longest = settings.load(SweepSettings).attempt_worst_case
    if record.attributes["erase_by"] - clock.now() < longest.total_seconds():
        telemetry.count(metrics.WILL_MISS_ERASE_BY)
        telemetry.log("will miss erase_by", deletion_request_id=record.deletion_request_id)


def _released(table: RequestTable, record: Record) -> str:
    """End a hold whose time has come; one of a person who is held loses its end, as only their release ends it."""
    try:
        release(table, record)
    except PersonHeld:
        hold(table, record)
        return "person held"
    return "released"


def _dispatched(table: RequestTable, record: Record) -> str:
    return "dispatched" if dispatch(table, record.deletion_request_id)["dispatched"] else "not dispatched"


def _publish_due(due: list[Due], now: int) -> None:
    telemetry.count(metrics.OVERDUE, len(due))
    telemetry.count(metrics.OLDEST_OVERDUE, now - due[0].due_at if due else 0)


def _publish_outcomes(outcomes: Counter[str]) -> None:
    telemetry.count(metrics.STUCK_PROCESSING, outcomes["still running"])
    telemetry.count(metrics.NOT_HANDLED, outcomes["not handled"])
    telemetry.log("swept", remaining=dict(outcomes))
