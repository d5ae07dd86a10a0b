"""DeleteRecords where an index finds the user's items. moto's indexes are never late, so `Index` makes them late."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from handlers.core.errors import AccessDenied, StoreUnfit
from handlers.core.person import Person
from handlers.core.record import from_item, to_value
from handlers.core.stores import RecordStore, to_json
from handlers.steps import delete_records
from handlers.steps._records import AHEAD, ahead
from local.waiting import wait_until
from tests.wire import Call, Crash, answered, connection_lost, refused
from tests.world import CUSTOMER, OTHER, USER, World

pytestmark = pytest.mark.exhaustive

STEP = "DeleteRecords"
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
Item = Mapping[str, Any]
PERSON = Person(user_id=USER, identifiers={"customer_id": CUSTOMER})


def message(number: int, author: str = USER) -> Item:
    return {"room": f"room{number % 2}", "at": number, "author": author, "text": "x"}


def put(world: World, *items: Item) -> None:
    for item in items:
        world.dynamodb.put_item(TableName="messages", Item={name: to_value(value) for name, value in item.items()})


def left(world: World) -> list[Item]:
    return sorted((from_item(item) for item in world.dynamodb.scan(TableName="messages")["Items"]), key=str)


class Index:
    """An index that shows what a test says, listing by listing, and afterwards the truth."""

    def __init__(self, world: World, *listings: Sequence[Item]) -> None:
        self.listings = [list(items) for items in listings]
        world.wire.answers["Query"] = self._answer

    def _answer(self, call: Call) -> Any:
        if not self.listings:
            return None
        entries = [{name: to_value(item[name]) for name in ("room", "at")} for item in self.listings.pop(0)]
        return answered(Items=entries)(call)


@pytest.fixture
def request_id(world: World) -> str:
    """A claimed request of a user with three messages among another's."""
    world.make_table("messages", room="S", at="N", index={"by-author": ("author", "S")})
    world.more_environment = {"RECORD_STORES": to_json([MESSAGES])}
    put(world, *(message(number) for number in range(3)), message(3, "annabel"), message(4, "an"))
    world.make_user()
    return world.claimed()


OTHERS = [message(4, "an"), message(3, "annabel")]


def test_the_items_that_an_index_finds_go_from_the_table_and_no_other(world: World, request_id: str) -> None:
    answer = world.run(STEP, request_id)

    assert answer["done"]
    assert left(world) == OTHERS
    assert world.deleted(request_id, STEP) == {"messages": 3}
    for call in world.wire.of("Query"):
        assert call.params["IndexName"] == "by-author"
        assert "ConsistentRead" not in call.params
    for call in world.wire.of("BatchGetItem"):
        assert call.params["RequestItems"]["messages"]["ConsistentRead"] is True
    (_, transaction) = world.wire.of("TransactWriteItems")
    for action in transaction.params["TransactItems"][1:]:
        assert set(action["Delete"]["Key"]) == {"room", "at"}
        assert action["Delete"]["ConditionExpression"] == "#found = :value"
        assert action["Delete"]["ExpressionAttributeNames"] == {"#found": "author"}
        assert action["Delete"]["ExpressionAttributeValues"] == {":value": {"S": USER}}


TYPES: Mapping[str, Callable[[int], Any]] = {
    "S": str,
    "N": lambda number: number,
    "B": lambda number: str(number).encode(),
}


@pytest.mark.parametrize("partition", [*TYPES])
@pytest.mark.parametrize("sort", [*TYPES, None])
@pytest.mark.parametrize("value", [*TYPES])
def test_each_key_may_be_text_number_or_bytes(world: World, partition: str, sort: str | None, value: str) -> None:
    store = RecordStore(
        name="typed",
        table="typed",
        partition_key="part",
        partition_type=partition,
        sort_key="sort" if sort else None,
        sort_type=sort or "S",
        index="found",
        index_key="who",
        index_type=value,
        index_value="{customer_id}",
    )
    world.make_table("typed", part=partition, **({"sort": sort} if sort else {}), index={"found": ("who", value)})
    world.more_environment = {"RECORD_STORES": to_json([store])}
    for number, who in enumerate((1001, 1001, 10011)):
        item = {"part": TYPES[partition](number), "sort": TYPES[sort or "S"](number), "who": TYPES[value](who)}
        world.dynamodb.put_item(TableName="typed", Item={name: to_value(one) for name, one in item.items()})
    world.make_user()
    request = world.claimed()

    world.run(STEP, request)

    (kept,) = world.dynamodb.scan(TableName="typed")["Items"]
    assert kept["who"] == to_value(TYPES[value](10011))
    assert world.deleted(request, STEP) == {"typed": 2}


def test_a_part_of_the_tables_own_key_may_be_what_the_index_goes_by(world: World) -> None:
    store = RecordStore(
        name="members",
        table="members",
        partition_key="team",
        sort_key="member",
        index="inverted",
        index_key="member",
        index_value="USER#{user_id}",
    )
    world.make_table("members", team="S", member="S", index={"inverted": ("member", "S")})
    world.more_environment = {"RECORD_STORES": to_json([store])}
    for team, member in (("a", USER), ("b", USER), ("b", "anna")):
        world.dynamodb.put_item(TableName="members", Item={"team": {"S": team}, "member": {"S": f"USER#{member}"}})
    world.make_user()
    request = world.claimed()

    world.run(STEP, request)

    assert world.items("members") == [{"team": "b", "member": "USER#anna"}]
    assert world.deleted(request, STEP) == {"members": 2}
    # DynamoDB refuses an expression in which two names mean one attribute; moto takes it.
    reads = [call.params["RequestItems"]["members"] for call in world.wire.of("BatchGetItem")]
    for read in (*reads, *(call.params for call in world.wire.of("Query"))):
        assert sorted(read["ExpressionAttributeNames"].values()) == ["member", "team"]


@pytest.mark.invariant("I1")
def test_an_item_that_was_given_to_another_user_stays_although_the_index_still_shows_it(
    world: World, request_id: str
) -> None:
    Index(world, [message(0), message(1), message(2)])
    put(world, message(1, "annabel"))

    world.run(STEP, request_id)

    assert left(world) == sorted([*OTHERS, message(1, "annabel")], key=str)
    assert world.deleted(request_id, STEP) == {"messages": 2}


@pytest.mark.invariant("I1")
def test_an_item_that_is_given_away_after_it_was_read_stays_and_holds_nothing_up(world: World, request_id: str) -> None:
    world.wire.before("TransactWriteItems", lambda _: put(world, message(1, "annabel")))

    answer = world.run(STEP, request_id)

    assert answer["done"]
    assert left(world) == sorted([*OTHERS, message(1, "annabel")], key=str)
    assert world.deleted(request_id, STEP) == {"messages": 2}


def test_what_the_index_still_shows_after_it_was_deleted_counts_once(world: World, request_id: str) -> None:
    shown = [message(0), message(1), message(2)]
    Index(world, shown, shown)

    answer = world.run(STEP, request_id)

    assert answer["done"]
    assert len(world.wire.of("Query")) == 2
    assert world.deleted(request_id, STEP) == {"messages": 3}


def test_an_item_that_the_index_shows_twice_counts_once(world: World, request_id: str) -> None:
    Index(world, [message(0), message(1), message(0), message(2)])

    world.run(STEP, request_id)

    assert left(world) == OTHERS
    assert world.deleted(request_id, STEP) == {"messages": 3}


def test_an_item_on_two_pages_of_the_index_counts_once(world: World, request_id: str) -> None:
    def first_page(call: Call) -> Any:
        entry = {name: to_value(message(0)[name]) for name in ("room", "at")}
        return answered(Items=[entry], LastEvaluatedKey={**entry, "author": {"S": "am"}})(call)

    world.wire.before("Query", first_page)

    world.run(STEP, request_id)

    assert left(world) == OTHERS
    assert world.deleted(request_id, STEP) == {"messages": 3}


def listed(world: World) -> Mapping[str, int]:
    with world.environment(STEP):
        return delete_records.remaining(PERSON)


def test_the_verification_counts_what_is_in_the_table_and_not_what_the_index_shows(
    world: World, request_id: str
) -> None:
    Index(world, [message(0), message(1), message(2), message(9)])
    put(world, message(1, "annabel"))

    assert listed(world) == {"messages": 2}
    assert world.sleeps == []


def test_the_verification_asks_an_index_that_shows_nothing_once_more_a_little_later(
    world: World, request_id: str
) -> None:
    Index(world, [])

    assert listed(world) == {"messages": 3}
    assert world.sleeps == [delete_records.INDEX_DELAY.total_seconds()]


def test_the_verification_finds_nothing_when_the_index_twice_shows_nothing_that_is_left(
    world: World, request_id: str
) -> None:
    world.run(STEP, request_id)
    world.sleeps.clear()
    Index(world, [message(0), message(1)], [message(2)])

    assert listed(world) == {"messages": 0}
    assert world.sleeps == [delete_records.INDEX_DELAY.total_seconds()]


def test_keys_that_a_read_left_out_are_asked_for_again(world: World, request_id: str) -> None:
    def all_but_the_first(call: Call) -> Any:
        (asked,) = call.params["RequestItems"].values()
        answer = world.dynamodb.batch_get_item(RequestItems={"messages": {**asked, "Keys": asked["Keys"][:1]}})
        rest = {"messages": {**asked, "Keys": asked["Keys"][1:]}}
        return answered(Responses=answer["Responses"], UnprocessedKeys=rest)(call)

    world.wire.before("BatchGetItem", all_but_the_first)

    assert listed(world) == {"messages": 3}
    reads = [len(call.params["RequestItems"]["messages"]["Keys"]) for call in world.wire.of("BatchGetItem")]
    assert reads == [3, 2]


@pytest.mark.parametrize("written", ["1001", "1001.00", "1.001E+3"])
def test_a_number_is_the_users_however_it_is_written(world: World, written: str) -> None:
    store = replace(MESSAGES, index="by-customer", index_key="customer", index_type="N", index_value="{customer_id}")
    world.make_table("messages", room="S", at="N", index={"by-customer": ("customer", "N")})
    world.more_environment = {"RECORD_STORES": to_json([store])}
    key = {"room": {"S": "a"}, "at": {"N": "1"}}
    world.dynamodb.put_item(TableName="messages", Item={**key, "customer": {"N": CUSTOMER}})
    answer = answered(Responses={"messages": [{**key, "customer": {"N": written}}]}, UnprocessedKeys={})
    world.wire.before("BatchGetItem", answer, times=2)

    assert listed(world) == {"messages": 1}


def test_reads_ask_for_a_hundred_keys_at_most(world: World, request_id: str) -> None:
    world.dynamodb_bulk("messages", [message(number) for number in range(10, 260)])

    assert listed(world) == {"messages": 253}
    reads = [len(call.params["RequestItems"]["messages"]["Keys"]) for call in world.wire.of("BatchGetItem")]
    assert reads == [100, 100, 53]


@pytest.mark.parametrize("operation", ["Query", "BatchGetItem"])
def test_a_throttled_read_is_patient_while_there_is_time(world: World, request_id: str, operation: str) -> None:
    world.wire.before(operation, refused("ProvisionedThroughputExceededException"), times=10)

    answer = world.run(STEP, request_id)

    assert answer["done"]
    assert len(world.sleeps) == 10
    assert world.deleted(request_id, STEP) == {"messages": 3}


def test_a_read_that_is_denied_says_which(world: World, request_id: str) -> None:
    world.wire.before("BatchGetItem", refused("AccessDeniedException"))

    with pytest.raises(AccessDenied) as raised:
        world.run(STEP, request_id)

    assert str(raised.value) == "BatchGetItem answered AccessDeniedException"
    assert len(left(world)) == 5


@pytest.mark.invariant("I5")
@pytest.mark.parametrize("fault", [Crash, connection_lost])
def test_a_fault_at_any_call_leaves_exact_counts(
    world: World, request_id: str, fault: Callable[[], BaseException]
) -> None:
    number, happened = 0, True
    while happened:
        number += 1
        who = {"user": f"ann{number}", "customer": str(number)}
        put(world, *(message(10 * number + one, who["user"]) for one in range(3)))
        world.make_user(who["user"])
        request = world.claimed(**who)
        world.wire.after(number, fault)

        with contextlib.suppress(Crash):
            world.run(STEP, request)
        happened = not world.wire.pending()
        world.wire.calm()
        world.run_until_done(STEP, request)

        assert [item for item in left(world) if item["author"] == who["user"]] == [], f"call {number}"
        assert world.deleted(request, STEP) == {"messages": 3}, f"call {number}"
    assert number > 5


@pytest.mark.parametrize("written", ["01001", "1e3", "1001.0", "1" * 39])
def test_a_name_that_is_another_number_too_deletes_nothing(world: World, written: str) -> None:
    world.make_user()
    request = world.claimed(customer=written)

    with pytest.raises(StoreUnfit) as raised:
        world.run(STEP, request)

    assert str(raised.value) == "store visits: the user's value is no whole number; give it as the table holds it"
    event = {"deletion_request_id": request, "owner": OTHER, "step": STEP, "verify": True}
    with pytest.raises(StoreUnfit):
        world.run(STEP, event=event)


def test_a_listing_goes_ahead_of_its_reader_by_a_bounded_number_of_pages() -> None:
    fetched: list[int] = []

    def endless() -> Any:
        while True:
            fetched.append(len(fetched))
            yield len(fetched)

    with ahead(endless()) as pages:
        read = [next(pages) for _ in range(3)]
        wait_until(lambda: len(fetched), lambda number: number >= 3 + AHEAD, limit=30)

    assert read == [1, 2, 3]
    assert len(fetched) == 3 + AHEAD


@pytest.mark.parametrize("error", [Crash, ValueError])
def test_what_goes_wrong_ahead_reaches_the_reader_in_its_turn(error: type[BaseException]) -> None:
    def broken() -> Any:
        yield "first"
        raise error

    with ahead(broken()) as pages:
        assert next(pages) == "first"
        with pytest.raises(error):
            next(pages)
