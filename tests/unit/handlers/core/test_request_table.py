"""The request table: what a refusal means is read from its reasons, and busy is never lost."""

from typing import Any

import pytest

from handlers.core.errors import AccessDenied, StoreUnavailable, Throttled
from handlers.core.request_table import ConditionFailed, ItemsChanged, RequestTable, TransactionRefused
from handlers.core.transitions import COMPLETE, GUARD_HOLD, GUARD_RELEASE, MARK_CANCELLED, PROGRESS
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
        ("ConditionalCheckFailed", "ConditionalCheckFailed"),
    ],
)
def test_a_failed_condition_is_lost_whatever_else_went_wrong(
    world: World, request_id: str, codes: tuple[str, ...]
) -> None:
    world.wire.before("TransactWriteItems", cancelled(*codes))

    with pytest.raises(ConditionFailed):
        RequestTable(TABLE).update_and_delete(PROGRESS, request_id, progress(world, request_id), deletes(1), step=STEP)


@pytest.mark.parametrize("other", ["None", "TransactionConflict", "ThrottlingError", "ValidationError"])
def test_conditions_of_deletes_that_fail_are_named_and_never_a_lost_fence(
    world: World, request_id: str, other: str
) -> None:
    codes = (other, "None", "ConditionalCheckFailed", other, "ConditionalCheckFailed")
    world.wire.before("TransactWriteItems", cancelled(*codes))
    before = world.record(request_id)

    with pytest.raises(ItemsChanged) as raised:
        RequestTable(TABLE).update_and_delete(PROGRESS, request_id, progress(world, request_id), deletes(4), step=STEP)

    assert raised.value.places == {1, 3}
    assert world.record(request_id) == before


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
        (cancelled("None", "ItemCollectionSizeLimitExceeded"), TransactionRefused),
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
    values = {"me": OWNER, "now": world.now, "id": request_id, "receipt": "r", "expires_at": None}
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
    values = {"now": 1, "id": request_id, "expires_at": 1}

    with pytest.raises(KeyError, match="me"):
        RequestTable(TABLE).update_with_guard(MARK_CANCELLED, request_id, "k1_x", values)


# -- a guard by itself


def test_a_guard_is_written_alone_and_comes_back(world: World) -> None:
    values = {"now": 7, "fence": 0, "fence_after": 1}

    assert RequestTable(TABLE).update_guard(GUARD_HOLD, "k1_x", values) == world.guard("k1_x")

    assert world.guard("k1_x") == {"pk": "USER#k1_x", "held_at": 7, "fence": 1}


def test_a_guard_that_refuses_comes_back_as_it_was(world: World) -> None:
    with pytest.raises(ConditionFailed) as failed:
        RequestTable(TABLE).update_guard(GUARD_RELEASE, "k1_x", {"fence": 0, "fence_after": 1})
    assert failed.value.guard == {}

    RequestTable(TABLE).update_guard(GUARD_HOLD, "k1_x", {"now": 7, "fence": 0, "fence_after": 1})
    with pytest.raises(ConditionFailed) as failed:
        RequestTable(TABLE).update_guard(GUARD_RELEASE, "k1_x", {"fence": 9, "fence_after": 10})
    assert failed.value.guard == world.guard("k1_x")


@pytest.mark.parametrize(
    ("act", "error"),
    [(refused("ThrottlingException"), Throttled), (refused("AccessDeniedException", status=403), AccessDenied)],
)
def test_a_guard_that_cannot_be_written_is_not_taken_for_one_that_refuses(
    world: World, act: Any, error: type[Exception]
) -> None:
    world.wire.before("UpdateItem", act)

    with pytest.raises(error):
        RequestTable(TABLE).update_guard(GUARD_HOLD, "k1_x", {"now": 7, "fence": 0, "fence_after": 1})

    assert world.guard("k1_x") == {}
    world.wire.before("UpdateItem", refused("TransactionConflictException"), times=3)
    RequestTable(TABLE).update_guard(GUARD_HOLD, "k1_x", {"now": 7, "fence": 0, "fence_after": 1})
