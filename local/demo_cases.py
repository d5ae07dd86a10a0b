"""The demo's users, and what must have come of each: the findings of the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from handlers.core.record import Record
from handlers.core.states import Status, StepStatus
from local.demo_stores import STORES, Listing, User
from local.demo_view import Row
from statemachine.deletion import DELETE_FILES, DELETE_RECORDS
from statemachine.step import Step

PLAIN = User(user_id="user-a1b2", customer_id="1001", orders=260, visits=220, files=80, clean_ups=1)
DUPLICATED = User(user_id="user-c3d4", customer_id="1002", orders=240, visits=310, files=90, clean_ups=1)
# More than the 8,000 versions of one batch, so that some are gone and some are not when the process dies.
CRASHED = User(user_id="user-e5f6", customer_id="1003", orders=130, visits=120, files=100, clean_ups=90)
UNSCHEDULED = User(user_id="user-g7h8", customer_id="1004", orders=70, visits=80, files=30, clean_ups=1)
# Several transactions of 99 items, for the same reason.
ABANDONED = User(user_id="user-j9k0", customer_id="1005", orders=900, visits=140, files=20, clean_ups=1)
CANCELLED = User(user_id="user-m1n2", customer_id="1006", orders=90, visits=60, files=40, clean_ups=1)
HELD = User(user_id="user-p3q4", customer_id="1007", orders=80, visits=90, files=30, clean_ups=1)
REDRIVEN = User(user_id="user-r5s6", customer_id="1008", orders=60, visits=70, files=20, clean_ups=1)
# Both names begin like those of the first user: a careless prefix or query would take this one along.
BYSTANDER = User(user_id="user-a1b23", customer_id="10010", orders=250, visits=230, files=80, clean_ups=1)
USERS = (PLAIN, DUPLICATED, CRASHED, UNSCHEDULED, ABANDONED, CANCELLED, HELD, REDRIVEN, BYSTANDER)

ONCE: Mapping[str, int] = {DELETE_RECORDS.name: 1, DELETE_FILES.name: 1}
"""Steps that are looked at -> how often they run where nothing dies."""
MODIFIED = "UserLastModifiedDate"
"""What a user pool writes anew when a user is suspended and restored."""


@dataclass(slots=True, kw_only=True)
class Case:
    """One user's part of the story: what must come of it, and what was seen."""

    user: User
    plan: str
    ends_as: Status = Status.COMPLETED
    attempts: int = 1
    """How many attempts it must take, each with an execution of its own."""
    invocations: Mapping[str, int] = field(default_factory=lambda: ONCE)
    """Step -> how often it must have been invoked."""
    fails_with: str = ""
    """How its first attempt must fail, "error in step"; empty: it must not fail."""
    is_held: bool = False
    """Whether it must have been held for a while, and lost nothing meanwhile."""

    request_id: str = ""
    asked_at: float = 0.0
    states: list[tuple[float, Status]] = field(default_factory=list)
    """Seconds after the request -> a status that was seen first then."""
    record: Record | None = None
    """As it was seen last."""
    executions: Sequence[str] = ()
    before_late_event: tuple[Mapping[str, Any], Sequence[str]] | None = None
    """Item and executions before an event that came after the end; None where none came."""
    after_late_event: tuple[Mapping[str, Any], Sequence[str]] | None = None
    failed_with: str = ""
    """How it did fail."""
    when_held: Listing | None = None
    """What was in the stores when the hold began."""
    when_released: Listing | None = None
    """What was there when it ended."""
    could_sign_in: bool | None = None
    """Whether the user could sign in just before the cancellation; None where nobody looked."""
    notes: list[str] = field(default_factory=list)
    """What else was seen or measured, for the last table."""

    def row(self) -> Row:
        """For the live view."""
        row = Row(self.user.user_id, self.plan)
        if self.record is not None:
            row.now = f"{self.record.status}{step_under_way(self.record)}"
            row.done = counted(deleted(self.record))
        return row

    def findings(self, before: Listing, after: Listing) -> list[str]:
        """What is wrong with a user whose request has ended; empty when nothing is."""
        found = self._about_stores(before, after)
        if self.record is None:
            return [*found, "no request was accepted"]
        return [*found, *self._about_request(self.record), *self._about_its_way()]

    def good_news(self) -> list[str]:
        """What the verdict says where nothing is wrong."""
        if self.ends_as is Status.CANCELLED:
            return ["nothing changed, and the user can sign in"]
        return ["nothing is left", *(["nothing was lost while it was held"] if self.is_held else [])]

    def _about_stores(self, before: Listing, after: Listing) -> list[str]:
        if self.ends_as is Status.CANCELLED:
            changes = before.changes(after, self.user.user_id, but_for=MODIFIED)
            return [f"CHANGED: {', '.join(changes)}"] if changes else []
        left = {store: number for store, number in after.counts(self.user.user_id).items() if number}
        return [f"left: {counted(left)}"] if left else []

    def _about_request(self, record: Record) -> list[str]:
        found = []
        if record.status is not self.ends_as:
            found.append(f"is {record.status}: {last_error(record)}")
        expected = self.user.expected() if self.ends_as is Status.COMPLETED else {}
        if (counts := deleted(record)) != expected:
            found.append(f"recorded: {counted(counts)}")
        if len(self.executions) != self.attempts:
            found.append(f"{len(self.executions)} executions, not {self.attempts}")
        if (record.attempt, record.claimed) != (self.attempts, self.attempts):
            found.append(f"{record.attempt} attempts, {record.claimed} claimed, not {self.attempts}")
        for step, times in self.invocations.items():
            if (invocations := record.step(step).invocations) != times:
                found.append(f"{step} was invoked {invocations} times, not {times}")
        return found

    def _about_its_way(self) -> list[str]:
        found = []
        if self.before_late_event != self.after_late_event:
            found.append("an event after the end had an effect")
        if self.failed_with != self.fails_with:
            found.append(f"failed with: {self.failed_with or 'nothing'}, not {self.fails_with or 'nothing'}")
        if self.ends_as is Status.CANCELLED and self.could_sign_in is not False:
            found.append("was not suspended before the cancellation")
        return [*found, *(self._about_the_hold() if self.is_held else ())]

    def _about_the_hold(self) -> list[str]:
        if self.when_held is None or self.when_released is None:
            return ["was never held and released"]
        changes = self.when_held.changes(self.when_released, self.user.user_id)
        return [f"CHANGED while held: {', '.join(changes)}"] if changes else []


def twice(step: Step) -> Mapping[str, int]:
    """How often each step runs where this one dies once."""
    return {**ONCE, step.name: 2}


def deleted(record: Record) -> dict[str, int]:
    """Store -> how many the record says were deleted, over all steps."""
    counts = {store: number for step in record.steps.values() for store, number in step.deleted.items()}
    return {store: counts[store] for store in sorted(counts, key=_place) if counts[store]}


def _place(store: str) -> int:
    return STORES.index(store) if store in STORES else len(STORES)


def step_under_way(record: Record) -> str:
    """The step that runs, behind a comma; empty if none does."""
    running = [name for name, step in record.steps.items() if step.status is StepStatus.RUNNING]
    return f", {running[-1]}" if running and record.status is Status.PROCESSING else ""


def counted(counts: Mapping[str, int]) -> str:
    """Numbers in words."""
    return ", ".join(f"{number} {store}" for store, number in counts.items()) or "nothing"


def last_error(record: Record) -> str:
    """The record's last error, "error in step"."""
    error = record.attributes.get("last_error", {})
    return f"{error.get('error', 'no error')} in {error.get('step', 'no step')}"
