"""aws:sfn/*"""

from __future__ import annotations

from local.resources.base import (
    Json,
    Made,
    ResourceType,
    World,
    document,
    first,
    pairs,
    quietly,
    shape,
    tag_changes,
)


def _settings(inputs: Json) -> Json:
    logging = first(inputs.get("loggingConfiguration")) or {}
    fields = shape(
        "loggingConfiguration",
        {name: value for name, value in logging.items() if name != "logDestination"},
        level="level",
        includeExecutionData="includeExecutionData",
    )
    if destination := logging.get("logDestination"):
        fields["destinations"] = [{"cloudWatchLogsLogGroup": {"logGroupArn": destination}}]
    tracing = shape("tracingConfiguration", first(inputs.get("tracingConfiguration")) or {}, enabled="enabled")
    encryption = shape(
        "encryptionConfiguration",
        first(inputs.get("encryptionConfiguration")) or {},
        type="type",
        kmsKeyId="kmsKeyId",
        kmsDataKeyReusePeriodSeconds="kmsDataKeyReusePeriodSeconds",
    )
    return {
        "definition": document(inputs["definition"]),
        "roleArn": inputs["roleArn"],
        "loggingConfiguration": fields or {"level": "OFF"},
        "tracingConfiguration": tracing or {"enabled": False},
        **({"encryptionConfiguration": encryption} if encryption else {}),
    }


def _create(world: World, inputs: Json) -> Made:
    answer = world.client("stepfunctions").create_state_machine(
        name=inputs["name"],
        type=inputs.get("type", "STANDARD"),
        tags=pairs(inputs.get("tags"), "key", "value"),
        **_settings(inputs),
    )
    arn = answer["stateMachineArn"]
    return Made(arn, _outputs(world, arn))


def _outputs(world: World, arn: str) -> Json:
    machine = world.client("stepfunctions").describe_state_machine(stateMachineArn=arn)
    return {
        "arn": arn,
        "status": machine["status"],
        "creationDate": machine["creationDate"].isoformat(),
        "revisionId": machine.get("revisionId", ""),
    }


def _update(world: World, arn: str, old: Json, new: Json) -> Json:
    client = world.client("stepfunctions")
    client.update_state_machine(stateMachineArn=arn, **_settings(new))
    added, removed = tag_changes(old, new)
    if added:
        client.tag_resource(resourceArn=arn, tags=pairs(added, "key", "value"))
    if removed:
        client.untag_resource(resourceArn=arn, tagKeys=removed)
    return _outputs(world, arn)


def _delete(world: World, arn: str, _outputs: Json) -> None:
    quietly(
        world.client("stepfunctions").delete_state_machine, absent=("StateMachineDoesNotExist",), stateMachineArn=arn
    )


STATE_MACHINE = ResourceType(
    pulumi_type="aws:sfn/stateMachine:StateMachine",
    honoured=frozenset({"name", "type", "definition", "roleArn", "tags"}),
    not_honoured={
        "loggingConfiguration": "stored and described; history is in GetExecutionHistory",
        "tracingConfiguration": "stored; there are no traces",
        "encryptionConfiguration": "stored; nothing is encrypted",
        "publish": "the emulator has no versions of machines",
    },
    replaces=frozenset({"name", "type"}),
    named_by="name",
    create=_create,
    update=_update,
    delete=_delete,
)

TYPES = (STATE_MACHINE,)
