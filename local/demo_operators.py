"""Parts of the demo in which somebody intervenes: a cancellation, a hold and its release, a redrive."""

from __future__ import annotations

from datetime import timedelta

from handlers.core.states import Status, StepStatus
from local.demo_cases import Case, last_error
from local.demo_requests import DemoError
from local.demo_stage import WITHIN, Stage
from local.waiting import wait_until
from statemachine.deletion import DELETE_IDENTITY, SUSPEND_IDENTITY

DENIED = "cognito-idp:AdminDeleteUser"
"""What DeleteIdentity may not do for a while."""

_SLICE = 0.01
_LONGER_THAN_THE_LAMBDA = SUSPEND_IDENTITY.timeout + timedelta(minutes=1)


def hold_and_cancel(stage: Stage, case: Case) -> None:
    """The user is suspended already; then the request is held, and the user keeps the account after all."""
    _hold_in_the_pause(stage, case)
    case.could_sign_in = stage.stores.can_sign_in(case.user)
    # The undo waits until a suspension that might still be under way must be dead.
    stage.requests.set_back(case.request_id, f"steps.{SUSPEND_IDENTITY.name}.begun_at", _LONGER_THAN_THE_LAMBDA)
    answer = stage.requests.cancel(case.request_id)
    stage.say(
        case,
        f"is suspended, and cancels; the request is {answer['status']} until that is undone. The undo waits a minute "
        "for a Lambda that may still run: here the suspension's begin is set back",
    )
    stage.follow(case)


def hold_and_release(stage: Stage, case: Case) -> None:
    """An operator holds the request under way; a due event and a sweep change nothing; then it is released."""
    _hold_in_the_pause(stage, case)
    due, swept = stage.requests.due(case.request_id), stage.requests.sweep()
    case.when_released = stage.stores.listing([case.user])
    left_alone = not due["dispatched"] and not swept
    stage.say(
        case, f"the due event came and the sweeper ran: it was {'left alone' if left_alone else 'NOT left alone'}"
    )
    stage.requests.operate("release", case.request_id)
    stage.say(case, "is released")
    stage.follow(case)


def deny_and_redrive(stage: Stage, case: Case) -> None:
    """A role loses a permission, and the request fails for good; with the permission back, an operator redrives it."""
    with stage.requests.without_permission(DELETE_IDENTITY, DENIED):
        stage.say(case, f"the role of {DELETE_IDENTITY.name} loses {DENIED}")
        stage.start(case)
        record = stage.follow(case)
    if record.status is not Status.FAILED:
        raise DemoError(f"{case.user.user_id}: {record.status}, although {DENIED} was taken away")
    case.failed_with = last_error(record)
    case.notes.append(f"FAILED: {case.failed_with}")
    stage.say(case, f"FAILED with {case.failed_with}; the permission is given back, and the request redriven")
    stage.requests.operate("redrive", case.request_id)
    stage.follow(case)


def _hold_in_the_pause(stage: Stage, case: Case) -> None:
    """Hold the request between the sign-out and the first erasure, and wait until its execution has noticed."""
    stage.start(case)
    wait_until(lambda: _is_held(stage, case), limit=WITHIN, every=_SLICE)
    stage.say(case, "is suspended; an operator holds the request before anything is erased")
    wait_until(lambda: not stage.requests.running(case.request_id), limit=WITHIN)
    stage.say(case, "its execution noticed, and ended quietly")


def _is_held(stage: Stage, case: Case) -> bool:
    step = stage.look(case).step(SUSPEND_IDENTITY.name)
    if step.status is StepStatus.DONE:
        raise DemoError(f"{case.user.user_id}: the pause was over before the request could be held")
    if "signed_out_at" not in step.batch:
        return False
    # A process that is stopped does not come back from the pause, however slow this machine is.
    with stage.requests.frozen(SUSPEND_IDENTITY):
        if stage.look(case).step(SUSPEND_IDENTITY.name).status is StepStatus.DONE:
            return False
        stage.requests.operate("hold", case.request_id)
        stage.look(case)
        case.when_held = stage.stores.listing([case.user])
        return True
