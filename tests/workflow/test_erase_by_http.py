"""The HTTP erasure step within whole executions: a service that needs days uses up neither attempts nor functions.

The graph runs in sfnx, the stores are moto's, and the service is a real server on this machine; nothing of it runs on
the emulator, as the default list has no such step.
"""

import json
from collections.abc import Iterator

import pytest

from tests.erasure_machine import ROLE, STEP, Erasure, deployed
from tests.erasure_service import PATH, Service, serving
from tests.happy_path import HAPPY_PATH
from tests.world import CUSTOMER, USER, World

pytestmark = pytest.mark.long

DAY = 86_400
PLACE = "/jobs/7"


@pytest.fixture
def service() -> Iterator[Service]:
    with serving() as service:
        yield service


@pytest.fixture
def erasure(world: World, service: Service) -> Erasure:
    world.sign_up()
    return deployed(world, service)


def test_a_service_that_answers_at_once_is_one_more_step_of_the_happy_path(erasure: Erasure) -> None:
    request = erasure.machine.dispatched()

    execution = erasure.machine.execute(request)

    assert set(execution.states) - set(HAPPY_PATH) == {STEP, f"Is{STEP}Done", "CheckStores"} - set(HAPPY_PATH)
    assert execution.states[-1] == "Deleted"
    assert erasure.service.asked() == [f"GET {PATH}", f"POST {PATH}", f"GET {PATH}"]
    assert erasure.step(request)["deleted"] == {"erasure": 1}


def test_short_waits_of_the_service_pass_within_the_execution(erasure: Erasure) -> None:
    request = erasure.machine.dispatched()
    erasure.service.say(200)
    erasure.service.say(202, Location=PLACE)
    erasure.service.say(202, Retry_After="7")
    begun = erasure.world.now

    execution = erasure.machine.execute(request)

    assert execution.states[-1] == "Deleted"
    assert erasure.world.now - begun == 5 + 7
    assert erasure.service.asked()[1:] == [f"POST {PATH}", f"GET {PLACE}", f"GET {PLACE}", f"GET {PATH}"]


@pytest.mark.invariant("I4", "I7")
def test_a_service_that_needs_thirteen_days_uses_up_no_failure(erasure: Erasure) -> None:
    machine, world = erasure.machine, erasure.world
    erasure.service.otherwise = (202, {"Location": PLACE, "Retry-After": str(14 * DAY)})
    erasure.service.say(200)
    request = machine.dispatched()
    begun = world.now
    machine.execute(request)
    for _ in range(12):
        assert world.record(request)["status"] == "RETRYABLE"
        machine.retry(request)
    erasure.service.otherwise = (204, {})

    execution = machine.retry(request)

    record = world.record(request)
    invocations = [
        event
        for role, event in machine.invocations
        if role == ROLE and event.keys() == {"deletion_request_id", "owner", "step"}
    ]
    assert execution.states[-1] == "Deleted"
    assert (record["status"], record["failures"]) == ("COMPLETED", 0)
    assert world.now - begun == 13 * DAY
    assert len(invocations) == 14
    assert len(erasure.service.keys()) == 1


@pytest.mark.invariant("I4", "I7")
def test_a_service_that_is_not_done_within_the_step_s_patience_fails_the_request(erasure: Erasure) -> None:
    machine, world = erasure.machine, erasure.world
    erasure.service.otherwise = (202, {"Location": PLACE, "Retry-After": str(DAY)})
    request = machine.dispatched()
    begun = world.now
    machine.execute(request)
    for _ in range(14):
        if world.record(request)["status"] == "RETRYABLE":
            machine.retry(request)

    record = world.record(request)
    assert record["status"] == "FAILED"
    assert (record["last_error"]["step"], record["last_error"]["error"]) == (STEP, "PatienceSpent")
    assert world.now - begun == 14 * DAY
    assert world.pool_user() is not None


def test_a_service_that_is_busy_for_hours_uses_up_no_failure(erasure: Erasure) -> None:
    erasure.service.say(200)
    erasure.service.say(503, Retry_After="7200")
    request = erasure.machine.dispatched()
    erasure.machine.execute(request)

    execution = erasure.machine.retry(request)

    assert execution.states[-1] == "Deleted"
    assert erasure.world.record(request)["failures"] == 0


def test_an_endpoint_that_is_not_there_fails_the_request_before_anything_is_deleted(erasure: Erasure) -> None:
    erasure.service.otherwise = (404, {})
    before = erasure.world.data()
    request = erasure.machine.dispatched()

    execution = erasure.machine.execute(request)

    record = erasure.world.record(request)
    assert execution.states[-1] == "DeletionFailed"
    assert (record["status"], record["last_error"]["error"]) == ("FAILED", "StoreUnfit")
    assert erasure.world.data() == before
    assert erasure.service.asked() == [f"GET {PATH}"]


@pytest.mark.invariant("I3")
def test_a_request_is_not_complete_while_the_service_says_that_the_erasure_is_under_way(erasure: Erasure) -> None:
    for status in (200, 200, 202):
        erasure.service.say(status)
    request = erasure.machine.dispatched()

    execution = erasure.machine.execute(request)

    assert execution.states[-1] == "Deleted"
    assert execution.states.count(STEP) == 2
    assert erasure.service.asked() == [f"GET {PATH}", f"POST {PATH}", f"GET {PATH}", f"POST {PATH}", f"GET {PATH}"]
    assert len(erasure.service.keys()) == 1


@pytest.mark.invariant("I8")
def test_no_name_secret_or_address_is_in_the_history_or_left_in_the_record(erasure: Erasure) -> None:
    erasure.service.say(200)
    erasure.service.say(202, Location=PLACE)
    request = erasure.machine.dispatched()

    execution = erasure.machine.execute(request)

    said = json.dumps([(call.state, call.arguments) for call in execution.calls]) + json.dumps(execution.output)
    said += json.dumps(erasure.machine.invocations) + json.dumps(erasure.world.record(request))
    for secret in (USER, CUSTOMER, PLACE, PATH, "token-of"):
        assert secret not in said.replace(request, "")
