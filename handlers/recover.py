"""Takes a request away from an execution that has ended without saying so.

Safe to repeat because: Step Functions is asked whether the owner still runs before anything is touched, and the write
names the owner and the fence that were read. Unknown to Step Functions counts as ended: a name runs once.
Leaves open: an execution that still runs past its lease keeps its request; it is counted, and an operator looks. Events
of many executions at once are not paced: Lambda repeats what was throttled, then keeps it as a dead letter, and the
sweeper finds the request by its lease.
"""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from botocore.exceptions import ClientError

from handlers.core import aws, clock, metrics, settings, telemetry
from handlers.core.checkpoint import LambdaContext
from handlers.core.errors import ExecutionStillRuns, InvalidEvent, RequestUnknown
from handlers.core.events import as_object, is_request_id
from handlers.core.frame import AWS_ERRORS, lambda_handler
from handlers.core.record import Record
from handlers.core.request_table import ConditionFailed, RequestTable
from handlers.core.states import Status
from handlers.core.transitions import RECOVER
from handlers.operations import start_if_due

_EXECUTION = re.compile(r"(?P<id>del_[0-9A-Z]{26})-(?P<attempt>[1-9][0-9]*)")
_RUNNING = frozenset({"RUNNING", "PENDING_REDRIVE"})
_NO_EXECUTION = frozenset({"ExecutionDoesNotExist", "InvalidArn"})
UNKNOWN = "UNKNOWN"
"""The status of an execution that Step Functions has never heard of, or has forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverSettings:
    """What whoever recovers needs."""

    request_table: str
    """The request table's name."""
    backoff: timedelta
    """Wait after the second failed attempt; doubles with each failure."""
    backoff_limit: timedelta
    """The longest wait between two attempts."""


@lambda_handler(*AWS_ERRORS, ExecutionStillRuns, RequestUnknown)
def handler(event: Any, _context: LambdaContext) -> Mapping[str, object]:
    """Recover the request of a state machine's status-change event (FAILED, TIMED_OUT, ABORTED).

    Raises:
        ExecutionStillRuns: the event was faster than the service's own view; Lambda calls again.
    """
    execution, request_id, attempt = _parse(event)
    table = RequestTable(settings.load(RecoverSettings).request_table)
    record = table.read(request_id)
    if record is None:
        raise RequestUnknown
    if not record.is_owned_by(execution):
        if record.status is Status.FAILED and record.claimed == attempt:
            _tell_failed(record)
        telemetry.log("nothing to recover", deletion_request_id=request_id)
        return {"recovered": False}
    if not recover(table, record):
        telemetry.count(metrics.STILL_RUNNING)
        raise ExecutionStillRuns(request_id)
    return {"recovered": True}


def _tell_failed(record: Record) -> None:
    """Say what the graph wrote: it can neither count nor log."""
    last = record.attributes["last_error"]
    telemetry.count(metrics.FAILED)
    telemetry.log(
        "request failed", deletion_request_id=record.deletion_request_id, step=last["step"], error=last["error"]
    )


def recover(table: RequestTable, record: Record) -> bool:
    """Make a PROCESSING request RETRYABLE if its owner has ended; whether nobody runs it any more.

    After a first failure the next attempt is started at once.

    Raises:
        AwsFailure: a service could not be asked; nothing was changed.
    """
    status = str(described(record.owner)["status"])
    if status in _RUNNING:
        return False
    now = clock.now()
    values = {
        "owner": record.owner,
        "fence": record.fence,
        "fence_after": record.fence + 1,
        "failures": record.failures + 1,
        "due_at": now + _backoff(settings.load(RecoverSettings), record.failures),
        "error": {"step": "Execution", "error": status, "at": now},
    }
    try:
        after = table.update(RECOVER, record.deletion_request_id, values)
    except ConditionFailed:
        telemetry.log("nothing to recover", deletion_request_id=record.deletion_request_id)
        return True
    telemetry.count(metrics.RECOVERED)
    telemetry.log("recovered", deletion_request_id=record.deletion_request_id, outcome=status)
    start_if_due(table, after)
    return True


def described(execution: str) -> Mapping[str, Any]:
    """What Step Functions says of an execution; its status is UNKNOWN where it knows of none.

    Raises:
        AwsFailure: it cannot be asked.
    """
    with aws.our_errors("DescribeExecution"):
        try:
            answer: Mapping[str, Any] = aws.client("stepfunctions").describe_execution(
                executionArn=execution, includedData="METADATA_ONLY"
            )
        except ClientError as error:
            if aws.error_code(error) in _NO_EXECUTION:
                return {"status": UNKNOWN}
            raise
    return answer


def _backoff(own: RecoverSettings, failures: int) -> int:
    # The first one is an accident more often than an outage. Of later waits half is certain and half is drawn: attempts
    # of one outage spread out.
    if failures == 0:
        return 0
    longest = min(own.backoff * 2 ** min(failures - 1, 20), own.backoff_limit).total_seconds()
    return int(longest * random.uniform(0.5, 1))  # noqa: S311 (jitter, not a secret)


def _parse(event: object) -> tuple[str, str, int]:
    """The execution's ARN, its request and its attempt."""
    detail = as_object(as_object(event).get("detail"))
    execution, name = detail.get("executionArn"), detail.get("name")
    match = _EXECUTION.fullmatch(name) if isinstance(name, str) else None
    if not isinstance(execution, str) or match is None or not is_request_id(match["id"]):
        raise InvalidEvent("detail", "a status change of an execution called <deletion_request_id>-<attempt>")
    return execution, match["id"], int(match["attempt"])
