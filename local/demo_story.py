"""What happens to the demo's users, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

from handlers.core.states import Status
from local import demo_cases as people
from local.demo_cases import Case
from local.demo_operators import deny_and_redrive, hold_and_cancel, hold_and_release
from local.demo_recovery import abandon, crash, lose_schedule
from local.demo_stage import Stage
from local.demo_stores import Listing
from local.demo_view import Row
from statemachine.deletion import DELETE_FILES, DELETE_RECORDS

DUPLICATES = 3

Part = Callable[[Stage, Case], None]


def delete(stage: Stage, case: Case) -> None:
    """Nothing goes wrong."""
    stage.start(case)
    stage.follow(case)


def duplicate(stage: Stage, case: Case) -> None:
    """The due event comes several times at once, and again after the end."""
    stage.accept(case)
    at_once = Barrier(DUPLICATES)

    def send() -> bool:
        at_once.wait()
        return bool(stage.requests.due(case.request_id)["dispatched"])

    with ThreadPoolExecutor(DUPLICATES) as threads:
        sent = [threads.submit(send) for _ in range(DUPLICATES)]
        started = sum(one.result() for one in sent)
    stage.say(case, f"the due event came {DUPLICATES} times at once, {started} was dispatched")
    stage.follow(case)
    case.before_late_event = _seen(stage, case)
    answer = stage.requests.due(case.request_id)
    case.after_late_event = _seen(stage, case)
    outcome = "was dispatched" if answer["dispatched"] else "was left alone"
    stage.say(case, f"the due event came again after the end and {outcome}")


def _seen(stage: Stage, case: Case) -> tuple[Mapping[str, Any], Sequence[str]]:
    return stage.requests.item(case.request_id), stage.requests.executions(case.request_id)


def plan() -> tuple[tuple[Case, Part], ...]:
    """Whom what happens to, and what must come of it."""
    return (
        (Case(user=people.PLAIN, plan="deleted plainly"), delete),
        (Case(user=people.DUPLICATED, plan=f"due event {DUPLICATES} times, and again"), duplicate),
        (Case(user=people.CRASHED, plan="process dies half way", invocations=people.twice(DELETE_FILES)), crash),
        (Case(user=people.UNSCHEDULED, plan="schedule is lost"), lose_schedule),
        (
            Case(
                user=people.ABANDONED,
                plan="execution and process die",
                attempts=2,
                invocations=people.twice(DELETE_RECORDS),
                fails_with="ABORTED in Execution",
            ),
            abandon,
        ),
        (
            Case(
                user=people.CANCELLED,
                plan="suspended, then cancelled",
                ends_as=Status.CANCELLED,
                attempts=2,
                invocations=dict.fromkeys(people.ONCE, 0),
            ),
            hold_and_cancel,
        ),
        (Case(user=people.HELD, plan="held, then released", attempts=2, is_held=True), hold_and_release),
        (
            Case(
                user=people.REDRIVEN,
                plan="permission missing, redriven",
                attempts=2,
                fails_with="AccessDenied in DeleteIdentity",
            ),
            deny_and_redrive,
        ),
    )


class Story:
    """Plays the parts; what came of them is in `cases`."""

    def __init__(self, stage: Stage, before: Listing) -> None:
        self.before = before
        """What was in the stores before the first part."""
        self.stage = stage
        self._parts = plan()
        self.cases = [case for case, _ in self._parts]

    def tell(self) -> None:
        """All parts, one after the other."""
        view = self.stage.view
        for case in self.cases:
            view.show(case.row())
        view.show(Row(people.BYSTANDER.user_id, "stays", "nobody asked"))
        view.say("no schedule is made for what is due within two minutes: the demo sends most due events itself")
        for case, play in self._parts:
            play(self.stage, case)

    def close(self) -> None:
        """Look once more at what there is of each request: something may have come late."""
        for case in self.cases:
            case.executions = self.stage.requests.executions(case.request_id)
            case.record = self.stage.requests.record(case.request_id)
