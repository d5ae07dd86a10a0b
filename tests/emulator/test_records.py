"""DeleteRecords on the emulator: stores with an index, keys of every type, large items, many items.

Whole requests through deployed functions, with the team's tables beside the demo's. The emulator's indexes are never
late, and it never throttles, refuses a transaction for another or for its size, or leaves keys unread: these ways are
tested over moto with answers put on the wire (tests/unit/handlers/steps/test_delete_records.py and
test_records_by_index.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from handlers.core.states import Status
from local.demo_stores import Stores, User
from local.emulator import Emulator
from tests.emulator.stack import Stack, deploy_stack

pytestmark = pytest.mark.long

STORES: Sequence[Mapping[str, str]] = (
    {
        "name": "messages",
        "table": "acme-messages",
        "partition_key": "room",
        "sort_key": "at",
        "sort_type": "N",
        "index": "by-author",
        "index_key": "author",
        "index_value": "{user_id}",
    },
    {
        "name": "devices",
        "table": "acme-devices",
        "partition_key": "serial",
        "partition_type": "B",
        "index": "by-customer",
        "index_key": "customer",
        "index_type": "N",
        "index_value": "{customer_id}",
    },
    {
        "name": "blobs",
        "table": "acme-blobs",
        "partition_key": "owner",
        "partition": "{user_id}",
        "partition_type": "B",
        "sort_key": "part",
        "sort_type": "B",
        "sort_prefix": "{user_id}/",
    },
    {
        "name": "visits",
        "table": "acme-visits",
        "partition_key": "customer",
        "partition": "{customer_id}",
        "partition_type": "N",
        "sort_key": "at",
        "sort_type": "N",
    },
)
LARGE = 400 * 1024 - 200
"""Bytes of text in an item of 400 KB, the largest there is."""


def make_tables(client: Any) -> None:
    """The tables of STORES, all empty."""
    kinds = {"room": "S", "at": "N", "author": "S", "serial": "B", "customer": "N", "owner": "B", "part": "B"}
    for store in STORES:
        keys = [(store["partition_key"], "HASH")]
        keys += [(store["sort_key"], "RANGE")] if "sort_key" in store else []
        indexes = [
            {
                "IndexName": store["index"],
                "KeySchema": [{"AttributeName": store["index_key"], "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
            for _ in range("index" in store)
        ]
        names = [name for name, _ in keys] + [store["index_key"] for _ in indexes]
        client.create_table(
            TableName=store["table"],
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": kinds[name]} for name in names],
            KeySchema=[{"AttributeName": name, "KeyType": role} for name, role in keys],
            **({"GlobalSecondaryIndexes": indexes} if indexes else {}),
        )


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """The stack with STORES instead of the demo's tables."""
    with Emulator.start(skip_waits=True) as emulator:
        stores = Stores(emulator)
        stores.make()
        make_tables(emulator.client("dynamodb"))
        yield deploy_stack(emulator, stores, record_stores=[dict(store) for store in STORES])


Item = Mapping[str, Mapping[str, Any]]


def items_of(user: User, *, messages: int, devices: int, blobs: int, visits: int) -> dict[str, list[Item]]:
    """Table -> what a user has in it."""
    name, customer = user.user_id, {"N": user.customer_id}
    # Everybody writes into the same rooms, at times of their own.
    offset = int(user.customer_id) * 10_000
    rooms = [f"room-{number % 7}" for number in range(messages)]
    return {
        "acme-messages": [
            {"room": {"S": room}, "at": {"N": str(offset + number)}, "author": {"S": name}, "text": {"S": "x" * 50}}
            for number, room in enumerate(rooms)
        ],
        "acme-devices": [
            {"serial": {"B": f"{name}\x00{number}".encode()}, "customer": customer} for number in range(devices)
        ],
        "acme-blobs": [
            {"owner": {"B": name.encode()}, "part": {"B": f"{name}/{number}".encode()}, "text": {"S": "x" * LARGE}}
            for number in range(blobs)
        ],
        "acme-visits": [{"customer": customer, "at": {"N": f"{number}.5"}} for number in range(visits)],
    }


OWNER = User(user_id="user-a1b2", customer_id="80001", orders=0, visits=0, files=0, clean_ups=0)
NEIGHBOUR = User(user_id="user-a1b20", customer_id="800010", orders=0, visits=0, files=0, clean_ups=0)
"""Each of whose names begins with the owner's."""


def put(client: Any, table: str, items: Sequence[Item]) -> None:
    size = 10 if table == "acme-blobs" else 25
    parts = [items[start : start + size] for start in range(0, len(items), size)]
    with ThreadPoolExecutor(4) as threads:
        list(
            threads.map(
                lambda part: client.batch_write_item(
                    RequestItems={table: [{"PutRequest": {"Item": item}} for item in part]}
                ),
                parts,
            )
        )


def contents(client: Any) -> dict[str, list[str]]:
    """Table -> every item in it, to the last byte."""
    pages = {store["table"]: client.get_paginator("scan").paginate(TableName=store["table"]) for store in STORES}
    return {table: sorted(repr(item) for page in found for item in page["Items"]) for table, found in pages.items()}


@pytest.mark.invariant("I3")
def test_items_under_any_kind_of_key_go_and_those_of_a_neighbour_stay_to_the_last_byte(stack: Stack) -> None:
    client = stack.client("dynamodb")
    sizes = {"messages": 1050, "devices": 3, "blobs": 12, "visits": 150}
    for table, items in items_of(NEIGHBOUR, messages=30, devices=2, blobs=1, visits=3).items():
        put(client, table, items)
    # In the owner's own partition, under the neighbour's prefix.
    put(client, "acme-blobs", [{"owner": {"B": b"user-a1b2"}, "part": {"B": b"user-a1b20/1"}}])
    before = contents(client)
    for table, items in items_of(OWNER, **sizes).items():
        put(client, table, items)
    request = stack.started(OWNER)

    record = stack.ended(request)

    assert record.status is Status.COMPLETED, record
    assert record.step("DeleteRecords").deleted == sizes
    assert record.step("DeleteRecords").invocations == 1
    assert contents(client) == before


@pytest.mark.invariant("I1")
def test_an_item_that_another_user_got_while_the_request_waited_stays(stack: Stack) -> None:
    client = stack.client("dynamodb")
    owner = User(user_id="user-c3d4", customer_id="80003", orders=0, visits=0, files=0, clean_ups=0)
    for table, items in items_of(owner, messages=3, devices=2, blobs=0, visits=0).items():
        put(client, table, items)
    request = str(stack.ask(owner, grace_days=0)["deletion_request_id"])
    given = {"room": {"S": "room-1"}, "at": {"N": "800030001"}, "author": {"S": "user-e5f6"}}
    put(client, "acme-messages", [given])
    stack.requests.due(request)

    record = stack.ended(request)

    assert record.status is Status.COMPLETED, record
    assert record.step("DeleteRecords").deleted == {"messages": 2, "devices": 2}
    assert client.get_item(TableName="acme-messages", Key={"room": given["room"], "at": given["at"]})["Item"] == given
