"""Lists every store of every step afresh, after the last deletion, and reopens the steps that left something.

Done when: each erasing step's own function, asked to list only, answers that nothing is left.
Safe to repeat because: it deletes nothing, and reopening a step twice has one effect.
Leaves open: what an application writes after its store was listed; sign-in is suspended by then. A search in a user
pool is eventually consistent (https://docs.aws.amazon.com/cognito/latest/developerguide/
how-to-manage-user-accounts.html), so a user just deleted may be listed once more.
"""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from handlers.core import aws, errors, settings, telemetry
from handlers.core.checkpoint import FrameCheckpoint, LambdaContext, StepDone
from handlers.core.errors import (
    DeletionError,
    InvalidEvent,
    OwnershipLost,
    Permanent,
    RequestUnknown,
    StoreRefused,
    StoreUnavailable,
    Superseded,
    UndoInFlight,
)
from handlers.core.events import TaskInput
from handlers.core.frame import AWS_ERRORS, lambda_handler
from handlers.core.request_table import RequestTable
from handlers.core.settings import TableSettings
from handlers.core.states import VERIFY_STEP
from handlers.core.transitions import BEGIN_VERIFY

ANSWER = timedelta(seconds=10)
"""How much longer than a listing the call of a function may take."""


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
    steps = own.erasing_functions
    # One try: a listing that was cut off is begun again by the state machine, not while it may still run.
    client = aws.client("lambda", read_seconds=(own.longest_listing + ANSWER).total_seconds(), tries=1)
    with ThreadPoolExecutor(max_workers=max(1, len(steps))) as pool:
        answers = pool.map(lambda step: _list_one(client, steps[step], step, task), steps)
        return dict(zip(steps, answers, strict=True))


def _list_one(client: Any, function: str, step: str, task: TaskInput) -> Mapping[str, int]:
    event = {"deletion_request_id": task.deletion_request_id, "owner": task.owner, "step": step, "verify": True}
    with aws.our_errors("Invoke"):
        answer = client.invoke(FunctionName=function, Payload=json.dumps(event, sort_keys=True).encode())
        payload = json.loads(answer["Payload"].read())
    if "FunctionError" in answer:
        raise _failure(task, step, str(payload.get("errorType", "Unknown")))
    remaining: Mapping[str, int] = payload["remaining"]
    return remaining


def _failure(task: TaskInput, step: str, error_type: str) -> DeletionError:
    """What a step's failed listing means for the verification, by its error class alone."""
    if error_type == OwnershipLost.__name__:
        return OwnershipLost(task.deletion_request_id, task.step)
    if error_type in {error.__name__ for error in _below(Permanent)}:
        return StoreRefused(f"verify {step}", error_type)
    return StoreUnavailable(f"verify {step}", error_type)


def _below(error: type[errors.DeletionError]) -> Iterator[type[errors.DeletionError]]:
    for below in error.__subclasses__():
        yield below
        yield from _below(below)
