"""AWS errors become ours: every code that an operation of ours can answer is named."""

import ast
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Semaphore
from types import SimpleNamespace
from typing import Any

import botocore.session
import pytest
from botocore import xform_name
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError
from botocore.retries.standard import ExponentialBackoff, RetryContext

from handlers.core import aws
from handlers.core.errors import AccessDenied, AwsFailure, StoreMissing, StoreRefused, StoreUnavailable, Throttled
from tests.world import World

HANDLERS = Path(aws.__file__).parents[1]
NAMED = {code for codes in vars(aws).values() if isinstance(codes, frozenset) for code in codes}


def words() -> set[str]:
    """What the handlers' source calls by attribute, and every text: operations are called by one or the other."""
    found = set()
    for path in HANDLERS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                found.add(node.func.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


def operations() -> Iterator[tuple[str, Any]]:
    """(service, operation's model) of all that the handlers call."""
    found, session = words(), botocore.session.get_session()
    services = found & set(session.get_available_services())
    for service in sorted(services):
        model = session.get_service_model(service)
        for name in model.operation_names:
            if xform_name(name) in found - {"verify"}:
                yield service, model.operation_model(name)


CALLED = [pytest.param(model, id=f"{service} {model.name}") for service, model in operations()]


def test_the_operations_that_are_called_were_found() -> None:
    assert {parameter.id for parameter in CALLED} >= {
        "cognito-idp AdminDeleteUser",
        "cognito-idp AdminDisableUser",
        "cognito-idp AdminEnableUser",
        "cognito-idp AdminGetUser",
        "cognito-idp AdminUserGlobalSignOut",
        "cognito-idp ListUsers",
        "dynamodb BatchGetItem",
        "dynamodb DescribeTable",
        "dynamodb GetItem",
        "dynamodb Query",
        "dynamodb TransactWriteItems",
        "dynamodb UpdateItem",
        "kms GenerateMac",
        "lambda Invoke",
        "s3 AbortMultipartUpload",
        "s3 DeleteObject",
        "s3 DeleteObjects",
        "s3 GetObjectLockConfiguration",
        "s3 ListMultipartUploads",
        "s3 ListObjectVersions",
        "s3 ListParts",
        "scheduler CreateSchedule",
        "stepfunctions StartExecution",
    }


@pytest.mark.parametrize("model", CALLED)
def test_every_error_code_that_an_operation_declares_is_named(model: Any) -> None:
    codes = {shape.metadata.get("error", {}).get("code", shape.name) for shape in model.error_shapes}

    assert codes - NAMED == set()


def test_no_code_is_named_twice() -> None:
    sets = [codes for codes in vars(aws).values() if isinstance(codes, frozenset)]

    assert sum(map(len, sets)) == len(NAMED)


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("ProvisionedThroughputExceededException", 400, Throttled),
        ("SlowDown", 503, Throttled),
        ("TooManyRequestsException", 429, Throttled),
        ("TransactionConflictException", 400, StoreUnavailable),
        ("TransactionInProgressException", 400, StoreUnavailable),
        ("InternalError", 500, StoreUnavailable),
        ("AccessDenied", 403, AccessDenied),
        ("NoSuchBucket", 404, StoreMissing),
        ("ResourceNotFoundException", 400, StoreMissing),
        ("ValidationException", 400, StoreRefused),
        ("SomethingNew", 400, StoreRefused),
        ("SomethingNew", 503, StoreUnavailable),
    ],
)
def test_a_code_becomes_our_class_with_operation_and_code_and_nothing_else(
    code: str, status: int, error: type[AwsFailure]
) -> None:
    answer: Any = {
        "Error": {"Code": code, "Message": "user ann, key users/ann/1"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }

    with pytest.raises(AwsFailure) as raised, aws.our_errors("Operation"):
        raise ClientError(answer, "Operation")

    assert type(raised.value) is error
    assert str(raised.value) == f"Operation answered {code}"
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


@pytest.mark.parametrize(
    "foreign",
    [
        EndpointConnectionError(endpoint_url="https://bucket-of-ann"),
        ReadTimeoutError(endpoint_url="https://bucket-of-ann"),
    ],
)
def test_a_connection_that_fails_is_unavailable(foreign: Exception) -> None:
    with pytest.raises(StoreUnavailable) as raised, aws.our_errors("Query"):
        raise foreign

    assert str(raised.value) == f"Query answered {type(foreign).__name__}"


def test_clients_are_made_once_with_bounded_times_and_tries(world: World) -> None:
    client = aws.client("dynamodb")

    assert aws.client("dynamodb") is client
    config = client.meta.config
    assert (config.connect_timeout, config.read_timeout) == (2, 7)
    assert config.retries == {"mode": "standard", "total_max_attempts": 3}


def test_a_throttled_call_is_repeated_a_bounded_number_of_times(world: World) -> None:
    calls = []

    def conflict() -> None:
        calls.append(1)
        raise ClientError({"Error": {"Code": "TransactionConflictException"}}, "UpdateItem")

    with pytest.raises(ClientError):
        aws.through_conflicts(conflict, is_conflict=lambda _: True)

    assert len(calls) == 6
    assert len(world.sleeps) == 5
    assert all(0 <= sleep <= 0.05 * 2**number for number, sleep in enumerate(world.sleeps, 1))


def test_clients_that_several_threads_ask_for_at_once_are_made_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    making = Semaphore(1)

    def make(service: str, **_: object) -> str:
        assert making.acquire(blocking=False), "two clients are being made"
        # Whoever else wants to make one has the time to do so now.
        Event().wait(0.02)
        making.release()
        return service

    monkeypatch.setattr(aws, "session", lambda: SimpleNamespace(client=make))
    services = ["athena", "batch", "connect", "drs"]

    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(aws.client, services))

    assert made == services


def test_no_pause_between_two_tries_is_longer_than_the_longest(world: World) -> None:
    throttled: Any = SimpleNamespace(is_throttling_error_from_context=lambda _: True)
    asked_for_more: Any = SimpleNamespace(headers={"x-amz-retry-after": "3600000"})
    pauses = ExponentialBackoff(random=lambda: 1.0, throttling_detector=throttled)

    longest = [
        pauses.delay_amount(RetryContext(attempt_number=number, http_response=asked_for_more))
        for number in range(1, aws.TRIES)
    ]

    assert max(longest) == aws.LONGEST_PAUSE_SECONDS
    assert aws.client("dynamodb").meta.config.retries == {"mode": "standard", "total_max_attempts": aws.TRIES}


@pytest.mark.parametrize("tries", [0, 1, 2])
def test_no_try_is_sent_when_time_is_up(world: World, tries: int) -> None:
    left = [True] * tries
    world.wire.lose_answer("ListTables", times=aws.TRIES)

    with pytest.raises(aws.TimeIsUp), aws.our_errors("ListTables"), aws.only_while(lambda: bool(left and left.pop())):
        aws.client("dynamodb").list_tables()

    assert left == []
    assert len(world.sleeps) == tries


def test_time_that_is_up_in_one_thread_or_block_is_nothing_to_another(world: World) -> None:
    def call() -> object:
        return aws.client("dynamodb").list_tables()["TableNames"]

    with ThreadPoolExecutor(1) as threads, aws.only_while(lambda: False):
        elsewhere = threads.submit(call).result()

    assert elsewhere == call() != []


def test_the_session_of_a_process_obeys_too() -> None:
    client = aws.session().client(
        "dynamodb", region_name="eu-west-1", aws_access_key_id="testing", aws_secret_access_key="testing"
    )

    with pytest.raises(aws.TimeIsUp), aws.only_while(lambda: False):
        client.list_tables()
