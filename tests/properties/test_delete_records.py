"""DeleteRecords in every world that Hypothesis thinks of.

A world: a user's items in six stores and five tables, under keys that are texts, numbers and bytes, with and without a
sort key, or found by an index that lags behind; neighbours whose keys begin alike; short pages, transactions that are
too large. A storm: crashes, lost and late answers, refusals, invocations that overtake each other, another owner, a
hold; writes, deletes and changes of owner under way. What is promised, and asserted:

- an item that was written before the last listing began is gone, and that listing showed nothing;
- nothing of anybody else was touched;
- the counts are what went, each once;
- the record is DONE, and a step that is DONE deletes nothing more;
- a held request deletes nothing at all, nor does an invocation that lost its fence;
- an execution that lost the request never gets an answer;
- after COMPLETED nothing is deleted: a user who registered again keeps everything.

Of a store with an index: what the index had heard of before the last listing began is gone, and an item that got
another author meanwhile stays, whatever the index still shows.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import strategies as st

from handlers.core.errors import RetentionLocked
from handlers.core.stores import RecordStore, to_json
from handlers.steps import delete_records
from tests.fakes.dynamodb import DynamoDB, Index, Key, Manners, Table, listed_place
from tests.fakes.expressions import Item
from tests.properties.storm import Weather
from tests.properties.story import CUSTOMER, TABLE, USER, Story, environment
from tests.properties.strategies import THREADS, WEATHER, for_all

pytestmark = pytest.mark.long

PARTS = 5
CASES = 200
STEP = "DeleteRecords"
STORES = (
    RecordStore(name="orders", table="orders", partition_key="pk", partition="USER#{user_id}", sort_key="sk"),
    RecordStore(
        name="notes",
        table="shared",
        partition_key="team",
        partition="{customer_id}",
        sort_key="sk",
        sort_prefix="{user_id}#",
    ),
    RecordStore(
        name="drafts",
        table="shared",
        partition_key="team",
        partition="{customer_id}",
        sort_key="sk",
        sort_prefix="draft/{user_id}/",
    ),
    RecordStore(
        name="visits",
        table="visits",
        partition_key="customer",
        partition="{customer_id}",
        partition_type="N",
        sort_key="at",
    ),
    RecordStore(name="blobs", table="blobs", partition_key="id", partition="{user_id}", partition_type="B"),
    RecordStore(
        name="reviews",
        table="reviews",
        partition_key="id",
        index="by-author",
        index_key="author",
        index_value="{user_id}",
    ),
)
TABLES = {
    "orders": ("pk", "sk"),
    "shared": ("team", "sk"),
    "visits": ("customer", "at"),
    "blobs": ("id",),
    "reviews": ("id",),
}
INDEX = "by-author"


@dataclass(frozen=True, slots=True)
class Place:
    """Where items of a store, or of somebody else, are: what they all carry, and what their sort keys begin with."""

    store: str
    """Empty: somebody else's."""
    table: str
    attribute: str
    value: Mapping[str, Any]
    prefix: str = ""

    def item(self, number: int, text: str = "x") -> Item:
        """The n-th item."""
        own = {self.attribute: self.value, "text": {"S": text}}
        if self.table == "reviews":
            return {**own, "id": {"S": f"{self.value['S']}-{number}"}}
        names = TABLES[self.table]
        sort = {"N": str(number)} if self.table == "visits" else {"S": f"{self.prefix}{number}"}
        return {**own, **({names[1]: sort} if len(names) > 1 else {})}

    def holds(self, table: str, item: Item) -> bool:
        """Whether an item is one of these."""
        if table != self.table or item[self.attribute] != self.value:
            return False
        return not self.prefix or str(item["sk"]["S"]).startswith(self.prefix)

    def listed(self) -> Any:
        """What the fake calls a listing of it."""
        prefix = [{"S": self.prefix}] if self.prefix else []
        return listed_place(self.table, INDEX if self.table == "reviews" else None, self.value, *prefix)


REVIEWS = Place("reviews", "reviews", "author", {"S": USER})
MINE = (
    Place("orders", "orders", "pk", {"S": f"USER#{USER}"}),
    Place("notes", "shared", "team", {"S": CUSTOMER}, f"{USER}#"),
    Place("drafts", "shared", "team", {"S": CUSTOMER}, f"draft/{USER}/"),
    Place("visits", "visits", "customer", {"N": CUSTOMER}),
    Place("blobs", "blobs", "id", {"B": USER.encode()}),
    REVIEWS,
)
THEIR_REVIEWS = Place("", "reviews", "author", {"S": "10"})
OTHERS = (
    Place("", "orders", "pk", {"S": "USER#10"}),
    Place("", "orders", "pk", {"S": "USER#"}),
    Place("", "orders", "pk", {"S": "user#1"}),
    Place("", "shared", "team", {"S": CUSTOMER}, "10#"),
    Place("", "shared", "team", {"S": CUSTOMER}, "1"),
    Place("", "shared", "team", {"S": CUSTOMER}, "draft/10/"),
    Place("", "shared", "team", {"S": "70"}, f"{USER}#"),
    Place("", "visits", "customer", {"N": "70"}),
    Place("", "visits", "customer", {"N": "-7"}),
    Place("", "blobs", "id", {"B": b"10"}),
    THEIR_REVIEWS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """A world."""

    sizes: tuple[int, ...]
    """How many items each store holds."""
    others: Sequence[int]
    manners: Manners


_records = st.builds(
    Records,
    sizes=st.tuples(*[st.integers(0, 12)] * len(MINE)),
    others=st.lists(st.integers(0, len(OTHERS) - 1), max_size=5),
    manners=st.builds(
        Manners,
        pages=st.lists(st.integers(1, 7), min_size=1, max_size=3),
        largest_transaction=st.sampled_from((2, 3, 6, 100)),
        index_lag=st.lists(st.integers(0, 4), min_size=1, max_size=3),
        processed=st.lists(st.integers(1, 3), min_size=1, max_size=2),
    ),
)


class RecordStory(Story):
    """DeleteRecords in one world."""

    def __init__(self, records: Records, weather: Weather) -> None:
        tables = {name: Table(keys=keys) for name, keys in TABLES.items()}
        self._index = Index(keys=("author",))
        tables |= {TABLE: Table(keys=("pk",)), "reviews": Table(keys=("id",), indexes={INDEX: self._index})}
        super().__init__(STEP, delete_records.handler, DynamoDB(tables, records.manners), {}, weather)
        for place, size in zip(MINE, records.sizes, strict=True):
            for number in range(size):
                self.dynamodb.put(place.table, place.item(number))
        for other in records.others:
            self.dynamodb.put(OTHERS[other].table, OTHERS[other].item(0))
        self.dynamodb.settle()
        self.foreign = self._foreign()
        """What belongs to others, and only they may change."""

    def sleep(self, seconds: float) -> None:
        """Time passes, and the index catches up."""
        super().sleep(seconds)
        if seconds >= delete_records.INDEX_DELAY.total_seconds():
            self.dynamodb.settle()

    # -- who writes

    def write(self, number: int) -> None:
        """One write of the user or of somebody else."""
        with self.dynamodb.lock:
            what, number = number % 4, number // 4
            if what == 0:
                place = OTHERS[number % len(OTHERS)]
                self._put_foreign(place.table, place.item(number, "later"))
            elif what == 1:
                self._delete_one(number)
            elif what == 2:
                self._give_away(number)
            else:
                place = MINE[number % len(MINE)]
                self.dynamodb.put(place.table, place.item(number))

    def _put_foreign(self, table: str, item: Item) -> None:
        self.foreign[table, self.dynamodb.put(table, item)] = item

    def _delete_one(self, number: int) -> None:
        mine = [(table, key) for (table, key), item in self._items().items() if _store(table, item)]
        if mine:
            self.dynamodb.take(*mine[number % len(mine)])

    def _give_away(self, number: int) -> None:
        """A review gets another author; the index hears of it later."""
        mine = [item for (table, _), item in self._items().items() if REVIEWS.holds(table, item)]
        if mine:
            self._put_foreign("reviews", {**mine[number % len(mine)], "author": THEIR_REVIEWS.value})

    def register_again(self) -> None:
        """Everything is written anew, under the same keys."""
        with self.dynamodb.lock:
            for place in MINE:
                for number in range(3):
                    self.dynamodb.put(place.table, place.item(number + 100 * (place is REVIEWS)))

    # -- what is true

    def removed(self) -> Mapping[str, int]:
        """By store."""
        with self.dynamodb.lock:
            return Counter(_store(table, item) for table, item in self.dynamodb.removed)

    def contents(self) -> Any:
        """Every item."""
        return self._items()

    def check_remaining(self, remaining: Mapping[str, int]) -> None:
        """Each store is counted; one with an index shows what the index heard of, and all of it before it says none."""
        left = Counter(_store(table, item) for (table, _), item in self._items().items() if _store(table, item))
        assert bool(remaining) == bool(left), "the verification was told another thing than what is there"
        for place in MINE:
            shown, there = remaining.get(place.store, 0), left[place.store]
            assert shown == there or (place is REVIEWS and shown < there)

    def check_held(self, since: int) -> None:
        """Nothing at all goes."""
        assert since == 0, "a held request went on"

    def check_locked(self, locked: RetentionLocked) -> None:
        """Nothing is ever locked in a table."""
        raise AssertionError(locked)

    def check_done(self) -> None:
        """Gone is what the last listing could see; nobody else's was touched."""
        assert "" not in self.removed(), "something of somebody else was deleted"
        assert self._foreign() == self.foreign, "something of somebody else changed"
        for place in MINE:
            last = self.dynamodb.listings[place.listed()]
            # An index goes on showing what is gone.
            shown = 0 if place is REVIEWS else last.shown
            assert (shown, last.ended) == (0, True), f"{place.store} was not seen to be empty"
            seen = self._index.heard if place is REVIEWS else self.dynamodb.tables[place.table].written
            early = [
                key
                for (table, key), item in self._items().items()
                if place.holds(table, item) and seen.get(key, last.began + 1) <= last.began
            ]
            assert early == [], f"items of {place.store} are left"

    def _items(self) -> dict[tuple[str, Key], Item]:
        tables = {name: self.dynamodb.tables[name] for name in TABLES}
        return {(name, key): item for name, table in tables.items() for key, item in table.items.items()}

    def _foreign(self) -> dict[tuple[str, Key], Item]:
        return {place: item for place, item in self._items().items() if not _store(place[0], item)}


def _store(table: str, item: Item) -> str:
    """Under which name an item counts; empty if it is somebody else's."""
    return next((place.store for place in MINE if place.holds(table, item)), "")


def _tell(records: Records, weather: Weather) -> None:
    RecordStory(records, weather).tell()


@pytest.fixture(scope="module", autouse=True)
def process() -> Iterator[None]:
    with environment(STEP, delete_records, RECORD_STORES=to_json(STORES)):
        yield


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.invariant("I1", "I2", "I6")
def test_whatever_happens_under_way_every_item_of_the_user_goes_and_no_other(part: int) -> None:
    for_all(_records, WEATHER, _tell, cases=CASES, part=part)


def test_so_it_is_with_a_listing_side_by_side() -> None:
    """The order of calls is the machine's here, so a case that fails may pass when it is repeated."""
    for_all(_records, THREADS, _tell, cases=CASES // 5, part=PARTS)
