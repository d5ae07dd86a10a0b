"""EventBridge Scheduler: the group of the one-time schedules, one a request, and the role that they fire with."""

from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_aws as aws

from infra.iam import Role, RoleArgs, Statement, platform_key_statements
from infra.naming import ROLE as ROLE_NAME
from infra.naming import SCHEDULE_GROUP
from infra.queues import DeadLetterQueue, DeadLetterQueueArgs, queue_arn
from infra.site import Site

ROLE: Final = "schedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulesArgs:
    """What a schedule calls when a grace period ends."""

    site: Site
    """Account, Region, names and rails."""
    target_arns: tuple[str, ...]
    """Aliases of the functions that schedules call: what starts a request, and the sweeper."""


class Schedules(pulumi.ComponentResource):
    """The schedule group, the role of its schedules, and the queue for what they could not deliver.

    Deleting the group deletes every schedule in it (the sweeper would still start the requests), so outside dev it is
    protected like a table.
    """

    group_name: str
    """The group's name."""
    role_arn: str
    """What CreateSchedule hands to the scheduler."""
    dead_letters: DeadLetterQueue
    """Calls that the scheduler could not make."""
    group: aws.scheduler.ScheduleGroup
    """What must exist before the first schedule."""
    role: Role
    """What a schedule calls as."""

    def __init__(self, name: str, args: SchedulesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("account-deletion:schedule:Schedules", name, None, opts)
        site = args.site
        self.group_name = group_name(site)
        self.role_arn = role_arn(site)
        self.dead_letters = DeadLetterQueue(
            f"{name}-dlq", DeadLetterQueueArgs(site=site, role=ROLE), pulumi.ResourceOptions(parent=self)
        )
        self.group = aws.scheduler.ScheduleGroup(
            f"{name}-group",
            name=self.group_name,
            tags=site.tags,
            opts=pulumi.ResourceOptions(parent=self, protect=site.protects_data),
        )
        self.role = Role(
            f"{name}-access",
            RoleArgs(
                site=site,
                role=ROLE,
                service="scheduler.amazonaws.com",
                statements=statements_of(args),
                # https://docs.aws.amazon.com/scheduler/latest/UserGuide/cross-service-confused-deputy-prevention.html
                trust_condition={
                    "StringEquals": {
                        "aws:SourceAccount": site.account,
                        "aws:SourceArn": site.arn("scheduler", f"schedule-group/{self.group_name}"),
                    }
                },
            ),
            pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"group_name": self.group_name, "role_arn": self.role_arn})


def group_name(site: Site) -> str:
    """The schedule group's name."""
    return site.name(SCHEDULE_GROUP, "deletions")


def schedule_arns(site: Site) -> str:
    """Every request's schedule: their names are request ids, known at run time only."""
    return site.arn("scheduler", f"schedule/{group_name(site)}/del_*")


def role_arn(site: Site) -> str:
    """ARN of the schedules' role."""
    return site.role_arn(site.name(ROLE_NAME, ROLE))


def dead_letters_arn(site: Site) -> str:
    """ARN of the queue for calls that the scheduler could not make."""
    return queue_arn(site, ROLE)


def statements_of(args: SchedulesArgs) -> list[Statement]:
    """Everything that the schedules' role may do."""
    return [
        Statement(actions=("lambda:InvokeFunction",), resources=args.target_arns),
        Statement(actions=("sqs:SendMessage",), resources=(dead_letters_arn(args.site),)),
        *platform_key_statements(args.site),
    ]
