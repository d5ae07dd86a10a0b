"""Lists every store of every step afresh, after the last deletion, and reopens the steps that left something.

Done when: each erasing step's own function, asked to list only, answers that nothing is left.
Safe to repeat because: it deletes nothing, and reopening a step twice has one effect.
Leaves open: what an application writes after its store was listed; sign-in is suspended by then. A search in a user
pool is eventually consistent (https://docs.aws.amazon.com/cognito/latest/developerguide/
how-to-manage-user-accounts.html), so a user just deleted may be listed once more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from handlers.core import metrics, settings, telemetry
from handlers.core.checkpoint import FrameCheckpoint, LambdaContext, StepDone
from handlers.core.errors import InvalidEvent, OwnershipLost, RequestUnknown, Superseded, UndoInFlight
from handlers.core.events import TaskInput
from handlers.core.frame import AWS_ERRORS, lambda_handler
from handlers.core.request_table import RequestTable
from handlers.core.settings import TableSettings
from handlers.core.states import VERIFY_STEP
from handlers.core.transitions import BEGIN_VERIFY
from handlers.steps._functions import ask


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifySettings(TableSettings):
    """What the verification needs."""

    erasing_functions: Mapping[str, str]
    """Erasing step -> ARN of its function."""
    longest_listing: timedelta
    """The longest Lambda timeout of these functions."""


@lambda_handler(*AWS_ERRORS, OwnershipLost, RequestUnknown, Superseded, UndoInFlight)
def handler(event: Any, context: LambdaContext) -> Mapping[str, object]:
    """Answer whether everything is gone, and which steps left something."""
    task = TaskInput.of(event)
    if task.step != VERIFY_STEP:
        raise InvalidEvent("step", VERIFY_STEP)
    own = settings.load(VerifySettings)
    try:
        checkpoint = FrameCheckpoint.begin(
            BEGIN_VERIFY, task, context, table=RequestTable(own.request_table), lease=own.lease
        )
    except StepDone:
        return {"clean": True, "leftovers": []}
    left = _list_all(own, task)
    leftovers = sorted(step for step, stores in left.items() if any(stores.values()))
    if leftovers:
        checkpoint.reopen(leftovers)
        for step in leftovers:
            telemetry.count(metrics.LEFTOVERS_FOUND, step=step)
    else:
        checkpoint.finish()
    telemetry.log(
        "leftovers found" if leftovers else "erasure verified",
        deletion_request_id=task.deletion_request_id,
        step=task.step,
        remaining={step: telemetry.totals(left[step]) for step in leftovers},
    )
    return {"clean": not leftovers, "leftovers": leftovers}


def _list_all(own: VerifySettings, task: TaskInput) -> Mapping[str, Mapping[str, int]]:
    answers = ask("verify", own.erasing_functions, task, longest=own.longest_listing)
    return {step: answer["remaining"] for step, answer in answers.items()}
