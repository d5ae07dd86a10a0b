"""Every metric that the functions send, as data: alarms, the dashboard and the documentation are made from it.

The namespace is the environment's own (POWERTOOLS_METRICS_NAMESPACE), so two environments of one account never mix and
none needs a dimension. Each combination of name and dimension values is billed as a metric of its own: the only
dimension is `step`, never an id.
"""

from dataclasses import dataclass
from enum import StrEnum


class Unit(StrEnum):
    """The units of CloudWatch that are used here."""

    COUNT = "Count"
    SECONDS = "Seconds"


STEP = "step"
"""The one dimension: the name of a step of the workflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric."""

    name: str
    """Its name in CloudWatch; a stable key, as alarms and dashboards of others may use it."""
    unit: Unit = Unit.COUNT
    """What a value counts."""
    dimensions: tuple[str, ...] = ()
    """Names of the dimensions that each value has, none or STEP."""
    meaning: str
    """What one value says, as a sentence."""
    sent_by: tuple[str, ...]
    """The modules that send it."""


_FRAME = "handlers.core.frame"
_CHECKPOINT = "handlers.core.checkpoint"
_SWEEP = "handlers.sweep"

# Requests: each ending is counted by the function that writes it, or by the one that follows a write of the graph.

ACCEPTED = Metric(name="Accepted", meaning="A new request was accepted.", sent_by=("handlers.request",))
COMPLETED = Metric(
    name="Completed", meaning="A request became COMPLETED.", sent_by=("handlers.steps.complete_deletion",)
)
COMPLETED_AFTER = Metric(
    name="CompletedAfter",
    unit=Unit.SECONDS,
    meaning="From the end of the grace period to COMPLETED.",
    sent_by=("handlers.steps.complete_deletion",),
)
CANCELLED = Metric(
    name="Cancelled",
    meaning="A request became CANCELLED.",
    sent_by=("handlers.cancel", "handlers.steps.cancel_deletion"),
)
FAILED = Metric(
    name="Failed",
    meaning="A request became FAILED: nothing goes on until somebody redrives or cancels it.",
    sent_by=("handlers.dispatch", "handlers.recover"),
)
HELD = Metric(
    name="Held",
    meaning="A step found data that must be kept, the request became HELD; a HELD that the graph writes itself, after a"
    " Catch in a step's own states, is not counted.",
    sent_by=(_FRAME,),
)
HELD_BY_OPERATOR = Metric(
    name="HeldByOperator",
    meaning="A request became HELD, or was accepted as HELD, as an operator holds it or its person.",
    sent_by=("handlers.operations", "handlers.request"),
)
RETRIED = Metric(
    name="Retried",
    meaning="Another attempt of a RETRYABLE request was started.",
    sent_by=("handlers.dispatch",),
)
START_FAILED = Metric(
    name="StartFailed",
    meaning="An execution could not be started; the request comes due again.",
    sent_by=("handlers.dispatch",),
)
RECOVERED = Metric(
    name="Recovered",
    meaning="A request was taken from an execution that had ended without saying so.",
    sent_by=("handlers.recover",),
)
DUPLICATES_IGNORED = Metric(
    name="DuplicatesIgnored",
    meaning="An event that came twice, or too early, changed nothing.",
    sent_by=("handlers.dispatch", "handlers.request"),
)
IDENTITY_NOT_FOUND = Metric(
    name="IdentityNotFound",
    meaning="A request was accepted for a user whom the user pool does not know.",
    sent_by=("handlers.request",),
)
SCHEDULE_NOT_CREATED = Metric(
    name="ScheduleNotCreated",
    meaning="A request has no schedule; the sweeper starts it.",
    sent_by=("handlers.schedules",),
)
SCHEDULE_NOT_DELETED = Metric(
    name="ScheduleNotDeleted",
    meaning="A cancelled request's schedule stays until it fires; it then finds nothing to start.",
    sent_by=("handlers.schedules",),
)

# Steps.

STEP_DURATION = Metric(
    name="StepDuration",
    unit=Unit.SECONDS,
    dimensions=(STEP,),
    meaning="From a step's first begin to DONE, over all attempts.",
    sent_by=(_CHECKPOINT,),
)
STEP_RETRIES = Metric(
    name="StepRetries",
    dimensions=(STEP,),
    meaning="Invocations beyond the first that a step took until it was DONE, over all attempts.",
    sent_by=(_CHECKPOINT,),
)
ITEMS_DELETED = Metric(
    name="ItemsDeleted",
    dimensions=(STEP,),
    meaning="What a step had deleted when it was DONE, over all its stores and attempts; each store would be billed as"
    " a metric of its own, and the request's record has them by store.",
    sent_by=(_CHECKPOINT,),
)
FENCED_OUT = Metric(
    name="FencedOut",
    meaning="A worker lost its request to a later invocation, another execution or a hold, and touched nothing more.",
    sent_by=(_FRAME,),
)
LEFTOVERS_FOUND = Metric(
    name="LeftoversFound",
    dimensions=(STEP,),
    meaning="The verification found what a step had left, and sent the request back to it.",
    sent_by=("handlers.steps.verify_erasure",),
)

# What a run of the sweeper sees.

OVERDUE = Metric(
    name="Overdue",
    meaning="Requests that were due when a run of the sweeper began, up to its limit; one value a run.",
    sent_by=(_SWEEP,),
)
OLDEST_OVERDUE = Metric(
    name="OldestOverdue",
    unit=Unit.SECONDS,
    meaning="For how long the oldest of them had been due, 0 if none was; one value a run.",
    sent_by=(_SWEEP,),
)
STUCK_PROCESSING = Metric(
    name="StuckProcessing",
    meaning="PROCESSING requests that a run found past their lease and still executed; one value a run.",
    sent_by=(_SWEEP,),
)
NOT_HANDLED = Metric(
    name="NotHandled",
    meaning="Due requests that the sweeper could not look after and put off; one value a run.",
    sent_by=(_SWEEP,),
)
WILL_MISS_ERASE_BY = Metric(
    name="WillMissEraseBy",
    meaning="A due request whose erase_by is nearer than the longest that one attempt takes.",
    sent_by=(_SWEEP,),
)
STILL_RUNNING = Metric(
    name="StillRunning",
    meaning="An execution's end was reported, but Step Functions still calls it running.",
    sent_by=("handlers.recover",),
)

ALL: tuple[Metric, ...] = tuple(value for value in globals().copy().values() if isinstance(value, Metric))
"""The table, in the order above."""
