"""The one-time schedule of a request: it calls dispatch when the grace period ends, then deletes itself.

Safe to repeat because: a schedule's name is the request's id and its time is grace_ends_at, which never changes, so a
schedule that exists is the right one. One that outlives its request does nothing: dispatch finds the request not due.
Leaves open: no failure here fails the caller. The record's due_at is what the sweeper goes by; a schedule only saves up
to a minute.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from handlers.core import aws, clock, metrics, telemetry
from handlers.core.errors import AwsFailure

TOO_SOON = timedelta(minutes=2)
"""EventBridge Scheduler is not given times that may be past when it reads them; the sweeper starts what is due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """What whoever deletes a schedule needs."""

    schedule_group: str
    """Where the schedules are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSettings(GroupSettings):
    """What whoever makes a schedule needs."""

    schedule_role_arn: str
    """What the scheduler calls the target as."""
    schedule_target_arn: str
    """What a schedule calls: dispatch."""
    schedule_dead_letters_arn: str
    """Where the scheduler puts events that it could not deliver."""


def create(own: ScheduleSettings, request_id: str, grace_ends_at: int) -> None:
    """Make the schedule, unless its time is about to come; one that exists already is right."""
    if grace_ends_at - clock.now() < TOO_SOON.total_seconds():
        return
    try:
        with aws.our_errors("CreateSchedule"):
            aws.client("scheduler").create_schedule(**_request(own, request_id, grace_ends_at))
    except AwsFailure as failure:
        if failure.code != "ConflictException":
            telemetry.log("not scheduled", deletion_request_id=request_id, aws_code=failure.code)
            telemetry.count(metrics.SCHEDULE_NOT_CREATED)


def delete(own: GroupSettings, request_id: str) -> None:
    """Delete the schedule; one that has gone already is fine."""
    try:
        with aws.our_errors("DeleteSchedule"):
            aws.client("scheduler").delete_schedule(Name=request_id, GroupName=own.schedule_group)
    except AwsFailure as failure:
        if failure.code != "ResourceNotFoundException":
            telemetry.log("schedule not deleted", deletion_request_id=request_id, aws_code=failure.code)
            telemetry.count(metrics.SCHEDULE_NOT_DELETED)


def _request(own: ScheduleSettings, request_id: str, due_at: int) -> dict[str, Any]:
    return {
        "Name": request_id,
        "GroupName": own.schedule_group,
        "ScheduleExpression": f"at({datetime.fromtimestamp(due_at, UTC):%Y-%m-%dT%H:%M:%S})",
        "ScheduleExpressionTimezone": "UTC",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "ActionAfterCompletion": "DELETE",
        "Target": {
            "Arn": own.schedule_target_arn,
            "RoleArn": own.schedule_role_arn,
            "Input": json.dumps({"deletion_request_id": request_id}),
            "DeadLetterConfig": {"Arn": own.schedule_dead_letters_arn},
            "RetryPolicy": {"MaximumRetryAttempts": 10, "MaximumEventAgeInSeconds": 3600},
        },
    }
