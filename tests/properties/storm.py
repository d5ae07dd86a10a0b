"""What may happen at a call: the process dies, an answer is lost, somebody else acts meanwhile.

A storm is a list of troubles, each so many calls after the one before. All that is random is drawn before the run, so
a run can be repeated. A trouble is around a client's call: handlers have no test hooks.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, NoReturn, Protocol
from weakref import WeakKeyDictionary

from botocore.exceptions import ClientError, ConnectionClosedError

from handlers.core.errors import Unexpected
from tests.fakes.client import Answer, Client, Effect, Params, Service, refusal


class Kind(Enum):
    """What happens."""

    CRASH = auto()
    """The process dies."""
    LOSE = auto()
    """The answer never comes."""
    REFUSE = auto()
    """The service refuses the call, or a part of it."""
    HURRY = auto()
    """The invocation's time runs short."""
    OVERTAKE = auto()
    """Later invocations begin while this one waits."""
    TAKE_OVER = auto()
    """Another execution takes the request."""
    HOLD = auto()
    """An operator holds the request."""
    SLEEP = auto()
    """This invocation wakes only after the request was completed and the user registered again."""
    WRITE = auto()
    """The user, or somebody else, writes."""


class When(Enum):
    """When a call that meets a trouble has its effect."""

    NEVER = auto()
    """A call that is only delayed has it afterwards."""
    BEFORE = auto()
    """Before the trouble."""
    LATE = auto()
    """Some calls later, whoever makes them."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One of them."""

    gap: int
    """How many calls pass in peace before it."""
    kind: Kind
    when: When
    number: int
    """What else is to be chosen; its meaning depends on the kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """What one run goes through."""

    troubles: Sequence[Trouble]
    lazy: bool
    """Whether what an executor with one thread is given runs when its result is asked for, or at once."""
    threads: bool = False
    """Real threads: the order of calls is the machine's, and a run may not repeat."""


class Crash(BaseException):
    """The process dies here; no handler may catch it."""


class Stage(Protocol):
    """Who acts while a call waits."""

    def invoke(self) -> None:
        """Invoke the step once more, as the state machine does."""

    def retry_lost(self) -> None:
        """Invoke the step as an execution that lost the request."""

    def to_the_end(self) -> None:
        """Invoke the step until it is done, complete the request, and let the user register again."""

    def take_over(self) -> None:
        """Recover, dispatch and claim the request for another execution."""

    def hold(self) -> None:
        """Hold the request."""

    def write(self, number: int) -> None:
        """Let somebody write something."""


@dataclass(slots=True)
class Process:
    """One invocation of a Lambda: its remaining time, and whether it was killed. It is Lambda's context, too."""

    clients: dict[str, Client] = field(default_factory=dict)
    milliseconds: int = 300_000
    dead: bool = False
    survived_by_calls: bool = False
    """Whether deletes that were in flight beside the call that died land."""

    def get_remaining_time_in_millis(self) -> int:
        """As Lambda's context."""
        return self.milliseconds


_THROTTLES = (("ThrottlingException", 400), ("ProvisionedThroughputExceededException", 400))
_REFUSALS: Mapping[str, Sequence[tuple[str, int]]] = {
    "dynamodb": (*_THROTTLES, ("InternalServerError", 500)),
    "s3": (("SlowDown", 503), ("InternalError", 500), ("ServiceUnavailable", 503)),
}
_EFFECTS = frozenset({"DeleteObjects", "DeleteObject", "AbortMultipartUpload"})
_READS = ("List", "Get", "BatchGet", "Query")
_CANCELLED = ("TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded")


class Storm:
    """The troubles of one run, and what is still under way."""

    def __init__(self, services: Mapping[str, Service], stage: Stage, troubles: Sequence[Trouble]) -> None:
        self._services = services
        self._stage = stage
        self._troubles = list(troubles)
        self._gap = troubles[0].gap if troubles else 0
        self._late: list[tuple[int, Effect, Params]] = []
        self._calls = 0
        self._lock = threading.Lock()
        self._running: list[Process] = []
        self._of_thread: WeakKeyDictionary[threading.Thread, list[Process]] = WeakKeyDictionary()
        self.met = 0
        """How many troubles happened, late effects included."""
        self.calm = False
        """Nothing happens while a test looks."""
        self.failure: Exception | None = None
        """What went wrong in an invocation inside another."""

    # -- processes

    def client(self, service: str, **_: object) -> Client:
        """The calling process's client; takes the place of handlers.core.aws.client."""
        process = self._current()
        if service not in process.clients:
            process.clients[service] = Client(
                self._services[service],
                lambda operation, params, effect: self._around(process, service, operation, params, effect),
            )
        return process.clients[service]

    def run(self, act: Callable[[Process], Answer]) -> Answer:
        """Run something as a process of its own."""
        process = Process()
        own = self._of_thread.setdefault(threading.current_thread(), [])
        before = set(threading.enumerate())
        self._running.append(process)
        own.append(process)
        try:
            return act(process)
        except Unexpected as error:
            self.failure = self.failure or error
            raise
        finally:
            own.remove(process)
            self._running.remove(process)
            # While one waits inside another, nobody can tell whose a new thread is: the outer one's calls go on.
            for thread in set() if self.is_inside else set(threading.enumerate()) - before:
                thread.join(timeout=5)
                assert not thread.is_alive(), "a thread outlives its invocation"

    @property
    def is_inside(self) -> bool:
        """Whether an invocation waits for what happens now."""
        return bool(self._running)

    def sleep(self, seconds: float) -> None:
        """Takes the place of time.sleep."""
        self._current().milliseconds -= int(seconds * 1000)

    def _current(self) -> Process:
        """This thread's process; a thread that a process started belongs to the innermost."""
        own = self._of_thread.get(threading.current_thread())
        return own[-1] if own else self._running[-1]

    # -- calls

    def land_all(self) -> None:
        """Whatever is still under way arrives."""
        with self._lock:
            late, self._late = self._late, []
        for _, effect, params in late:
            self._land(effect, params)

    def _around(self, process: Process, service: str, operation: str, params: Params, effect: Effect) -> Answer:
        if self.calm:
            return effect(params)
        with self._lock:
            if process.dead:
                self._die_again(process, operation, params, effect)
            self._calls += 1
            due = [one for one in self._late if one[0] <= self._calls]
            self._late = [one for one in self._late if one[0] > self._calls]
            trouble = self._next()
        for _, act, given in due:
            self._land(act, given)
        if trouble is None:
            return effect(params)
        self.met += 1
        return self._meet(trouble, process, _Call(service, operation, params, effect))

    def _die_again(self, process: Process, operation: str, params: Params, effect: Effect) -> NoReturn:
        # Without real threads, what another thread of a dead process sends now had been sent side by side.
        if process.survived_by_calls and operation in _EFFECTS:
            self._land(effect, params)
        raise Crash

    def _next(self) -> Trouble | None:
        if not self._troubles or self._gap > 0:
            self._gap -= 1
            return None
        trouble = self._troubles.pop(0)
        self._gap = self._troubles[0].gap if self._troubles else 0
        return trouble

    def _land(self, effect: Effect, params: Params) -> None:
        self.met += 1
        try:
            effect(params)
        except ClientError:
            # Nobody waits for the answer any more.
            return

    def _meet(self, trouble: Trouble, process: Process, call: "_Call") -> Answer:
        if trouble.kind in (Kind.CRASH, Kind.LOSE):
            self._split(trouble, call)
            if trouble.kind is Kind.LOSE:
                raise ConnectionClosedError(endpoint_url="https://lost")
            process.dead = True
            process.survived_by_calls = bool(trouble.number & 8)
            raise Crash
        if trouble.kind is Kind.REFUSE:
            return _refuse(trouble.number, call)
        if trouble.when is not When.BEFORE:
            self._act(trouble, process)
            return call.effect(call.params)
        try:
            return call.effect(call.params)
        finally:
            self._act(trouble, process)

    def _act(self, trouble: Trouble, process: Process) -> None:
        try:
            self._set_off(trouble, process)
        except Exception as error:
            self.failure = self.failure or error
            process.dead = True
            raise Crash from error

    def _set_off(self, trouble: Trouble, process: Process) -> None:
        match trouble.kind:
            case Kind.HURRY:
                process.milliseconds = 1000
            case Kind.OVERTAKE:
                for _ in range(1 + trouble.number % 3):
                    self._stage.invoke()
                if trouble.number & 4:
                    self._stage.retry_lost()
            case Kind.TAKE_OVER | Kind.HOLD:
                (self._stage.take_over if trouble.kind is Kind.TAKE_OVER else self._stage.hold)()
                if trouble.number & 1:
                    self._stage.retry_lost()
            case Kind.SLEEP:
                self._stage.to_the_end()
            case _:
                self._stage.write(trouble.number)

    def _split(self, trouble: Trouble, call: "_Call") -> None:
        """Let the call have its effect: all of it or a part, now or later."""
        now, later = call.parts(trouble.number)
        if trouble.when is When.NEVER:
            return
        if now is not None:
            self._land(call.effect, now)
        if later is not None and trouble.when is When.LATE:
            with self._lock:
                self._late.append((self._calls + 1 + trouble.number // 4, call.effect, later))


@dataclass(frozen=True, slots=True)
class _Call:
    service: str
    operation: str
    params: Params
    effect: Effect

    def parts(self, number: int) -> tuple[Params | None, Params | None]:
        """What of the call has its effect at once, and what later. Only DeleteObjects can be in the middle."""
        if self.operation.startswith(_READS):
            return None, None
        if self.operation != "DeleteObjects":
            return (self.params, None) if number % 2 else (None, self.params)
        objects = self.params["Delete"]["Objects"]
        cut = (len(objects) * (number % 4) + 2) // 3
        return self._of(objects[:cut]), self._of(objects[cut:])

    def _of(self, objects: Sequence[Any]) -> Params | None:
        return {**self.params, "Delete": {**self.params["Delete"], "Objects": objects}} if objects else None


def _refuse(number: int, call: _Call) -> Answer:
    if call.operation == "TransactWriteItems" and number % 4:
        codes = ["None"] * len(call.params["TransactItems"])
        codes[number % len(codes)] = _CANCELLED[number % 3]
        raise refusal(call.operation, "TransactionCanceledException", CancellationReasons=[{"Code": c} for c in codes])
    if call.operation == "TransactWriteItems":
        raise refusal(call.operation, "TransactionInProgressException")
    if call.operation == "UpdateItem" and number % 2:
        raise refusal(call.operation, "TransactionConflictException")
    if call.operation == "DeleteObjects" and number % 4:
        return _refuse_some(number, call)
    choices = _REFUSALS[call.service]
    code, status = choices[number % len(choices)]
    raise refusal(call.operation, code, status=status)


def _refuse_some(number: int, call: _Call) -> Answer:
    """An answer of 200 with errors for some keys."""
    objects = call.params["Delete"]["Objects"]
    refused = [one for index, one in enumerate(objects) if number >> (index % 5) & 1]
    kept = [one for one in objects if one not in refused]
    if kept:
        call.effect({**call.params, "Delete": {**call.params["Delete"], "Objects": kept}})
    code = ("SlowDown", "InternalError")[number // 4 % 2]
    return {"Errors": [{"Key": one["Key"], "VersionId": one["VersionId"], "Code": code} for one in refused]}
