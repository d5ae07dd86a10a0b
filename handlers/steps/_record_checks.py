"""Compares a table as it is with the store that the settings describe, before anything is deleted."""

from collections.abc import Mapping, Sequence
from typing import Any

from handlers.core import aws
from handlers.core.errors import AccessDenied, StoreMissing, StoreRefused, StoreUnfit
from handlers.core.person import Person
from handlers.core.stores import RecordStore
from handlers.steps._records import UserItems

_USABLE = frozenset({"ACTIVE", "UPDATING"})
"""A table and its indexes can be used while they are being updated (https://docs.aws.amazon.com/amazondynamodb/latest/
APIReference/API_TableDescription.html)."""


def store_problems(store: RecordStore, person: Person) -> Sequence[str]:
    """What is wrong, each with the mend; empty if nothing is.

    Raises:
        Throttled, StoreUnavailable: the answer is still open.
    """
    try:
        table = _describe(store)
    except AccessDenied:
        found = ["dynamodb:DescribeTable is denied; allow it to the step's role"]
    except StoreMissing:
        found = [f"table {store.table_name} does not exist in this account and Region; correct table"]
    else:
        found = [*_state_problems(table), *_key_problems(store, table), *_index_problems(store, table)]
    return [f"store {store.name}: {text}" for text in found] or _listing_problems(store, person)


def _describe(store: RecordStore) -> Mapping[str, Any]:
    with aws.our_errors("DescribeTable"):
        answer: Mapping[str, Any] = aws.client("dynamodb").describe_table(TableName=store.table_name)
    table: Mapping[str, Any] = answer["Table"]
    return table


def _state_problems(table: Mapping[str, Any]) -> list[str]:
    found = []
    if table["TableStatus"] not in _USABLE:
        found.append(f"the table is {table['TableStatus']}; redrive the request when it is ACTIVE")
    # https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/V2globaltables_HowItWorks.html
    if table.get("MultiRegionConsistency") == "STRONG":
        found.append(
            "the table is a global one with strong consistency, which takes no transactions; delete from it in a step "
            "of your own"
        )
    return found


def _key_problems(store: RecordStore, table: Mapping[str, Any]) -> list[str]:
    keys = _keys(table, table)
    wanted = [("partition_key", "HASH", store.partition_key, store.partition_type)]
    if store.sort_key is not None:
        wanted.append(("sort_key", "RANGE", store.sort_key, store.sort_type))
    elif "RANGE" in keys:
        return [f"the table has the sort key {_shown(keys['RANGE'])}; name it in sort_key and sort_type"]
    return [
        f"{field} is {name} ({kind}), the table has {_shown(keys.get(role, []))}; correct {field} or its type"
        for field, role, name, kind in wanted
        if keys.get(role) != [(name, kind)]
    ]


def _index_problems(store: RecordStore, table: Mapping[str, Any]) -> list[str]:
    if store.index is None:
        return []
    index = next((one for one in table.get("GlobalSecondaryIndexes", ()) if one["IndexName"] == store.index), None)
    if index is None:
        return [f"the table has no global secondary index {store.index}; correct index"]
    found = []
    # An index without a status is as its table.
    if index.get("IndexStatus", "ACTIVE") not in _USABLE:
        found.append(f"index {store.index} is {index['IndexStatus']}; redrive the request when it is ACTIVE")
    keys = _keys(index, table).get("HASH", [])
    if keys != [(store.index_key, store.index_type)]:
        found.append(
            f"index_key is {store.index_key} ({store.index_type}), index {store.index} has {_shown(keys)}; correct "
            "index_key or index_type"
        )
    return found


def _listing_problems(store: RecordStore, person: Person) -> Sequence[str]:
    """Whether the step's own role may list: with the user's value, but one item at most."""
    try:
        UserItems(store=store, person=person).first()
    except AccessDenied as denied:
        place = f"index {store.index}" if store.index is not None and denied.operation == "Query" else "the table"
        return [f"store {store.name}: dynamodb:{denied.operation} on {place} is denied; allow it to the step's role"]
    except StoreRefused as refused:
        return [f"store {store.name}: {refused}; compare the store's settings with the table"]
    except StoreUnfit as unfit:
        return unfit.problems
    return ()


def _keys(holder: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """HASH or RANGE -> name and type of its attributes; an index may have several of each."""
    kinds = {one["AttributeName"]: one["AttributeType"] for one in table["AttributeDefinitions"]}
    keys: dict[str, list[tuple[str, str]]] = {}
    for key in holder["KeySchema"]:
        keys.setdefault(key["KeyType"], []).append((key["AttributeName"], kinds[key["AttributeName"]]))
    return keys


def _shown(keys: Sequence[tuple[str, str]]) -> str:
    return " and ".join(f"{name} ({kind})" for name, kind in keys) or "none"
