"""aws:sqs/* and aws:sns/*"""

from __future__ import annotations

import json

from local.resources.base import Json, Made, ResourceType, World, document, pairs, quietly, tag_changes

_QUEUE_ATTRIBUTES = {
    "visibilityTimeoutSeconds": ("VisibilityTimeout", "30"),
    "messageRetentionSeconds": ("MessageRetentionPeriod", "345600"),
    "maxMessageSize": ("MaximumMessageSize", "262144"),
    "delaySeconds": ("DelaySeconds", "0"),
    "receiveWaitTimeSeconds": ("ReceiveMessageWaitTimeSeconds", "0"),
    "policy": ("Policy", ""),
    "redrivePolicy": ("RedrivePolicy", ""),
    "redriveAllowPolicy": ("RedriveAllowPolicy", ""),
    "kmsMasterKeyId": ("KmsMasterKeyId", ""),
    "kmsDataKeyReusePeriodSeconds": ("KmsDataKeyReusePeriodSeconds", "300"),
    "sqsManagedSseEnabled": ("SqsManagedSseEnabled", "true"),
    "contentBasedDeduplication": ("ContentBasedDeduplication", "false"),
}
"""input -> (attribute, what it goes back to when the input is removed)"""
_TLS = "aws:SecureTransport"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    # Pulumi's numbers arrive as floats by some ways in.
    return str(int(value)) if isinstance(value, float) else document(value) if isinstance(value, dict) else str(value)


def _attributes(inputs: Json) -> dict[str, str]:
    return {
        attribute: _text(inputs[name])
        for name, (attribute, _default) in _QUEUE_ATTRIBUTES.items()
        if inputs.get(name) is not None
    }


def _queue_outputs(world: World, inputs: Json, url: str) -> Json:
    return {"url": url, "arn": f"arn:aws:sqs:{world.region}:{world.account}:{inputs['name']}"}


def _create_queue(world: World, inputs: Json) -> Made:
    attributes = _attributes(inputs)
    if inputs.get("fifoQueue"):
        attributes["FifoQueue"] = "true"
    url = world.client("sqs").create_queue(
        QueueName=inputs["name"], Attributes=attributes, tags=inputs.get("tags") or {}
    )["QueueUrl"]
    return Made(url, _queue_outputs(world, inputs, url))


def _update_queue(world: World, url: str, old: Json, new: Json) -> Json:
    client = world.client("sqs")
    removed = {
        attribute: default
        for name, (attribute, default) in _QUEUE_ATTRIBUTES.items()
        if old.get(name) is not None and new.get(name) is None
    }
    client.set_queue_attributes(QueueUrl=url, Attributes={**removed, **_attributes(new)})
    added, gone = tag_changes(old, new)
    if added:
        client.tag_queue(QueueUrl=url, Tags=added)
    if gone:
        client.untag_queue(QueueUrl=url, TagKeys=gone)
    return _queue_outputs(world, new, url)


def _delete_queue(world: World, url: str, _outputs: Json) -> None:
    quietly(
        world.client("sqs").delete_queue,
        absent=(
            "QueueDoesNotExist",
            "NonExistentQueue",
        ),
        QueueUrl=url,
    )


def _put_queue_policy(world: World, inputs: Json) -> None:
    policy: Json = json.loads(document(inputs["policy"]))
    # The emulator has no TLS: what takes nothing else would be closed to everybody, its own deployer included.
    statements = [one for one in policy["Statement"] if _TLS not in one.get("Condition", {}).get("Bool", {})]
    world.client("sqs").set_queue_attributes(
        QueueUrl=inputs["queueUrl"], Attributes={"Policy": json.dumps({**policy, "Statement": statements})}
    )


def _create_queue_policy(world: World, inputs: Json) -> Made:
    _put_queue_policy(world, inputs)
    return Made(inputs["queueUrl"], {})


def _update_queue_policy(world: World, _id: str, _old: Json, new: Json) -> Json:
    _put_queue_policy(world, new)
    return {}


def _delete_queue_policy(world: World, url: str, _outputs: Json) -> None:
    quietly(
        world.client("sqs").set_queue_attributes,
        absent=(
            "QueueDoesNotExist",
            "NonExistentQueue",
        ),
        QueueUrl=url,
        Attributes={"Policy": ""},
    )


_TOPIC_ATTRIBUTES = {
    "displayName": "DisplayName",
    "kmsMasterKeyId": "KmsMasterKeyId",
    "policy": "Policy",
    "deliveryPolicy": "DeliveryPolicy",
}


def _create_topic(world: World, inputs: Json) -> Made:
    attributes = {wire: _text(inputs[name]) for name, wire in _TOPIC_ATTRIBUTES.items() if inputs.get(name) is not None}
    arn = world.client("sns").create_topic(Name=inputs["name"], Attributes=attributes, Tags=pairs(inputs.get("tags")))[
        "TopicArn"
    ]
    return Made(arn, {"arn": arn, "owner": world.account})


def _update_topic(world: World, arn: str, old: Json, new: Json) -> Json:
    client = world.client("sns")
    for name, wire in _TOPIC_ATTRIBUTES.items():
        if old.get(name) != new.get(name):
            value = _text(new[name]) if new.get(name) is not None else ""
            client.set_topic_attributes(TopicArn=arn, AttributeName=wire, AttributeValue=value)
    added, removed = tag_changes(old, new)
    if added:
        client.tag_resource(ResourceArn=arn, Tags=pairs(added))
    if removed:
        client.untag_resource(ResourceArn=arn, TagKeys=removed)
    return {"arn": arn, "owner": world.account}


def _delete_topic(world: World, arn: str, _outputs: Json) -> None:
    world.client("sns").delete_topic(TopicArn=arn)


def _put_topic_policy(world: World, inputs: Json) -> None:
    world.client("sns").set_topic_attributes(
        TopicArn=inputs["arn"], AttributeName="Policy", AttributeValue=document(inputs["policy"])
    )


def _create_topic_policy(world: World, inputs: Json) -> Made:
    _put_topic_policy(world, inputs)
    return Made(inputs["arn"], {"owner": world.account})


def _update_topic_policy(world: World, _id: str, _old: Json, new: Json) -> Json:
    _put_topic_policy(world, new)
    return {"owner": world.account}


def _delete_topic_policy(world: World, arn: str, _outputs: Json) -> None:
    """AWS puts its default policy back, which lets the owner in; what is stored here has no effect anyway."""
    everything = document(
        {
            "Version": "2008-10-17",
            "Statement": [{"Effect": "Allow", "Principal": {"AWS": world.account}, "Action": "SNS:*", "Resource": arn}],
        }
    )
    quietly(
        world.client("sns").set_topic_attributes,
        absent=("NotFound",),
        TopicArn=arn,
        AttributeName="Policy",
        AttributeValue=everything,
    )


QUEUE = ResourceType(
    pulumi_type="aws:sqs/queue:Queue",
    honoured=frozenset(
        {
            "name",
            "fifoQueue",
            "contentBasedDeduplication",
            "visibilityTimeoutSeconds",
            "messageRetentionSeconds",
            "maxMessageSize",
            "delaySeconds",
            "receiveWaitTimeSeconds",
            "redrivePolicy",
            "tags",
        }
    ),
    not_honoured={
        "policy": "stored and described; nothing is enforced",
        "redriveAllowPolicy": "stored and described; nothing is enforced",
        "kmsMasterKeyId": "stored; nothing is encrypted",
        "kmsDataKeyReusePeriodSeconds": "stored; nothing is encrypted",
        "sqsManagedSseEnabled": "stored; nothing is encrypted",
    },
    replaces=frozenset({"name", "fifoQueue"}),
    named_by="name",
    create=_create_queue,
    update=_update_queue,
    delete=_delete_queue,
)

QUEUE_POLICY = ResourceType(
    pulumi_type="aws:sqs/queuePolicy:QueuePolicy",
    honoured=frozenset({"queueUrl"}),
    not_honoured={"policy": "denials are enforced; statements on TLS, which the emulator has not, are left out"},
    replaces=frozenset({"queueUrl"}),
    create=_create_queue_policy,
    update=_update_queue_policy,
    delete=_delete_queue_policy,
)

TOPIC = ResourceType(
    pulumi_type="aws:sns/topic:Topic",
    honoured=frozenset({"name", "displayName", "deliveryPolicy", "tags"}),
    not_honoured={
        "policy": "stored and described; nothing is enforced",
        "kmsMasterKeyId": "stored; nothing is encrypted",
    },
    replaces=frozenset({"name"}),
    named_by="name",
    create=_create_topic,
    update=_update_topic,
    delete=_delete_topic,
)

TOPIC_POLICY = ResourceType(
    pulumi_type="aws:sns/topicPolicy:TopicPolicy",
    honoured=frozenset({"arn"}),
    not_honoured={"policy": "stored and described; nothing is enforced"},
    replaces=frozenset({"arn"}),
    create=_create_topic_policy,
    update=_update_topic_policy,
    delete=_delete_topic_policy,
)

TYPES = (QUEUE, QUEUE_POLICY, TOPIC, TOPIC_POLICY)
