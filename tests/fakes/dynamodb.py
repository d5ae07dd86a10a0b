"""DynamoDB in memory: tables, indexes that lag behind, transactions.

What a service may do or not, it does by its manners: short pages, transactions that are too large, an index that
shows what was, keys left unprocessed.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, cycle, islice
from typing import Any

from tests.fakes.client import Service, refusal
from tests.fakes.expressions import Given, InvalidExpression, Item, holds, plain, projected, refuse_misfits, updated

MAX_ACTIONS = 100
MAX_KEYS = 100

Key = tuple[Any, ...]
"""The plain values of an item's key attributes, the partition's first; they sort as DynamoDB sorts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """What this service does within its contract."""

    pages: Sequence[int] = (1000,)
    """How many items the next pages hold at most: 1 MB is two items of 400 KB."""
    largest_transaction: int = MAX_ACTIONS
    """Actions that 4 MB hold."""
    index_lag: Sequence[int] = (0,)
    """How many writes an index stays behind at the next queries."""
    processed: Sequence[int] = (MAX_KEYS,)
    """How many keys the next BatchGetItem calls answer."""


@dataclass(slots=True)
class Index:
    """A global secondary index: what it shows, and what it has not heard of yet."""

    keys: Sequence[str]
    shown: dict[Key, Item] = field(default_factory=dict)
    """Key of the base item -> the item as it was."""
    pending: list[tuple[Key, Item | None]] = field(default_factory=list)
    heard: dict[Key, int] = field(default_factory=dict)
    """Key of the base item -> the moment from which on it is shown."""

    def catch_up(self, moment: int, behind: int = 0) -> None:
        """Hear of all writes but the last few."""
        news, self.pending = self.pending[: len(self.pending) - behind], self.pending[len(self.pending) - behind :]
        for key, item in news:
            self.shown.pop(key, None)
            self.heard.pop(key, None)
            if item is not None and all(name in item for name in self.keys):
                self.shown[key] = item
                self.heard[key] = moment


@dataclass(slots=True)
class Table:
    """One table."""

    keys: Sequence[str]
    """Names of the key attributes, the partition key first."""
    indexes: Mapping[str, Index] = field(default_factory=dict)
    items: dict[Key, Item] = field(default_factory=dict)
    written: dict[Key, int] = field(default_factory=dict)
    """Key -> the moment of its last write."""

    def key_of(self, attributes: Item) -> Key:
        """The key of an item, or of a request's Key."""
        return tuple(plain(attributes[name])[1] for name in self.keys)

    def write(self, key: Key, item: Item | None, moment: int) -> None:
        """Put the item, or remove it."""
        if item is None:
            self.items.pop(key, None)
        else:
            self.items[key] = item
            self.written[key] = moment
        for index in self.indexes.values():
            index.pending.append((key, item))


class DynamoDB(Service):
    """All tables."""

    name = "dynamodb"

    def __init__(self, tables: Mapping[str, Table], manners: Manners | None = None) -> None:
        super().__init__()
        self.tables = tables
        self.removed: list[tuple[str, Item]] = []
        """Table and item of what calls of a client removed, in order."""
        manners = manners or Manners()
        self._largest_transaction = manners.largest_transaction
        self._pages, self._lags = cycle(manners.pages), cycle(manners.index_lag)
        self._processed = cycle(manners.processed)

    # -- what an application does

    def put(self, table: str, item: Item) -> Key:
        """Write an item; its key."""
        with self.lock:
            self.moment += 1
            key = self.tables[table].key_of(item)
            self.tables[table].write(key, item, self.moment)
            return key

    def take(self, table: str, key: Key) -> None:
        """Remove an item."""
        with self.lock:
            self.moment += 1
            self.tables[table].write(key, None, self.moment)

    def settle(self) -> None:
        """Time passes: every index hears of everything."""
        with self.lock:
            for table in self.tables.values():
                for index in table.indexes.values():
                    index.catch_up(self.moment)

    # -- operations

    def get_item(self, **request: Any) -> Mapping[str, Any]:
        """GetItem."""
        table = self._table("GetItem", request["TableName"])
        item = table.items.get(table.key_of(request["Key"]))
        return {"Item": _projection("GetItem", request, item)} if item is not None else {}

    def put_item(self, **request: Any) -> Mapping[str, Any]:
        """PutItem."""
        self._change("PutItem", {**request, "Key": request["Item"]}, lambda _, __: request["Item"])
        return {}

    def update_item(self, **request: Any) -> Mapping[str, Any]:
        """UpdateItem; ALL_NEW and NONE are known."""
        _, after = self._change("UpdateItem", request, _update_of("UpdateItem", request))
        return {"Attributes": after} if request.get("ReturnValues") == "ALL_NEW" else {}

    def delete_item(self, **request: Any) -> Mapping[str, Any]:
        """DeleteItem."""
        self._change("DeleteItem", request, lambda _, __: None)
        return {}

    def transact_write_items(self, **request: Any) -> Mapping[str, Any]:
        """TransactWriteItems: all or nothing."""
        operation = "TransactWriteItems"
        actions = [next(iter(action.items())) for action in request["TransactItems"]]
        if len(actions) > min(MAX_ACTIONS, self._largest_transaction):
            raise refusal(operation, "ValidationException")
        places = [(one["TableName"], self._key(operation, kind, one)) for kind, one in actions]
        if len(set(places)) < len(places):
            raise refusal(operation, "ValidationException")
        reasons = [self._reason(operation, kind, one) for kind, one in actions]
        if any(reason["Code"] != "None" for reason in reasons):
            raise refusal(operation, "TransactionCanceledException", CancellationReasons=reasons)
        for (kind, one), (name, key) in zip(actions, places, strict=True):
            if kind != "ConditionCheck":
                before = self.tables[name].items.get(key, {})
                self._write(name, key, _after(operation, kind, one)(before, _given(one)))
        return {}

    def query(self, **request: Any) -> Mapping[str, Any]:
        """Query of a table or of an index, forwards."""
        table = self._table("Query", request["TableName"])
        items, order = self._listed(table, request)
        given = _given(request)
        projection = request.get("ProjectionExpression", "")
        _valid("Query", lambda: refuse_misfits(given, request["KeyConditionExpression"], projection))
        found = _valid("Query", lambda: [one for one in items if holds(request["KeyConditionExpression"], one, given)])
        found.sort(key=order)
        if start := request.get("ExclusiveStartKey"):
            found = [item for item in found if order(item) > order(start)]
        size = min(request.get("Limit", 1000), next(self._pages))
        page, ended = found[:size], len(found) < size
        self.note_listing(_place(request), front=not start, shown=len(page), ended=ended)
        shown = [_projection("Query", request, item) for item in page]
        answer = {"Items": shown, "Count": len(shown), "ScannedCount": len(shown)}
        if ended:
            return answer
        names = {*table.keys, *(table.indexes[request["IndexName"]].keys if "IndexName" in request else ())}
        return {**answer, "LastEvaluatedKey": {name: page[-1][name] for name in names}}

    def batch_get_item(self, **request: Any) -> Mapping[str, Any]:
        """BatchGetItem; what is left unprocessed is for another call."""
        quota = count()
        size = next(self._processed)
        answers: dict[str, list[Item]] = {}
        left: dict[str, Any] = {}
        for name, wanted in request["RequestItems"].items():
            table = self._table("BatchGetItem", name)
            now = list(islice(wanted["Keys"], max(0, size - next(quota))))
            items = [table.items.get(table.key_of(key)) for key in now]
            answers[name] = [_projection("BatchGetItem", wanted, item) for item in items if item is not None]
            if len(now) < len(wanted["Keys"]):
                left[name] = {**wanted, "Keys": wanted["Keys"][len(now) :]}
        return {"Responses": answers, "UnprocessedKeys": left}

    # -- the inside

    def _table(self, operation: str, name: str) -> Table:
        if name not in self.tables:
            raise refusal(operation, "ResourceNotFoundException")
        return self.tables[name]

    def _listed(self, table: Table, request: Mapping[str, Any]) -> tuple[Iterable[Item], Callable[[Item], Key]]:
        if "IndexName" not in request:
            return table.items.values(), table.key_of
        if request.get("ConsistentRead") or request["IndexName"] not in table.indexes:
            raise refusal("Query", "ValidationException")
        index = table.indexes[request["IndexName"]]
        index.catch_up(self.moment, min(next(self._lags), len(index.pending)))
        return index.shown.values(), lambda item: (
            *(plain(item[name])[1] for name in index.keys),
            *table.key_of(item),
        )

    def _key(self, operation: str, kind: str, action: Mapping[str, Any]) -> Key:
        table = self._table(operation, action["TableName"])
        key = action["Item" if kind == "Put" else "Key"]
        if kind != "Put" and set(key) != set(table.keys):
            raise refusal(operation, "ValidationException")
        return table.key_of(key)

    def _reason(self, operation: str, kind: str, action: Mapping[str, Any]) -> Mapping[str, Any]:
        """Why an action of a transaction is refused; its Code is "None" if it is not."""
        item = self.tables[action["TableName"]].items.get(self._key(operation, kind, action))
        given = _given(action)
        texts = (action.get("ConditionExpression", ""), action.get("UpdateExpression", ""))
        _valid(operation, lambda: refuse_misfits(given, *texts))
        if texts[0] and not _valid(operation, lambda: holds(texts[0], item or {}, given)):
            old = {"Item": item} if item and action.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD" else {}
            return {"Code": "ConditionalCheckFailed", **old}
        try:
            _after(operation, kind, action)(item or {}, given)
        except InvalidExpression:
            return {"Code": "ValidationError"}
        return {"Code": "None"}

    def _change(
        self, operation: str, request: Mapping[str, Any], change: Callable[[Item, Given], Item | None]
    ) -> tuple[Item | None, Item | None]:
        table = self._table(operation, request["TableName"])
        key = table.key_of(request["Key"])
        before = table.items.get(key)
        given = _given(request)
        condition = request.get("ConditionExpression", "")
        _valid(operation, lambda: refuse_misfits(given, condition, request.get("UpdateExpression", "")))
        if condition and not _valid(operation, lambda: holds(condition, before or {}, given)):
            old: dict[str, Any] = {"Item": before} if before and _wants_old(request) else {}
            raise refusal(operation, "ConditionalCheckFailedException", **old)
        after = _valid(operation, lambda: change(before or {}, given))
        self._write(request["TableName"], key, after)
        return before, after

    def _write(self, name: str, key: Key, item: Item | None) -> None:
        table = self.tables[name]
        if item is None and key not in table.items:
            return
        if item is None:
            self.removed.append((name, table.items[key]))
        table.write(key, item, self.moment)


def listed_place(table: str, index: str | None, *values: Mapping[str, Any]) -> Hashable:
    """What `DynamoDB.listings` calls a query with these values."""
    return table, index, frozenset(repr(plain(value)) for value in values)


def _place(request: Mapping[str, Any]) -> Hashable:
    return listed_place(request["TableName"], request.get("IndexName"), *request["ExpressionAttributeValues"].values())


def _wants_old(request: Mapping[str, Any]) -> bool:
    return bool(request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD")


def _given(request: Mapping[str, Any]) -> Given:
    return Given(request.get("ExpressionAttributeNames", {}), request.get("ExpressionAttributeValues", {}))


def _update_of(operation: str, request: Mapping[str, Any]) -> Callable[[Item, Given], Item]:
    # An update of an absent item makes one from its key.
    return lambda before, given: updated(request["UpdateExpression"], before or request["Key"], given)


def _after(operation: str, kind: str, action: Mapping[str, Any]) -> Callable[[Item, Given], Item | None]:
    if kind == "Update":
        return _update_of(operation, action)
    item = action.get("Item")
    return lambda _, __: item


def _projection(operation: str, request: Mapping[str, Any], item: Item | None) -> Item:
    text = request.get("ProjectionExpression")
    if item is None or not text:
        return item or {}
    shown: Item = _valid(operation, lambda: projected(text, item, _given(request)))
    return shown


def _valid(operation: str, act: Callable[[], Any]) -> Any:
    try:
        return act()
    except InvalidExpression:
        raise refusal(operation, "ValidationException") from None
