"""The frame around every handler: what makes a function of ours a Lambda handler.

It parses the event, begins and finishes the checkpoint, writes one log line, and lets only declared errors out, each
with its own message: a foreign message could hold personal data, and Step Functions keeps it for 90 days.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import update_wrapper
from importlib import import_module
from typing import Any

from handlers.core import clock, metrics, settings, telemetry
from handlers.core.checkpoint import Again, Checkpoint, Done, FrameCheckpoint, LambdaContext, Postpone, StepDone
from handlers.core.errors import (
    AccessDenied,
    DeletionError,
    Held,
    InvalidEvent,
    OwnershipLost,
    PatienceSpent,
    RequestUnknown,
    SettingsError,
    StepMayStillRun,
    StoreMissing,
    StoreRefused,
    StoreUnavailable,
    Superseded,
    Throttled,
    UndoInFlight,
    Unexpected,
)
from handlers.core.events import TaskInput, is_request_id
from handlers.core.person import Person
from handlers.core.record import Record
from handlers.core.request_table import ConditionFailed, RequestTable
from handlers.core.settings import StepSettings, UndoSettings
from handlers.core.states import StepStatus
from handlers.core.transitions import UNDO_CALL, begin

AWS_ERRORS: tuple[type[DeletionError], ...] = (
    AccessDenied,
    StoreMissing,
    StoreRefused,
    StoreUnavailable,
    Throttled,
)
"""What handlers.core.aws makes of an AWS error."""
FRAME_ERRORS: tuple[type[DeletionError], ...] = (InvalidEvent, SettingsError, Unexpected)
"""What the frame of any handler raises."""
STEP_ERRORS: tuple[type[DeletionError], ...] = (
    *AWS_ERRORS,
    *FRAME_ERRORS,
    OwnershipLost,
    PatienceSpent,
    RequestUnknown,
    Superseded,
    UndoInFlight,
)
"""What the frame of any step raises besides the step's own errors."""

UNDO_ERRORS: tuple[type[DeletionError], ...] = (
    *AWS_ERRORS,
    *FRAME_ERRORS,
    RequestUnknown,
    StepMayStillRun,
)
"""What the frame of any compensation raises besides the compensation's own errors."""

Body = Callable[[Any, LambdaContext], Mapping[str, object]]
Remaining = Callable[[Person], Mapping[str, int]]
Preflight = Callable[[Person], Sequence[str]]
Undo = Callable[[Person], None]
Answer = Done | Again | Postpone
Work = Callable[[Checkpoint], Answer]


class Handler:
    """A Lambda handler that declares what it raises.

    Calling it with (event, context) is what Lambda does.
    """

    def __init__(self, function: Callable[..., Any], body: Body, raises: tuple[type[DeletionError], ...]) -> None:
        self.raises = raises
        """Every error class that can leave it."""
        self._body = body
        update_wrapper(self, function)

    def __call__(self, event: Any, context: LambdaContext) -> Mapping[str, object]:
        """Run the handler; only declared errors leave it, and none with a foreign message or traceback."""
        try:
            return self._body(event, context)
        except self.raises as error:
            if isinstance(error, OwnershipLost | Superseded):
                telemetry.count(metrics.FENCED_OUT)
            telemetry.log("failed", **_request_of(event), error=type(error).__name__, place=telemetry.place_of(error))
            raise error.with_traceback(None) from None
        except Exception as error:  # noqa: BLE001 (masking everything else is this class's purpose)
            masked = Unexpected(type(error).__name__, telemetry.place_of(error))
        telemetry.log("failed", **_request_of(event), error="Unexpected", place=str(masked))
        raise masked


def _request_of(event: object) -> dict[str, object]:
    """The field of a log line that finds a request's failures; nothing where the event names no request of ours."""
    request_id = event.get("deletion_request_id") if isinstance(event, Mapping) else None
    return {"deletion_request_id": request_id} if is_request_id(request_id) else {}


def lambda_handler(*raises: type[DeletionError]) -> Callable[[Body], Handler]:
    """Make a plain function of (event, context) a handler that declares these errors."""

    def decorate(function: Body) -> Handler:
        return Handler(function, function, (*FRAME_ERRORS, *raises))

    return decorate


def step_handler(*raises: type[DeletionError]) -> Callable[[Work], Handler]:
    """Make a function of one begun checkpoint the handler of a step that declares these errors besides STEP_ERRORS."""

    def decorate(work: Work) -> Handler:
        return Handler(work, lambda event, context: _run_step(work, event, context), (*STEP_ERRORS, *raises))

    return decorate


def compensation(*raises: type[DeletionError]) -> Callable[[Undo], Handler]:
    """Make a function of the person a compensation's handler that declares these errors besides UNDO_ERRORS.

    The function may run any number of times, also for a step that had no effect yet.
    """

    def decorate(undo: Undo) -> Handler:
        return Handler(undo, lambda event, _: _run_undo(undo, event), (*UNDO_ERRORS, *raises))

    return decorate


def _run_undo(undo: Undo, event: object) -> Mapping[str, object]:
    task = TaskInput.of(event)
    own = settings.load(UndoSettings)
    now = clock.now()
    values = {
        "me": task.owner,
        "now": now,
        "due_at": now + int(own.lease.total_seconds()),
        "step_dead": now - int(own.step_timeout.total_seconds()),
    }
    try:
        record = RequestTable(own.request_table).update(UNDO_CALL, task.deletion_request_id, values, step=task.step)
    except ConditionFailed as failed:
        return _not_undone(failed.record, task)
    if record.person is not None:
        undo(record.person)
    telemetry.log("step undone", deletion_request_id=task.deletion_request_id, step=task.step)
    return {"done": True}


def _not_undone(record: Record | None, task: TaskInput) -> Mapping[str, object]:
    if record is None:
        raise RequestUnknown
    is_undoing = record.undoing == record.attempt and record.step(task.step).status is StepStatus.UNDOING
    if record.is_owned_by(task.owner) and is_undoing:
        raise StepMayStillRun(task.deletion_request_id, task.step)
    telemetry.log("nothing to undo", deletion_request_id=task.deletion_request_id, step=task.step)
    return {"done": True}


def _run_step(work: Work, event: object, context: LambdaContext) -> Mapping[str, object]:
    task = TaskInput.of(event)
    own = settings.load(StepSettings)
    table = RequestTable(own.request_table)
    if task.verify:
        return _list_remaining(task, own, table)
    if task.preflight:
        return _check_stores(task, own, table)
    try:
        checkpoint = FrameCheckpoint.begin(
            begin(own.step_kind, erases=own.step_erases),
            task,
            context,
            table=table,
            lease=own.lease,
            undo_timeout=own.undo_timeout,
        )
    except StepDone:
        return _answer(task, Done(), {})
    had = sum(checkpoint.deleted.values())
    try:
        answer = work(checkpoint)
    except Held as held:
        checkpoint.hold(held)
        telemetry.count(metrics.HELD)
        raise
    if isinstance(answer, Done):
        checkpoint.finish()
    elif isinstance(answer, Again):
        checkpoint.save(answer.wait)
    else:
        checkpoint.save(timedelta(0))
        checkpoint.require_patience(answer.bounded, own.patience)
    return {**_answer(task, answer, checkpoint.deleted), **_progress(answer, sum(checkpoint.deleted.values()) - had)}


def _progress(answer: Answer, deleted: int) -> Mapping[str, object]:
    """For an attempt that uses up its turns: whether it got on all the same, which is no failure."""
    return {"progress": True} if isinstance(answer, Again) and deleted > 0 else {}


def _answer(task: TaskInput, answer: Answer, deleted: Mapping[str, int]) -> Mapping[str, object]:
    wait = answer.wait if isinstance(answer, Again) else timedelta(0)
    postponed = {"postpone": int(answer.bounded.total_seconds())} if isinstance(answer, Postpone) else {}
    done = isinstance(answer, Done)
    telemetry.log(
        "step done" if done else "step goes on",
        deletion_request_id=task.deletion_request_id,
        step=task.step,
        deleted=telemetry.totals(deleted),
    )
    return {"done": done, "wait": int(wait.total_seconds()), **postponed}


def _person(task: TaskInput, table: RequestTable) -> Person:
    record = table.read(task.deletion_request_id)
    if record is None:
        raise RequestUnknown
    if record.person is None:
        raise OwnershipLost(task.deletion_request_id, task.step)
    return record.person


def _check_stores(task: TaskInput, own: StepSettings, table: RequestTable) -> Mapping[str, object]:
    preflight: Preflight = resolve("STEP_PREFLIGHT", own.step_preflight)
    problems = list(preflight(_person(task, table)))
    telemetry.log(
        "stores checked", deletion_request_id=task.deletion_request_id, step=task.step, outcome=problems or "fit"
    )
    return {"problems": problems}


def _list_remaining(task: TaskInput, own: StepSettings, table: RequestTable) -> Mapping[str, object]:
    verify: Remaining = resolve("STEP_VERIFY", own.step_verify)
    remaining = verify(_person(task, table))
    telemetry.log(
        "listed",
        deletion_request_id=task.deletion_request_id,
        step=task.step,
        remaining=telemetry.totals(remaining),
    )
    return {"remaining": telemetry.totals(remaining)}


def resolve(variable: str, path: str) -> Any:
    """The function at a dotted path, e.g. handlers.steps.delete_files.remaining.

    Raises:
        SettingsError: there is none; the message names the variable that it came from.
    """
    module, _, name = path.rpartition(".")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError):
        raise SettingsError((f"{variable} names no function; deploy again",)) from None
