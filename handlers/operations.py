"""What an operator or an application may ask of an accepted request: cancel, hold, release, redrive.

Safe to repeat because: each is one conditional transition that recognises itself; there is no second protocol.
"""

from datetime import timedelta

from handlers.core import clock
from handlers.core.errors import NotPossible
from handlers.core.record import Record
from handlers.core.request_table import ConditionFailed, RequestTable
from handlers.core.states import Status
from handlers.core.transition import Transition
from handlers.core.transitions import CANCEL, CANCEL_TOUCHED, HOLD, HOLD_UNTIL, REDRIVE, RELEASE


def cancel(table: RequestTable, record: Record) -> Status:
    """Cancel a request that waits; the status it has then.

    CANCELLED at once if no step touched anything; otherwise RETRYABLE: the next attempt undoes, then cancels.

    Raises:
        NotPossible: it runs, has ended, or has passed the pivot.
    """
    if record.status is Status.CANCELLED:
        return Status.CANCELLED
    request_id = record.deletion_request_id
    values = {"id": request_id, "now": clock.now()}
    try:
        if "touched_at" in record.attributes:
            return table.update(CANCEL_TOUCHED, request_id, values).status
        table.update_with_guard(CANCEL, request_id, record.subject, values)
    except ConditionFailed as failed:
        raise NotPossible("cancel", request_id, _seen(failed)) from None
    return Status.CANCELLED


def hold(table: RequestTable, record: Record, *, lasts: timedelta | None = None) -> Status:
    """Hold a request, also one under way: its worker is fenced out at its next batch.

    Args:
        table: the request table.
        record: as it was read.
        lasts: from now; None until somebody releases it.

    Raises:
        NotPossible: it has ended, or changed since it was read.
    """
    if record.status is Status.HELD:
        return Status.HELD
    values: dict[str, object] = {"fence": record.fence, "fence_after": record.fence + 1}
    transition = HOLD
    if lasts is not None:
        transition = HOLD_UNTIL
        values["due_at"] = clock.now() + int(lasts.total_seconds())
    return _update(table, "hold", transition, record, values)


def release(table: RequestTable, record: Record) -> Status:
    """Let a held request go on where it was; nothing begins before its grace period ends.

    Raises:
        NotPossible: it is not held, or changed since it was read.
    """
    _require(record, Status.HELD, "release")
    values: dict[str, object] = {
        "fence": record.fence,
        "status": str(Status.RETRYABLE if record.attempt else Status.SCHEDULED),
        "due_at": max(clock.now(), int(record.attributes["grace_ends_at"])),
    }
    return _update(table, "release", RELEASE, record, values)


def redrive(table: RequestTable, record: Record) -> Status:
    """Give a FAILED request a fresh budget of failures and dispatches.

    Raises:
        NotPossible: it is not FAILED, or changed since it was read.
    """
    _require(record, Status.FAILED, "redrive")
    return _update(table, "redrive", REDRIVE, record, {"attempt": record.attempt, "now": clock.now()})


def _require(record: Record, status: Status, operation: str) -> None:
    if record.status is not status:
        raise NotPossible(operation, record.deletion_request_id, str(record.status))


def _update(
    table: RequestTable, name: str, transition: Transition, record: Record, values: dict[str, object]
) -> Status:
    try:
        return table.update(transition, record.deletion_request_id, values).status
    except ConditionFailed as failed:
        raise NotPossible(name, record.deletion_request_id, _seen(failed)) from None


def _seen(failed: ConditionFailed) -> str:
    return str(failed.record.status) if failed.record else "no record"
