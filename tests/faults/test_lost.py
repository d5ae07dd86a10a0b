"""What gets lost around an execution: its schedule, its start, its lease, its status event; on the emulator."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from handlers.core.states import Status
from handlers.redrive import RedriveReport
from statemachine.frame import DISPATCH
from tests.emulator.stack import LIMIT
from tests.emulator.test_operations import redrive
from tests.emulator.test_recovery import events_get_lost, schedules, sweep
from tests.faults.faults import HOUR, Faults, faulty_stack
from tests.faults.tap import Moment

pytestmark = pytest.mark.long

DAY = 24 * HOUR
EVERY = ("I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8")


@pytest.fixture(scope="module")
def faults() -> Iterator[Faults]:
    """One stack for all tests of this file: each brings a user of its own."""
    with faulty_stack() as deployed:
        yield deployed


@pytest.mark.invariant(*EVERY)
def test_a_request_whose_schedule_is_lost_in_its_grace_period_is_started_by_the_sweeper(faults: Faults) -> None:
    before, stack = faults.new_user(), faults.stack
    request = str(stack.ask(before.user, grace_days=1)["deletion_request_id"])
    assert request in schedules(stack)
    stack.requests.delete_schedule(request)
    for when in ("grace_ends_at", "due_at"):
        stack.set_back(request, when, DAY + 1)

    swept = sweep(stack)
    record = faults.ended(request)

    assert swept == {"dispatched": 1}
    assert record.status is Status.COMPLETED, record
    faults.holds(before, request, attempts=1, failures=0)


@pytest.mark.invariant(*EVERY)
def test_a_dispatch_that_dies_after_its_write_is_made_up_for_when_its_time_is_over(faults: Faults) -> None:
    before, stack = faults.new_user(), faults.stack
    request = str(stack.ask(before.user)["deletion_request_id"])
    dispatch = stack.names.function(DISPATCH)

    with ThreadPoolExecutor(1) as caller, faults.tap.losing(dispatch, "StartExecution", Moment.BEFORE) as trap:
        answer = caller.submit(stack.invoke, DISPATCH, {"deletion_request_id": request})
        trap.wait(LIMIT)
        written = stack.requests.record(request)
        stack.requests.kill(DISPATCH)
        died = answer.result()["errorType"]
    too_early, in_time = sweep(stack), faults.becomes_due(request)
    record = faults.ended(request)

    assert died == "Runtime.ExitError"
    assert (written.status, written.attempt, written.claimed) == (Status.SCHEDULED, 1, 0)
    assert (too_early, in_time) == ({}, {"dispatched": 1})
    assert stack.requests.executions(request) == [f"{request}-2"]
    assert record.status is Status.COMPLETED, record
    faults.holds(before, request, attempts=2, failures=0)


@pytest.mark.invariant(*EVERY)
@pytest.mark.parametrize("dies", [False, True], ids=["and it asks again", "and the dispatch dies"])
def test_a_start_whose_answer_is_lost_starts_one_execution(faults: Faults, *, dies: bool) -> None:
    before, stack = faults.new_user(), faults.stack
    request = str(stack.ask(before.user)["deletion_request_id"])
    dispatch = stack.names.function(DISPATCH)

    with (
        ThreadPoolExecutor(1) as caller,
        faults.tap.losing(dispatch, "StartExecution", Moment.AFTER, held=dies) as trap,
    ):
        answer = caller.submit(stack.invoke, DISPATCH, {"deletion_request_id": request})
        trap.wait(LIMIT)
        if dies:
            stack.requests.kill(DISPATCH)
        answered = answer.result()
    record = faults.ended(request)

    assert answered.get("errorType") == ("Runtime.ExitError" if dies else None)
    assert answered.get("dispatched") == (None if dies else True)
    assert stack.requests.executions(request) == [f"{request}-1"]
    assert record.status is Status.COMPLETED, record
    faults.holds(before, request, attempts=1, failures=0)


@pytest.mark.invariant(*EVERY)
def test_a_dead_owner_whose_status_event_is_lost_is_found_when_its_lease_is_over_and_not_before(faults: Faults) -> None:
    before, stack = faults.new_user(), faults.stack
    request = str(stack.ask(before.user)["deletion_request_id"])

    with events_get_lost(stack):
        with faults.asleep_before("DeleteFiles", lambda: stack.requests.due(request)):
            faults.stop(request)
        too_early = sweep(stack)
        left_alone = stack.requests.record(request)
        in_time = faults.becomes_due(request)
    record = faults.ended(request, attempt=2)

    assert (too_early, in_time) == ({}, {"recovered": 1})
    assert (left_alone.status, left_alone.attempt) == (Status.PROCESSING, 1)
    assert record.status is Status.COMPLETED, record
    faults.holds(before, request, attempts=2, failures=1)


@pytest.mark.invariant(*EVERY)
def test_an_owner_that_lives_on_past_its_lease_keeps_the_request(faults: Faults) -> None:
    before, stack = faults.new_user(), faults.stack
    request = str(stack.ask(before.user)["deletion_request_id"])

    with faults.asleep_before("DeleteFiles", lambda: stack.requests.due(request)):
        owned = stack.requests.record(request)
        swept = [faults.becomes_due(request), sweep(stack)]
        still_owned = stack.requests.record(request)
    record = faults.ended(request)

    assert swept == [{"still running": 1}, {}]
    assert (still_owned.status, still_owned.owner) == (Status.PROCESSING, owned.owner)
    assert still_owned.fence == owned.fence
    assert record.status is Status.COMPLETED, record
    faults.holds(before, request, attempts=1, failures=0)


@pytest.mark.invariant(*EVERY)
def test_a_status_event_that_comes_twice_at_once_and_again_under_way_counts_one_failure(faults: Faults) -> None:
    before, stack = faults.new_user(), faults.stack
    request = str(stack.ask(before.user)["deletion_request_id"])
    event = faults.status_event(request, 1)
    answers: list[Mapping[str, Any]] = []

    def stop_and_tell_twice() -> None:
        faults.stop(request)
        with ThreadPoolExecutor(2) as threads:
            answers.extend(threads.map(lambda _: stack.invoke("recover", event), range(2)))

    with (
        events_get_lost(stack),
        faults.asleep_before("DeleteFiles", lambda: stack.requests.due(request)),
        faults.asleep_before("DeleteIdentity", stop_and_tell_twice),
    ):
        late = stack.invoke("recover", event)
    record = faults.ended(request, attempt=2)

    assert {"recovered": True} in answers
    assert late == {"recovered": False}
    assert stack.requests.executions(request) == [f"{request}-1", f"{request}-2"]
    assert record.status is Status.COMPLETED, record
    faults.holds(before, request, attempts=2, failures=1)


@pytest.mark.invariant(*EVERY)
def test_dead_letters_of_a_completed_request_are_put_through_again_and_change_nothing(faults: Faults) -> None:
    before, stack = faults.new_user(), faults.stack
    request = stack.started(before.user)
    record = faults.ended(request)
    item, queues = stack.item(request), stack.done.outputs["dead_letter_queue_urls"]
    due = {"deletion_request_id": request}
    for queue, body in (("dispatch", due), ("recover", faults.status_event(request, 1, "FAILED"))):
        stack.client("sqs").send_message(QueueUrl=queues[queue], MessageBody=json.dumps(body))

    reports = [redrive(stack, queues[queue]) for queue in ("dispatch", "recover")]

    assert reports == [RedriveReport(handled=1)] * 2
    assert record.status is Status.COMPLETED, record
    assert stack.item(request) == item
    assert stack.requests.executions(request) == [f"{request}-1"]
    faults.holds(before, request, attempts=1, failures=0)
