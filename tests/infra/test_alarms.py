"""Alarms, dashboard and queries: what they watch is what is sent, and nothing that can fail is left unwatched."""

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from itertools import accumulate
from typing import Any

import pytest

from handlers.core import metrics, telemetry
from handlers.core.metrics import STEP
from handlers.dispatch import LONGEST_VISIBILITY
from infra import alarm_list
from infra.alarm_list import RUNBOOK, SECTIONS, Alarm, AlarmsArgs, Expression, Signal, latest_start
from infra.dashboard import ROWS
from infra.events import SWEEP_EVERY
from infra.naming import Naming
from infra.packaging import ROOT
from infra.platform import Platform
from infra.queries import QUERIES
from infra.site import Site
from statemachine import deletion
from statemachine.workflow import Workflow
from tests.infra import golden, samples
from tests.infra.world import Registered, World, run
from tests.metric_math import value_of

NAMESPACE = "AccountDeletion/acme-prod"
RAILED_PAGES, RAILED_TICKETS = list(samples.RAILS["page_topics"]), list(samples.RAILS["ticket_topics"])
WORKFLOW = deletion.workflow(identity=True)


@pytest.fixture(scope="module")
def world() -> World:
    return golden.sample_world()


SITE = Site(
    platform=Platform(name_prefix="acme"),
    naming=Naming(prefix="acme", environment="prod", region="eu-west-1"),
    partition="aws",
    account="123456789012",
    protects_data=True,
)
ALARMS = {
    alarm.role: alarm
    for alarm in alarm_list.alarms_of(AlarmsArgs(site=SITE, settings=samples.settings(), workflow=WORKFLOW))
}


def watched(alarm: Registered) -> list[tuple[str, str, dict[str, str]]]:
    """(namespace, name, dimensions) of each metric that an alarm looks at."""
    single = [alarm.inputs] if "metricName" in alarm.inputs else []
    queried = [query["metric"] for query in alarm.inputs.get("metricQueries", []) if "metric" in query]
    return [(one["namespace"], one["metricName"], dict(one.get("dimensions", {}))) for one in (*single, *queried)]


# -- alarms


def test_every_queue_has_an_alarm_at_its_first_message(world: World) -> None:
    seen = {
        (dimensions["QueueName"], one.inputs["threshold"], one.inputs["statistic"])
        for one in world.of("MetricAlarm")
        for namespace, _, dimensions in watched(one)
        if namespace == "AWS/SQS"
    }

    assert seen == {(queue.physical_name, 1, "Maximum") for queue in world.of("Queue")}


@pytest.mark.parametrize("metric", ["Errors", "Throttles"])
def test_every_function_has_an_alarm(world: World, metric: str) -> None:
    seen = [
        dimensions["FunctionName"]
        for one in world.of("MetricAlarm")
        for namespace, name, dimensions in watched(one)
        if (namespace, name) == ("AWS/Lambda", metric)
    ]

    assert sorted(seen) == sorted(function.physical_name for function in world.of("Function"))


def test_state_machine_is_watched_by_its_arn(world: World) -> None:
    machine = "arn:aws:states:eu-west-1:123456789012:stateMachine:acme-prod-workflow"
    seen = {
        one.physical_name: [(name, dimensions) for namespace, name, dimensions in watched(one)]
        for one in world.of("MetricAlarm")
        if watched(one)[0][0] == "AWS/States"
    }

    assert machine.endswith(f":{world.one('StateMachine').physical_name}")
    assert seen == {
        "acme-prod-execution-failed": [("ExecutionsFailed", {"StateMachineArn": machine})],
        "acme-prod-failure-ratio": [
            (f"Executions{end}", {"StateMachineArn": machine}) for end in ("Aborted", "Failed", "Succeeded", "TimedOut")
        ],
    }


def test_one_execution_that_failed_wakes_somebody_up_even_if_its_request_never_says_so(world: World) -> None:
    alarm = world.one("MetricAlarm", "-execution-failed").inputs

    assert ALARMS["execution-failed"].pages
    assert (alarm["statistic"], alarm["comparisonOperator"], alarm["threshold"], alarm["evaluationPeriods"]) == (
        "Sum",
        "GreaterThanOrEqualToThreshold",
        1,
        1,
    )


def offsets(alarm: Alarm) -> list[timedelta]:
    """How far into a period the first event may fall."""
    return [timedelta(seconds=second) for second in range(int(alarm.period.total_seconds()))]


@pytest.mark.parametrize(
    "late", [timedelta(0), SWEEP_EVERY / 2, SWEEP_EVERY], ids=["at once", "later", "a sweep later"]
)
def test_a_lone_request_that_cannot_be_started_rings_within_half_an_hour_and_as_long_as_it_goes_on(
    late: timedelta,
) -> None:
    alarm = ALARMS["start-failed"]
    waits = [min(2**tried * WORKFLOW.dispatch_visibility, LONGEST_VISIBILITY) + late for tried in range(40)]
    tries = list(accumulate(waits, initial=timedelta(0)))

    bad = {offset: {(offset + when) // alarm.period for when in tries} for offset in offsets(alarm)}
    first = {offset: first_ring(alarm, periods) for offset, periods in bad.items()}

    assert max(first.values()) * alarm.period <= timedelta(minutes=30)
    assert [offset for offset, periods in bad.items() if not stays(alarm, periods, first[offset])] == []


def first_ring(alarm: Alarm, bad: set[int]) -> int:
    """The first period, counted from 0, at whose end enough of the last ones are bad."""
    return next(last for last in range(max(bad) + 1) if is_bad(alarm, bad, last))


def stays(alarm: Alarm, bad: set[int], since: int) -> bool:
    return all(is_bad(alarm, bad, last) for last in range(since, max(bad) + 1))


def is_bad(alarm: Alarm, bad: set[int], last: int) -> bool:
    return len(bad & set(range(last - alarm.periods + 1, last + 1))) >= alarm.points


def test_an_event_that_is_delivered_three_times_in_vain_rings_wherever_the_edge_of_a_period_falls() -> None:
    alarm = ALARMS["still-running"]
    # https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html: Lambda waits one minute before
    # the second delivery and two before the third.
    deliveries = [timedelta(0), timedelta(minutes=1), timedelta(minutes=3)]

    sums = [Counter((offset + when) // alarm.period for when in deliveries) for offset in offsets(alarm)]

    assert min(max(periods.values()) for periods in sums) >= alarm.threshold
    assert alarm.threshold > 1
    assert (alarm.points, alarm.periods) == (1, 1)


def test_alarms_look_where_every_function_sends(world: World) -> None:
    sent_to = {one.inputs["environment"]["variables"]["POWERTOOLS_METRICS_NAMESPACE"] for one in world.of("Function")}
    looked_at = {namespace for one in world.of("MetricAlarm") for namespace, _, _ in watched(one)}

    assert sent_to == {NAMESPACE}
    assert looked_at == {NAMESPACE, "AWS/Lambda", "AWS/SQS", "AWS/States"}


def test_alarms_on_our_own_metrics_name_one_of_the_table_and_all_its_dimensions(world: World) -> None:
    table = {metric.name: metric for metric in metrics.ALL}
    own = [
        (name, dimensions)
        for one in world.of("MetricAlarm")
        for namespace, name, dimensions in watched(one)
        if namespace == NAMESPACE
    ]

    assert len(own) == 10
    assert [name for name, dimensions in own if dimensions.keys() != set(table[name].dimensions)] == []


def test_a_metric_that_has_dimensions_is_refused() -> None:
    with pytest.raises(AssertionError, match="StepRetries has dimensions"):
        alarm_list._own(SITE, metrics.STEP_RETRIES, "Sum")  # noqa: SLF001 (what protects the next author)


def test_who_is_woken_up_and_who_is_told_that_it_is_over() -> None:
    pages = {role for role, alarm in ALARMS.items() if alarm.pages}
    past = {role for role, alarm in ALARMS.items() if not alarm.resolves}

    assert pages == {
        "execution-failed",
        "failed",
        "oldest-overdue",
        "will-miss-erase-by",
        "sweeper-silent",
        "failure-ratio",
        "start-failed",
    }
    # What happened has happened: a quiet period after it mends nothing.
    assert past == {
        "execution-failed",
        "failed",
        "held",
        "schedule-not-created",
        "still-running",
        "will-miss-erase-by",
    }


def test_actions_follow_from_that() -> None:
    railed = run(lambda: samples.deploy(samples.arguments(settings=samples.settings(samples.RAILS))))

    for role, alarm in ALARMS.items():
        made = railed.one("MetricAlarm", f"-alarms-{role}").inputs
        topics = RAILED_PAGES if alarm.pages else RAILED_TICKETS
        assert (role, made["alarmActions"], made["okActions"]) == (role, topics, topics if alarm.resolves else [])


def test_silence_rings_only_where_it_is_what_is_wrong(world: World) -> None:
    by_treatment = {
        treatment: {one.physical_name for one in world.of("MetricAlarm") if one.inputs["treatMissingData"] == treatment}
        for treatment in ("breaching", "ignore", "missing")
    }

    assert by_treatment == {
        "breaching": {"acme-prod-sweeper-silent"},
        "ignore": {"acme-prod-oldest-overdue", "acme-prod-stuck-processing"},
        "missing": set(),
    }


@pytest.mark.parametrize(
    ("promise", "grace", "expected"),
    [
        pytest.param(timedelta(days=365), timedelta(days=30), timedelta(hours=1), id="much time"),
        pytest.param(timedelta(hours=2), timedelta(0), timedelta(minutes=30), id="a quarter of what is left"),
        pytest.param(timedelta(minutes=4), timedelta(0), timedelta(minutes=5), id="never below five sweeps"),
    ],
)
def test_how_late_is_too_late_follows_from_what_the_promise_leaves(
    promise: timedelta, grace: timedelta, expected: timedelta
) -> None:
    given = samples.settings(
        erase_within=grace + WORKFLOW.longest + promise, grace_default=grace, grace_minimum=grace, grace_maximum=grace
    )

    assert latest_start(given, WORKFLOW) == expected


def test_threshold_and_words_follow_from_the_plan() -> None:
    settings = samples.settings()
    plan = Workflow(steps=deletion.steps(identity=True), lease=timedelta(minutes=20))
    world = run(lambda: samples.deploy(samples.arguments(settings=settings, workflow=plan)))
    overdue, stuck = (world.one("MetricAlarm", f"-{role}").inputs for role in ("oldest-overdue", "stuck-processing"))

    assert overdue["threshold"] == latest_start(settings, plan).total_seconds()
    assert "has not renewed its lease of 20 min" in stuck["alarmDescription"]


@pytest.mark.parametrize(
    ("data", "rings"),
    [
        pytest.param({}, False, id="nothing ran"),
        pytest.param({"ExecutionsSucceeded": 50}, False, id="all is well"),
        pytest.param({"ExecutionsFailed": 2}, False, id="too few to say"),
        pytest.param({"ExecutionsFailed": 3}, True, id="three and nothing else"),
        pytest.param({"ExecutionsSucceeded": 27, "ExecutionsFailed": 3}, True, id="one in ten"),
        pytest.param({"ExecutionsSucceeded": 28, "ExecutionsFailed": 3}, False, id="fewer than that"),
        pytest.param(
            {"ExecutionsFailed": 1, "ExecutionsTimedOut": 1, "ExecutionsAborted": 1}, True, id="three kinds of bad"
        ),
    ],
)
def test_failure_ratio_rings_at_one_in_ten_and_three_at_least(
    world: World, data: dict[str, float], rings: bool
) -> None:
    alarm = world.one("MetricAlarm", "-failure-ratio").inputs
    value = value_of(alarm["metricQueries"], data)

    assert alarm["comparisonOperator"] == "GreaterThanOrEqualToThreshold"
    assert (value is not None and value >= alarm["threshold"]) is rings


def test_every_alarm_says_what_happened_and_where_the_runbook_tells_what_to_do(world: World) -> None:
    texts = [one.inputs["alarmDescription"] for one in world.of("MetricAlarm")]
    sections = [re.fullmatch(r"[A-Z0-9].+\. docs/runbook\.md#([a-z-]+)", text) for text in texts]

    assert {match[1] for match in sections if match} == set(SECTIONS)
    assert [text for text, match in zip(texts, sections, strict=True) if not match or len(text) > 1024] == []


def test_runbook_has_a_section_for_every_kind_of_alarm_in_their_order() -> None:
    text = (ROOT / RUNBOOK).read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)

    assert tuple(heading for heading in headings if heading in SECTIONS) == SECTIONS


# -- dashboard


@pytest.fixture(scope="module")
def dashboard(world: World) -> list[dict[str, Any]]:
    widgets: list[dict[str, Any]] = json.loads(world.one("Dashboard").inputs["dashboardBody"])["widgets"]
    return widgets


def test_dashboard_shows_every_metric_of_the_table_once(dashboard: list[dict[str, Any]]) -> None:
    shown = [metric for row in ROWS for panel in row.panels for metric in panel.metrics]
    drawn = {line[1] for one in dashboard if one["type"] == "metric" for line in one["properties"]["metrics"]}

    assert sorted(metric.name for metric in shown) == sorted(metric.name for metric in metrics.ALL)
    assert {metric.name for metric in metrics.ALL} <= drawn


def test_a_metric_by_step_has_a_line_for_each_step(dashboard: list[dict[str, Any]]) -> None:
    lines = [line for one in dashboard if one["type"] == "metric" for line in one["properties"]["metrics"]]
    by_step = [line[3] for line in lines if line[1] == metrics.STEP_RETRIES.name and line[2] == STEP]

    assert by_step == [step.name for step in WORKFLOW.steps]


def test_dashboard_begins_with_the_state_of_every_alarm(world: World, dashboard: list[dict[str, Any]]) -> None:
    first = next(one for one in dashboard if one["type"] != "text")

    # https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/CloudWatch-Dashboard-Body-Structure.html
    assert len(first["properties"]["alarms"]) <= 100
    assert sorted(first["properties"]["alarms"]) == sorted(
        f"arn:aws:cloudwatch:eu-west-1:123456789012:alarm:{one.physical_name}" for one in world.of("MetricAlarm")
    )


def test_dashboard_draws_the_threshold_where_it_shows_what_rings(dashboard: list[dict[str, Any]]) -> None:
    titles = {one["properties"].get("title"): one["properties"] for one in dashboard}

    assert titles["Oldest overdue request"]["annotations"] == {
        "horizontal": [{"label": "oldest-overdue", "value": latest_start(samples.settings(), WORKFLOW).total_seconds()}]
    }


def test_widgets_stay_on_the_grid_and_none_covers_another(dashboard: list[dict[str, Any]]) -> None:
    fields = [
        (one["x"] + dx, one["y"] + dy) for one in dashboard for dx in range(one["width"]) for dy in range(one["height"])
    ]

    assert len(fields) == len(set(fields))
    assert max(x for x, _ in fields) < 24


def test_dashboard_asks_its_own_region_and_no_graph_is_too_large(dashboard: list[dict[str, Any]]) -> None:
    graphs = [one["properties"] for one in dashboard if one["type"] == "metric"]

    assert {one["region"] for one in graphs} == {"eu-west-1"}
    assert max(len(one["metrics"]) for one in graphs) <= 500


def test_dashboard_is_the_same_text_each_time_and_its_name_is_an_output(world: World) -> None:
    again = run(samples.deploy)

    assert again.one("Dashboard").inputs == world.one("Dashboard").inputs
    assert world.one("Dashboard").physical_name == "acme-prod-eu-west-1-overview"


def test_dashboard_draws_each_metric_of_the_services_once(dashboard: list[dict[str, Any]]) -> None:
    lines = [line for one in dashboard if one["type"] == "metric" for line in one["properties"]["metrics"]]
    drawn = [tuple(line[:-1]) for line in lines if line[0].startswith("AWS/")]

    assert len(drawn) == len(set(drawn))
    assert {line[1] for line in drawn if line[0] == "AWS/States"} == {
        f"Executions{end}" for end in ("Aborted", "Failed", "Succeeded", "TimedOut")
    }


# -- queries

INSIGHTS = {"fields", "filter", "stats", "sort", "limit", "asc", "desc", "by", "as", "and", "in", "count", "max", "pct"}
INSIGHTS |= {"count_distinct", "ispresent", "bin", "5m", "or"}
AUTOMATIC = {"@timestamp", "@log", "message"}


def messages() -> Iterator[str]:
    """Every text with which a line of the log may begin."""
    for path in ROOT.glob("handlers/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.role)
def test_a_query_asks_for_fields_and_messages_that_the_functions_log(query: Any) -> None:
    quoted = set(re.findall(r'"([^"]*)"', query.text)) - {"del_..."}
    rest = re.sub(r'"[^"]*"', "", query.text)
    names = set(re.findall(r"`([A-Za-z]+)\.0`", rest))
    words = set(re.findall(r"[@A-Za-z_][\w]*", re.sub(r"`[^`]*`", "", rest)))
    aliases = set(re.findall(r" as (\w+)", rest))

    assert words - INSIGHTS - AUTOMATIC - aliases - {STEP, "m"} <= telemetry.FIELDS
    assert names <= {metric.name for metric in metrics.ALL}
    error_names = set(re.findall(r"class (\w+)\(", (ROOT / "handlers/core/errors.py").read_text(encoding="utf-8")))
    assert quoted <= set(messages()) | error_names


def test_queries_ask_the_logs_of_every_function(world: World) -> None:
    groups = sorted(one.inputs["loggingConfig"]["logGroup"] for one in world.of("Function"))

    assert len(groups) <= 50
    assert {tuple(sorted(one.inputs["logGroupNames"])) for one in world.of("QueryDefinition")} == {tuple(groups)}


def test_every_signal_says_all_its_dimensions() -> None:
    signals = [
        signal
        for alarm in ALARMS.values()
        for signal in (alarm.watches.signals.values() if isinstance(alarm.watches, Expression) else (alarm.watches,))
    ]

    assert all(isinstance(signal, Signal) for signal in signals)
    assert {(signal.namespace, *signal.dimensions) for signal in signals} == {
        (NAMESPACE,),
        ("AWS/Lambda", "FunctionName"),
        ("AWS/SQS", "QueueName"),
        ("AWS/States", "StateMachineArn"),
    }
