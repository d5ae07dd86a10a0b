"""Deletes the user's items in the configured DynamoDB tables.

Done when: a fresh consistent query of every store lists nothing.
Safe to repeat because: each batch is one transaction with the progress write, so a worker without the fence deletes
nothing and the counts are exact, whatever is lost on the way.
Leaves open: indexes are emptied by DynamoDB itself, later than the table; backups and point-in-time recovery keep
deleted items as long as they are configured to (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/
PointInTimeRecovery.html); streams keep them for 24 hours.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from handlers.core import aws, settings
from handlers.core.checkpoint import Again, Checkpoint, Done
from handlers.core.fenced import MAX_DELETES, FencedDeletes
from handlers.core.frame import step_handler
from handlers.core.person import Person
from handlers.core.stores import RecordStore

PAGE = 10 * MAX_DELETES
"""Keys listed at once; after their deletes the listing begins again from the front."""

Key = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSettings:
    """What the step needs besides the frame's settings."""

    record_stores: tuple[RecordStore, ...]
    """The tables that hold the user's items."""


@step_handler()
def handler(checkpoint: Checkpoint) -> Done | Again:
    """Empty one store after the other."""
    for store in settings.load(RecordSettings).record_stores:
        deletes = FencedDeletes(checkpoint, store.name)
        while keys := _first_keys(store, checkpoint.person):
            if not deletes.delete([{"TableName": store.table_name, "Key": key} for key in keys]):
                return Again()
    return Done()


def remaining(person: Person) -> Mapping[str, int]:
    """How many items each store still has, listed afresh."""
    return {
        store.name: sum(len(page) for page in _pages(store, person))
        for store in settings.load(RecordSettings).record_stores
    }


def _first_keys(store: RecordStore, person: Person) -> Sequence[Key]:
    # A page may be empty although another follows, so the first page that holds something counts.
    return next((page for page in _pages(store, person) if page), ())


def _pages(store: RecordStore, person: Person) -> Iterator[Sequence[Key]]:
    request = _query(store, person)
    while True:
        with aws.our_errors("Query"):
            answer = aws.client("dynamodb").query(**request)
        yield answer["Items"]
        if "LastEvaluatedKey" not in answer:
            return
        request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]


def _query(store: RecordStore, person: Person) -> dict[str, Any]:
    names = {"#pk": store.partition_key}
    values = {":pk": _typed(store.partition_type, person.fill(store.partition))}
    condition = "#pk = :pk"
    if store.sort_key is not None:
        names["#sk"] = store.sort_key
        if store.sort_prefix is not None:
            values[":sk"] = {"S": person.fill(store.sort_prefix)}
            condition += " AND begins_with(#sk, :sk)"
    return {
        "TableName": store.table_name,
        "ConsistentRead": True,
        "KeyConditionExpression": condition,
        "ProjectionExpression": ", ".join(names),
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
        "Limit": PAGE,
    }


def _typed(kind: str, value: str) -> dict[str, Any]:
    return {kind: value.encode() if kind == "B" else value}
