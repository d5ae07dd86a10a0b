"""Asks each erasing step's own function what its stores hold of a request's user now."""

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from handlers.core.errors import AwsFailure, OwnershipLost
from handlers.core.invoking import FunctionRaised, ask_steps
from ops.calls import FunctionFailed
from ops.output import Exit, OpsError, told
from ops.stack import Stack
from statemachine import frame

OWNER = "ops"
"""Who asks: no execution, so nothing that needs an owner would be done for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What one step's stores hold."""

    step: str
    stores: Mapping[str, int] | None
    """Store -> how many; stores that are empty are left out. None: they could not be read."""
    problem: str | None = None
    """Why not; without personal data."""


def listing(stack: Stack, deletion_request_id: str) -> list[Left]:
    """What every erasing step's stores hold.

    Raises:
        OpsError: there is no such request, or it has ended and no longer knows whose it was.
        AwsFailure: the deployment cannot be read.
    """
    functions = stack.erasing_functions
    longest = timedelta(seconds=float(stack.variable(frame.VERIFY, "LONGEST_LISTING")))
    outcomes = ask_steps("verify", functions, deletion_request_id=deletion_request_id, owner=OWNER, longest=longest)
    return [_left(deletion_request_id, step, functions[step], outcome) for step, outcome in outcomes.items()]


def _left(deletion_request_id: str, step: str, function: str, outcome: Future[Any]) -> Left:
    try:
        answer = outcome.result()
    except FunctionRaised as raised:
        return _unread(deletion_request_id, step, FunctionFailed(function, raised.error, raised.message))
    except AwsFailure as failure:
        return Left(step=step, stores=None, problem=told(failure))
    return Left(step=step, stores=dict(answer["remaining"]))


def _unread(deletion_request_id: str, step: str, failed: FunctionFailed) -> Left:
    """A step whose function failed; what speaks of the request itself holds for all of them and is raised."""
    if failed.error == OwnershipLost.__name__:
        raise OpsError(Exit.REFUSED, f"{deletion_request_id} has ended and keeps no name to look for") from None
    if failed.code is Exit.NOT_FOUND:
        raise failed from None
    return Left(step=step, stores=None, problem=str(failed))
