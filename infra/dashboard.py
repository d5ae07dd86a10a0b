"""The dashboard: is anything late, what fails, where. One look from top to bottom.

Made from the table of metrics and the list of alarms, and always the same text for the same environment, so that a
preview shows a change of it as a diff.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pulumi
import pulumi_aws as aws

from handlers.core import metrics
from handlers.core.metrics import STEP, Metric
from infra.alarm_list import Alarm, Expression, Signal, metrics_namespace
from infra.naming import ALARM, DASHBOARD
from infra.site import Site
from statemachine.workflow import Workflow

_WIDTH: Final = 24
"""Columns of a dashboard."""
_HEIGHT: Final = 6
_PERIOD: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One graph of our own metrics."""

    title: str
    """What it answers."""
    metrics: tuple[Metric, ...]
    """What it shows."""
    statistics: tuple[str, ...] = ("Sum",)
    """A line for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Graphs side by side under one question."""

    question: str
    """The heading."""
    panels: tuple[Panel, ...]
    """From left to right."""


_LATE: Final = Row(
    question="Is anything late?",
    panels=(
        Panel(title="Oldest overdue request", metrics=(metrics.OLDEST_OVERDUE,), statistics=("Maximum",)),
        Panel(
            title="Overdue, stuck, not handled",
            metrics=(metrics.OVERDUE, metrics.STUCK_PROCESSING, metrics.NOT_HANDLED),
            statistics=("Maximum",),
        ),
        Panel(title="Will miss erase_by", metrics=(metrics.WILL_MISS_ERASE_BY,)),
        Panel(
            title="From due to completed",
            metrics=(metrics.COMPLETED_AFTER,),
            statistics=("p50", "p90", "Maximum"),
        ),
    ),
)
_FAILS: Final = Row(
    question="What fails?",
    panels=(
        Panel(
            title="Requests by outcome",
            metrics=(
                metrics.ACCEPTED,
                metrics.COMPLETED,
                metrics.CANCELLED,
                metrics.FAILED,
                metrics.HELD,
                metrics.HELD_BY_OPERATOR,
            ),
        ),
        Panel(
            title="Healed without a person",
            metrics=(
                metrics.RETRIED,
                metrics.RECOVERED,
                metrics.START_FAILED,
                metrics.FENCED_OUT,
                metrics.DUPLICATES_IGNORED,
                metrics.STILL_RUNNING,
            ),
        ),
        Panel(
            title="Accepted with a flaw",
            metrics=(metrics.IDENTITY_NOT_FOUND, metrics.SCHEDULE_NOT_CREATED, metrics.SCHEDULE_NOT_DELETED),
        ),
    ),
)
_WHERE: Final = Row(
    question="Where?",
    panels=(
        Panel(title="Duration of a step, p90", metrics=(metrics.STEP_DURATION,), statistics=("p90",)),
        Panel(title="Retries of a step", metrics=(metrics.STEP_RETRIES,)),
        Panel(title="Deleted by a step", metrics=(metrics.ITEMS_DELETED,)),
        Panel(title="Leftovers of a step", metrics=(metrics.LEFTOVERS_FOUND,)),
    ),
)
ROWS: Final = (_LATE, _FAILS, _WHERE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardArgs:
    """What the dashboard shows."""

    site: Site
    """Account, Region, names and rails."""
    workflow: Workflow
    """Whose steps have a line each."""
    alarms: Sequence[Alarm]
    """All of them: their states come first, and what they watch of AWS' own metrics is drawn."""


class Dashboard(pulumi.ComponentResource):
    """The environment's dashboard. Dashboards are account-wide, so its name carries the Region."""

    name: str
    """Its name, for the link in a page."""

    def __init__(self, name: str, args: DashboardArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("account-deletion:dashboard:Dashboard", name, None, opts)
        self.name = args.site.name(DASHBOARD, "overview")
        aws.cloudwatch.Dashboard(
            f"{name}-dashboard",
            dashboard_name=self.name,
            dashboard_body=json.dumps(body(args), sort_keys=True),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"name": self.name})


def body(args: DashboardArgs) -> dict[str, Any]:
    """The dashboard as CloudWatch reads it (https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/
    CloudWatch-Dashboard-Body-Structure.html)."""
    top: list[dict[str, Any]] = [_heading("Is anything wrong?"), _alarm_states(args)]
    rows = [
        [_heading(row.question), *(_panel(args, panel, _WIDTH // len(row.panels)) for panel in row.panels)]
        for row in ROWS
    ]
    watched = _watched_groups(args.alarms)
    aws_row = [
        _heading("What do the services say?"),
        *(_signals(args, title, signals, _WIDTH // len(watched)) for title, signals in watched.items()),
    ]
    return {"start": "-P1D", "widgets": _placed([top, *rows, aws_row])}


def _placed(rows: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Each row's heading on a line of its own, its other widgets side by side below."""
    placed, y = [], 0
    for heading, *widgets in rows:
        placed.append({**heading, "x": 0, "y": y})
        y += heading["height"]
        x = 0
        for widget in widgets:
            placed.append({**widget, "x": x, "y": y})
            x += widget["width"]
        y += max(widget["height"] for widget in widgets)
    return placed


def _heading(text: str) -> dict[str, Any]:
    return {"type": "text", "width": _WIDTH, "height": 1, "properties": {"markdown": f"## {text}"}}


def _alarm_states(args: DashboardArgs) -> dict[str, Any]:
    arns = [args.site.arn("cloudwatch", f"alarm:{args.site.name(ALARM, alarm.role)}") for alarm in args.alarms]
    # Ten or so in a line.
    height = 2 + len(arns) // 10
    return {"type": "alarm", "width": _WIDTH, "height": height, "properties": {"title": "Alarms", "alarms": arns}}


def _panel(args: DashboardArgs, panel: Panel, width: int) -> dict[str, Any]:
    steps = [step.name for step in args.workflow.steps]
    namespace = metrics_namespace(args.site)
    lines = [
        [namespace, metric.name, *dimensions, {"stat": statistic, "label": label}]
        for metric in panel.metrics
        for statistic in panel.statistics
        for dimensions, label in _lines_of(metric, statistic, steps, is_one=len(panel.statistics) == 1)
    ]
    annotations = _thresholds(args.alarms, namespace, panel)
    return _graph(args.site, panel.title, lines, width, annotations)


def _lines_of(metric: Metric, statistic: str, steps: Sequence[str], *, is_one: bool) -> list[tuple[list[str], str]]:
    if STEP in metric.dimensions:
        return [([STEP, step], step) for step in steps]
    return [([], metric.name if is_one else statistic)]


def _thresholds(alarms: Sequence[Alarm], namespace: str, panel: Panel) -> list[dict[str, Any]]:
    """A line at what rings, where the panel shows one metric alone."""
    if len(panel.metrics) != 1:
        return []
    return [
        {"label": alarm.role, "value": alarm.threshold}
        for alarm in alarms
        if isinstance(alarm.watches, Signal)
        and (alarm.watches.namespace, alarm.watches.name) == (namespace, panel.metrics[0].name)
        and not alarm.below
    ]


def _watched_groups(alarms: Sequence[Alarm]) -> dict[str, list[Signal]]:
    """AWS' own metrics that alarms watch, each once, by metric name; those of one expression are together."""
    watched = [alarm.watches for alarm in alarms]
    together = [one for each in watched if isinstance(each, Expression) for one in each.signals.values()]
    groups: dict[str, list[Signal]] = {"Executions": together}
    for one in watched:
        if isinstance(one, Signal) and one.namespace.startswith("AWS/") and one not in together:
            groups.setdefault(one.name, []).append(one)
    return groups


def _signals(args: DashboardArgs, title: str, signals: Sequence[Signal], width: int) -> dict[str, Any]:
    lines = [
        [signal.namespace, signal.name, *_flat(signal.dimensions), {"stat": signal.statistic}] for signal in signals
    ]
    return _graph(args.site, title, lines, width, [])


def _flat(dimensions: Mapping[str, str]) -> list[str]:
    return [part for pair in dimensions.items() for part in pair]


def _graph(
    site: Site, title: str, lines: list[list[Any]], width: int, annotations: list[dict[str, Any]]
) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "title": title,
        "region": site.region,
        "view": "timeSeries",
        "period": _PERIOD,
        "metrics": lines,
        "yAxis": {"left": {"min": 0}},
    }
    if annotations:
        properties["annotations"] = {"horizontal": annotations}
    return {"type": "metric", "width": width, "height": _HEIGHT, "properties": properties}
