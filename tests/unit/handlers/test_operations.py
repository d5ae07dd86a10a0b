"""What may be asked of a request in each state, and of a person, and what becomes of it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from handlers.core.errors import NotPossible, PersonHeld, StoreUnavailable
from handlers.core.record import Record
from handlers.core.request_table import RequestTable
from handlers.core.states import Status
from handlers.operations import cancel, hold, hold_person, on_latest, redrive, release, release_person
from tests.wire import Call, refused
from tests.world import TABLE, World

pytestmark = pytest.mark.exhaustive

DAY = 86_400
OPERATIONS: dict[str, Callable[..., Status]] = {"cancel": cancel, "hold": hold, "release": release, "redrive": redrive}
LIVES = ("untouched", "touched", "past the pivot", "being cancelled")
S, P, R, H = Status.SCHEDULED, Status.PROCESSING, Status.RETRYABLE, Status.HELD
C, X, F = Status.COMPLETED, Status.CANCELLED, Status.FAILED
NO = None
"""Refused, and nothing changes."""
HOLD = {S: H, P: H, R: H, H: H, C: NO, X: NO, F: NO}
RELEASE = {S: S, P: P, R: R, H: R, C: NO, X: NO, F: NO}
REDRIVE = {S: NO, P: P, R: R, H: NO, C: NO, X: NO, F: R}

BECOMES: dict[str, dict[str, dict[Status, Status | None]]] = {
    "cancel": {
        "untouched": {S: X, P: NO, R: X, H: X, C: NO, X: X, F: X},
        "touched": {S: R, P: NO, R: R, H: R, C: NO, X: X, F: R},
        "past the pivot": {S: NO, P: NO, R: NO, H: NO, C: NO, X: X, F: NO},
        "being cancelled": {S: R, P: P, R: R, H: R, C: NO, X: X, F: R},
    },
    "hold": dict.fromkeys(LIVES, HOLD),
    "release": dict.fromkeys(LIVES, RELEASE),
    "redrive": dict.fromkeys(LIVES, REDRIVE),
}
"""Operation -> how far the request came -> its status -> its status afterwards."""
CASES = [
    pytest.param(name, life, before, after, id=f"{name} {before}, {life}")
    for name, lives in BECOMES.items()
    for life, moves in lives.items()
    for before, after in moves.items()
]


def read(world: World, request: str) -> Record:
    record = RequestTable(TABLE).read(request)
    assert record is not None
    return record


def run(world: World, name: str, request: str) -> Status:
    return OPERATIONS[name](RequestTable(TABLE), read(world, request))


def subject_of(world: World, request: str) -> str:
    return str(world.record(request)["subject"])


def open_guard(world: World, request: str) -> dict[str, Any]:
    return world.guard(subject_of(world, request))


@pytest.fixture
def request_id(world: World) -> str:
    """A request that was dispatched once and claimed by nobody."""
    world.sign_up()
    request = world.accept()
    world.dispatch(request)
    return request


def live(world: World, request: str, life: str, status: Status) -> None:
    """Make the request one that came so far."""
    marks: dict[str, dict[str, object]] = {
        "untouched": {},
        "touched": {"touched_at": world.now},
        "past the pivot": {"touched_at": world.now, "pivot_at": world.now},
        "being cancelled": {"touched_at": world.now, "cancel_requested": True},
    }
    world.change(request, status=str(status), **marks[life])


@pytest.mark.parametrize(("name", "life", "before", "after"), CASES)
def test_an_operation_fits_some_states_and_changes_nothing_in_the_others(
    world: World, request_id: str, name: str, life: str, before: Status, after: Status | None
) -> None:
    live(world, request_id, life, before)
    item = world.record(request_id)

    if after is NO:
        with pytest.raises(NotPossible):
            run(world, name, request_id)
        assert world.record(request_id) == item
    else:
        assert run(world, name, request_id) is after
        assert world.record(request_id)["status"] == after


@pytest.mark.parametrize(("name", "life", "before", "after"), [case for case in CASES if case.values[3] is not NO])
def test_an_operation_that_is_asked_for_twice_does_it_once(
    world: World, request_id: str, name: str, life: str, before: Status, after: Status
) -> None:
    live(world, request_id, life, before)
    run(world, name, request_id)
    once = world.record(request_id)

    assert run(world, name, request_id) is after

    assert world.record(request_id) == once


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_whose_answer_was_lost_is_recognised(world: World, request_id: str, name: str) -> None:
    status, after = {"release": (H, R), "redrive": (F, R), "cancel": (R, X), "hold": (R, H)}[name]
    world.change(request_id, status=str(status))
    record = read(world, request_id)
    world.wire.lose_answer("UpdateItem" if name == "hold" else "TransactWriteItems")

    assert OPERATIONS[name](RequestTable(TABLE), record) is after


# -- cancel


@pytest.mark.invariant("I2")
def test_a_cancelled_request_keeps_no_personal_data_and_releases_the_user(world: World, request_id: str) -> None:
    run(world, "cancel", request_id)

    assert not {"user_id", "identifiers", "identity", "due_at"} & set(world.record(request_id))
    assert "active_request" not in open_guard(world, request_id)


@pytest.mark.parametrize("status", [R, H, F])
def test_a_touched_request_is_undone_before_it_is_cancelled_with_a_fresh_budget(
    world: World, request_id: str, status: Status
) -> None:
    world.change(request_id, status=str(status), touched_at=world.now, failures=5, due_at=None)

    assert run(world, "cancel", request_id) is Status.RETRYABLE

    record = world.record(request_id)
    assert record["cancel_requested"] is True
    assert (record["failures"], record["attempt_base"], record["due_at"]) == (0, record["attempt"], world.now)


@pytest.mark.parametrize("status", [R, H, F])
def test_who_cancels_after_the_pivot_is_told_that_erasing_has_begun(
    world: World, request_id: str, status: Status
) -> None:
    live(world, request_id, "past the pivot", status)
    with pytest.raises(NotPossible, match=f"cancel of {request_id} is not possible: it is {status} and has begun to"):
        run(world, "cancel", request_id)


@pytest.mark.invariant("I2")
@pytest.mark.parametrize("life", ["untouched", "touched"])
def test_a_cancellation_whose_request_passes_the_pivot_meanwhile_is_refused(
    world: World, request_id: str, life: str
) -> None:
    """Without a user pool no step touches anything before the pivot."""
    live(world, request_id, life, Status.FAILED)
    early = read(world, request_id)
    world.change(request_id, pivot_at=world.now)
    before = world.record(request_id)

    with pytest.raises(NotPossible):
        cancel(RequestTable(TABLE), early)

    assert world.record(request_id) == before


def test_a_cancellation_that_is_asked_for_again_does_not_hurry_the_undo(world: World, request_id: str) -> None:
    """A button that is pressed ten times must not turn the wait between attempts into none."""
    live(world, request_id, "being cancelled", Status.RETRYABLE)
    world.change(request_id, due_at=world.now + 600)
    before = world.record(request_id)

    assert run(world, "cancel", request_id) is Status.RETRYABLE

    assert world.record(request_id) == before


@pytest.mark.parametrize("expires_at", [None, 4_000_000_000])
def test_a_cancelled_request_says_when_its_record_may_go(world: World, request_id: str, expires_at: int | None) -> None:
    cancel(RequestTable(TABLE), read(world, request_id), expires_at=expires_at)

    item = world.dynamodb.get_item(TableName=TABLE, Key={"pk": {"S": f"REQUEST#{request_id}"}})["Item"]
    assert item["expires_at"] == ({"NULL": True} if expires_at is None else {"N": str(expires_at)})


# -- hold and release of a request


def test_a_hold_with_an_end_comes_due_then(world: World, request_id: str) -> None:
    hold(RequestTable(TABLE), read(world, request_id), lasts=timedelta(days=7))
    assert world.record(request_id)["due_at"] == world.now + 7 * DAY


@pytest.mark.parametrize("lasts", [timedelta(days=90), None])
def test_a_hold_gets_another_end_or_none(world: World, request_id: str, lasts: timedelta | None) -> None:
    hold(RequestTable(TABLE), read(world, request_id), lasts=timedelta(days=7))

    assert hold(RequestTable(TABLE), read(world, request_id), lasts=lasts) is Status.HELD

    assert world.record(request_id).get("due_at") == (world.now + 90 * DAY if lasts else None)


def test_a_late_hold_does_not_hold_again_what_was_released(world: World, request_id: str) -> None:
    early = read(world, request_id)
    hold(RequestTable(TABLE), early)
    release(RequestTable(TABLE), read(world, request_id))
    with pytest.raises(NotPossible):
        hold(RequestTable(TABLE), early)


def test_a_late_change_of_an_end_does_not_change_a_later_one(world: World, request_id: str) -> None:
    hold(RequestTable(TABLE), read(world, request_id), lasts=timedelta(days=7))
    early = read(world, request_id)
    hold(RequestTable(TABLE), early, lasts=timedelta(days=90))
    with pytest.raises(NotPossible):
        hold(RequestTable(TABLE), early)
    assert world.record(request_id)["due_at"] == world.now + 90 * DAY


@pytest.mark.invariant("I2")
def test_a_release_within_the_grace_period_waits_for_its_end(world: World) -> None:
    world.sign_up()
    request = world.accept(grace_days=10)
    hold(RequestTable(TABLE), read(world, request))

    assert release(RequestTable(TABLE), read(world, request)) is Status.SCHEDULED

    assert world.record(request)["due_at"] == world.record(request)["grace_ends_at"]


# -- redrive


def test_a_redrive_gives_a_fresh_budget(world: World, request_id: str) -> None:
    world.change(request_id, status="FAILED", failures=5, due_at=None)

    run(world, "redrive", request_id)

    record = world.record(request_id)
    assert (record["failures"], record["attempt_base"], record["due_at"]) == (0, record["attempt"], world.now)


def test_a_redrive_of_what_fails_by_itself_is_refused_while_it_goes_on(world: World, request_id: str) -> None:
    world.change(request_id, status="RETRYABLE", failures=1)
    with pytest.raises(NotPossible):
        run(world, "redrive", request_id)


# -- a request that changes under the operator's hands


def test_an_operation_meets_the_request_as_it_is_now(world: World, request_id: str) -> None:
    record = read(world, request_id)
    world.claim(request_id)

    after = on_latest(RequestTable(TABLE), record, hold)

    assert after.status is Status.HELD
    assert after == read(world, request_id)


def test_an_operation_gives_up_on_a_request_that_keeps_changing(world: World, request_id: str) -> None:
    def bump(_: Call) -> None:
        world.change(request_id, fence=world.record(request_id)["fence"] + 1)

    world.wire.before("UpdateItem", bump, times=3)

    with pytest.raises(StoreUnavailable):
        on_latest(RequestTable(TABLE), read(world, request_id), hold)

    assert world.record(request_id)["status"] == Status.SCHEDULED


# -- a person


@pytest.mark.invariant("I2")
@pytest.mark.parametrize("status", [S, P, R, H])
def test_a_hold_on_a_person_holds_the_open_request_without_an_end(
    world: World, request_id: str, status: Status
) -> None:
    world.change(request_id, status=str(status), due_at=world.now + 5)

    after = hold_person(RequestTable(TABLE), subject_of(world, request_id))

    assert after is not None
    assert after.status is Status.HELD
    assert "due_at" not in world.record(request_id)
    assert open_guard(world, request_id)["held_at"] == world.now


@pytest.mark.parametrize("status", [C, X, F])
def test_a_hold_on_a_person_leaves_what_has_ended(world: World, request_id: str, status: Status) -> None:
    world.change(request_id, status=str(status))
    item = world.record(request_id)

    hold_person(RequestTable(TABLE), subject_of(world, request_id))

    assert world.record(request_id) == item
    assert open_guard(world, request_id)["held_at"] == world.now


def test_a_hold_on_a_person_fences_a_running_worker_out(world: World) -> None:
    world.sign_up()
    request = world.claimed()
    fence = world.record(request)["fence"]

    hold_person(RequestTable(TABLE), subject_of(world, request))

    record = world.record(request)
    assert record["fence"] == fence + 1
    assert "owner" not in record


@pytest.mark.parametrize("operation", [hold_person, release_person])
def test_an_operation_on_a_person_may_be_repeated(world: World, request_id: str, operation: Any) -> None:
    subject = subject_of(world, request_id)
    hold_person(RequestTable(TABLE), subject)
    operation(RequestTable(TABLE), subject)
    before = world.record(request_id), world.guard(subject)
    world.now += 60

    operation(RequestTable(TABLE), subject)

    assert (world.record(request_id), world.guard(subject)) == before


@pytest.mark.parametrize("operation", [hold_person, release_person])
def test_an_operation_on_a_person_whose_answer_was_lost_is_done(world: World, request_id: str, operation: Any) -> None:
    subject = subject_of(world, request_id)
    if operation is release_person:
        hold_person(RequestTable(TABLE), subject)
    world.wire.lose_answer("UpdateItem")

    operation(RequestTable(TABLE), subject)

    assert ("held_at" in world.guard(subject)) is (operation is hold_person)


def test_nothing_of_a_held_person_is_released_or_redriven(world: World, request_id: str) -> None:
    hold_person(RequestTable(TABLE), subject_of(world, request_id))
    with pytest.raises(PersonHeld, match="release the person first"):
        run(world, "release", request_id)
    assert world.record(request_id)["status"] == Status.HELD

    world.change(request_id, status="FAILED")
    with pytest.raises(PersonHeld):
        run(world, "redrive", request_id)
    assert world.record(request_id)["status"] == Status.FAILED


def test_a_request_of_a_held_person_can_be_cancelled_and_the_person_stays_held(world: World, request_id: str) -> None:
    subject = subject_of(world, request_id)
    hold_person(RequestTable(TABLE), subject)

    assert run(world, "cancel", request_id) is Status.CANCELLED

    assert world.guard(subject)["held_at"] == world.now


def test_the_release_of_a_person_releases_the_open_request(world: World, request_id: str) -> None:
    subject = subject_of(world, request_id)
    hold_person(RequestTable(TABLE), subject)

    after = release_person(RequestTable(TABLE), subject)

    assert after is not None
    assert after.status is Status.RETRYABLE
    assert "held_at" not in world.guard(subject)


def test_a_person_without_a_request_is_held_and_released(world: World) -> None:
    assert hold_person(RequestTable(TABLE), "k1_nobody") is None
    assert world.guard("k1_nobody") == {"pk": "USER#k1_nobody", "held_at": world.now, "fence": 1}

    assert release_person(RequestTable(TABLE), "k1_nobody") is None
    assert world.guard("k1_nobody") == {"pk": "USER#k1_nobody", "fence": 2}


@pytest.mark.invariant("I2")
def test_a_late_copy_of_a_release_does_not_lift_a_later_hold(world: World) -> None:
    """And a late copy of a hold does not hold again whom somebody released."""
    world.sign_up()
    table, subject = RequestTable(TABLE), "k1_somebody"
    hold_person(table, subject)
    release_person(table, subject)
    hold_copy, release_copy = (call.params for call in world.wire.of("UpdateItem"))

    with pytest.raises(world.dynamodb.exceptions.ConditionalCheckFailedException):
        world.dynamodb.update_item(**hold_copy)
    hold_person(table, subject)
    with pytest.raises(world.dynamodb.exceptions.ConditionalCheckFailedException):
        world.dynamodb.update_item(**release_copy)

    assert world.guard(subject)["held_at"] == world.now


def test_a_guard_that_keeps_changing_is_given_up(world: World) -> None:
    world.wire.before("UpdateItem", refused("ConditionalCheckFailedException"), times=3)
    with pytest.raises(StoreUnavailable):
        hold_person(RequestTable(TABLE), "k1_nobody")
