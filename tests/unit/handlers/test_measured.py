"""What each condition sends as metrics: exactly that, once. Every metric of the table has a condition here."""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from handlers.core import metrics
from handlers.core.errors import DeletionError, RetentionLocked
from handlers.core.frame import step_handler
from handlers.core.metrics import Metric
from handlers.core.states import VERIFY_STEP
from infra.queries import QUERIES
from tests import emf
from tests.wire import Crash, answered, raises, refused
from tests.world import OTHER, OWNER, STEPS, Context, World

pytestmark = pytest.mark.exhaustive

RECORDS, FILES = "DeleteRecords", "DeleteFiles"
LAST_ERROR = {"step": FILES, "error": "AccessDenied", "at": 1_000_000}
DAY = 86_400

Value = tuple[Metric, float] | tuple[Metric, float, str]
"""A metric, its value and, if it has that dimension, its step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A condition: what is so before, what happens, what is sent."""

    before: Callable[[World], Any]
    """Answers what `act` needs to know of it."""
    act: Callable[[World, Any], object]
    """A declared error that leaves it is no matter here."""
    sent: tuple[Value, ...]
    """In any order."""


def signed_up(world: World) -> str:
    world.sign_up()
    return ""


def claimed(world: World) -> str:
    world.sign_up()
    return world.claimed()


def due(world: World) -> str:
    world.sign_up()
    return world.accept()


def named_after_request(world: World) -> str:
    """A claimed request whose owner is an execution called <id>-1."""
    request = claimed(world)
    world.change(request, owner=f"{OWNER}:{request}-1")
    return request


def changed(before: Callable[[World], str], **attributes: object) -> Callable[[World], str]:
    def change(world: World) -> str:
        request = before(world)
        world.change(request, **attributes)
        return request

    return change


def dispatch(world: World, request: str) -> None:
    world.run("Dispatch", event={"deletion_request_id": request})


def dispatched(world: World) -> str:
    request = due(world)
    dispatch(world, request)
    return request


def ended(status: str) -> Callable[[World, str], None]:
    """The event of the request's first execution, of which Step Functions says that."""

    def act(world: World, request: str) -> None:
        world.wire.before("DescribeExecution", answered(status=status))
        name = f"{request}-1"
        world.run("Recover", event={"detail": {"executionArn": f"{OWNER}:{name}", "name": name}})

    return act


def done(*steps: str) -> Callable[[World], str]:
    def run(world: World) -> str:
        request = claimed(world)
        for step in steps:
            world.run_until_done(step, request)
        return request

    return run


def verified(world: World) -> str:
    request = done(*STEPS)(world)
    world.wire.before("Invoke", world.lambdas, times=3)
    world.run(VERIFY_STEP, request)
    return request


def completable(world: World) -> str:
    request = verified(world)
    world.change(request, grace_ends_at=world.now - 100)
    return request


def verify(world: World, request: str) -> None:
    world.wire.before("Invoke", world.lambdas, times=3)
    world.run(VERIFY_STEP, request)


def with_leftovers(world: World) -> str:
    request = done(*STEPS)(world)
    world.put_order("ann", "late")
    return request


def killed_once(world: World) -> str:
    """An invocation of the first erasing step died before its first batch."""
    request = claimed(world)
    world.wire.before("TransactWriteItems", raises(Crash()))
    with suppress(Crash):
        world.run(RECORDS, request)
    world.now += 100
    return request


def run_locked_step(world: World, request: str) -> None:
    """A step of the frame that finds a lock."""

    @step_handler(RetentionLocked)
    def locked(checkpoint: Any) -> Any:
        raise RetentionLocked(request, FILES, 2)

    with world.environment(FILES):
        locked({"deletion_request_id": request, "owner": OWNER, "step": FILES}, Context())


def sweep(world: World, _: object) -> None:
    world.run("Sweep", event={})


def stuck(world: World) -> str:
    request = claimed(world)
    world.change(request, due_at=world.now - 30)
    world.wire.before("DescribeExecution", answered(status="RUNNING"))
    return request


def seen(*, overdue: int, oldest: int, is_stuck: int = 0, not_handled: int = 0) -> tuple[Value, ...]:
    """What a run of the sweeper always sends."""
    return (
        (metrics.OVERDUE, overdue),
        (metrics.OLDEST_OVERDUE, oldest),
        (metrics.STUCK_PROCESSING, is_stuck),
        (metrics.NOT_HANDLED, not_handled),
    )


def no_schedule(world: World) -> str:
    world.sign_up()
    world.wire.before("CreateSchedule", refused("AccessDeniedException"))
    return ""


def held_person(world: World) -> str:
    world.sign_up()
    request = world.accept()
    operate("hold_person")(world, request)
    world.run("Operate", event={"operation": "cancel", "deletion_request_id": request})
    return request


def operate(operation: str) -> Callable[[World, str], None]:
    def act(world: World, request: str) -> None:
        world.run("Operate", event={"operation": operation, "deletion_request_id": request})

    return act


def cannot_be_started(world: World) -> str:
    world.wire.before("StartExecution", refused("AccessDeniedException"))
    return due(world)


def hold_without_end(world: World) -> str:
    """Of a person, while the request's own hold ends now."""
    request = due(world)
    operate("hold_person")(world, request)
    world.change(request, due_at=world.now)
    return request


CASES: dict[str, Case] = {
    "a new request": Case(before=signed_up, act=lambda world, _: world.accept(), sent=((metrics.ACCEPTED, 1),)),
    "the same request again": Case(
        before=due, act=lambda world, _: world.accept(), sent=((metrics.DUPLICATES_IGNORED, 1),)
    ),
    "a user whom the pool does not know": Case(
        before=lambda world: "",
        act=lambda world, _: world.accept(),
        sent=((metrics.ACCEPTED, 1), (metrics.IDENTITY_NOT_FOUND, 1)),
    ),
    "a schedule that cannot be made": Case(
        before=no_schedule,
        act=lambda world, _: world.accept(grace_days=10),
        sent=((metrics.ACCEPTED, 1), (metrics.SCHEDULE_NOT_CREATED, 1)),
    ),
    "a first attempt": Case(before=due, act=dispatch, sent=()),
    "a due event that comes twice": Case(before=dispatched, act=dispatch, sent=((metrics.DUPLICATES_IGNORED, 1),)),
    "an execution that cannot be started": Case(
        before=cannot_be_started, act=dispatch, sent=((metrics.START_FAILED, 1),)
    ),
    "another attempt": Case(
        before=changed(due, status="RETRYABLE", attempt=1, claimed=1), act=dispatch, sent=((metrics.RETRIED, 1),)
    ),
    "dispatches that are spent": Case(before=changed(due, attempt=3), act=dispatch, sent=((metrics.FAILED, 1),)),
    "an execution that the graph ended as FAILED": Case(
        before=changed(named_after_request, status="FAILED", owner=None, last_error=LAST_ERROR),
        act=ended("FAILED"),
        sent=((metrics.FAILED, 1),),
    ),
    "the late event of an attempt before the one that failed": Case(
        before=changed(named_after_request, status="FAILED", owner=None, claimed=2), act=ended("FAILED"), sent=()
    ),
    "an execution that ended without a word": Case(
        before=named_after_request, act=ended("ABORTED"), sent=((metrics.RECOVERED, 1), (metrics.RETRIED, 1))
    ),
    "an execution that ended without a word after another failure": Case(
        before=changed(named_after_request, failures=1), act=ended("ABORTED"), sent=((metrics.RECOVERED, 1),)
    ),
    "an end of which Step Functions does not know": Case(
        before=named_after_request, act=ended("RUNNING"), sent=((metrics.STILL_RUNNING, 1),)
    ),
    "a step that is done at once": Case(
        before=claimed,
        act=lambda world, request: world.run(RECORDS, request),
        sent=(
            (metrics.STEP_DURATION, 0, RECORDS),
            (metrics.STEP_RETRIES, 0, RECORDS),
            (metrics.ITEMS_DELETED, 5, RECORDS),
        ),
    ),
    "a step that was killed once": Case(
        before=killed_once,
        act=lambda world, request: world.run(RECORDS, request),
        sent=(
            (metrics.STEP_DURATION, 100, RECORDS),
            (metrics.STEP_RETRIES, 1, RECORDS),
            (metrics.ITEMS_DELETED, 5, RECORDS),
        ),
    ),
    "a step that was done before": Case(
        before=done(RECORDS), act=lambda world, request: world.run(RECORDS, request), sent=()
    ),
    "data that must be kept": Case(before=claimed, act=run_locked_step, sent=((metrics.HELD, 1),)),
    "a hold by an operator": Case(before=due, act=operate("hold"), sent=((metrics.HELD_BY_OPERATOR, 1),)),
    "a hold of a person with an open request": Case(
        before=claimed, act=operate("hold_person"), sent=((metrics.HELD_BY_OPERATOR, 1),)
    ),
    "a hold of a person whose request is held already": Case(
        before=changed(due, status="HELD", due_at=None), act=operate("hold_person"), sent=()
    ),
    "a hold of a person whose request is FAILED": Case(
        before=changed(due, status="FAILED"), act=operate("hold_person"), sent=()
    ),
    "a new request of a person who is held": Case(
        before=held_person,
        act=lambda world, _: world.accept(),
        sent=((metrics.ACCEPTED, 1), (metrics.HELD_BY_OPERATOR, 1)),
    ),
    "a worker of another execution": Case(
        before=claimed,
        act=lambda world, request: world.run(RECORDS, request, owner=OTHER),
        sent=((metrics.FENCED_OUT, 1),),
    ),
    "a verification that finds something": Case(
        before=with_leftovers, act=verify, sent=((metrics.LEFTOVERS_FOUND, 1, RECORDS),)
    ),
    "a request that is completed 100 s after its grace period": Case(
        before=completable,
        act=lambda world, request: world.run("CompleteDeletion", request),
        sent=((metrics.COMPLETED, 1), (metrics.COMPLETED_AFTER, 100)),
    ),
    "a request that is cancelled": Case(
        before=changed(claimed, cancel_requested=True),
        act=lambda world, request: world.run("CancelDeletion", request),
        sent=((metrics.CANCELLED, 1),),
    ),
    "a sweep with nothing to do": Case(before=signed_up, act=sweep, sent=seen(overdue=0, oldest=0)),
    "a sweep past a lease whose execution still runs": Case(
        before=stuck, act=sweep, sent=seen(overdue=1, oldest=30, is_stuck=1)
    ),
    "a sweep that cannot handle a record": Case(
        before=lambda world: world.change(due(world), due_at=world.now - 60, status="BROKEN"),
        act=sweep,
        sent=seen(overdue=1, oldest=60, not_handled=1),
    ),
    "a sweep past the end of a hold of a person who is held": Case(
        before=hold_without_end, act=sweep, sent=seen(overdue=1, oldest=0)
    ),
    "a sweep that finds a request in danger": Case(
        before=lambda world: world.change(due(world), erase_by=world.now + DAY - 1),
        act=sweep,
        sent=(*seen(overdue=1, oldest=0), (metrics.WILL_MISS_ERASE_BY, 1)),
    ),
    "a sweep that finds a request with just enough time": Case(
        before=lambda world: world.change(due(world), erase_by=world.now + DAY),
        act=sweep,
        sent=seen(overdue=1, oldest=0),
    ),
}


@pytest.mark.parametrize("condition", CASES)
def test_a_condition_sends_its_metrics_and_no_others(
    world: World, condition: str, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES[condition]
    known = case.before(world)
    capsys.readouterr()

    with suppress(DeletionError):
        case.act(world, known)

    found = emf.sent(capsys.readouterr().out.splitlines())
    expected = [(one[0].name, one[0].unit, one[1], {"step": one[2]} if len(one) == 3 else {}) for one in case.sent]
    assert sorted((one.name, one.unit, one.value, one.dimensions) for one in found) == sorted(expected, key=str)


ELSEWHERE = {metrics.SCHEDULE_NOT_DELETED: "tests/unit/handlers/test_schedules.py"}
"""Metrics whose condition has its test beside its module."""


def test_every_metric_has_a_condition() -> None:
    covered = {value[0] for case in CASES.values() for value in case.sent}

    assert covered | set(ELSEWHERE) == set(metrics.ALL)
    assert covered & set(ELSEWHERE) == set()


def a_person_is_needed(line: dict[str, Any]) -> bool:
    """Whether the saved query shows this line: its filter is an alternative of comparisons with texts."""
    (query,) = (one.text for one in QUERIES if one.role == "requests-that-need-a-person")
    alternatives = query.split("|", maxsplit=1)[0].removeprefix("filter ").split(" or ")
    compared = [re.fullmatch(r'(\w+) (?:=|in) \[?("[^\]]*")\]?', one.strip()) for one in alternatives]
    assert all(compared)
    return any(line.get(one[1]) in re.findall(r'"([^"]*)"', one[2]) for one in compared if one)


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        ("dispatches that are spent", {("dispatches exhausted", None)}),
        ("an execution that the graph ended as FAILED", {("request failed", "AccessDenied")}),
        ("data that must be kept", {("failed", "RetentionLocked")}),
        ("a hold by an operator", {("hold", None)}),
        ("a hold of a person with an open request", {("hold_person", None)}),
        ("a new request of a person who is held", {("accepted", None)}),
        ("a schedule that cannot be made", {("not scheduled", None)}),
        ("a sweep past a lease whose execution still runs", {("still running", None)}),
        ("a sweep that finds a request in danger", {("will miss erase_by", None)}),
        ("an execution that ended without a word", set()),
        ("a request that is completed 100 s after its grace period", set()),
        ("the late event of an attempt before the one that failed", set()),
    ],
)
def test_the_saved_query_shows_each_request_that_waits_for_a_person_and_no_other(
    world: World, condition: str, shown: set[tuple[str, str | None]]
) -> None:
    case = CASES[condition]
    known = case.before(world)
    world.lines()

    with suppress(DeletionError):
        case.act(world, known)

    found = [line for line in world.lines() if a_person_is_needed(line)]
    assert {(line["message"], line.get("error")) for line in found} == shown
    assert [line for line in found if "deletion_request_id" not in line] == []


def test_a_failure_is_found_by_its_request_and_no_foreign_id_is_logged(world: World) -> None:
    request = claimed(world)
    world.lines()

    for named in (request, "user-a1b2"):
        with suppress(DeletionError):
            world.run(RECORDS, named, owner=OTHER)

    ours, foreign = [line for line in world.lines() if line["message"] == "failed"]
    assert (ours["deletion_request_id"], ours["error"]) == (request, "OwnershipLost")
    assert (foreign.get("deletion_request_id"), foreign["error"]) == (None, "InvalidEvent")
