"""The list of alarms: what a person must hear about, with the reason of each threshold and the place in the runbook.

They are values, so that the component, the dashboard, the tests and the runbook go by the same list.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Final

from handlers.core import metrics
from handlers.core.metrics import Metric
from infra import functions, queues, schedule, workflow
from infra.events import STATUS_ROLE, SWEEP_EVERY
from infra.settings import Settings
from infra.site import Site
from statemachine.frame import LOOK_AGAIN, PUT_OFF
from statemachine.functions import function_specs
from statemachine.workflow import Workflow

RUNBOOK: Final = "docs/runbook.md"
SECTIONS: Final = (
    "failed",
    "oldest-overdue",
    "will-miss-erase-by",
    "sweeper-silent",
    "failure-ratio",
    "start-failed",
    "stuck-processing",
    "held",
    "not-handled",
    "schedule-not-created",
    "still-running",
    "dead-letters",
    "function-errors",
    "function-throttles",
)
"""The headings that the runbook must have: each alarm's description ends with one of them."""
FIVE_MINUTES: Final = timedelta(minutes=5)
_AN_HOUR: Final = timedelta(hours=1)
_LONGEST_LATE: Final = timedelta(hours=1)
"""However much time the promise leaves: a product that says "tomorrow" is asked after an hour."""
_MIN_BAD_EXECUTIONS: Final = 3
"""Fewer are single accounts with odd data, and each of them has its own alarm."""
_BAD_PERCENT: Final = 10


class Missing(StrEnum):
    """What an alarm makes of a period without data."""

    FINE = "notBreaching"
    """Nothing happened, so nothing was sent."""
    SAME = "ignore"
    """The sweeper says so each minute; without it nobody knows, and its own alarm rings."""
    BAD = "breaching"
    """The silence is what the alarm is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One metric of CloudWatch and the statistic of it that is looked at."""

    namespace: str
    """AWS/... or this environment's own."""
    name: str
    """The metric's name."""
    statistic: str
    """Sum, Maximum or SampleCount."""
    dimensions: Mapping[str, str] = field(default_factory=dict)
    """All of them: CloudWatch sums up nothing over dimensions that are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """Metric math over several signals."""

    text: str
    """What is compared with the threshold; the names in it are keys of the other two."""
    steps: Mapping[str, str]
    """Name -> an expression that `text` uses."""
    signals: Mapping[str, Signal]
    """Name -> signal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """One alarm, as a value."""

    role: str
    """Last part of its name."""
    section: str
    """One of SECTIONS."""
    meaning: str
    """What has happened, for whoever is woken up: first sentence of the description."""
    watches: Signal | Expression
    """What is compared with the threshold."""
    threshold: float
    """In the metric's unit; the alarm rings at it, or below it if `below`."""
    below: bool = False
    """Whether too little is what is wrong."""
    period: timedelta = FIVE_MINUTES
    """Over what the statistic is taken."""
    points: int = 1
    """How many periods must be bad ..."""
    periods: int = 1
    """... of the last so many."""
    missing: Missing = Missing.FINE
    """What a period without data counts as."""
    pages: bool = False
    """Whether it wakes somebody up; otherwise it is a ticket."""
    resolves: bool = False
    """Whether its end is told too: for what can be over by itself. An event that is past is not mended by that."""

    @property
    def description(self) -> str:
        """What the notification says."""
        return f"{self.meaning} {RUNBOOK}#{self.section}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmsArgs:
    """What is watched."""

    site: Site
    """Account, Region, names and rails."""
    settings: Settings
    """Its times make the thresholds."""
    workflow: Workflow
    """Its functions and times too."""


def metrics_namespace(site: Site) -> str:
    """Where the functions' own metrics go: one namespace for each environment."""
    return f"AccountDeletion/{site.naming.prefix}-{site.naming.environment}"


def alarms_of(args: AlarmsArgs) -> tuple[Alarm, ...]:
    """Every alarm of an environment."""
    specs = function_specs(args.workflow)
    asynchronous = [spec.role for spec in specs if spec.asynchronous]
    return (
        *_request_alarms(args),
        *_sweeper_alarms(args),
        _execution_failed(args.site),
        _failure_ratio(args.site),
        *(_dead_letters(args.site, role) for role in (schedule.ROLE, STATUS_ROLE, *asynchronous)),
        *(_function_errors(args.site, spec.role) for spec in specs),
        *(_function_throttles(args.site, spec.role) for spec in specs),
    )


def latest_start(settings: Settings, plan: Workflow) -> timedelta:
    """How late a due request may be: a quarter of what the promise spares, so that three quarters are left to mend it.

    At most an hour, however generous the promise; at least five runs of the sweeper, as a healthy one is late by one.
    """
    spare = settings.erase_within - settings.grace_maximum - plan.longest
    return max(5 * SWEEP_EVERY, min(_LONGEST_LATE, spare / 4))


def _request_alarms(args: AlarmsArgs) -> tuple[Alarm, ...]:
    own = partial(_own, args.site)
    return (
        Alarm(
            role="failed",
            section="failed",
            meaning="A request is FAILED and stays so until somebody redrives or cancels it; its user may be half"
            " deleted, or still suspended if it failed before the first erasure and could not be undone.",
            watches=own(metrics.FAILED, "Sum"),
            # One is enough, and at once: nothing looks at a FAILED request again, not even when erase_by comes near.
            threshold=1,
            pages=True,
        ),
        Alarm(
            role="held",
            section="held",
            meaning="A step found data under retention or a legal hold; the request waits as HELD.",
            watches=own(metrics.HELD, "Sum"),
            # A lock without an end is released by nobody but a person; there is time, as the data must stay anyway.
            threshold=1,
        ),
        Alarm(
            role="schedule-not-created",
            section="schedule-not-created",
            meaning="A request was accepted without a schedule; the sweeper will start it.",
            watches=own(metrics.SCHEDULE_NOT_CREATED, "Sum"),
            # No request is late for it, but the cause (a role, a quota) takes all schedules.
            threshold=1,
        ),
        Alarm(
            role="still-running",
            section="still-running",
            meaning="The end of an execution was reported, and Step Functions goes on calling it running.",
            watches=own(metrics.STILL_RUNNING, "Sum"),
            # Lambda delivers an event three times, a minute and then two minutes apart; wherever the edge of a period
            # falls between them, two are on one side of it. The service's view is seconds late, not minutes.
            threshold=2,
            period=timedelta(minutes=15),
        ),
        Alarm(
            role="start-failed",
            section="start-failed",
            meaning="Executions cannot be started, and it goes on.",
            watches=own(metrics.START_FAILED, "Sum"),
            # One refusal is throttling; a quarter of an hour is an outage or a missing permission. Not three of three:
            # a lone request is tried again after 2 and 4 minutes, then after 5 and up to one more for the sweeper,
            # which may leave one of the periods out. Never two of four: while it goes on, the alarm stays.
            threshold=1,
            points=3,
            periods=4,
            pages=True,
            resolves=True,
        ),
    )


def _sweeper_alarms(args: AlarmsArgs) -> tuple[Alarm, ...]:
    own = partial(_own, args.site)
    late = latest_start(args.settings, args.workflow)
    return (
        Alarm(
            role="oldest-overdue",
            section="oldest-overdue",
            meaning=f"A request has been due for {_minutes(late)} min, and nobody has looked after it.",
            watches=own(metrics.OLDEST_OVERDUE, "Maximum"),
            threshold=late.total_seconds(),
            period=SWEEP_EVERY,
            # Two runs of three: one slow look does not ring, one quick one in between does not hide it.
            points=2,
            periods=3,
            missing=Missing.SAME,
            pages=True,
            resolves=True,
        ),
        Alarm(
            role="will-miss-erase-by",
            section="will-miss-erase-by",
            meaning="A request that is not done could end after erase_by even if an attempt began now.",
            watches=own(metrics.WILL_MISS_ERASE_BY, "Sum"),
            # The promise to one person is at stake, and the longest that an attempt may take is days.
            threshold=1,
            pages=True,
        ),
        Alarm(
            role="sweeper-silent",
            section="sweeper-silent",
            meaning="The sweeper has begun no run for five minutes, or cannot read what is due: nothing is retried, and"
            " no other alarm sees it.",
            watches=own(metrics.OVERDUE, "SampleCount"),
            # Each run sends one value as soon as it knows what is due, whatever hangs later; one lost run is made up
            # for by the next, five in a row are no accident.
            threshold=1,
            below=True,
            period=SWEEP_EVERY,
            points=5,
            periods=5,
            missing=Missing.BAD,
            pages=True,
            resolves=True,
        ),
        Alarm(
            role="stuck-processing",
            section="stuck-processing",
            meaning=f"An execution still runs, and has not renewed its lease of {_minutes(args.workflow.lease)} min.",
            watches=own(metrics.STUCK_PROCESSING, "Maximum"),
            # The lease is longer than the longest silence of a healthy worker, and each of these periods has a look at
            # every such execution: two of them outlast a late renewal.
            threshold=1,
            period=2 * LOOK_AGAIN,
            points=2,
            periods=2,
            missing=Missing.SAME,
            resolves=True,
        ),
        Alarm(
            role="not-handled",
            section="not-handled",
            meaning="The sweeper fails again and again at a record and puts it off.",
            watches=own(metrics.NOT_HANDLED, "Sum"),
            # A record that is put off comes back after that time: once may be throttling, twice is the record.
            threshold=1,
            period=PUT_OFF,
            points=2,
            periods=4,
            resolves=True,
        ),
    )


def _execution_failed(site: Site) -> Alarm:
    """The second witness of a FAILED request: `failed` hears of one that the graph wrote by a status event only.

    AWS counts it itself: it rings also if the event, or the function that hears of it, is lost.
    """
    return Alarm(
        role="execution-failed",
        section="failed",
        meaning="An execution ended in a Fail state: its request is FAILED, or the request table could not be reached.",
        watches=_executions(site, "ExecutionsFailed"),
        # One is enough, as for `failed`: a user may be half deleted, and this may be the only word of it. The price is
        # a second page for the same request where nothing was lost.
        threshold=1,
        pages=True,
    )


def _failure_ratio(site: Site) -> Alarm:
    """AWS counts these itself, so the alarm rings even if no function of ours runs.

    FILL: Step Functions sends a value when an execution ends in that way, and none otherwise; an expression over a
    metric without data has none itself
    (https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html).
    """
    names = {
        "succeeded": "ExecutionsSucceeded",
        "failed": "ExecutionsFailed",
        "timed_out": "ExecutionsTimedOut",
        "aborted": "ExecutionsAborted",
    }
    return Alarm(
        role="failure-ratio",
        section="failure-ratio",
        meaning=f"{_BAD_PERCENT} % of the executions of an hour, and {_MIN_BAD_EXECUTIONS} at least, ended badly.",
        watches=Expression(
            text=f"IF(bad >= {_MIN_BAD_EXECUTIONS}, 100 * bad / ended, 0)",
            steps={
                "bad": "SUM([FILL(failed, 0), FILL(timed_out, 0), FILL(aborted, 0)])",
                "ended": "bad + FILL(succeeded, 0)",
            },
            signals={name: _executions(site, metric) for name, metric in names.items()},
        ),
        # One bad account fails alone; one in ten says that a store, a permission or a deploy is the cause.
        threshold=_BAD_PERCENT,
        period=_AN_HOUR,
        pages=True,
        resolves=True,
    )


def _executions(site: Site, metric: str) -> Signal:
    dimensions = {"StateMachineArn": workflow.machine_arn(site)}
    return Signal(namespace="AWS/States", name=metric, statistic="Sum", dimensions=dimensions)


def _dead_letters(site: Site, role: str) -> Alarm:
    queue = queues.queue_arn(site, role).rpartition(":")[2]
    return Alarm(
        role=f"{role}-dlq",
        section="dead-letters",
        meaning=f"An event of {role} could not be delivered and waits in {queue} for redrive.",
        watches=Signal(
            namespace="AWS/SQS",
            name="ApproximateNumberOfMessagesVisible",
            statistic="Maximum",
            dimensions={"QueueName": queue},
        ),
        # One is one request that may wait for nothing. SQS falls silent six hours after a queue was emptied.
        threshold=1,
        resolves=True,
    )


def _function_errors(site: Site, role: str) -> Alarm:
    return Alarm(
        role=f"{role}-errors",
        section="function-errors",
        meaning=f"Function {role} fails again and again.",
        watches=_lambda(site, role, "Errors"),
        # A declared error that is retried counts here too: only what comes back three times in an hour is of interest.
        threshold=1,
        points=3,
        periods=12,
        resolves=True,
    )


def _function_throttles(site: Site, role: str) -> Alarm:
    return Alarm(
        role=f"{role}-throttles",
        section="function-throttles",
        meaning=f"Lambda refuses to run {role}: the account's concurrency is used up.",
        watches=_lambda(site, role, "Throttles"),
        # Whoever calls tries again; for three periods of an hour the rest of the account leaves too little.
        threshold=1,
        points=3,
        periods=12,
        resolves=True,
    )


def _lambda(site: Site, role: str, metric: str) -> Signal:
    return Signal(
        namespace="AWS/Lambda",
        name=metric,
        statistic="Sum",
        dimensions={"FunctionName": functions.function_name(site, role)},
    )


def _own(site: Site, metric: Metric, statistic: str) -> Signal:
    """A metric of ours; one with dimensions has no value without them."""
    if metric.dimensions:
        raise AssertionError(f"{metric.name} has dimensions: an alarm on it would never see a value")
    return Signal(namespace=metrics_namespace(site), name=metric.name, statistic=statistic)


def _minutes(duration: timedelta) -> str:
    return f"{duration.total_seconds() / 60:g}"
