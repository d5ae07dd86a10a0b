"""Every alarm of the stack rings in its condition, and the page arrives.

What the emulator does not do, and how it is proven instead:
- It makes no metric of a line in embedded metric format, as CloudWatch does. So a condition is brought about on the
  deployed functions, the line that they log is read, and PutMetricData sends what the line says: namespace, name, unit,
  dimensions and value are never typed here.
- It has metrics of Lambda, from real invocations, and none of SQS and Step Functions: there the queue and the
  executions are real, and the metric is the one that the alarm names.
- Its alarms look at no dimensions, so the dimensions are compared with those of the metric. It looks at its alarms only
  when a metric is sent, and at the whole window of an alarm as if it were one period.
- It knows neither missing data nor metric math, which it does not even keep: these two alarms are evaluated by their
  definition.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from handlers.core import metrics
from handlers.core.metrics import Metric
from handlers.core.record import to_value
from handlers.core.request_table import request_key
from handlers.core.states import Status
from infra.alarm_list import RUNBOOK, Alarm, AlarmsArgs, Signal, alarms_of
from infra.naming import Naming
from infra.platform import Platform
from infra.settings import Settings
from infra.site import Site
from local.demo_stores import Stores
from local.emulator import Emulator
from local.waiting import wait_until
from statemachine import deletion
from tests import emf
from tests.emf import Sent
from tests.emulator.stack import LIMIT, Stack, deploy_stack, make_lockable_bucket
from tests.emulator.test_recovery import UNHEARD_OF, stop_the_clock, sweep
from tests.infra import golden
from tests.metric_math import value_of

pytestmark = pytest.mark.long

HOUR = 3_600
LOCKED = "acme-local-contracts"
WORKFLOW = deletion.workflow(identity=True)
RINGS, CALM, NOTHING_YET = "ALARM", "OK", "INSUFFICIENT_DATA"


def planned() -> dict[str, Alarm]:
    """Role -> alarm, for the tests' ids; a test holds the deployed ones to it."""
    platform = Platform(name_prefix="acme")
    naming = Naming(prefix="acme", environment="local", region="eu-central-1")
    site = Site(platform=platform, naming=naming, partition="aws", account="123456789012", protects_data=False)
    settings = Settings(environment="local", platform=platform)
    return {one.role: one for one in alarms_of(AlarmsArgs(site=site, settings=settings, workflow=WORKFLOW))}


PLANNED = planned()


def roles_of(namespace: str, end: str = "") -> list[str]:
    """The alarms on metrics of this namespace."""
    return [
        role
        for role, alarm in PLANNED.items()
        if isinstance(alarm.watches, Signal) and alarm.watches.namespace == namespace and role.endswith(end)
    ]


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """With topics for its alarms, and a bucket whose objects can be locked; its sweeper runs when a test says so."""
    with Emulator.start(skip_waits=True) as emulator:
        stores = Stores(emulator)
        stores.make()
        make_lockable_bucket(emulator, LOCKED)
        topics = {name: emulator.client("sns").create_topic(Name=name)["TopicArn"] for name in ("pages", "tickets")}
        platform = {"name_prefix": "acme", "log_retention": "1 day"}
        deployed = deploy_stack(
            emulator,
            stores,
            platform={**platform, "page_topics": [topics["pages"]], "ticket_topics": [topics["tickets"]]},
            file_stores=[
                {"name": "files", "bucket": "acme-local-files", "prefix": "users/{user_id}/"},
                {"name": "contracts", "bucket": LOCKED, "prefix": "users/{user_id}/"},
            ],
        )
        stop_the_clock(deployed)
        yield deployed


def alarms(stack: Stack) -> dict[str, Mapping[str, Any]]:
    """Role -> the alarm as CloudWatch describes it."""
    pages = stack.client("cloudwatch").get_paginator("describe_alarms").paginate()
    found = [alarm for page in pages for alarm in page["MetricAlarms"]]
    return {alarm["AlarmName"].removeprefix("acme-local-"): alarm for alarm in found}


def state(stack: Stack, role: str) -> str:
    return str(alarms(stack)[role]["StateValue"])


def dimensions(alarm: Mapping[str, Any]) -> dict[str, str]:
    return {one["Name"]: one["Value"] for one in alarm.get("Dimensions", [])}


def send(stack: Stack, value: Sent) -> None:
    """What CloudWatch does with such a line."""
    stack.client("cloudwatch").put_metric_data(
        Namespace=value.namespace,
        MetricData=[
            {
                "MetricName": value.name,
                "Unit": value.unit,
                "Value": value.value,
                "Dimensions": [{"Name": name, "Value": text} for name, text in value.dimensions.items()],
            }
        ],
    )


def look_at_alarms(stack: Stack) -> None:
    """The emulator does that when a metric is sent, whichever it is."""
    stack.client("cloudwatch").put_metric_data(Namespace="Nobody", MetricData=[{"MetricName": "Looks", "Value": 1}])


# -- conditions, on the deployed functions


def change(stack: Stack, request: str, **values: object) -> None:
    """Set attributes of a record by force: nobody waits for days here."""
    stack.client("dynamodb").update_item(
        TableName=stack.done.outputs["request_table_name"],
        Key=request_key(request),
        UpdateExpression="SET " + ", ".join(f"#{name} = :{name}" for name in values),
        ExpressionAttributeNames={f"#{name}": name for name in values},
        ExpressionAttributeValues={f":{name}": to_value(value) for name, value in values.items()},
    )


def due(stack: Stack, **sizes: int) -> str:
    """A request whose time has come, and that nobody has started."""
    return str(stack.ask(stack.sign_up(**sizes))["deletion_request_id"])


def now() -> int:
    return int(time.time())


@contextmanager
def running(stack: Stack, request: str) -> Iterator[str]:
    """The request's first execution, which does nothing and runs for as long as the block takes; its ARN.

    The machine has another definition for a moment: an execution goes on with the one that it began with.
    """
    client, machine = stack.client("stepfunctions"), str(stack.done.outputs["state_machine_arn"])
    ours = client.describe_state_machine(stateMachineArn=machine)["definition"]
    waits = {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 12 * HOUR, "End": True}}}
    with stack.slow_waits():
        client.update_state_machine(stateMachineArn=machine, definition=json.dumps(waits))
        execution = str(client.start_execution(stateMachineArn=machine, name=f"{request}-1")["executionArn"])
        client.update_state_machine(stateMachineArn=machine, definition=ours)
        try:
            yield execution
        finally:
            client.stop_execution(executionArn=execution)


def spent_dispatches(stack: Stack) -> None:
    request = due(stack)
    change(stack, request, attempt=WORKFLOW.max_dispatches)
    stack.invoke("dispatch", {"deletion_request_id": request})


def two_hours_late(stack: Stack) -> None:
    request = due(stack)
    stack.set_back(request, "due_at", 2 * HOUR)
    sweep(stack)
    stack.ended(request)


def too_late_for_an_attempt(stack: Stack) -> None:
    request = due(stack)
    change(stack, request, erase_by=now() + HOUR)
    sweep(stack)
    stack.ended(request)


def stuck(stack: Stack) -> None:
    request = due(stack)
    with running(stack, request) as execution:
        change(stack, request, status=str(Status.PROCESSING), owner=execution, due_at=now() - HOUR)
        sweep(stack)
    change(stack, request, status=str(Status.FAILED), due_at=now() + HOUR)


def end_is_reported_too_early(stack: Stack) -> None:
    """Lambda delivers the event three times, and the edge of a period may leave two of them in one."""
    request = due(stack)
    with running(stack, request) as execution:
        change(stack, request, status=str(Status.PROCESSING), owner=execution)
        for _ in range(2):
            answer = stack.invoke("recover", {"detail": {"executionArn": execution, "name": f"{request}-1"}})
            assert answer["errorType"] == "ExecutionStillRuns", answer
    change(stack, request, status=str(Status.FAILED), due_at=now() + HOUR)


def poisoned(stack: Stack) -> None:
    request = due(stack)
    change(stack, request, status=UNHEARD_OF, due_at=now() - 1)
    sweep(stack)


def locked(stack: Stack) -> None:
    user = stack.sign_up()
    key = f"users/{user.user_id}/contract.pdf"
    s3 = stack.client("s3")
    s3.put_object(Bucket=LOCKED, Key=key, Body=b"signed")
    s3.put_object_legal_hold(Bucket=LOCKED, Key=key, LegalHold={"Status": "ON"})
    request = stack.started(user)
    assert stack.ended(request).status is Status.HELD


def nothing_can_be_started(stack: Stack) -> None:
    request = due(stack)
    with stack.policy("dispatch", stack.policy_without("dispatch", "states:StartExecution")):
        answer = stack.invoke("dispatch", {"deletion_request_id": request})
        assert answer["errorType"] == "AccessDenied", answer
    change(stack, request, status=str(Status.FAILED), due_at=now() + HOUR)


def without_schedules(stack: Stack) -> None:
    """As if the group had been deleted; the sweeper's own schedule, which is switched off, goes with it."""
    group = stack.done.outputs["schedule_group_name"]
    scheduler = stack.client("scheduler")
    scheduler.delete_schedule_group(Name=group)
    try:
        stack.ask(stack.sign_up(), grace_days=10)
    finally:
        scheduler.create_schedule_group(Name=group)


CONDITIONS: Mapping[str, tuple[Callable[[Stack], None], Metric]] = {
    "failed": (spent_dispatches, metrics.FAILED),
    "held": (locked, metrics.HELD),
    "schedule-not-created": (without_schedules, metrics.SCHEDULE_NOT_CREATED),
    "start-failed": (nothing_can_be_started, metrics.START_FAILED),
    "still-running": (end_is_reported_too_early, metrics.STILL_RUNNING),
    "oldest-overdue": (two_hours_late, metrics.OLDEST_OVERDUE),
    "will-miss-erase-by": (too_late_for_an_attempt, metrics.WILL_MISS_ERASE_BY),
    "stuck-processing": (stuck, metrics.STUCK_PROCESSING),
    "not-handled": (poisoned, metrics.NOT_HANDLED),
}
"""Alarm -> how to bring its condition about, and the metric that says so."""


def logged(stack: Stack, metric: Metric, since: set[str]) -> list[Sent]:
    """The values of a metric in lines that were not there before; waits for the first."""

    def look() -> list[Sent]:
        new = [line for line in stack.log_lines() if line not in since]
        return [value for value in emf.sent(new) if value.name == metric.name]

    return wait_until(look, limit=LIMIT)


# -- tests


def test_every_alarm_of_the_stack_has_a_proof_here(stack: Stack) -> None:
    proven = {*CONDITIONS, *SILENT, *RATIO, *(role for service in SERVICES for role in roles_of(service))}

    assert set(alarms(stack)) == set(PLANNED) == proven


@pytest.mark.parametrize("role", CONDITIONS)
def test_alarm_rings_when_the_line_of_its_condition_arrives(stack: Stack, role: str) -> None:
    bring_about, metric = CONDITIONS[role]
    before = set(stack.log_lines())
    bring_about(stack)
    values = logged(stack, metric, before)
    alarm = alarms(stack)[role]
    looked_at = (alarm["Namespace"], alarm["MetricName"], dimensions(alarm))
    assert alarm["StateValue"] == NOTHING_YET

    for value in values:
        send(stack, value)

    assert {(value.namespace, value.name, tuple(value.dimensions)) for value in values} == {
        (looked_at[0], looked_at[1], tuple(looked_at[2]))
    }
    assert wait_until(lambda: state(stack, role), lambda seen: seen == RINGS) == RINGS


def test_a_page_arrives_at_its_topic_and_says_where_to_read_on(stack: Stack) -> None:
    sqs, sns = stack.client("sqs"), stack.client("sns")
    queue = sqs.create_queue(QueueName="on-call")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    alarm = alarms(stack)["failed"]
    (topic,) = alarm["AlarmActions"]
    sender = {"Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:SendMessage"}
    policy = {"Version": "2012-10-17", "Statement": [{**sender, "Resource": arn}]}
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": json.dumps(policy)})
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    # It rang in another test: it has to ring anew.
    stack.client("cloudwatch").set_alarm_state(AlarmName=alarm["AlarmName"], StateValue=CALM, StateReason="new test")

    stack.client("cloudwatch").set_alarm_state(AlarmName=alarm["AlarmName"], StateValue=RINGS, StateReason="it rings")

    answer = wait_until(lambda: sqs.receive_message(QueueUrl=queue).get("Messages"))
    message = json.loads(json.loads(answer[0]["Body"])["Message"])
    assert topic.endswith(":pages")
    assert (message["AlarmName"], message["NewStateValue"]) == ("acme-local-failed", RINGS)
    assert message["AlarmDescription"].endswith(f"{RUNBOOK}#failed")


@pytest.mark.parametrize("role", roles_of("AWS/Lambda", "-errors"))
def test_alarm_rings_when_its_function_fails(stack: Stack, role: str) -> None:
    function = role.removesuffix("-errors")
    with stack.policy(function, None):
        answer = stack.invoke(function, {})
    assert "errorType" in answer

    look_at_alarms(stack)

    assert lambda_metric(stack, role) >= 1
    assert state(stack, role) == RINGS


@pytest.mark.parametrize("role", roles_of("AWS/Lambda", "-throttles"))
def test_alarm_rings_when_its_function_is_throttled(stack: Stack, role: str) -> None:
    function = stack.names.function(role.removesuffix("-throttles"))
    client = stack.client("lambda")
    client.put_function_concurrency(FunctionName=function, ReservedConcurrentExecutions=0)
    try:
        with pytest.raises(client.exceptions.TooManyRequestsException):
            # The emulator limits the function, and not what is called by its alias.
            client.invoke(FunctionName=function, Payload=b"{}")
    finally:
        client.delete_function_concurrency(FunctionName=function)

    look_at_alarms(stack)

    assert lambda_metric(stack, role) >= 1
    assert state(stack, role) == RINGS


def lambda_metric(stack: Stack, role: str) -> float:
    """The sum of the emulator's own metric with exactly the alarm's dimensions."""
    alarm = alarms(stack)[role]
    answer = stack.client("cloudwatch").get_metric_statistics(
        Namespace=alarm["Namespace"],
        MetricName=alarm["MetricName"],
        Dimensions=alarm["Dimensions"],
        StartTime=now() - HOUR,
        EndTime=now() + 60,
        Period=2 * HOUR,
        Statistics=["Sum"],
    )
    return sum(float(point["Sum"]) for point in answer["Datapoints"])


def over_tls(client: Any) -> Any:
    """The queues take nothing else; the emulator has no TLS and believes what a load balancer in front of it says."""
    client.meta.events.register(
        "before-sign", lambda request, **_: request.headers.add_header("X-Forwarded-Proto", "https")
    )
    return client


@pytest.mark.parametrize("role", roles_of("AWS/SQS"))
def test_alarm_rings_when_a_message_waits_in_its_queue(stack: Stack, role: str) -> None:
    sqs, alarm = over_tls(stack.client("sqs")), alarms(stack)[role]
    queue = sqs.get_queue_url(QueueName=dimensions(alarm)["QueueName"])["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="{}")
    attributes = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["ApproximateNumberOfMessages"])
    # What the attribute of the queue is called as a metric: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/
    # SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html
    waiting = float(attributes["Attributes"]["ApproximateNumberOfMessages"])

    send(
        stack,
        Sent(
            namespace="AWS/SQS",
            name="ApproximateNumberOfMessagesVisible",
            unit="Count",
            dimensions=dimensions(alarm),
            value=waiting,
        ),
    )

    assert (alarm["Namespace"], alarm["MetricName"]) == ("AWS/SQS", "ApproximateNumberOfMessagesVisible")
    assert wait_until(lambda: state(stack, role), lambda seen: seen == RINGS) == RINGS


SILENT = ("sweeper-silent",)
RATIO = ("failure-ratio",)
SERVICES = ("AWS/Lambda", "AWS/SQS", "AWS/States")


@pytest.mark.parametrize("role", SILENT)
def test_alarm_is_calm_while_the_sweeper_runs_and_rings_by_its_definition_when_nothing_comes(
    stack: Stack, role: str
) -> None:
    before = set(stack.log_lines())
    sweep(stack)
    (run,) = logged(stack, metrics.OVERDUE, before)

    send(stack, run)

    alarm = alarms(stack)[role]
    assert (alarm["Namespace"], alarm["MetricName"], dimensions(alarm)) == (run.namespace, run.name, run.dimensions)
    assert wait_until(lambda: state(stack, role), lambda seen: seen != NOTHING_YET) == CALM
    # Without a run there is no data: each of the five periods counts as breaching.
    assert (alarm["TreatMissingData"], alarm["Period"]) == ("breaching", 60)
    assert (alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == (5, 5)
    assert (alarm["Statistic"], alarm["ComparisonOperator"], alarm["Threshold"]) == (
        "SampleCount",
        "LessThanThreshold",
        1,
    )


@pytest.mark.parametrize("role", roles_of("AWS/States"))
def test_alarm_rings_when_an_execution_ends_in_a_fail_state(stack: Stack, role: str) -> None:
    client, machine = stack.client("stepfunctions"), str(stack.done.outputs["state_machine_arn"])
    alarm = alarms(stack)[role]
    started = client.start_execution(stateMachineArn=machine, input="{}")["executionArn"]
    status = wait_until(
        lambda: client.describe_execution(executionArn=started)["status"], lambda seen: seen != "RUNNING", limit=LIMIT
    )

    send(stack, Sent(namespace="AWS/States", name=metric_of(status), unit="Count", dimensions=of(machine), value=1))

    assert (alarm["Namespace"], alarm["MetricName"], dimensions(alarm)) == (
        "AWS/States",
        metric_of(status),
        of(machine),
    )
    assert wait_until(lambda: state(stack, role), lambda seen: seen == RINGS) == RINGS


def metric_of(status: str) -> str:
    """FAILED -> ExecutionsFailed: https://docs.aws.amazon.com/step-functions/latest/dg/procedure-cw-metrics.html."""
    return f"Executions{status.title().replace('_', '')}"


def of(machine: str) -> dict[str, str]:
    return {"StateMachineArn": machine}


@pytest.mark.parametrize("role", RATIO)
def test_alarm_rings_by_its_definition_when_executions_end_badly(stack: Stack, role: str) -> None:
    client, machine = stack.client("stepfunctions"), stack.done.outputs["state_machine_arn"]
    started = [client.start_execution(stateMachineArn=machine, input="{}")["executionArn"] for _ in range(4)]
    ended = wait_until(
        lambda: [client.describe_execution(executionArn=one)["status"] for one in started],
        lambda seen: "RUNNING" not in seen,
        limit=LIMIT,
    )

    # The emulator keeps no metric math: the definition is the one that the program asks for.
    alarm = golden.sample_world().one("MetricAlarm", f"-{role}").inputs
    counted = {metric_of(one): float(ended.count(one)) for one in set(ended)}
    value = value_of(alarm["metricQueries"], counted)

    assert counted == {"ExecutionsFailed": 4}
    assert alarm["comparisonOperator"] == "GreaterThanOrEqualToThreshold"
    assert value is not None
    assert value >= alarm["threshold"]
