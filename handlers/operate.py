"""What operators do to a request or a person: cancel, hold, release, redrive; one event, one operation, one answer.

Safe to repeat because: handlers/operations.py is. What becomes due is dispatched at once, and a schedule that is
missing is made; neither fails the operation, as the sweeper makes up for both.
Leaves open: who may invoke this function may hold and redrive any request: grant it to operators, not to applications.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Any

from handlers import schedules
from handlers.cancel import cancel_request
from handlers.core import settings, telemetry
from handlers.core.checkpoint import LambdaContext
from handlers.core.errors import InvalidEvent, NotPossible, RequestUnknown
from handlers.core.events import as_object, request_id_of
from handlers.core.frame import AWS_ERRORS, lambda_handler
from handlers.core.record import Record
from handlers.core.request_table import RequestTable
from handlers.core.states import Status
from handlers.core.subjects import SubjectSettings, subject_of
from handlers.core.templates import NAME_RULE, is_name
from handlers.operations import (
    RequestOperation,
    hold,
    hold_person,
    on_latest,
    redrive,
    release,
    release_person,
    start_if_due,
)
from handlers.schedules import ScheduleSettings

FIELDS = ("deletion_request_id", "lasts_seconds", "operation", "user_id")
LONGEST_HOLD = timedelta(days=3650)
"""A hold for longer is one without an end."""


class Operation(StrEnum):
    """What may be asked for."""

    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"
    REDRIVE = "redrive"
    HOLD_PERSON = "hold_person"
    RELEASE_PERSON = "release_person"


_OF_PERSON: Mapping[Operation, Callable[[RequestTable, str], Record | None]] = {
    Operation.HOLD_PERSON: hold_person,
    Operation.RELEASE_PERSON: release_person,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperateSettings:
    """What the operations need, besides the settings of what they call."""

    request_table: str
    """The request table's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The operator's event, checked; its repr shows no personal data."""

    operation: Operation
    deletion_request_id: str | None
    """Which request, or whose; None: the user is named."""
    user_id: str | None = field(repr=False)
    """Whose open request, or which person; None: a request is named."""
    lasts: timedelta | None
    """How long a hold lasts from now; None: until somebody releases it."""

    @classmethod
    def of(cls, event: object) -> "Order":
        """Parse an event.

        Raises:
            InvalidEvent: names the field and the rule, never the value.
        """
        fields = as_object(event)
        if not fields.keys() <= set(FIELDS):
            raise InvalidEvent("event", f"no fields but {', '.join(FIELDS)}")
        if ("deletion_request_id" in fields) == ("user_id" in fields):
            raise InvalidEvent("event", "either deletion_request_id or user_id")
        operation = _operation(fields.get("operation"))
        return cls(
            operation=operation,
            deletion_request_id=request_id_of(fields) if "deletion_request_id" in fields else None,
            user_id=_user_id(fields["user_id"]) if "user_id" in fields else None,
            lasts=_lasts(fields["lasts_seconds"], operation) if "lasts_seconds" in fields else None,
        )


@lambda_handler(*AWS_ERRORS, NotPossible, RequestUnknown)
def handler(event: Any, _context: LambdaContext) -> Mapping[str, object]:
    """Carry out {"operation", "deletion_request_id" or "user_id", "lasts_seconds" for a hold with an end}.

    Answers with the request as it is then: its id and status, and whether an attempt was started at once; id and status
    are null for a person without an open request.

    Raises:
        NotPossible: the operation does not fit the request's state.
        RequestUnknown: there is no such request, or none is open for this user.
    """
    order = Order.of(event)
    table = RequestTable(settings.load(OperateSettings).request_table)
    after = _carry_out(table, order)
    if after is None:
        telemetry.log(order.operation, outcome="no open request")
        return {"operation": order.operation, "deletion_request_id": None, "status": None, "dispatched": False}
    telemetry.log(order.operation, deletion_request_id=after.deletion_request_id, outcome=str(after.status))
    return {
        "operation": order.operation,
        "deletion_request_id": after.deletion_request_id,
        "status": str(after.status),
        "dispatched": _start(table, after),
    }


def _carry_out(table: RequestTable, order: Order) -> Record | None:
    if order.operation in _OF_PERSON:
        return _OF_PERSON[order.operation](table, _subject(table, order))
    record = _request(table, order)
    if order.operation is Operation.CANCEL:
        return cancel_request(table, record)
    operations: Mapping[Operation, RequestOperation] = {
        Operation.HOLD: partial(hold, lasts=order.lasts),
        Operation.RELEASE: release,
        Operation.REDRIVE: redrive,
    }
    return on_latest(table, record, operations[order.operation])


def _subject(table: RequestTable, order: Order) -> str:
    if order.user_id is None:
        return _request(table, order).subject
    return subject_of(settings.load(SubjectSettings), order.user_id)


def _request(table: RequestTable, order: Order) -> Record:
    request_id = order.deletion_request_id
    if order.user_id is not None:
        request_id = table.read_guard(_subject(table, order)).get("active_request")
    record = table.read(request_id) if request_id else None
    if record is None:
        raise RequestUnknown
    return record


def _start(table: RequestTable, record: Record) -> bool:
    """Let a request go on that was released or redriven: by its schedule, or at once."""
    if record.status is Status.SCHEDULED:
        grace_ends_at = int(record.attributes["grace_ends_at"])
        schedules.create(settings.load(ScheduleSettings), record.deletion_request_id, grace_ends_at)
    return start_if_due(table, record)


def _operation(value: object) -> Operation:
    if not isinstance(value, str) or value not in set(Operation):
        raise InvalidEvent("operation", f"one of {', '.join(Operation)}")
    return Operation(value)


def _user_id(value: object) -> str:
    if not isinstance(value, str) or not is_name(value):
        raise InvalidEvent("user_id", NAME_RULE)
    return value


def _lasts(value: object, operation: Operation) -> timedelta:
    if operation is not Operation.HOLD:
        raise InvalidEvent("lasts_seconds", "only with the operation hold")
    longest = int(LONGEST_HOLD.total_seconds())
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= longest:
        raise InvalidEvent("lasts_seconds", f"a whole number from 1 to {longest}")
    return timedelta(seconds=value)
