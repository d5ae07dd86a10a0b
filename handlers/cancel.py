"""Cancels a request for the application's own "keep my account": it can do nothing else, so may whoever invokes it.

Safe to repeat because: cancelling what is cancelled, or is being cancelled, changes nothing.
Leaves open: once the first erasing step has begun there is no way back; the answer is NotPossible then, and while an
attempt runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from handlers import schedules
from handlers.core import metrics, settings, telemetry
from handlers.core.checkpoint import LambdaContext
from handlers.core.errors import InvalidEvent, NotPossible, RequestUnknown
from handlers.core.events import as_object, request_id_of
from handlers.core.frame import AWS_ERRORS, lambda_handler
from handlers.core.keeping import KeepSettings
from handlers.core.record import Record
from handlers.core.request_table import RequestTable
from handlers.core.states import Status
from handlers.operations import cancel, on_latest, start_if_due
from handlers.schedules import GroupSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequestSettings:
    """What whoever cancels needs, besides the settings of dispatch, of keeping and of schedules."""

    request_table: str
    """The request table's name."""


@lambda_handler(*AWS_ERRORS, NotPossible, RequestUnknown)
def handler(event: Any, _context: LambdaContext) -> Mapping[str, object]:
    """Cancel the request of {"deletion_request_id": ...}; CANCELLED, or RETRYABLE while an attempt undoes it first."""
    fields = as_object(event)
    if fields.keys() != {"deletion_request_id"}:
        raise InvalidEvent("event", "deletion_request_id and no other field")
    table = RequestTable(settings.load(CancelRequestSettings).request_table)
    record = table.read(request_id_of(fields))
    if record is None:
        raise RequestUnknown
    after = cancel_request(table, record)
    start_if_due(table, after)
    return {"deletion_request_id": after.deletion_request_id, "status": str(after.status)}


def cancel_request(table: RequestTable, record: Record) -> Record:
    """Cancel a request and take its schedule away; the request afterwards.

    Raises:
        NotPossible: it runs, is COMPLETED, or has passed the pivot.
    """
    after = on_latest(table, record, partial(cancel, expires_at=settings.load(KeepSettings).expires_at()))
    if after.status is Status.CANCELLED:
        schedules.delete(settings.load(GroupSettings), after.deletion_request_id)
    if after.status is not record.status:
        telemetry.log("cancelled", deletion_request_id=after.deletion_request_id, outcome=str(after.status))
    if after.status is Status.CANCELLED is not record.status:
        telemetry.count(metrics.CANCELLED)
    return after
