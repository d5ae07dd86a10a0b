"""The sweeper: whatever is due is looked after, the oldest first, and no record holds up another."""

import pytest

from handlers.core.request_table import RequestTable
from handlers.core.states import Status
from handlers.operations import hold_person
from tests.wire import answered, refused
from tests.world import OWNER, TABLE, Context, World


def start_names(world: World) -> list[str]:
    return [str(call.params["name"]) for call in world.wire.of("StartExecution")]


def due(world: World, user: str, customer: str, *, ago: int = 60) -> str:
    """A request that was due some seconds ago."""
    request = world.accept(user, customer)
    world.change(request, due_at=world.now - ago)
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


def test_owners_that_still_run_hold_up_no_start_and_are_passed_by_in_the_next_run(world: World) -> None:
    running = [world.claimed(f"user-{number}", str(6000 + number)) for number in range(3)]
    for request in running:
        world.change(request, due_at=world.now - 600)
    waiting = due(world, "ann", "1001")
    world.more_environment = {"SWEEP_LIMIT": "3"}
    world.wire.before("DescribeExecution", answered(status="RUNNING"), times=3)

    answers = [world.run("Sweep", event={}) for _ in range(2)]

    assert answers == [{"still running": 3}, {"dispatched": 1}]
    assert start_names(world)[-1] == f"{waiting}-1"


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
