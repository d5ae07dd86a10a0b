"""A processor that needs days, a lock that has an end, and a store that is unfit, each within whole executions."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from handlers.core.checkpoint import LONGEST_POSTPONE, SHORTEST_POSTPONE, Again, Checkpoint, Done, Postpone
from handlers.core.errors import RetentionLocked
from handlers.core.frame import Answer
from handlers.core.request_table import RequestTable
from handlers.core.transitions import REDRIVE
from tests.machine import Machine
from tests.workflow import scripted
from tests.world import TABLE, World

pytestmark = pytest.mark.long

HOUR = 3_600
DAY = 24 * HOUR


@pytest.fixture(autouse=True)
def script() -> Iterator[None]:
    """Done at once, and nothing to find, unless a test says otherwise."""
    scripted.answers[:] = [done]
    scripted.problems.clear()
    yield
    scripted.answers.clear()
    scripted.problems.clear()


@pytest.fixture
def machine(world: World) -> Machine:
    world.make_user()
    return Machine(world, scripted.plan())


def done(_checkpoint: Checkpoint) -> Answer:
    return Done()


def in_six_hours(checkpoint: Checkpoint) -> Answer:
    checkpoint.add(scripted.STORE, 1)
    return Postpone(timedelta(hours=6))


def gets_on(checkpoint: Checkpoint) -> Answer:
    checkpoint.add(scripted.STORE, 1)
    return Again()


@pytest.mark.invariant("I4", "I7")
def test_a_postponed_request_waits_in_the_table_and_uses_up_no_failure_and_no_dispatch(
    world: World, machine: Machine
) -> None:
    scripted.answers[:] = [in_six_hours] * 5 + [done]
    request = machine.dispatched()

    first = machine.execute(request)
    waiting = world.record(request)
    while (record := world.record(request))["status"] == "RETRYABLE":
        last = machine.retry(request)

    assert first.states[-2:] == ("Postpone", "WillRetry")
    assert (waiting["status"], waiting["failures"], waiting["attempt_base"]) == ("RETRYABLE", 0, 1)
    assert waiting["due_at"] == world.now - 4 * 6 * HOUR
    assert "owner" not in waiting
    assert last.states[-1] == "Deleted"
    assert (record["status"], record["failures"], record["attempt"]) == ("COMPLETED", 0, 6)
    assert record["steps"][scripted.NAME]["deleted"] == {scripted.STORE: 5}
    assert "last_error" not in record


@pytest.mark.invariant("I4", "I7")
def test_patience_ends_and_a_redrive_grants_it_again(world: World, machine: Machine) -> None:
    scripted.answers[:] = [lambda _: Postpone(timedelta(days=1))]
    request = machine.dispatched()

    machine.execute(request)
    while (record := world.record(request))["status"] == "RETRYABLE":
        machine.retry(request)

    assert (record["status"], record["attempt"]) == ("FAILED", 15)
    assert (record["last_error"]["step"], record["last_error"]["error"]) == (scripted.NAME, "PatienceSpent")

    world.now += DAY
    RequestTable(TABLE).update(REDRIVE, request, {"attempt": record["attempt"], "now": world.now})
    again = machine.retry(request)

    assert again.states[-1] == "WillRetry"
    assert world.record(request)["due_at"] == world.now + DAY


@pytest.mark.parametrize(
    ("asked", "given"),
    [(timedelta(0), SHORTEST_POSTPONE), (timedelta(days=3), LONGEST_POSTPONE)],
    ids=["too short", "too long"],
)
def test_what_a_step_asks_for_is_moved_into_its_limits(
    world: World, machine: Machine, asked: timedelta, given: timedelta
) -> None:
    scripted.answers[:] = [lambda _: Postpone(asked)]
    request = machine.dispatched()

    machine.execute(request)

    assert world.record(request)["due_at"] == world.now + given.total_seconds()


@pytest.mark.parametrize("until", [HOUR, None], ids=["with an end", "without an end"])
def test_a_lock_holds_the_request_with_its_count_and_its_end(world: World, machine: Machine, until: int | None) -> None:
    ends_at = None if until is None else world.now + until

    def locked(checkpoint: Checkpoint) -> Answer:
        checkpoint.add(scripted.STORE, 2)
        raise RetentionLocked(checkpoint.task.deletion_request_id, checkpoint.task.step, 7, ends_at)

    scripted.answers[:] = [locked]
    request = machine.dispatched()

    execution = machine.execute(request)

    record = world.record(request)
    assert execution.states[-1] == "OnHold"
    assert (record["status"], record.get("due_at"), record["failures"]) == ("HELD", ends_at, 0)
    assert record["last_error"] == {
        "step": scripted.NAME,
        "error": "RetentionLocked",
        "at": world.now,
        "locked": 7,
    }
    assert "owner" not in record
    assert record["steps"][scripted.NAME]["deleted"] == {scripted.STORE: 2}


@pytest.mark.invariant("I2")
def test_an_unfit_store_fails_the_request_before_anything_is_touched(world: World, machine: Machine) -> None:
    before = world.data()
    scripted.problems[:] = ["store vendor: its contract has ended; renew it"]
    request = machine.dispatched()

    execution = machine.execute(request)

    record = world.record(request)
    assert execution.states[-1] == "DeletionFailed"
    assert record["status"] == "FAILED"
    assert (record["last_error"]["step"], record["last_error"]["error"]) == ("CheckStores", "StoreUnfit")
    assert not {"touched_at", "pivot_at"} & record.keys()
    assert world.data() == before

    scripted.problems.clear()
    RequestTable(TABLE).update(REDRIVE, request, {"attempt": record["attempt"], "now": world.now})
    assert machine.retry(request).states[-1] == "Deleted"


@pytest.mark.invariant("I4", "I7")
def test_a_step_that_gets_on_until_its_turns_are_used_up_gets_another_attempt_and_no_failure(
    world: World, machine: Machine
) -> None:
    scripted.answers[:] = [gets_on] * (2 * scripted.STEP.turns) + [done]
    request = machine.dispatched()

    first = machine.execute(request)
    waiting = world.record(request)
    while world.record(request)["status"] == "RETRYABLE":
        last = machine.retry(request)

    assert first.states[-2:] == ("Requeue", "WillRetry")
    assert (waiting["failures"], waiting["due_at"]) == (0, world.now)
    assert last.states[-1] == "Deleted"
    record = world.record(request)
    assert (record["status"], record["attempt"], record["failures"]) == ("COMPLETED", 3, 0)
    assert record["steps"][scripted.NAME]["deleted"] == {scripted.STORE: 2 * scripted.STEP.turns}


def test_a_step_that_does_not_get_on_fails_the_attempt_when_its_turns_are_used_up(
    world: World, machine: Machine
) -> None:
    scripted.answers[:] = [gets_on, gets_on, lambda _: Again()]
    request = machine.dispatched()

    execution = machine.execute(request)

    record = world.record(request)
    assert execution.states[-2:] == ("MarkRetryable", "WillRetry")
    assert (record["failures"], record["last_error"]["error"]) == (1, "TurnsSpent")
