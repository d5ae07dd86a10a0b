"""What starts recovery: the rule for executions that ended badly, and the sweeper's schedule."""

import json

import pytest

from tests.infra import golden, samples
from tests.infra.world import Registered, World, document, run

PLACE = "eu-west-1:123456789012"
RULE = f"arn:aws:events:{PLACE}:rule/acme-prod-status"
DEAD_LETTERS = f"arn:aws:sqs:{PLACE}:acme-prod-status-dlq"
RECOVER = f"arn:aws:lambda:{PLACE}:function:acme-prod-recover:live"
SWEEP = f"arn:aws:lambda:{PLACE}:function:acme-prod-sweep:live"


@pytest.fixture(scope="module")
def world() -> World:
    return golden.sample_world()


def made_before(world: World, resource: Registered) -> set[str]:
    """Names of the resources that one waits for."""
    return {one.name for one in world.aws if one.urn in resource.depends_on}


def test_rule_takes_the_bad_ends_of_this_state_machine_and_nothing_else(world: World) -> None:
    rule = world.one("EventRule")

    assert document(rule, "eventPattern") == {
        "source": ["aws.states"],
        "detail-type": ["Step Functions Execution Status Change"],
        "detail": {
            "stateMachineArn": [f"arn:aws:states:{PLACE}:stateMachine:acme-prod-workflow"],
            "status": ["ABORTED", "FAILED", "TIMED_OUT"],
        },
    }
    # Without a bus it is the default one, to which Step Functions sends; without a state it is enabled.
    assert {"eventBusName", "state", "scheduleExpression"} & rule.inputs.keys() == set()


def test_event_goes_to_recover_for_an_hour_and_then_to_the_rules_own_queue(world: World) -> None:
    target = world.one("EventTarget")

    assert target.inputs == {
        "rule": "acme-prod-status",
        "arn": RECOVER,
        "deadLetterConfig": {"arn": DEAD_LETTERS},
        "retryPolicy": {"maximumEventAgeInSeconds": 3_600, "maximumRetryAttempts": 10},
    }
    assert {
        "deletion-recovery-permission",
        "deletion-recovery-dlq-queue",
        "deletion-recovery-rule",
    } <= made_before(world, target)


def test_permission_to_call_recover_belongs_to_the_alias_and_to_this_rule(world: World) -> None:
    permission = world.one("Permission")

    assert permission.inputs == {
        "action": "lambda:InvokeFunction",
        "function": "acme-prod-recover",
        "qualifier": "live",
        "principal": "events.amazonaws.com",
        "sourceArn": RULE,
    }
    assert "deletion-recover-live" in made_before(world, permission)


def test_arn_of_the_rule_is_the_one_that_it_gets(world: World) -> None:
    assert RULE.endswith(f":rule/{world.one('EventRule').physical_name}")


def test_queue_of_the_rule_takes_messages_of_this_rule_alone(world: World) -> None:
    policy = document(world.one("QueuePolicy", "deletion-recovery-dlq-policy"))

    assert [statement for statement in policy["Statement"] if statement["Effect"] == "Allow"] == [
        {
            "Sid": "AllowTheRule",
            "Effect": "Allow",
            "Principal": {"Service": "events.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": DEAD_LETTERS,
            "Condition": {"ArnEquals": {"aws:SourceArn": RULE}},
        }
    ]


def test_no_other_queue_lets_a_service_send(world: World) -> None:
    others = [one for one in world.of("QueuePolicy") if one.name != "deletion-recovery-dlq-policy"]

    assert len(others) == len(world.of("Queue")) - 1
    assert {statement["Effect"] for one in others for statement in document(one)["Statement"]} == {"Deny"}


def test_sweeper_runs_every_minute_and_a_lost_run_is_not_made_up_for(world: World) -> None:
    schedule = world.one("Schedule")

    assert schedule.inputs == {
        "name": "acme-prod-sweeper",
        "groupName": "acme-prod-deletions",
        "description": "account deletion: looks after every request whose time has come",
        "scheduleExpression": "rate(1 minute)",
        "flexibleTimeWindow": {"mode": "OFF"},
        "target": {
            "arn": SWEEP,
            "roleArn": "arn:aws:iam::123456789012:role/acme-prod-eu-west-1-schedule",
            "retryPolicy": {"maximumEventAgeInSeconds": 60, "maximumRetryAttempts": 0},
        },
    }
    assert {
        "deletion-sweep-live",
        "deletion-schedules-group",
        "deletion-schedules-access-policy",
    } <= made_before(world, schedule)


def test_no_request_can_have_the_name_of_the_sweepers_schedule(world: World) -> None:
    # Both are in one group, where a request's schedule is called like the request: del_<26 characters>.
    assert not world.one("Schedule").physical_name.startswith("del_")


def test_role_of_the_schedules_may_call_dispatch_and_sweep_and_nothing_else(world: World) -> None:
    statements = document(world.one("RolePolicy", "deletion-schedules-access-policy"))["Statement"]
    called = [statement["Resource"] for statement in statements if statement["Action"] == ["lambda:InvokeFunction"]]

    assert called == [[f"arn:aws:lambda:{PLACE}:function:acme-prod-dispatch:live", SWEEP]]


def test_arn_of_the_role_has_the_platforms_path_and_the_schedule_its_key() -> None:
    railed = run(lambda: samples.deploy(samples.arguments(settings=samples.settings(samples.RAILS))))
    schedule = railed.one("Schedule").inputs

    assert schedule["target"]["roleArn"] == "arn:aws:iam::123456789012:role/service/acme-prod-eu-west-1-schedule"
    assert schedule["kmsKeyArn"] == samples.KEY
    assert samples.KEY in json.dumps(document(railed.one("RolePolicy", "deletion-schedules-access-policy")))


def test_what_sweep_leaves_is_delivered_no_second_time_and_what_recover_leaves_is(world: World) -> None:
    settings = {one.inputs["functionName"]: dict(one.inputs) for one in world.of("FunctionEventInvokeConfig")}

    assert settings["acme-prod-sweep"] == {
        "functionName": "acme-prod-sweep",
        "qualifier": "live",
        "maximumRetryAttempts": 0,
        "maximumEventAgeInSeconds": 60,
    }
    assert settings["acme-prod-recover"] == {
        "functionName": "acme-prod-recover",
        "qualifier": "live",
        "maximumRetryAttempts": 2,
        "maximumEventAgeInSeconds": 6 * 3_600,
    }
