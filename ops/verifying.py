"""Asks each erasing step's own function what its stores hold of a request's user now."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta

from handlers.core.errors import AwsFailure, OwnershipLost
from ops.calls import FunctionFailed, caller, invoke
from ops.output import Exit, OpsError
from ops.stack import Stack
from statemachine import frame

OWNER = "ops"
"""Who asks: no execution, so nothing that needs an owner would be done for it."""
ANSWER = timedelta(seconds=10)
"""How much longer than a listing the call of a function may take."""


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
    seconds = float(stack.variable(frame.VERIFY, "LONGEST_LISTING")) + ANSWER.total_seconds()
    caller(read_seconds=seconds, tries=1)
    with ThreadPoolExecutor(max_workers=max(1, len(functions))) as pool:
        return list(pool.map(lambda step: _ask(functions[step], step, deletion_request_id, seconds), functions))


def _ask(function: str, step: str, deletion_request_id: str, seconds: float) -> Left:
    event = {"deletion_request_id": deletion_request_id, "owner": OWNER, "step": step, "verify": True}
    try:
        # One try: a listing that was cut off may still run.
        answer = invoke(function, event, read_seconds=seconds, tries=1)
    except FunctionFailed as failed:
        if failed.error == OwnershipLost.__name__:
            raise OpsError(Exit.REFUSED, f"{deletion_request_id} has ended and keeps no name to look for") from None
        if failed.code is Exit.NOT_FOUND:
            raise
        return Left(step=step, stores=None, problem=str(failed))
    except AwsFailure as failure:
        return Left(step=step, stores=None, problem=f"{type(failure).__name__}: {failure}")
    return Left(step=step, stores=dict(answer["remaining"]))
