"""What holds for each step of the list, whatever it deletes.

Checked on moto, with a crash, a lost answer or another invocation at each single call. The emulator has the same of
real processes, at fewer places: late calls of every function and a worker that wakes up (tests/emulator/
test_deletion.py), and executions and functions that die in each state (tests/faults).
"""

import contextlib
import json
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from handlers.core import clock
from handlers.core.errors import AccessDenied, InvalidEvent, OwnershipLost, RequestUnknown, Superseded, Unexpected
from tests.wire import Act, Call, Crash, connection_lost, raises, refused
from tests.world import CUSTOMER, EVERYTHING, OTHER, OWNER, STEPS, USER, Context, World

pytestmark = pytest.mark.long

ERASING = STEPS[1:]
COUNTS: Mapping[str, Mapping[str, int]] = {
    "SuspendIdentity": {},
    "DeleteRecords": {"orders": 3, "visits": 2},
    "DeleteFiles": {"photos": 5, "photos.uploads": 1},
    "DeleteIdentity": {"identity": 1},
}
OWN_DATA: Mapping[str, tuple[str, ...]] = {
    "SuspendIdentity": (),
    "DeleteRecords": ("orders", "visits"),
    "DeleteFiles": ("photos", "uploads"),
    "DeleteIdentity": ("identity",),
}
SECRETS = (USER, CUSTOMER, "a b+c")


def left(world: World, step: str, **who: str) -> list[object]:
    """What the step's own stores still hold."""
    data = world.data(**who)
    return [data[store] for store in OWN_DATA[step] if data[store]]


@pytest.mark.parametrize("step", STEPS)
def test_a_step_empties_its_stores_and_touches_no_other(world: World, step: str) -> None:
    world.sign_up()
    world.sign_up("anna", "10011")
    neighbour, before = world.data("anna", "10011"), world.data()
    request = world.claimed()

    answer = world.run_until_done(step, request)

    assert answer == {"done": True, "wait": 0}
    assert left(world, step) == []
    assert world.deleted(request, step) == COUNTS[step]
    assert world.record(request)["steps"][step]["status"] == "DONE"
    assert "batch" not in world.record(request)["steps"][step]
    assert world.data("anna", "10011") == neighbour
    kept = set(before) - set(OWN_DATA[step])
    assert {store: world.data()[store] for store in kept} == {store: before[store] for store in kept}


@pytest.mark.invariant("I6")
@pytest.mark.parametrize("step", STEPS)
def test_a_second_run_succeeds_and_changes_nothing(world: World, step: str) -> None:
    world.sign_up()
    request = world.claimed()
    world.run(step, request)
    if step in ERASING:
        world.sign_up("bert", "7")
        world.put_order(USER, "late")
        world.put_file(f"users/{USER}/late.jpg")
    record, data, calls = world.record(request), world.data(), len(world.wire.calls)

    answer = world.run(step, request)

    assert answer == {"done": True, "wait": 0}
    assert (world.record(request), world.data()) == (record, data)
    assert [call.operation for call in world.wire.calls[calls:]] == ["UpdateItem"]


@pytest.mark.invariant("I5")
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("when", ["crash", "answer lost"])
def test_a_crash_or_a_lost_answer_at_any_call_leaves_exact_counts(world: World, step: str, when: str) -> None:
    number, happened = 0, True
    while happened:
        number += 1
        who = {"user": f"ann{number}", "customer": str(number)}
        world.sign_up(**who)
        request = world.claimed(**who)
        world.wire.after(number, Crash if when == "crash" else connection_lost)

        with contextlib.suppress(Crash):
            world.run(step, request)
        happened = not world.wire.pending()
        world.wire.calm()
        world.run_until_done(step, request)

        place = f"{when} call {number}"
        assert left(world, step, **who) == [], place
        assert world.deleted(request, step) == COUNTS[step], place
    assert number > 2


def overtaking(world: World, step: str, request: str) -> Act:
    """Another invocation runs to its end, then the call passes."""

    def act(_: Call) -> None:
        world.run_until_done(step, request)

    return act


@pytest.mark.invariant("I5")
@pytest.mark.parametrize("step", STEPS)
def test_an_invocation_that_overtakes_another_at_any_call_counts_each_effect_once(world: World, step: str) -> None:
    number, happened = 0, True
    while happened:
        number += 1
        who = {"user": f"ann{number}", "customer": str(number)}
        world.sign_up(**who)
        request = world.claimed(**who)
        world.wire.at(number, overtaking(world, step, request))

        with contextlib.suppress(Superseded):
            world.run(step, request)
        happened = not world.wire.pending()
        world.wire.calm()
        world.run_until_done(step, request)

        assert left(world, step, **who) == [], f"at call {number}"
        assert world.deleted(request, step) == COUNTS[step], f"at call {number}"
    assert number > 2


@pytest.mark.invariant("I5")
@pytest.mark.parametrize("step", STEPS)
def test_the_same_event_three_times_at_once_has_each_effect_once(world: World, step: str) -> None:
    world.sign_up()
    request = world.claimed()
    event = {"deletion_request_id": request, "owner": OWNER, "step": step}
    start, errors = threading.Barrier(3), []

    def invoke(handler: Any) -> None:
        start.wait()
        try:
            handler(event, Context())
        except Superseded as error:
            errors.append(error)

    with world.environment(step) as handler:
        threads = [threading.Thread(target=invoke, args=(handler,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    world.run_until_done(step, request)

    assert len(errors) < 3
    assert left(world, step) == []
    assert world.deleted(request, step) == COUNTS[step]


@pytest.mark.invariant("I1")
@pytest.mark.parametrize(
    ("step", "operation"),
    [
        ("SuspendIdentity", "UpdateItem"),
        ("SuspendIdentity", "AdminDisableUser"),
        ("DeleteRecords", "Query"),
        ("DeleteRecords", "TransactWriteItems"),
        ("DeleteFiles", "ListObjectVersions"),
        ("DeleteFiles", "AbortMultipartUpload"),
        ("DeleteFiles", "DeleteObjects"),
        ("DeleteIdentity", "AdminGetUser"),
        ("DeleteIdentity", "AdminDeleteUser"),
    ],
)
def test_a_late_worker_touches_nothing_of_a_user_who_registered_again(world: World, step: str, operation: str) -> None:
    world.sign_up()
    request = world.claimed()
    new: list[object] = []

    def everything() -> tuple[object, object]:
        return world.data(), (world.pool_user() or {}).get("Enabled")

    def complete_and_sign_up(_: object) -> None:
        # The lease ran out, another execution took over and completed; then the same person came back.
        world.change(request, status="RETRYABLE", owner=None, due_at=world.now)
        world.dispatch(request)
        world.claim(request, owner=OTHER)
        for other in STEPS:
            world.run_until_done(other, request, owner=OTHER)
        world.change(request, steps__VerifyErasure__status="DONE")
        assert world.run("CompleteDeletion", request, owner=OTHER)["done"]
        world.sign_up()
        new.append(everything())

    world.wire.before(operation, complete_and_sign_up)

    with contextlib.suppress(OwnershipLost):
        world.run(step, request)

    assert new == [everything()]
    assert world.record(request)["status"] == "COMPLETED"


@pytest.mark.invariant("I5")
@pytest.mark.parametrize("step", STEPS)
def test_an_execution_that_does_not_own_the_request_does_nothing(world: World, step: str) -> None:
    world.sign_up()
    request = world.claimed()
    record, data = world.record(request), world.data()

    with pytest.raises(OwnershipLost):
        world.run(step, request, owner=OTHER)

    assert (world.record(request), world.data()) == (record, data)


@pytest.mark.invariant("I2")
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("status", ["SCHEDULED", "RETRYABLE", "HELD", "CANCELLED", "COMPLETED", "FAILED"])
def test_a_request_that_is_not_processing_deletes_nothing(world: World, step: str, status: str) -> None:
    world.sign_up()
    request = world.claimed()
    world.change(request, status=status)
    data = world.data()

    with pytest.raises(OwnershipLost):
        world.run(step, request)

    assert world.data() == data


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({"owner": OWNER}, InvalidEvent),
        ({"deletion_request_id": "", "owner": OWNER}, InvalidEvent),
        ({"deletion_request_id": "del_ann@example.com", "owner": OWNER}, InvalidEvent),
        ({"deletion_request_id": ["del_"], "owner": OWNER}, InvalidEvent),
        ({"deletion_request_id": "del_" + "0" * 26}, InvalidEvent),
        ({"deletion_request_id": "del_" + "0" * 26, "owner": OWNER}, RequestUnknown),
        ("ann", InvalidEvent),
        (None, InvalidEvent),
    ],
)
def test_an_event_without_a_known_id_is_rejected_with_one_log_line(
    world: World, step: str, event: Any, error: type[Exception]
) -> None:
    world.sign_up()
    data = world.data()
    with world.environment(step) as handler:
        world.lines()
        with pytest.raises(error) as raised:
            handler({**event, "step": step} if isinstance(event, dict) else event, Context())

    (line,) = world.lines()
    assert line["error"] == error.__name__
    assert "ann" not in json.dumps(line) + str(raised.value)
    assert world.data() == data
    assert {call.operation for call in world.wire.calls} <= {"UpdateItem"}


@pytest.mark.invariant("I8")
@pytest.mark.parametrize("step", STEPS)
def test_an_exception_that_carries_personal_data_is_masked(world: World, step: str) -> None:
    world.sign_up()
    request = world.claimed()
    world.wire.at(2, raises(ValueError(f"{{'user_id': '{USER}', 'customer_id': '{CUSTOMER}'}}")))
    world.lines()

    with pytest.raises(Unexpected) as raised:
        world.run(step, request)

    said = str(raised.value) + json.dumps(world.lines())
    assert "ValueError at wire.py" in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__ or raised.value.__context__ is None
    assert not any(secret in said.replace(request, "") for secret in SECRETS)


@pytest.mark.invariant("I8")
@pytest.mark.parametrize("step", STEPS)
def test_neither_log_nor_answer_holds_personal_data(world: World, step: str) -> None:
    world.sign_up()
    request = world.claimed()
    world.lines()

    answer = world.run(step, request)

    said = (json.dumps(answer) + json.dumps(world.lines())).replace(request, "")
    assert not any(secret in said for secret in SECRETS)
    assert "step done" in said


@pytest.mark.parametrize("step", STEPS)
def test_a_step_without_a_permission_says_which_operation_and_is_not_done(world: World, step: str) -> None:
    world.sign_up()
    request = world.claimed()
    first = {
        "SuspendIdentity": "AdminDisableUser",
        "DeleteRecords": "Query",
        "DeleteFiles": "ListObjectVersions",
        "DeleteIdentity": "AdminDeleteUser",
    }[step]
    world.wire.before(first, refused("AccessDeniedException", status=403))

    with pytest.raises(AccessDenied) as raised:
        world.run(step, request)

    assert str(raised.value) == f"{first} answered AccessDeniedException"
    assert world.record(request)["steps"][step]["status"] == "RUNNING"


@pytest.mark.parametrize("step", STEPS)
def test_a_conflict_on_begin_is_retried_and_not_read_as_lost(world: World, step: str) -> None:
    world.sign_up()
    request = world.claimed()
    world.wire.before("UpdateItem", refused("TransactionConflictException"), times=2)

    assert world.run(step, request)["done"]


@pytest.mark.parametrize("step", ERASING)
def test_the_verification_lists_what_is_left_and_writes_nothing(world: World, step: str) -> None:
    world.sign_up()
    request = world.claimed()
    record, data = world.record(request), world.data()

    answer = world.run(step, event={"deletion_request_id": request, "owner": OTHER, "step": step, "verify": True})

    assert answer == {"remaining": COUNTS[step]}
    assert (world.record(request), world.data()) == (record, data)
    world.run(step, request)
    listed = world.run(step, event={"deletion_request_id": request, "owner": OWNER, "step": step, "verify": True})
    assert listed == {"remaining": {}}


def test_the_steps_together_delete_everything(world: World) -> None:
    world.sign_up()
    request = world.claimed()

    for step in STEPS:
        world.run_until_done(step, request)

    counts = {store: number for step in STEPS for store, number in world.deleted(request, step).items()}
    assert counts == EVERYTHING
    assert world.data() == {"orders": [], "visits": [], "photos": [], "uploads": [], "identity": None}
    assert clock.now() == world.now
