"""Starts the execution of a request whose time has come: the one way to start, for schedule, sweeper and redrive.

Safe to repeat because: the attempt is counted before the effect, the execution's name follows from it, and a request
that is early, running or over is left alone. What is lost on the way is healed by due_at: a dispatch that nobody
claimed comes due again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from botocore.exceptions import ClientError

from handlers.core import aws, clock, metrics, settings, telemetry
from handlers.core.checkpoint import LambdaContext
from handlers.core.errors import AwsFailure, RequestUnknown
from handlers.core.events import as_object, request_id_of
from handlers.core.frame import AWS_ERRORS, lambda_handler
from handlers.core.record import Record
from handlers.core.request_table import ConditionFailed, RequestTable
from handlers.core.states import STARTABLE, Status
from handlers.core.transitions import DISPATCH, EXHAUST

LONGEST_VISIBILITY = timedelta(minutes=5)
"""However often nobody claimed: the next look comes no later, so an outage is over for a request soon after its end."""

_ALREADY_STARTED = "ExecutionAlreadyExists"


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchSettings:
    """What whoever dispatches needs."""

    request_table: str
    """The request table's name."""
    state_machine_arn: str
    """Which machine to start."""
    dispatch_visibility: timedelta
    """How long a dispatch may stay unclaimed before somebody looks again; doubles with each one."""
    max_dispatches: int
    """Dispatches since the last redrive before the request is FAILED."""


@lambda_handler(*AWS_ERRORS, RequestUnknown)
def handler(event: Any, _context: LambdaContext) -> Mapping[str, object]:
    """Dispatch the request of a schedule's event."""
    own = settings.load(DispatchSettings)
    return dispatch(RequestTable(own.request_table), request_id_of(as_object(event)))


def dispatch(table: RequestTable, deletion_request_id: str) -> Mapping[str, object]:
    """Start the next attempt if the request is due; a request that is not is no error.

    Raises:
        RequestUnknown: there is no such request.
    """
    own = settings.load(DispatchSettings)
    record = table.read(deletion_request_id)
    if record is None:
        raise RequestUnknown
    if record.status not in STARTABLE or record.due_at > clock.now():
        telemetry.count(metrics.DUPLICATES_IGNORED)
        return _answer(record, "not due")
    if record.attempt - record.attempt_base >= own.max_dispatches:
        return _exhaust(table, record)
    try:
        table.update(DISPATCH, deletion_request_id, _values(record, own))
    except ConditionFailed as failed:
        if not _may_be_mine(record, failed.record):
            telemetry.count(metrics.DUPLICATES_IGNORED)
            return _answer(record, "dispatched by another")
    return _start(own, record, record.attempt + 1)


def _values(record: Record, own: DispatchSettings) -> dict[str, object]:
    now = clock.now()
    unclaimed = max(0, record.attempt - record.claimed)
    visibility = min(own.dispatch_visibility * 2 ** min(unclaimed, 30), LONGEST_VISIBILITY)
    return {
        "now": now,
        "attempt": record.attempt,
        "attempt_base": record.attempt_base,
        "due_at": now + int(visibility.total_seconds()),
    }


def _may_be_mine(read: Record, now: Record | None) -> bool:
    """Whether the dispatch of the attempt read was written, perhaps by us: then its execution may be started twice."""
    return now is not None and now.status in STARTABLE and now.attempt == read.attempt + 1 and now.claimed < now.attempt


def _start(own: DispatchSettings, record: Record, attempt: int) -> Mapping[str, object]:
    request_id = record.deletion_request_id
    try:
        _start_execution(own, request_id, attempt)
    except AwsFailure:
        telemetry.count(metrics.START_FAILED)
        raise
    if record.status is Status.RETRYABLE:
        telemetry.count(metrics.RETRIED)
    telemetry.log("dispatched", deletion_request_id=request_id, attempt=attempt)
    return {"dispatched": True, "attempt": attempt}


def _start_execution(own: DispatchSettings, request_id: str, attempt: int) -> None:
    event = {"attempt": attempt, "deletion_request_id": request_id}
    with aws.our_errors("StartExecution"):
        try:
            aws.client("stepfunctions").start_execution(
                stateMachineArn=own.state_machine_arn,
                name=f"{request_id}-{attempt}",
                input=json.dumps(event, sort_keys=True),
            )
        except ClientError as error:
            if aws.error_code(error) != _ALREADY_STARTED:
                raise


def _exhaust(table: RequestTable, record: Record) -> Mapping[str, object]:
    now = clock.now()
    error = {"step": "Dispatch", "error": "DispatchesExhausted", "at": now}
    values = {"now": now, "attempt": record.attempt, "attempt_base": record.attempt_base, "error": error}
    try:
        table.update(EXHAUST, record.deletion_request_id, values)
    except ConditionFailed:
        return _answer(record, "dispatched by another")
    telemetry.count(metrics.FAILED)
    return _answer(record, "dispatches exhausted")


def _answer(record: Record, outcome: str) -> Mapping[str, object]:
    telemetry.log(outcome, deletion_request_id=record.deletion_request_id, attempt=record.attempt)
    return {"dispatched": False}
