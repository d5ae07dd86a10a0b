"""The schedule of a request: made once, taken away once, and never a reason to fail."""

from typing import Any

import pytest

from handlers.core.events import is_request_id
from handlers.schedules import GroupSettings, ScheduleSettings, create, delete
from tests.wire import refused
from tests.world import ACCOUNT, REGION, World, function_arn

REQUEST = "del_" + "0" * 26
GROUP = GroupSettings(schedule_group="deletions")
SETTINGS = ScheduleSettings(
    schedule_group="deletions",
    schedule_role_arn=f"arn:aws:iam::{ACCOUNT}:role/schedule",
    schedule_target_arn=function_arn("Dispatch"),
    schedule_dead_letters_arn=f"arn:aws:sqs:{REGION}:{ACCOUNT}:schedule-dlq",
)
FAILURES = [
    refused("ValidationException"),
    refused("AccessDeniedException", status=403),
    refused("InternalServerException", status=500),
    refused("ThrottlingException", status=429),
]


def names(world: World) -> list[str]:
    return [one["Name"] for one in world.client("scheduler").list_schedules(GroupName="deletions")["Schedules"]]


def test_a_schedule_that_exists_is_left_as_it_is(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        create(SETTINGS, REQUEST, world.now + 3600)

    assert names(world) == [REQUEST]
    assert is_request_id(names(world)[0])
    assert "ScheduleNotCreated" not in capsys.readouterr().out


def test_a_schedule_is_deleted_once_and_again(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    create(SETTINGS, REQUEST, world.now + 3600)

    for _ in range(2):
        delete(GROUP, REQUEST)

    assert names(world) == []
    assert len(world.wire.of("DeleteSchedule")) == 2
    assert "ScheduleNotDeleted" not in capsys.readouterr().out


@pytest.mark.parametrize("act", FAILURES)
def test_a_scheduler_that_fails_is_counted_and_fails_nobody(
    world: World, act: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    world.wire.before("CreateSchedule", act, times=3)
    world.wire.before("DeleteSchedule", act, times=3)

    create(SETTINGS, REQUEST, world.now + 3600)
    delete(GROUP, REQUEST)

    counted = capsys.readouterr().out
    assert '"ScheduleNotCreated":[1.0]' in counted
    assert '"ScheduleNotDeleted":[1.0]' in counted
