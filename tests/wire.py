"""What passes between the handlers and AWS: noted, and disturbed where a test says so.

Crashes, lost answers and foreign errors are injected around the clients, by operation and number of the call, so the
handlers have no test hooks.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock
from types import SimpleNamespace
from typing import Any

import botocore.exceptions
from moto.core.models import botocore_stubber

in_function: ContextVar[str] = ContextVar("in_function", default="")
"""The role of the function whose code runs in this thread."""
_in_process: list[str] = []
"""The same for threads that a function starts itself: theirs is the first that was entered and not left."""


@contextmanager
def acting_as(role: str) -> Iterator[None]:
    """What is called inside the block is noted as this function's."""
    token = in_function.set(role)
    _in_process.append(role)
    try:
        yield
    finally:
        _in_process.remove(role)
        in_function.reset(token)


class Crash(BaseException):
    """The process dies here; no handler may catch it."""


def connection_lost() -> BaseException:
    """What the SDK sees when an answer does not come."""
    return botocore.exceptions.ConnectionClosedError(endpoint_url="https://lost")


@dataclass(frozen=True, slots=True)
class Call:
    """One call as it leaves the client."""

    operation: str
    params: Mapping[str, Any]
    """The operation's parameters."""
    wire: Mapping[str, Any]
    """The request as botocore serialised it: url_path, query_string, body."""
    function: str = ""
    """Whose code makes it, if a test says so (`in_function`)."""


Act = Callable[[Call], Any]
"""Raises, or returns None to let the call pass, or an answer for it (see `refused` and `answered`)."""


Loss = Callable[[], BaseException]
"""Makes what is raised instead of the answer to a call that was carried out."""


@dataclass
class Wire:
    """What passes between the handlers and AWS: every call is noted, and may be disturbed."""

    calls: list[Call] = field(default_factory=list)
    _before: list[tuple[str, Act]] = field(default_factory=list)
    _lost: list[tuple[str, Loss]] = field(default_factory=list)
    name_of: Callable[[str], str] = str
    """What an address in the user pool stands for."""
    answers: dict[str, Act] = field(default_factory=dict)
    """Operations that are answered here and not by moto."""
    _count: int = 0
    _at: dict[int, Act] = field(default_factory=dict)
    _after: dict[int, Loss] = field(default_factory=dict)
    _counting: Lock = field(default_factory=Lock)
    """A step's calls come from several threads."""

    def operations(self) -> list[str]:
        """The names of all calls so far."""
        return [call.operation for call in self.calls]

    def of(self, operation: str) -> list[Call]:
        """The calls of one operation."""
        return [call for call in self.calls if call.operation == operation]

    def before(self, operation: str, act: Act, *, times: int = 1) -> None:
        """Do something instead of the next calls of an operation ("" is any)."""
        self._before += [(operation, act)] * times

    def lose_answer(self, operation: str, loss: Loss = connection_lost, *, times: int = 1) -> None:
        """The next tries of an operation are carried out, but their answers never come; the SDK tries again."""
        self._lost += [(operation, loss)] * times

    def crash_after(self, operation: str) -> None:
        """The next call of an operation is carried out, then the process dies."""
        self._lost.append((operation, Crash))

    def at(self, number: int, act: Act) -> None:
        """Do something before the n-th call from now on, whatever it is."""
        self._at[self._count + number] = act

    def after(self, number: int, loss: Loss) -> None:
        """Carry the n-th call from now on out, then raise this instead of an answer."""
        self._after[self._count + number] = loss

    def pending(self) -> bool:
        """Whether something set by `at` or `after` did not happen yet."""
        return bool(self._at or self._after)

    def calm(self) -> None:
        """Forget what did not happen."""
        self._at.clear()
        self._after.clear()

    # -- hooks of botocore

    @staticmethod
    def _note_params(params: Mapping[str, Any], context: dict[str, Any], **_: object) -> None:
        context["noted"] = dict(params)

    def _before_call(self, model: Any, params: dict[str, Any], context: dict[str, Any], **_: object) -> Any:
        call = Call(model.name, context["noted"], dict(params), in_function.get() or next(iter(_in_process), ""))
        with self._counting:
            self.calls.append(call)
            self._count += 1
            if self._count in self._after:
                self._lost.append((model.name, self._after.pop(self._count)))
            act = self._at.pop(self._count, None) or self._taken(self._before, model.name)
        answer = act(call) if act else None
        if answer is None and model.name in self.answers:
            answer = self.answers[model.name](call)
        if answer is None and "Username" in call.params:
            # Late, because AWS looks the user up when it acts.
            params["body"] = json.dumps({**call.params, "Username": self.name_of(call.params["Username"])}).encode()
        return answer

    def _before_send(self, event_name: str, request: Any, **_: object) -> None:
        operation = event_name.rsplit(".", 1)[1]
        with self._counting:
            error = self._taken(self._lost, operation)
        if error is not None:
            botocore_stubber(event_name, request)
            raise error()

    @staticmethod
    def _taken(rules: list[tuple[str, Any]], operation: str) -> Any:
        for index, (name, value) in enumerate(rules):
            if name in ("", operation):
                del rules[index]
                return value
        return None


def refused(code: str, *, status: int = 400, **fields: Any) -> Act:
    """The service answers with this error."""
    answer = {"Error": {"Code": code, "Message": "secret of ann"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return lambda _: (SimpleNamespace(status_code=status), {**answer, **fields})


def cancelled(*codes: str) -> Act:
    """A transaction is cancelled for these reasons, one for each action."""
    return refused("TransactionCanceledException", CancellationReasons=[{"Code": code} for code in codes])


def answered(**fields: Any) -> Act:
    """The service answers with this, without doing anything."""
    return lambda _: (SimpleNamespace(status_code=200), {"ResponseMetadata": {"HTTPStatusCode": 200}, **fields})


def raises(error: BaseException) -> Act:
    """The call never leaves: this is raised."""

    def act(_: Call) -> None:
        raise error

    return act


def invoked(payload: Mapping[str, Any], **fields: Any) -> Act:
    """Lambda answers with this payload."""
    body = SimpleNamespace(read=lambda: json.dumps(payload).encode())
    return answered(StatusCode=200, Payload=body, **fields)
