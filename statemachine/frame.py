"""The Lambda functions around the steps: what each is for, and its handler."""

from handlers import dispatch, recover, request, sweep
from handlers.core.frame import Handler
from handlers.steps import cancel_deletion, complete_deletion, verify_erasure
from statemachine.step import Step, kebab

REQUEST = "request-deletion"
DISPATCH = "dispatch"
SWEEP = "sweep"
RECOVER = "recover"
VERIFY = "verify-erasure"
COMPLETE = "complete-deletion"
CANCEL = "cancel-deletion"

HANDLERS: dict[str, Handler] = {
    REQUEST: request.handler,
    DISPATCH: dispatch.handler,
    SWEEP: sweep.handler,
    RECOVER: recover.handler,
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
