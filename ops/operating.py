"""Asks the function `operate` to cancel, hold, release or redrive: it keeps the protocol; nothing is written here."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from handlers import operations
from handlers.core.errors import AwsFailure, NotPossible, RequestUnknown
from handlers.core.pace import Pace
from handlers.core.request_table import RequestTable
from ops.calls import FunctionFailed, invoke
from ops.output import Exit, told
from ops.stack import Stack
from statemachine import frame

_WORST_FIRST = (Exit.INCOMPLETE, Exit.REFUSED, Exit.NOT_FOUND)

_Ask = Callable[[Stack, str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one request."""

    deletion_request_id: str
    status: str | None
    """As it is afterwards, or would be; None if the operation is not carried out."""
    problem: str | None = None
    """Why not; without personal data."""
    code: Exit = Exit.OK
    """REFUSED and NOT_FOUND: asking again would not help; INCOMPLETE: it would."""


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
    return _ask_all(stack, _paced(deletion_request_ids, rate), _redrive, on_outcome)


def would_redrive_all(
    stack: Stack, deletion_request_ids: Iterable[str], *, on_outcome: Callable[[Outcome], None]
) -> list[Outcome]:
    """What `redrive_all` would make of the requests as they are now; reads with the operator's own rights."""
    return _ask_all(stack, deletion_request_ids, _would_redrive, on_outcome)


def exit_of(outcomes: Iterable[Outcome]) -> Exit:
    """The exit code of several: the worst."""
    codes = {outcome.code for outcome in outcomes}
    return next((code for code in _WORST_FIRST if code in codes), Exit.OK)


def _paced(deletion_request_ids: Iterable[str], rate: int) -> Iterator[str]:
    pace = Pace(rate)
    for request in deletion_request_ids:
        pace.wait()
        yield request


def _ask_all(
    stack: Stack, deletion_request_ids: Iterable[str], ask: _Ask, on_outcome: Callable[[Outcome], None]
) -> list[Outcome]:
    outcomes = []
    for request in deletion_request_ids:
        outcomes.append(_outcome(stack, request, ask))
        on_outcome(outcomes[-1])
    return outcomes


def _outcome(stack: Stack, request: str, ask: _Ask) -> Outcome:
    try:
        return Outcome(deletion_request_id=request, status=ask(stack, request))
    except FunctionFailed as failed:
        code = failed.code if failed.code in _WORST_FIRST else Exit.INCOMPLETE
        return Outcome(deletion_request_id=request, status=None, problem=str(failed), code=code)
    except AwsFailure as failure:
        return Outcome(deletion_request_id=request, status=None, problem=told(failure), code=Exit.INCOMPLETE)


def _redrive(stack: Stack, request: str) -> str:
    return str(operate(stack, "redrive", deletion_request_id=request)["status"])


def _would_redrive(stack: Stack, request: str) -> str:
    table = RequestTable(stack.request_table)
    try:
        record = table.read(request)
        if record is None:
            raise RequestUnknown
        return str(operations.would_redrive(table, record))
    except (NotPossible, RequestUnknown) as error:
        raise FunctionFailed(stack.function(frame.OPERATE), type(error).__name__, str(error)) from None
