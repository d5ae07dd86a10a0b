"""aws:scheduler/*: EventBridge Scheduler"""

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

DEFAULT_GROUP = "default"


def _create_group(world: World, inputs: Json) -> Made:
    answer = world.client("scheduler").create_schedule_group(Name=inputs["name"], Tags=pairs(inputs.get("tags")))
    return Made(inputs["name"], {"arn": answer["ScheduleGroupArn"], "state": "ACTIVE"})


def _update_group(world: World, name: str, old: Json, new: Json) -> Json:
    client = world.client("scheduler")
    arn = client.get_schedule_group(Name=name)["Arn"]
    added, removed = tag_changes(old, new)
    if added:
        client.tag_resource(ResourceArn=arn, Tags=pairs(added))
    if removed:
        client.untag_resource(ResourceArn=arn, TagKeys=removed)
    return {"arn": arn, "state": "ACTIVE"}


def _delete_group(world: World, name: str, _outputs: Json) -> None:
    quietly(world.client("scheduler").delete_schedule_group, Name=name)


def _target(value: Json) -> Json:
    fields = shape("target", value, "arn", "roleArn", "input", "retryPolicy", "deadLetterConfig")
    if retry := first(fields.get("RetryPolicy")):
        fields["RetryPolicy"] = shape("target.retryPolicy", retry, "maximumEventAgeInSeconds", "maximumRetryAttempts")
    if dead := first(fields.get("DeadLetterConfig")):
        fields["DeadLetterConfig"] = shape("target.deadLetterConfig", dead, "arn")
    return fields


def _settings(inputs: Json) -> Json:
    window = shape("flexibleTimeWindow", first(inputs["flexibleTimeWindow"]), "mode", "maximumWindowInMinutes")
    return {
        "Name": inputs["name"],
        "GroupName": inputs.get("groupName", DEFAULT_GROUP),
        "ScheduleExpression": inputs["scheduleExpression"],
        "ScheduleExpressionTimezone": inputs.get("scheduleExpressionTimezone", "UTC"),
        "FlexibleTimeWindow": window,
        "State": inputs.get("state", "ENABLED"),
        "Description": inputs.get("description", ""),
        "Target": _target(first(inputs["target"])),
        **taken(inputs, "kmsKeyArn", "startDate", "endDate", "actionAfterCompletion"),
    }


def _create_schedule(world: World, inputs: Json) -> Made:
    arn = world.client("scheduler").create_schedule(**_settings(inputs))["ScheduleArn"]
    return Made(f"{inputs.get('groupName', DEFAULT_GROUP)}/{inputs['name']}", {"arn": arn})


def _update_schedule(world: World, _id: str, _old: Json, new: Json) -> Json:
    return {"arn": world.client("scheduler").update_schedule(**_settings(new))["ScheduleArn"]}


def _delete_schedule(world: World, schedule_id: str, _outputs: Json) -> None:
    group, name = schedule_id.split("/", 1)
    quietly(world.client("scheduler").delete_schedule, Name=name, GroupName=group)


SCHEDULE_GROUP = ResourceType(
    pulumi_type="aws:scheduler/scheduleGroup:ScheduleGroup",
    honoured=frozenset({"name", "tags"}),
    replaces=frozenset({"name"}),
    named_by="name",
    create=_create_group,
    update=_update_group,
    delete=_delete_group,
)

SCHEDULE = ResourceType(
    pulumi_type="aws:scheduler/schedule:Schedule",
    honoured=frozenset(
        {"name", "groupName", "scheduleExpression", "state", "description", "target", "actionAfterCompletion"}
    ),
    not_honoured={
        "flexibleTimeWindow": "stored and described; it fires when it is due",
        "scheduleExpressionTimezone": "stored and described; every time is read as UTC",
        "kmsKeyArn": "stored; nothing is encrypted",
        "startDate": "stored and described",
        "endDate": "stored and described",
    },
    replaces=frozenset({"name", "groupName"}),
    named_by="name",
    create=_create_schedule,
    update=_update_schedule,
    delete=_delete_schedule,
)

TYPES = (SCHEDULE_GROUP, SCHEDULE)
