"""VerifyErasure, CompleteDeletion and CancelDeletion: how a request ends."""

import hashlib
import json
from typing import Any

import pytest

from handlers.core.errors import InvalidEvent, OwnershipLost, RequestUnknown, StoreRefused, StoreUnavailable
from handlers.core.states import VERIFY_STEP
from tests import emf
from tests.wire import Call, cancelled, invoked, refused
from tests.world import CUSTOMER, OTHER, OWNER, STEPS, USER, Context, World, function_arn

pytestmark = pytest.mark.exhaustive

COMPLETE, CANCEL = "CompleteDeletion", "CancelDeletion"
ERASING = STEPS[1:]
FRAME = (VERIFY_STEP, COMPLETE, CANCEL)


@pytest.fixture
def erased(world: World) -> str:
    """A request whose steps are all done; the verification is still to come."""
    world.sign_up()
    request = world.claimed()
    for step in STEPS:
        world.run_until_done(step, request)
    return request


@pytest.fixture
def verified(world: World, erased: str) -> str:
    """A request that only needs to be completed."""
    world.wire.before("Invoke", world.lambdas, times=3)
    world.run(VERIFY_STEP, erased)
    return erased


@pytest.fixture
def cancelling(world: World) -> str:
    """A request that somebody asked to cancel, and that nothing destroyed."""
    world.sign_up()
    request = world.claimed()
    world.change(request, cancel_requested=True)
    return request


# -- VerifyErasure


@pytest.mark.invariant("I3")
def test_nothing_left_anywhere_is_clean(world: World, erased: str) -> None:
    world.wire.before("Invoke", world.lambdas, times=3)

    answer = world.run(VERIFY_STEP, erased)

    assert answer == {"clean": True, "leftovers": []}
    assert world.record(erased)["steps"][VERIFY_STEP]["status"] == "DONE"
    assert {call.params["FunctionName"] for call in world.wire.of("Invoke")} == {function_arn(step) for step in ERASING}
    assert json.loads(world.wire.of("Invoke")[0].params["Payload"]).keys() == {
        "deletion_request_id",
        "owner",
        "step",
        "verify",
    }


@pytest.mark.invariant("I3", "I6")
def test_what_was_written_after_a_step_was_done_reopens_that_step(world: World, erased: str) -> None:
    world.put_order(USER, "late")
    world.put_file(f"users/{USER}/late.jpg")
    world.wire.before("Invoke", world.lambdas, times=6)

    answer = world.run(VERIFY_STEP, erased)

    assert answer == {"clean": False, "leftovers": ["DeleteFiles", "DeleteRecords"]}
    steps = world.record(erased)["steps"]
    assert "status" not in steps["DeleteFiles"]
    assert "status" not in steps["DeleteRecords"]
    assert "status" not in steps[VERIFY_STEP]
    assert steps["DeleteIdentity"]["status"] == "DONE"
    assert steps[VERIFY_STEP]["rounds"] == 1
    for step in ("DeleteRecords", "DeleteFiles"):
        world.run_until_done(step, erased)
    assert world.deleted(erased, "DeleteRecords") == {"orders": 4, "visits": 2}
    assert world.deleted(erased, "DeleteFiles") == {"photos": 6, "photos.uploads": 1}
    assert world.run(VERIFY_STEP, erased)["clean"]


def test_a_second_verification_answers_the_recorded_result(world: World, verified: str) -> None:
    record, calls = world.record(verified), len(world.wire.calls)

    answer = world.run(VERIFY_STEP, verified)

    assert answer == {"clean": True, "leftovers": []}
    assert world.record(verified) == record
    assert [call.operation for call in world.wire.calls[calls:]] == ["UpdateItem"]


def test_a_step_that_this_graph_does_not_know_is_named_and_not_reopened(world: World, erased: str) -> None:
    world.change(erased, steps__DeleteFiles=None)
    world.put_file(f"users/{USER}/late.jpg")
    world.wire.before("Invoke", world.lambdas, times=3)

    answer = world.run(VERIFY_STEP, erased)

    assert answer == {"clean": False, "leftovers": ["DeleteFiles"]}
    assert "DeleteFiles" not in world.record(erased)["steps"]


@pytest.mark.parametrize(
    ("error_type", "error", "message"),
    [
        ("AccessDenied", StoreRefused, "verify DeleteRecords answered AccessDenied"),
        ("StoreMissing", StoreRefused, "verify DeleteRecords answered StoreMissing"),
        ("SettingsError", StoreRefused, "verify DeleteRecords answered SettingsError"),
        ("Throttled", StoreUnavailable, "verify DeleteRecords answered Throttled"),
        ("Runtime.ExitError", StoreUnavailable, "verify DeleteRecords answered Runtime.ExitError"),
        ("OwnershipLost", OwnershipLost, "another owner"),
    ],
)
def test_a_listing_that_fails_is_never_taken_for_an_empty_one(
    world: World, erased: str, error_type: str, error: type[Exception], message: str
) -> None:
    def answer(call: Call) -> Any:
        if "DeleteRecords" not in call.params["FunctionName"]:
            return world.lambdas(call)
        payload = {"errorType": error_type, "errorMessage": f"secret of {USER}"}
        return invoked(payload, FunctionError="Unhandled")(call)

    world.wire.before("Invoke", answer, times=3)

    with pytest.raises(error, match=message) as raised:
        world.run(VERIFY_STEP, erased)

    assert USER not in str(raised.value).replace(erased, "")
    assert world.record(erased)["steps"][VERIFY_STEP]["status"] == "RUNNING"


def test_a_function_that_cannot_be_called_is_never_taken_for_an_empty_store(world: World, erased: str) -> None:
    world.wire.before("Invoke", refused("TooManyRequestsException", status=429), times=3)

    with pytest.raises(Exception, match="Invoke answered TooManyRequestsException"):
        world.run(VERIFY_STEP, erased)

    assert world.record(erased)["steps"][VERIFY_STEP]["status"] == "RUNNING"


def test_the_verification_writes_under_its_own_name_only(world: World, erased: str) -> None:
    event = {"deletion_request_id": erased, "owner": OWNER, "step": "DeleteFiles"}

    with pytest.raises(InvalidEvent, match="step: VerifyErasure"):
        world.run(VERIFY_STEP, event=event)


def test_an_erasing_step_takes_the_verification_out_of_done(world: World, verified: str) -> None:
    world.change(verified, steps__DeleteRecords__status=None)

    world.run("DeleteRecords", verified)

    assert "status" not in world.record(verified)["steps"][VERIFY_STEP]
    assert world.run(COMPLETE, verified) == {"done": False, "missing": [VERIFY_STEP]}


# -- CompleteDeletion


def test_a_request_whose_steps_are_all_done_is_completed_and_forgets_the_person(
    world: World, verified: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = world.record(verified)
    capsys.readouterr()

    answer = world.run(COMPLETE, verified)

    record = world.record(verified)
    assert answer == {"done": True, "missing": []}
    assert (record["status"], record["completed_by"], record["completed_at"]) == ("COMPLETED", OWNER, world.now)
    assert not {"user_id", "identifiers", "identity", "owner", "due_at"} & record.keys()
    assert record["fence"] == before["fence"] + 1
    whole = json.dumps(record).replace(verified, "")
    assert not any(secret in whole for secret in (f'"{USER}"', f'"{CUSTOMER}"', f"users/{USER}"))
    assert world.guard(record["subject"]) == {
        "pk": f"USER#{record['subject']}",
        "completed_request": verified,
        "completed_at": world.now,
    }
    sent = emf.sent(capsys.readouterr().out.splitlines())
    assert [(one.name, one.value) for one in sent] == [("Completed", 1), ("CompletedAfter", 0)]


@pytest.mark.invariant("I8")
def test_a_completed_record_keeps_no_bounds_even_of_a_step_that_left_the_list(world: World, verified: str) -> None:
    bounds = {"first_key": "users/ann/a.jpg"}
    for step in ("DeleteFiles", "DeleteOldThings"):
        world.change(verified, **{f"steps__{step}": {"status": "DONE", "batch": bounds}})

    world.run("CompleteDeletion", verified)

    record = world.record(verified)
    assert record["status"] == "COMPLETED"
    assert "batch" not in record["steps"]["DeleteFiles"]
    assert record["steps"]["DeleteOldThings"] == {"status": "DONE"}


def test_the_receipt_can_be_computed_again_from_the_record(world: World, verified: str) -> None:
    world.run(COMPLETE, verified)

    record = world.record(verified)
    facts = {
        "completed_at": record["completed_at"],
        "definition": record["definition"],
        "deleted": {step: fields.get("deleted", {}) for step, fields in record["steps"].items()},
        "deletion_request_id": verified,
        "subject": record["subject"],
    }
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    assert record["receipt"] == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("lost", [False, True])
def test_a_second_completion_finds_the_first_and_changes_nothing(world: World, verified: str, lost: bool) -> None:
    if lost:
        world.wire.lose_answer("TransactWriteItems")
    assert world.run(COMPLETE, verified)["done"]
    record = world.record(verified)
    world.now += 100

    answer = world.run(COMPLETE, verified)

    assert answer == {"done": True, "missing": []}
    assert world.record(verified) == record


@pytest.mark.parametrize("step", [*STEPS, VERIFY_STEP])
def test_a_step_that_is_deployed_but_not_done_is_missing(world: World, verified: str, step: str) -> None:
    world.change(verified, **{f"steps__{step}__status": "RUNNING"})

    answer = world.run(COMPLETE, verified)

    assert answer == {"done": False, "missing": [step]}
    assert world.record(verified)["status"] == "PROCESSING"


def test_a_step_that_is_reopened_between_the_look_and_the_write_is_missing(world: World, verified: str) -> None:
    def reopen(_: Call) -> None:
        world.change(verified, steps__DeleteFiles__status=None)

    world.wire.before("TransactWriteItems", reopen)

    answer = world.run(COMPLETE, verified)

    assert answer == {"done": False, "missing": ["DeleteFiles"]}
    assert world.record(verified)["status"] == "PROCESSING"


def test_a_guard_that_belongs_to_another_request_keeps_the_request_open(world: World, verified: str) -> None:
    subject = world.record(verified)["subject"]
    world.dynamodb.put_item(
        TableName="deletions", Item={"pk": {"S": f"USER#{subject}"}, "active_request": {"S": "del_other"}}
    )

    with pytest.raises(StoreUnavailable, match="TransactWriteItems answered ConditionalCheckFailed"):
        world.run(COMPLETE, verified)

    assert world.record(verified)["status"] == "PROCESSING"
    assert world.guard(subject)["active_request"] == "del_other"


# -- CancelDeletion


def test_a_request_that_was_asked_to_cancel_is_cancelled_and_forgets_the_person(world: World, cancelling: str) -> None:
    answer = world.run(CANCEL, cancelling)

    record = world.record(cancelling)
    assert answer == {"done": True}
    assert (record["status"], record["cancelled_by"]) == ("CANCELLED", OWNER)
    assert not {"user_id", "identifiers", "identity", "owner", "due_at"} & record.keys()
    assert world.guard(record["subject"]) == {"pk": f"USER#{record['subject']}"}
    assert world.accept() != cancelling


@pytest.mark.parametrize("lost", [False, True])
def test_a_second_cancellation_finds_the_first_and_changes_nothing(world: World, cancelling: str, lost: bool) -> None:
    if lost:
        world.wire.lose_answer("TransactWriteItems")
    assert world.run(CANCEL, cancelling)["done"]
    record = world.record(cancelling)
    world.now += 100

    assert world.run(CANCEL, cancelling) == {"done": True}
    assert world.record(cancelling) == record


@pytest.mark.invariant("I2")
@pytest.mark.parametrize("function", [COMPLETE, CANCEL])
@pytest.mark.parametrize("kept", [None, 400 * 86_400])
def test_an_ended_request_says_when_its_record_may_go_and_its_guard_never(
    world: World, request: pytest.FixtureRequest, function: str, kept: int | None
) -> None:
    ending = str(request.getfixturevalue("verified" if function == COMPLETE else "cancelling"))
    world.more_environment = {} if kept is None else {"KEEP_REQUESTS": str(kept)}

    world.run(function, ending)

    # TTL passes by what is not a number.
    record = world.record(ending)
    assert record["expires_at"] == (None if kept is None else world.now + kept)
    assert "expires_at" not in world.guard(record["subject"])


@pytest.mark.parametrize("change", [{"cancel_requested": False}, {"pivot_at": 1}])
def test_a_request_that_nobody_cancelled_or_that_passed_the_pivot_goes_on(
    world: World, cancelling: str, change: dict[str, object]
) -> None:
    world.change(cancelling, **change)

    assert world.run(CANCEL, cancelling) == {"done": False}
    assert world.record(cancelling)["status"] == "PROCESSING"


def test_a_pivot_that_is_passed_between_the_look_and_the_write_stops_the_cancellation(
    world: World, cancelling: str
) -> None:
    world.wire.before("TransactWriteItems", lambda _: world.change(cancelling, pivot_at=1))

    assert world.run(CANCEL, cancelling) == {"done": False}


# -- all three


@pytest.mark.invariant("I5")
@pytest.mark.parametrize("function", FRAME)
def test_an_execution_that_does_not_own_the_request_ends_quietly(world: World, cancelling: str, function: str) -> None:
    record = world.record(cancelling)

    with pytest.raises(OwnershipLost):
        world.run(function, cancelling, owner=OTHER)

    assert world.record(cancelling) == record


@pytest.mark.parametrize("function", FRAME)
def test_an_unknown_request_is_rejected(world: World, function: str) -> None:
    with pytest.raises(RequestUnknown):
        world.run(function, "del_" + "0" * 26)


@pytest.mark.parametrize("function", FRAME)
@pytest.mark.parametrize("event", [None, [], {}, {"deletion_request_id": "ann", "owner": OWNER, "step": "X"}])
def test_an_event_of_the_wrong_shape_is_rejected_before_any_call(world: World, function: str, event: Any) -> None:
    with world.environment(function) as handler, pytest.raises(InvalidEvent):
        handler(event, Context())

    assert world.wire.calls == []


@pytest.mark.parametrize(("function", "done"), [(COMPLETE, "COMPLETED"), (CANCEL, "CANCELLED")])
@pytest.mark.parametrize(
    "act",
    [
        cancelled("TransactionConflict", "None"),
        cancelled("None", "TransactionConflict"),
        cancelled("None", "ThrottlingError"),
        refused("TransactionInProgressException"),
    ],
)
def test_a_busy_item_is_never_taken_for_a_lost_condition(
    world: World, verified: str, function: str, done: str, act: Any
) -> None:
    if function == CANCEL:
        world.change(verified, cancel_requested=True, pivot_at=None)
    world.wire.before("TransactWriteItems", act, times=3)

    assert world.run(function, verified)["done"]
    assert world.record(verified)["status"] == done
