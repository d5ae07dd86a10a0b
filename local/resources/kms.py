"""aws:kms/*"""

from __future__ import annotations

from typing import Any

from local.resources.base import (
    Json,
    Made,
    ResourceType,
    World,
    changed,
    document,
    pairs,
    quietly,
    tag_changes,
    taken,
)


def _outputs(metadata: Json) -> Json:
    return {"arn": metadata["Arn"], "keyId": metadata["KeyId"]}


def _create_key(world: World, inputs: Json) -> Made:
    client = world.client("kms")
    policy = {"Policy": document(inputs["policy"])} if inputs.get("policy") else {}
    metadata = client.create_key(
        Description=inputs.get("description", ""),
        Tags=pairs(inputs.get("tags"), "TagKey", "TagValue"),
        **policy,
        **taken(inputs, "keyUsage", "multiRegion", customerMasterKeySpec="KeySpec"),
    )["KeyMetadata"]
    _switches(client, metadata["KeyId"], {}, inputs)
    return Made(metadata["KeyId"], _outputs(metadata))


def _switches(client: Any, key: str, old: Json, new: Json) -> None:
    before, after = old.get("isEnabled", True), new.get("isEnabled", True)
    if before != after:
        (client.enable_key if after else client.disable_key)(KeyId=key)
    rotation = bool(new.get("enableKeyRotation"))
    if bool(old.get("enableKeyRotation")) != rotation:
        (client.enable_key_rotation if rotation else client.disable_key_rotation)(KeyId=key)


def _update_key(world: World, key: str, old: Json, new: Json) -> Json:
    client = world.client("kms")
    if changed(old, new, "description"):
        client.update_key_description(KeyId=key, Description=new.get("description", ""))
    if changed(old, new, "policy") and new.get("policy"):
        client.put_key_policy(KeyId=key, PolicyName="default", Policy=document(new["policy"]))
    _switches(client, key, old, new)
    added, removed = tag_changes(old, new)
    if added:
        client.tag_resource(KeyId=key, Tags=pairs(added, "TagKey", "TagValue"))
    if removed:
        client.untag_resource(KeyId=key, TagKeys=removed)
    return _outputs(client.describe_key(KeyId=key)["KeyMetadata"])


def _delete_key(world: World, key: str, outputs: Json) -> None:
    quietly(
        world.client("kms").schedule_key_deletion,
        absent=("NotFoundException", "KMSInvalidStateException"),
        KeyId=key,
        PendingWindowInDays=int(outputs.get("deletionWindowInDays", 30)),
    )


def _alias_outputs(world: World, alias: Json) -> Json:
    target = world.client("kms").describe_key(KeyId=alias["targetKeyId"])["KeyMetadata"]
    return {
        "arn": f"arn:aws:kms:{world.region}:{world.account}:{alias['name']}",
        "targetKeyArn": target["Arn"],
    }


def _create_alias(world: World, inputs: Json) -> Made:
    world.client("kms").create_alias(AliasName=inputs["name"], TargetKeyId=inputs["targetKeyId"])
    return Made(inputs["name"], _alias_outputs(world, inputs))


def _update_alias(world: World, name: str, _old: Json, new: Json) -> Json:
    world.client("kms").update_alias(AliasName=name, TargetKeyId=new["targetKeyId"])
    return _alias_outputs(world, new)


def _delete_alias(world: World, name: str, _outputs: Json) -> None:
    quietly(world.client("kms").delete_alias, absent=("NotFoundException",), AliasName=name)


KEY = ResourceType(
    pulumi_type="aws:kms/key:Key",
    honoured=frozenset(
        {"description", "keyUsage", "customerMasterKeySpec", "isEnabled", "tags", "deletionWindowInDays"}
    ),
    not_honoured={
        "policy": "stored and described; nothing is enforced",
        "enableKeyRotation": "stored and described; a key never rotates",
        "multiRegion": "stored; a local run has one Region",
        "bypassPolicyLockoutSafetyCheck": "nothing is enforced",
    },
    replaces=frozenset({"keyUsage", "customerMasterKeySpec", "multiRegion"}),
    create=_create_key,
    update=_update_key,
    delete=_delete_key,
)

ALIAS = ResourceType(
    pulumi_type="aws:kms/alias:Alias",
    honoured=frozenset({"name", "targetKeyId"}),
    replaces=frozenset({"name"}),
    create=_create_alias,
    update=_update_alias,
    delete=_delete_alias,
)

TYPES = (KEY, ALIAS)
