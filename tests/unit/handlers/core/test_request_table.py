"""The request table: what a refusal means is read from its reasons, and busy is never lost."""

from typing import Any

import pytest

from handlers.core.errors import AccessDenied, StoreUnavailable, Throttled
from handlers.core.request_table import ConditionFailed, RequestTable, TransactionRefused
from handlers.core.transitions import COMPLETE, MARK_CANCELLED, PROGRESS
from tests.wire import cancelled, refused
from tests.world import OWNER, TABLE, World

STEP = "DeleteFiles"


@pytest.fixture
def request_id(world: World) -> str:
    request = world.claimed()
    world.change(request, steps__DeleteFiles__status="RUNNING")
    return request


def progress(world: World, request: str, **values: object) -> dict[str, object]:
    record = world.record(request)
    given = {"fence": record["fence"], "seq_before": record["seq"], "seq": record["seq"] + 1}
    return {**given, "due_at": world.now, "deleted": {}, "batch": {}, **values}


def deletes(number: int) -> list[dict[str, Any]]:
    return [
        {"TableName": "orders", "Key": {"pk": {"S": "USER#ann"}, "sk": {"S": str(index)}}} for index in range(number)
    ]


def test_a_record_is_read_consistently(world: World, request_id: str) -> None:
    record = RequestTable(TABLE).read(request_id)

    assert record is not None
    assert record.is_owned_by(OWNER)
    assert record.attributes == world.record(request_id)
    (call,) = world.wire.of("GetItem")[-1:]
    assert call.params["ConsistentRead"] is True
    assert RequestTable(TABLE).read("del_" + "0" * 26) is None


def test_a_guard_is_read_consistently(world: World, request_id: str) -> None:
    subject = world.record(request_id)["subject"]

    assert RequestTable(TABLE).read_guard(subject)["active_request"] == request_id
    assert RequestTable(TABLE).read_guard("k1_none") == {}
    assert world.wire.of("GetItem")[-1].params["ConsistentRead"] is True


@pytest.mark.parametrize(
    "codes",
    [
        ("ConditionalCheckFailed", "None"),
        ("ConditionalCheckFailed", "TransactionConflict"),
        ("ConditionalCheckFailed", "ThrottlingError"),
    ],
)
def test_a_failed_condition_is_lost_whatever_else_went_wrong(
    world: World, request_id: str, codes: tuple[str, ...]
) -> None:
    world.wire.before("TransactWriteItems", cancelled(*codes))

    with pytest.raises(ConditionFailed):
        RequestTable(TABLE).update_and_delete(PROGRESS, request_id, progress(world, request_id), deletes(1), step=STEP)


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (cancelled("TransactionConflict", "None"), TransactionRefused),
        (cancelled("None", "TransactionConflict"), TransactionRefused),
        (cancelled("None", "ThrottlingError"), TransactionRefused),
        (cancelled("ProvisionedThroughputExceeded", "None"), TransactionRefused),
        (refused("TransactionInProgressException"), TransactionRefused),
        (refused("ValidationException"), TransactionRefused),
        (refused("ThrottlingException"), Throttled),
        (refused("InternalServerError", status=500), StoreUnavailable),
        (refused("AccessDeniedException"), AccessDenied),
        (cancelled("None", "ItemCollectionSizeLimitExceeded"), StoreUnavailable),
    ],
)
def test_busy_throttled_and_denied_are_never_lost(
    world: World, request_id: str, act: Any, error: type[Exception]
) -> None:
    world.wire.before("TransactWriteItems", act)
    before = world.record(request_id)

    with pytest.raises(error):
        RequestTable(TABLE).update_and_delete(PROGRESS, request_id, progress(world, request_id), deletes(1), step=STEP)

    assert world.record(request_id) == before


def test_a_lost_condition_carries_the_record_that_refused_it(world: World, request_id: str) -> None:
    with pytest.raises(ConditionFailed) as failed:
        RequestTable(TABLE).update(PROGRESS, request_id, progress(world, request_id, fence=99), step=STEP)

    assert failed.value.record is not None
    assert failed.value.record.attributes == world.record(request_id)


def test_a_guard_that_refuses_is_told_from_a_record_that_refuses(world: World, request_id: str) -> None:
    record = world.record(request_id)
    values = {"me": OWNER, "now": world.now, "id": request_id, "receipt": "r"}
    with pytest.raises(ConditionFailed) as by_record:
        RequestTable(TABLE).update_with_guard(
            COMPLETE, request_id, record["subject"], {**values, "me": "other"}, each=()
        )
    assert by_record.value.guard is None

    with pytest.raises(ConditionFailed) as by_guard:
        RequestTable(TABLE).update_with_guard(COMPLETE, request_id, "k1_other", values, each=())

    assert by_guard.value.record is None
    assert by_guard.value.guard == {}


def test_a_transition_without_a_guard_is_no_transaction(world: World, request_id: str) -> None:
    with pytest.raises(TypeError, match="progress has no guard"):
        RequestTable(TABLE).update_with_guard(PROGRESS, request_id, "k1_x", {})


def test_a_missing_parameter_is_a_mistake_of_the_caller(world: World, request_id: str) -> None:
    with pytest.raises(KeyError, match="me"):
        RequestTable(TABLE).update_with_guard(MARK_CANCELLED, request_id, "k1_x", {"now": 1, "id": request_id})
