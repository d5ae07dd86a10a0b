"""Executions that are stopped at each state, and Lambda processes that are killed in each step, on the emulator.

A process dies twice in each step: just before the call that has the step's effect, and when the effect is there but the
process has not heard of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from handlers.core.states import Status
from statemachine.deletion import DELETE_IDENTITY, DELETE_RECORDS
from tests.emulator.stack import LIMIT
from tests.emulator.test_recovery import sweep
from tests.faults.faults import LONG_AGO, SETTLE_WAIT, Faults, every_state, faulty_stack, happy_path, settling
from tests.faults.tap import Moment

pytestmark = pytest.mark.long

EVERY = ("I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8")
NOT_CLAIMED = ("Claim",)
COMPLETED_BEFORE = ("IsComplete", "Deleted")
TO_CANCELLED = (
    "Claim",
    "Route",
    "UndoSuspendIdentity",
    "CallsUndoSuspendIdentity",
    "RestoreIdentity",
    "SuspendIdentityUndone",
    "AfterUndo",
    "CancelDeletion",
    "IsCancelled",
    "Cancelled",
)
TO_RETRYABLE = ("UndoFailed", "MarkRetryable", "WillRetry")
TO_FAILED = ("CheckStores", "UndoSuspendIdentity", "SuspendIdentityUndone", "AfterUndo", "MarkFailed", "DeletionFailed")
TO_ANOTHER_GRAPH = ("Requeue", "WillRetry")
QUIET = {
    "EndedBefore": ("Claim", "cancel"),
    "InspectRequest": ("Claim", "cancel"),
    "Inspected": ("Claim", "hold"),
    "OnHold": ("Claim", "hold"),
    "OwnedElsewhere": ("CheckStores", "hold"),
}
"""State on the way to a quiet end -> the state before which an operator comes, and what for."""
NOT_STOPPED = {
    "MarkHeld": "the step that finds a lock writes HELD before its error leads here, so the next state is OnHold",
    "Held": "only a Catch that leads an error to HELD which no step writes gets here, and the list has none",
    "Unfinished": "entered and over in one: it is an end as FAILED, which the status event tells like ABORTED",
}
"""The states at which nobody is stopped here, and why."""
EFFECTS = {
    "check-stores": "Invoke",
    "suspend-identity": "AdminDisableUser",
    "delete-records": "TransactWriteItems",
    "delete-files": "DeleteObjects",
    "delete-identity": "AdminDeleteUser",
    "verify-erasure": "Invoke",
    "complete-deletion": "TransactWriteItems",
}
"""Function -> the call that has its effect, or finds out what it is there for."""
UNDOING_EFFECTS = {"undo-suspend-identity": "AdminEnableUser", "cancel-deletion": "TransactWriteItems"}


@pytest.fixture(scope="module")
def faults() -> Iterator[Faults]:
    """One stack for all tests of this file: each brings a user of its own."""
    with faulty_stack() as deployed:
        yield deployed


def test_every_state_is_one_to_be_stopped_at_or_says_why_not() -> None:
    stopped = {*happy_path(), SETTLE_WAIT, *TO_CANCELLED, *TO_RETRYABLE, *TO_FAILED, *TO_ANOTHER_GRAPH, *QUIET}
    assert stopped | NOT_STOPPED.keys() == every_state().keys()
    assert stopped.isdisjoint(NOT_STOPPED)


@pytest.mark.invariant(*EVERY)
@pytest.mark.parametrize("state", happy_path())
def test_an_execution_that_is_stopped_at_a_state_is_followed_by_one_that_completes(faults: Faults, state: str) -> None:
    before, stack = faults.new_user(), faults.stack
    request = str(stack.ask(before.user)["deletion_request_id"])

    with faults.asleep_before(state, lambda: stack.requests.due(request)):
        faults.stop(request)
    attempts, failures = (2, 1)
    if state in NOT_CLAIMED:
        # Nobody had the request, so nobody failed, and its time to be claimed must pass.
        failures = 0
        assert faults.becomes_due(request) == {"dispatched": 1}
    elif state in COMPLETED_BEFORE:
        attempts, failures = (1, 0)
    record = faults.ended(request, attempts)

    assert stack.execution(request, 1)["status"] == "ABORTED"
    assert record.status is Status.COMPLETED, record
    faults.holds(before, request, attempts=attempts, failures=failures)


@pytest.mark.invariant(*EVERY)
def test_an_execution_that_is_stopped_while_tokens_expire_is_followed_by_one_that_completes(faults: Faults) -> None:
    settles = settling(faults)
    before, stack = settles.new_user(), settles.stack
    request = str(stack.ask(before.user)["deletion_request_id"])

    with settles.asleep_before(SETTLE_WAIT, lambda: stack.requests.due(request)):
        suspended = not stack.stores.can_sign_in(before.user)
        settles.tokens_expire(request)
        settles.stop(request)
    record = settles.ended(request, 2)

    assert suspended
    assert SETTLE_WAIT not in stack.states(request, 2)
    assert record.status is Status.COMPLETED, record
    settles.holds(before, request, attempts=2, failures=1)


@pytest.mark.invariant(*EVERY)
@pytest.mark.parametrize("state", TO_ANOTHER_GRAPH)
def test_an_execution_that_is_stopped_on_its_way_to_a_later_graph_is_followed_by_one_that_completes(
    faults: Faults, state: str
) -> None:
    """A step was put into the list under way: the verification finds what the older graph has no step for."""
    before, stack = faults.new_user(), faults.stack
    request = str(stack.ask(before.user)["deletion_request_id"])
    older = faults.lacking(DELETE_IDENTITY)

    with faults.asleep_before(state, lambda: stack.requests.due(request), graph=older):
        faults.stop(request)
    if state == "WillRetry":
        faults.quiet(request)
        assert sweep(stack) == {"dispatched": 1}
    record = faults.ended(request, 2)

    assert "DeleteIdentity" not in stack.states(request, 1)
    assert record.status is Status.COMPLETED, record
    faults.holds(before, request, attempts=2, failures=1 if state == "Requeue" else 0)


@pytest.mark.invariant(*EVERY)
@pytest.mark.parametrize("state", QUIET)
def test_an_execution_that_is_stopped_on_its_way_to_a_quiet_end_leaves_the_request_alone(
    faults: Faults, state: str
) -> None:
    before, stack = faults.new_user(), faults.stack
    request = str(stack.ask(before.user)["deletion_request_id"])
    comes_before, operation = QUIET[state]

    with faults.asleep_before(comes_before, lambda: stack.requests.due(request), then=state):
        answer = faults.operate(operation, request)
        item = stack.item(request)
    with faults.still_asleep():
        faults.stop(request)
    faults.quiet(request)

    assert stack.execution(request, 1)["status"] == "ABORTED"
    assert answer == ("CANCELLED" if operation == "cancel" else "HELD")
    assert stack.item(request) == item
    faults.holds(before, request, attempts=1, failures=0)


@pytest.mark.invariant(*EVERY)
@pytest.mark.parametrize("state", TO_CANCELLED)
def test_an_execution_that_is_stopped_on_its_way_to_cancelled_is_followed_by_one_that_cancels(
    faults: Faults, state: str
) -> None:
    before = faults.new_user()
    request = faults.suspended_and_held(before)
    faults.suspended_long_ago(request)

    with faults.asleep_before(state, lambda: faults.operate("cancel", request)):
        faults.stop(request, attempt=2)
    attempts, failures = (3, 1)
    if state in NOT_CLAIMED:
        failures = 0
        assert faults.becomes_due(request) == {"dispatched": 1}
    elif state in ("IsCancelled", "Cancelled"):
        attempts, failures = (2, 0)
    record = faults.ended(request, attempts)

    assert faults.stack.execution(request, 2)["status"] == "ABORTED"
    assert record.status is Status.CANCELLED, record
    faults.holds(before, request, attempts=attempts, failures=failures)


@pytest.mark.invariant(*EVERY)
@pytest.mark.parametrize("state", TO_RETRYABLE)
def test_an_execution_that_is_stopped_on_its_way_to_retryable_counts_once_and_the_next_one_cancels(
    faults: Faults, state: str
) -> None:
    """Its undo gave up, as Retry does not wait here and the suspension's Lambda might still have run."""
    before = faults.new_user()
    request = faults.suspended_and_held(before)

    with faults.asleep_before(state, lambda: faults.operate("cancel", request)):
        faults.suspended_long_ago(request)
        faults.stop(request, attempt=2)
    if state == "WillRetry":
        faults.quiet(request)
        assert sweep(faults.stack) == {}
        assert faults.becomes_due(request) == {"dispatched": 1}
    record = faults.ended(request, 3)

    assert faults.stack.execution(request, 2)["status"] == "ABORTED"
    assert record.status is Status.CANCELLED, record
    faults.holds(before, request, attempts=3, failures=1)


@pytest.mark.invariant(*EVERY)
@pytest.mark.parametrize("state", TO_FAILED)
def test_an_execution_that_is_stopped_on_its_way_to_failed_is_followed_by_one_that_fails_and_a_redrive_completes(
    faults: Faults, state: str
) -> None:
    before, stack = faults.new_user(), faults.stack
    request = str(stack.ask(before.user)["deletion_request_id"])

    with stack.requests.without_permission(DELETE_RECORDS, "dynamodb:DescribeTable"):
        with faults.asleep_before(state, lambda: stack.requests.due(request)):
            faults.stop(request)
        attempts, failures = (1, 0) if state == "DeletionFailed" else (2, 1)
        failed = faults.ended(request, attempts)
        faults.holds(before, request, attempts=attempts, failures=failures)
    if failed.step("SuspendIdentity").undo_begun_at:
        # A suspension begins only when an undo of it must be dead.
        stack.set_back(request, "steps.SuspendIdentity.undo_begun_at", LONG_AGO)
    redriven = faults.operate("redrive", request)
    record = faults.ended(request, attempts + 1)

    error = failed.attributes["last_error"]
    assert failed.status is Status.FAILED, failed
    assert (error["step"], error["error"]) == ("CheckStores", "StoreUnfit")
    assert redriven == "RETRYABLE"
    assert record.status is Status.COMPLETED, record
    faults.holds(before, request, attempts=attempts + 1, failures=0)


@pytest.mark.invariant(*EVERY)
@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("role", EFFECTS)
def test_a_function_that_is_killed_around_its_effect_is_called_again_and_counts_are_exact(
    faults: Faults, role: str, moment: Moment
) -> None:
    before, stack = faults.new_user(), faults.stack
    request = str(stack.ask(before.user)["deletion_request_id"])

    with faults.tap.losing(stack.names.function(role), EFFECTS[role], moment) as trap:
        stack.requests.due(request)
        trap.wait(LIMIT)
        killed = stack.requests.kill(role)
    record = faults.ended(request)

    assert killed
    assert errors_of(faults, request, 1) == ["Runtime.ExitError"]
    assert record.status is Status.COMPLETED, record
    faults.holds(before, request, attempts=1, failures=0)


@pytest.mark.invariant(*EVERY)
@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("role", UNDOING_EFFECTS)
def test_a_function_that_is_killed_while_it_undoes_or_cancels_is_called_again(
    faults: Faults, role: str, moment: Moment
) -> None:
    before, stack = faults.new_user(), faults.stack
    request = faults.suspended_and_held(before)
    faults.suspended_long_ago(request)

    with faults.tap.losing(stack.names.function(role), UNDOING_EFFECTS[role], moment) as trap:
        faults.operate("cancel", request)
        trap.wait(LIMIT)
        killed = stack.requests.kill(role)
    record = faults.ended(request, 2)

    assert killed
    assert errors_of(faults, request, 2) == ["Runtime.ExitError"]
    assert record.status is Status.CANCELLED, record
    faults.holds(before, request, attempts=2, failures=0)


def errors_of(faults: Faults, request: str, attempt: int) -> list[str]:
    """The errors of the tasks that failed in an execution."""
    history = faults.stack.history(request, attempt)
    return [event["taskFailedEventDetails"]["error"] for event in history if event["type"] == "TaskFailed"]
