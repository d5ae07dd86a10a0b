"""Whole requests on the emulator: the deployed stack, real Lambda processes, real executions."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from handlers.core.record import Record
from handlers.core.states import Status
from handlers.core.transitions import CANCEL_TOUCHED, RECOVER, REDRIVE
from local.demo_stores import User
from local.waiting import wait_until
from statemachine.deletion import DELETE_RECORDS
from tests.emulator.stack import LIMIT, Stack, deploy_stack, fresh_stack
from tests.happy_path import HAPPY_PATH

NOTHING = {"orders": 0, "visits": 0, "files": 0, "files.uploads": 0, "identity": 0}
SLICE = 0.02
"""Seconds that a process runs between two looks at how far it is."""
STEPS = ("suspend-identity", "delete-records", "delete-files", "delete-identity")


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """One for all tests of this file: each brings users of its own."""
    with fresh_stack() as deployed:
        yield deployed


def deleted(stack: Stack, request: str) -> dict[str, int]:
    """Store -> recorded count over all steps."""
    steps = stack.requests.record(request).steps.values()
    return {store: number for step in steps for store, number in step.deleted.items() if number}


@pytest.mark.invariant("I3")
def test_a_due_request_deletes_everything_of_its_user_and_nothing_of_another(stack: Stack) -> None:
    user, other = stack.sign_up(), stack.sign_up()
    before = stack.digest(other)
    request = stack.started(user)
    record = stack.ended(request)
    assert record.status is Status.COMPLETED, record
    assert stack.counts(user) == NOTHING
    assert stack.digest(other) == before
    assert deleted(stack, request) == user.expected()
    assert stack.states(request) == list(HAPPY_PATH)
    assert stack.execution(request)["status"] == "SUCCEEDED"


@pytest.mark.invariant("I3")
def test_a_profile_that_was_linked_after_the_request_was_accepted_goes_with_its_user(stack: Stack) -> None:
    user = stack.sign_up()
    request = str(stack.ask(user, grace_days=1)["deletion_request_id"])
    link(stack, user, "Google_10001")
    for end in ("grace_ends_at", "due_at"):
        stack.set_back(request, end, 86_400)
    stack.requests.due(request)
    record = stack.ended(request)
    assert record.status is Status.COMPLETED, record
    assert stack.counts(user) == NOTHING
    assert names_in_pool(stack, "Google_") == []
    assert deleted(stack, request) == {**user.expected(), "identity": 2}
    assert "Google_10001" not in json.dumps(stack.item(request))


def link(stack: Stack, user: User, name: str) -> None:
    """A profile of an external provider that is linked to a user, as far as the emulator can show one."""
    cognito = stack.client("cognito-idp")
    provider, user_id = name.rsplit("_", 1)
    identities = json.dumps([{"providerName": provider, "userId": user_id}])
    cognito.admin_create_user(UserPoolId=stack.stores.pool_id, Username=name)
    cognito.admin_update_user_attributes(
        UserPoolId=stack.stores.pool_id,
        Username=user.user_id,
        UserAttributes=[{"Name": "identities", "Value": identities}],
    )


def names_in_pool(stack: Stack, prefix: str) -> list[str]:
    """The user names that begin so."""
    answer = stack.client("cognito-idp").list_users(UserPoolId=stack.stores.pool_id, Filter=f'username ^= "{prefix}"')
    return [user["Username"] for user in answer["Users"]]


@pytest.mark.invariant("I8")
def test_a_completed_request_keeps_a_receipt_and_a_tombstone_and_no_personal_data(stack: Stack) -> None:
    user = stack.sign_up()
    sub = stack.sub(user)
    request = stack.started(user)
    record = stack.ended(request)
    item, guard = stack.item(request), stack.guard(record.subject)
    assert record.status is Status.COMPLETED, record
    assert len(item["receipt"]["S"]) == 64
    assert item["completed_by"]["S"] == stack.execution_arn(request)
    assert guard["completed_request"] == {"S": request}
    assert "active_request" not in guard
    for secret in (user.user_id, user.customer_id, sub):
        assert secret not in json.dumps([item, guard]).replace(request, "")


@pytest.mark.invariant("I8")
def test_no_personal_data_is_in_the_history_of_an_execution_or_in_a_log_line(stack: Stack) -> None:
    user = stack.sign_up()
    sub = stack.sub(user)
    request = stack.started(user)
    record = stack.ended(request)
    history = json.dumps(stack.history(request), default=str).replace(request, "")
    lines = [line.replace(request, "") for line in stack.log_lines() if request in line]
    assert record.status is Status.COMPLETED, record
    assert len(stack.states(request)) == len(HAPPY_PATH)
    assert any('"message":"completed"' in line for line in lines)
    for secret in (user.user_id, user.customer_id, sub, "users/", "CUSTOMER#", "@example.com"):
        assert secret not in history
        assert [line for line in lines if secret in line] == []


@pytest.mark.invariant("I5", "I6")
def test_a_due_event_that_comes_three_times_at_once_and_again_after_the_end_has_one_effect(stack: Stack) -> None:
    user = stack.sign_up()
    # Three warm processes, or the first would be through before the others are up.
    send_at_once(stack, str(stack.ask(stack.sign_up(), grace_days=1)["deletion_request_id"]))
    request = str(stack.ask(user)["deletion_request_id"])
    send_at_once(stack, request)
    record = stack.ended(request)
    item = stack.item(request)
    late = stack.requests.due(request)
    assert record.status is Status.COMPLETED, record
    assert (record.attempt, record.claimed) == (1, 1)
    assert {name: step.invocations for name, step in record.steps.items()} == dict.fromkeys(record.steps, 1)
    assert deleted(stack, request) == user.expected()
    assert late == {"dispatched": False}
    assert stack.item(request) == item
    assert stack.requests.executions(request) == [f"{request}-1"]


def send_at_once(stack: Stack, request: str) -> None:
    """The due event, three times."""
    at_once = Barrier(3)

    def send(_: int) -> None:
        at_once.wait()
        stack.requests.due(request)

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(send, range(3)))


def test_an_application_that_asks_twice_gets_the_same_request(stack: Stack) -> None:
    user = stack.sign_up()
    first = stack.ask(user, grace_days=1)
    again = stack.ask(user, grace_days=2)
    assert again == first


@pytest.mark.invariant("I4")
def test_a_step_without_permission_fails_the_request_and_a_redrive_completes_it(stack: Stack) -> None:
    user = stack.sign_up()
    with stack.policy("delete-records", stack.policy_without("delete-records", "dynamodb:DeleteItem")):
        request = stack.started(user)
        failed = stack.ended(request)
        execution = stack.execution(request)
    error = failed.attributes["last_error"]
    assert failed.status is Status.FAILED, failed
    assert (error["step"], error["error"]) == ("DeleteRecords", "AccessDenied")
    assert (execution["status"], execution["error"]) == ("FAILED", "AccessDenied")
    assert stack.counts(user) == user.expected()
    stack.write(REDRIVE, request, attempt=1, now=int(time.time()))
    stack.requests.due(request)
    assert stack.ended(request).status is Status.COMPLETED
    assert stack.counts(user) == NOTHING
    assert deleted(stack, request) == user.expected()


@pytest.mark.invariant("I4")
def test_a_step_that_fails_before_the_pivot_is_undone_and_the_user_can_sign_in_again(stack: Stack) -> None:
    user = stack.sign_up()
    # The step cannot even begin, so the pivot is not passed.
    forgotten = stack.policy_without("delete-records", "dynamodb:UpdateItem")
    with stack.policy("delete-records", forgotten), stack.slow_waits():
        request = stack.started(user)
        wait_until(lambda: stack.requests.record(request).undoing, limit=LIMIT)
        is_suspended = not stack.pool_user(user)["Enabled"]
        # The undo waits until the suspension's Lambda must be dead.
        stack.set_back(request, "steps.SuspendIdentity.begun_at", 120)
        failed = stack.ended(request)
    error = failed.attributes["last_error"]
    assert is_suspended
    assert failed.status is Status.FAILED, failed
    assert (error["step"], error["error"]) == ("DeleteRecords", "AccessDenied")
    assert failed.step("SuspendIdentity").status == "UNDONE"
    assert stack.pool_user(user)["Enabled"] is True
    assert stack.counts(user) == user.expected()


@pytest.mark.invariant("I2")
def test_a_cancellation_undoes_what_was_touched_and_releases_the_user(stack: Stack) -> None:
    user = stack.sign_up()
    with stack.policy("delete-records", stack.policy_without("delete-records", "dynamodb:UpdateItem")):
        request = stack.started(user)
        stopped = stack.ended(request)
    # Retry does not wait here, so the undo gives up while the suspension's Lambda might still run.
    assert (stopped.status, stopped.attributes["last_error"]["error"]) == (Status.RETRYABLE, "StepMayStillRun")
    assert stack.pool_user(user)["Enabled"] is False
    stack.set_back(request, "steps.SuspendIdentity.begun_at", 120)
    stack.write(CANCEL_TOUCHED, request, now=int(time.time()))
    stack.requests.due(request)
    record = stack.ended(request)
    assert record.status is Status.CANCELLED, record
    assert stack.states(request, 2)[3:] == [
        "UndoSuspendIdentity",
        "CallsUndoSuspendIdentity",
        "RestoreIdentity",
        "SuspendIdentityUndone",
        "AfterUndo",
        "CancelDeletion",
        "IsCancelled",
        "Cancelled",
    ]
    assert stack.pool_user(user)["Enabled"] is True
    assert stack.counts(user) == user.expected()
    assert "active_request" not in stack.guard(record.subject)
    assert record.person is None


@pytest.mark.invariant("I1", "I5")
def test_a_worker_that_wakes_up_after_the_user_registered_again_touches_nothing_of_theirs(stack: Stack) -> None:
    """The process of the first attempt sleeps between two batches while the second attempt completes."""
    user = stack.sign_up(orders=900)
    request = stack.started(user)
    seen = []

    def sleeps_too_long() -> bool:
        step = stack.requests.record(request).step("DeleteRecords")
        assert step.status != "DONE", "the process was too fast"
        if step.status != "RUNNING":
            return False
        with stack.requests.frozen(DELETE_RECORDS) as processes:
            asleep = stack.requests.record(request)
            if not processes or "orders" not in asleep.step("DeleteRecords").deleted:
                return False
            recover(stack, asleep)
            stack.requests.due(request)
            assert stack.ended(request).status is Status.COMPLETED
            assert stack.counts(user) == NOTHING
            stack.stores.fill([user])
            seen.append((stack.item(request), stack.digest(user)))
        return True

    wait_until(sleeps_too_long, limit=LIMIT, every=SLICE)
    late = stack.execution(request, 1)
    assert (late["status"], stack.states(request, 1)[-1]) == ("SUCCEEDED", "OwnedElsewhere")
    assert (stack.item(request), stack.digest(user)) == seen[0]
    assert stack.counts(user) == user.expected()


def recover(stack: Stack, record: Record) -> None:
    """What recovery writes of an owner that it takes for dead."""
    now = int(time.time())
    error = {"step": "Recover", "error": "OwnerLost", "at": now}
    after = {"fence_after": record.fence + 1, "failures": 1, "due_at": now, "error": error}
    stack.write(RECOVER, record.deletion_request_id, owner=record.owner, fence=record.fence, **after)


@pytest.mark.invariant("I1", "I6")
@pytest.mark.parametrize("role", [*STEPS, "undo-suspend-identity", "verify-erasure", "complete-deletion"])
def test_a_late_call_of_any_function_of_a_completed_request_changes_nothing(
    stack: Stack, completed: tuple[Any, str], role: str
) -> None:
    user, request = completed
    item, digest = stack.item(request), stack.digest(user)
    names = {"undo-suspend-identity": "SuspendIdentity"}
    step = names.get(role, "".join(word.capitalize() for word in role.split("-")))
    event = {"deletion_request_id": request, "owner": stack.execution_arn(request), "step": step}
    answer = stack.invoke(role, event)
    assert answer.get("errorType") == "OwnershipLost" or answer["done"] is True, answer
    assert stack.item(request) == item
    assert stack.digest(user) == digest


@pytest.fixture(scope="module")
def completed(stack: Stack) -> tuple[Any, str]:
    """A user who was deleted, and registered again under the same names."""
    user = stack.sign_up()
    request = stack.started(user)
    assert stack.ended(request).status is Status.COMPLETED
    stack.stores.fill([user])
    return user, request


@pytest.mark.invariant("I2")
def test_a_request_with_a_grace_period_has_a_schedule_and_a_due_event_before_it_is_left_alone(stack: Stack) -> None:
    user = stack.sign_up()
    answer = stack.ask(user, grace_days=1)
    request = str(answer["deletion_request_id"])
    found = stack.client("scheduler").get_schedule(GroupName=stack.done.outputs["schedule_group_name"], Name=request)
    due = time.strftime("at(%Y-%m-%dT%H:%M:%S)", time.gmtime(answer["grace_ends_at"]))
    target = found["Target"]
    assert (found["ScheduleExpression"], found["ScheduleExpressionTimezone"]) == (due, "UTC")
    assert (found["FlexibleTimeWindow"], found["ActionAfterCompletion"]) == ({"Mode": "OFF"}, "DELETE")
    assert target["Arn"].endswith(f":function:{stack.names.function('dispatch')}:live")
    assert target["RoleArn"].rpartition("/")[2] == "acme-local-eu-central-1-schedule"
    assert json.loads(target["Input"]) == {"deletion_request_id": request}
    assert target["DeadLetterConfig"]["Arn"].endswith(":acme-local-schedule-dlq")
    assert stack.requests.due(request) == {"dispatched": False}
    assert stack.requests.executions(request) == []
    assert stack.counts(user) == user.expected()


def test_a_stack_without_a_user_pool_deploys_and_completes(stack: Stack) -> None:
    bare = deploy_stack(stack.emulator, stack.stores, "bare", user_pool_id=None)
    user = bare.sign_up()
    request = bare.started(user)
    record = bare.ended(request)
    assert record.status is Status.COMPLETED, record
    assert not [state for state in bare.states(request) if "Identity" in state]
    assert bare.counts(user) == {**NOTHING, "identity": 1}
    assert "identity" not in deleted(bare, request)
