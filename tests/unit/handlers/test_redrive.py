"""Dead letters: each of the known bodies is understood, handled once, and deleted only after that."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from handlers.core import aws
from handlers.core.errors import Throttled
from handlers.redrive import (
    Due,
    Parsed,
    RedriveReport,
    StatusEvent,
    StillFails,
    SweepRun,
    Unparsable,
    discard,
    letters,
    parse,
    redrive_queue,
)
from tests.wire import answered, refused
from tests.world import ACCOUNT, REGION, World

pytestmark = pytest.mark.exhaustive

REQUEST = "del_01JB2C3D4E5F6G7H8J9K0MNPQR"
BARE = {"deletion_request_id": REQUEST}
SCHEDULE_ARN = f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule/acme-prod-deletions/{REQUEST}"
STATUS_EVENT = {
    "version": "0",
    "id": "315c1398-40ff-a850-213b-158f73e60175",
    "detail-type": "Step Functions Execution Status Change",
    "source": "aws.states",
    "account": ACCOUNT,
    "time": "2026-02-26T19:42:21Z",
    "region": REGION,
    "resources": [f"arn:aws:states:{REGION}:{ACCOUNT}:execution:deletion:{REQUEST}-1"],
    "detail": {
        "executionArn": f"arn:aws:states:{REGION}:{ACCOUNT}:execution:deletion:{REQUEST}-1",
        "stateMachineArn": f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:deletion",
        "name": f"{REQUEST}-1",
        "status": "FAILED",
    },
}
"""https://docs.aws.amazon.com/step-functions/latest/dg/eventbridge-integration.html"""
SCHEDULED_EVENT = {
    "version": "0",
    "id": "37666ae6-48cf-4285-b4c6-a3320b38824a",
    "detail-type": "Scheduled Event",
    "source": "aws.scheduler",
    "account": ACCOUNT,
    "time": "2026-06-13T12:30:00Z",
    "region": REGION,
    "resources": [f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule/acme-prod-deletions/acme-prod-sweeper"],
    "detail": "{}",
}


def envelope(event: object) -> dict[str, object]:
    """https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-retain-records.html"""
    return {
        "version": "1.0",
        "timestamp": "2026-11-14T18:16:05.568Z",
        "requestContext": {
            "requestId": "e4b46cbf-b738-xmpl-8880-a18cdf61200e",
            "functionArn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:acme-prod-dispatch:live",
            "condition": "RetriesExhausted",
            "approximateInvokeCount": 3,
        },
        "requestPayload": event,
        "responseContext": {"statusCode": 200, "executedVersion": "7", "functionError": "Unhandled"},
        "responsePayload": {"errorMessage": "StartExecution answered AccessDenied", "errorType": "AccessDenied"},
    }


OF_FUNCTION = {"ErrorCode": "200", "ErrorMessage": "StartExecution answered AccessDenied", "RequestID": "e4b46cbf"}
OF_RULE = {"RULE_ARN": "arn:rule", "TARGET_ARN": "arn:target", "ERROR_CODE": "THROTTLING", "RETRY_ATTEMPTS": "10"}
OF_SCHEDULE = {"SCHEDULE_ARN": SCHEDULE_ARN, "TARGET_ARN": "arn:target", "ERROR_CODE": "AWS.Lambda.ResourceNotFound"}
NO_OBJECT = Unparsable(reason="not readable: no JSON object")
UNKNOWN = Unparsable(reason="not readable: neither an event of ours nor of the services that we know")
SHAPES: list[tuple[str, Mapping[str, str], Parsed]] = [
    (json.dumps(BARE), OF_FUNCTION, Due(deletion_request_id=REQUEST)),
    (json.dumps(STATUS_EVENT), OF_FUNCTION, StatusEvent(event=STATUS_EVENT)),
    (json.dumps(SCHEDULED_EVENT), OF_FUNCTION, SweepRun()),
    (json.dumps(envelope(BARE)), {}, Due(deletion_request_id=REQUEST)),
    (json.dumps(envelope(STATUS_EVENT)), {}, StatusEvent(event=STATUS_EVENT)),
    (json.dumps(envelope(SCHEDULED_EVENT)), {}, SweepRun()),
    (json.dumps(STATUS_EVENT), OF_RULE, StatusEvent(event=STATUS_EVENT)),
    (json.dumps(BARE), OF_SCHEDULE, Due(deletion_request_id=REQUEST)),
    ("{cut", OF_SCHEDULE, Due(deletion_request_id=REQUEST)),
    (json.dumps({"FunctionName": "x", "Payload": json.dumps(BARE)}), OF_SCHEDULE, Due(deletion_request_id=REQUEST)),
    ("", {}, NO_OBJECT),
    ("{cut", {}, NO_OBJECT),
    ("[1]", {}, NO_OBJECT),
    ('"del_"', {}, NO_OBJECT),
    (json.dumps(envelope(None)), {}, NO_OBJECT),
    (json.dumps(envelope("text")), {}, NO_OBJECT),
    ("{}", {}, UNKNOWN),
    (json.dumps({"deletion_request_id": "ann"}), {}, UNKNOWN),
    (json.dumps({"deletion_request_id": 7}), {}, UNKNOWN),
    (json.dumps({"source": "aws.states", "detail": "FAILED"}), {}, UNKNOWN),
    (json.dumps({"source": "aws.s3", "detail": {}}), {}, UNKNOWN),
    ("{}", {"SCHEDULE_ARN": SCHEDULE_ARN[:-1]}, UNKNOWN),
]


@pytest.mark.parametrize(("body", "attributes", "parsed"), SHAPES)
def test_each_shape_of_a_dead_letter_is_known_and_no_other_is_guessed(
    body: str, attributes: Mapping[str, str], parsed: Parsed
) -> None:
    assert parse(body, attributes) == parsed


# -- the queue


class Queue:
    """A dead-letter queue and what became of its messages."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sqs = world.client("sqs")
        self.url = str(self.sqs.create_queue(QueueName="dispatch-dlq")["QueueUrl"])
        self.dispatched: list[str] = []
        self.recovered: list[Mapping[str, Any]] = []
        self.fails: BaseException | None = None

    def put(self, body: object, attributes: Mapping[str, str] | None = None) -> None:
        named = {
            name: {"DataType": "String", "StringValue": value} for name, value in (attributes or OF_FUNCTION).items()
        }
        text = body if isinstance(body, str) else json.dumps(body)
        self.sqs.send_message(QueueUrl=self.url, MessageBody=text, MessageAttributes=named)

    def redrive(self, *, rate: int = 100, limit: int = 100, dry_run: bool = False) -> RedriveReport:
        return redrive_queue(
            aws.client("sqs"), self.url, self.dispatch, self.recover, rate=rate, limit=limit, dry_run=dry_run
        )

    def dispatch(self, request: str) -> None:
        if self.fails:
            raise self.fails
        self.dispatched.append(request)

    def recover(self, event: Mapping[str, Any]) -> None:
        self.recovered.append(event)

    def visible(self) -> int:
        names = ["ApproximateNumberOfMessages"]
        answer = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)
        return int(answer["Attributes"][names[0]])


@pytest.fixture
def queue(world: World) -> Queue:
    return Queue(world)


def ids(number: int) -> list[str]:
    return [f"del_{index:026d}" for index in range(number)]


def test_a_queue_of_all_shapes_is_handled_and_emptied(queue: Queue) -> None:
    queue.put(BARE)
    queue.put(envelope(BARE))
    queue.put(BARE, OF_SCHEDULE)
    queue.put(STATUS_EVENT, OF_RULE)
    queue.put(SCHEDULED_EVENT)

    assert queue.redrive() == RedriveReport(handled=5)

    assert queue.dispatched == [REQUEST] * 3
    assert queue.recovered == [STATUS_EVENT]
    assert queue.visible() == 0


def test_what_cannot_be_read_stays_visible_and_is_reported(queue: Queue) -> None:
    queue.put("{cut")
    queue.put({"deletion_request_id": "ann"})
    queue.put(BARE)

    report = queue.redrive()

    assert report == RedriveReport(handled=1, left={NO_OBJECT.reason: 1, UNKNOWN.reason: 1})
    assert queue.visible() == 2


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Throttled("StartExecution", "ThrottlingException"), "failed again: Throttled"),
        (StillFails("AccessDenied"), "failed again: AccessDenied"),
    ],
)
def test_what_fails_again_stays_in_the_queue(queue: Queue, error: BaseException, reason: str) -> None:
    queue.put(BARE)
    queue.fails = error

    assert queue.redrive() == RedriveReport(handled=0, left={reason: 1})

    assert queue.visible() == 1


def test_a_redrive_that_is_cut_off_loses_nothing(queue: Queue) -> None:
    """Neither the message at hand nor one that was looked at before, and both are to be seen at once."""
    queue.put("{cut")
    queue.put(BARE)
    queue.fails = KeyboardInterrupt()

    with pytest.raises(KeyboardInterrupt):
        queue.redrive()

    assert queue.visible() == 2


def test_a_message_that_is_visible_again_already_fails_nothing(queue: Queue) -> None:
    queue.put("{cut")
    queue.world.wire.before("ChangeMessageVisibility", refused("AWS.SimpleQueueService.MessageNotInflight"))

    assert queue.redrive() == RedriveReport(handled=0, left={NO_OBJECT.reason: 1})


def test_a_message_that_could_not_be_deleted_is_handled_again(queue: Queue) -> None:
    queue.put(BARE)
    queue.world.wire.before("DeleteMessage", refused("AccessDenied", status=403))
    with pytest.raises(Exception, match="DeleteMessage answered AccessDenied"):
        queue.redrive()
    assert queue.dispatched == [REQUEST]

    assert queue.visible() == 1
    assert queue.redrive() == RedriveReport(handled=1)


def test_a_look_at_a_queue_leaves_every_message_visible_even_if_it_is_cut_off(queue: Queue) -> None:
    queue.put(BARE)
    queue.put(STATUS_EVENT, OF_RULE)
    queue.put("{cut", OF_SCHEDULE)
    queue.put({"source": "aws.states", "detail": {"name": "ann-1"}})

    found = letters(aws.client("sqs"), queue.url, limit=100)
    seen = queue.visible()
    queue.world.wire.before("ReceiveMessage", answered(Messages=[{"MessageId": "1", "ReceiptHandle": "2"}]))
    with pytest.raises(KeyError):
        letters(aws.client("sqs"), queue.url, limit=100)

    assert Counter(one.deletion_request_id for one in found) == {REQUEST: 3, None: 1}
    assert {one.error_code for one in found} == {"200", "THROTTLING", "AWS.Lambda.ResourceNotFound"}
    assert [one for one in found if not one.sent_at > 1_700_000_000] == []
    assert (seen, queue.visible()) == (4, 4)


@pytest.mark.parametrize("known", [True, False])
def test_one_message_is_discarded_and_the_others_are_visible_at_once(queue: Queue, *, known: bool) -> None:
    for _ in range(12):
        queue.put(BARE)
    ids_before = {one.message_id for one in letters(aws.client("sqs"), queue.url, limit=100)}
    gone = max(ids_before) if known else "059f36b4-87a3-44ab-83d2-661975830a7d"

    assert discard(aws.client("sqs"), queue.url, gone) is known

    ids_after = {one.message_id for one in letters(aws.client("sqs"), queue.url, limit=100)}
    assert (ids_after, queue.visible()) == (ids_before - {gone}, len(ids_before - {gone}))
    assert queue.dispatched == []


def test_a_dry_run_says_what_would_be_done_and_leaves_everything(queue: Queue) -> None:
    queue.put(BARE)
    queue.put(STATUS_EVENT, OF_RULE)
    queue.put("{cut")

    report = queue.redrive(dry_run=True)

    assert report == RedriveReport(handled=2, left={NO_OBJECT.reason: 1})
    assert (queue.dispatched, queue.recovered) == ([], [])
    assert queue.visible() == 3


def test_more_messages_than_one_call_returns_are_each_handled_once(queue: Queue) -> None:
    for request in ids(25):
        queue.put({"deletion_request_id": request})

    assert queue.redrive() == RedriveReport(handled=25)

    assert sorted(queue.dispatched) == ids(25)


def test_no_more_are_looked_at_than_the_limit_says(queue: Queue) -> None:
    for request in ids(14):
        queue.put({"deletion_request_id": request})

    assert queue.redrive(limit=12) == RedriveReport(handled=12)

    assert queue.visible() == 2


def test_messages_are_handled_at_the_rate_that_was_asked_for(queue: Queue) -> None:
    for request in ids(4):
        queue.put({"deletion_request_id": request})
    queue.world.sleeps.clear()

    queue.redrive(rate=2)

    paced = [seconds for seconds in queue.world.sleeps if seconds > 0.1]
    assert len(paced) == 3
    assert max(paced) <= 1.5


def test_a_dead_letter_of_a_finished_request_does_nothing_and_is_deleted(queue: Queue) -> None:
    world = queue.world
    request = world.accept()
    world.change(request, status="COMPLETED", due_at=None)
    before = world.record(request)
    queue.put({"deletion_request_id": request})

    report = redrive_queue(
        aws.client("sqs"),
        queue.url,
        lambda one: world.run("Dispatch", event={"deletion_request_id": one}),
        queue.recover,
        rate=100,
        limit=10,
    )

    assert report == RedriveReport(handled=1)
    assert world.record(request) == before
    assert queue.visible() == 0
