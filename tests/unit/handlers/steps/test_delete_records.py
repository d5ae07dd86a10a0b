"""DeleteRecords in particular: fenced transactions whose size adapts."""

import contextlib
from typing import Any

import pytest

from handlers.core.errors import OwnershipLost, StoreMissing, StoreRefused, Superseded
from handlers.core.stores import RecordStore, to_json
from handlers.steps._records import PAGE
from tests.wire import Call, Crash, cancelled, refused
from tests.world import OTHER, TABLE, USER, Context, World

pytestmark = pytest.mark.long

STEP = "DeleteRecords"
VISITS = ("customer", "at")


@pytest.fixture
def request_id(world: World) -> str:
    """A claimed request of a user with 250 orders."""
    world.dynamodb_bulk("orders", [{"pk": f"USER#{USER}", "sk": f"{number:04}"} for number in range(250)])
    world.make_user()
    return world.claimed()


def sizes(world: World) -> list[int]:
    """Deletes of each transaction so far."""
    return [len(call.params["TransactItems"]) - 1 for call in world.wire.of("TransactWriteItems")][1:]


def test_each_transaction_holds_the_fence_and_at_most_99_deletes(world: World, request_id: str) -> None:
    world.run(STEP, request_id)

    assert sizes(world) == [99, 99, 52]
    for call in world.wire.of("TransactWriteItems")[1:]:
        update, *deletes = call.params["TransactItems"]
        assert update["Update"]["TableName"] == TABLE
        assert update["Update"]["ConditionExpression"] == (
            "#fence = :fence AND #seq = :seq_before AND #steps.#step.#status = :RUNNING"
        )
        assert update["Update"]["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD"
        for delete in deletes:
            assert set(delete["Delete"]["Key"]) == {"pk", "sk"}
            assert {**delete["Delete"], "Key": None} == {
                "TableName": "orders",
                "Key": None,
                "ConditionExpression": "attribute_exists(#pk)",
                "ExpressionAttributeNames": {"#pk": "pk"},
            }
    assert world.items("orders") == []
    assert world.deleted(request_id, STEP) == {"orders": 250}


def test_every_listing_is_consistent_and_asks_for_keys_alone(world: World, request_id: str) -> None:
    world.run(STEP, request_id)

    for call in world.wire.of("Query"):
        names = call.params["ExpressionAttributeNames"]
        assert call.params["ConsistentRead"] is True
        assert [names[name] for name in call.params["ProjectionExpression"].split(", ")] in (["pk", "sk"], [*VISITS])
        assert call.params["Limit"] == PAGE


def test_a_store_is_empty_when_a_fresh_listing_says_so(world: World, request_id: str) -> None:
    def write_one_more(_: Call) -> None:
        world.put_order(USER, "9999")

    world.wire.before("TransactWriteItems", write_one_more)

    world.run(STEP, request_id)

    assert world.items("orders") == []
    assert world.deleted(request_id, STEP) == {"orders": 251}


@pytest.mark.parametrize(
    "act",
    [
        cancelled("None", "TransactionConflict"),
        cancelled("TransactionConflict", "None"),
        cancelled("None", "ThrottlingError"),
        cancelled("ProvisionedThroughputExceeded", "None"),
        refused("TransactionInProgressException"),
        refused("ThrottlingException"),
        refused("ProvisionedThroughputExceededException"),
        cancelled("None", "ItemCollectionSizeLimitExceeded"),
    ],
)
def test_a_transaction_that_a_busy_table_refuses_is_halved_and_grows_back(
    world: World, request_id: str, act: Any
) -> None:
    world.wire.before("TransactWriteItems", act, times=2)

    answer = world.run(STEP, request_id)

    assert answer["done"]
    assert sizes(world) == [99, 49, 24, 48, 96, 82]
    assert world.items("orders") == []
    assert world.deleted(request_id, STEP) == {"orders": 250}


@pytest.mark.parametrize("act", [refused("ValidationException"), cancelled("None", "ValidationError")])
def test_a_transaction_that_is_too_large_is_halved_at_once_and_its_size_kept_for_a_while(
    world: World, request_id: str, act: Any
) -> None:
    world.wire.before("TransactWriteItems", act, times=3)

    answer = world.run(STEP, request_id)

    assert answer["done"]
    assert sizes(world) == [99, 49, 24, *[12] * 9, 24, 48, 70]
    assert world.sleeps == []
    assert world.deleted(request_id, STEP) == {"orders": 250}


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (refused("ValidationException"), StoreRefused, "TransactWriteItems answered ValidationException"),
        (cancelled("None", "ValidationError"), StoreRefused, "TransactWriteItems answered ValidationError"),
        (refused("ResourceNotFoundException"), StoreMissing, "TransactWriteItems answered ResourceNotFoundException"),
    ],
)
def test_a_single_delete_that_is_invalid_ends_the_invocation(
    world: World, request_id: str, act: Any, error: type[Exception], message: str
) -> None:
    world.wire.before("TransactWriteItems", act, times=30)

    with pytest.raises(error) as raised:
        world.run(STEP, request_id)

    assert str(raised.value) == message
    assert len(world.items("orders")) == 250
    assert world.record(request_id)["steps"][STEP]["status"] == "RUNNING"
    world.wire._before.clear()  # noqa: SLF001
    world.run_until_done(STEP, request_id)
    assert world.deleted(request_id, STEP) == {"orders": 250}


BUSY = [
    ("TransactWriteItems", cancelled("None", "TransactionConflict")),
    ("TransactWriteItems", cancelled("None", "ProvisionedThroughputExceeded")),
    ("TransactWriteItems", refused("ThrottlingException")),
    ("Query", refused("ProvisionedThroughputExceededException")),
]


@pytest.mark.parametrize(("operation", "act"), BUSY)
def test_a_table_that_stays_busy_costs_time_and_no_failure(
    world: World, request_id: str, operation: str, act: Any
) -> None:
    world.wire.before(operation, act, times=25)

    answer = world.run(STEP, request_id)

    assert answer["done"]
    assert len(world.sleeps) == 25
    assert max(world.sleeps) <= 6.4
    assert world.sleeps != sorted(world.sleeps)
    assert world.deleted(request_id, STEP) == {"orders": 250}


@pytest.mark.parametrize(("operation", "act"), BUSY)
def test_a_table_that_is_busy_until_time_is_short_is_asked_again_by_the_next_invocation(
    world: World, request_id: str, operation: str, act: Any
) -> None:
    world.wire.before(operation, act, times=25)

    answer = world.run(STEP, request_id, context=Context(looks=20))

    assert answer == {"done": False, "wait": 0}
    assert len(world.items("orders")) == 250
    world.run_until_done(STEP, request_id)
    assert world.deleted(request_id, STEP) == {"orders": 250}


def test_an_item_that_went_by_itself_is_left_out_and_not_counted(world: World, request_id: str) -> None:
    def expire_two(_: Call) -> None:
        for order in ("0003", "0098"):
            world.dynamodb.delete_item(TableName="orders", Key={"pk": {"S": f"USER#{USER}"}, "sk": {"S": order}})

    world.wire.before("TransactWriteItems", expire_two)

    world.run(STEP, request_id)

    assert sizes(world) == [99, 99, 99, 50]
    assert world.items("orders") == []
    assert world.deleted(request_id, STEP) == {"orders": 248}


@pytest.mark.parametrize("busy", ["TransactionConflict", "ThrottlingError", "ValidationError"])
def test_a_changed_item_is_never_a_lost_fence_whatever_else_went_wrong(
    world: World, request_id: str, busy: str
) -> None:
    world.wire.before("TransactWriteItems", cancelled(busy, "ConditionalCheckFailed", "None", "ConditionalCheckFailed"))

    answer = world.run(STEP, request_id)

    assert answer["done"]
    # The two are found once more by the next listing.
    assert sizes(world) == [99, 99, 99, 50, 2]
    assert world.deleted(request_id, STEP) == {"orders": 250}


def test_a_transaction_that_went_through_although_its_answer_was_a_throttle_counts_once(
    world: World, request_id: str
) -> None:
    # The SDK's first try is carried out and its answer lost; its last try is throttled. A smaller batch under the same
    # seq must not be taken for the one that went through.
    def carry_out_and_throttle(call: Call) -> Any:
        world.dynamodb.transact_write_items(**call.params)
        return refused("ThrottlingException")(call)

    world.wire.before("TransactWriteItems", carry_out_and_throttle)

    with pytest.raises(Superseded):
        world.run(STEP, request_id)

    assert len(world.items("orders")) == 151
    world.run_until_done(STEP, request_id)
    assert world.deleted(request_id, STEP) == {"orders": 250}


@pytest.mark.invariant("I5")
def test_a_lost_fence_is_told_from_a_busy_item_by_the_first_reason(world: World, request_id: str) -> None:
    def another_takes_over(_: Call) -> None:
        world.change(request_id, owner=OTHER, fence=99)

    world.wire.before("TransactWriteItems", another_takes_over)

    with pytest.raises(OwnershipLost):
        world.run(STEP, request_id)

    assert len(world.items("orders")) == 250


@pytest.mark.invariant("I2")
def test_a_hold_stops_a_running_worker_before_its_next_batch(world: World, request_id: str) -> None:
    def hold(_: Call) -> None:
        record = world.record(request_id)
        world.change(request_id, status="HELD", owner=None, fence=record["fence"] + 1)

    def then_hold(_: Call) -> None:
        world.wire.before("TransactWriteItems", hold)

    world.wire.before("TransactWriteItems", then_hold)

    with pytest.raises(OwnershipLost):
        world.run(STEP, request_id)

    assert len(world.items("orders")) == 151
    assert world.deleted(request_id, STEP) == {"orders": 99}


@pytest.mark.parametrize("looks", range(8))
def test_wherever_time_runs_short_the_counts_stay_exact(world: World, request_id: str, looks: int) -> None:
    answer = world.run(STEP, request_id, context=Context(looks=looks))

    # Two listings of orders, three transactions, one listing of visits.
    assert answer["done"] is (looks > 5)
    assert world.deleted(request_id, STEP).get("orders", 0) == 250 - len(world.items("orders"))
    world.run_until_done(STEP, request_id)
    assert world.deleted(request_id, STEP) == {"orders": 250}


def test_a_crash_after_the_deletes_loses_no_count(world: World, request_id: str) -> None:
    world.wire.crash_after("TransactWriteItems")
    with contextlib.suppress(Crash):
        world.run(STEP, request_id)
    assert world.deleted(request_id, STEP) == {"orders": 99}

    world.run_until_done(STEP, request_id)

    assert world.deleted(request_id, STEP) == {"orders": 250}


def test_one_partition_is_never_taken_for_another_that_begins_alike(world: World) -> None:
    kept = [
        {"pk": "USER#ann", "sk": "invoice#1"},
        {"pk": "USER#anna", "sk": "order#1"},
        {"pk": "USER#an", "sk": "order#1"},
        {"pk": "USER#ann", "sk": "order"},
    ]
    world.dynamodb_bulk("orders", [*kept, {"pk": "USER#ann", "sk": "order#1"}, {"pk": "USER#ann", "sk": "order#2"}])
    store = RecordStore(
        name="orders",
        table="arn:aws:dynamodb:eu-west-1:123456789012:table/orders",
        partition_key="pk",
        partition="USER#{user_id}",
        sort_key="sk",
        sort_prefix="order#",
    )
    world.more_environment = {"RECORD_STORES": to_json([store])}
    world.make_user()
    request = world.claimed()

    world.run(STEP, request)

    assert sorted(world.items("orders"), key=str) == sorted(kept, key=str)
    assert world.deleted(request, STEP) == {"orders": 2}


@pytest.mark.parametrize(("kind", "value"), [("S", "1001"), ("N", "1001"), ("B", b"1001")])
def test_a_partition_key_may_be_text_number_or_bytes(world: World, kind: str, value: Any) -> None:
    world.make_table("typed", key=kind)
    item = {kind: value}
    world.dynamodb.put_item(TableName="typed", Item={"key": item})
    store = RecordStore(
        name="typed", table="typed", partition_key="key", partition="{customer_id}", partition_type=kind
    )
    world.more_environment = {"RECORD_STORES": to_json([store])}
    world.make_user()
    request = world.claimed()

    world.run(STEP, request)

    assert world.dynamodb.scan(TableName="typed")["Items"] == []
    assert world.deleted(request, STEP) == {"typed": 1}


def test_what_is_left_is_counted_over_all_pages(world: World) -> None:
    world.dynamodb_bulk("orders", [{"pk": f"USER#{USER}", "sk": f"{number:04}"} for number in range(1200)])
    world.make_user()
    request = world.claimed()

    event = {"deletion_request_id": request, "owner": OTHER, "step": STEP, "verify": True}
    assert world.run(STEP, event=event) == {"remaining": {"orders": 1200}}
