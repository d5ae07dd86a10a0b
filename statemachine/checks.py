"""What a plan must keep before anything is deployed; every finding names the place, the problem and the mend."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from handlers.core.checkpoint import RESERVE
from handlers.core.errors import FAMILIES, DeletionError, Retryable
from handlers.core.frame import Handler
from statemachine.plan import Plan, raised
from statemachine.rendering import state_names
from statemachine.step import LAMBDA_LIMIT, Catch, Compensation, FunctionOptions, Retry, Step, StepKind, Value

MAX_NAME = 40
MAX_WAIT = timedelta(hours=1)
MAX_PATIENCE = timedelta(days=90)
MAX_MACHINE_TIMEOUT = timedelta(days=365)
SHORTEST = RESERVE + timedelta(seconds=5)
"""Below that a handler would never find time for a batch."""

_NAME = re.compile(r"[A-Z][A-Za-z0-9]*")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
_ACTION = re.compile(r"[a-z0-9-]+:[A-Za-z0-9]+")
_FRAME_VARIABLES = frozenset(
    {"LEASE", "REQUEST_TABLE", "STEP", "STEP_ERASES", "STEP_KIND", "STEP_PREFLIGHT", "STEP_TIMEOUT", "STEP_VERIFY"}
    | {"PATIENCE", "POWERTOOLS_METRICS_NAMESPACE", "UNDO_TIMEOUT"}
)
_SECOND = timedelta(seconds=1)
FRAME_STATES = frozenset(
    {
        *("AfterUndo", "CancelDeletion", "Cancelled", "CheckStores", "Claim", "CompleteDeletion", "Deleted"),
        *("DeletionFailed", "Postpone"),
        *("EndedBefore", "Held", "InspectRequest", "Inspected", "IsCancelled", "IsComplete", "IsErased", "MarkFailed"),
        *("MarkHeld", "MarkRetryable", "OnHold", "OwnedElsewhere", "ReadRequest", "Requeue", "Route", "UndoFailed"),
        *("Unfinished", "VerifyErasure", "WillRetry"),
    }
)
"""The names that the frame's own states have."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a plan does wrong."""

    code: str
    place: str
    """A step's name, or the field of the workflow."""
    problem: str
    mend: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.code} {self.place}: {self.problem}; {self.mend}"


class WorkflowError(ValueError):
    """A workflow that may not be deployed; its message lists every finding."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(str(finding) for finding in findings))


Findings = Iterator[Finding]


def findings(plan: Plan) -> tuple[Finding, ...]:
    """Everything that is wrong with a plan, apart from its rendered definition."""
    if not plan.steps:
        return (Finding("W01", "steps", "there is none", "give at least one Step"),)
    # What has another type than it says cannot be looked at any further.
    if mistyped := tuple(_types(plan)):
        return mistyped
    found = [*_names(plan), *_order(plan), *_frame(plan)]
    for step in plan.steps:
        found += [*_step(step), *_handler(step.name, step.handler), *_options(step.name, step.function, step.allow)]
        if isinstance(step.handler, Handler):
            found += [*_retries(step.name, step.handler, step.retry), *_catches(step)]
        if step.compensation:
            found += _compensation(step, step.compensation)
    # The arithmetic below needs plausible numbers.
    return tuple(found) or tuple(_times(plan))


def _types(plan: Plan) -> Findings:
    if not isinstance(plan.steps, tuple):
        yield Finding("W01", "steps", f"a {type(plan.steps).__name__}", "give a tuple: a workflow never changes")
    for step in plan.steps:
        policies: tuple[Retry | Catch, ...] = (*step.retry, *step.catch)
        for policy in policies:
            for error in policy.on:
                if not (isinstance(error, type) and issubclass(error, DeletionError)):
                    code, kind = ("W09", "Retry") if isinstance(policy, Retry) else ("W10", "Catch")
                    yield Finding(code, step.name, f"a {kind} names {error!r}", "name a class of handlers.core.errors")
        for field in ("timeout", "wait", "patience"):
            if not isinstance(getattr(step, field), timedelta):
                yield Finding("W08", step.name, f"{field} is no timedelta", f"e.g. {field}=timedelta(minutes=5)")


def _names(plan: Plan) -> Findings:
    for step in plan.steps:
        if not _NAME.fullmatch(step.name) or len(step.name) > MAX_NAME:
            yield Finding("W02", step.name, "no CamelCase identifier of 1 to 40 characters", "e.g. PurgeSearchIndex")
    for name, times in Counter(step.name for step in plan.steps).items():
        if times > 1:
            yield Finding("W03", name, f"{times} steps have this name", "a name is a key in the record; use each once")
    steps = {step.name for step in plan.steps}
    derived = Counter(name for step in plan.steps for name in state_names(step)[1:])
    for name in sorted(steps & FRAME_STATES):
        yield Finding("W03", name, "the frame has a state of this name", "choose another")
    for name in sorted(steps & derived.keys()):
        yield Finding("W03", name, "another step brings a state of this name along", "choose another")
    for name, times in derived.items():
        if times > 1 or name in FRAME_STATES:
            yield Finding("W03", name, "two states would have this name", "rename the step or its module")


def _order(plan: Plan) -> Findings:
    passed = False
    for step in plan.steps:
        if step.kind is StepKind.COMPENSATABLE and passed:
            yield Finding("W04", step.name, "compensatable after the pivot", "move it before the pivot")
        if step.kind is StepKind.PIVOT and passed:
            yield Finding("W04", step.name, "a second pivot", "make it StepKind.RETRIABLE")
        if step.kind is StepKind.RETRIABLE and not passed:
            yield Finding("W04", step.name, "retriable before any pivot", "make the first such step StepKind.PIVOT")
        passed = passed or step.kind is not StepKind.COMPENSATABLE


def _step(step: Step) -> Findings:
    yield from _between(step.name, "timeout", step.timeout, SHORTEST, LAMBDA_LIMIT)
    yield from _between(step.name, "wait", step.wait, timedelta(0), MAX_WAIT)
    yield from _between(step.name, "patience", step.patience, timedelta(0), MAX_PATIENCE)
    yield from _within(step.name, "turns", step.turns, 1, 200)
    is_compensatable = step.kind is StepKind.COMPENSATABLE
    if is_compensatable and step.compensation is None:
        yield Finding("W05", step.name, "compensatable without a compensation", "give compensation=Compensation(...)")
    if not is_compensatable and step.compensation is not None:
        yield Finding("W05", step.name, f"{step.kind} with a compensation", "make it StepKind.COMPENSATABLE or drop it")
    if is_compensatable and step.erases:
        yield Finding("W05", step.name, "what is erased cannot be compensated", "set erases=False or another kind")
    if step.erases and step.verify is None:
        yield Finding("W06", step.name, "erases and has no verify", "give verify=<module>.remaining, or erases=False")
    if not step.erases and step.verify is not None:
        yield Finding("W06", step.name, "erases nothing and has a verify", "drop one of the two")
    for field, function in (("verify", step.verify), ("preflight", step.preflight)):
        if function is not None:
            yield from _importable(step.name, field, function)


def _handler(place: str, handler: Any) -> Findings:
    if not isinstance(handler, Handler):
        yield Finding("W07", place, "its handler declares no errors", "decorate the function with @step_handler(...)")
    else:
        yield from _importable(place, "handler", handler)


def _importable(place: str, field: str, function: Any) -> Findings:
    name = getattr(function, "__name__", "")
    scope = getattr(function, "__globals__", None) or getattr(getattr(function, "__wrapped__", None), "__globals__", {})
    if scope.get(name) is not function:
        yield Finding("W07", place, f"{field} is no module-level function", "Lambda finds it by module and name")


def _compensation(step: Step, undo: Compensation) -> Findings:
    place = f"{step.name}.compensation"
    yield from _handler(place, undo.handler)
    yield from _between(place, "timeout", undo.timeout, _SECOND, LAMBDA_LIMIT)
    yield from _options(place, undo.function, undo.allow)
    if isinstance(undo.handler, Handler):
        yield from _retries(place, undo.handler, undo.retry)


def _retries(place: str, handler: Handler, retries: tuple[Retry, ...]) -> Findings:
    named = Counter(error for retry in retries for error in retry.on)
    for error, times in named.items():
        if times > 1:
            yield Finding("W09", place, f"two retriers for {error.__name__}", "the first wins; keep one")
    for retry in retries:
        yield from _policy_classes(place, "Retry", handler, retry)
        yield from _retry_numbers(place, retry)


def _retry_numbers(place: str, retry: Retry) -> Findings:
    yield from _within(place, "Retry.attempts", retry.attempts, 0, 100)
    yield from _between(place, "Retry.interval", retry.interval, _SECOND, MAX_WAIT)
    if retry.backoff < 1:
        yield Finding("W09", place, f"Retry.backoff {retry.backoff} is below 1", "use 1.0 for even waits")
    if retry.max_delay is not None and retry.max_delay <= retry.interval:
        yield Finding(
            "W09",
            place,
            f"Retry.max_delay {_show(retry.max_delay)} is not above its interval {_show(retry.interval)}",
            "raise it, or None for no limit",
        )


def _catches(step: Step) -> Findings:
    named = Counter(error for catch in step.catch for error in catch.on)
    for error, times in named.items():
        if times > 1:
            yield Finding("W10", step.name, f"two catchers for {error.__name__}", "the first wins; keep one")
    for catch in step.catch:
        yield from _policy_classes(step.name, "Catch", step.handler, catch)
    caught = {error for catch in step.catch for error in raised(step.handler, catch.on)}
    retried = {error for retry in step.retry for error in raised(step.handler, retry.on)}
    for error in sorted(set(step.handler.raises) - caught, key=lambda one: one.__name__):
        if not (issubclass(error, Retryable) and error in retried):
            yield Finding(
                "W10", step.name, f"no policy for {error.__name__}", "name it in a Catch, or a Retryable in a Retry"
            )


def _policy_classes(place: str, kind: str, handler: Handler, policy: Retry | Catch) -> Findings:
    code = "W09" if kind == "Retry" else "W10"
    if not policy.on:
        yield Finding(code, place, f"a {kind} names no error", "name at least one class")
    for error in policy.on:
        # A family stands for whatever of it the handler declares, which may be nothing.
        if error not in FAMILIES and not raised(handler, [error]):
            declared = ", ".join(sorted(one.__name__ for one in handler.raises))
            yield Finding(code, place, f"its handler never raises {error.__name__}", f"it declares {declared}")


def _options(place: str, options: FunctionOptions, allow: Sequence[Any]) -> Findings:
    yield from _within(place, "memory", options.memory, 128, 10_240)
    for name in options.environment:
        if not _VARIABLE.fullmatch(name) or name.startswith(("AWS_", "LAMBDA_")):
            yield Finding("W11", place, f"environment {name}", "A-Z, 0-9 and _, not beginning with AWS_ or LAMBDA_")
        if name in _FRAME_VARIABLES:
            yield Finding("W11", place, f"environment {name} is set by the frame", "choose another name")
    for one in allow:
        for action in one.action_names():
            if not _ACTION.fullmatch(action):
                yield Finding("W12", place, f"allow {action}", "one exact action, e.g. s3:DeleteObjectVersion")
        if not isinstance(one.on, Value) and not one.on.startswith("arn:") and not (one.on == "*" and one.reason):
            yield Finding("W12", place, f"allow on {one.on}", "an ARN or a Value; '*' only with a reason")


def _frame(plan: Plan) -> Findings:
    yield from _between("Workflow", "timeout", plan.timeout, timedelta(minutes=1), MAX_MACHINE_TIMEOUT)
    yield from _between("Workflow", "verify_timeout", plan.verify_timeout, SHORTEST, LAMBDA_LIMIT)
    yield from _between("Workflow", "frame_timeout", plan.frame_timeout, SHORTEST, LAMBDA_LIMIT)
    yield from _between("Workflow", "backoff", plan.backoff, _SECOND, MAX_WAIT)
    yield from _between("Workflow", "backoff_limit", plan.backoff_limit, plan.backoff, timedelta(days=1))
    yield from _between("Workflow", "dispatch_visibility", plan.dispatch_visibility, _SECOND, MAX_WAIT)
    yield from _within("Workflow", "sweep_limit", plan.sweep_limit, 1, 3000)
    yield from _within("Workflow", "start_rate", plan.start_rate, 1, 100)
    yield from _within("Workflow", "describe_rate", plan.describe_rate, 1, 15)
    yield from _within("Workflow", "rounds", plan.rounds, 1, 10)
    yield from _within("Workflow", "max_failures", plan.max_failures, 1, 20)
    yield from _within("Workflow", "max_dispatches", plan.max_dispatches, plan.max_failures + 1, 1000)


def _times(plan: Plan) -> Findings:
    for place, silence in plan.silences():
        if plan.lease <= silence:
            yield Finding(
                "W13",
                place,
                f"lease {_show(plan.lease)} is shorter than its longest silence {_show(silence)}",
                f"set Workflow.lease to {_show(silence + timedelta(seconds=10))} or more",
            )
    if plan.timeout <= plan.worst_case:
        yield Finding(
            "W14",
            "Workflow.timeout",
            f"{_show(plan.timeout)} is shorter than the worst case of one attempt, {_show(plan.worst_case)}",
            "raise it, or lower turns, timeouts or retries",
        )
    needed = max((step.timeout for step in plan.steps if step.erases), default=timedelta(0)) + RESERVE
    if plan.verify_timeout <= needed:
        yield Finding(
            "W15",
            "Workflow.verify_timeout",
            f"{_show(plan.verify_timeout)} does not outlast the longest listing of a step, {_show(needed)}",
            "raise it, or lower the step's timeout",
        )


def _between(place: str, field: str, value: timedelta, low: timedelta, high: timedelta) -> Findings:
    if not low <= value <= high:
        yield Finding("W08", place, f"{field} {_show(value)}", f"between {_show(low)} and {_show(high)}")
    elif value % _SECOND:
        yield Finding("W08", place, f"{field} {value} is no whole number of seconds", "round it up")


def _within(place: str, field: str, value: int, low: int, high: int) -> Findings:
    if not low <= value <= high:
        yield Finding("W08", place, f"{field} {value}", f"between {low} and {high}")


def _show(duration: timedelta) -> str:
    return f"{int(duration.total_seconds())} s" if not duration % _SECOND else f"{duration.total_seconds():g} s"
