"""The sweeper: whatever is due is looked after, the oldest first, and no record holds up another."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from botocore.exceptions import ReadTimeoutError

from handlers.core import aws
from handlers.core.request_table import RequestTable
from handlers.core.states import Status
from handlers.operations import hold_person
from handlers.sweep import ANSWER, LEFT, LOOKERS, RESERVE, WORKERS
from statemachine import deletion
from statemachine.frame import SWEEP
from statemachine.functions import function_specs
from tests import emf
from tests.wire import Crash, answered, raises, refused
from tests.world import OWNER, TABLE, Context, World

WORKFLOW = deletion.workflow(identity=True)
FURTHER = "Query, of a further page"
TIMEOUT = next(spec.timeout for spec in function_specs(WORKFLOW) if spec.role == SWEEP).total_seconds()


@dataclass
class Run:
    """Lambda's context in a world where time passes only while a call hangs, and in pauses."""

    left: float
    """Seconds until Lambda kills the run."""

    def get_remaining_time_in_millis(self) -> int:
        """As Lambda says it."""
        return int(self.left * 1000)

    def hang(self) -> BaseException:
        """A try whose answer never comes."""
        self.left -= aws.CONNECT_SECONDS + aws.READ_SECONDS
        return ReadTimeoutError(endpoint_url="https://silent")

    def sleep(self, seconds: float) -> None:
        """A pause."""
        self.left -= seconds


def start_names(world: World) -> list[str]:
    return [str(call.params["name"]) for call in world.wire.of("StartExecution")]


def due(world: World, user: str, customer: str, *, ago: int = 60, **attributes: object) -> str:
    """A request that was due some seconds ago."""
    request = world.accept(user, customer)
    world.change(request, due_at=world.now - ago, **attributes)
    return request


@pytest.mark.invariant("I4")
def test_a_request_whose_schedule_was_lost_is_started_once(world: World) -> None:
    request = due(world, "ann", "1001")

    answers = [world.run("Sweep", event={}) for _ in range(2)]

    assert answers == [{"dispatched": 1}, {}]
    assert start_names(world) == [f"{request}-1"]


def test_what_is_not_due_is_left_alone(world: World) -> None:
    request = world.accept(grace_days=10)
    before = world.record(request)
    assert world.run("Sweep", event={}) == {}
    assert world.record(request) == before


@pytest.mark.invariant("I4")
def test_an_expired_lease_of_a_dead_owner_is_recovered(world: World) -> None:
    world.sign_up()
    request = world.claimed()
    world.change(request, due_at=world.now - 1)
    world.wire.before("DescribeExecution", answered(status="ABORTED"))

    assert world.run("Sweep", event={}) == {"recovered": 1}

    assert world.record(request)["status"] == "RETRYABLE"
    assert start_names(world) == [f"{request}-2"]


@pytest.mark.invariant("I5")
def test_an_execution_that_still_runs_past_its_lease_keeps_its_request(world: World) -> None:
    world.sign_up()
    request = world.claimed(owner=OWNER)
    world.change(request, due_at=world.now - 1)
    before = world.record(request)
    world.wire.before("DescribeExecution", answered(status="RUNNING"))

    answers = [world.run("Sweep", event={}) for _ in range(2)]

    assert answers == [{"still running": 1}, {}]
    assert world.record(request) == {**before, "due_at": world.now + 300}


def test_more_owners_than_a_run_can_look_at_keep_no_start_waiting(world: World) -> None:
    running = [world.claimed(f"user-{number}", str(6000 + number)) for number in range(5)]
    for request in running:
        world.change(request, due_at=world.now - 600)
    waiting = due(world, "ann", "1001")
    world.more_environment = {"SWEEP_LIMIT": "3", "DESCRIBE_RATE": "1"}
    world.wire.before("DescribeExecution", answered(status="RUNNING"), times=5)
    two_looks = RESERVE.total_seconds() + 2

    answers = [world.run("Sweep", event={}, context=Run(two_looks)) for _ in range(3)]

    assert answers == [
        {"dispatched": 1, LEFT: 3, "still running": 2},
        {LEFT: 1, "still running": 2},
        {"still running": 1},
    ]
    assert start_names(world)[-1] == f"{waiting}-1"


def test_a_run_looks_at_owners_besides_as_many_starts_as_it_may_make(world: World) -> None:
    for number in range(3):
        world.change(world.claimed(f"user-{number}", str(6000 + number)), due_at=world.now - 600)
    for number in range(3):
        due(world, f"user-{number + 10}", str(7000 + number))
    world.more_environment = {"SWEEP_LIMIT": "2"}
    world.wire.before("DescribeExecution", answered(status="RUNNING"), times=3)

    answers = [world.run("Sweep", event={}) for _ in range(2)]

    assert answers == [{"dispatched": 2, "still running": 3}, {"dispatched": 1}]


def test_entries_that_cannot_be_read_any_more_cost_a_run_nothing_of_what_it_did(world: World) -> None:
    for ago in (600, 60):
        request = world.claimed(f"user-{ago}", str(6000 + ago))
        world.change(request, due_at=world.now - ago, due_shard=7)
    world.more_environment = {"SWEEP_LIMIT": "1"}
    world.wire.before("DescribeExecution", answered(status="RUNNING"))
    world.wire.before("Query", lambda _: None, times=16)
    world.wire.before("Query", refused("InternalServerError", status=500))

    answer = world.run("Sweep", event={})

    assert answer == {"still running": 1}
    assert [line["error"] for line in world.lines() if line["message"] == "not listed"] == ["StoreUnavailable"]


def test_a_hold_whose_end_has_come_is_released(world: World) -> None:
    request = due(world, "ann", "1001")
    world.change(request, status="HELD")

    assert world.run("Sweep", event={}) == {"released": 1}

    assert world.record(request)["status"] == Status.SCHEDULED


@pytest.mark.invariant("I2")
def test_a_hold_that_ends_while_its_person_is_held_goes_on_without_an_end(world: World) -> None:
    request = due(world, "ann", "1001")
    hold_person(RequestTable(TABLE), world.record(request)["subject"])
    world.change(request, due_at=world.now - 1)

    answers = [world.run("Sweep", event={}) for _ in range(2)]

    assert answers == [{"person held": 1}, {}]
    assert world.record(request)["status"] == Status.HELD
    assert "due_at" not in world.record(request)


def test_ten_poison_records_do_not_hold_up_a_healthy_one(world: World) -> None:
    poison = [due(world, f"user-{number}", str(2000 + number), ago=600) for number in range(10)]
    for request in poison:
        world.change(request, status="BROKEN")
    healthy = due(world, "ann", "1001")

    answer = world.run("Sweep", event={})

    assert answer == {"dispatched": 1, "not handled": 10}
    assert start_names(world) == [f"{healthy}-1"]
    assert {world.record(request)["due_at"] for request in poison} == {world.now + 900}


def test_a_run_takes_the_oldest_and_leaves_the_rest_to_the_next(world: World) -> None:
    requests = [due(world, f"user-{age}", str(3000 + age), ago=age) for age in (10, 40, 20, 50, 30)]
    oldest_first = [requests[3], requests[1], requests[4], requests[2], requests[0]]
    world.more_environment = {"SWEEP_LIMIT": "3"}

    first = world.run("Sweep", event={})
    started = set(start_names(world))

    assert first == {"dispatched": 3}
    assert started == {f"{request}-1" for request in oldest_first[:3]}
    assert world.run("Sweep", event={}) == {"dispatched": 2}


def test_a_page_that_is_not_the_last_is_followed(world: World) -> None:
    for number in range(5):
        request = due(world, f"user-{number}", str(4000 + number))
        world.change(request, due_shard=7)
    world.more_environment = {"SWEEP_LIMIT": "2"}

    assert [world.run("Sweep", event={}) for _ in range(3)] == [{"dispatched": 2}, {"dispatched": 2}, {"dispatched": 1}]


def test_a_run_that_is_short_of_time_leaves_the_rest(world: World) -> None:
    due(world, "ann", "1001")
    assert world.run("Sweep", event={}, context=Context(looks=0)) == {"left for the next run": 1}
    assert start_names(world) == []


def hangs(world: World, operation: str, run: Run) -> None:
    """A due request; its sweep comes to this call, and that hangs."""
    if operation in ("DescribeExecution", FURTHER):
        world.change(world.claimed(), due_at=world.now - 60, due_shard=7)
    else:
        due(world, "ann", "1001")
    if operation != FURTHER:
        world.wire.lose_answer(operation, run.hang, times=100)
        return
    # The shard's first page holds one entry, and the run asks for another page once it has read that one's record.
    due(world, "eve", "1002", ago=30, due_shard=7)
    world.more_environment = {"SWEEP_LIMIT": "1"}
    world.wire.before("GetItem", lambda _: world.wire.lose_answer("Query", run.hang, times=100))


def seen(text: str) -> Mapping[str, float]:
    """What the functions sent, by metric."""
    return {value.name: value.value for value in emf.sent(text.splitlines())}


@pytest.mark.parametrize("left", [RESERVE.total_seconds() + 1, 30, 45, TIMEOUT])
@pytest.mark.parametrize("operation", ["GetItem", "UpdateItem", "DescribeExecution", "StartExecution", FURTHER])
def test_a_run_ends_by_itself_and_says_what_is_due_whichever_call_hangs_whenever_it_begins(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], operation: str, left: float
) -> None:
    run = Run(left)
    hangs(world, operation, run)
    monkeypatch.setattr(time, "sleep", run.sleep)
    capsys.readouterr()

    answer = world.run("Sweep", event={}, context=run)

    assert sum(answer.values()) == 1
    assert left - run.left >= aws.CONNECT_SECONDS + aws.READ_SECONDS
    assert run.left >= ANSWER.total_seconds()
    sent = seen(capsys.readouterr().out)
    assert (sent["Overdue"], sent["OldestOverdue"]) == (1, 60)
    assert sent["NotHandled"] == answer.get("not handled", 0)


def test_whoever_waits_for_a_turn_at_the_lowest_rates_is_back_before_the_end() -> None:
    looks, starts = LOOKERS - 1, WORKERS + LOOKERS - 1
    assert looks + starts <= (RESERVE - ANSWER).total_seconds()


def test_what_is_due_is_said_even_if_the_run_dies(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    due(world, "ann", "1001")
    world.wire.before("StartExecution", raises(Crash()))
    capsys.readouterr()

    with pytest.raises(Crash):
        world.run("Sweep", event={})

    assert seen(capsys.readouterr().out) == {"Overdue": 1, "OldestOverdue": 60}


def test_a_start_for_which_there_is_no_time_is_no_failed_one_and_comes_due_again(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    request = due(world, "ann", "1001")
    run = Run(RESERVE.total_seconds())
    world.wire.lose_answer("UpdateItem", run.hang)
    capsys.readouterr()

    answer = world.run("Sweep", event={}, context=run)

    sent = seen(capsys.readouterr().out)
    assert answer == {LEFT: 1}
    assert (sent["NotHandled"], sent.get("StartFailed")) == (0, None)
    record = world.record(request)
    assert (record["status"], record["attempt"], record["due_at"]) == ("SCHEDULED", 1, world.now + 300)
    assert start_names(world) == []


def test_a_record_that_cannot_be_started_now_is_deferred_not_lost(world: World) -> None:
    request = due(world, "ann", "1001")
    world.wire.before("StartExecution", refused("AccessDeniedException"))

    assert world.run("Sweep", event={}) == {"not handled": 1}

    record = world.record(request)
    assert record["attempt"] == 1
    assert record["due_at"] > world.now


def test_calls_are_spread_evenly_by_the_configured_rate(world: World) -> None:
    for number in range(4):
        due(world, f"user-{number}", str(5000 + number))
    world.more_environment = {"START_RATE": "10"}

    world.run("Sweep", event={})

    paced = [seconds for seconds in world.sleeps if seconds > 0]
    assert len(paced) == 3
    assert max(paced) <= 0.3
    assert min(paced) > 0


def test_every_shard_is_asked_consistently_with_the_index(world: World) -> None:
    world.run("Sweep", event={})
    asked = world.wire.of("Query")
    assert sorted(call.params["ExpressionAttributeValues"][":shard"]["N"] for call in asked) == sorted(
        str(number) for number in range(16)
    )
    assert {call.params["TableName"] for call in asked} == {TABLE}
