"""aws:cloudwatch/eventRule and eventTarget: EventBridge"""

from __future__ import annotations

from local.resources.base import (
    Json,
    Made,
    ResourceType,
    World,
    first,
    pairs,
    quietly,
    shape,
    tag_changes,
    taken,
)

DEFAULT_BUS = "default"


def _put_rule(world: World, inputs: Json) -> Json:
    answer = world.client("events").put_rule(
        Name=inputs["name"],
        State=inputs.get("state", "ENABLED"),
        EventBusName=inputs.get("eventBusName", DEFAULT_BUS),
        Description=inputs.get("description", ""),
        **taken(inputs, "eventPattern", "scheduleExpression", "roleArn"),
    )
    return {"arn": answer["RuleArn"]}


def _create_rule(world: World, inputs: Json) -> Made:
    outputs = _put_rule(world, inputs)
    if inputs.get("tags"):
        world.client("events").tag_resource(ResourceARN=outputs["arn"], Tags=pairs(inputs["tags"]))
    return Made(inputs["name"], outputs)


def _update_rule(world: World, _id: str, old: Json, new: Json) -> Json:
    client, outputs = world.client("events"), _put_rule(world, new)
    added, removed = tag_changes(old, new)
    if added:
        client.tag_resource(ResourceARN=outputs["arn"], Tags=pairs(added))
    if removed:
        client.untag_resource(ResourceARN=outputs["arn"], TagKeys=removed)
    return outputs


def _delete_rule(world: World, name: str, outputs: Json) -> None:
    quietly(world.client("events").delete_rule, Name=name, EventBusName=outputs.get("eventBusName", DEFAULT_BUS))


def _target(inputs: Json) -> Json:
    transformer = first(inputs.get("inputTransformer"))
    retry = first(inputs.get("retryPolicy"))
    dead = first(inputs.get("deadLetterConfig"))
    return {
        "Id": inputs["targetId"],
        "Arn": inputs["arn"],
        **taken(inputs, "roleArn", "input", "inputPath"),
        **(
            {"InputTransformer": shape("inputTransformer", transformer, "inputTemplate", inputPaths="InputPathsMap")}
            if transformer
            else {}
        ),
        **(
            {"RetryPolicy": shape("retryPolicy", retry, "maximumEventAgeInSeconds", "maximumRetryAttempts")}
            if retry
            else {}
        ),
        **({"DeadLetterConfig": shape("deadLetterConfig", dead, "arn")} if dead else {}),
    }


def _put_target(world: World, inputs: Json) -> None:
    world.client("events").put_targets(
        Rule=inputs["rule"], EventBusName=inputs.get("eventBusName", DEFAULT_BUS), Targets=[_target(inputs)]
    )


def _create_target(world: World, inputs: Json) -> Made:
    _put_target(world, inputs)
    return Made(f"{inputs['rule']}-{inputs['targetId']}", {})


def _update_target(world: World, _id: str, _old: Json, new: Json) -> Json:
    _put_target(world, new)
    return {}


def _delete_target(world: World, _id: str, outputs: Json) -> None:
    quietly(
        world.client("events").remove_targets,
        Rule=outputs["rule"],
        EventBusName=outputs.get("eventBusName", DEFAULT_BUS),
        Ids=[outputs["targetId"]],
    )


EVENT_RULE = ResourceType(
    pulumi_type="aws:cloudwatch/eventRule:EventRule",
    honoured=frozenset({"name", "description", "eventPattern", "scheduleExpression", "eventBusName", "state", "tags"}),
    not_honoured={
        "roleArn": "stored; nothing is enforced",
        "forceDestroy": "a local rule is always removed",
    },
    replaces=frozenset({"name", "eventBusName"}),
    named_by="name",
    create=_create_rule,
    update=_update_rule,
    delete=_delete_rule,
)

EVENT_TARGET = ResourceType(
    pulumi_type="aws:cloudwatch/eventTarget:EventTarget",
    honoured=frozenset({"rule", "arn", "targetId", "eventBusName", "input", "inputPath", "inputTransformer"}),
    not_honoured={
        "roleArn": "stored; nothing is enforced",
        "deadLetterConfig": "stored and described; a failed delivery never reaches the queue",
        "retryPolicy": "stored and described; a failed delivery is not retried",
        "forceDestroy": "a local target is always removed",
    },
    replaces=frozenset({"rule", "targetId", "eventBusName"}),
    named_by="targetId",
    create=_create_target,
    update=_update_target,
    delete=_delete_target,
)

TYPES = (EVENT_RULE, EVENT_TARGET)
