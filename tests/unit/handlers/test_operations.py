"""What may be asked of a request in each state, and what becomes of it."""

from datetime import timedelta

import pytest

from handlers.core.errors import NotPossible
from handlers.core.record import Record
from handlers.core.request_table import RequestTable
from handlers.core.states import Status
from handlers.operations import cancel, hold, redrive, release
from tests.world import TABLE, World

pytestmark = pytest.mark.exhaustive

OPERATIONS = {"cancel": cancel, "hold": hold, "release": release, "redrive": redrive}
POSSIBLE = {
    "cancel": {Status.SCHEDULED, Status.RETRYABLE, Status.HELD, Status.CANCELLED},
    "hold": {Status.SCHEDULED, Status.RETRYABLE, Status.PROCESSING, Status.HELD},
    "release": {Status.HELD},
    "redrive": {Status.FAILED},
}
AFTERWARDS = {
    "cancel": Status.CANCELLED,
    "hold": Status.HELD,
    "release": Status.RETRYABLE,
    "redrive": Status.RETRYABLE,
}


def read(world: World, request: str) -> Record:
    record = RequestTable(TABLE).read(request)
    assert record is not None
    return record


@pytest.fixture
def request_id(world: World) -> str:
    """A request that was dispatched once and claimed by nobody."""
    world.sign_up()
    request = world.accept()
    world.dispatch(request)
    return request


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_fits_some_states_and_changes_nothing_in_the_others(
    world: World, request_id: str, name: str, status: Status
) -> None:
    world.change(request_id, status=str(status))
    before = world.record(request_id)

    if status in POSSIBLE[name]:
        assert OPERATIONS[name](RequestTable(TABLE), read(world, request_id)) is AFTERWARDS[name]
        assert world.record(request_id)["status"] == AFTERWARDS[name]
    else:
        with pytest.raises(NotPossible):
            OPERATIONS[name](RequestTable(TABLE), read(world, request_id))
        assert world.record(request_id) == before


@pytest.mark.invariant("I2")
def test_a_cancelled_request_keeps_no_personal_data_and_releases_the_user(world: World, request_id: str) -> None:
    subject = world.record(request_id)["subject"]

    cancel(RequestTable(TABLE), read(world, request_id))

    record = world.record(request_id)
    assert not {"user_id", "identifiers", "identity", "due_at"} & set(record)
    assert "active_request" not in world.guard(subject)


def test_a_touched_request_is_undone_by_an_attempt_before_it_is_cancelled(world: World, request_id: str) -> None:
    world.change(request_id, touched_at=world.now)

    assert cancel(RequestTable(TABLE), read(world, request_id)) is Status.RETRYABLE

    record = world.record(request_id)
    assert record["cancel_requested"] is True
    assert record["attempt_base"] == record["attempt"]
    assert record["due_at"] == world.now


def test_nothing_is_cancelled_after_the_pivot(world: World, request_id: str) -> None:
    world.change(request_id, touched_at=world.now, pivot_at=world.now)
    with pytest.raises(NotPossible):
        cancel(RequestTable(TABLE), read(world, request_id))


def test_a_hold_with_an_end_comes_due_then(world: World, request_id: str) -> None:
    hold(RequestTable(TABLE), read(world, request_id), lasts=timedelta(days=7))
    assert world.record(request_id)["due_at"] == world.now + 7 * 86_400


def test_a_late_hold_does_not_hold_again_what_was_released(world: World, request_id: str) -> None:
    early = read(world, request_id)
    hold(RequestTable(TABLE), early)
    release(RequestTable(TABLE), read(world, request_id))
    with pytest.raises(NotPossible):
        hold(RequestTable(TABLE), early)


@pytest.mark.invariant("I2")
def test_a_release_within_the_grace_period_waits_for_its_end(world: World) -> None:
    world.sign_up()
    request = world.accept(grace_days=10)
    hold(RequestTable(TABLE), read(world, request))

    assert release(RequestTable(TABLE), read(world, request)) is Status.SCHEDULED

    assert world.record(request)["due_at"] == world.record(request)["grace_ends_at"]


def test_a_redrive_gives_a_fresh_budget(world: World, request_id: str) -> None:
    world.change(request_id, status="FAILED", failures=5, due_at=None)

    redrive(RequestTable(TABLE), read(world, request_id))

    record = world.record(request_id)
    assert (record["failures"], record["attempt_base"], record["due_at"]) == (0, record["attempt"], world.now)


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_whose_answer_was_lost_is_recognised(world: World, request_id: str, name: str) -> None:
    status = {"release": "HELD", "redrive": "FAILED"}.get(name, "RETRYABLE")
    world.change(request_id, status=status)
    record = read(world, request_id)
    world.wire.lose_answer("TransactWriteItems" if name == "cancel" else "UpdateItem")

    assert OPERATIONS[name](RequestTable(TABLE), record) is AFTERWARDS[name]
