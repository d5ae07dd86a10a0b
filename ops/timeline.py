"""One request from its beginning to where it stands: times, steps, execution, schedule."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from handlers.core import aws
from handlers.core.states import Status
from handlers.recover import described
from ops.reading import Request

RUNNING = "RUNNING"
"""The status of an execution that has not ended."""
MAX_CAUSE = 500
"""Characters of a cause that are shown."""

_CONSOLES = {"aws-cn": "console.amazonaws.cn", "aws-us-gov": "console.amazonaws-us-gov.com"}
_MOMENTS = {
    "requested_at": "requested",
    "accepted_at": "accepted",
    "grace_ends_at": "grace period ends",
    "touched_at": "first step that can be undone began",
    "pivot_at": "first step that cannot be undone began",
    "cancelled_at": "cancelled",
    "completed_at": "completed",
    "erase_by": "promised end",
}
_DUE: Mapping[str, str] = {
    Status.SCHEDULED: "due: the deletion begins",
    Status.PROCESSING: "lease ends",
    Status.RETRYABLE: "due: next attempt",
    Status.HELD: "hold ends",
}
_STEP_MOMENTS = {
    "first_begun_at": "began",
    "begun_at": "began again",
    "done_at": "done",
    "undo_begun_at": "undo began",
    "undone_at": "undone",
}


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """Something that happened, or will."""

    at: int
    """Epoch seconds."""
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """An execution as Step Functions describes it."""

    arn: str
    status: str
    started_at: int = 0
    stopped_at: int = 0
    error: str | None = None
    cause: str | None = None
    """The message of the error: ours, without personal data."""

    @property
    def link(self) -> str:
        """Where the console shows it."""
        return console_link(self.arn)


def moments(request: Request) -> list[Moment]:
    """Everything that the record has a time for, in order."""
    return sorted({*_own(request), *_of_steps(request.fields.get("steps", {}))})


def console_link(execution_arn: str) -> str:
    """The console's page of an execution."""
    _, partition, _, region, *_ = execution_arn.split(":")
    host = _CONSOLES.get(partition, "console.aws.amazon.com")
    return f"https://{region}.{host}/states/home?region={region}#/v2/executions/details/{execution_arn}"


def last_execution(machine_arn: str, request: Request) -> Execution | None:
    """The execution of the last dispatch; None if there was none.

    Raises:
        AwsFailure: Step Functions cannot be asked.
    """
    attempt = request.fields.get("attempt", 0)
    if not attempt:
        return None
    return describe(f"{machine_arn.replace(':stateMachine:', ':execution:')}:{request.id}-{attempt}")


def describe(execution_arn: str) -> Execution:
    """What Step Functions says of an execution.

    Raises:
        AwsFailure: Step Functions cannot be asked.
    """
    answer = described(execution_arn)
    return Execution(
        arn=execution_arn,
        status=str(answer["status"]),
        started_at=_epoch(answer.get("startDate")),
        stopped_at=_epoch(answer.get("stopDate")),
        error=answer.get("error"),
        cause=answer["cause"][:MAX_CAUSE] if answer.get("cause") else None,
    )


def schedule(group: str, request: Request) -> str | None:
    """The expression of the request's schedule, e.g. at(2026-01-31T08:00:00), always UTC; None if it has none.

    Raises:
        AwsFailure: the scheduler cannot be asked.
    """
    with aws.our_errors("GetSchedule"):
        try:
            answer = aws.client("scheduler").get_schedule(GroupName=group, Name=request.id)
        except ClientError as error:
            if aws.error_code(error) == "ResourceNotFoundException":
                return None
            raise
    return str(answer["ScheduleExpression"])


def _own(request: Request) -> Iterator[Moment]:
    for name, what in _MOMENTS.items():
        if request.time(name):
            yield Moment(request.time(name), what)
    error: Mapping[str, Any] = request.fields.get("last_error", {})
    if error:
        yield Moment(int(error["at"]), f"{error['step']}: {error['error']}")
    if request.time("due_at"):
        yield Moment(request.time("due_at"), _DUE.get(request.status, "due"))


def _of_steps(steps: Mapping[str, Mapping[str, Any]]) -> Iterator[Moment]:
    for step, fields in steps.items():
        for name, what in _STEP_MOMENTS.items():
            again = name == "begun_at" and fields.get("first_begun_at") == fields.get(name)
            if fields.get(name) and not again:
                yield Moment(int(fields[name]), f"{step} {what}")


def _epoch(time: Any) -> int:
    return int(time.timestamp()) if time else 0
