"""The state machine: its definition, its role and its log."""

from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_aws as aws

from infra.iam import Role, RoleArgs, Statement, platform_key_statements
from infra.naming import MACHINE, MACHINE_LOG_GROUP
from infra.site import Site

ROLE: Final = "workflow"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMachineArgs:
    """The rendered workflow and what it calls."""

    site: Site
    """Account, Region, names and rails."""
    definition: str
    """Amazon States Language as JSON: plain text, so that a preview shows every change of it."""
    table_arn: str
    """The request table, which the definition writes directly."""
    function_arns: tuple[str, ...]
    """The aliases that the definition calls, and no other."""
    depends_on: tuple[pulumi.Resource, ...]
    """What must exist before an execution starts: the definition names it by ARN, which says nothing about order."""


class StateMachine(pulumi.ComponentResource):
    """The standard workflow that deletes one user's data.

    Updated in place: executions under way go on with the definition that they began with. Replacing it (another name)
    leaves them running, while recovery counts executions that it cannot find as not running.
    """

    arn: str
    """The machine's ARN, known before it exists."""
    machine: aws.sfn.StateMachine
    """What must exist before anybody starts an execution."""

    def __init__(self, name: str, args: StateMachineArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("account-deletion:workflow:StateMachine", name, None, opts)
        site = args.site
        self.arn = machine_arn(site)
        log_group = aws.cloudwatch.LogGroup(
            f"{name}-logs",
            name=site.name(MACHINE_LOG_GROUP, ROLE),
            retention_in_days=site.platform.log_retention.days,
            kms_key_id=site.platform.kms_key_arn,
            tags=site.tags,
            opts=pulumi.ResourceOptions(parent=self),
        )
        role = Role(
            f"{name}-access",
            RoleArgs(
                site=site,
                role=ROLE,
                service="states.amazonaws.com",
                statements=statements_of(args),
                # https://docs.aws.amazon.com/step-functions/latest/dg/procedure-create-iam-role.html
                trust_condition={
                    "StringEquals": {"aws:SourceAccount": site.account},
                    "ArnLike": {"aws:SourceArn": site.arn("states", "stateMachine:*")},
                },
            ),
            pulumi.ResourceOptions(parent=self),
        )
        self.machine = aws.sfn.StateMachine(
            f"{name}-machine",
            name=site.name(MACHINE, ROLE),
            # Express has no idempotent start, no DescribeExecution and no status events.
            type="STANDARD",
            definition=args.definition,
            role_arn=role.arn,
            logging_configuration=aws.sfn.StateMachineLoggingConfigurationArgs(
                level="ALL",
                include_execution_data=False,
                log_destination=log_group.arn.apply(lambda arn: f"{arn}:*"),
            ),
            encryption_configuration=_encryption(site),
            tags=site.tags,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[role.policy, *args.depends_on]),
        )
        self.register_outputs({"arn": self.arn})


def machine_arn(site: Site) -> str:
    """ARN of the state machine."""
    return site.arn("states", f"stateMachine:{site.name(MACHINE, ROLE)}")


def execution_arns(site: Site) -> str:
    """Every execution of the machine: their names are request ids and attempts, known at run time only."""
    return site.arn("states", f"execution:{site.name(MACHINE, ROLE)}:*")


def statements_of(args: StateMachineArgs) -> list[Statement]:
    """Everything that the machine's role may do."""
    return [
        Statement(actions=("dynamodb:GetItem", "dynamodb:UpdateItem"), resources=(args.table_arn,)),
        Statement(actions=("lambda:InvokeFunction",), resources=args.function_arns),
        _LOG_DELIVERY,
        *platform_key_statements(args.site),
    ]


_LOG_DELIVERY: Final = Statement(
    actions=(
        "logs:CreateLogDelivery",
        "logs:DeleteLogDelivery",
        "logs:DescribeLogGroups",
        "logs:DescribeResourcePolicies",
        "logs:GetLogDelivery",
        "logs:ListLogDeliveries",
        "logs:PutResourcePolicy",
        "logs:UpdateLogDelivery",
    ),
    resources=("*",),
    any_resource_because=(
        "CloudWatch Logs knows no resource for log deliveries: "
        "https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html"
    ),
)


def _encryption(site: Site) -> aws.sfn.StateMachineEncryptionConfigurationArgs | None:
    if site.platform.kms_key_arn is None:
        return None
    return aws.sfn.StateMachineEncryptionConfigurationArgs(
        type="CUSTOMER_MANAGED_KMS_KEY", kms_key_id=site.platform.kms_key_arn
    )
