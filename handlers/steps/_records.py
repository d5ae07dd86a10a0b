"""Finds the keys of a user's items in one DynamoDB table, by the table's own key or by an index.

An index follows its table a little later, so an entry is only a hint: each item is read by its key, consistently, and
is the user's if it is there and carries the value that the index was asked for.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar

from handlers.core import aws
from handlers.core.errors import StoreUnfit
from handlers.core.person import Person
from handlers.core.stores import RecordStore

PAGE = 990
"""Keys listed at once; a page also ends at 1 MB of items, which may be two of them."""
AHEAD = 8
"""Pages that are listed while earlier ones are deleted. A key has up to 3 KB, so they hold 24 MB at most."""
READ_AT_ONCE = 100
"""Keys of one BatchGetItem (https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html)."""

_LONGEST_NUMBER = 38
"""Digits of a number (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html)."""

Key = Mapping[str, Mapping[str, Any]]
"""Attribute -> type -> value, for each attribute of the table's key."""
Read = Callable[[], Mapping[str, Any]]

_Page = TypeVar("_Page")


def at_once(read: Read) -> Mapping[str, Any]:
    """Make a call once."""
    return read()


@dataclass(frozen=True, slots=True, kw_only=True)
class UserItems:
    """One user's items in one store."""

    store: RecordStore
    person: Person
    reading: Callable[[Read], Mapping[str, Any]] = at_once
    """Makes each call that reads."""

    def pages(self) -> Iterator[Sequence[Key]]:
        """The keys of the items that are there, page by page; a page may be empty although another follows."""
        request = self._listing()
        while True:
            answer = self.reading(partial(_query, request))
            yield self._that_are_there(answer["Items"])
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def first(self) -> Sequence[Key]:
        """At most one key: the least that shows whether a listing is possible."""
        answer = self.reading(partial(_query, {**self._listing(), "Limit": 1}))
        return self._that_are_there(answer["Items"])

    def delete_of(self, key: Key) -> Mapping[str, Any]:
        """The Delete action for an item, on condition that it is there and still the user's."""
        action = {"TableName": self.store.table_name, "Key": key}
        if self.store.index is None:
            return {
                **action,
                "ConditionExpression": "attribute_exists(#pk)",
                "ExpressionAttributeNames": {"#pk": self.store.partition_key},
            }
        attribute, value = self._value()
        return {
            **action,
            "ConditionExpression": "#found = :value",
            "ExpressionAttributeNames": {"#found": attribute},
            "ExpressionAttributeValues": {":value": value},
        }

    def _value(self) -> tuple[str, Mapping[str, Any]]:
        attribute, kind, template = self.store.found_by
        return attribute, _typed(self.store, kind, self.person.fill(template))

    def _listing(self) -> dict[str, Any]:
        attribute, value = self._value()
        store, values = self.store, {":value": value}
        # What an index goes by may be a part of the table's key: one name for each attribute.
        names = {name: f"#n{number}" for number, name in enumerate(dict.fromkeys((attribute, *store.key_attributes)))}
        condition = f"{names[attribute]} = :value"
        if store.sort_key is not None and store.sort_prefix is not None:
            condition += f" AND begins_with({names[store.sort_key]}, :sort)"
            values[":sort"] = _typed(store, store.sort_type, self.person.fill(store.sort_prefix))
        place = {"ConsistentRead": True} if store.index is None else {"IndexName": store.index}
        return {
            "TableName": store.table_name,
            **place,
            "KeyConditionExpression": condition,
            "ProjectionExpression": ", ".join(names[name] for name in store.key_attributes),
            "ExpressionAttributeNames": {short: name for name, short in names.items()},
            "ExpressionAttributeValues": values,
            "Limit": PAGE,
        }

    def _that_are_there(self, entries: Sequence[Key]) -> Sequence[Key]:
        if self.store.index is None:
            return entries
        # While an item moves within the index, two entries may name it; BatchGetItem takes each key once.
        keys = list({_identity(key): key for key in entries}.values())
        parts = [keys[start : start + READ_AT_ONCE] for start in range(0, len(keys), READ_AT_ONCE)]
        return [key for part in parts for key in self._read(part)]

    def _read(self, keys: Sequence[Key]) -> Iterator[Key]:
        attribute, value = self._value()
        wanted = dict.fromkeys((*self.store.key_attributes, attribute))
        names = {f"#n{number}": name for number, name in enumerate(wanted)}
        asked: Mapping[str, Any] = {
            self.store.table_name: {
                "Keys": keys,
                "ConsistentRead": True,
                "ProjectionExpression": ", ".join(names),
                "ExpressionAttributeNames": names,
            }
        }
        while asked:
            answer = self.reading(partial(_batch_get, asked))
            for item in answer["Responses"].get(self.store.table_name, ()):
                if _is_same(item.get(attribute), value):
                    yield {name: item[name] for name in self.store.key_attributes}
            asked = answer["UnprocessedKeys"]
            if asked:
                aws.back_off(1)


@contextmanager
def ahead(pages: Iterator[_Page]) -> Iterator[Iterator[_Page]]:
    """Let a thread of its own fetch the next pages, AHEAD of them at most, while the caller works on one."""
    with ThreadPoolExecutor(1, "listing") as lister:
        coming = deque(lister.submit(next, pages, None) for _ in range(AHEAD))

        def in_turn() -> Iterator[_Page]:
            while (page := coming.popleft().result()) is not None:
                coming.append(lister.submit(next, pages, None))
                yield page

        try:
            yield in_turn()
        finally:
            lister.shutdown(cancel_futures=True)


def _query(request: Mapping[str, Any]) -> Mapping[str, Any]:
    with aws.our_errors("Query"):
        answer: Mapping[str, Any] = aws.client("dynamodb").query(**request)
    return answer


def _batch_get(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    with aws.our_errors("BatchGetItem"):
        answer: Mapping[str, Any] = aws.client("dynamodb").batch_get_item(RequestItems=asked)
    return answer


def _typed(store: RecordStore, kind: str, value: str) -> Mapping[str, Any]:
    """A value as DynamoDB takes it.

    Raises:
        StoreUnfit: for N, a text that is another number's too: 1e3 and 01000 are both 1000, perhaps somebody else.
    """
    if kind == "N" and (not value.isdecimal() or str(int(value)) != value or len(value) > _LONGEST_NUMBER):
        raise StoreUnfit((f"store {store.name}: the user's value is no whole number; give it as the table holds it",))
    return {kind: value.encode() if kind == "B" else value}


def _identity(key: Key) -> tuple[tuple[str, ...], ...]:
    return tuple((name, *map(repr, key[name].values())) for name in sorted(key))


def _is_same(found: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> bool:
    """Whether two values are equal to DynamoDB, which knows no difference between 7 and 7.0."""
    if found and found.keys() == wanted.keys() == {"N"}:
        return Decimal(found["N"]) == Decimal(wanted["N"])
    return found == wanted
