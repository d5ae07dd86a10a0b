"""One request whose one step is run until it is done, through a storm, and what is true of it afterwards."""

import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from handlers.core import aws, clock, settings, telemetry
from handlers.core.errors import QuietEnd, RetentionLocked, Retryable
from handlers.core.record import from_item, to_value
from handlers.core.request_table import request_key
from handlers.core.states import VERIFY_STEP
from tests.fakes.client import Answer, Service
from tests.fakes.dynamodb import DynamoDB
from tests.properties.in_turn import InTurn
from tests.properties.storm import Crash, Process, Storm, Weather

REQUEST = f"del_{'0' * 26}"
TABLE = "deletions"
USER, CUSTOMER = "1", "7"
NOW = 1_800_000_000

_story: list["Story"] = []


@contextmanager
def environment(step: str, module: Any, **own: str) -> Iterator[None]:
    """The process environment of a step's function; its clients are those of the story that is told."""
    variables = {
        "REQUEST_TABLE": TABLE,
        "LEASE": "900",
        "STEP": step,
        "STEP_KIND": "retriable",
        "STEP_ERASES": "true",
        "STEP_TIMEOUT": "300",
        "UNDO_TIMEOUT": "0",
        "STEP_VERIFY": f"{module.__name__}.remaining",
        "STEP_PREFLIGHT": "",
        "PATIENCE": "0",
        **own,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        patch.setattr(aws, "client", lambda service, **options: _story[-1].storm.client(service, **options))
        patch.setattr("time.sleep", lambda seconds: _story[-1].sleep(seconds))
        patch.setattr(clock, "now", lambda: NOW)
        # A line for each of some 10,000 invocations would hide what a failing case says.
        patch.setattr(telemetry, "log", lambda _, **__: None)
        patch.setattr(telemetry, "count", lambda *_, **__: None)
        for module in [one for name, one in sys.modules.items() if name.startswith("handlers.")]:
            for name in [name for name, value in vars(module).items() if value is ThreadPoolExecutor]:
                patch.setattr(module, name, lambda *args, **kwargs: _story[-1].executor(*args, **kwargs))
        settings.load.cache_clear()
        yield
    settings.load.cache_clear()


class Story:
    """What each step's story has in common. A step adds its stores, who writes there, and what must be true."""

    def __init__(
        self,
        step: str,
        handler: Callable[..., Answer],
        dynamodb: DynamoDB,
        others: Mapping[str, Service],
        weather: Weather,
    ) -> None:
        self.step = step
        self.dynamodb = dynamodb
        self.storm = Storm({"dynamodb": dynamodb, **others}, self, weather.troubles)
        self._handler = handler
        self._weather = weather
        self._limit = 2 * len(weather.troubles) + 3
        self._invocations = 0
        self._over = False
        self._executions = 1
        self._held_at = 0
        self._locked = False
        record = {
            "deletion_request_id": REQUEST,
            "user_id": USER,
            "identifiers": {"customer_id": CUSTOMER},
            "subject": "k1_test",
            "status": "PROCESSING",
            "attempt": 1,
            "attempt_base": 0,
            "claimed": 1,
            "failures": 0,
            "fence": 1,
            "seq": 0,
            "due_at": NOW + 900,
            "undoing": 0,
            "owner": "execution-1",
            "steps": {step: {}, VERIFY_STEP: {"status": "DONE"}},
        }
        self._put(record)

    # -- what a step's story says

    def removed(self) -> Mapping[str, int]:
        """Store -> how many of the user's entries the step's calls removed so far."""
        raise NotImplementedError

    def write(self, number: int) -> None:
        """Let somebody write something."""
        raise NotImplementedError

    def register_again(self) -> None:
        """The user comes back and writes new data, as far as new data is told from old data there."""
        raise NotImplementedError

    def check_done(self) -> None:
        """The step is done: what must be true of the stores."""
        raise NotImplementedError

    def check_held(self, since: int) -> None:
        """The request is held: what must be true of what was removed, as a number, since then."""
        raise NotImplementedError

    def check_remaining(self, remaining: Mapping[str, int]) -> None:
        """What the verification is told of what is left, without the stores that have nothing."""
        raise NotImplementedError

    def check_locked(self, locked: RetentionLocked) -> None:
        """The step says that what is left is locked: what must be true of the stores."""
        raise NotImplementedError

    def unlock(self) -> None:
        """Locks end, or are lifted."""
        raise NotImplementedError

    def contents(self) -> Any:
        """All that is in the stores, to compare."""
        raise NotImplementedError

    # -- the run

    def tell(self) -> None:
        """Run the step until it is done and everything that was under way has arrived."""
        _story.append(self)
        try:
            self.to_the_end()
            final = self.contents()
            self.storm.land_all()
            self.storm.calm = True
            self.retry_lost()
            assert self.contents() == final, "an effect that came late changed something after the end"
            assert self._over
        finally:
            _story.pop()

    def to_the_end(self) -> None:
        """Until done, then complete and register again; what was true at the end stays so."""
        while not self._over and not (self._locked and self.storm.is_inside):
            self._invocations += 1
            assert self._invocations <= self._limit, f"not done after {self._invocations} invocations"
            self.invoke()

    def invoke(self) -> None:
        """Invoke the step once, as the state machine does; the first that is done brings the request to its end."""
        if self._over:
            return
        if self._locked:
            if self.storm.is_inside:
                # No call is under way for as long as a lock lasts.
                return
            self.storm.land_all()
            self._locked = False
            self.unlock()
        self._resume()
        met, owner = self.storm.met, self.record["owner"]
        event = {"deletion_request_id": REQUEST, "owner": owner, "step": self.step}
        try:
            answer = self.storm.run(lambda process: self._handler(event, process))
        except RetentionLocked as locked:
            self._check_locked(locked)
            return
        except (Crash, QuietEnd, Retryable):
            answer = {"done": False}
        if self.storm.failure is not None:
            raise self.storm.failure
        assert answer["done"] or self.storm.met > met, "not done, although nothing happened"
        if answer["done"] and self._is_owner(owner):
            self._end(event)

    def retry_lost(self) -> None:
        """An execution that lost the request invokes the step once more; it must not get far."""
        record = self.record
        lost = [f"execution-{number}" for number in range(1, self._executions + 1)]
        lost = [owner for owner in lost if record["status"] != "PROCESSING" or owner != record["owner"]]
        if not lost:
            return
        event = {"deletion_request_id": REQUEST, "owner": lost[0], "step": self.step}
        try:
            self.storm.run(lambda process: self._handler(event, process))
        except (Crash, QuietEnd, Retryable):
            if self.storm.failure is not None:
                raise self.storm.failure from None
            return
        raise AssertionError("an execution that lost the request went on")

    def take_over(self) -> None:
        """Recover, dispatch and claim, in one."""
        record = self.record
        if self._over or record["status"] != "PROCESSING":
            return
        self._executions += 1
        number = record["attempt"] + 1
        owner = f"execution-{self._executions}"
        self._put({**record, "owner": owner, "attempt": number, "claimed": number, "fence": record["fence"] + 2})

    def hold(self) -> None:
        """What an operator's hold writes."""
        record = self.record
        if self._over or record["status"] != "PROCESSING":
            return
        self._held_at = sum(self.removed().values())
        without_owner = {name: value for name, value in record.items() if name not in ("owner", "due_at")}
        self._put({**without_owner, "status": "HELD", "fence": record["fence"] + 1})

    def executor(self, max_workers: int, *_: object) -> Executor:
        """Takes the place of ThreadPoolExecutor: in turn, unless the weather has real threads."""
        if self._weather.threads:
            return ThreadPoolExecutor(max_workers)
        return InTurn(lazy=max_workers == 1 and self._weather.lazy)

    def sleep(self, seconds: float) -> None:
        """Time passes."""
        self.storm.sleep(seconds)

    # -- the record

    def _is_owner(self, owner: str) -> bool:
        record = self.record
        return (record["status"], record.get("owner")) == ("PROCESSING", owner)

    @property
    def record(self) -> dict[str, Any]:
        """The request's item."""
        with self.dynamodb.lock:
            (item,) = self.dynamodb.tables[TABLE].items.values()
        return from_item(item)

    def _put(self, record: Mapping[str, Any]) -> None:
        self.dynamodb.put(TABLE, {**request_key(REQUEST), **{name: to_value(value) for name, value in record.items()}})

    def _resume(self) -> None:
        """Release and claim what is held."""
        record = self.record
        if record["status"] == "HELD":
            self.check_held(sum(self.removed().values()) - self._held_at)
            self._put({**record, "status": "PROCESSING", "owner": "", "due_at": NOW + 900})
            self.take_over()

    def _end(self, event: Mapping[str, Any]) -> None:
        """The step is done: look, complete the request, and let the user register again."""
        self.storm.calm = True
        self._check_record()
        self.check_done()
        process = Process()
        assert self._ask(event, process)["done"]
        self.check_remaining(self._ask({**event, "verify": True}, process)["remaining"])
        assert self.removed() == self._counts(), "a step that was done deleted more"
        self.storm.calm = False
        self._over = True
        gone = ("user_id", "identifiers", "owner", "due_at")
        record = self.record
        kept = {name: value for name, value in record.items() if name not in gone}
        self._put({**kept, "status": "COMPLETED", "fence": record["fence"] + 1})
        self.register_again()

    def _check_locked(self, locked: RetentionLocked) -> None:
        record = self.record
        assert (record["status"], record.get("owner")) == ("HELD", None)
        assert (record["last_error"]["locked"], record.get("due_at")) == (locked.locked, locked.until)
        assert self._counts() == self.removed()
        self.check_locked(locked)
        self._held_at, self._locked = sum(self.removed().values()), True

    def _ask(self, event: Mapping[str, Any], process: Process) -> Answer:
        return self.storm.run(lambda _: self._handler(event, process))

    def _counts(self) -> Mapping[str, int]:
        deleted: Mapping[str, int] = self.record["steps"][self.step]["deleted"]
        return {store: number for store, number in deleted.items() if number}

    def _check_record(self) -> None:
        record = self.record
        own = record["steps"][self.step]
        assert own["status"] == "DONE"
        assert "batch" not in own, "a batch is under way in a step that is done"
        assert "status" not in record["steps"][VERIFY_STEP], "the verification still holds"
        assert (record["status"], record["owner"], record["seq"]) == ("PROCESSING", f"execution-{self._executions}", 0)
        assert self._counts() == self.removed()
