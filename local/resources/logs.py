"""aws:cloudwatch/* that belongs to CloudWatch Logs"""

from __future__ import annotations

import uuid
from typing import Any

from local.resources.base import Json, Made, ResourceType, World, changed, document, quietly, tag_changes, taken


def _group_arn(world: World, name: str) -> str:
    return f"arn:aws:logs:{world.region}:{world.account}:log-group:{name}"


def _create_group(world: World, inputs: Json) -> Made:
    client, name = world.client("logs"), inputs["name"]
    client.create_log_group(
        logGroupName=name,
        **taken(inputs, kmsKeyId="kmsKeyId", logGroupClass="logGroupClass"),
        **({"tags": inputs["tags"]} if inputs.get("tags") else {}),
    )
    _retention(client, name, {}, inputs)
    return Made(name, {"arn": _group_arn(world, name)})


def _retention(client: Any, name: str, old: Json, new: Json) -> None:
    days = new.get("retentionInDays", 0)
    if days:
        client.put_retention_policy(logGroupName=name, retentionInDays=days)
    elif old.get("retentionInDays"):
        client.delete_retention_policy(logGroupName=name)


def _update_group(world: World, name: str, old: Json, new: Json) -> Json:
    client, arn = world.client("logs"), _group_arn(world, name)
    _retention(client, name, old, new)
    if changed(old, new, "kmsKeyId"):
        if new.get("kmsKeyId"):
            client.associate_kms_key(logGroupName=name, kmsKeyId=new["kmsKeyId"])
        else:
            client.disassociate_kms_key(logGroupName=name)
    added, removed = tag_changes(old, new)
    if added:
        client.tag_resource(resourceArn=arn, tags=added)
    if removed:
        client.untag_resource(resourceArn=arn, tagKeys=removed)
    return {"arn": arn}


def _delete_group(world: World, name: str, _outputs: Json) -> None:
    quietly(world.client("logs").delete_log_group, logGroupName=name)


def _put_resource_policy(world: World, inputs: Json) -> None:
    world.client("logs").put_resource_policy(
        policyName=inputs["policyName"], policyDocument=document(inputs["policyDocument"])
    )


def _create_resource_policy(world: World, inputs: Json) -> Made:
    _put_resource_policy(world, inputs)
    return Made(inputs["policyName"], {})


def _update_resource_policy(world: World, _id: str, _old: Json, new: Json) -> Json:
    _put_resource_policy(world, new)
    return {}


def _delete_resource_policy(world: World, name: str, _outputs: Json) -> None:
    quietly(world.client("logs").delete_resource_policy, policyName=name)


def _query_id(inputs: Json) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, inputs["name"]))


def _create_query(_world: World, inputs: Json) -> Made:
    query_id = _query_id(inputs)
    return Made(query_id, {"queryDefinitionId": query_id})


def _update_query(_world: World, query_id: str, _old: Json, _new: Json) -> Json:
    return {"queryDefinitionId": query_id}


def _delete_query(_world: World, _id: str, _outputs: Json) -> None:
    pass


LOG_GROUP = ResourceType(
    pulumi_type="aws:cloudwatch/logGroup:LogGroup",
    honoured=frozenset({"name", "tags"}),
    not_honoured={
        "retentionInDays": "stored and described; nothing is deleted",
        "kmsKeyId": "stored; nothing is encrypted",
        "logGroupClass": "stored",
        "skipDestroy": "a local log group is always removed",
    },
    replaces=frozenset({"name", "logGroupClass"}),
    named_by="name",
    create=_create_group,
    update=_update_group,
    delete=_delete_group,
)

RESOURCE_POLICY = ResourceType(
    pulumi_type="aws:cloudwatch/logResourcePolicy:LogResourcePolicy",
    honoured=frozenset({"policyName"}),
    not_honoured={"policyDocument": "stored and described; nothing is enforced"},
    replaces=frozenset({"policyName"}),
    named_by="policyName",
    create=_create_resource_policy,
    update=_update_resource_policy,
    delete=_delete_resource_policy,
)

QUERY_DEFINITION = ResourceType(
    pulumi_type="aws:cloudwatch/queryDefinition:QueryDefinition",
    honoured=frozenset(),
    not_honoured={
        "name": "the emulator has no query definitions: nothing is made",
        "queryString": "the emulator has no query definitions: nothing is made",
        "logGroupNames": "the emulator has no query definitions: nothing is made",
    },
    replaces=frozenset({"name"}),
    named_by="name",
    create=_create_query,
    update=_update_query,
    delete=_delete_query,
)

TYPES = (LOG_GROUP, RESOURCE_POLICY, QUERY_DEFINITION)
