"""Whole executions: the rendered graph with the real handlers over moto."""

import json
from dataclasses import replace
from typing import Any

import pytest
from sfnx.testing import Call, Failure

from handlers.core.states import VERIFY_STEP
from statemachine.deletion import workflow
from statemachine.describe import CONTROL_WRITES
from statemachine.frame import role_of
from statemachine.workflow import Workflow
from tests.happy_path import HAPPY_PATH
from tests.machine import Killed, Machine, at
from tests.wire import refused
from tests.world import CUSTOMER, EVERYTHING, USER, World

NOTHING: dict[str, Any] = {"orders": [], "visits": [], "photos": [], "uploads": [], "identity": None}


def all_deleted(world: World, request: str) -> dict[str, int]:
    """Store -> recorded count over all steps, without identity's sign-out."""
    record = world.record(request)
    return {
        store: number
        for step in record["steps"].values()
        for store, number in step.get("deleted", {}).items()
        if number
    }


def test_a_request_is_deleted_verified_and_completed_on_the_happy_path(world: World, machine: Machine) -> None:
    world.sign_up()
    request = machine.dispatched()
    execution = machine.execute(request)
    record = world.record(request)
    assert execution.error is None
    assert execution.states == HAPPY_PATH
    assert world.data() == NOTHING
    assert record["status"] == "COMPLETED"
    assert record["completed_by"] == machine.arn(request, 1)
    assert all_deleted(world, request) == EVERYTHING


@pytest.mark.exhaustive
def test_the_settle_wait_is_the_only_addition_to_the_happy_path(world: World) -> None:
    machine = Machine(world, workflow(identity=True), settle=3600)
    world.sign_up()
    request = machine.dispatched()
    execution = machine.execute(request)
    assert len(execution.states) == machine.plan.happy_path_transitions
    assert world.record(request)["status"] == "COMPLETED"


EFFECTS = {"DeleteObjects", "AbortMultipartUpload", "AdminDisableUser", "AdminDeleteUser"}
"""One call of them is one batch; a batch of DynamoDB deletes travels with its own control write."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("settle", [0, 60])
def test_each_invocation_makes_at_most_two_control_writes_and_one_a_batch(world: World, settle: int) -> None:
    machine = Machine(world, workflow(identity=True), settle=settle)
    world.sign_up()
    machine.execute(machine.dispatched())
    for step in machine.plan.steps:
        role = role_of(step)
        calls = [call for call in world.wire.calls if call.function == role]
        writes = [call for call in calls if call.operation == "UpdateItem"]
        batches = [call for call in calls if call.operation in EFFECTS]
        invocations = [event for name, event in machine.invocations if name == role and "verify" not in event]
        assert len(writes) <= CONTROL_WRITES * len(invocations) + len(batches), step.name


@pytest.mark.invariant("I8")
def test_no_personal_data_is_in_the_input_output_or_history_of_an_execution(world: World, machine: Machine) -> None:
    sub = world.sign_up()
    request = machine.dispatched()
    execution = machine.execute(request)
    history = json.dumps([(call.state, call.arguments) for call in execution.calls]) + json.dumps(execution.output)
    events = json.dumps(machine.invocations)
    for secret in (USER, CUSTOMER, sub, "users/"):
        assert secret not in history.replace(request, "")
        assert secret not in events.replace(request, "")


@pytest.mark.exhaustive
@pytest.mark.invariant("I6")
def test_a_second_execution_of_a_completed_request_ends_quietly(world: World, machine: Machine) -> None:
    world.sign_up()
    request = machine.dispatched()
    machine.execute(request)
    before = world.record(request)
    execution = machine.execute(request)
    assert execution.states == ("Claim", "InspectRequest", "Inspected", "EndedBefore")
    assert world.record(request) == before


@pytest.mark.invariant("I2")
def test_no_execution_begins_within_the_grace_period(world: World, machine: Machine) -> None:
    world.sign_up()
    before = world.data()
    request = world.accept(grace_days=30)
    world.change(request, attempt=1)
    execution = machine.execute(request)
    assert execution.states[-1] == "OwnedElsewhere"
    assert world.data() == before


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "state", ["SuspendIdentity", "DeleteRecords", "DeleteFiles", "DeleteIdentity", VERIFY_STEP, "CompleteDeletion"]
)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_task_that_fails_once_is_retried_and_counts_stay_exact(
    world: World, machine: Machine, state: str, moment: str
) -> None:
    """`after` is a response that was lost on its way to the state machine."""
    world.sign_up()
    request = machine.dispatched()
    fault = at(state, Failure("Lambda.ServiceException"))
    execution = machine.execute(request, **{moment: fault})  # type: ignore[arg-type]
    assert execution.error is None
    assert world.record(request)["status"] == "COMPLETED"
    assert world.data() == NOTHING
    assert all_deleted(world, request) == EVERYTHING


@pytest.mark.exhaustive
def test_a_claim_whose_response_was_lost_is_taken_again(world: World, machine: Machine) -> None:
    """The claim is repeated, and I own it."""
    world.sign_up()
    request = machine.dispatched()
    execution = machine.execute(request, after=at("Claim", Failure("DynamoDB.AmazonDynamoDBException")))
    assert execution.states == HAPPY_PATH


@pytest.mark.exhaustive
@pytest.mark.parametrize("state", [name for name in HAPPY_PATH if name in {"SuspendIdentity", "DeleteRecords"}])
def test_an_exhausted_retry_ends_the_attempt_as_retryable_and_the_next_one_completes(
    world: World, machine: Machine, state: str
) -> None:
    world.sign_up()
    request = machine.dispatched()

    def always(call: Call, number: int) -> None:
        if call.state == state:
            raise Failure("Lambda.TooManyRequestsException")

    first = machine.execute(request, before=always)
    record = world.record(request)
    assert first.states[-2:] == ("MarkRetryable", "WillRetry")
    assert (record["status"], record["failures"]) == ("RETRYABLE", 1)
    assert record["due_at"] > world.now
    assert "owner" not in record
    assert {name: record["last_error"][name] for name in ("step", "error")} == {
        "step": state,
        "error": "Lambda.TooManyRequestsException",
    }
    second = machine.retry(request)
    assert second.states[-1] == "Deleted"
    assert all_deleted(world, request) == EVERYTHING


@pytest.mark.invariant("I7")
def test_a_mark_whose_response_was_lost_counts_the_failure_once(world: World, machine: Machine) -> None:
    world.sign_up()
    request = machine.dispatched()

    def fault(call: Call, number: int) -> None:
        if call.state == "DeleteRecords":
            raise Failure("States.Timeout")

    def lost(call: Call, number: int) -> None:
        if call.state == "MarkRetryable" and number == 1:
            raise Failure("DynamoDB.AmazonDynamoDBException")

    execution = machine.execute(request, before=fault, after=lost)
    assert execution.states[-1] == "OwnedElsewhere"
    assert world.record(request)["failures"] == 1


@pytest.mark.exhaustive
@pytest.mark.invariant("I4", "I7")
def test_a_request_that_always_fails_is_failed_after_its_failures_and_the_user_restored(
    world: World, machine: Machine
) -> None:
    """Suspension never succeeds, so the identity is enabled again."""
    world.sign_up()
    request = machine.dispatched()

    def after_its_effect(call: Call, number: int) -> None:
        if call.state == "SuspendIdentity":
            raise Failure("Sandbox.Timedout")

    machine.execute(request, after=after_its_effect)
    # The step is DONE by its own count; take that away, as if every invocation were killed before its finish.
    for _ in range(machine.plan.max_failures - 1):
        world.change(request, steps__SuspendIdentity__status="RUNNING")
        machine.world.now += 4000
        world.change(request, due_at=world.now)
        world.dispatch(request)
        machine.execute(request, after=after_its_effect)
    assert world.record(request)["failures"] == machine.plan.max_failures
    last = machine.retry(request)
    record = world.record(request)
    user = world.pool_user()
    assert last.error == "Sandbox.Timedout"
    assert last.states[-4:] == ("SuspendIdentityUndone", "AfterUndo", "MarkFailed", "DeletionFailed")
    assert record["status"] == "FAILED"
    assert "due_at" not in record
    assert record["steps"]["SuspendIdentity"]["status"] == "UNDONE"
    assert user is not None
    assert user["Enabled"]
    assert world.data()["orders"]


@pytest.mark.exhaustive
def test_a_step_without_permission_is_failed_with_its_name_never_completed(world: World, machine: Machine) -> None:
    world.sign_up()
    request = machine.dispatched()
    world.wire.before("TransactWriteItems", refused("AccessDeniedException"))
    execution = machine.execute(request)
    record = world.record(request)
    assert execution.error == "AccessDenied"
    assert record["status"] == "FAILED"
    assert {name: record["last_error"][name] for name in ("step", "error")} == {
        "step": "DeleteRecords",
        "error": "AccessDenied",
    }
    assert "DeleteRecordsUndone" not in execution.states
    assert execution.states[-4:] == ("Inspected", "AfterUndo", "MarkFailed", "DeletionFailed")


def test_a_permanent_error_before_the_pivot_is_compensated(world: World, machine: Machine) -> None:
    world.sign_up()
    request = machine.dispatched()
    world.wire.before("AdminUserGlobalSignOut", refused("NotAuthorizedException"))

    def time_passes(call: Call, number: int) -> None:
        if call.state == "RestoreIdentity":
            world.now += 61

    execution = machine.execute(request, before=time_passes)
    user = world.pool_user()
    assert execution.error == "AccessDenied"
    assert "RestoreIdentity" in execution.states
    assert user is not None
    assert user["Enabled"]
    assert world.record(request)["status"] == "FAILED"


@pytest.mark.exhaustive
def test_an_undo_waits_until_the_step_s_lambda_must_be_dead(world: World, machine: Machine) -> None:
    world.sign_up()
    request = machine.dispatched()
    world.wire.before("AdminUserGlobalSignOut", refused("NotAuthorizedException"))
    seen: list[int] = []

    def tick(call: Call, number: int) -> None:
        if call.state == "RestoreIdentity":
            seen.append(world.now)
            world.now += 10

    execution = machine.execute(request, before=tick)
    begun = world.record(request)["steps"]["SuspendIdentity"]["begun_at"]
    undone = world.record(request)["steps"]["SuspendIdentity"]["undo_begun_at"]
    assert execution.error == "AccessDenied"
    assert len(seen) > 1
    assert undone - begun >= 60


def test_a_user_who_was_disabled_before_is_not_enabled_by_the_undo(world: World, machine: Machine) -> None:
    world.sign_up()
    world.cognito.admin_disable_user(UserPoolId=world.pool, Username=USER)
    request = machine.dispatched()
    world.wire.before("AdminUserGlobalSignOut", refused("NotAuthorizedException"))
    machine.execute(request, before=lambda call, number: setattr(world, "now", world.now + 20))
    user = world.pool_user()
    assert user is not None
    assert not user["Enabled"]


@pytest.mark.exhaustive
@pytest.mark.invariant("I3")
def test_leftovers_reopen_their_step_and_are_deleted_in_the_next_round(world: World, machine: Machine) -> None:
    world.sign_up()
    request = machine.dispatched()

    def late_write(call: Call, number: int) -> None:
        if call.state == VERIFY_STEP and number == 1:
            world.put_order(USER, "order#late")

    execution = machine.execute(request, before=late_write)
    assert execution.states.count(VERIFY_STEP) == 2
    assert execution.states[-1] == "Deleted"
    assert world.data() == NOTHING
    assert all_deleted(world, request)["orders"] == EVERYTHING["orders"] + 1


@pytest.mark.exhaustive
@pytest.mark.invariant("I3")
def test_leftovers_that_keep_coming_end_the_attempt_after_three_rounds(world: World, machine: Machine) -> None:
    world.sign_up()
    request = machine.dispatched()

    def late_write(call: Call, number: int) -> None:
        if call.state == VERIFY_STEP:
            world.put_order(USER, f"order#late{number}")

    execution = machine.execute(request, before=late_write)
    record = world.record(request)
    assert execution.states.count(VERIFY_STEP) == 4
    assert execution.states[-1] == "WillRetry"
    assert record["last_error"]["error"] == "LeftoversRemain"
    assert record["steps"][VERIFY_STEP]["rounds"] == 4


@pytest.mark.exhaustive
@pytest.mark.invariant("I3")
def test_a_step_that_erases_takes_the_verification_back(world: World, machine: Machine) -> None:
    """Killed between verification and completion, then a late order: the next attempt verifies again."""
    world.sign_up()
    request = machine.dispatched()
    with pytest.raises(Killed):
        machine.execute(request, before=at("CompleteDeletion", Killed()))
    assert world.record(request)["steps"][VERIFY_STEP]["status"] == "DONE"
    world.change(request, steps__DeleteFiles__status=None)
    machine.world.change(request, status="RETRYABLE", owner=None, due_at=world.now)
    execution = machine.retry(request)
    assert execution.states[-1] == "Deleted"
    verify = world.record(request)["steps"][VERIFY_STEP]
    assert verify["invocations"] == 2


@pytest.mark.exhaustive
def test_a_step_is_called_again_until_it_is_done(world: World, machine: Machine) -> None:
    world.sign_up()
    request = machine.dispatched()
    machine.context.looks = 5

    def refill(call: Call, number: int) -> None:
        machine.context.looks = 5

    execution = machine.execute(request, before=refill)
    assert execution.states.count("DeleteFiles") > 1
    assert execution.states[-1] == "Deleted"
    assert all_deleted(world, request) == EVERYTHING


@pytest.mark.exhaustive
def test_a_step_that_never_ends_ends_its_attempt_after_its_turns(world: World, machine: Machine) -> None:
    world.sign_up()
    request = machine.dispatched()
    machine.context.looks = 0
    execution = machine.execute(request)
    record = world.record(request)
    assert execution.states.count("DeleteRecords") == 12
    assert record["last_error"]["error"] == "TurnsSpent"
    assert record["status"] == "RETRYABLE"


@pytest.mark.exhaustive
def test_a_cancellation_of_a_touched_request_is_undone_first(world: World, machine: Machine) -> None:
    world.sign_up()
    before = world.data()
    request = machine.dispatched()
    with pytest.raises(Killed):
        machine.execute(request, before=at("DeleteRecords", Killed()))
    world.change(request, status="RETRYABLE", owner=None, due_at=world.now, cancel_requested=True)
    world.now += 61
    world.dispatch(request)
    execution = machine.execute(request)
    record = world.record(request)
    user = world.pool_user()
    assert execution.states[-3:] == ("CancelDeletion", "IsCancelled", "Cancelled")
    assert record["status"] == "CANCELLED"
    assert "user_id" not in record
    assert user is not None
    assert user["Enabled"]
    assert world.data() == before


def test_nothing_is_called_to_undo_what_never_began(world: World, machine: Machine) -> None:
    world.sign_up()
    request = machine.dispatched()
    world.change(request, cancel_requested=True)
    execution = machine.execute(request)
    assert "RestoreIdentity" not in execution.states
    assert world.record(request)["status"] == "CANCELLED"


@pytest.mark.exhaustive
@pytest.mark.parametrize("state", ["UndoSuspendIdentity", "SuspendIdentityUndone"])
def test_an_undo_whose_response_was_lost_goes_on(world: World, machine: Machine, state: str) -> None:
    """The record shows that the write was its own."""
    world.sign_up()
    request = machine.dispatched()
    world.change(request, cancel_requested=True)
    execution = machine.execute(request, after=at(state, Failure("DynamoDB.AmazonDynamoDBException")))
    assert execution.states[-1] == "Cancelled"


@pytest.mark.exhaustive
def test_a_compensation_that_fails_for_good_is_tried_by_another_attempt(world: World, machine: Machine) -> None:
    world.sign_up()
    request = machine.dispatched()
    with pytest.raises(Killed):
        machine.execute(request, before=at("DeleteRecords", Killed()))
    world.change(request, status="RETRYABLE", owner=None, due_at=world.now, cancel_requested=True)
    world.now += 61
    world.dispatch(request)

    def broken(call: Call, number: int) -> None:
        if call.state == "RestoreIdentity":
            raise Failure("AccessDenied")

    first = machine.execute(request, before=broken)
    assert first.states[-3:] == ("UndoFailed", "MarkRetryable", "WillRetry")
    assert world.record(request)["last_error"]["step"] == "RestoreIdentity"
    second = machine.retry(request)
    assert second.states[-1] == "Cancelled"


@pytest.mark.exhaustive
@pytest.mark.invariant("I4", "I7")
def test_a_failed_request_that_is_cancelled_is_not_failed_again_by_the_first_failure_of_its_undo(
    world: World, machine: Machine
) -> None:
    world.sign_up()
    before = world.data()
    request = machine.dispatched()
    with pytest.raises(Killed):
        machine.execute(request, before=at("DeleteRecords", Killed()))
    world.change(request, status="FAILED", owner=None, due_at=None, failures=machine.plan.max_failures)
    world.now += 61

    answer = world.run("Operate", event={"operation": "cancel", "deletion_request_id": request})
    first = machine.execute(request, before=at("RestoreIdentity", Failure("AccessDenied")))
    second = machine.retry(request)

    assert (answer["status"], answer["dispatched"]) == ("RETRYABLE", True)
    assert first.states[-3:] == ("UndoFailed", "MarkRetryable", "WillRetry")
    assert second.states[-1] == "Cancelled"
    assert world.data() == before


@pytest.mark.invariant("I5")
def test_a_hold_fences_a_running_execution_out(world: World, machine: Machine) -> None:
    world.sign_up()
    request = machine.dispatched()

    def held(call: Call, number: int) -> None:
        if call.state == "DeleteFiles":
            fence = world.record(request)["fence"]
            world.change(request, status="HELD", owner=None, due_at=None, fence=fence + 1)

    execution = machine.execute(request, before=held)
    assert execution.states[-1] == "OwnedElsewhere"
    assert world.data()["photos"]
    assert world.record(request)["status"] == "HELD"


@pytest.mark.exhaustive
def test_a_step_that_this_graph_lacks_requeues_the_request_without_a_failure(world: World, machine: Machine) -> None:
    """A deployment added DeleteIdentity's successor while an old execution was under way."""
    old = Machine(world, Workflow(steps=tuple(one for one in machine.plan.steps if one.name != "DeleteFiles")))
    old.specs["complete-deletion"] = machine.specs["complete-deletion"]
    old.specs["verify-erasure"] = old.specs["verify-erasure"]
    world.sign_up()
    request = machine.dispatched()
    execution = old.execute(request)
    record = world.record(request)
    assert execution.states[-2:] == ("Requeue", "WillRetry")
    assert (record["status"], record["failures"]) == ("RETRYABLE", 0)
    assert machine.retry(request).states[-1] == "Deleted"


@pytest.mark.exhaustive
def test_leftovers_of_a_step_that_this_graph_lacks_requeue_too(world: World, machine: Machine) -> None:
    old = Machine(world, Workflow(steps=tuple(one for one in machine.plan.steps if one.name != "DeleteFiles")))
    old.specs = {**machine.specs}
    old.arns, old.values = machine.arns, machine.values
    world.sign_up()
    request = machine.dispatched()
    execution = old.execute(request)
    assert execution.states[-2:] == ("Requeue", "WillRetry")
    assert world.record(request)["failures"] == 0
    assert machine.retry(request).states[-1] == "Deleted"


def test_an_execution_without_its_request_ends_unfinished_or_quietly(world: World, machine: Machine) -> None:
    execution = machine.execute("del_00000000000000000000000000", 1)
    assert execution.states[-1] == "OwnedElsewhere"


@pytest.mark.exhaustive
def test_a_workflow_without_identity_steps_completes(world: World) -> None:
    machine = Machine(world, workflow(identity=False))
    world.sign_up()
    request = machine.dispatched()
    assert machine.execute(request).states[-1] == "Deleted"
    assert world.pool_user() is not None


def test_max_failures_is_what_route_compares_with(world: World, machine: Machine) -> None:
    one = Machine(world, replace(machine.plan, max_failures=1))
    world.sign_up()
    request = machine.dispatched()
    world.change(request, failures=1)
    assert one.execute(request).error == "FailuresSpent"
