"""What an operator or an application may ask of an accepted request: cancel, hold, release, redrive; of a person: hold.

Safe to repeat because: each is one conditional transition that recognises itself, and a wish that is already granted is
answered with the state that grants it; there is no second protocol.
Leaves open: a hold on a person writes the guard first and the open request after it. A crash between the two leaves the
open request running until the hold is asked for again; no new request can begin in that time.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from handlers.core import clock, metrics, telemetry
from handlers.core.errors import AwsFailure, NotPossible, PersonHeld, RequestUnknown, StoreUnavailable
from handlers.core.record import Record
from handlers.core.request_table import ConditionFailed, RequestTable
from handlers.core.states import STARTABLE, Status
from handlers.core.transition import Guard, Transition
from handlers.core.transitions import (
    CANCEL,
    CANCEL_TOUCHED,
    GUARD_HOLD,
    GUARD_RELEASE,
    HOLD,
    HOLD_UNTIL,
    REDRIVE,
    RELEASE,
)
from handlers.dispatch import dispatch

TRIES = 3
"""Looks at a guard or a request that changes between a look and the write."""

_HOLDABLE = frozenset({Status.SCHEDULED, Status.RETRYABLE, Status.PROCESSING, Status.HELD})
_GOING_ON = frozenset({Status.SCHEDULED, Status.RETRYABLE, Status.PROCESSING})
_UNDER_WAY = frozenset({Status.RETRYABLE, Status.PROCESSING})

RequestOperation = Callable[[RequestTable, Record], object]
"""One of the operations on a request, with what else it needs bound."""


def on_latest(table: RequestTable, record: Record, operation: RequestOperation) -> Record:
    """Run an operation, again if the request changed since it was read; the request as it is afterwards.

    Raises:
        NotPossible: it does not fit the request as it is now.
        RequestUnknown: the request's record has expired meanwhile.
        StoreUnavailable: the request kept changing; the same call again is safe.
    """
    for _ in range(TRIES):
        try:
            operation(table, record)
        except PersonHeld:
            raise
        except NotPossible:
            latest = _latest(table, record)
            if latest == record:
                raise
            record = latest
            continue
        return _latest(table, record)
    raise StoreUnavailable("UpdateItem", "ConditionalCheckFailedException")


def cancel(table: RequestTable, record: Record, *, expires_at: int | None = None) -> Status:
    """Cancel a request that waits or is FAILED, also one of a person who is held; the status it has then.

    CANCELLED at once if no step touched anything; otherwise RETRYABLE: the next attempt undoes, then cancels. That
    attempt may be PROCESSING already. An undo that FAILED is tried again.

    Args:
        table: the request table.
        record: as it was read.
        expires_at: epoch seconds at which the cancelled request's record may go; None: never.

    Raises:
        NotPossible: it runs, is COMPLETED, or has passed the pivot.
    """
    if record.status is Status.CANCELLED or _is_being_cancelled(record):
        return record.status
    request_id = record.deletion_request_id
    if "pivot_at" in record.attributes:
        raise NotPossible("cancel", request_id, f"{record.status} and has begun to erase")
    values = {"id": request_id, "now": clock.now(), "expires_at": expires_at}
    if "touched_at" in record.attributes:
        return _update(table, "cancel", CANCEL_TOUCHED, record, values)
    try:
        table.update_with_guard(CANCEL, request_id, record.subject, values)
    except ConditionFailed as failed:
        raise NotPossible("cancel", request_id, _seen(failed, record)) from None
    return Status.CANCELLED


def hold(table: RequestTable, record: Record, *, lasts: timedelta | None = None) -> Status:
    """Hold a request, also one under way: its worker is fenced out at its next batch. A held one gets the new end.

    Args:
        table: the request table.
        record: as it was read.
        lasts: from now; None until somebody releases it.

    Raises:
        NotPossible: it has ended, or changed since it was read.
    """
    if record.status is Status.HELD and not record.due_at and lasts is None:
        return Status.HELD
    values: dict[str, object] = {"fence": record.fence, "fence_after": record.fence + 1}
    transition = HOLD
    if lasts is not None:
        transition = HOLD_UNTIL
        values["due_at"] = clock.now() + int(lasts.total_seconds())
    status = _update(table, "hold", transition, record, values)
    if record.status is not Status.HELD:
        telemetry.count(metrics.HELD_BY_OPERATOR)
    return status


def release(table: RequestTable, record: Record) -> Status:
    """Let a held request go on where it was; nothing begins before its grace period ends.

    Raises:
        PersonHeld: release the person instead.
        NotPossible: it has ended, or changed since it was read.
    """
    if record.status in _GOING_ON:
        return record.status
    _require(record, Status.HELD, "release")
    to = Status.RETRYABLE if record.attempt else Status.SCHEDULED
    values: dict[str, object] = {
        "fence": record.fence,
        "status": str(to),
        "due_at": max(clock.now(), int(record.attributes["grace_ends_at"])),
    }
    _update_if_free(table, RELEASE, record, values)
    return to


def redrive(table: RequestTable, record: Record) -> Status:
    """Give a FAILED request a fresh budget of failures and dispatches; one that goes on without a failure has it.

    Raises:
        PersonHeld: release the person first.
        NotPossible: it is not FAILED, or changed since it was read.
    """
    after = _redriven(record)
    if after is not record.status:
        _update_if_free(table, REDRIVE, record, {"attempt": record.attempt, "now": clock.now()})
    return after


def would_redrive(table: RequestTable, record: Record) -> Status:
    """What `redrive` would answer or raise, found out without a write."""
    after = _redriven(record)
    if after is not record.status and is_person_held(table.read_guard(record.subject)):
        raise PersonHeld(REDRIVE.name, record.deletion_request_id, str(record.status))
    return after


def hold_person(table: RequestTable, subject: str) -> Record | None:
    """Hold all that belongs to a person: the open request, and any that is asked for before the release.

    A FAILED request stays FAILED, but cannot be redriven. The hold has no end of its own, and takes the open request's.

    Returns:
        The open request afterwards; None if there is none.

    Raises:
        StoreUnavailable: guard or request kept changing; the same call again is safe.
    """
    guard = _write_guard(table, subject, GUARD_HOLD, to_be_held=True)
    return _with_open_request(table, guard, _hold_if_it_can_be)


def release_person(table: RequestTable, subject: str) -> Record | None:
    """Release a person and the open request with them, also if that was held before for a reason of its own.

    Returns:
        The open request afterwards; None if there is none.

    Raises:
        PersonHeld: somebody held the person again meanwhile.
        StoreUnavailable: guard or request kept changing; the same call again is safe.
    """
    guard = _write_guard(table, subject, GUARD_RELEASE, to_be_held=False)
    return _with_open_request(table, guard, _release_if_held)


def start_if_due(table: RequestTable, record: Record) -> bool:
    """Start the next attempt of a request that became due, so that nobody waits for the sweeper; whether it was.

    The operation before it is done already: a service that fails here only leaves the start to the sweeper.
    """
    if record.status not in STARTABLE or record.due_at > clock.now():
        return False
    try:
        return bool(dispatch(table, record.deletion_request_id)["dispatched"])
    except AwsFailure as failure:
        telemetry.log("not dispatched", deletion_request_id=record.deletion_request_id, aws_code=failure.code)
        return False


def is_person_held(guard: Mapping[str, Any]) -> bool:
    """Whether the user of this guard item is held."""
    return "held_at" in guard


def _is_being_cancelled(record: Record) -> bool:
    return (
        record.status in _UNDER_WAY
        and record.attributes.get("cancel_requested") is True
        and "pivot_at" not in record.attributes
    )


def _redriven(record: Record) -> Status:
    if record.status in _UNDER_WAY and not record.failures:
        return record.status
    _require(record, Status.FAILED, "redrive")
    return Status.RETRYABLE


def _require(record: Record, status: Status, operation: str) -> None:
    if record.status is not status:
        raise NotPossible(operation, record.deletion_request_id, str(record.status))


def _update(
    table: RequestTable, name: str, transition: Transition, record: Record, values: Mapping[str, object]
) -> Status:
    try:
        return table.update(transition, record.deletion_request_id, values).status
    except ConditionFailed as failed:
        raise NotPossible(name, record.deletion_request_id, _seen(failed, record)) from None


def _update_if_free(table: RequestTable, transition: Transition, record: Record, values: Mapping[str, object]) -> None:
    """Run a transition that the guard of a held person refuses."""
    request_id = record.deletion_request_id
    try:
        table.update_with_guard(transition, request_id, record.subject, values)
    except ConditionFailed as failed:
        if failed.guard is not None:
            raise PersonHeld(transition.name, request_id, str(record.status)) from None
        raise NotPossible(transition.name, request_id, _seen(failed, record)) from None


def _seen(failed: ConditionFailed, record: Record) -> str:
    return str((failed.record or record).status)


def _latest(table: RequestTable, record: Record) -> Record:
    latest = table.read(record.deletion_request_id)
    if latest is None:
        raise RequestUnknown
    return latest


def _write_guard(table: RequestTable, subject: str, write: Guard, *, to_be_held: bool) -> Mapping[str, Any]:
    """Make the guard held or not; the guard afterwards."""
    for _ in range(TRIES):
        guard = table.read_guard(subject)
        if is_person_held(guard) is to_be_held:
            return guard
        fence = guard.get("fence", 0)
        try:
            return table.update_guard(write, subject, {"fence": fence, "fence_after": fence + 1, "now": clock.now()})
        except ConditionFailed:
            # Somebody else wrote, or this very write came through without its answer: the next look tells.
            continue
    raise StoreUnavailable("UpdateItem", "ConditionalCheckFailedException")


def _with_open_request(table: RequestTable, guard: Mapping[str, Any], operation: RequestOperation) -> Record | None:
    active = guard.get("active_request")
    record = table.read(active) if active else None
    return on_latest(table, record, operation) if record is not None else None


def _hold_if_it_can_be(table: RequestTable, record: Record) -> None:
    if record.status in _HOLDABLE:
        hold(table, record)


def _release_if_held(table: RequestTable, record: Record) -> None:
    if record.status is Status.HELD:
        release(table, record)
