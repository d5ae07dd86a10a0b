"""What each protection is for: a situation in which it alone stands between a late writer and the record.

The discovered tests of test_transitions.py ask of each clause that is there whether it refuses something; these ask
for the clauses that must be there.
"""

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from handlers.core.checkpoint import FrameCheckpoint
from handlers.core.errors import OwnershipLost, Superseded
from handlers.core.events import TaskInput
from handlers.core.request_table import ConditionFailed, RequestTable
from handlers.core.states import VERIFY_STEP
from handlers.core.transitions import (
    ACCEPT,
    BEGIN_ERASING,
    BEGIN_VERIFY,
    FINISH,
    HOLD,
    MARK_FAILED,
    MARK_RETRYABLE,
    NOTE_LINKS,
    PROGRESS,
    REOPEN,
)
from tests.world import OTHER, OWNER, TABLE, Context, World

pytestmark = pytest.mark.exhaustive

STEP = "DeleteRecords"


@pytest.fixture
def request_id(world: World) -> str:
    world.sign_up()
    request = world.accept()
    world.dispatch(request)
    return request


def begun(world: World, request: str, step: str = STEP) -> FrameCheckpoint:
    """An invocation that has begun the step."""
    task = TaskInput(deletion_request_id=request, owner=OWNER, step=step, verify=False)
    transition = BEGIN_VERIFY if step == VERIFY_STEP else BEGIN_ERASING
    return FrameCheckpoint.begin(transition, task, Context(), table=RequestTable(TABLE), lease=timedelta(minutes=15))


def refused_claim(world: World, request: str, **how: Any) -> None:
    before = world.record(request)
    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        world.claim(request, **how)
    assert world.record(request) == before


@pytest.mark.invariant("I5")
def test_an_execution_of_an_earlier_dispatch_cannot_claim(world: World, request_id: str) -> None:
    world.change(request_id, attempt=2)
    refused_claim(world, request_id, attempt=1)


@pytest.mark.invariant("I7")
def test_an_attempt_that_ended_cannot_claim_again(world: World, request_id: str) -> None:
    world.claim(request_id)
    world.change(request_id, status="RETRYABLE", owner=None)
    refused_claim(world, request_id)


@pytest.mark.invariant("I2")
def test_nobody_claims_within_the_grace_period(world: World, request_id: str) -> None:
    world.change(request_id, grace_ends_at=world.now + 1)
    refused_claim(world, request_id)


@pytest.mark.parametrize("status", ["HELD", "FAILED", "CANCELLED", "COMPLETED"])
def test_nobody_claims_what_does_not_wait(world: World, request_id: str, status: str) -> None:
    world.change(request_id, status=status)
    refused_claim(world, request_id)


@pytest.mark.invariant("I5")
def test_nobody_claims_what_another_execution_has(world: World, request_id: str) -> None:
    world.claim(request_id, owner=OTHER)
    refused_claim(world, request_id)


@pytest.mark.parametrize("status", ["HELD", "RETRYABLE", "FAILED"])
def test_a_former_owner_does_not_claim_by_its_name_alone(world: World, request_id: str, status: str) -> None:
    """Whoever left PROCESSING leaves no owner; the claim does not rely on that."""
    world.claim(request_id)
    world.change(request_id, status=status)
    refused_claim(world, request_id)


def test_a_claim_whose_answer_was_lost_is_repeated_by_its_owner(world: World, request_id: str) -> None:
    world.claim(request_id)
    fence = world.record(request_id)["fence"]
    world.claim(request_id)
    assert world.record(request_id)["fence"] == fence + 1


@pytest.mark.invariant("I5")
def test_an_invocation_that_was_overtaken_writes_no_progress(world: World, request_id: str) -> None:
    world.claim(request_id)
    early, late = begun(world, request_id), begun(world, request_id)
    # Both are at the same number: the fence alone tells them apart.
    with pytest.raises(Superseded):
        early.progress()
    late.progress()


def test_a_late_copy_of_an_older_progress_does_not_set_the_counts_back(world: World, request_id: str) -> None:
    world.claim(request_id)
    checkpoint = begun(world, request_id)
    old = {**progress_values(checkpoint), "deleted": {"orders": 1}}
    checkpoint.add("orders", 1)
    checkpoint.progress()
    checkpoint.add("orders", 1)
    checkpoint.progress()
    with pytest.raises(ConditionFailed):
        RequestTable(TABLE).update(PROGRESS, request_id, old, step=STEP)
    assert world.deleted(request_id, STEP) == {"orders": 2}


def progress_values(checkpoint: FrameCheckpoint) -> dict[str, Any]:
    return {
        "fence": checkpoint.fence,
        "seq_before": checkpoint.seq,
        "seq": checkpoint.seq + 1,
        "due_at": checkpoint.due_at,
        "deleted": {},
        "batch": {},
        "linked": [],
    }


@pytest.mark.parametrize("transition", [PROGRESS, NOTE_LINKS, FINISH, REOPEN], ids=lambda one: one.name)
@pytest.mark.parametrize("closing", ["finish", "reopen", "hold", "mark retryable", "mark failed"])
def test_a_write_of_an_invocation_that_is_over_finds_nothing_to_match(
    world: World, request_id: str, transition: Any, closing: str
) -> None:
    """Each finish, reopening and leaving takes the fence along, whatever else the record says by then."""
    step = VERIFY_STEP if closing == "reopen" else STEP
    world.claim(request_id)
    checkpoint = begun(world, request_id, step)
    close(world, request_id, checkpoint, closing)
    # Everything but the fence is as it was: the same owner, the same step under way.
    seq = {} if closing == "finish" else {"seq": 0}
    world.change(request_id, status="PROCESSING", owner=OWNER, **seq, **{f"steps__{step}__status": "RUNNING"})
    before = world.record(request_id)
    values = {**progress_values(checkpoint), "fence_after": checkpoint.fence + 1, "now": world.now, "rounds": 7}
    with pytest.raises(ConditionFailed):
        RequestTable(TABLE).update(transition, request_id, values, step=step)
    assert world.record(request_id) == before


def close(world: World, request: str, checkpoint: FrameCheckpoint, closing: str) -> None:
    error = {"step": STEP, "error": "X", "at": world.now}
    if closing == "finish":
        checkpoint.finish()
    elif closing == "reopen":
        checkpoint.reopen([STEP])
    elif closing == "hold":
        fence = {"fence": checkpoint.fence, "fence_after": checkpoint.fence + 1}
        RequestTable(TABLE).update(HOLD, request, fence)
    else:
        transition = MARK_RETRYABLE if closing == "mark retryable" else MARK_FAILED
        world.write(transition, request, {"me": OWNER, "error": error, "due_at": world.now})


def test_no_step_begins_in_an_attempt_whose_compensation_began(world: World, request_id: str) -> None:
    world.claim(request_id)
    world.change(request_id, undoing=1)
    with pytest.raises(OwnershipLost):
        begun(world, request_id)


def test_a_later_attempt_begins_its_steps_again_after_an_undo(world: World, request_id: str) -> None:
    world.claim(request_id)
    world.change(request_id, undoing=0, attempt=1)
    assert begun(world, request_id).seq == 0


def test_a_user_has_one_open_request(world: World, request_id: str) -> None:
    subject = world.record(request_id)["subject"]
    new = {**world.record(request_id), "deletion_request_id": "del_00000000000000000000000000"}
    with pytest.raises(ConditionFailed) as failed:
        RequestTable(TABLE).update_with_guard(
            ACCEPT,
            "del_00000000000000000000000000",
            subject,
            {"id": "del_00000000000000000000000000", "subject": subject},
            put={name: value for name, value in new.items() if name != "pk"},
        )
    assert failed.value.guard is not None
    assert failed.value.guard["active_request"] == request_id
