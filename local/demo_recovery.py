"""Parts of the demo in which something dies or gets lost: a process, a schedule, a whole worker."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

from handlers.core.states import Status, StepStatus
from local.demo_cases import Case, deleted, last_error, step_under_way
from local.demo_requests import DemoError
from local.demo_stage import WITHIN, Stage
from local.waiting import wait_until
from statemachine.deletion import DELETE_FILES, DELETE_RECORDS
from statemachine.step import Step

RETRY_SCALE = 0.1
"""Of the emulator's waits after the crash: Retry's five seconds become half a second."""

_SLICE = 0.01
"""Seconds that the process runs between two looks at how far it is."""
_A_DAY_AND_MORE = timedelta(days=1, minutes=1)


def crash(stage: Stage, case: Case) -> None:
    """The process of DeleteFiles dies half way; the state machine's Retry calls the function again."""

    def is_half_way() -> bool:
        if not stage.stores.is_partly_empty(case.user):
            return False
        stage.requests.scale_waits(RETRY_SCALE)
        left, there_were = stage.stores.versions_left(case.user), case.user.expected()["files"]
        stage.say(
            case,
            f"the process of {DELETE_FILES.name} is killed with {left} of {there_were} versions left; "
            f"Retry's 5 s are shortened to {5 * RETRY_SCALE:g} s here",
        )
        return True

    stage.start(case)
    _kill_half_way(stage, case, DELETE_FILES, is_half_way)
    stage.follow(case)
    stage.requests.scale_waits(1)


def lose_schedule(stage: Stage, case: Case) -> None:
    """The schedule is deleted, and the grace period ends: only the sweeper is left to find the request."""
    stage.accept(case, grace_days=1)
    stage.requests.delete_schedule(case.request_id)
    for when in ("grace_ends_at", "due_at"):
        stage.requests.set_back(case.request_id, when, _A_DAY_AND_MORE)
    stage.say(case, "its schedule is lost, and its day of grace is over: here its times are set back by a day")
    lost_at = time.monotonic()
    stage.requests.sweep()
    wait_until(lambda: stage.look(case), lambda record: record.status is not Status.SCHEDULED, limit=WITHIN)
    took = time.monotonic() - lost_at
    stage.say(case, f"a run of the sweeper, which its schedule calls each minute, started it in {took:.1f} s")
    case.notes.append(f"started {took:.1f} s after the sweeper began")
    stage.follow(case)


def abandon(stage: Stage, case: Case) -> None:
    """The execution is stopped and its process killed: nobody is left of the attempt, and the lease has long to go."""

    def is_half_way() -> bool:
        record, there_were = stage.look(case), case.user.expected()["orders"]
        gone = deleted(record).get("orders", 0)
        if not 0 < gone < there_were:
            return False
        stage.requests.stop_execution(record.owner)
        stage.say(
            case,
            f"its execution is stopped, and the process of {DELETE_RECORDS.name} killed, "
            f"with {there_were - gone} of {there_were} orders left",
        )
        return True

    stage.start(case)
    _kill_half_way(stage, case, DELETE_RECORDS, is_half_way)
    died_at = time.monotonic()
    record = wait_until(lambda: stage.look(case), lambda record: record.claimed > 1, limit=WITHIN)
    took = time.monotonic() - died_at
    case.failed_with = last_error(record)
    stage.say(case, f"the status event reached the recovery, and attempt 2 went on {took:.1f} s after the death")
    case.notes.append(f"attempt 2 went on {took:.1f} s after the death")
    stage.follow(case)


def _kill_half_way(stage: Stage, case: Case, step: Step, is_half_way: Callable[[], bool]) -> None:
    """Let the process of a step run for a moment at a time; kill it where some is gone and some is not.

    is_half_way: is called while the process is stopped; what must be done before the kill is done by it.
    """
    wait_until(lambda: _is_killed(stage, case, step, is_half_way), limit=WITHIN, every=_SLICE)


def _is_killed(stage: Stage, case: Case, step: Step, is_half_way: Callable[[], bool]) -> bool:
    record = stage.look(case)
    status = record.step(step.name).status
    if record.status not in {Status.SCHEDULED, Status.PROCESSING} or status is StepStatus.DONE:
        raise DemoError(
            f"{case.user.user_id}: {step.name} could not be killed half way, "
            f"the request is already {record.status}{step_under_way(record)}"
        )
    if status is not StepStatus.RUNNING:
        return False
    return bool(stage.requests.kill_if(step, is_half_way))
