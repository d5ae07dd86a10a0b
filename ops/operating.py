"""Asks the function `operate` to cancel, hold, release or redrive: it keeps the protocol; nothing is written here."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from handlers.core.errors import AwsFailure
from handlers.core.pace import Pace
from ops.calls import FunctionFailed, invoke
from ops.output import Exit
from ops.stack import Stack
from statemachine import frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one request."""

    deletion_request_id: str
    status: str | None
    """As it is afterwards; None if the operation was not carried out."""
    problem: str | None = None
    """Why not; without personal data."""
    is_refused: bool = False
    """Whether asking again would not help."""


def operate(stack: Stack, operation: str, **fields: object) -> Mapping[str, Any]:
    """Have one operation carried out; the function's answer.

    Args:
        stack: the deployment.
        operation: cancel, hold, release, redrive, hold_person or release_person.
        fields: deletion_request_id or user_id, and what the operation takes besides.

    Raises:
        OpsError: it is not possible as the request stands, or there is none.
        AwsFailure: the function cannot be called.
    """
    event = {name: value for name, value in fields.items() if value is not None}
    return invoke(stack.function(frame.OPERATE), {"operation": operation, **event})


def redrive_all(
    stack: Stack, deletion_request_ids: Iterable[str], *, rate: int, on_outcome: Callable[[Outcome], None]
) -> list[Outcome]:
    """Redrive requests one after the other, at a limited rate; one that cannot be redriven holds up no other."""
    pace = Pace(rate)
    outcomes = []
    for request in deletion_request_ids:
        pace.wait()
        outcomes.append(_redrive(stack, request))
        on_outcome(outcomes[-1])
    return outcomes


def _redrive(stack: Stack, request: str) -> Outcome:
    try:
        answer = operate(stack, "redrive", deletion_request_id=request)
    except FunctionFailed as failed:
        is_refused = failed.code in {Exit.REFUSED, Exit.NOT_FOUND}
        return Outcome(deletion_request_id=request, status=None, problem=str(failed), is_refused=is_refused)
    except AwsFailure as failure:
        return Outcome(deletion_request_id=request, status=None, problem=f"{type(failure).__name__}: {failure}")
    return Outcome(deletion_request_id=request, status=str(answer["status"]))


def exit_of(outcomes: Iterable[Outcome]) -> Exit:
    """The exit code of several: the worst."""
    failed = [outcome for outcome in outcomes if outcome.problem]
    if any(not outcome.is_refused for outcome in failed):
        return Exit.INCOMPLETE
    return Exit.REFUSED if failed else Exit.OK
