"""The optimized integrations: which actions each service has, in which patterns, and what each call needs."""

from collections.abc import Mapping
from dataclasses import dataclass

SYNC = ".sync"
SYNC_2 = ".sync:2"
CALLBACK = ".waitForTaskToken"
PATTERNS = frozenset({"", SYNC, SYNC_2, CALLBACK})


@dataclass(frozen=True, slots=True)
class Action:
    """One action of an optimized integration."""

    patterns: frozenset[str]
    required: tuple[str, ...]
    """Parameters without which the call cannot work; `A|B` where one of several is needed."""


def _action(*required: str, sync: bool = False, callback: bool = False) -> Action:
    patterns = {""} | ({SYNC} if sync else set()) | ({CALLBACK} if callback else set())
    return Action(frozenset(patterns), required)


def _jobs(*names: str, needs: str) -> dict[str, Action]:
    return {name: _action(needs, sync=True) for name in names}


OPTIMIZED: Mapping[str, Mapping[str, Action]] = {
    "apigateway": {"invoke": _action("ApiEndpoint", "Method", callback=True)},
    "athena": {
        "startQueryExecution": _action("QueryString", sync=True),
        "stopQueryExecution": _action("QueryExecutionId"),
        "getQueryExecution": _action("QueryExecutionId"),
        "getQueryResults": _action("QueryExecutionId"),
    },
    "batch": {"submitJob": _action("JobName", "JobQueue", "JobDefinition", sync=True)},
    "bedrock": {
        "invokeModel": _action("ModelId", callback=True),
        "createModelCustomizationJob": _action("JobName", "CustomModelName", "BaseModelIdentifier", sync=True),
    },
    "codebuild": {
        "startBuild": _action("ProjectName", sync=True),
        "startBuildBatch": _action("ProjectName", sync=True),
        "retryBuildBatch": _action(sync=True),
        "stopBuild": _action("Id"),
        "stopBuildBatch": _action("Id"),
        "deleteBuildBatch": _action("Id"),
        "batchDeleteBuilds": _action("Ids"),
        "batchGetReports": _action("ReportArns"),
    },
    "databrew": {"startJobRun": _action("Name", sync=True)},
    "dynamodb": {
        "getItem": _action("TableName", "Key"),
        "putItem": _action("TableName", "Item"),
        "updateItem": _action("TableName", "Key"),
        "deleteItem": _action("TableName", "Key"),
    },
    "ecs": {"runTask": _action("TaskDefinition", sync=True, callback=True)},
    "eks": {
        "call": _action("ClusterName", "CertificateAuthority", "Endpoint", "Method", "Path", callback=True),
        "runJob": _action("ClusterName", "CertificateAuthority", "Endpoint", "Job", sync=True, callback=True),
        "createCluster": _action("Name", "RoleArn", "ResourcesVpcConfig", sync=True),
        "deleteCluster": _action("Name", sync=True),
        "createNodegroup": _action("ClusterName", "NodegroupName", "NodeRole", "Subnets", sync=True),
        "deleteNodegroup": _action("ClusterName", "NodegroupName", sync=True),
        "createFargateProfile": _action("ClusterName", "FargateProfileName", "PodExecutionRoleArn", sync=True),
        "deleteFargateProfile": _action("ClusterName", "FargateProfileName", sync=True),
    },
    "elasticmapreduce": {
        "createCluster": _action("Name", "Instances", sync=True),
        "terminateCluster": _action("ClusterId", sync=True),
        "addStep": _action("ClusterId", "Step", sync=True),
        "cancelStep": _action("ClusterId", "StepId"),
        "setClusterTerminationProtection": _action("ClusterId", "TerminationProtected"),
        "modifyInstanceFleetByName": _action("ClusterId", "InstanceFleetName", "InstanceFleet"),
        "modifyInstanceGroupByName": _action("ClusterId", "InstanceGroupName", "InstanceGroup"),
    },
    "emr-containers": {
        "createVirtualCluster": _action("Name", "ContainerProvider"),
        "deleteVirtualCluster": _action("Id", sync=True),
        "startJobRun": _action("VirtualClusterId", "ExecutionRoleArn", "ReleaseLabel", "JobDriver", sync=True),
    },
    "emr-serverless": {
        "createApplication": _action("ReleaseLabel", "Type", sync=True),
        **_jobs("startApplication", "stopApplication", "deleteApplication", needs="ApplicationId"),
        "startJobRun": _action("ApplicationId", "ExecutionRoleArn", sync=True),
        "cancelJobRun": _action("ApplicationId", "JobRunId", sync=True),
    },
    "events": {"putEvents": _action("Entries", callback=True)},
    "glue": {"startJobRun": _action("JobName", sync=True)},
    "http": {"invoke": _action("ApiEndpoint", "Method", "Authentication|InvocationConfig")},
    "lambda": {"invoke": _action("FunctionName", callback=True)},
    "mediaconvert": {"createJob": _action("Role", "Settings", sync=True)},
    "sagemaker": {
        "createEndpoint": _action("EndpointName", "EndpointConfigName"),
        "createEndpointConfig": _action("EndpointConfigName", "ProductionVariants"),
        "createModel": _action("ModelName", "ExecutionRoleArn"),
        "updateEndpoint": _action("EndpointName", "EndpointConfigName"),
        "createHyperParameterTuningJob": _action("HyperParameterTuningJobName", sync=True),
        "createLabelingJob": _action("LabelingJobName", sync=True),
        "createProcessingJob": _action("ProcessingJobName", "RoleArn", sync=True),
        "createTrainingJob": _action("TrainingJobName", "RoleArn", "OutputDataConfig", sync=True),
        "createTransformJob": _action("TransformJobName", "ModelName", sync=True),
    },
    "sns": {"publish": _action("Message", "TopicArn|TargetArn|PhoneNumber", callback=True)},
    "sqs": {"sendMessage": _action("QueueUrl", "MessageBody", callback=True)},
    "states": {
        "startExecution": Action(frozenset(PATTERNS), ("StateMachineArn",)),
    },
}

# Actions with parameters of their own, which no API model knows.
OWN_PARAMETERS: Mapping[str, frozenset[str]] = {
    "apigateway:invoke": frozenset(
        {"ApiEndpoint", "Method", "Headers", "Stage", "Path", "QueryParameters", "RequestBody"}
        | {"AllowNullValues", "AuthType"}
    ),
    "http:invoke": frozenset(
        {"ApiEndpoint", "Method", "Authentication", "InvocationConfig", "Headers", "QueryParameters"}
        | {"RequestBody", "Transform"}
    ),
}
# Parameters of the API that the optimized integration leaves out.
REFUSED_PARAMETERS: Mapping[str, frozenset[str]] = {
    "dynamodb": frozenset({"ReturnValuesOnConditionCheckFailure"}),
}
# Optimized services whose parameters the API's model tells, with its name there.
MODELLED: Mapping[str, str] = {
    "athena": "athena",
    "batch": "batch",
    "databrew": "databrew",
    "dynamodb": "dynamodb",
    "ecs": "ecs",
    "events": "events",
    "glue": "glue",
    "lambda": "lambda",
    "sns": "sns",
    "sqs": "sqs",
    "states": "stepfunctions",
}

HTTP_METHODS = frozenset({"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"})

LAMBDA_ERRORS = frozenset(
    {
        "Lambda.AWSLambdaException",
        "Lambda.ClientExecutionTimeoutException",
        "Lambda.ResourceNotFoundException",
        "Lambda.SdkClientException",
        "Lambda.ServiceException",
        "Lambda.TooManyRequestsException",
        "Lambda.Unknown",
    }
)

# Error prefixes as the optimized integration spells them, and as the SDK integration does.
ERROR_PREFIXES: Mapping[str, tuple[str, str]] = {
    "dynamodb": ("DynamoDB", "DynamoDb"),
    "ecs": ("ECS", "Ecs"),
    "sns": ("SNS", "Sns"),
    "sqs": ("SQS", "Sqs"),
}
