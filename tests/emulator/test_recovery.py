"""Executions that end without a word, schedules that are lost and records that nobody can handle, on the emulator."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import Any

import pytest

from handlers.core.record import Record
from handlers.core.request_table import request_key
from handlers.core.states import Status
from handlers.sweep import DEFERRED
from infra.events import SWEEPER
from local.waiting import wait_until
from statemachine.deletion import DELETE_RECORDS
from tests.emulator.stack import LIMIT, Stack, fresh_stack
from tests.emulator.test_deletion import NOTHING, SLICE, deleted

pytestmark = pytest.mark.long

HOUR = 3_600
POISON = tuple(f"del_{number:026}" for number in range(10))
UNHEARD_OF = "PAUSED"
"""A status as a later version of this program might know it."""


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """One for all tests of this file; its sweeper runs when a test says so, and never by the clock."""
    with fresh_stack() as deployed:
        stop_the_clock(deployed)
        yield deployed


def stop_the_clock(stack: Stack) -> None:
    """Disable the sweeper's schedule."""
    scheduler, group = stack.client("scheduler"), stack.done.outputs["schedule_group_name"]
    (name,) = schedules(stack)
    assert name.endswith(f"-{SWEEPER}")
    found = scheduler.get_schedule(GroupName=group, Name=name)
    same = {key: found[key] for key in ("ScheduleExpression", "FlexibleTimeWindow", "Target")}
    scheduler.update_schedule(GroupName=group, Name=name, State="DISABLED", **same)


def schedules(stack: Stack) -> set[str]:
    """Names of all schedules of the stack: the sweeper's, and those of requests, which are called like them."""
    answer = stack.client("scheduler").list_schedules(GroupName=stack.done.outputs["schedule_group_name"])
    return {one["Name"] for one in answer["Schedules"]}


def sweep(stack: Stack) -> Mapping[str, Any]:
    """One run of the sweeper: outcome -> how many."""
    return stack.invoke("sweep", {})


def asleep_in_the_records(stack: Stack, request: str, then: Callable[[Record], object]) -> None:
    """Do that while the process sleeps between two batches of the records, with the request as it is."""

    def do_it() -> bool:
        step = stack.requests.record(request).step("DeleteRecords")
        assert step.status != "DONE", "the process was too fast"
        if step.status != "RUNNING":
            return False
        with stack.requests.frozen(DELETE_RECORDS) as processes:
            asleep = stack.requests.record(request)
            if not processes or "orders" not in asleep.step("DeleteRecords").deleted:
                return False
            assert asleep.step("DeleteRecords").status == "RUNNING", "the process was too fast"
            then(asleep)
        return True

    wait_until(do_it, limit=LIMIT, every=SLICE)


def stop(stack: Stack, record: Record) -> None:
    """End the execution of a request as an operator might."""
    stack.client("stepfunctions").stop_execution(executionArn=record.owner)


@contextmanager
def events_get_lost(stack: Stack) -> Iterator[None]:
    """For as long as the block takes, nobody hears of an execution that ended."""
    events = stack.client("events")
    (rule,) = (one["Name"] for one in events.list_rules()["Rules"])
    events.disable_rule(Name=rule)
    try:
        yield
    finally:
        events.enable_rule(Name=rule)


@pytest.mark.invariant("I5", "I7")
def test_a_stopped_execution_is_recovered_by_its_event_and_the_next_attempt_starts_at_once(stack: Stack) -> None:
    user = stack.sign_up(orders=900)
    request = stack.started(user)
    seen: list[Record] = []

    def stop_it(asleep: Record) -> None:
        seen.append(asleep)
        stop(stack, asleep)

    asleep_in_the_records(stack, request, stop_it)
    record = wait_until(lambda: stack.ended(request), lambda record: record.attempt == 2, limit=LIMIT)

    (before,) = seen
    error = record.attributes["last_error"]
    assert (before.attempt, before.failures) == (1, 0)
    assert (error["step"], error["error"]) == ("Execution", "ABORTED")
    assert record.status is Status.COMPLETED, record
    assert (record.attempt, record.claimed, record.failures) == (2, 2, 1)
    assert stack.execution(request, 1)["status"] == "ABORTED"
    assert stack.execution(request, 2)["status"] == "SUCCEEDED"
    assert deleted(stack, request) == user.expected()
    assert stack.counts(user) == NOTHING


@pytest.mark.invariant("I5", "I7")
def test_a_lost_event_is_made_up_for_when_the_lease_ends_and_not_while_the_execution_runs(stack: Stack) -> None:
    user = stack.sign_up(orders=900)
    request = stack.started(user)
    seen: list[tuple[Mapping[str, Any], Record]] = []

    def look(_: Record) -> None:
        seen.append((sweep(stack), stack.requests.record(request)))

    def stop_it(asleep: Record) -> None:
        look(asleep)
        stack.set_back(request, "due_at", HOUR)
        look(asleep)
        stack.set_back(request, "due_at", HOUR)
        stop(stack, asleep)
        look(asleep)

    with events_get_lost(stack):
        asleep_in_the_records(stack, request, stop_it)
    record = wait_until(lambda: stack.ended(request), lambda record: record.attempt == 2, limit=LIMIT)

    assert [answer for answer, _ in seen] == [{}, {"still running": 1}, {"recovered": 1}]
    leased, overdue, after = (sight for _, sight in seen)
    assert (overdue.status, overdue.owner, overdue.fence) == (Status.PROCESSING, leased.owner, leased.fence)
    assert (after.failures, after.attempt) == (1, 2)
    assert after.owner != leased.owner
    assert record.status is Status.COMPLETED, record
    assert (record.attempt, record.failures) == (2, 1)
    assert deleted(stack, request) == user.expected()
    assert stack.counts(user) == NOTHING


def test_a_request_whose_schedule_was_lost_is_started_by_the_sweeper_once(stack: Stack) -> None:
    user = stack.sign_up()
    request = str(stack.ask(user)["deletion_request_id"])
    assert request not in schedules(stack)
    before = stack.requests.executions(request)

    first, second = sweep(stack), sweep(stack)
    record = stack.ended(request)
    third = sweep(stack)

    assert before == []
    assert (first, second, third) == ({"dispatched": 1}, {}, {})
    assert stack.requests.executions(request) == [f"{request}-1"]
    assert record.status is Status.COMPLETED, record
    assert deleted(stack, request) == user.expected()
    assert stack.counts(user) == NOTHING


def test_runs_of_the_sweeper_that_overlap_start_one_execution(stack: Stack) -> None:
    user = stack.sign_up()
    request = str(stack.ask(user)["deletion_request_id"])
    at_once = Barrier(3)

    def run(_: int) -> Mapping[str, Any]:
        at_once.wait()
        return sweep(stack)

    with ThreadPoolExecutor(3) as threads:
        answers = list(threads.map(run, range(3)))
    record = stack.ended(request)

    assert not [answer for answer in answers if "errorType" in answer or "not handled" in answer]
    assert stack.requests.executions(request) == [f"{request}-1"]
    assert (record.status, record.attempt) == (Status.COMPLETED, 1), record
    assert deleted(stack, request) == user.expected()


@contextmanager
def poisoned(stack: Stack, like: Mapping[str, Any]) -> Iterator[None]:
    """For as long as the block takes, ten records are due that are older than this one, and that nobody can handle."""
    client, table = stack.client("dynamodb"), stack.done.outputs["request_table_name"]
    changed = {"status": {"S": UNHEARD_OF}, "due_at": {"N": str(int(like["due_at"]["N"]) - HOUR)}}
    try:
        for name in POISON:
            item = {**like, **changed, **request_key(name), "deletion_request_id": {"S": name}}
            client.put_item(TableName=table, Item=item)
        yield
    finally:
        for name in POISON:
            client.delete_item(TableName=table, Key=request_key(name))


def test_records_that_nobody_can_handle_do_not_hold_up_a_healthy_one(stack: Stack) -> None:
    user = stack.sign_up()
    request = str(stack.ask(user)["deletion_request_id"])
    with poisoned(stack, stack.item(request)):
        before = [stack.item(name) for name in POISON]
        now = int(time.time())
        first, second = sweep(stack), sweep(stack)
        after = [stack.item(name) for name in POISON]
        record = stack.ended(request)

    assert (first, second) == ({"dispatched": 1, "not handled": 10}, {})
    assert record.status is Status.COMPLETED, record
    assert stack.counts(user) == NOTHING
    deferred = [int(item["due_at"]["N"]) - now for item in after]
    assert min(deferred) >= DEFERRED.total_seconds()
    assert max(deferred) <= DEFERRED.total_seconds() + LIMIT
    assert [{**item, "due_at": None} for item in after] == [{**item, "due_at": None} for item in before]
    assert [line for line in stack.log_lines() if POISON[0] in line and user.user_id in line] == []
