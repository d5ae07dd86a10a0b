"""Dispatching: one attempt, one execution, whoever asks and however often."""

import json
import threading
from typing import Any

import pytest

from handlers.core.errors import AccessDenied, InvalidEvent, RequestUnknown, Throttled
from tests.wire import Call, Crash, answered, raises, refused
from tests.world import OWNER, Context, World


@pytest.fixture
def due(world: World) -> str:
    """A request whose grace period is over."""
    return world.accept()


def dispatch(world: World, request: str) -> Any:
    return world.run("Dispatch", event={"deletion_request_id": request})


def executions(world: World) -> list[tuple[str, Any]]:
    """(name, input) of all executions."""
    client = world.client("stepfunctions")
    found = client.list_executions(stateMachineArn=world.machine)["executions"]
    return sorted(
        (one["name"], json.loads(client.describe_execution(executionArn=one["executionArn"])["input"])) for one in found
    )


def test_a_due_request_starts_one_execution_named_after_the_attempt(world: World, due: str) -> None:
    answer = dispatch(world, due)

    assert answer == {"dispatched": True, "attempt": 1}
    assert executions(world) == [(f"{due}-1", {"deletion_request_id": due, "attempt": 1})]
    record = world.record(due)
    assert (record["status"], record["attempt"], record["due_at"]) == ("SCHEDULED", 1, world.now + 300)


def test_the_same_event_twice_starts_nothing_more(world: World, due: str) -> None:
    dispatch(world, due)
    record = world.record(due)

    assert dispatch(world, due) == {"dispatched": False}
    assert len(executions(world)) == 1
    assert world.record(due) == record


def test_an_event_that_comes_too_early_is_no_error_and_no_effect(world: World) -> None:
    request = world.accept(grace_days=1)
    record = world.record(request)

    assert dispatch(world, request) == {"dispatched": False}
    assert world.record(request) == record
    assert executions(world) == []


@pytest.mark.parametrize("status", ["PROCESSING", "COMPLETED", "CANCELLED", "FAILED", "HELD"])
def test_a_request_that_runs_or_ended_is_left_alone(world: World, due: str, status: str) -> None:
    world.change(due, status=status, owner=OWNER)
    record = world.record(due)

    assert dispatch(world, due) == {"dispatched": False}
    assert world.record(due) == record
    assert executions(world) == []


def test_a_retryable_request_gets_its_next_attempt(world: World, due: str) -> None:
    world.change(due, status="RETRYABLE", attempt=4, attempt_base=2, claimed=4)

    assert dispatch(world, due) == {"dispatched": True, "attempt": 5}
    assert world.record(due)["due_at"] == world.now + 300


@pytest.mark.parametrize(("unclaimed", "visibility"), [(0, 60), (1, 120), (2, 240)])
def test_a_dispatch_that_nobody_claimed_is_looked_after_later_and_later(
    world: World, due: str, unclaimed: int, visibility: int
) -> None:
    world.change(due, attempt=unclaimed)
    world.more_environment = {"DISPATCH_VISIBILITY": "60"}

    dispatch(world, due)

    assert world.record(due)["due_at"] == world.now + visibility


def test_the_next_look_is_never_more_than_five_minutes_away(world: World, due: str) -> None:
    world.change(due, attempt=500, attempt_base=499, claimed=400)

    dispatch(world, due)

    assert world.record(due)["due_at"] == world.now + 300


@pytest.mark.invariant("I7")
def test_dispatches_are_counted_before_the_effect_and_end_in_failed_with_a_metric(
    world: World, due: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(3):
        world.wire.before("StartExecution", refused("AccessDeniedException", status=403))
        with pytest.raises(AccessDenied):
            dispatch(world, due)
        world.now += 3600
    capsys.readouterr()

    answer = dispatch(world, due)

    record = world.record(due)
    assert answer == {"dispatched": False}
    assert (record["status"], record["attempt"]) == ("FAILED", 3)
    assert "due_at" not in record
    assert record["last_error"] == {"step": "Dispatch", "error": "DispatchesExhausted", "at": world.now}
    assert '"Failed":[1.0]' in capsys.readouterr().out
    assert executions(world) == []


@pytest.mark.invariant("I7")
def test_an_exhaustion_whose_answer_is_lost_still_gives_its_metric(
    world: World, due: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world.change(due, attempt=3)
    world.wire.lose_answer("UpdateItem")

    dispatch(world, due)

    assert world.record(due)["status"] == "FAILED"
    assert '"Failed":[1.0]' in capsys.readouterr().out


def test_a_redrive_renews_the_budget(world: World, due: str) -> None:
    world.change(due, status="RETRYABLE", attempt=3, attempt_base=3)

    assert dispatch(world, due) == {"dispatched": True, "attempt": 4}


@pytest.mark.invariant("I4")
def test_a_dispatch_whose_answer_is_lost_starts_its_execution(world: World, due: str) -> None:
    world.wire.lose_answer("UpdateItem")

    assert dispatch(world, due) == {"dispatched": True, "attempt": 1}
    assert [name for name, _ in executions(world)] == [f"{due}-1"]
    assert world.record(due)["attempt"] == 1


def test_a_start_whose_answer_is_lost_is_no_error(world: World, due: str) -> None:
    world.wire.lose_answer("StartExecution")

    assert dispatch(world, due)["dispatched"]
    assert len(executions(world)) == 1


def test_an_execution_that_exists_already_is_success(world: World, due: str) -> None:
    world.wire.before("StartExecution", refused("ExecutionAlreadyExists"))

    assert dispatch(world, due) == {"dispatched": True, "attempt": 1}


@pytest.mark.invariant("I4")
def test_a_crash_between_the_write_and_the_start_is_healed_when_it_is_due_again(world: World, due: str) -> None:
    world.wire.before("StartExecution", raises(Crash()))
    with pytest.raises(Crash):
        dispatch(world, due)
    assert dispatch(world, due) == {"dispatched": False}
    world.now += 300

    assert dispatch(world, due) == {"dispatched": True, "attempt": 2}
    assert [name for name, _ in executions(world)] == [f"{due}-2"]


@pytest.mark.invariant("I5")
def test_an_attempt_that_another_dispatched_and_claimed_is_not_started_again(world: World, due: str) -> None:
    def another(_: Call) -> None:
        world.dispatch(due)
        world.claim(due)
        world.change(due, status="RETRYABLE")

    world.wire.before("UpdateItem", another)

    assert dispatch(world, due) == {"dispatched": False}
    assert executions(world) == []


def test_three_dispatches_at_once_start_one_execution(world: World, due: str) -> None:
    start = threading.Barrier(3)

    def invoke(handler: Any) -> None:
        start.wait()
        handler({"deletion_request_id": due}, Context())

    with world.environment("Dispatch") as handler:
        threads = [threading.Thread(target=invoke, args=(handler,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert [name for name, _ in executions(world)] == [f"{due}-1"]
    assert world.record(due)["attempt"] == 1


def test_a_conflict_or_a_throttle_is_not_read_as_lost(world: World, due: str) -> None:
    world.wire.before("UpdateItem", refused("TransactionConflictException"), times=2)
    assert dispatch(world, due)["dispatched"]
    world.now += 300
    world.wire.before("UpdateItem", refused("ThrottlingException"))

    with pytest.raises(Throttled):
        dispatch(world, due)

    assert world.record(due)["attempt"] == 1


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (None, InvalidEvent),
        ({}, InvalidEvent),
        ({"deletion_request_id": "ann"}, InvalidEvent),
        ({"deletion_request_id": "del_" + "0" * 26}, RequestUnknown),
    ],
)
def test_an_event_without_a_known_id_is_rejected_with_one_log_line(
    world: World, event: Any, error: type[Exception]
) -> None:
    world.lines()
    with world.environment("Dispatch") as handler, pytest.raises(error):
        handler(event, Context())

    assert [line["error"] for line in world.lines()] == [error.__name__]
    assert executions(world) == []


def test_nothing_but_id_and_attempt_is_handed_to_the_execution(world: World, due: str) -> None:
    world.wire.before("StartExecution", answered(executionArn=OWNER))

    dispatch(world, due)

    (call,) = world.wire.of("StartExecution")
    assert call.params == {
        "stateMachineArn": world.machine,
        "name": f"{due}-1",
        "input": json.dumps({"attempt": 1, "deletion_request_id": due}),
    }
