"""The Lambda functions around the steps: what each is for, and its handler."""

from handlers import cancel, dispatch, operate, recover, request, sweep
from handlers.core.frame import Handler
from handlers.steps import cancel_deletion, check_stores, complete_deletion, verify_erasure
from statemachine.step import Step, kebab

REQUEST = "request-deletion"
CANCEL_REQUEST = "cancel-request"
OPERATE = "operate"
DISPATCH = "dispatch"
SWEEP = "sweep"
RECOVER = "recover"
CHECK = "check-stores"
VERIFY = "verify-erasure"
COMPLETE = "complete-deletion"
CANCEL = "cancel-deletion"

PUT_OFF = sweep.DEFERRED
"""When the sweeper looks again at a record that it could not handle."""
LOOK_AGAIN = sweep.LOOK_AGAIN
"""When it looks again at an execution that runs past its lease."""

HANDLERS: dict[str, Handler] = {
    REQUEST: request.handler,
    CANCEL_REQUEST: cancel.handler,
    OPERATE: operate.handler,
    DISPATCH: dispatch.handler,
    SWEEP: sweep.handler,
    RECOVER: recover.handler,
    CHECK: check_stores.handler,
    VERIFY: verify_erasure.handler,
    COMPLETE: complete_deletion.handler,
    CANCEL: cancel_deletion.handler,
}
"""Role -> handler. A role is the last part of a function's physical name."""


def role_of(step: Step) -> str:
    """The role of a step's function."""
    return kebab(step.name)


def undo_role_of(step: Step) -> str:
    """The role of a compensation's function."""
    return f"undo-{kebab(step.name)}"
