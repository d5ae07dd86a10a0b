"""Lambda functions: one layer for all, and for each its log group, role, dead letters and the alias `live`."""

import warnings
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_aws as aws
from pulumi_aws import lambda_

from infra import iam
from infra.iam import Role, RoleArgs, Statement, platform_key_statements
from infra.naming import FUNCTION, FUNCTION_LOG_GROUP, LAYER
from infra.packaging import ARCHITECTURE, RUNTIME, Build
from infra.platform import Network
from infra.queues import DeadLetterQueue, DeadLetterQueueArgs, queue_arn
from infra.site import Site
from infra.values import ResolvedFunction

with warnings.catch_warnings():
    # The package is loaded at its first use, and pulumi-aws 7.51 then warns of a type in it that nobody here uses.
    warnings.filterwarnings("ignore", message="aws.lambda/microvmsimage", category=DeprecationWarning)
    getattr(lambda_, "Function")  # noqa: B009 - the access is what loads it

LIVE: Final = "live"
"""The alias that everything calls: a deploy moves it, and the versions before it stay for a way back."""
MAX_ENVIRONMENT_BYTES: Final = 4096
"""https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html: all variables of a function together."""
_DIGEST_CHARACTERS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerArgs:
    """The one layer."""

    site: Site
    """Account, Region, names and rails."""
    build: Build
    """The packages that `make build` left."""


class Layer(pulumi.ComponentResource):
    """Everything that handlers import and do not contain.

    Named by its digest: other dependencies are another layer, made before the old one goes.
    """

    arn: pulumi.Output[str]
    """ARN of the version."""

    def __init__(self, name: str, args: LayerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("account-deletion:functions:Layer", name, None, opts)
        digest = args.build.layer_digest[:_DIGEST_CHARACTERS]
        version = lambda_.LayerVersion(
            f"{name}-version",
            layer_name=args.site.name(LAYER, f"dependencies-{digest}"),
            description=f"account deletion: the dependencies of the handlers, {digest}",
            code=pulumi.FileArchive(str(args.build.layer)),
            compatible_runtimes=[RUNTIME],
            compatible_architectures=[ARCHITECTURE],
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.arn = version.arn
        self.register_outputs({"arn": self.arn})


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionArgs:
    """One function and what it shares with the others."""

    site: Site
    """Account, Region, names and rails."""
    function: ResolvedFunction
    """The function as data."""
    build: Build
    """Our own code."""
    layer_arn: pulumi.Input[str]
    """The shared layer."""


class Function(pulumi.ComponentResource):
    """A Lambda function that is called at its alias `live`.

    Its log group exists before it, with finite retention, and its role may not make one: a late invocation would make
    the group again, without retention. Replacing the function breaks executions for as long as it takes.
    """

    alias_arn: str
    """ARN of the alias, known before the function exists."""
    alias: lambda_.Alias
    """What must exist before anything calls the ARN."""
    dead_letters: DeadLetterQueue | None
    """The events that it gave up; None where its callers wait for the answer."""

    def __init__(self, name: str, args: FunctionArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("account-deletion:functions:Function", name, None, opts)
        site, spec = args.site, args.function.spec
        self.alias_arn = alias_arn(site, spec.role)
        log_group = aws.cloudwatch.LogGroup(
            f"{name}-logs",
            name=site.name(FUNCTION_LOG_GROUP, spec.role),
            retention_in_days=site.platform.log_retention.days,
            kms_key_id=site.platform.kms_key_arn,
            tags=site.tags,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.dead_letters = None
        if spec.asynchronous:
            queue_args = DeadLetterQueueArgs(site=site, role=spec.role)
            self.dead_letters = DeadLetterQueue(f"{name}-dlq", queue_args, pulumi.ResourceOptions(parent=self))
        role = Role(
            f"{name}-access",
            RoleArgs(
                site=site,
                role=spec.role,
                service="lambda.amazonaws.com",
                statements=statements_of(site, args.function),
            ),
            pulumi.ResourceOptions(parent=self),
        )
        function = self._make_function(name, args, role, log_group)
        self.alias = lambda_.Alias(
            f"{name}-live",
            name=LIVE,
            description="what everything calls",
            function_name=function.name,
            function_version=function.version,
            opts=pulumi.ResourceOptions(parent=self),
        )
        if spec.asynchronous:
            lambda_.FunctionEventInvokeConfig(
                f"{name}-events",
                # Belongs to the qualifier that is called: on the function itself it would never apply.
                function_name=function.name,
                qualifier=self.alias.name,
                maximum_retry_attempts=spec.asynchronous.retries,
                maximum_event_age_in_seconds=int(spec.asynchronous.max_age.total_seconds()),
                opts=pulumi.ResourceOptions(parent=self),
            )
        self.register_outputs({"alias_arn": self.alias_arn})

    def _make_function(
        self, name: str, args: FunctionArgs, role: Role, log_group: aws.cloudwatch.LogGroup
    ) -> lambda_.Function:
        site, spec = args.site, args.function.spec
        dead_letters = None
        # The log group is named by its Output and the role by its ARN; the policy and the queue would come too late.
        before: list[pulumi.Resource] = [role.policy]
        if self.dead_letters is not None:
            dead_letters = lambda_.FunctionDeadLetterConfigArgs(target_arn=self.dead_letters.arn)
            before.append(self.dead_letters.queue)
        return lambda_.Function(
            f"{name}-function",
            name=function_name(site, spec.role),
            description=f"account deletion: {spec.role}",
            runtime=RUNTIME,
            architectures=[ARCHITECTURE],
            handler=spec.handler,
            role=role.arn,
            code=_archive(args.build),
            layers=[args.layer_arn],
            timeout=int(spec.timeout.total_seconds()),
            memory_size=spec.memory,
            publish=True,
            environment=lambda_.FunctionEnvironmentArgs(variables=dict(args.function.environment)),
            kms_key_arn=site.platform.kms_key_arn,
            logging_config=lambda_.FunctionLoggingConfigArgs(log_format="JSON", log_group=log_group.name),
            dead_letter_config=dead_letters,
            vpc_config=_vpc(site.platform.network) if spec.network else None,
            tags=site.tags,
            opts=pulumi.ResourceOptions(parent=self, depends_on=before),
        )


def function_name(site: Site, role: str) -> str:
    """A function's physical name."""
    return site.name(FUNCTION, role)


def alias_arn(site: Site, role: str) -> str:
    """ARN of a function's alias `live`."""
    return site.arn("lambda", f"function:{function_name(site, role)}:{LIVE}")


def size_problems(site: Site, function: ResolvedFunction) -> list[str]:
    """What would not fit into one function or one role; empty when all does."""
    role = function.spec.role
    # A value that is not known yet counts as none: it is an ARN or an endpoint, far below what is at stake.
    known = {name: value for name, value in function.environment.items() if isinstance(value, str)}
    size = sum(len(name.encode()) + len(value.encode()) for name, value in known.items())
    problems = iam.length_problems(role, statements_of(site, function))
    if size > MAX_ENVIRONMENT_BYTES:
        message = f"function {role}: its variables have {size} bytes, Lambda takes {MAX_ENVIRONMENT_BYTES}"
        problems.insert(0, f"{message}; split the step into two with half of the stores each")
    return problems


def statements_of(site: Site, function: ResolvedFunction) -> list[Statement]:
    """Everything that a function's role may do."""
    spec = function.spec
    log_group = site.arn("logs", f"log-group:{site.name(FUNCTION_LOG_GROUP, spec.role)}")
    statements = [
        Statement(actions=("logs:CreateLogStream", "logs:PutLogEvents"), resources=(f"{log_group}:log-stream:*",)),
        *function.statements,
    ]
    if spec.asynchronous:
        statements.append(Statement(actions=("sqs:SendMessage",), resources=(queue_arn(site, spec.role),)))
    if spec.network:
        statements.append(_NETWORK_INTERFACES)
    return [*statements, *platform_key_statements(site)]


_NETWORK_INTERFACES: Final = Statement(
    actions=(
        "ec2:AssignPrivateIpAddresses",
        "ec2:CreateNetworkInterface",
        "ec2:DeleteNetworkInterface",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeSubnets",
        "ec2:UnassignPrivateIpAddresses",
    ),
    resources=("*",),
    any_resource_because=(
        "Lambda makes network interfaces whose ids nobody knows before, and checks these permissions without a "
        "resource: https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html"
    ),
)


def _archive(build: Build) -> pulumi.AssetArchive:
    """File by file, so that a preview names the files that changed."""
    return pulumi.AssetArchive({name: pulumi.FileAsset(str(path)) for name, path in build.code.items()})


def _vpc(network: Network | None) -> lambda_.FunctionVpcConfigArgs | None:
    if network is None:
        return None
    return lambda_.FunctionVpcConfigArgs(
        subnet_ids=list(network.subnet_ids), security_group_ids=list(network.security_group_ids)
    )
