"""What DeleteRecords finds wrong with its stores before anything is deleted: the store, the fault and the mend."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from handlers.core.errors import StoreUnavailable, Throttled
from handlers.core.person import Person
from handlers.core.stores import RecordStore, to_json
from handlers.steps import delete_records
from tests.wire import Call, answered, refused
from tests.world import CUSTOMER, RECORD_STORES, USER, World

pytestmark = pytest.mark.exhaustive

PERSON = Person(user_id=USER, identifiers={"customer_id": CUSTOMER})
ORDERS, VISITS = RECORD_STORES
MESSAGES = RecordStore(
    name="messages",
    table="messages",
    partition_key="room",
    sort_key="at",
    sort_type="N",
    index="by-author",
    index_key="author",
    index_value="{user_id}",
)


@pytest.fixture
def messages(world: World) -> None:
    """The table of MESSAGES with one item of the user."""
    world.make_table("messages", room="S", at="N", index={"by-author": ("author", "S")})
    item = {"room": {"S": "a"}, "at": {"N": "1"}, "author": {"S": USER}}
    world.dynamodb.put_item(TableName="messages", Item=item)


def problems(world: World, *stores: RecordStore, person: Person = PERSON) -> list[str]:
    world.more_environment = {"RECORD_STORES": to_json(stores)}
    with world.environment("DeleteRecords"):
        return list(delete_records.preflight(person))


def described(world: World, table: str, change: Callable[[dict[str, Any]], None]) -> None:
    """DescribeTable answers with the table as it is, but for one change."""

    def answer(_: Call) -> Any:
        found = world.dynamodb.describe_table(TableName=table)["Table"]
        change(found)
        return answered(Table=found)(_)

    world.wire.answers["DescribeTable"] = answer


@pytest.mark.usefixtures("messages")
def test_stores_that_are_as_configured_have_no_problem_and_nothing_is_written(world: World) -> None:
    world.sign_up()
    data = world.data()

    assert problems(world, ORDERS, VISITS, MESSAGES) == []

    assert world.data() == data
    assert set(world.wire.operations()) == {"DescribeTable", "Query", "BatchGetItem"}
    assert [call.params["Limit"] for call in world.wire.of("Query")] == [1, 1, 1]


WRONG: Mapping[str, tuple[RecordStore, str]] = {
    "no table": (
        replace(ORDERS, table="nowhere"),
        "store orders: table nowhere does not exist in this account and Region; correct table",
    ),
    "another partition key": (
        replace(ORDERS, partition_key="user"),
        "store orders: partition_key is user (S), the table has pk (S); correct partition_key or its type",
    ),
    "another type": (
        replace(ORDERS, partition_type="B"),
        "store orders: partition_key is pk (B), the table has pk (S); correct partition_key or its type",
    ),
    "another sort key": (
        replace(ORDERS, sort_key="at"),
        "store orders: sort_key is at (S), the table has sk (S); correct sort_key or its type",
    ),
    "a sort key of another type": (
        replace(VISITS, sort_type="S"),
        "store visits: sort_key is at (S), the table has at (N); correct sort_key or its type",
    ),
    "a sort key that nobody named": (
        replace(ORDERS, sort_key=None),
        "store orders: the table has the sort key sk (S); name it in sort_key and sort_type",
    ),
    "no index": (
        replace(MESSAGES, index="by-reader"),
        "store messages: the table has no global secondary index by-reader; correct index",
    ),
    "another index key": (
        replace(MESSAGES, index_key="reader", index_type="N"),
        "store messages: index_key is reader (N), index by-author has author (S); correct index_key or index_type",
    ),
}


@pytest.mark.usefixtures("messages")
@pytest.mark.parametrize(("store", "problem"), WRONG.values(), ids=WRONG)
def test_a_store_that_is_not_as_configured_is_named_with_the_mend(
    world: World, store: RecordStore, problem: str
) -> None:
    assert problems(world, store) == [problem]
    assert world.wire.operations() == ["DescribeTable"]


def test_every_problem_is_named_at_once(world: World) -> None:
    found = problems(world, replace(ORDERS, partition_key="a", sort_key="b"), replace(VISITS, table="nowhere"))

    assert [text.split(";")[0] for text in found] == [
        "store orders: partition_key is a (S), the table has pk (S)",
        "store orders: sort_key is b (S), the table has sk (S)",
        "store visits: table nowhere does not exist in this account and Region",
    ]


def index_is(**fields: object) -> Callable[[dict[str, Any]], None]:
    return lambda table: table["GlobalSecondaryIndexes"][0].update(fields)


def table_is(**fields: object) -> Callable[[dict[str, Any]], None]:
    return lambda table: table.update(fields)


@pytest.mark.usefixtures("messages")
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        *(
            (table_is(TableStatus=status), f"the table is {status}; redrive the request when it is ACTIVE")
            for status in ("CREATING", "DELETING", "ARCHIVED", "INACCESSIBLE_ENCRYPTION_CREDENTIALS")
        ),
        (
            table_is(MultiRegionConsistency="STRONG"),
            "the table is a global one with strong consistency, which takes no transactions; delete from it in a step "
            "of your own",
        ),
        *(
            (index_is(IndexStatus=status), f"index by-author is {status}; redrive the request when it is ACTIVE")
            for status in ("CREATING", "DELETING")
        ),
        (
            index_is(
                KeySchema=[
                    {"AttributeName": "author", "KeyType": "HASH"},
                    {"AttributeName": "room", "KeyType": "HASH"},
                ]
            ),
            "index_key is author (S), index by-author has author (S) and room (S); correct index_key or index_type",
        ),
    ],
)
def test_a_table_or_index_that_cannot_be_used_is_named_with_the_mend(
    world: World, change: Callable[[dict[str, Any]], None], problem: str
) -> None:
    described(world, "messages", change)

    assert problems(world, MESSAGES) == [f"store messages: {problem}"]


@pytest.mark.usefixtures("messages")
@pytest.mark.parametrize(
    "change",
    [
        table_is(TableStatus="UPDATING"),
        table_is(MultiRegionConsistency="EVENTUAL", Replicas=[{"RegionName": "eu-central-1"}]),
        index_is(IndexStatus="UPDATING"),
    ],
)
def test_a_table_that_is_being_changed_or_replicated_is_no_problem(
    world: World, change: Callable[[dict[str, Any]], None]
) -> None:
    described(world, "messages", change)

    assert problems(world, MESSAGES) == []


@pytest.mark.usefixtures("messages")
@pytest.mark.parametrize(
    ("operation", "store", "problem"),
    [
        ("DescribeTable", ORDERS, "store orders: dynamodb:DescribeTable is denied; allow it to the step's role"),
        ("Query", ORDERS, "store orders: dynamodb:Query on the table is denied; allow it to the step's role"),
        (
            "Query",
            MESSAGES,
            "store messages: dynamodb:Query on index by-author is denied; allow it to the step's role",
        ),
        (
            "BatchGetItem",
            MESSAGES,
            "store messages: dynamodb:BatchGetItem on the table is denied; allow it to the step's role",
        ),
    ],
)
def test_a_missing_permission_is_named(world: World, operation: str, store: RecordStore, problem: str) -> None:
    world.wire.before(operation, refused("AccessDeniedException", status=400))

    assert problems(world, store) == [problem]


def test_a_listing_that_the_table_refuses_is_a_problem(world: World) -> None:
    world.wire.before("Query", refused("ValidationException"))

    assert problems(world, ORDERS) == [
        "store orders: Query answered ValidationException; compare the store's settings with the table"
    ]


def test_a_user_whose_name_is_no_number_is_a_problem_without_the_name(world: World) -> None:
    (found,) = problems(world, VISITS, person=Person(user_id=USER, identifiers={"customer_id": "01001"}))

    assert found == "store visits: the user's value is no whole number; give it as the table holds it"


@pytest.mark.parametrize("operation", ["DescribeTable", "Query"])
@pytest.mark.parametrize(
    ("code", "status", "error"),
    [("ThrottlingException", 400, Throttled), ("InternalServerError", 500, StoreUnavailable)],
)
def test_an_answer_that_is_still_open_is_no_problem_of_the_store(
    world: World, operation: str, code: str, status: int, error: type[Exception]
) -> None:
    world.wire.before(operation, refused(code, status=status), times=3)

    with pytest.raises(error):
        problems(world, ORDERS)
