"""What operators and applications ask for, through the deployed functions; and dead letters put through again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from handlers.core.request_table import request_key
from handlers.core.states import Status
from handlers.redrive import RedriveReport, redrive_queue
from local.demo_stores import Stores
from local.emulator import Emulator
from local.waiting import wait_until
from tests.emulator.stack import LIMIT, Stack, deploy_stack
from tests.emulator.test_deletion import NOTHING
from tests.emulator.test_recovery import schedules, stop_the_clock, sweep

pytestmark = pytest.mark.long

KEPT = 400 * 86_400


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """One for all tests of this file, where ended requests are kept for 400 days; its sweeper has no clock."""
    with Emulator.start(skip_waits=True) as emulator:
        stores = Stores(emulator)
        stores.make()
        deployed = deploy_stack(emulator, stores, keep_requests="400 days")
        stop_the_clock(deployed)
        yield deployed


def operate(stack: Stack, operation: str, **fields: object) -> Mapping[str, Any]:
    return stack.invoke("operate", {"operation": operation, **fields})


@pytest.mark.invariant("I2")
def test_whoever_is_held_before_asking_is_deleted_after_the_release_and_not_before(stack: Stack) -> None:
    user = stack.sign_up()
    before = stack.digest(user)

    held = operate(stack, "hold_person", user_id=user.user_id)
    accepted = stack.ask(user)
    swept = sweep(stack)
    untouched = stack.digest(user)
    released = operate(stack, "release_person", user_id=user.user_id)
    record = stack.ended(str(accepted["deletion_request_id"]))

    assert (held["status"], accepted["status"], swept) == (None, "HELD", {})
    assert untouched == before
    assert (released["status"], released["dispatched"]) == ("SCHEDULED", True)
    assert record.status is Status.COMPLETED, record
    assert record.attributes["expires_at"] == record.attributes["completed_at"] + KEPT
    assert stack.counts(user) == NOTHING


@pytest.mark.invariant("I2")
def test_the_application_s_cancel_takes_the_schedule_away_and_keeps_everything(stack: Stack) -> None:
    user = stack.sign_up()
    before = stack.digest(user)
    request = str(stack.ask(user, grace_days=10)["deletion_request_id"])
    assert request in schedules(stack)

    answers = [stack.invoke("cancel-request", {"deletion_request_id": request}) for _ in range(2)]

    assert answers == [{"deletion_request_id": request, "status": "CANCELLED"}] * 2
    assert request not in schedules(stack)
    assert stack.digest(user) == before


def test_an_operation_that_does_not_fit_is_refused_by_its_name(stack: Stack) -> None:
    user = stack.sign_up()
    request = str(stack.ask(user, grace_days=10)["deletion_request_id"])
    operate(stack, "hold_person", deletion_request_id=request)

    refused = operate(stack, "release", deletion_request_id=request)

    assert refused["errorType"] == "PersonHeld"
    assert request in refused["errorMessage"]
    assert user.user_id not in json.dumps(refused)


def test_the_table_lets_ended_requests_expire(stack: Stack) -> None:
    table = stack.done.outputs["request_table_name"]
    described = stack.client("dynamodb").describe_time_to_live(TableName=table)["TimeToLiveDescription"]

    assert described == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires_at"}


@pytest.mark.invariant("I4")
def test_a_dispatch_that_failed_for_good_is_found_in_its_queue_and_put_through_again(stack: Stack) -> None:
    user = stack.sign_up()
    request = str(stack.ask(user)["deletion_request_id"])
    table, sqs = stack.done.outputs["request_table_name"], stack.client("sqs")
    queue = str(stack.done.outputs["dead_letter_queue_urls"]["dispatch"])
    item = stack.item(request)
    # As long as the record is away, every dispatch of it fails.
    stack.client("dynamodb").delete_item(TableName=table, Key=request_key(request))
    stack.client("lambda").invoke(
        FunctionName=f"{stack.names.function('dispatch')}:live",
        InvocationType="Event",
        Payload=json.dumps({"deletion_request_id": request}).encode(),
    )
    wait_until(lambda: waiting(sqs, queue), lambda number: number == 1, limit=LIMIT)
    stack.client("dynamodb").put_item(TableName=table, Item=item)

    reports = [redrive(stack, queue) for _ in range(2)]
    record = stack.ended(request)

    assert reports == [RedriveReport(handled=1), RedriveReport(handled=0)]
    assert record.status is Status.COMPLETED, record
    assert waiting(sqs, queue) == 0
    assert stack.counts(user) == NOTHING


def waiting(sqs: Any, queue: str) -> int:
    names = ["ApproximateNumberOfMessages"]
    return int(sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"][names[0]])


def redrive(stack: Stack, queue: str) -> RedriveReport:
    return redrive_queue(
        stack.client("sqs"),
        queue,
        lambda request: stack.invoke("dispatch", {"deletion_request_id": request}),
        lambda event: stack.invoke("recover", event),
        rate=10,
        limit=10,
    )
