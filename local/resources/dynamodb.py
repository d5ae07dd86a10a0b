"""aws:dynamodb/*"""

from __future__ import annotations

from typing import Any

from local.resources.base import (
    Json,
    Made,
    RefusedValueError,
    ResourceType,
    World,
    changed,
    first,
    pairs,
    quietly,
    shape,
    tag_changes,
    taken,
)

_INDEX = ("globalSecondaryIndexes", "attributes")


def _attributes(inputs: Json) -> list[Json]:
    return [
        shape("attributes", item, name="AttributeName", type="AttributeType") for item in inputs.get("attributes", [])
    ]


def _key(hash_key: str, range_key: str | None) -> list[Json]:
    schema = [{"AttributeName": hash_key, "KeyType": "HASH"}]
    return [*schema, {"AttributeName": range_key, "KeyType": "RANGE"}] if range_key else schema


def _index(index: Json) -> Json:
    keys = index.get("keySchemas")
    fields = shape(
        "globalSecondaryIndexes",
        {name: value for name, value in index.items() if name not in ("keySchemas", "hashKey", "rangeKey")},
        "readCapacity",
        "writeCapacity",
        "nonKeyAttributes",
        name="IndexName",
        projectionType="ProjectionType",
    )
    projection = taken(fields, NonKeyAttributes="NonKeyAttributes", ProjectionType="ProjectionType")
    return {
        "IndexName": fields["IndexName"],
        "KeySchema": [shape("globalSecondaryIndexes.keySchemas", key, "attributeName", "keyType") for key in keys]
        if keys
        else _key(index["hashKey"], index.get("rangeKey")),
        "Projection": projection,
    }


def _stream(inputs: Json) -> Json:
    if not inputs.get("streamEnabled"):
        return {}
    return {"StreamSpecification": {"StreamEnabled": True, **taken(inputs, "streamViewType")}}


def _encryption(inputs: Json) -> Json:
    if not (value := first(inputs.get("serverSideEncryption"))):
        return {}
    fields = shape("serverSideEncryption", value, enabled="Enabled", kmsKeyArn="KMSMasterKeyId")
    return {"SSESpecification": {**fields, "SSEType": "KMS"} if fields.get("Enabled") else fields}


def _create(world: World, inputs: Json) -> Made:
    client, name = world.client("dynamodb"), inputs["name"]
    mode = inputs.get("billingMode", "PROVISIONED")
    answer = client.create_table(
        TableName=name,
        BillingMode=mode,
        KeySchema=_key(inputs["hashKey"], inputs.get("rangeKey")),
        AttributeDefinitions=_attributes(inputs),
        DeletionProtectionEnabled=bool(inputs.get("deletionProtectionEnabled")),
        Tags=pairs(inputs.get("tags")),
        **({"GlobalSecondaryIndexes": indexes} if (indexes := _indexes(inputs)) else {}),
        **_throughput(inputs, mode),
        **_stream(inputs),
        **_encryption(inputs),
    )
    _options(client, name, {}, inputs)
    return Made(name, _outputs(answer["TableDescription"]))


def _indexes(inputs: Json) -> list[Json]:
    return [_index(index) for index in inputs.get("globalSecondaryIndexes", [])]


def _throughput(inputs: Json, mode: str) -> Json:
    if mode == "PAY_PER_REQUEST":
        return {}
    units = {"ReadCapacityUnits": inputs.get("readCapacity", 1), "WriteCapacityUnits": inputs.get("writeCapacity", 1)}
    return {"ProvisionedThroughput": units}


def _options(client: Any, name: str, old: Json, new: Json) -> None:
    """What has calls of its own."""
    if changed(old, new, "pointInTimeRecovery"):
        value = first(new.get("pointInTimeRecovery")) or {"enabled": False}
        fields = shape(
            "pointInTimeRecovery",
            value,
            enabled="PointInTimeRecoveryEnabled",
            recoveryPeriodInDays="RecoveryPeriodInDays",
        )
        client.update_continuous_backups(TableName=name, PointInTimeRecoverySpecification=fields)
    if changed(old, new, "ttl"):
        _ttl(client, name, first(old.get("ttl")), first(new.get("ttl")))


def _ttl(client: Any, name: str, old: Json | None, new: Json | None) -> None:
    if new is not None:
        fields = shape("ttl", new, enabled="Enabled", attributeName="AttributeName")
    elif old is not None and old.get("enabled"):
        fields = {"Enabled": False, "AttributeName": old["attributeName"]}
    else:
        return
    if fields.get("Enabled") or (old and old.get("enabled")):
        client.update_time_to_live(TableName=name, TimeToLiveSpecification=fields)


def _update(world: World, name: str, old: Json, new: Json) -> Json:
    client = world.client("dynamodb")
    if changed(old, new, "deletionProtectionEnabled"):
        client.update_table(TableName=name, DeletionProtectionEnabled=bool(new.get("deletionProtectionEnabled")))
    if changed(old, new, "billingMode", "readCapacity", "writeCapacity"):
        mode = new.get("billingMode", "PROVISIONED")
        client.update_table(TableName=name, BillingMode=mode, **_throughput(new, mode))
    if changed(old, new, "streamEnabled", "streamViewType"):
        client.update_table(TableName=name, **(_stream(new) or {"StreamSpecification": {"StreamEnabled": False}}))
    if changed(old, new, "serverSideEncryption"):
        client.update_table(TableName=name, **(_encryption(new) or {"SSESpecification": {"Enabled": False}}))
    _update_indexes(client, name, old, new)
    _options(client, name, old, new)
    description = client.describe_table(TableName=name)["Table"]
    added, removed = tag_changes(old, new)
    if added:
        client.tag_resource(ResourceArn=description["TableArn"], Tags=pairs(added))
    if removed:
        client.untag_resource(ResourceArn=description["TableArn"], TagKeys=removed)
    return _outputs(description)


def _update_indexes(client: Any, name: str, old: Json, new: Json) -> None:
    before = {index["IndexName"]: index for index in _indexes(old)}
    after = {index["IndexName"]: index for index in _indexes(new)}
    for gone in before.keys() - after.keys():
        client.update_table(TableName=name, GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": gone}}])
    for index_name, index in after.items():
        if index_name not in before:
            client.update_table(
                TableName=name,
                AttributeDefinitions=_attributes(new),
                GlobalSecondaryIndexUpdates=[{"Create": index}],
            )
        elif before[index_name] != index:
            raise RefusedValueError(
                "globalSecondaryIndexes", index_name, "an index cannot be changed; give it another name"
            )


def _outputs(table: Json) -> Json:
    return {"arn": table["TableArn"], "streamArn": table.get("LatestStreamArn", ""), "id": table["TableName"]}


def _delete(world: World, name: str, _outputs: Json) -> None:
    quietly(world.client("dynamodb").delete_table, TableName=name)


TABLE = ResourceType(
    pulumi_type="aws:dynamodb/table:Table",
    honoured=frozenset(
        {
            "name",
            "billingMode",
            "hashKey",
            "rangeKey",
            "attributes",
            "globalSecondaryIndexes",
            "deletionProtectionEnabled",
            "ttl",
            "streamEnabled",
            "streamViewType",
            "tags",
        }
    ),
    not_honoured={
        "pointInTimeRecovery": "stored and described; there are no backups to restore from",
        "serverSideEncryption": "stored and described; nothing is encrypted",
        "readCapacity": "stored and described; nothing is throttled",
        "writeCapacity": "stored and described; nothing is throttled",
        "tableClass": "there is nothing to pay",
    },
    replaces=frozenset({"name", "hashKey", "rangeKey"}),
    named_by="name",
    create=_create,
    update=_update,
    delete=_delete,
)

TYPES = (TABLE,)
