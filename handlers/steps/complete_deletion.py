"""Makes the request COMPLETED and the user's guard the tombstone, in one transaction.

Done when: the record says COMPLETED, by this execution; nothing is deleted but the request's own personal data.
Safe to repeat because: the record names the execution that completed it, so a repeated call finds its own write.
Leaves open: point-in-time recovery of the request table keeps the removed attributes for 35 days
(https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/PointInTimeRecovery.html).
"""

import hashlib
import json
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
from handlers.core.states import VERIFY_STEP, Status, StepStatus
from handlers.core.transitions import COMPLETE

TRIES = 3
"""Looks at the record, if it keeps changing between a look and the write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteSettings:
    """What the completion needs."""

    request_table: str
    """The request table's name."""
    deployed_steps: tuple[str, ...]
    """The step list that is deployed now, which may be longer than the caller's graph."""


@lambda_handler(*AWS_ERRORS, OwnershipLost, RequestUnknown)
def handler(event: Any, _context: LambdaContext) -> Mapping[str, object]:
    """Complete the request if every step that is deployed now is done."""
    task = TaskInput.of(event)
    own = settings.load(CompleteSettings)
    table = RequestTable(own.request_table)
    steps = (*own.deployed_steps, VERIFY_STEP)
    for _ in range(TRIES):
        record = _read(table, task)
        if record is None:
            return {"done": True, "missing": []}
        missing = [step for step in steps if record.step(step).status is not StepStatus.DONE]
        if missing:
            telemetry.log("steps missing", deletion_request_id=task.deletion_request_id, remaining=missing)
            return {"done": False, "missing": missing}
        try:
            _complete(table, record, task, steps, settings.load(KeepSettings).expires_at())
        except ConditionFailed:
            continue
        telemetry.count(metrics.COMPLETED)
        telemetry.count(metrics.COMPLETED_AFTER, clock.now() - record.attributes["grace_ends_at"])
        telemetry.log("completed", deletion_request_id=task.deletion_request_id, attempt=record.attempt)
        return {"done": True, "missing": []}
    raise StoreUnavailable("TransactWriteItems", "ConditionalCheckFailed")


def _read(table: RequestTable, task: TaskInput) -> Record | None:
    """The record of a request that this execution owns; None if this execution completed it."""
    record = table.read(task.deletion_request_id)
    if record is None:
        raise RequestUnknown
    if record.status is Status.COMPLETED and record.attributes.get("completed_by") == task.owner:
        return None
    if not record.is_owned_by(task.owner):
        raise OwnershipLost(task.deletion_request_id, task.step)
    return record


def _complete(
    table: RequestTable, record: Record, task: TaskInput, steps: tuple[str, ...], expires_at: int | None
) -> None:
    now = clock.now()
    values = {
        "me": task.owner,
        "now": now,
        "id": task.deletion_request_id,
        "receipt": receipt(record, now),
        "expires_at": expires_at,
    }
    table.update_with_guard(COMPLETE, task.deletion_request_id, record.subject, values, each=steps, known=record.steps)


def receipt(record: Record, completed_at: int) -> str:
    """SHA-256 over what was deleted, when, for whom (by subject) and by which definition; the record can prove it."""
    facts = {
        "completed_at": completed_at,
        "definition": record.attributes.get("definition", ""),
        "deleted": {step: dict(fields.deleted) for step, fields in record.steps.items()},
        "deletion_request_id": record.deletion_request_id,
        "subject": record.subject,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
