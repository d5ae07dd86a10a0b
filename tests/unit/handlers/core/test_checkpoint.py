"""The checkpoint: nothing is done without a fence, and the lease is renewed without waste."""

from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

import pytest

from handlers.core.checkpoint import Again, Done, FrameCheckpoint, StepDone
from handlers.core.errors import OwnershipLost, RequestUnknown, RetentionLocked, Superseded, UndoInFlight
from handlers.core.events import TaskInput
from handlers.core.person import Identity, Profile
from handlers.core.request_table import RequestTable
from handlers.core.transitions import BEGIN_COMPENSATABLE, BEGIN_ERASING
from tests.world import OWNER, TABLE, Context, World

STEP = "DeleteFiles"
LEASE = timedelta(seconds=900)


@pytest.fixture
def request_id(world: World) -> str:
    return world.claimed()


def begin(request: str, *, transition: Any = BEGIN_ERASING, owner: str = OWNER, undo: int = 0) -> FrameCheckpoint:
    task = TaskInput(deletion_request_id=request, owner=owner, step=STEP, verify=False)
    return FrameCheckpoint.begin(
        transition, task, Context(), table=RequestTable(TABLE), lease=LEASE, undo_timeout=timedelta(seconds=undo)
    )


def step_of(world: World, request: str) -> dict[str, Any]:
    step: dict[str, Any] = world.record(request)["steps"][STEP]
    return step


@pytest.mark.invariant("I5")
def test_every_begin_takes_a_new_fence_that_shuts_the_older_one_out(world: World, request_id: str) -> None:
    first, second = begin(request_id), begin(request_id)

    assert second.fence == first.fence + 1
    with pytest.raises(Superseded):
        first.progress()
    with pytest.raises(Superseded):
        first.finish()
    second.progress({"size": 1})
    assert step_of(world, request_id)["batch"] == {"size": 1}


def test_a_begin_marks_the_pivot_once_and_counts_invocations(world: World, request_id: str) -> None:
    begin(request_id)
    world.now += 60
    begin(request_id)

    record = world.record(request_id)
    assert record["pivot_at"] == world.now - 60
    step = step_of(world, request_id)
    assert (step["first_begun_at"], step["begun_at"], step["invocations"]) == (world.now - 60, world.now, 2)


def test_a_compensatable_begin_marks_what_was_touched(world: World, request_id: str) -> None:
    begin(request_id, transition=BEGIN_COMPENSATABLE)

    assert world.record(request_id)["touched_at"] == world.now
    assert "pivot_at" not in world.record(request_id)


def test_a_finished_step_answers_that_it_is_done(world: World, request_id: str) -> None:
    checkpoint = begin(request_id)
    checkpoint.add("photos", 3)
    checkpoint.finish()

    with pytest.raises(StepDone):
        begin(request_id)

    assert step_of(world, request_id)["deleted"] == {"photos": 3}
    assert world.record(request_id)["fence"] == checkpoint.fence + 1


def test_a_step_waits_until_its_undo_must_be_dead(world: World, request_id: str) -> None:
    world.change(request_id, steps__DeleteFiles__undo_begun_at=world.now, steps__DeleteFiles__status="UNDONE")

    with pytest.raises(UndoInFlight):
        begin(request_id, undo=60)

    world.now += 60
    assert begin(request_id, undo=60).fence == 2


def test_a_request_without_a_person_or_without_a_record_begins_nothing(world: World, request_id: str) -> None:
    with pytest.raises(RequestUnknown):
        begin("del_" + "0" * 26)

    world.change(request_id, user_id=None)
    with pytest.raises(OwnershipLost):
        begin(request_id)


def test_the_lease_is_renewed_once_a_third_of_it_is_gone(world: World, request_id: str) -> None:
    checkpoint = begin(request_id)
    due_at = world.record(request_id)["due_at"]
    world.now += 299
    checkpoint.progress()
    assert world.record(request_id)["due_at"] == due_at

    world.now += 1
    checkpoint.progress()

    assert world.record(request_id)["due_at"] == due_at + 300


def test_a_pause_is_covered_by_the_lease(world: World, request_id: str) -> None:
    checkpoint = begin(request_id)

    checkpoint.progress(pause=timedelta(hours=1))

    assert world.record(request_id)["due_at"] == world.now + 3600 + 900


def test_links_are_recorded_beside_the_batch_and_the_counts(world: World, request_id: str) -> None:
    main = Identity(sub="s", username="user-a1b2", enabled=True)
    whole = replace(main, linked=(Profile(sub="t", username="Google_1", enabled=False),))
    world.change(request_id, identity=asdict(main))
    checkpoint = begin(request_id)
    checkpoint.progress({"size": 5})
    checkpoint.add("photos", 2)

    checkpoint.note_links(whole)

    step = step_of(world, request_id)
    assert (step["batch"], step["deleted"]) == ({"size": 5}, {"photos": 2})
    assert checkpoint.person.identity == begin(request_id).person.identity == whole


@pytest.mark.invariant("I5")
def test_a_worker_without_the_fence_records_no_links(world: World, request_id: str) -> None:
    main = Identity(sub="s", username="user-a1b2", enabled=True)
    world.change(request_id, identity=asdict(main))
    first, _ = begin(request_id), begin(request_id)

    with pytest.raises(Superseded):
        first.note_links(replace(main, linked=(Profile(sub="t", username="Google_1", enabled=True),)))

    assert first.person.identity == main
    assert world.record(request_id)["identity"]["linked"] == []


def test_counts_go_on_from_what_was_recorded(world: World, request_id: str) -> None:
    first = begin(request_id)
    first.add("photos", 2)
    first.progress({"size": 5})

    second = begin(request_id)
    second.add("photos", 1)
    second.add("more", 4)
    second.finish()

    assert second.batch == {"size": 5}
    assert step_of(world, request_id)["deleted"] == {"photos": 3, "more": 4}


def test_an_unfinished_invocation_saves_what_it_counted_and_keeps_its_batch(world: World, request_id: str) -> None:
    checkpoint = begin(request_id)
    checkpoint.progress({"size": 5})
    seq = world.record(request_id)["seq"]
    checkpoint.save(Again().wait)
    assert world.record(request_id)["seq"] == seq

    checkpoint.add("photos", 2)
    checkpoint.save(Again().wait)

    assert step_of(world, request_id)["deleted"] == {"photos": 2}
    assert step_of(world, request_id)["batch"] == {"size": 5}


def test_the_answers_are_values() -> None:
    assert Done() == Done()
    assert Again(wait=timedelta(seconds=5)).wait == timedelta(seconds=5)


def test_there_is_time_as_long_as_the_reserve_is_left(world: World, request_id: str) -> None:
    checkpoint = begin(request_id)
    checkpoint.context = Context(looks=1)

    assert checkpoint.has_time()
    assert not checkpoint.has_time()


@pytest.mark.invariant("I5")
def test_a_worker_without_the_fence_holds_nothing(world: World, request_id: str) -> None:
    first, second = begin(request_id), begin(request_id)
    lock = RetentionLocked(request_id, STEP, 3, world.now + 60)

    with pytest.raises(Superseded):
        first.hold(lock)
    assert world.record(request_id)["status"] == "PROCESSING"

    second.hold(lock)
    with pytest.raises(OwnershipLost):
        second.progress()
    assert world.record(request_id)["status"] == "HELD"
