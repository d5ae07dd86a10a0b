"""THE LIST: what happens to an account, in this order. A team adds its own steps here.

Each step may run any number of times; docs/add-a-step.md shows how to write one.
"""

from datetime import timedelta

from handlers.core.errors import Retryable, Superseded
from handlers.steps import delete_files, delete_identity, delete_records, restore_identity, suspend_identity
from statemachine.step import Allow, Compensation, FunctionOptions, Retry, Step, StepKind, Value
from statemachine.workflow import Workflow

_POOL = Value("user_pool_arn")
_POOL_ENVIRONMENT = {"USER_POOL_ID": Value("user_pool_id")}

SUSPEND_IDENTITY = Step(
    name="SuspendIdentity",
    handler=suspend_identity.handler,
    kind=StepKind.COMPENSATABLE,
    erases=False,
    timeout=timedelta(minutes=1),
    wait=timedelta(hours=1),
    turns=3,
    compensation=Compensation(
        handler=restore_identity.handler,
        allow=(Allow(("cognito-idp:AdminEnableUser", "cognito-idp:AdminGetUser", "cognito-idp:ListUsers"), on=_POOL),),
        function=FunctionOptions(environment=_POOL_ENVIRONMENT),
    ),
    allow=(
        Allow(
            (
                "cognito-idp:AdminDisableUser",
                "cognito-idp:AdminGetUser",
                "cognito-idp:AdminUserGlobalSignOut",
                "cognito-idp:ListUsers",
            ),
            on=_POOL,
        ),
    ),
    function=FunctionOptions(environment={**_POOL_ENVIRONMENT, "SETTLE": Value("settle")}),
)

DELETE_RECORDS = Step(
    name="DeleteRecords",
    handler=delete_records.handler,
    verify=delete_records.remaining,
    preflight=delete_records.preflight,
    kind=StepKind.PIVOT,
    timeout=timedelta(minutes=5),
    turns=12,
    allow=(
        Allow(("dynamodb:DeleteItem", "dynamodb:DescribeTable", "dynamodb:Query"), on=Value("record_table_arns")),
        Allow("dynamodb:Query", on=Value("record_index_arns", optional=True)),
        Allow("dynamodb:BatchGetItem", on=Value("record_indexed_table_arns", optional=True)),
    ),
    function=FunctionOptions(environment={"RECORD_STORES": Value("record_stores")}),
)

DELETE_FILES = Step(
    name="DeleteFiles",
    handler=delete_files.handler,
    verify=delete_files.remaining,
    preflight=delete_files.preflight,
    kind=StepKind.RETRIABLE,
    timeout=timedelta(minutes=10),
    turns=12,
    retry=(
        Retry(on=(Superseded,), interval=timedelta(seconds=1)),
        Retry(on=(Retryable,), attempts=4, interval=timedelta(seconds=5)),
    ),
    allow=(
        Allow(
            (
                "s3:GetBucketObjectLockConfiguration",
                "s3:GetBucketVersioning",
                "s3:GetReplicationConfiguration",
                "s3:ListBucketMultipartUploads",
                "s3:ListBucketVersions",
            ),
            on=Value("file_bucket_arns"),
        ),
        Allow(
            (
                "s3:AbortMultipartUpload",
                "s3:DeleteObjectVersion",
                "s3:GetObjectLegalHold",
                "s3:GetObjectRetention",
                "s3:ListMultipartUploadParts",
            ),
            on=Value("file_object_arns"),
        ),
    ),
    # One whole virtual CPU (https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html): reading listings
    # is what limits a deletion of many files, and a faster function costs no more in all.
    function=FunctionOptions(memory=1769, environment={"FILE_STORES": Value("file_stores")}),
)

DELETE_IDENTITY = Step(
    name="DeleteIdentity",
    handler=delete_identity.handler,
    verify=delete_identity.remaining,
    preflight=delete_identity.preflight,
    kind=StepKind.RETRIABLE,
    timeout=timedelta(minutes=1),
    turns=2,
    allow=(Allow(("cognito-idp:AdminDeleteUser", "cognito-idp:AdminGetUser", "cognito-idp:ListUsers"), on=_POOL),),
    function=FunctionOptions(environment=_POOL_ENVIRONMENT),
)


def steps(*, identity: bool) -> tuple[Step, ...]:
    """The steps of a deployment.

    Args:
        identity: whether the deployment has a user pool; without one there is no identity to suspend or delete.
    """
    stores = (DELETE_RECORDS, DELETE_FILES)
    return (SUSPEND_IDENTITY, *stores, DELETE_IDENTITY) if identity else stores


def workflow(*, identity: bool) -> Workflow:
    """The checked workflow of a deployment.

    Raises:
        WorkflowError: the list breaks a rule.
    """
    return Workflow(steps=steps(identity=identity))
