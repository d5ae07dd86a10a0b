"""Cancel, hold, release and redrive at each state of an execution and in each status of a request, on the emulator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from handlers.core.states import Status
from local.waiting import wait_until
from statemachine.deletion import DELETE_IDENTITY, DELETE_RECORDS
from tests.emulator.stack import LIMIT
from tests.emulator.test_recovery import sweep
from tests.faults.faults import SETTLE_WAIT, WORKFLOW, Before, Faults, faulty_stack, happy_path, settling
from tests.faults.tap import Moment

pytestmark = pytest.mark.long

EVERY = ("I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8")
STATES = happy_path(tasks_only=True)
OPEN_STATES = STATES[:-1]
"""At the last one the request is COMPLETED."""
UNTOUCHED = STATES[: STATES.index("SuspendIdentity") + 1]
"""Before these no step has begun."""
BEFORE_THE_PIVOT = (*STATES[: STATES.index("DeleteRecords") + 1], SETTLE_WAIT)
UNDOING = ("UndoSuspendIdentity", "RestoreIdentity", "SuspendIdentityUndone", "CancelDeletion")
"""The tasks of an attempt that undoes what was touched, and then cancels."""
NO = "NotPossible"
UNDER_WAY = {"cancel": NO, "redrive": "PROCESSING", "release": "PROCESSING", "release_person": "PROCESSING"}
OVER = {"cancel": NO, "hold": NO, "redrive": NO, "release": NO, "release_person": "None"}
UNFIT: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys((*STATES, SETTLE_WAIT), UNDER_WAY),
    "Claim": {"redrive": NO, "release": "SCHEDULED", "release_person": "SCHEDULED"},
    STATES[-1]: OVER,
}
"""State that comes next -> operation that changes nothing there -> its answer."""


@pytest.fixture(scope="module")
def faults() -> Iterator[Faults]:
    """One stack for all tests of this file: each brings a user of its own."""
    with faulty_stack() as deployed:
        yield deployed


@pytest.fixture(scope="module")
def settles(faults: Faults) -> Faults:
    """A stack beside it, with a settle wait."""
    return settling(faults)


@pytest.fixture
def where(faults: Faults, request: pytest.FixtureRequest, state: str) -> Faults:
    """The stack on whose way the state is."""
    found: Faults = request.getfixturevalue("settles") if state == SETTLE_WAIT else faults
    return found


@contextmanager
def asleep_before(faults: Faults, state: str, request: str) -> Iterator[None]:
    """Start an execution that waits before that state; a settle wait is over when it goes on."""
    with faults.asleep_before(state, lambda: faults.stack.requests.due(request)):
        if state == SETTLE_WAIT:
            faults.tokens_expire(request)
        yield


# -- at each state of an execution


@pytest.mark.invariant(*EVERY)
@pytest.mark.parametrize("state", [*STATES, SETTLE_WAIT])
def test_what_does_not_fit_a_state_changes_nothing_and_the_request_completes(where: Faults, state: str) -> None:
    faults = where
    before, stack = faults.new_user(), faults.stack
    request = str(stack.ask(before.user)["deletion_request_id"])

    with asleep_before(faults, state, request):
        item = stack.item(request)
        answers = {operation: faults.operate(operation, request) for operation in UNFIT[state]}
        after = stack.item(request)
    record = faults.ended(request)

    assert answers == UNFIT[state]
    assert after == item
    assert record.status is Status.COMPLETED, record
    faults.holds(before, request, attempts=1, failures=0)


@pytest.mark.invariant(*EVERY)
def test_a_cancel_that_comes_before_the_claim_wins_and_the_execution_ends_quietly(faults: Faults) -> None:
    before, stack = faults.new_user(), faults.stack
    request = str(stack.ask(before.user)["deletion_request_id"])

    with faults.asleep_before("Claim", lambda: stack.requests.due(request)):
        cancelled = faults.operate("cancel", request)
    faults.quiet(request)

    assert cancelled == "CANCELLED"
    assert stack.states(request)[-1] == "EndedBefore"
    faults.holds(before, request, attempts=1, failures=0)


@pytest.mark.invariant(*EVERY)
@pytest.mark.parametrize("state", [*OPEN_STATES, SETTLE_WAIT])
@pytest.mark.parametrize("hold", ["hold", "hold_person"])
def test_a_hold_at_a_state_stops_everything_and_the_release_completes_it(where: Faults, state: str, hold: str) -> None:
    faults = where
    before, stack = faults.new_user(), faults.stack
    request = str(stack.ask(before.user)["deletion_request_id"])

    with asleep_before(faults, state, request):
        held = faults.operate(hold, request)
        there = faults.now(before)
    faults.holds(before, request, attempts=1, failures=0)
    gone_while_held = there.changes(faults.now(before), before.user.user_id)
    released = faults.operate(hold.replace("hold", "release"), request)
    record = faults.ended(request, 2)

    assert (held, released) == ("HELD", "RETRYABLE")
    assert gone_while_held == []
    assert stack.execution(request, 1)["status"] == "SUCCEEDED"
    assert record.status is Status.COMPLETED, record
    faults.holds(before, request, attempts=2, failures=0)


@pytest.mark.invariant(*EVERY)
@pytest.mark.parametrize("state", [*OPEN_STATES, SETTLE_WAIT])
def test_a_held_request_can_be_cancelled_before_the_pivot_and_only_released_after_it(where: Faults, state: str) -> None:
    faults = where
    before, stack = faults.new_user(), faults.stack
    request = str(stack.ask(before.user)["deletion_request_id"])
    with asleep_before(faults, state, request):
        faults.operate("hold", request)
    faults.quiet(request)
    touched = state not in UNTOUCHED
    if touched:
        faults.suspended_long_ago(request)

    answer = faults.operate("cancel", request)

    if state in BEFORE_THE_PIVOT:
        assert answer == ("RETRYABLE" if touched else "CANCELLED")
        assert faults.ended(request).status is Status.CANCELLED
    else:
        assert (answer, faults.operate("release", request)) == (NO, "RETRYABLE")
        assert faults.ended(request).status is Status.COMPLETED
    faults.holds(before, request, attempts=2 if touched else 1, failures=0)


@pytest.mark.invariant(*EVERY)
@pytest.mark.parametrize("state", UNDOING)
def test_what_does_not_fit_a_request_that_is_being_undone_changes_nothing_and_it_is_cancelled(
    faults: Faults, state: str
) -> None:
    before = faults.new_user()
    request = faults.suspended_and_held(before)
    faults.suspended_long_ago(request)

    with faults.asleep_before(state, lambda: faults.operate("cancel", request)):
        item = faults.stack.item(request)
        answers = {operation: faults.operate(operation, request) for operation in UNDER_WAY}
        after = faults.stack.item(request)
    record = faults.ended(request, 2)

    assert answers == {**UNDER_WAY, "cancel": "PROCESSING"}
    assert after == item
    assert record.status is Status.CANCELLED, record
    faults.holds(before, request, attempts=2, failures=0)


@pytest.mark.invariant(*EVERY)
@pytest.mark.parametrize(("state", "operation"), list(zip(UNDOING, ("cancel", "release") * 2, strict=True)))
def test_a_hold_stops_an_undo_and_whatever_ends_the_hold_goes_on_with_it(
    faults: Faults, state: str, operation: str
) -> None:
    before = faults.new_user()
    request = faults.suspended_and_held(before)
    faults.suspended_long_ago(request)

    with faults.asleep_before(state, lambda: faults.operate("cancel", request)):
        held = faults.operate("hold", request)
        there = faults.now(before)
    faults.holds(before, request, attempts=2, failures=0)
    changed_while_held = there.changes(faults.now(before), before.user.user_id)
    answer = faults.operate(operation, request)
    record = faults.ended(request, 3)

    assert (held, answer) == ("HELD", "RETRYABLE")
    assert changed_while_held == []
    assert record.status is Status.CANCELLED, record
    faults.holds(before, request, attempts=3, failures=0)


@pytest.mark.invariant("I2", "I5")
def test_a_hold_fences_out_a_worker_in_the_middle_of_its_step(faults: Faults) -> None:
    """The worker stands just before its first delete; botocore sends that again when the connection breaks."""
    before, stack = faults.new_user(), faults.stack
    request = str(stack.ask(before.user)["deletion_request_id"])
    user = before.user.user_id

    with faults.tap.losing(stack.names.function("delete-records"), "TransactWriteItems", Moment.BEFORE) as trap:
        stack.requests.due(request)
        trap.wait(LIMIT)
        held = faults.operate("hold", request)
    faults.quiet(request)
    untouched = {store: number for store, number in faults.now(before).counts(user).items() if number}
    released = faults.operate("release", request)
    record = faults.ended(request, 2)

    assert (held, released) == ("HELD", "RETRYABLE")
    assert untouched == before.user.expected()
    assert stack.states(request)[-1] == "OwnedElsewhere"
    assert record.status is Status.COMPLETED, record
    faults.holds(before, request, attempts=2, failures=0)


# -- in each status of a request


def scheduled(faults: Faults, before: Before) -> str:
    return str(faults.stack.ask(before.user, grace_days=1)["deletion_request_id"])


def retryable(faults: Faults, before: Before) -> str:
    """Two attempts were stopped, and the third waits for its time."""
    request = str(faults.stack.ask(before.user)["deletion_request_id"])
    with (
        faults.asleep_before("CheckStores", lambda: faults.stack.requests.due(request)),
        faults.asleep_before("CheckStores", lambda: faults.stop(request, 1)),
    ):
        faults.stop(request, 2)
    wait_until(lambda: faults.stack.requests.record(request).status is Status.RETRYABLE, limit=LIMIT)
    return request


def failed(faults: Faults, before: Before) -> str:
    with faults.stack.requests.without_permission(DELETE_RECORDS, "dynamodb:DescribeTable"):
        request = faults.stack.started(before.user)
        assert faults.ended(request).status is Status.FAILED
    return request


@pytest.mark.invariant("I2", "I4", "I7")
def test_a_scheduled_request_is_held_released_and_cancelled_and_is_over_then(faults: Faults) -> None:
    before = faults.new_user()
    request = scheduled(faults, before)

    answers = walk(
        faults,
        request,
        *("release", "redrive", "release_person"),
        *("hold", "hold", "redrive", "release"),
        *("hold_person", "hold_person", "release", "redrive", "release_person"),
        *("cancel", "cancel", "hold", "release", "redrive", "hold_person", "release_person"),
    )

    assert answers == [
        *("SCHEDULED", NO, "SCHEDULED"),
        *("HELD", "HELD", NO, "SCHEDULED"),
        *("HELD", "HELD", "PersonHeld", NO, "SCHEDULED"),
        *("CANCELLED", "CANCELLED", NO, NO, NO, "None", "None"),
    ]
    assert before.everything.changes(faults.now(before), before.user.user_id) == []
    faults.holds(before, request, attempts=0, failures=0)


@pytest.mark.invariant("I2", "I4", "I7")
@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        (("release", "redrive", "release_person", "cancel"), ["RETRYABLE", NO, "RETRYABLE", "CANCELLED"]),
        (("hold", "hold", "redrive", "cancel"), ["HELD", "HELD", NO, "CANCELLED"]),
        (("hold", "release"), ["HELD", "RETRYABLE"]),
        (("hold_person", "release", "cancel"), ["HELD", "PersonHeld", "CANCELLED"]),
    ],
)
def test_a_retryable_request_that_waits_is_operated_on_and_ends(
    faults: Faults, operations: tuple[str, ...], expected: list[str]
) -> None:
    before = faults.new_user()
    request = retryable(faults, before)
    swept = sweep(faults.stack)

    answers = walk(faults, request, *operations)
    record = faults.ended(request)

    is_cancelled = expected[-1] == "CANCELLED"
    assert swept == {}
    assert answers == expected
    assert record.status is (Status.CANCELLED if is_cancelled else Status.COMPLETED), record
    faults.holds(before, request, attempts=2 if is_cancelled else 3, failures=2)


@pytest.mark.invariant("I4", "I7")
def test_a_failed_request_is_redriven_and_not_while_its_person_is_held(faults: Faults) -> None:
    before = faults.new_user()
    request = failed(faults, before)

    answers = walk(faults, request, "hold", "release", "hold_person", "redrive", "release_person", "redrive")
    record = faults.ended(request, 2)
    late = walk(faults, request, *OVER)

    assert answers == [NO, NO, "FAILED", "PersonHeld", "FAILED", "RETRYABLE"]
    assert record.status is Status.COMPLETED, record
    assert late == list(OVER.values())
    faults.holds(before, request, attempts=2, failures=0)


@pytest.mark.invariant(*EVERY)
def test_a_failed_request_that_touched_nothing_is_cancelled_at_once_also_while_its_person_is_held(
    faults: Faults,
) -> None:
    before = faults.new_user()
    request = failed(faults, before)

    answers = walk(faults, request, "hold_person", "cancel", "cancel", "redrive", "release_person")

    assert answers == ["FAILED", "CANCELLED", "CANCELLED", NO, "None"]
    faults.holds(before, request, attempts=1, failures=0)


@pytest.mark.invariant(*EVERY)
def test_a_failed_request_whose_user_is_still_suspended_is_undone_and_cancelled(faults: Faults) -> None:
    """Nothing could be started for so long that all its dispatches are spent; no attempt was left to undo anything."""
    before, stack = faults.new_user(), faults.stack
    request = faults.suspended_and_held(before)
    faults.suspended_long_ago(request)
    stack.set_back(request, "attempt_base", WORKFLOW.max_dispatches)
    faults.operate("release", request)
    given_up = stack.requests.record(request)
    suspended = not stack.stores.can_sign_in(before.user)

    answer = faults.operate("cancel", request)
    record = faults.ended(request, 2)

    assert (given_up.status, given_up.attributes["last_error"]["error"]) == (Status.FAILED, "DispatchesExhausted")
    assert suspended
    assert answer == "RETRYABLE"
    assert record.status is Status.CANCELLED, record
    faults.holds(before, request, attempts=2, failures=0)


@pytest.mark.invariant(*EVERY)
def test_a_failed_request_that_has_begun_to_erase_is_not_cancelled_and_completes_when_it_is_redriven(
    faults: Faults,
) -> None:
    before, stack = faults.new_user(), faults.stack
    with stack.requests.without_permission(DELETE_IDENTITY, "cognito-idp:AdminDeleteUser"):
        request = stack.started(before.user)
        assert faults.ended(request).status is Status.FAILED
    item = stack.item(request)

    answer = stack.invoke("operate", {"operation": "cancel", "deletion_request_id": request})
    after = stack.item(request)
    redriven = faults.operate("redrive", request)
    record = faults.ended(request, 2)

    assert answer["errorType"] == NO
    assert "it is FAILED and has begun to erase" in answer["errorMessage"]
    assert after == item
    assert redriven == "RETRYABLE"
    assert record.status is Status.COMPLETED, record
    faults.holds(before, request, attempts=2, failures=0)


def walk(faults: Faults, request: str, *operations: str) -> list[str]:
    """The answer to each operation, one after the other."""
    return [faults.operate(operation, request) for operation in operations]
