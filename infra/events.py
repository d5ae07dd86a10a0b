"""What starts recovery: the state machine's status changes, and the sweeper's clock."""

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import pulumi
import pulumi_aws as aws
from pulumi_aws import lambda_

from infra.functions import LIVE, Function
from infra.naming import RULE, SCHEDULE
from infra.queues import DeadLetterQueue, DeadLetterQueueArgs
from infra.schedule import Schedules
from infra.site import Site

STATUS_ROLE: Final = "status"
SWEEPER: Final = "sweeper"
ENDED_BADLY: Final = ("ABORTED", "FAILED", "TIMED_OUT")
SWEEP_EVERY: Final = timedelta(minutes=1)
EVENT_RETRIES: Final = 10
EVENT_AGE: Final = timedelta(hours=1)
"""After that the sweeper has found the request by its lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryArgs:
    """Whose executions are watched, and who looks after them."""

    site: Site
    """Account, Region, names and rails."""
    machine_arn: str
    """The state machine."""
    recover: Function
    """Called at once when an execution ends badly."""
    sweep: Function
    """Called every minute."""
    schedules: Schedules
    """Group and role of the sweeper's schedule."""


class Recovery(pulumi.ComponentResource):
    """The rule for executions that failed, timed out or were aborted, and the sweeper's schedule.

    Neither holds data. Without the rule a dead execution is found by its lease; without the sweeper nothing is retried.
    """

    dead_letters: DeadLetterQueue
    """Events that the rule could not deliver."""

    def __init__(self, name: str, args: RecoveryArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("account-deletion:events:Recovery", name, None, opts)
        site = args.site
        self.dead_letters = DeadLetterQueue(
            f"{name}-dlq",
            DeadLetterQueueArgs(site=site, role=STATUS_ROLE, rule_arn=rule_arn(site)),
            pulumi.ResourceOptions(parent=self),
        )
        rule = aws.cloudwatch.EventRule(
            f"{name}-rule",
            name=site.name(RULE, STATUS_ROLE),
            description="account deletion: an execution ended without saying so in the request table",
            event_pattern=json.dumps(pattern(args.machine_arn), sort_keys=True),
            tags=site.tags,
            opts=pulumi.ResourceOptions(parent=self),
        )
        permission = lambda_.Permission(
            f"{name}-permission",
            action="lambda:InvokeFunction",
            function=args.recover.alias.function_name,
            # Belongs to the qualifier that is called.
            qualifier=LIVE,
            principal="events.amazonaws.com",
            source_arn=rule_arn(site),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[args.recover.alias]),
        )
        aws.cloudwatch.EventTarget(
            f"{name}-target",
            rule=rule.name,
            arn=args.recover.alias_arn,
            dead_letter_config=aws.cloudwatch.EventTargetDeadLetterConfigArgs(arn=self.dead_letters.arn),
            retry_policy=aws.cloudwatch.EventTargetRetryPolicyArgs(
                maximum_event_age_in_seconds=int(EVENT_AGE.total_seconds()),
                maximum_retry_attempts=EVENT_RETRIES,
            ),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[permission, self.dead_letters.queue]),
        )
        aws.scheduler.Schedule(
            f"{name}-sweeper",
            name=site.name(SCHEDULE, SWEEPER),
            group_name=args.schedules.group.name,
            description="account deletion: looks after every request whose time has come",
            schedule_expression=f"rate({SWEEP_EVERY // timedelta(minutes=1)} minute)",
            flexible_time_window=aws.scheduler.ScheduleFlexibleTimeWindowArgs(mode="OFF"),
            kms_key_arn=site.platform.kms_key_arn,
            target=aws.scheduler.ScheduleTargetArgs(
                arn=args.sweep.alias_arn,
                role_arn=args.schedules.role_arn,
                # The next minute makes up for a lost one; an old one helps nobody.
                retry_policy=aws.scheduler.ScheduleTargetRetryPolicyArgs(
                    maximum_event_age_in_seconds=60, maximum_retry_attempts=0
                ),
            ),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[args.sweep.alias, args.schedules.role.policy]),
        )
        self.register_outputs({})


def rule_arn(site: Site) -> str:
    """ARN of the rule."""
    return site.arn("events", f"rule/{site.name(RULE, STATUS_ROLE)}")


def pattern(machine_arn: str) -> dict[str, object]:
    """Which events: https://docs.aws.amazon.com/step-functions/latest/dg/eventbridge-integration.html"""
    return {
        "source": ["aws.states"],
        "detail-type": ["Step Functions Execution Status Change"],
        "detail": {"stateMachineArn": [machine_arn], "status": list(ENDED_BADLY)},
    }
