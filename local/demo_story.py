"""What happens to the demo's four users, and what must have come of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Barrier
from typing import Any

from handlers.core.record import Record
from handlers.core.states import Status, StepStatus
from local.demo_requests import DemoError, Requests
from local.demo_stores import STORES, Listing, Stores, User
from local.demo_view import Row, View
from local.waiting import wait_until
from statemachine.deletion import DELETE_FILES

PLAIN = User(user_id="user-a1b2", customer_id="1001", orders=260, visits=220, files=80, clean_ups=1)
DUPLICATED = User(user_id="user-c3d4", customer_id="1002", orders=240, visits=310, files=90, clean_ups=1)
# More than two batches of 1,000, so that one is gone and one is not when the process dies.
CRASHED = User(user_id="user-e5f6", customer_id="1003", orders=280, visits=250, files=200, clean_ups=10)
# Both names begin like those of the first user: a careless prefix or query would take this one along.
BYSTANDER = User(user_id="user-a1b23", customer_id="10010", orders=250, visits=230, files=80, clean_ups=1)
USERS = (PLAIN, DUPLICATED, CRASHED, BYSTANDER)

DUPLICATES = 3
RETRY_SCALE = 0.1
"""Of the emulator's waits after the crash: Retry's five seconds become half a second."""

_WITHIN = 90.0
"""Seconds that a deletion may take before the demo gives up; it takes three, on a busy machine many more."""
_SLICE = 0.01
"""Seconds that the process runs between two looks at how far it is."""
_UNDER_WAY = frozenset({Status.SCHEDULED, Status.PROCESSING})


@dataclass(slots=True, kw_only=True)
class Case:
    """One user's part of the story."""

    user: User
    plan: str
    request_id: str = ""
    asked_at: float = 0.0
    states: list[tuple[float, Status]] = field(default_factory=list)
    """Seconds after the request -> a status that was seen first then."""
    record: Record | None = None
    """As it was seen last."""
    executions: Sequence[str] = ()
    invocations: int = 1
    """How often DeleteFiles must have been invoked."""
    before_late_event: tuple[Mapping[str, Any], Sequence[str]] | None = None
    """Item and executions before an event that came after the end; None where none came."""
    after_late_event: tuple[Mapping[str, Any], Sequence[str]] | None = None

    def row(self) -> Row:
        """For the live view."""
        row = Row(self.user.user_id, self.plan)
        if self.record is not None:
            row.now = f"{self.record.status}{_step_under_way(self.record)}"
            row.done = _counted(deleted(self.record))
        return row

    def findings(self, listing: Listing) -> list[str]:
        """What is wrong with a deleted user; empty when nothing is."""
        left = {store: number for store, number in listing.counts(self.user.user_id).items() if number}
        found = [f"left: {_counted(left)}"] if left else []
        record = self.record
        if record is None:
            return [*found, "no request was accepted"]
        if record.status is not Status.COMPLETED:
            found.append(f"is {record.status}: {_last_error(record)}")
        if (counts := deleted(record)) != self.user.expected():
            found.append(f"recorded: {_counted(counts)}")
        if len(self.executions) != 1:
            found.append(f"{len(self.executions)} executions, not 1")
        if (record.attempt, record.claimed) != (1, 1):
            found.append(f"{record.attempt} attempts, not 1")
        if (invocations := record.step(DELETE_FILES.name).invocations) != self.invocations:
            found.append(f"DeleteFiles was invoked {invocations} times, not {self.invocations}")
        if self.before_late_event != self.after_late_event:
            found.append("an event after the end had an effect")
        return found


def deleted(record: Record) -> dict[str, int]:
    """Store -> how many the record says were deleted, over all steps."""
    counts = {store: number for step in record.steps.values() for store, number in step.deleted.items()}
    return {store: counts[store] for store in sorted(counts, key=_place) if counts[store]}


def _place(store: str) -> int:
    return STORES.index(store) if store in STORES else len(STORES)


class Story:
    """Runs the parts; what came of them is in `cases`."""

    def __init__(self, requests: Requests, stores: Stores, view: View, before: Listing) -> None:
        self.before = before
        """What was in the stores before the first part."""
        self._requests = requests
        self._stores = stores
        self._view = view
        self.cases = (
            Case(user=PLAIN, plan="deleted plainly"),
            Case(user=DUPLICATED, plan=f"due event {DUPLICATES} times, and again"),
            Case(user=CRASHED, plan="process dies half way", invocations=2),
        )

    def tell(self) -> None:
        """All parts, one after the other."""
        for case in self.cases:
            self._view.show(case.row())
        self._view.show(Row(BYSTANDER.user_id, "stays", "nobody asked"))
        self._view.say("no schedule is made for what is due within two minutes: the demo sends the due events itself")
        plain, duplicated, crashed = self.cases
        self._accept(plain)
        self._requests.due(plain.request_id)
        self._follow(plain)
        self._accept(duplicated)
        self._send_duplicates(duplicated)
        self._follow(duplicated)
        self._send_late(duplicated)
        self._accept(crashed)
        self._requests.due(crashed.request_id)
        self._kill_half_way(crashed)
        self._follow(crashed)
        self._requests.scale_waits(1)

    def close(self) -> None:
        """Look once more at what there is of each request: something may have come late."""
        for case in self.cases:
            case.executions = self._requests.executions(case.request_id)
            case.record = self._requests.record(case.request_id)

    def _accept(self, case: Case) -> None:
        case.asked_at = time.monotonic()
        case.request_id = self._requests.accept(case.user)
        self._view.say(f"{case.user.user_id}: asked to be deleted, {case.request_id}")
        self._look(case)

    def _send_duplicates(self, case: Case) -> None:
        at_once = Barrier(DUPLICATES)

        def send() -> bool:
            at_once.wait()
            return bool(self._requests.due(case.request_id)["dispatched"])

        with ThreadPoolExecutor(DUPLICATES) as threads:
            sent = [threads.submit(send) for _ in range(DUPLICATES)]
            started = sum(one.result() for one in sent)
        self._view.say(f"{case.user.user_id}: the due event came {DUPLICATES} times at once, {started} was dispatched")

    def _send_late(self, case: Case) -> None:
        case.before_late_event = self._seen(case)
        answer = self._requests.due(case.request_id)
        case.after_late_event = self._seen(case)
        outcome = "was dispatched" if answer["dispatched"] else "was left alone"
        self._view.say(f"{case.user.user_id}: the due event came again after the end and {outcome}")

    def _seen(self, case: Case) -> tuple[Mapping[str, Any], Sequence[str]]:
        return self._requests.item(case.request_id), self._requests.executions(case.request_id)

    def _kill_half_way(self, case: Case) -> None:
        """Let the process run for a moment at a time; kill it where one batch is gone and another is not."""
        wait_until(lambda: self._is_killed(case), limit=_WITHIN, every=_SLICE)

    def _is_killed(self, case: Case) -> bool:
        record = self._look(case)
        if record.status not in _UNDER_WAY or record.step(DELETE_FILES.name).status is StepStatus.DONE:
            raise DemoError(
                f"{case.user.user_id}: {DELETE_FILES.name} could not be killed half way, "
                f"the request is already {record.status}{_step_under_way(record)}"
            )
        if record.step(DELETE_FILES.name).status is not StepStatus.RUNNING:
            return False
        killed = self._requests.kill_if(DELETE_FILES, lambda: self._is_half_way(case))
        return bool(killed)

    def _is_half_way(self, case: Case) -> bool:
        """Whether the record counts a batch and the bucket still shows another; called while the process is stopped."""
        if not deleted(self._look(case)).get("files"):
            return False
        left, there_were = self._stores.versions_left(case.user), case.user.expected()["files"]
        if not 0 < left < there_were:
            return False
        self._requests.scale_waits(RETRY_SCALE)
        self._view.say(
            f"{case.user.user_id}: the process of {DELETE_FILES.name} is killed with {left} of {there_were} versions "
            f"left; Retry's 5 s are shortened to {5 * RETRY_SCALE:g} s here"
        )
        return True

    def _follow(self, case: Case) -> None:
        wait_until(
            lambda: self._look(case),
            lambda record: record.status not in _UNDER_WAY,
            limit=_WITHIN,
            every=0.03,
        )

    def _look(self, case: Case) -> Record:
        record = case.record = self._requests.record(case.request_id)
        if not case.states or case.states[-1][1] is not record.status:
            case.states.append((time.monotonic() - case.asked_at, record.status))
        self._view.show(case.row())
        return record


def _step_under_way(record: Record) -> str:
    running = [name for name, step in record.steps.items() if step.status is StepStatus.RUNNING]
    return f", {running[-1]}" if running and record.status is Status.PROCESSING else ""


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {store}" for store, number in counts.items()) or "nothing"


def _last_error(record: Record) -> str:
    error = record.attributes.get("last_error", {})
    return f"{error.get('error', 'no error')} in {error.get('step', 'no step')}"
