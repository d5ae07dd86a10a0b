"""A step of the deletion, as a value: its Lambda, its permissions, its policies and its way back.

Nothing here runs. Durations are timedelta; errors are exception classes, never strings.
"""

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from handlers.core.errors import DeletionError, Held, Permanent, QuietEnd, Retryable, Superseded
from handlers.core.frame import Handler
from handlers.core.states import StepKind

__all__ = [
    "Allow",
    "Catch",
    "Compensation",
    "FunctionOptions",
    "Outcome",
    "Retry",
    "Step",
    "StepKind",
    "Value",
    "kebab",
]

LAMBDA_LIMIT = timedelta(minutes=15)
"""https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html"""
START_UP = timedelta(seconds=30)
"""How much longer a task waits than its Lambda may run: initialisation is outside the function's timeout."""

ErrorClass = type[DeletionError]


class Outcome(StrEnum):
    """Where a caught error leads (not an ending: RETRYABLE is tried again)."""

    RETRYABLE = "RETRYABLE"
    """Another attempt later, counted as a failure."""
    FAILED = "FAILED"
    """Compensation, then FAILED in front of an operator."""
    HELD = "HELD"
    """Wait until somebody releases the request."""
    QUIET = "QUIET"
    """End without a write: somebody else has the request."""


@dataclass(frozen=True, slots=True)
class Value:
    """Stands for what Pulumi knows and the step list does not; infra resolves it by name."""

    name: str
    """One of the deployment's own values or a key of AccountDeletionArgs.values."""
    optional: bool = False
    """Where the deployment has no such value: leave the variable or the permission out, instead of refusing it."""


@dataclass(frozen=True, slots=True)
class Allow:
    """A permission of the step's function: exact actions on exact resources."""

    actions: str | tuple[str, ...]
    """IAM actions, e.g. "s3:DeleteObjectVersion"; IAM's names differ from the API's."""
    on: str | Value
    """An ARN, or a Value that is one ARN or a list of ARNs."""
    condition: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """IAM condition block, e.g. {"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}}."""
    reason: str = ""
    """Why, where it is not seen as a call of the handler; needed for a resource of "*"."""

    def action_names(self) -> tuple[str, ...]:
        """The actions as a tuple."""
        return (self.actions,) if isinstance(self.actions, str) else self.actions


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often and how fast a step is called again after one of these errors."""

    on: tuple[ErrorClass, ...]
    """Error classes that the handler declares; a class stands for itself and its subclasses."""
    attempts: int = 3
    """Further calls after the first, 0 to 100; 0 forbids a retry."""
    interval: timedelta = timedelta(seconds=2)
    """Wait before the first of them; whole seconds, at least 1."""
    backoff: float = 2.0
    """Factor from one wait to the next, at least 1."""
    max_delay: timedelta | None = None
    """No wait is longer; more than `interval`. None: no limit."""
    jitter: bool = True
    """Draw each wait between 0 and its length. False where time itself must pass."""

    def longest(self) -> timedelta:
        """All its waits at their longest."""
        return sum(self.waits(), timedelta(0))

    def waits(self) -> tuple[timedelta, ...]:
        """Each wait at its longest, in order."""
        waits, wait = [], self.interval
        for _ in range(self.attempts):
            waits.append(min(wait, self.max_delay) if self.max_delay else wait)
            wait = wait * self.backoff
        return tuple(waits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catch:
    """Where an error leads once Retry is exhausted."""

    on: tuple[ErrorClass, ...]
    """Error classes that the handler declares; a class stands for itself and its subclasses."""
    to: Outcome
    """Which way the request takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionOptions:
    """What a Lambda function may need besides its code."""

    memory: int = 256
    """MB, 128 to 10,240; CPU grows with it."""
    environment: Mapping[str, str | Value] = field(default_factory=dict)
    """Variables of the handler's settings, in upper case."""
    network: bool = False
    """Place the function into Platform's subnets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compensation:
    """How a step is undone before the pivot."""

    handler: Handler
    """A function made by @compensation."""
    timeout: timedelta = timedelta(seconds=60)
    """The Lambda's timeout, 1 s to 15 min; the step waits that long after an undo before it begins again."""
    on: frozenset[Outcome] = frozenset({Outcome.FAILED})
    """On the way to which outcomes it runs; a cancellation always runs it."""
    retry: tuple[Retry, ...] = (Retry(on=(Retryable,), attempts=4, interval=timedelta(seconds=2)),)
    """Policies for the errors of its handler."""
    allow: tuple[Allow, ...] = ()
    """What its function may do besides its control writes."""
    function: FunctionOptions = field(default_factory=FunctionOptions)
    """Memory, environment, network."""


DEFAULT_RETRY = (
    Retry(on=(Superseded,), attempts=3, interval=timedelta(seconds=1)),
    Retry(on=(Retryable,), attempts=6, interval=timedelta(seconds=2), max_delay=timedelta(seconds=60)),
)
"""For a step that says nothing else."""
DEFAULT_CATCH = (
    Catch(on=(QuietEnd,), to=Outcome.QUIET),
    Catch(on=(Held,), to=Outcome.HELD),
    Catch(on=(Permanent,), to=Outcome.FAILED),
)
"""The policy of the error tree; whatever is left once Retry is exhausted leads to RETRYABLE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of the list that a team extends."""

    name: str
    """CamelCase identifier, at most 40 characters. A stable key in the record: never reused for another meaning."""
    handler: Handler
    """The function itself, made by @step_handler; function name, module path and file follow from it."""
    kind: StepKind
    """Whether it can be undone, is the point of no return, or lies behind it."""
    verify: Any = None
    """`remaining` beside the handler: lists the step's stores afresh. Needed unless `erases` is False."""
    preflight: Any = None
    """`preflight` beside the handler: checks the configuration of the step's stores before the first step. None: there
    is nothing that it could find wrong."""
    erases: bool = True
    """Whether it deletes from a store; a compensatable step never does."""
    timeout: timedelta = timedelta(minutes=5)
    """The Lambda's timeout, 20 s to 15 min; the task waits START_UP longer."""
    wait: timedelta = timedelta(0)
    """The longest pause that its handler may ask for with Again(wait=...), at most an hour."""
    patience: timedelta = timedelta(0)
    """How long it may postpone in all (answer Postpone), counted from its first begin or the last redrive, up to 90
    days; it adds to the time that a request may take. 0: it never postpones."""
    turns: int = 30
    """How often it may answer Again in one attempt before the attempt ends as RETRYABLE, 1 to 200."""
    retry: tuple[Retry, ...] = DEFAULT_RETRY
    """Policies for the handler's errors; the frame adds those for Lambda's own."""
    catch: tuple[Catch, ...] = DEFAULT_CATCH
    """Where each error leads once Retry is exhausted."""
    compensation: Compensation | None = None
    """Needed for a compensatable step, refused for others."""
    allow: tuple[Allow, ...] = ()
    """What its function may do besides its control writes."""
    function: FunctionOptions = field(default_factory=FunctionOptions)
    """Memory, environment, network."""

    @property
    def task_timeout(self) -> timedelta:
        """The task's timeout in the state machine."""
        return self.timeout + START_UP


_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z]|$)|[A-Z]?[a-z0-9]+|[A-Z]+")


def kebab(name: str) -> str:
    """DeleteFiles -> delete-files."""
    return "-".join(word.lower() for word in _WORD.findall(name))


def path_of(function: Any) -> str:
    """Dotted path of a handler or of a `remaining`, e.g. handlers.steps.delete_files.handler."""
    return f"{function.__module__}.{function.__name__}"


def file_of(function: Any) -> str:
    """The source file of a handler."""
    return inspect.getsourcefile(inspect.unwrap(function)) or ""
