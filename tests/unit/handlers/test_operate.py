"""The operators' function and the application's own cancel: what they take, what they answer, what follows at once."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from handlers.core.errors import InvalidEvent, NotPossible, PersonHeld, RequestUnknown
from handlers.core.states import Status
from handlers.operate import Operation, Order
from tests.wire import Call, refused
from tests.world import CUSTOMER, TABLE, USER, World

pytestmark = pytest.mark.exhaustive

DAY = 86_400
REQUEST = "del_" + "0" * 26
UNTIL = "lasts_seconds: a whole number from 1 to 315360000"


def operate(world: World, operation: str, request: str | None = None, **fields: object) -> Mapping[str, Any]:
    named = {} if request is None else {"deletion_request_id": request}
    return world.run("Operate", event={"operation": operation, **named, **fields})


def schedules(world: World) -> list[str]:
    return [one["Name"] for one in world.client("scheduler").list_schedules(GroupName="deletions")["Schedules"]]


def started(world: World) -> list[str]:
    return [str(call.params["name"]) for call in world.wire.of("StartExecution")]


# -- the event


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (None, "event: a JSON object"),
        ({}, "event: either deletion_request_id or user_id"),
        (
            {"operation": "hold", "user_id": USER, "reason": "court"},
            "event: no fields but deletion_request_id, lasts_seconds, operation, user_id",
        ),
        ({"operation": "hold", "user_id": USER, "deletion_request_id": REQUEST}, "event: either"),
        ({"user_id": USER}, "operation: one of cancel, hold, release, redrive, hold_person, release_person"),
        ({"operation": "erase", "user_id": USER}, "operation: one of"),
        ({"operation": ["hold"], "user_id": USER}, "operation: one of"),
        ({"operation": "hold", "user_id": "a/b"}, "user_id: 1 to 128 characters"),
        ({"operation": "hold", "user_id": None}, "user_id: 1 to 128 characters"),
        ({"operation": "hold", "deletion_request_id": "1"}, "deletion_request_id: `del_`"),
        ({"operation": "hold", "user_id": USER, "lasts_seconds": 0}, UNTIL),
        ({"operation": "hold", "user_id": USER, "lasts_seconds": 315_360_001}, UNTIL),
        ({"operation": "hold", "user_id": USER, "lasts_seconds": True}, UNTIL),
        ({"operation": "hold", "user_id": USER, "lasts_seconds": 1.5}, UNTIL),
        ({"operation": "hold", "user_id": USER, "lasts_seconds": None}, UNTIL),
        (
            {"operation": "hold_person", "user_id": USER, "lasts_seconds": 9},
            "lasts_seconds: only with the operation hold",
        ),
    ],
)
def test_a_wrong_field_is_named_with_its_rule_before_any_call(world: World, event: Any, message: str) -> None:
    with world.environment("Operate") as handler, pytest.raises(InvalidEvent) as raised:
        handler(event, None)

    assert str(raised.value).startswith(message)
    assert USER not in str(raised.value)
    assert world.wire.calls == []


@pytest.mark.parametrize("fields", [{}, {"deletion_request_id": REQUEST, "operation": "hold"}, {"user_id": USER}])
def test_the_application_s_cancel_takes_a_request_id_and_nothing_else(world: World, fields: dict[str, object]) -> None:
    with pytest.raises(InvalidEvent, match="event: deletion_request_id and no other field"):
        world.run("CancelRequest", event=fields)

    assert world.wire.calls == []


@pytest.mark.invariant("I8")
def test_the_repr_of_an_order_shows_no_user() -> None:
    assert USER not in repr(Order.of({"operation": "hold", "user_id": USER}))


OF_PERSON = {Operation.HOLD_PERSON, Operation.RELEASE_PERSON}


@pytest.mark.parametrize(
    ("operation", "by"),
    [(one, "deletion_request_id") for one in Operation]
    # A person needs no request: see below.
    + [(one, "user_id") for one in Operation if one not in OF_PERSON],
)
def test_an_unknown_request_is_refused_and_nothing_is_written(world: World, operation: Operation, by: str) -> None:
    with pytest.raises(RequestUnknown):
        operate(world, operation, **{by: REQUEST if by == "deletion_request_id" else USER})

    assert world.items(TABLE) == []


# -- each operation


@pytest.mark.parametrize("by", ["deletion_request_id", "user_id"])
def test_a_cancelled_request_loses_its_schedule(world: World, by: str) -> None:
    request = world.accept(grace_days=10)
    assert schedules(world) == [request]

    answer = operate(world, "cancel", **{by: request if by == "deletion_request_id" else USER})

    assert answer == {
        "operation": "cancel",
        "deletion_request_id": request,
        "status": "CANCELLED",
        "dispatched": False,
    }
    assert schedules(world) == []


def test_the_application_cancels_within_the_grace_period(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    request = world.accept(grace_days=10)

    answers = [world.run("CancelRequest", event={"deletion_request_id": request}) for _ in range(2)]

    assert answers == [{"deletion_request_id": request, "status": "CANCELLED"}] * 2
    assert schedules(world) == []
    assert capsys.readouterr().out.count('"Cancelled":[1.0]') == 1


@pytest.mark.parametrize("status", ["RETRYABLE", "FAILED"])
@pytest.mark.parametrize("function", ["Operate", "CancelRequest"])
def test_a_touched_request_is_undone_at_once(world: World, function: str, status: str) -> None:
    request = world.accept()
    world.dispatch(request)
    world.change(request, status=status, touched_at=world.now, due_at=world.now + 300)
    operation = {"operation": "cancel"} if function == "Operate" else {}

    answer = world.run(function, event={"deletion_request_id": request, **operation})

    assert answer["status"] == "RETRYABLE"
    assert started(world) == [f"{request}-2"]


@pytest.mark.parametrize("status", ["SCHEDULED", "FAILED"])
def test_nothing_is_cancelled_after_the_pivot(world: World, status: str) -> None:
    request = world.accept()
    world.change(request, status=status, touched_at=world.now, pivot_at=world.now)

    with pytest.raises(NotPossible):
        world.run("CancelRequest", event={"deletion_request_id": request})

    assert started(world) == []


def test_a_hold_lasts_as_long_as_it_says(world: World) -> None:
    request = world.accept(grace_days=10)

    answer = operate(world, "hold", request, lasts_seconds=20 * DAY)

    assert (answer["status"], answer["dispatched"]) == ("HELD", False)
    assert world.record(request)["due_at"] == world.now + 20 * DAY


@pytest.mark.invariant("I2")
def test_a_release_within_the_grace_period_makes_the_schedule_that_is_missing(world: World) -> None:
    request = world.accept(grace_days=10)
    operate(world, "hold", request)
    world.client("scheduler").delete_schedule(Name=request, GroupName="deletions")

    answer = operate(world, "release", request)

    assert (answer["status"], answer["dispatched"]) == ("SCHEDULED", False)
    assert schedules(world) == [request]
    assert started(world) == []


@pytest.mark.parametrize(("before", "operation"), [("HELD", "release"), ("FAILED", "redrive")])
def test_what_becomes_due_is_started_at_once(world: World, before: str, operation: str) -> None:
    request = world.accept()
    world.dispatch(request)
    world.change(request, status=before)

    answer = operate(world, operation, request)

    assert (answer["status"], answer["dispatched"]) == ("RETRYABLE", True)
    assert started(world) == [f"{request}-2"]


@pytest.mark.parametrize("operation", ["release", "redrive"])
def test_an_operation_that_is_repeated_starts_nothing_twice(world: World, operation: str) -> None:
    request = world.accept()
    world.dispatch(request)
    world.change(request, status="HELD" if operation == "release" else "FAILED")
    operate(world, operation, request)

    again = operate(world, operation, request)

    assert (again["status"], again["dispatched"]) == ("RETRYABLE", False)
    assert started(world) == [f"{request}-2"]


@pytest.mark.invariant("I4")
def test_a_start_that_fails_is_left_to_the_sweeper(world: World) -> None:
    request = world.accept()
    world.dispatch(request)
    world.change(request, status="FAILED")
    world.wire.before("StartExecution", refused("AccessDeniedException"), times=3)

    answer = operate(world, "redrive", request)

    assert (answer["status"], answer["dispatched"]) == ("RETRYABLE", False)
    assert world.record(request)["due_at"] > 0


def test_a_request_that_changes_meanwhile_is_met_as_it_is_then(world: World) -> None:
    request = world.accept()
    world.dispatch(request)

    def claim(_: Call) -> None:
        world.claim(request)

    world.wire.before("UpdateItem", claim)

    assert operate(world, "hold", request)["status"] == "HELD"
    assert "owner" not in world.record(request)


# -- a person


@pytest.mark.parametrize("by", ["deletion_request_id", "user_id"])
def test_a_person_is_held_by_name_or_by_request(world: World, by: str) -> None:
    request = world.accept(grace_days=10)

    answer = operate(world, "hold_person", **{by: request if by == "deletion_request_id" else USER})

    assert (answer["deletion_request_id"], answer["status"]) == (request, "HELD")
    with pytest.raises(PersonHeld):
        operate(world, "release", request)


@pytest.mark.invariant("I2")
def test_whoever_is_held_before_asking_is_accepted_as_held_and_goes_on_after_the_release(world: World) -> None:
    assert operate(world, "hold_person", user_id=USER) == {
        "operation": "hold_person",
        "deletion_request_id": None,
        "status": None,
        "dispatched": False,
    }
    accepted = world.run("Request", event={"user_id": USER, "identifiers": {"customer_id": CUSTOMER}})
    assert accepted["status"] == "HELD"
    assert schedules(world) == []

    released = operate(world, "release_person", user_id=USER)

    request = accepted["deletion_request_id"]
    assert (released["deletion_request_id"], released["status"]) == (request, "SCHEDULED")
    assert schedules(world) == [request]
    assert world.record(request)["due_at"] == accepted["grace_ends_at"]


@pytest.mark.invariant("I8")
def test_neither_log_nor_answer_holds_the_user(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.accept()
    world.lines()

    answers = [operate(world, operation, user_id=USER) for operation in ("hold_person", "release_person", "cancel")]

    said = json.dumps([answers, world.lines()]) + capsys.readouterr().out
    assert f'"{USER}"' not in said


# -- how long an ended request is kept


def test_a_cancelled_request_is_kept_as_long_as_the_setting_says(world: World) -> None:
    world.more_environment = {"KEEP_REQUESTS": str(400 * DAY)}
    request = world.accept(grace_days=10)

    operate(world, "cancel", request)

    assert world.record(request)["expires_at"] == world.now + 400 * DAY


@pytest.mark.parametrize("status", sorted(set(Status) - {Status.COMPLETED, Status.CANCELLED}))
def test_nothing_that_goes_on_expires(world: World, status: Status) -> None:
    world.more_environment = {"KEEP_REQUESTS": str(400 * DAY)}
    request = world.accept()
    world.dispatch(request)
    world.change(request, status=str(status))
    for operation in ("hold", "release", "redrive", "hold_person", "release_person"):
        with suppress(NotPossible):
            operate(world, operation, request)

    assert "expires_at" not in world.record(request)
