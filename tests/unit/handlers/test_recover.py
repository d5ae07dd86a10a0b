"""Recover: a request is taken from an execution that has ended, and from no other."""

import json
from typing import Any

import pytest

from handlers.core.errors import ExecutionStillRuns, InvalidEvent, RequestUnknown, Throttled
from tests.wire import answered, refused
from tests.world import OWNER, World

STATUSES = ("FAILED", "TIMED_OUT", "ABORTED", "SUCCEEDED")


def event(owner: str, name: str) -> dict[str, Any]:
    return {"source": "aws.states", "detail": {"executionArn": owner, "name": name, "status": "FAILED"}}


@pytest.fixture
def request_id(world: World) -> str:
    world.sign_up()
    return world.claimed()


def owned(world: World, request_id: str) -> str:
    """The request's owner as an execution called <id>-1."""
    owner = f"{OWNER}:{request_id}-1"
    world.change(request_id, owner=owner)
    return owner


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.invariant("I4")
def test_an_ended_execution_loses_its_request_and_one_failure_is_counted(
    world: World, request_id: str, status: str
) -> None:
    owner = owned(world, request_id)
    before = world.record(request_id)
    world.wire.before("DescribeExecution", answered(status=status))

    assert world.run("Recover", event=event(owner, f"{request_id}-1")) == {"recovered": True}

    record = world.record(request_id)
    assert (record["status"], record["failures"]) == ("RETRYABLE", 1)
    assert record["fence"] == before["fence"] + 1
    assert "owner" not in record
    # The first failure's next attempt is started at once.
    assert (record["attempt"], record["claimed"]) == (2, 1)
    assert [call.params["name"] for call in world.wire.of("StartExecution")][-1] == f"{request_id}-2"
    assert record["last_error"] == {"step": "Execution", "error": status, "at": world.now}


@pytest.mark.parametrize("status", ["RUNNING", "PENDING_REDRIVE"])
def test_an_event_that_came_too_early_is_sent_again(world: World, request_id: str, status: str) -> None:
    owner = owned(world, request_id)
    before = world.record(request_id)
    world.wire.before("DescribeExecution", answered(status=status))

    with pytest.raises(ExecutionStillRuns):
        world.run("Recover", event=event(owner, f"{request_id}-1"))

    assert world.record(request_id) == before


@pytest.mark.invariant("I7")
def test_an_event_that_comes_twice_counts_once(world: World, request_id: str) -> None:
    owner = owned(world, request_id)
    world.wire.before("DescribeExecution", answered(status="ABORTED"), times=2)

    answers = [world.run("Recover", event=event(owner, f"{request_id}-1")) for _ in range(2)]

    assert answers == [{"recovered": True}, {"recovered": False}]
    assert world.record(request_id)["failures"] == 1


def test_an_execution_that_is_unknown_counts_as_ended(world: World, request_id: str) -> None:
    owner = owned(world, request_id)
    world.wire.before("DescribeExecution", refused("ExecutionDoesNotExist"))

    assert world.run("Recover", event=event(owner, f"{request_id}-1")) == {"recovered": True}


def test_an_event_of_an_earlier_owner_touches_nothing(world: World, request_id: str) -> None:
    owned(world, request_id)
    before = world.record(request_id)

    assert world.run("Recover", event=event(f"{OWNER}:other", f"{request_id}-1")) == {"recovered": False}

    assert world.record(request_id) == before
    assert world.wire.of("DescribeExecution") == []


def test_a_service_that_cannot_be_asked_changes_nothing(world: World, request_id: str) -> None:
    owner = owned(world, request_id)
    before = world.record(request_id)
    world.wire.before("DescribeExecution", refused("ThrottlingException"), times=4)

    with pytest.raises(Throttled):
        world.run("Recover", event=event(owner, f"{request_id}-1"))

    assert world.record(request_id) == before


@pytest.mark.parametrize(
    "wrong", [None, {}, {"detail": {}}, event("arn", "del_1-1"), event("arn", "x"), {"detail": {"name": 1}}]
)
def test_an_event_of_another_shape_is_rejected(world: World, wrong: Any) -> None:
    with pytest.raises(InvalidEvent):
        world.run("Recover", event=wrong)
    assert json.dumps(world.wire.operations()) == "[]"


def test_an_unknown_request_is_rejected(world: World) -> None:
    with pytest.raises(RequestUnknown):
        world.run("Recover", event=event("arn", "del_00000000000000000000000000-1"))


@pytest.mark.invariant("I7")
@pytest.mark.parametrize(("failures", "wait"), [(1, 60), (2, 120), (20, 3600)])
def test_later_failures_wait_longer_and_longer_and_are_not_started_at_once(
    world: World, request_id: str, failures: int, wait: int
) -> None:
    owner = owned(world, request_id)
    world.change(request_id, failures=failures)
    world.wire.before("DescribeExecution", answered(status="ABORTED"))

    world.run("Recover", event=event(owner, f"{request_id}-1"))

    record = world.record(request_id)
    assert (record["failures"], record["attempt"]) == (failures + 1, 1)
    assert world.now + wait // 2 <= record["due_at"] <= world.now + wait


def test_a_start_that_fails_is_left_to_the_sweeper(world: World, request_id: str) -> None:
    owner = owned(world, request_id)
    world.wire.before("DescribeExecution", answered(status="ABORTED"))
    world.wire.before("StartExecution", refused("ThrottlingException"), times=4)

    assert world.run("Recover", event=event(owner, f"{request_id}-1")) == {"recovered": True}

    record = world.record(request_id)
    assert record["status"] == "RETRYABLE"
    assert world.now < record["due_at"]
