"""What a team would write without this project: the usual loop over boto3, for comparison. Each is a handler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import boto3
from boto3.dynamodb.conditions import Key


def versions_by_collection(event: Mapping[str, str], _: Any) -> Mapping[str, bool]:
    """All versions under a prefix by boto3's collection, which lists while it deletes."""
    bucket: Any = boto3.resource("s3").Bucket(event["bucket"])
    bucket.object_versions.filter(Prefix=event["prefix"]).delete()
    return {"done": True}


def items_by_batch_writer(event: Mapping[str, str], _: Any) -> Mapping[str, bool]:
    """All items of a partition by boto3's batch_writer."""
    table: Any = boto3.resource("dynamodb").Table(event["table"])
    query: dict[str, Any] = {
        "KeyConditionExpression": Key("pk").eq(event["partition"]),
        "ProjectionExpression": "pk, sk",
    }
    with table.batch_writer() as batch:
        while True:
            page = table.query(**query)
            for key in page["Items"]:
                batch.delete_item(Key=key)
            if "LastEvaluatedKey" not in page:
                return {"done": True}
            query["ExclusiveStartKey"] = page["LastEvaluatedKey"]


def nothing(_event: object, _context: Any) -> Mapping[str, bool]:
    """What a process costs before it does anything."""
    return {"done": True}
