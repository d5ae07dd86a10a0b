"""Makes the request CANCELLED and releases the user's guard, in one transaction, after everything touched was undone.

Done when: the record says CANCELLED, by this execution; nothing is deleted but the request's own personal data.
Safe to repeat because: the record names the execution that cancelled it, so a repeated call finds its own write.
Leaves open: point-in-time recovery of the request table keeps the removed attributes for 35 days
(https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/PointInTimeRecovery.html).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from handlers.core import clock, metrics, settings, telemetry
from handlers.core.checkpoint import LambdaContext
from handlers.core.errors import OwnershipLost, RequestUnknown, StoreUnavailable
from handlers.core.events import TaskInput
from handlers.core.frame import AWS_ERRORS, lambda_handler
from handlers.core.keeping import KeepSettings
from handlers.core.record import Record
from handlers.core.request_table import ConditionFailed, RequestTable
from handlers.core.states import Status
from handlers.core.transitions import MARK_CANCELLED

TRIES = 3
"""Looks at the record, if it keeps changing between a look and the write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelSettings:
    """What the cancellation needs."""

    request_table: str
    """The request table's name."""


@lambda_handler(*AWS_ERRORS, OwnershipLost, RequestUnknown)
def handler(event: Any, _context: LambdaContext) -> Mapping[str, object]:
    """Cancel the request if somebody asked for it and the pivot was not passed."""
    task = TaskInput.of(event)
    table = RequestTable(settings.load(CancelSettings).request_table)
    for _ in range(TRIES):
        record = table.read(task.deletion_request_id)
        if record is None:
            raise RequestUnknown
        if record.status is Status.CANCELLED and record.attributes.get("cancelled_by") == task.owner:
            return {"done": True}
        if not record.is_owned_by(task.owner):
            raise OwnershipLost(task.deletion_request_id, task.step)
        if not _is_cancellable(record):
            telemetry.log("not cancellable", deletion_request_id=task.deletion_request_id)
            return {"done": False}
        values = {
            "me": task.owner,
            "now": clock.now(),
            "id": task.deletion_request_id,
            "expires_at": settings.load(KeepSettings).expires_at(),
        }
        try:
            table.update_with_guard(MARK_CANCELLED, task.deletion_request_id, record.subject, values)
        except ConditionFailed:
            continue
        telemetry.count(metrics.CANCELLED)
        telemetry.log("cancelled", deletion_request_id=task.deletion_request_id, attempt=record.attempt)
        return {"done": True}
    raise StoreUnavailable("TransactWriteItems", "ConditionalCheckFailed")


def _is_cancellable(record: Record) -> bool:
    return record.attributes.get("cancel_requested") is True and "pivot_at" not in record.attributes
