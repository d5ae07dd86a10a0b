"""Sequences of calls to compare a fake with another engine, and what of the answers is compared."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from botocore.exceptions import ClientError

from handlers.core.record import to_value
from handlers.core.request_table import expressions, request_key
from handlers.core.transition import Transition, render
from handlers.core.transitions import BEGIN_ERASING, CLAIM, FINISH, PROGRESS
from tests.fakes.client import Client
from tests.fakes.dynamodb import DynamoDB, Index, Table
from tests.fakes.s3 import S3, Bucket


@dataclass(frozen=True, slots=True)
class Step:
    """One call."""

    method: str
    """The client's."""
    params: Mapping[str, Any]
    """"$" and a number stands for an id that an answer gave."""
    wrong: Mapping[str, str] = field(default_factory=dict)
    """Engine -> what it has wrong here, so that its answer is not compared."""


Script = Callable[[], Iterator[Step]]

BUCKETS = {"enabled": "Enabled", "suspended": "Suspended", "without": ""}
TABLES = {
    "deletions": {"pk": "S"},
    "orders": {"pk": "S", "sk": "S"},
    "visits": {"customer": "N", "at": "N"},
    "blobs": {"id": "B"},
}
INDEXES: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "deletions": {},
    "orders": {"by-owner": {"owner": "S"}},
    "visits": {},
    "blobs": {},
}
REQUEST = f"del_{'0' * 26}"

_IDS = {"VersionId", "NextVersionIdMarker", "UploadId", "NextUploadIdMarker", "DeleteMarkerVersionId"}
_COMPARED = {
    *_IDS,
    *{"Versions", "DeleteMarkers", "Uploads", "Deleted", "Errors", "Code", "Key", "Size", "IsLatest", "DeleteMarker"},
    *{"IsTruncated", "NextKeyMarker"},
    *{"Item", "Items", "Attributes", "LastEvaluatedKey", "Count", "ScannedCount", "Responses", "UnprocessedKeys"},
    *{"CancellationReasons"},
}
"""Fields of an answer that the project may read."""
_AS_THEY_ARE = {"Item", "Items", "Attributes", "LastEvaluatedKey", "Responses", "UnprocessedKeys"}
"""Their insides are the table's own."""


def play(script: Script, client: Any, engine: str) -> list[Any]:
    """What a client answers to each call that this engine has right; ids become the order in which they came."""
    ids: dict[str, str] = {}
    answers = [(step, _answer(client, step.method, _filled(step.params, ids), ids)) for step in script()]
    return [(step.method, *answer) for step, answer in answers if engine not in step.wrong]


def _answer(client: Any, method: str, params: Mapping[str, Any], ids: dict[str, str]) -> tuple[Any, ...]:
    try:
        answer = getattr(client, method)(**params)
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        return error.response["Error"]["Code"], status, _compared(dict(error.response), ids)
    return (_compared(answer, ids),)


def _compared(value: Any, ids: dict[str, str]) -> Any:
    if isinstance(value, list):
        return [_compared(one, ids) for one in value]
    if not isinstance(value, Mapping):
        return value
    kept = {}
    for name, inner in value.items():
        if name in _AS_THEY_ARE:
            kept[name] = inner
        elif name in _IDS and inner != "null":
            kept[name] = next((alias for alias, known in ids.items() if known == inner), None)
            if kept[name] is None:
                kept[name] = f"${len(ids)}"
                ids[kept[name]] = inner
        elif name in _COMPARED:
            kept[name] = _compared(inner, ids)
    # An empty list and none say the same.
    return {name: inner for name, inner in kept.items() if inner not in ([], {}, "")}


def _filled(value: Any, ids: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {name: _filled(inner, ids) for name, inner in value.items()}
    if isinstance(value, list):
        return [_filled(one, ids) for one in value]
    return ids.get(value, value) if isinstance(value, str) else value


# -- S3


def buckets_in_memory() -> Client:
    """The same in memory."""
    return Client(S3({name: Bucket(versioning=versioning) for name, versioning in BUCKETS.items()}))


def make_buckets(client: Any) -> None:
    """The buckets that the scripts need."""
    for name, versioning in BUCKETS.items():
        client.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": client.meta.region_name})
        if versioning:
            client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": versioning})


def _lists(bucket: str, **params: Any) -> Step:
    return Step("list_object_versions", {"Bucket": bucket, **params})


def _deletes(bucket: str, *objects: tuple[str, str], quiet: bool = False) -> Step:
    wanted = [{"Key": key, "VersionId": id_} if id_ else {"Key": key} for key, id_ in objects]
    params = {"Bucket": bucket, "Delete": {"Objects": wanted, "Quiet": quiet}}
    return Step("delete_objects", params, {"moto": "ignores Quiet"} if quiet else {})


def versions_are_listed_and_deleted() -> Iterator[Step]:
    """Order, pages and prefixes of a bucket with versions; deletes by id and by name."""
    for key in ("u/1/b", "u/1/a", "u/10/a", "u/1/é", "u/1/Z", "u/1/a", "u/1/a"):  # $0 to $6
        yield Step("put_object", {"Bucket": "enabled", "Key": key, "Body": b"x"})
    yield Step("delete_object", {"Bucket": "enabled", "Key": "u/1/a"})  # $7
    yield _lists("enabled")
    yield _lists("enabled", Prefix="u/1/")
    yield _lists("enabled", Prefix="u/2/")
    yield _lists("enabled", Prefix="u/1/", MaxKeys=3)
    yield _lists("enabled", Prefix="u/1/", MaxKeys=2, KeyMarker="u/1/a", VersionIdMarker="$6")
    yield _lists("enabled", Prefix="u/1/", MaxKeys=2, KeyMarker="u/1/a", VersionIdMarker="$1")
    # "The key to start with when listing", but only behind it:
    # https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectVersions.html
    yield replace(_lists("enabled", Prefix="u/1/", KeyMarker="u/1/a"), wrong={"moto": "lists the marker's key again"})
    yield _deletes("enabled", ("u/1/a", "$5"), ("u/1/b", "$0"))
    yield _deletes("enabled", ("u/1/a", "$7"), quiet=True)
    yield _lists("enabled", Prefix="u/1/")
    yield Step("delete_object", {"Bucket": "enabled", "Key": "u/1/a", "VersionId": "$6"})
    yield _lists("enabled")
    yield _lists("nowhere")
    yield _deletes("nowhere", ("a", ""))


def suspended_versioning_replaces_the_null_version() -> Iterator[Step]:
    """Writes and deletes where versioning is suspended."""
    no_marker = {"moto": "writes no delete marker where versioning is suspended"}
    for key in ("a", "a", "b"):
        yield Step("put_object", {"Bucket": "suspended", "Key": key, "Body": b"xy"})
    yield _lists("suspended")
    yield Step("delete_object", {"Bucket": "suspended", "Key": "a"}, no_marker)
    yield replace(_lists("suspended"), wrong=no_marker)
    yield _deletes("suspended", ("a", "null"), ("b", "null"), quiet=True)
    yield _lists("suspended")


def a_bucket_without_versions_lists_null() -> Iterator[Step]:
    """Writes and deletes where there never were versions."""
    for key in ("a", "a", "b", "c"):
        yield Step("put_object", {"Bucket": "without", "Key": key, "Body": b"xy"})
    yield _lists("without", MaxKeys=2)
    yield _deletes("without", ("a", "null"), ("b", ""), quiet=True)
    no_id = {"moto": "tells no version id where there are no versions"}
    yield Step("delete_object", {"Bucket": "without", "Key": "c", "VersionId": "null"}, no_id)
    yield _lists("without")


def uploads_are_listed_and_aborted() -> Iterator[Step]:
    """Unfinished uploads."""
    for key in ("u/1/b c+d", "u/1/a", "u/10/a"):  # $0 to $2
        yield Step("create_multipart_upload", {"Bucket": "enabled", "Key": key})
    unsorted = {"moto": "lists uploads in the order in which they began"}
    yield Step("list_multipart_uploads", {"Bucket": "enabled", "Prefix": "u/1/"}, unsorted)
    yield Step("list_parts", {"Bucket": "enabled", "Key": "u/1/a", "UploadId": "$1"})
    yield Step("abort_multipart_upload", {"Bucket": "enabled", "Key": "u/1/a", "UploadId": "$1"})
    yield Step("abort_multipart_upload", {"Bucket": "enabled", "Key": "u/1/a", "UploadId": "$1"})
    yield Step("list_parts", {"Bucket": "enabled", "Key": "u/1/a", "UploadId": "$1"})
    yield Step("list_multipart_uploads", {"Bucket": "enabled"})
    yield Step("get_object_lock_configuration", {"Bucket": "enabled"})


S3_SCRIPTS: tuple[Script, ...] = (
    versions_are_listed_and_deleted,
    suspended_versioning_replaces_the_null_version,
    a_bucket_without_versions_lists_null,
    uploads_are_listed_and_aborted,
)


# -- DynamoDB


def tables_in_memory() -> Client:
    """The same in memory."""
    tables = {
        name: Table(keys=tuple(keys), indexes={index: Index(keys=tuple(own)) for index, own in INDEXES[name].items()})
        for name, keys in TABLES.items()
    }
    return Client(DynamoDB(tables))


def make_tables(client: Any) -> None:
    """The tables that the scripts need."""
    for name, keys in TABLES.items():
        indexes = [
            {
                "IndexName": index,
                "KeySchema": [{"AttributeName": key, "KeyType": "HASH"} for key in own],
                "Projection": {"ProjectionType": "ALL"},
            }
            for index, own in INDEXES[name].items()
        ]
        named = {**keys, **{key: kind for own in INDEXES[name].values() for key, kind in own.items()}}
        client.create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": kind} for key, kind in named.items()],
            KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, ("HASH", "RANGE"))],  # noqa: B905 (one or two keys)
            **({"GlobalSecondaryIndexes": indexes} if indexes else {}),
        )


_RECORD = {
    "deletion_request_id": REQUEST,
    "status": "SCHEDULED",
    "attempt": 1,
    "claimed": 0,
    "grace_ends_at": 5,
    "fence": 0,
    "seq": 0,
    "undoing": 0,
    "steps": {},
}
_VALUES: Mapping[str, object] = {
    "me": "one",
    "attempt": 1,
    "now": 10,
    "due_at": 20,
    "definition": "d1",
    "undo_dead": 0,
    "fence": 2,
    "fence_after": 3,
    "seq_before": 0,
    "seq": 1,
    "deleted": {"orders": 2},
    "batch": {"size": 2},
}


def _write(transition: Transition, *, each: tuple[str, ...] = (), **values: object) -> dict[str, Any]:
    rendered = render(transition, step="DeleteRecords", each=each)
    request = expressions("deletions", request_key(REQUEST), rendered, {**_VALUES, **values})
    return {**request, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}


def _update(transition: Transition, *, each: tuple[str, ...] = (), **values: object) -> Step:
    return Step("update_item", {**_write(transition, each=each, **values), "ReturnValues": "ALL_NEW"})


def _put(table: str, **attributes: object) -> Step:
    item = {name: to_value(value) for name, value in attributes.items()}
    return Step("put_item", {"TableName": table, "Item": item})


def _order(number: int, user: str = "1") -> dict[str, Any]:
    return {"pk": {"S": f"USER#{user}"}, "sk": {"S": f"{number:02}"}}


def _transacts(*actions: Mapping[str, Any]) -> Step:
    return Step("transact_write_items", {"TransactItems": list(actions)})


def _delete(number: int, **more: Any) -> Mapping[str, Any]:
    return {"Delete": {"TableName": "orders", "Key": _order(number), **more}}


def _read() -> Step:
    return Step("get_item", {"TableName": "deletions", "Key": request_key(REQUEST), "ConsistentRead": True})


def the_protocol_goes_its_way() -> Iterator[Step]:
    """Claim, begin, progress and finish: as they should go, again, by a foreign owner and with an old fence."""
    yield _update(BEGIN_ERASING)
    yield _put("deletions", pk=f"REQUEST#{REQUEST}", **_RECORD)
    yield _update(CLAIM, each=("DeleteRecords", "VerifyErasure"), attempt=2)
    yield _update(CLAIM, each=("DeleteRecords", "VerifyErasure"), now=1)
    yield _update(CLAIM, each=("DeleteRecords", "VerifyErasure"))
    yield _update(BEGIN_ERASING, me="two")
    yield _update(BEGIN_ERASING)
    yield _update(PROGRESS, fence=1)
    yield _update(PROGRESS)
    yield _update(PROGRESS)
    yield _update(FINISH, fence=1)
    yield _update(FINISH)
    yield _update(FINISH)
    yield _update(BEGIN_ERASING)
    yield _read()


def a_transaction_is_all_or_nothing() -> Iterator[Step]:
    """Progress with deletes: with the fence, without it, with a delete whose condition fails."""
    for number in range(4):
        yield _put("orders", pk="USER#1", sk=f"{number:02}", owner="a")
    yield _put("deletions", pk=f"REQUEST#{REQUEST}", **_RECORD)
    yield _update(CLAIM, each=("DeleteRecords", "VerifyErasure"))
    yield _update(BEGIN_ERASING)
    owned = {
        "ConditionExpression": "#owner = :owner",
        "ExpressionAttributeNames": {"#owner": "owner"},
        "ExpressionAttributeValues": {":owner": {"S": "b"}},
    }
    there = {"ConditionExpression": "attribute_exists(#pk)", "ExpressionAttributeNames": {"#pk": "pk"}}
    yield _transacts({"Update": _write(PROGRESS, fence=1)}, _delete(0))
    yield _transacts({"Update": _write(PROGRESS)}, _delete(0, **owned), _delete(1))
    yield _transacts({"Update": _write(PROGRESS)}, _delete(9, **there), _delete(1))
    yield _transacts({"Update": _write(PROGRESS)}, _delete(0, **there), _delete(1), _delete(9))
    yield _transacts({"Update": _write(PROGRESS)}, _delete(2), _delete(2))
    yield _read()
    yield _listed()


def _listed(**more: Any) -> Step:
    return Step(
        "query",
        {
            "TableName": "orders",
            "ConsistentRead": True,
            "KeyConditionExpression": "#pk = :pk",
            "ExpressionAttributeNames": {"#pk": "pk"},
            "ExpressionAttributeValues": {":pk": {"S": "USER#1"}},
            **more,
        },
    )


def queries_go_page_by_page() -> Iterator[Step]:
    """Order, limits, sort-key prefixes and keys of every type."""
    for number in (3, 1, 2, 10, 0):
        yield _put("orders", pk="USER#1", sk=f"{number:02}", text="x")
        yield _put("visits", customer=7, at=number)
    yield _put("orders", pk="USER#10", sk="00")
    yield _listed()
    yield _listed(Limit=2)
    # "If you reach the limit, it returns the matching values up to that point and a key to go on from":
    # https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_Query.html#DDB-Query-request-Limit
    yield replace(_listed(Limit=5), wrong={"moto": "tells the end although the limit was reached"})
    yield _listed(Limit=2, ExclusiveStartKey=_order(1))
    yield _listed(ExclusiveStartKey=_order(5))
    names, values = {"#pk": "pk", "#sk": "sk"}, {":pk": {"S": "USER#1"}, ":sk": {"S": "0"}}
    yield _listed(
        KeyConditionExpression="#pk = :pk AND begins_with(#sk, :sk)",
        ProjectionExpression="#pk, #sk",
        ExpressionAttributeNames=names,
        ExpressionAttributeValues=values,
    )
    yield Step(
        "query",
        {
            "TableName": "visits",
            "KeyConditionExpression": "customer = :c",
            "ExpressionAttributeValues": {":c": {"N": "7"}},
        },
    )
    yield Step("put_item", {"TableName": "blobs", "Item": {"id": {"B": b"1"}}})
    yield Step(
        "query",
        {
            "TableName": "blobs",
            "KeyConditionExpression": "id = :i",
            "ExpressionAttributeValues": {":i": {"B": b"1"}},
        },
    )
    yield Step("query", {**_listed().params, "TableName": "nowhere"})
    yield _listed(ExpressionAttributeNames=names)


def an_index_finds_items_and_a_batch_reads_them() -> Iterator[Step]:
    """A global secondary index and BatchGetItem."""
    for number in range(3):
        yield _put("orders", pk=f"ORDER#{number}", sk="x", owner="a" if number else "b")
    yield _put("orders", pk="ORDER#9", sk="x")
    by_owner = {
        "TableName": "orders",
        "IndexName": "by-owner",
        "KeyConditionExpression": "#owner = :owner",
        "ExpressionAttributeNames": {"#owner": "owner"},
        "ExpressionAttributeValues": {":owner": {"S": "a"}},
    }
    yield Step("query", by_owner)
    yield Step("query", {**by_owner, "IndexName": "by-nothing"}, {"moto": "takes the index for a resource"})
    yield Step("query", {**by_owner, "ConsistentRead": True})
    key = {"pk": {"S": "ORDER#1"}, "sk": {"S": "x"}}
    yield Step("batch_get_item", {"RequestItems": {"orders": {"Keys": [key], "ConsistentRead": True}}})
    yield Step("delete_item", {"TableName": "orders", "Key": key})
    yield Step("query", by_owner)
    yield Step("batch_get_item", {"RequestItems": {"orders": {"Keys": [key], "ConsistentRead": True}}})


DYNAMODB_SCRIPTS: tuple[Script, ...] = (
    the_protocol_goes_its_way,
    a_transaction_is_all_or_nothing,
    queries_go_page_by_page,
    an_index_finds_items_and_a_batch_reads_them,
)
