"""The mapping from Pulumi's types to AWS calls, held against what each service then says of itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import boto3
import pulumi
import pulumi_aws as aws
import pytest
from botocore.exceptions import ClientError

from local.cli import Place, down, main, up
from local.deploy import Change, DeployError, Memory, deploy, destroy
from local.emulator import ROOT, Emulator, EmulatorError
from local.resources.base import ServiceError, UnknownPropertyError, UnknownTypeError, UnsupportedValueError
from local.resources.registry import TYPES, Resources, replacements
from local.waiting import wait_until

# pulumi_aws.lambda_ warns of a deprecated class of its own when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:aws.lambda/microvmsimage:DeprecationWarning")

Inputs = dict[str, Any]
Seen = Any

ANYBODY = json.dumps({"Version": "2012-10-17", "Statement": []})
HANDLER = """
import os, time

class StoreUnavailable(Exception):
    pass

def handler(event, context):
    match event.get("do"):
        case "raise":
            raise StoreUnavailable("not now")
        case "die":
            os._exit(1)
        case "hang":
            time.sleep(60)
    return {"greeting": os.environ.get("GREETING", ""), "in": event}
"""
ROLE_ARN = "arn:aws:iam::123456789012:role/anybody"
FUNCTION_ARN = "arn:aws:lambda:eu-central-1:123456789012:function:f"
QUEUE_ARN = "arn:aws:sqs:eu-central-1:123456789012:queue"


def code(text: str = HANDLER) -> pulumi.AssetArchive:
    return pulumi.AssetArchive({"app.py": pulumi.StringAsset(text)})


def function(**changed: Any) -> Inputs:
    return {
        "name": "f",
        "role": ROLE_ARN,
        "runtime": "python3.13",
        "handler": "app.handler",
        "code": code(),
        "timeout": 10,
        **changed,
    }


def statements(*sids: str) -> str:
    allowed = [{"Sid": sid, "Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"} for sid in sids]
    return json.dumps({"Version": "2012-10-17", "Statement": allowed})


FIRST_NEED, SECOND_NEED = "<the id of the first need>", "<the id of the second need>"


@dataclass(frozen=True)
class Case:
    """One type: what is made first, how it is seen, what it becomes."""

    pulumi_type: str
    inputs: Inputs
    change: Inputs | None
    """Inputs that replace those above; None where every change makes a new resource."""
    look: Callable[[Emulator, str], Seen]
    """What the service itself answers, cut down to what matters; raises ClientError or IndexError when it is gone."""
    first: Seen
    then: Seen = None
    needs: tuple[tuple[str, Inputs], ...] = ()
    """What must be there before."""
    gone: Seen = "an error"
    """What is seen after the deletion, where the service does not just answer that there is nothing."""
    outputs: tuple[str, ...] = ("arn",)
    """Outputs that the program can use."""


def pick(answer: dict[str, Any], *names: str) -> list[Any]:
    return [answer.get(name) for name in names]


def table(emulator: Emulator, name: str) -> Seen:
    client = emulator.client("dynamodb")
    found = client.describe_table(TableName=name)["Table"]
    return {
        "key": [(key["AttributeName"], key["KeyType"]) for key in found["KeySchema"]],
        "indexes": {
            index["IndexName"]: [key["AttributeName"] for key in index["KeySchema"]]
            + [index["Projection"]["ProjectionType"]]
            for index in found.get("GlobalSecondaryIndexes", [])
        },
        "protected": found["DeletionProtectionEnabled"],
        "tags": {t["Key"]: t["Value"] for t in client.list_tags_of_resource(ResourceArn=found["TableArn"])["Tags"]},
        "ttl": client.describe_time_to_live(TableName=name)["TimeToLiveDescription"]["TimeToLiveStatus"],
        "recovery": client.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"][
            "PointInTimeRecoveryDescription"
        ]["PointInTimeRecoveryStatus"],
    }


TABLE = {
    "name": "deletions",
    "billingMode": "PAY_PER_REQUEST",
    "hashKey": "pk",
    "attributes": [{"name": "pk", "type": "S"}, {"name": "due_shard", "type": "N"}, {"name": "due_at", "type": "N"}],
    "globalSecondaryIndexes": [
        {
            "name": "due",
            "projectionType": "KEYS_ONLY",
            "keySchemas": [
                {"attributeName": "due_shard", "keyType": "HASH"},
                {"attributeName": "due_at", "keyType": "RANGE"},
            ],
        }
    ],
    "pointInTimeRecovery": {"enabled": True},
    "deletionProtectionEnabled": True,
    "serverSideEncryption": {"enabled": True},
    "ttl": {"enabled": True, "attributeName": "expires"},
    "tags": {"a": "1", "b": "2"},
    "streamEnabled": True,
    "streamViewType": "KEYS_ONLY",
}


def one(items: list[Any]) -> Any:
    """The only one; IndexError when there is none."""
    return items[0]


CASES = [
    Case(
        "aws:dynamodb/table:Table",
        TABLE,
        {
            "pointInTimeRecovery": {"enabled": False},
            "deletionProtectionEnabled": False,
            "ttl": {"enabled": False, "attributeName": "expires"},
            "tags": {"a": "3"},
            "globalSecondaryIndexes": [],
            "streamEnabled": False,
            "streamViewType": None,
        },
        table,
        first={
            "key": [("pk", "HASH")],
            "indexes": {"due": ["due_shard", "due_at", "KEYS_ONLY"]},
            "protected": True,
            "tags": {"a": "1", "b": "2"},
            "ttl": "ENABLED",
            "recovery": "ENABLED",
        },
        then={
            "key": [("pk", "HASH")],
            "indexes": {},
            "protected": False,
            "tags": {"a": "3"},
            "ttl": "DISABLED",
            "recovery": "DISABLED",
        },
        outputs=("arn", "name", "streamArn"),
    ),
    Case(
        "aws:lambda/layerVersion:LayerVersion",
        {"layerName": "libraries", "code": code("X = 1"), "compatibleRuntimes": ["python3.13"], "description": "d"},
        None,
        lambda e, arn: pick(e.client("lambda").get_layer_version_by_arn(Arn=arn), "Description", "Version"),
        first=["d", 1],
        outputs=("arn", "layerArn", "version", "codeSha256"),
    ),
    Case(
        "aws:lambda/function:Function",
        function(
            memorySize=256,
            architectures=["arm64"],
            environment={"variables": {"GREETING": "hello"}},
            loggingConfig={"logFormat": "JSON", "logGroup": "/custom/f"},
            deadLetterConfig={"targetArn": QUEUE_ARN},
            reservedConcurrentExecutions=2,
            tags={"a": "1"},
            publish=True,
        ),
        {
            "timeout": 20,
            "environment": None,
            "deadLetterConfig": None,
            "reservedConcurrentExecutions": -1,
            "tags": {"b": "2"},
            "code": code(HANDLER + "\n# changed"),
        },
        lambda e, name: {
            "config": pick(
                e.client("lambda").get_function_configuration(FunctionName=name), "Timeout", "MemorySize", "Handler"
            ),
            "environment": e.client("lambda")
            .get_function_configuration(FunctionName=name)
            .get("Environment", {})
            .get("Variables", {}),
            "dead": e.client("lambda").get_function_configuration(FunctionName=name).get("DeadLetterConfig", {}),
            "log": e.client("lambda").get_function_configuration(FunctionName=name)["LoggingConfig"],
            "reserved": e.client("lambda")
            .get_function_concurrency(FunctionName=name)
            .get("ReservedConcurrentExecutions"),
            "tags": e.client("lambda").get_function(FunctionName=name)["Tags"],
            "versions": [
                v["Version"] for v in e.client("lambda").list_versions_by_function(FunctionName=name)["Versions"]
            ],
        },
        first={
            "config": [10, 256, "app.handler"],
            "environment": {"GREETING": "hello"},
            "dead": {"TargetArn": QUEUE_ARN},
            "log": {"LogFormat": "JSON", "LogGroup": "/custom/f"},
            "reserved": 2,
            "tags": {"a": "1"},
            "versions": ["$LATEST", "1"],
        },
        then={
            "config": [20, 256, "app.handler"],
            "environment": {},
            "dead": {},
            "log": {"LogFormat": "JSON", "LogGroup": "/custom/f"},
            "reserved": None,
            "tags": {"b": "2"},
            "versions": ["$LATEST", "1", "2"],
        },
        needs=(("aws:sqs/queue:Queue", {"name": "queue"}),),
        outputs=("arn", "qualifiedArn", "version", "invokeArn", "qualifiedInvokeArn", "name", "codeSha256"),
    ),
    Case(
        "aws:lambda/alias:Alias",
        {"name": "live", "functionName": "f", "functionVersion": "1", "description": "one"},
        {"functionVersion": "$LATEST", "description": "newest"},
        lambda e, _: pick(
            e.client("lambda").get_alias(FunctionName="f", Name="live"), "FunctionVersion", "Description"
        ),
        first=["1", "one"],
        then=["$LATEST", "newest"],
        needs=(("aws:lambda/function:Function", function(publish=True)),),
        outputs=("arn", "invokeArn", "name"),
    ),
    Case(
        "aws:lambda/permission:Permission",
        {
            "statementId": "scheduler",
            "function": "f",
            "action": "lambda:InvokeFunction",
            "principal": "events.amazonaws.com",
            "sourceArn": "arn:aws:events:eu-central-1:123456789012:rule/r",
        },
        None,
        lambda e, sid: one(
            [
                pick(statement, "Sid", "Action", "Principal")
                for statement in json.loads(e.client("lambda").get_policy(FunctionName="f")["Policy"])["Statement"]
                if statement["Sid"] == sid
            ]
        ),
        first=["scheduler", "lambda:InvokeFunction", {"Service": "events.amazonaws.com"}],
        needs=(("aws:lambda/function:Function", function()),),
        outputs=("statementId",),
    ),
    Case(
        "aws:lambda/functionEventInvokeConfig:FunctionEventInvokeConfig",
        {
            "functionName": "f",
            "maximumRetryAttempts": 2,
            "maximumEventAgeInSeconds": 60,
            "destinationConfig": {"onFailure": {"destination": QUEUE_ARN}},
        },
        {"maximumRetryAttempts": 0, "destinationConfig": None},
        lambda e, _: {
            name: value
            for name, value in e.client("lambda").get_function_event_invoke_config(FunctionName="f").items()
            if name in ("MaximumRetryAttempts", "MaximumEventAgeInSeconds")
        },
        first={"MaximumRetryAttempts": 2, "MaximumEventAgeInSeconds": 60},
        then={"MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 60},
        needs=(("aws:lambda/function:Function", function()), ("aws:sqs/queue:Queue", {"name": "queue"})),
        outputs=("functionName",),
    ),
    Case(
        "aws:lambda/eventSourceMapping:EventSourceMapping",
        {
            "eventSourceArn": QUEUE_ARN,
            "functionName": "f",
            "batchSize": 5,
            "enabled": False,
            "functionResponseTypes": ["ReportBatchItemFailures"],
        },
        {"batchSize": 7},
        lambda e, uuid: pick(
            e.client("lambda").get_event_source_mapping(UUID=uuid),
            "BatchSize",
            "EventSourceArn",
            "FunctionResponseTypes",
        ),
        first=[5, QUEUE_ARN, ["ReportBatchItemFailures"]],
        then=[7, QUEUE_ARN, ["ReportBatchItemFailures"]],
        needs=(("aws:lambda/function:Function", function()), ("aws:sqs/queue:Queue", {"name": "queue"})),
        outputs=("uuid", "functionArn", "state"),
    ),
    Case(
        "aws:iam/role:Role",
        {
            "name": "r",
            "path": "/p/",
            "assumeRolePolicy": ANYBODY,
            "description": "one",
            "permissionsBoundary": "arn:aws:iam::aws:policy/AdministratorAccess",
            "tags": {"a": "1"},
        },
        {"description": "two", "tags": {"b": "2"}, "permissionsBoundary": None},
        lambda e, name: {
            "role": pick(e.client("iam").get_role(RoleName=name)["Role"], "Path", "Description", "Arn"),
            "tags": e.client("iam").list_role_tags(RoleName=name)["Tags"],
            "boundary": e.client("iam")
            .get_role(RoleName=name)["Role"]
            .get("PermissionsBoundary", {})
            .get("PermissionsBoundaryArn"),
        },
        first={
            "role": ["/p/", "one", "arn:aws:iam::123456789012:role/p/r"],
            "tags": [{"Key": "a", "Value": "1"}],
            "boundary": "arn:aws:iam::aws:policy/AdministratorAccess",
        },
        then={
            "role": ["/p/", "two", "arn:aws:iam::123456789012:role/p/r"],
            "tags": [{"Key": "b", "Value": "2"}],
            "boundary": None,
        },
        outputs=("arn", "name", "uniqueId"),
    ),
    Case(
        "aws:iam/rolePolicy:RolePolicy",
        {"name": "p", "role": "r", "policy": statements("x")},
        {"policy": statements("x", "y")},
        lambda e, _: len(e.client("iam").get_role_policy(RoleName="r", PolicyName="p")["PolicyDocument"]["Statement"]),
        first=1,
        then=2,
        needs=(("aws:iam/role:Role", {"name": "r", "assumeRolePolicy": ANYBODY}),),
        outputs=("name",),
    ),
    Case(
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
        {"role": "r", "policyArn": "arn:aws:iam::aws:policy/AdministratorAccess"},
        None,
        lambda e, _: one(e.client("iam").list_attached_role_policies(RoleName="r")["AttachedPolicies"])["PolicyArn"],
        first="arn:aws:iam::aws:policy/AdministratorAccess",
        needs=(("aws:iam/role:Role", {"name": "r", "assumeRolePolicy": ANYBODY}),),
        outputs=("role",),
    ),
    Case(
        "aws:sfn/stateMachine:StateMachine",
        {
            "name": "m",
            "roleArn": ROLE_ARN,
            "definition": json.dumps({"StartAt": "A", "States": {"A": {"Type": "Succeed"}}}),
            "loggingConfiguration": {
                "level": "ERROR",
                "includeExecutionData": False,
                "logDestination": "arn:aws:logs:eu-central-1:123456789012:log-group:g:*",
            },
            "tags": {"a": "1"},
        },
        {"definition": json.dumps({"StartAt": "B", "States": {"B": {"Type": "Succeed"}}}), "tags": {"b": "2"}},
        lambda e, arn: {
            "starts": json.loads(e.client("stepfunctions").describe_state_machine(stateMachineArn=arn)["definition"])[
                "StartAt"
            ],
            "type": e.client("stepfunctions").describe_state_machine(stateMachineArn=arn)["type"],
            "tags": e.client("stepfunctions").list_tags_for_resource(resourceArn=arn)["tags"],
        },
        first={"starts": "A", "type": "STANDARD", "tags": [{"key": "a", "value": "1"}]},
        then={"starts": "B", "type": "STANDARD", "tags": [{"key": "b", "value": "2"}]},
        outputs=("arn", "name", "status"),
    ),
    Case(
        "aws:cloudwatch/logGroup:LogGroup",
        {"name": "/a/b", "retentionInDays": 30, "tags": {"a": "1"}},
        {"retentionInDays": 7, "tags": {"b": "2"}},
        lambda e, name: [
            one(e.client("logs").describe_log_groups(logGroupNamePrefix=name)["logGroups"]).get("retentionInDays"),
            e.client("logs").list_tags_for_resource(
                resourceArn=f"arn:aws:logs:eu-central-1:123456789012:log-group:{name}"
            )["tags"],
        ],
        first=[30, {"a": "1"}],
        then=[7, {"b": "2"}],
        outputs=("arn", "name"),
    ),
    Case(
        "aws:cloudwatch/logResourcePolicy:LogResourcePolicy",
        {"policyName": "p", "policyDocument": ANYBODY},
        {"policyDocument": json.dumps({"Version": "2012-10-17", "Statement": [{"Sid": "x"}]})},
        lambda e, _: len(
            json.loads(one(e.client("logs").describe_resource_policies()["resourcePolicies"])["policyDocument"])[
                "Statement"
            ]
        ),
        first=0,
        then=1,
        outputs=("policyName",),
    ),
    Case(
        "aws:cloudwatch/queryDefinition:QueryDefinition",
        {"name": "q", "queryString": "fields a", "logGroupNames": ["/a"]},
        {"queryString": "fields b"},
        # Nothing is made of it; when this fails, the emulator has learned it and the mapping can.
        lambda e, _: e.client("logs").describe_query_definitions()["queryDefinitions"],
        first="an error",
        then="an error",
        outputs=("queryDefinitionId",),
    ),
    Case(
        "aws:cloudwatch/metricAlarm:MetricAlarm",
        {
            "name": "stuck",
            "alarmDescription": "d",
            "comparisonOperator": "GreaterThanThreshold",
            "evaluationPeriods": 1,
            "metricName": "M",
            "namespace": "N",
            "period": 60,
            "statistic": "Maximum",
            "threshold": 0,
            "dimensions": {"Service": "s"},
            "treatMissingData": "notBreaching",
            "alarmActions": ["arn:aws:sns:eu-central-1:123456789012:t"],
            "tags": {"a": "1"},
        },
        {"threshold": 5, "tags": {"b": "2"}},
        lambda e, name: [
            *pick(
                one(e.client("cloudwatch").describe_alarms(AlarmNames=[name])["MetricAlarms"]),
                "Threshold",
                "Dimensions",
                "TreatMissingData",
            ),
            e.client("cloudwatch").list_tags_for_resource(
                ResourceARN=f"arn:aws:cloudwatch:eu-central-1:123456789012:alarm:{name}"
            )["Tags"],
        ],
        first=[0, [{"Name": "Service", "Value": "s"}], "notBreaching", [{"Key": "a", "Value": "1"}]],
        then=[5, [{"Name": "Service", "Value": "s"}], "notBreaching", [{"Key": "b", "Value": "2"}]],
        outputs=("arn", "name"),
    ),
    Case(
        "aws:cloudwatch/dashboard:Dashboard",
        {"dashboardName": "d", "dashboardBody": json.dumps({"widgets": []})},
        {"dashboardBody": json.dumps({"widgets": [{"type": "text"}]})},
        lambda e, name: len(
            json.loads(e.client("cloudwatch").get_dashboard(DashboardName=name)["DashboardBody"])["widgets"]
        ),
        first=0,
        then=1,
        outputs=("dashboardArn",),
    ),
    Case(
        "aws:cloudwatch/eventRule:EventRule",
        {"name": "r", "eventPattern": json.dumps({"source": ["aws.states"]}), "tags": {"a": "1"}},
        {"description": "changed", "state": "DISABLED", "tags": {"b": "2"}},
        lambda e, name: [
            *pick(e.client("events").describe_rule(Name=name), "EventPattern", "State"),
            e.client("events").list_tags_for_resource(
                ResourceARN=f"arn:aws:events:eu-central-1:123456789012:rule/{name}"
            )["Tags"],
        ],
        first=[json.dumps({"source": ["aws.states"]}), "ENABLED", [{"Key": "a", "Value": "1"}]],
        then=[json.dumps({"source": ["aws.states"]}), "DISABLED", [{"Key": "b", "Value": "2"}]],
        outputs=("arn", "name"),
    ),
    Case(
        "aws:cloudwatch/eventTarget:EventTarget",
        {
            "rule": "r",
            "targetId": "recover",
            "arn": FUNCTION_ARN,
            "deadLetterConfig": {"arn": QUEUE_ARN},
            "retryPolicy": {"maximumRetryAttempts": 3, "maximumEventAgeInSeconds": 60},
        },
        {"input": '{"a": 1}', "retryPolicy": None},
        lambda e, _: one(e.client("events").list_targets_by_rule(Rule="r")["Targets"]),
        first={
            "Id": "recover",
            "Arn": FUNCTION_ARN,
            "DeadLetterConfig": {"Arn": QUEUE_ARN},
            "RetryPolicy": {"MaximumRetryAttempts": 3, "MaximumEventAgeInSeconds": 60},
        },
        then={"Id": "recover", "Arn": FUNCTION_ARN, "DeadLetterConfig": {"Arn": QUEUE_ARN}, "Input": '{"a": 1}'},
        needs=(("aws:cloudwatch/eventRule:EventRule", {"name": "r", "scheduleExpression": "rate(1 day)"}),),
        outputs=("targetId",),
    ),
    Case(
        "aws:scheduler/scheduleGroup:ScheduleGroup",
        {"name": "g", "tags": {"a": "1"}},
        {"tags": {"b": "2"}},
        lambda e, name: e.client("scheduler").list_tags_for_resource(
            ResourceArn=e.client("scheduler").get_schedule_group(Name=name)["Arn"]
        )["Tags"],
        first=[{"Key": "a", "Value": "1"}],
        then=[{"Key": "b", "Value": "2"}],
        outputs=("arn", "name"),
    ),
    Case(
        "aws:scheduler/schedule:Schedule",
        {
            "name": "sweep",
            "groupName": "g",
            "scheduleExpression": "rate(1 minute)",
            "flexibleTimeWindow": {"mode": "OFF"},
            "target": {
                "arn": FUNCTION_ARN,
                "roleArn": ROLE_ARN,
                "retryPolicy": {"maximumRetryAttempts": 0, "maximumEventAgeInSeconds": 60},
                "deadLetterConfig": {"arn": QUEUE_ARN},
            },
        },
        {"scheduleExpression": "rate(2 minutes)", "state": "DISABLED"},
        lambda e, _: {
            name: value
            for name, value in e.client("scheduler").get_schedule(Name="sweep", GroupName="g").items()
            if name in ("ScheduleExpression", "State", "Target")
        },
        first={
            "ScheduleExpression": "rate(1 minute)",
            "State": "ENABLED",
            "Target": {
                "Arn": FUNCTION_ARN,
                "RoleArn": ROLE_ARN,
                "RetryPolicy": {"MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 60},
                "DeadLetterConfig": {"Arn": QUEUE_ARN},
            },
        },
        then={
            "ScheduleExpression": "rate(2 minutes)",
            "State": "DISABLED",
            "Target": {
                "Arn": FUNCTION_ARN,
                "RoleArn": ROLE_ARN,
                "RetryPolicy": {"MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 60},
                "DeadLetterConfig": {"Arn": QUEUE_ARN},
            },
        },
        needs=(("aws:scheduler/scheduleGroup:ScheduleGroup", {"name": "g"}),),
        outputs=("arn", "name"),
    ),
    Case(
        "aws:sqs/queue:Queue",
        {"name": "dlq", "messageRetentionSeconds": 1209600, "visibilityTimeoutSeconds": 60, "tags": {"a": "1"}},
        {"messageRetentionSeconds": 60, "visibilityTimeoutSeconds": None, "tags": {"b": "2"}},
        lambda e, url: [
            *pick(
                e.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"],
                "MessageRetentionPeriod",
                "VisibilityTimeout",
                "QueueArn",
            ),
            e.client("sqs").list_queue_tags(QueueUrl=url)["Tags"],
        ],
        first=["1209600", "60", "arn:aws:sqs:eu-central-1:123456789012:dlq", {"a": "1"}],
        then=["60", "30", "arn:aws:sqs:eu-central-1:123456789012:dlq", {"b": "2"}],
        outputs=("arn", "url", "name"),
    ),
    Case(
        "aws:sqs/queuePolicy:QueuePolicy",
        {"queueUrl": FIRST_NEED, "policy": ANYBODY},
        {"policy": json.dumps({"Version": "2012-10-17", "Statement": [{"Sid": "x", "Effect": "Allow"}]})},
        lambda e, url: len(
            json.loads(
                e.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])["Attributes"]["Policy"]
            )["Statement"]
        ),
        first=0,
        then=1,
        needs=(("aws:sqs/queue:Queue", {"name": "queue"}),),
        outputs=("queueUrl",),
    ),
    Case(
        "aws:sns/topic:Topic",
        {"name": "alarms", "displayName": "one", "tags": {"a": "1"}},
        {"displayName": "two", "tags": {"b": "2"}},
        lambda e, arn: [
            e.client("sns").get_topic_attributes(TopicArn=arn)["Attributes"]["DisplayName"],
            e.client("sns").list_tags_for_resource(ResourceArn=arn)["Tags"],
        ],
        first=["one", [{"Key": "a", "Value": "1"}]],
        then=["two", [{"Key": "b", "Value": "2"}]],
        outputs=("arn", "name"),
    ),
    Case(
        "aws:sns/topicPolicy:TopicPolicy",
        {"arn": "arn:aws:sns:eu-central-1:123456789012:alarms", "policy": ANYBODY},
        {"policy": json.dumps({"Version": "2012-10-17", "Statement": [{"Sid": "x"}, {"Sid": "y"}]})},
        lambda e, arn: [
            statement.get("Sid")
            for statement in json.loads(e.client("sns").get_topic_attributes(TopicArn=arn)["Attributes"]["Policy"])[
                "Statement"
            ]
        ],
        first=[],
        then=["x", "y"],
        gone=[None],
        needs=(("aws:sns/topic:Topic", {"name": "alarms"}),),
        outputs=("arn",),
    ),
    Case(
        "aws:kms/key:Key",
        {
            "description": "subjects",
            "keyUsage": "GENERATE_VERIFY_MAC",
            "customerMasterKeySpec": "HMAC_256",
            "deletionWindowInDays": 30,
            "tags": {"a": "1"},
        },
        {"description": "changed", "tags": {"b": "2"}},
        lambda e, key: [
            *pick(
                e.client("kms").describe_key(KeyId=key)["KeyMetadata"], "Description", "KeyUsage", "KeySpec", "KeyState"
            ),
            e.client("kms").list_resource_tags(KeyId=key)["Tags"],
        ],
        first=["subjects", "GENERATE_VERIFY_MAC", "HMAC_256", "Enabled", [{"TagKey": "a", "TagValue": "1"}]],
        then=["changed", "GENERATE_VERIFY_MAC", "HMAC_256", "Enabled", [{"TagKey": "b", "TagValue": "2"}]],
        gone=["changed", "GENERATE_VERIFY_MAC", "HMAC_256", "PendingDeletion", [{"TagKey": "b", "TagValue": "2"}]],
        outputs=("arn", "keyId"),
    ),
    Case(
        "aws:kms/alias:Alias",
        {"name": "alias/subjects", "targetKeyId": FIRST_NEED},
        {"targetKeyId": SECOND_NEED},
        lambda e, name: e.client("kms").describe_key(KeyId=name)["KeyMetadata"]["Description"],
        first="one",
        then="two",
        needs=(("aws:kms/key:Key", {"description": "one"}), ("aws:kms/key:Key", {"description": "two"})),
        outputs=("arn", "targetKeyArn", "name"),
    ),
    Case(
        "aws:resourcegroups/group:Group",
        {
            "name": "g",
            "description": "one",
            "resourceQuery": {"query": '{"ResourceTypeFilters":[]}'},
            "tags": {"a": "1"},
        },
        {"description": "two", "tags": {"b": "2"}},
        lambda e, name: [
            e.client("resource-groups").get_group(Group=name)["Group"].get("Description"),
            e.client("resource-groups").get_group_query(Group=name)["GroupQuery"]["ResourceQuery"]["Type"],
            e.client("resource-groups").get_tags(
                Arn=e.client("resource-groups").get_group(Group=name)["Group"]["GroupArn"]
            )["Tags"],
        ],
        first=["one", "TAG_FILTERS_1_0", {"a": "1"}],
        then=["two", "TAG_FILTERS_1_0", {"b": "2"}],
        outputs=("arn", "name"),
    ),
    Case(
        "aws:s3/bucket:Bucket",
        {"bucket": "files", "forceDestroy": True, "tags": {"a": "1"}},
        {"tags": {"b": "2"}},
        lambda e, name: e.client("s3").get_bucket_tagging(Bucket=name)["TagSet"],
        first=[{"Key": "a", "Value": "1"}],
        then=[{"Key": "b", "Value": "2"}],
        outputs=("arn", "bucket", "bucketRegionalDomainName"),
    ),
    Case(
        "aws:s3/bucketVersioning:BucketVersioning",
        {"bucket": "files", "versioningConfiguration": {"status": "Enabled"}},
        {"versioningConfiguration": {"status": "Suspended"}},
        lambda e, name: e.client("s3").get_bucket_versioning(Bucket=name).get("Status"),
        first="Enabled",
        then="Suspended",
        gone="Suspended",
        needs=(("aws:s3/bucket:Bucket", {"bucket": "files"}),),
        outputs=("bucket",),
    ),
]


@pytest.fixture(autouse=True)
def anybody(request: pytest.FixtureRequest) -> None:
    """The role that all functions and machines here have: it must exist, and the service be allowed to take it."""
    if "resources" in request.fixturenames:
        services = ["lambda.amazonaws.com", "states.amazonaws.com", "scheduler.amazonaws.com"]
        statement = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": services}}
        trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        request.getfixturevalue("resources").create("aws:iam/role:Role", {"name": "anybody", "assumeRolePolicy": trust})


def with_ids(inputs: Inputs, ids: list[str]) -> Inputs:
    names = dict(zip((FIRST_NEED, SECOND_NEED), ids, strict=False))
    return {key: names.get(value, value) if isinstance(value, str) else value for key, value in inputs.items()}


def look(case: Case, emulator: Emulator, resource_id: str) -> Seen:
    try:
        return case.look(emulator, resource_id)
    except (ClientError, IndexError, KeyError):
        return "an error"


def test_every_type_of_the_mapping_has_a_case() -> None:
    assert sorted(case.pulumi_type for case in CASES) == sorted(TYPES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.pulumi_type.rpartition(":")[2])
def test_a_resource_is_made_changed_and_removed(case: Case, emulator: Emulator, resources: Resources) -> None:
    ids = [resources.create(needed, inputs)[0] for needed, inputs in case.needs]
    inputs = with_ids(case.inputs, ids)

    resource_id, outputs = resources.create(case.pulumi_type, inputs)
    assert look(case, emulator, resource_id) == case.first
    assert {name: outputs[name] for name in case.outputs if not outputs[name]} == {}

    if case.change is not None:
        changed = with_ids({**inputs, **case.change}, ids)
        assert replacements(case.pulumi_type, inputs, changed) == set()
        outputs = resources.update(case.pulumi_type, resource_id, inputs, changed)
        assert look(case, emulator, resource_id) == case.then
        assert {name: outputs.get(name) for name in case.outputs if not outputs.get(name)}.keys() <= {"streamArn"}

    resources.delete(case.pulumi_type, resource_id, outputs)
    assert look(case, emulator, resource_id) == case.gone
    resources.delete(case.pulumi_type, resource_id, outputs)  # gone already is no error


@pytest.mark.parametrize("pulumi_type", sorted(TYPES))
def test_an_unknown_property_is_refused_with_the_name_of_the_type_and_of_the_property(
    pulumi_type: str, resources: Resources
) -> None:
    with pytest.raises(UnknownPropertyError) as refused:
        resources.create(pulumi_type, {"inventedByATest": 1})
    assert (refused.value.token, refused.value.path) == (pulumi_type, "inventedByATest")
    assert pulumi_type in str(refused.value)
    assert "inventedByATest" in str(refused.value)


def test_an_unknown_field_of_a_nested_value_is_refused_by_its_path(resources: Resources) -> None:
    with pytest.raises(UnknownPropertyError) as refused:
        resources.create(
            "aws:lambda/function:Function", function(loggingConfig={"logFormat": "JSON", "logGroop": "/typo"})
        )
    assert refused.value.path == "loggingConfig.logGroop"


def test_an_unknown_type_is_refused_with_the_known_ones(resources: Resources) -> None:
    with pytest.raises(UnknownTypeError, match=r"aws:ec2/vpc:Vpc: not in the mapping.*aws:dynamodb/table:Table"):
        resources.create("aws:ec2/vpc:Vpc", {})


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"runtime": "java21"}, "runtime"),
        ({"region": "us-east-1"}, "region"),
        ({"code": pulumi.AssetArchive({"bootstrap": pulumi.StringAsset("")})}, "code"),
        ({"code": pulumi.RemoteArchive("https://example.com/a.zip")}, "code"),
        ({"role": None}, "role"),
    ],
)
def test_a_value_that_cannot_be_done_here_is_refused(changed: Inputs, path: str, resources: Resources) -> None:
    with pytest.raises(UnsupportedValueError) as refused:
        resources.create("aws:lambda/function:Function", function(**changed))
    assert refused.value.path == path


def test_what_the_service_refuses_names_the_type(resources: Resources) -> None:
    resources.create("aws:dynamodb/table:Table", TABLE)
    with pytest.raises(ServiceError, match=r"^aws:dynamodb/table:Table: .*ResourceInUse"):
        resources.create("aws:dynamodb/table:Table", TABLE)


def test_a_removed_bucket_takes_its_versions_along_only_when_it_may(emulator: Emulator, resources: Resources) -> None:
    for name, force in (("kept", False), ("emptied", True)):
        made = resources.create("aws:s3/bucket:Bucket", {"bucket": name, "forceDestroy": force})
        resources.create(
            "aws:s3/bucketVersioning:BucketVersioning",
            {"bucket": name, "versioningConfiguration": {"status": "Enabled"}},
        )
        for content in (b"1", b"2"):
            emulator.client("s3").put_object(Bucket=name, Key="k", Body=content)
        emulator.client("s3").delete_object(Bucket=name, Key="k")
        if force:
            resources.delete("aws:s3/bucket:Bucket", *made)
        else:
            with pytest.raises(ServiceError, match="BucketNotEmpty"):
                resources.delete("aws:s3/bucket:Bucket", *made)
    assert [bucket["Name"] for bucket in emulator.client("s3").list_buckets()["Buckets"]] == ["kept"]


def test_invokes_answer_for_the_local_account(resources: Resources) -> None:
    assert resources.invoke("aws:index/getCallerIdentity:getCallerIdentity", {})["accountId"] == "123456789012"
    assert resources.invoke("aws:index/getRegion:getRegion", {})["region"] == "eu-central-1"
    assert resources.invoke("aws:index/getPartition:getPartition", {})["partition"] == "aws"
    with pytest.raises(UnknownTypeError):
        resources.invoke("aws:ec2/getAmi:getAmi", {})
    with pytest.raises(UnknownPropertyError):
        resources.invoke("aws:index/getRegion:getRegion", {"region": "us-east-1"})


# -- real code ---------------------------------------------------------------------------------------------------------


def invoked(emulator: Emulator, name: str, event: Inputs | None = None) -> tuple[str | None, Any]:
    """(what kind of failure, the answer)"""
    answer = emulator.client("lambda").invoke(FunctionName=name, Payload=json.dumps(event or {}).encode())
    return answer.get("FunctionError"), json.loads(answer["Payload"].read())


def test_a_function_gets_its_environment_and_the_endpoint_and_nothing_of_the_emulators(
    emulator: Emulator, resources: Resources
) -> None:
    text = "import os\ndef handler(event, context): return dict(os.environ)"
    resources.create(
        "aws:lambda/function:Function", function(code=code(text), environment={"variables": {"GREETING": "hello"}})
    )
    failure, seen = invoked(emulator, "f")
    assert failure is None
    expected = {
        "GREETING": "hello",
        "AWS_ENDPOINT_URL": emulator.endpoint,
        "AWS_REGION": emulator.region,
        "AWS_DEFAULT_REGION": emulator.region,
        "AWS_LAMBDA_FUNCTION_NAME": "f",
        "HOME": emulator.address.workdir,
        "TMPDIR": emulator.address.workdir,
    }
    assert {name: seen.get(name) for name in expected} == expected
    others = {name for name in seen.keys() - expected.keys() if not name.startswith(("AWS_", "LAMBDA_", "_"))}
    assert others <= {"PATH", "LANG", "PWD", "OLDPWD", "SHLVL", "LC_CTYPE"}


def test_a_function_may_do_what_its_role_allows_and_nothing_else(emulator: Emulator, resources: Resources) -> None:
    _, made = resources.create("aws:dynamodb/table:Table", TABLE)
    allowed = {"Effect": "Allow", "Action": "dynamodb:GetItem", "Resource": made["arn"]}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    resources.create("aws:iam/rolePolicy:RolePolicy", {"name": "p", "role": "anybody", "policy": policy})
    text = "import os\ndef handler(event, context): return {n: v for n, v in os.environ.items() if n[:4] == 'AWS_'}"
    resources.create("aws:lambda/function:Function", function(code=code(text)))
    _, own = invoked(emulator, "f")
    client = boto3.client(
        "dynamodb",
        endpoint_url=own["AWS_ENDPOINT_URL"],
        region_name=own["AWS_REGION"],
        aws_access_key_id=own["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=own["AWS_SECRET_ACCESS_KEY"],
        aws_session_token=own["AWS_SESSION_TOKEN"],
    )
    key = {"pk": {"S": "1"}}
    writes: tuple[Callable[[], object], ...] = (
        lambda: client.put_item(TableName="deletions", Item=key),
        lambda: client.transact_write_items(TransactItems=[{"Delete": {"TableName": "deletions", "Key": key}}]),
    )
    with closing(client):
        client.get_item(TableName="deletions", Key=key)
        for write in writes:
            with pytest.raises(ClientError, match="AccessDeniedException"):
                write()


def test_a_function_sees_its_package_and_its_layers_and_nothing_else(emulator: Emulator, resources: Resources) -> None:
    layer, _ = resources.create(
        "aws:lambda/layerVersion:LayerVersion",
        {
            "layerName": "libraries",
            "code": pulumi.AssetArchive({"python/from_layer.py": pulumi.StringAsset("X = 'layer'")}),
        },
    )
    text = """
import importlib, sys
def handler(event, context):
    found = {}
    for name in ("app", "from_layer", "boto3", "botocore", "ministack", "pulumi"):
        try:
            importlib.import_module(name)
            found[name] = True
        except ModuleNotFoundError:
            found[name] = False
    return found, [path for path in sys.path if "site-packages" in path]
"""
    resources.create("aws:lambda/function:Function", function(code=code(text), layers=[layer]))
    failure, (found, site_packages) = invoked(emulator, "f")
    assert failure is None
    assert found == {
        "app": True,
        "from_layer": True,
        "boto3": False,
        "botocore": False,
        "ministack": False,
        "pulumi": False,
    }
    assert site_packages == []


def test_an_alias_runs_the_version_that_it_names(emulator: Emulator, resources: Resources) -> None:
    def says(word: str) -> Inputs:
        return function(publish=True, code=code(f"def handler(event, context): return '{word}'"))

    resources.create("aws:lambda/function:Function", says("one"))
    live = {"name": "live", "functionName": "f", "functionVersion": "1"}
    arn, _ = resources.create("aws:lambda/alias:Alias", live)
    outputs = resources.update("aws:lambda/function:Function", "f", says("one"), says("two"))
    assert (invoked(emulator, arn), invoked(emulator, "f")) == ((None, "one"), (None, "two"))

    resources.update("aws:lambda/alias:Alias", arn, live, {**live, "functionVersion": outputs["version"]})
    assert invoked(emulator, arn) == (None, "two")


@pytest.mark.parametrize(
    ("do", "name"), [("raise", "StoreUnavailable"), ("die", "Runtime.ExitError"), ("hang", "Sandbox.Timedout")]
)
def test_a_failure_is_caught_by_its_true_name_in_a_state_machine(
    do: str, name: str, emulator: Emulator, resources: Resources
) -> None:
    _, made = resources.create("aws:lambda/function:Function", function(timeout=1))
    task = {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Arguments": {"FunctionName": made["arn"], "Payload": {"do": do}},
        "Catch": [{"ErrorEquals": [name], "Next": "Caught"}, {"ErrorEquals": ["States.ALL"], "Next": "Missed"}],
        "End": True,
    }
    caught = {"Type": "Pass", "Output": {"error": "{% $states.input.Error %}"}, "End": True}
    definition = {
        "QueryLanguage": "JSONata",
        "StartAt": "Try",
        "States": {"Try": task, "Caught": caught, "Missed": {"Type": "Fail"}},
    }
    machine, _ = resources.create(
        "aws:sfn/stateMachine:StateMachine",
        {"name": "m", "roleArn": ROLE_ARN, "definition": json.dumps(definition)},
    )
    client = emulator.client("stepfunctions")
    execution = client.start_execution(stateMachineArn=machine, input="{}")["executionArn"]
    ended = wait_until(
        lambda: client.describe_execution(executionArn=execution), lambda seen: seen["status"] != "RUNNING", limit=20
    )
    assert (ended["status"], json.loads(ended.get("output", "null"))) == ("SUCCEEDED", {"error": name})


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"handler": "nowhere.handler"}, "Runtime.ImportModuleError"),
        ({"handler": "app.nothing"}, "Runtime.HandlerNotFound"),
        ({"code": code("def handler(:")}, "Runtime.UserCodeSyntaxError"),
        ({"code": code("def handler(event, context): return object()")}, "Runtime.MarshalError"),
        ({"code": code("raise ValueError('at import')")}, "ValueError"),
    ],
)
def test_a_handler_that_cannot_be_run_says_why_as_on_aws(
    changed: Inputs, error: str, emulator: Emulator, resources: Resources
) -> None:
    resources.create("aws:lambda/function:Function", function(**changed))
    failure, answer = invoked(emulator, "f")
    assert (failure, answer["errorType"]) == ("Unhandled", error)


def test_a_stack_trace_begins_in_the_handler(emulator: Emulator, resources: Resources) -> None:
    resources.create("aws:lambda/function:Function", function())
    _, answer = invoked(emulator, "f", {"do": "raise"})
    assert answer["errorMessage"] == "not now"
    assert len(answer["stackTrace"]) == 1
    assert "app.py" in answer["stackTrace"][0]


def test_what_a_function_prints_is_in_its_log_group(emulator: Emulator, resources: Resources) -> None:
    resources.create("aws:cloudwatch/logGroup:LogGroup", {"name": "/custom/f"})
    text = "def handler(event, context): print('seen by a reader')"
    resources.create(
        "aws:lambda/function:Function",
        function(code=code(text), loggingConfig={"logFormat": "Text", "logGroup": "/custom/f"}),
    )
    invoked(emulator, "f")
    wait_until(
        lambda: emulator.client("logs").filter_log_events(logGroupName="/custom/f")["events"],
        lambda events: any("seen by a reader" in event["message"] for event in events),
    )


# -- a whole program ---------------------------------------------------------------------------------------------------


class Group(pulumi.ComponentResource):
    """A component with one of everything that a deployment has to pass on."""

    def __init__(self, name: str, *, days: int = 7, text: str = HANDLER, topic: bool = True) -> None:
        super().__init__("test:group:Group", name, None, None)
        inside = pulumi.ResourceOptions(parent=self)
        account = aws.get_caller_identity().account_id
        self.role = aws.iam.Role(f"{name}-role", assume_role_policy=ANYBODY, tags={"account": account}, opts=inside)
        self.logs = aws.cloudwatch.LogGroup(f"{name}-logs", name="/g", retention_in_days=days, opts=inside)
        self.function = aws.lambda_.Function(
            f"{name}-function",
            name="f",
            role=self.role.arn,
            runtime="python3.13",
            handler="app.handler",
            code=code(text),
            publish=True,
            opts=inside,
        )
        if topic:
            aws.sns.Topic(f"{name}-topic", name="topic", opts=inside)
        self.register_outputs({})


def program(**args: Any) -> Callable[[], None]:
    def run() -> None:
        group = Group("g", **args)
        pulumi.export("function", {"arn": group.function.arn, "version": group.function.version})
        pulumi.export("role", group.role.name)
        pulumi.export("secret", pulumi.Output.secret("plain"))
        pulumi.export("setting", pulumi.Config().get("word"))

    return run


def kinds(changes: Any) -> dict[str, str]:
    return {urn.rpartition(":")[2]: str(change) for urn, change in changes.items()}


def test_a_program_is_deployed_with_components_invokes_configuration_and_plain_outputs(
    emulator: Emulator, resources: Resources
) -> None:
    done = deploy(program(), resources, config={"account-deletion:word": "hello"})
    role = done.outputs["role"]
    assert done.outputs == {
        "function": {"arn": FUNCTION_ARN, "version": "1"},
        "role": role,
        "secret": "plain",
        "setting": "hello",
    }
    assert role.startswith("g-role-")
    assert emulator.client("iam").list_role_tags(RoleName=role)["Tags"] == [{"Key": "account", "Value": "123456789012"}]
    assert invoked(emulator, "f")[0] is None


def test_a_second_deployment_of_the_same_program_changes_nothing(resources: Resources) -> None:
    memory = Memory()
    first = deploy(program(), resources, memory=memory)
    second = deploy(program(), resources, memory=memory)
    assert set(first.changes.values()) == {Change.CREATE}
    assert set(second.changes.values()) == {Change.SAME}
    assert (second.changes.keys(), second.outputs) == (first.changes.keys(), first.outputs)


def test_a_memory_in_a_file_serves_the_next_process(resources: Resources, tmp_path: Path) -> None:
    first = deploy(program(), resources, memory=Memory.load(tmp_path / "stack.json"))
    second = deploy(program(), resources, memory=Memory.load(tmp_path / "stack.json"))
    assert set(second.changes.values()) == {Change.SAME}
    assert second.outputs == first.outputs


def test_a_changed_program_changes_what_differs_and_removes_what_is_gone(
    emulator: Emulator, resources: Resources
) -> None:
    memory = Memory()
    deploy(program(), resources, memory=memory)
    changed = deploy(program(days=30, text=HANDLER + "# new", topic=False), resources, memory=memory)
    assert kinds(changed.changes) == {
        "g-role": "same",
        "g-logs": "update",
        "g-function": "update",
        "g-topic": "delete",
    }
    assert changed.outputs["function"]["version"] == "2"
    assert emulator.client("logs").describe_log_groups()["logGroups"][0]["retentionInDays"] == 30
    assert emulator.client("sns").list_topics()["Topics"] == []


def test_a_change_that_cannot_be_made_in_place_replaces(emulator: Emulator, resources: Resources) -> None:
    memory = Memory()

    def named(name: str) -> Callable[[], None]:
        return lambda: pulumi.export("url", aws.sqs.Queue("queue", name=name).url)

    deploy(named("one"), resources, memory=memory)
    done = deploy(named("two"), resources, memory=memory)
    assert kinds(done.changes) == {"queue": "replace"}
    assert emulator.client("sqs").list_queues()["QueueUrls"] == [done.outputs["url"]]
    assert done.outputs["url"].endswith("/two")


def test_an_error_names_the_urn_and_the_next_deployment_goes_on_from_there(
    emulator: Emulator, resources: Resources
) -> None:
    memory = Memory()

    def broken(runtime: str) -> Callable[[], None]:
        def run() -> None:
            role = aws.iam.Role("role", name="r", assume_role_policy=ANYBODY)
            function = aws.lambda_.Function(
                "bad", name="f", role=role.arn, runtime=runtime, handler="app.handler", code=code()
            )
            aws.lambda_.Alias("live", name="live", function_name=function.name, function_version="$LATEST")

        return run

    with pytest.raises(DeployError, match=r"aws:lambda/function:Function::bad: .*runtime = 'java21'") as failed:
        deploy(broken("java21"), resources, memory=memory)
    assert failed.value.urn.endswith("aws:lambda/function:Function::bad")
    assert [item.pulumi_type for item in memory.resources.values()] == ["aws:iam/role:Role"]

    done = deploy(broken("python3.13"), resources, memory=memory)
    assert kinds(done.changes) == {"role": "same", "bad": "create", "live": "create"}


def test_two_resources_of_one_type_and_name_are_refused(resources: Resources) -> None:
    def twice() -> None:
        for name in ("one", "two"):
            aws.sns.Topic("topic", name=name)

    with pytest.raises(DeployError, match=r"sns/topic:Topic::topic: two resources have this URN"):
        deploy(twice, resources)


def test_an_error_of_the_program_itself_comes_through_as_it_is(resources: Resources) -> None:
    def program() -> None:
        raise LookupError("a mistake in the program")

    with pytest.raises(LookupError, match="a mistake in the program"):
        deploy(program, resources)


def test_a_program_in_a_file_may_import_what_lies_beside_it(resources: Resources, tmp_path: Path) -> None:
    (tmp_path / "beside_the_program.py").write_text("WORD = 'found'", encoding="utf-8")
    (tmp_path / "__main__.py").write_text(
        "import pulumi, beside_the_program\npulumi.export('word', beside_the_program.WORD)", encoding="utf-8"
    )
    assert deploy(tmp_path / "__main__.py", resources).outputs == {"word": "found"}


def test_destroy_removes_everything_that_was_made(emulator: Emulator, resources: Resources) -> None:
    memory = Memory()
    deploy(program(), resources, memory=memory)
    assert destroy(resources, memory) == 4
    assert memory.resources == {}
    assert emulator.client("lambda").list_functions()["Functions"] == []
    assert [role["RoleName"] for role in emulator.client("iam").list_roles()["Roles"]] == ["anybody"]


# -- the command line -------------------------------------------------------------------------------------------------


def test_up_status_and_down_work_across_processes_and_up_twice_changes_nothing(tmp_path: Path) -> None:
    program = tmp_path / "__main__.py"
    program.write_text(
        "import pulumi, pulumi_aws as aws\n"
        "queue = aws.sqs.Queue('queue', name=pulumi.Config().require('name'))\n"
        "pulumi.export('url', queue.url)\n",
        encoding="utf-8",
    )

    def local(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "local", "--home", str(tmp_path / "home"), *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return done.returncode, done.stdout + done.stderr

    up = ("up", "--program", str(program), "--config", "name=q")
    try:
        code, printed = local(*up, "--json")
        assert code == 0, printed
        told = json.loads(printed)
        assert told["outputs"]["url"].endswith("/123456789012/q")
        assert local(*up)[1].startswith("1 same in ")
        assert json.loads(local("status", "--json")[1]) == told
    finally:
        assert local("down") == (0, "stopped\n")
    assert local("down") == (0, "was not running\n")
    assert local("status")[0] == 3
    assert not (tmp_path / "home" / "emulator").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(told["pid"], 0)


def test_up_after_the_emulator_died_makes_everything_again(tmp_path: Path) -> None:
    program = tmp_path / "__main__.py"
    program.write_text("import pulumi_aws as aws\naws.sqs.Queue('queue', name='q')\n", encoding="utf-8")
    place = Place(tmp_path / "home")
    try:
        first, _ = up(program, place=place)
        first.stop()
        second, done = up(program, place=place)
        assert kinds(done.changes) == {"queue": "create"}
        assert len(second.client("sqs").list_queues()["QueueUrls"]) == 1
    finally:
        down(place)


def test_up_says_in_one_line_what_was_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "__main__.py"
    program.write_text("import pulumi\nraise pulumi.RunError('no such setting')\n", encoding="utf-8")
    home = ["--home", str(tmp_path / "home")]
    try:
        assert main([*home, "up", "--program", str(program)]) == 1
        assert capsys.readouterr().err == "local: no such setting\n"
    finally:
        main([*home, "down"])


def test_an_emulator_that_somebody_else_took_the_place_of_is_left_alone(emulator: Emulator, tmp_path: Path) -> None:
    stranger = Emulator(replace(emulator.address, token="another", workdir=str(tmp_path)))
    with pytest.raises(EmulatorError, match=r"is no longer this emulator; process \d+ is left alone"):
        stranger.stop()
    assert emulator.alive()


def test_two_emulators_know_nothing_of_each_other(emulator: Emulator) -> None:
    with Emulator.start() as other:
        other.client("sqs").create_queue(QueueName="theirs")
        assert not emulator.client("sqs").list_queues().get("QueueUrls")
        assert other.address.workdir != emulator.address.workdir
    assert not other.alive()
    assert not Path(other.address.workdir).exists()
    assert emulator.alive()


def test_waits_can_be_skipped(emulator: Emulator, resources: Resources) -> None:
    definition = {
        "QueryLanguage": "JSONata",
        "StartAt": "Rest",
        "States": {"Rest": {"Type": "Wait", "Seconds": 3600, "Next": "Done"}, "Done": {"Type": "Succeed"}},
    }
    machine, _ = resources.create(
        "aws:sfn/stateMachine:StateMachine", {"name": "m", "roleArn": ROLE_ARN, "definition": json.dumps(definition)}
    )
    emulator.scale_waits(0)
    client = emulator.client("stepfunctions")
    execution = client.start_execution(stateMachineArn=machine)["executionArn"]
    wait_until(
        lambda: client.describe_execution(executionArn=execution)["status"], lambda status: status == "SUCCEEDED"
    )
