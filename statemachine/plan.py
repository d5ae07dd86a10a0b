"""The ordered steps with the numbers of the frame around them, and the arithmetic of its times.

A Plan says nothing about whether it is right; Workflow is the Plan that was checked.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from handlers.core.errors import Retryable, StepMayStillRun, UndoInFlight
from handlers.core.frame import Handler
from statemachine.step import START_UP, Catch, Compensation, ErrorClass, Outcome, Retry, Step

LAMBDA_TRANSIENT = (
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.TooManyRequestsException",
    "Lambda.Unknown",
    "Sandbox.Timedout",
    "States.Timeout",
)
"""Names under which Lambda itself fails; all may pass
(https://docs.aws.amazon.com/step-functions/latest/dg/bp-lambda-serviceexception.html)."""
CONTROL_TIMEOUT = timedelta(seconds=60)
"""Of one direct call to DynamoDB, with the service's own tries."""
MARGIN = timedelta(seconds=10)
"""By how much the waits for a Lambda that must be dead outlast its timeout."""
_WAITS_FOR_DEATH = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRetry:
    """A retrier for errors that are names of the service, not classes of ours."""

    names: tuple[str, ...]
    retry: Retry


LAMBDA_RETRY = ServiceRetry(
    names=LAMBDA_TRANSIENT,
    retry=Retry(on=(), attempts=3, interval=timedelta(seconds=2)),
)
ANY_RETRY = ServiceRetry(
    names=("States.ALL",),
    retry=Retry(on=(), attempts=2, interval=timedelta(seconds=5)),
)
CONTROL_RETRY = ServiceRetry(
    names=("States.ALL",),
    retry=Retry(on=(), attempts=6, interval=timedelta(seconds=1), max_delay=timedelta(seconds=30)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The steps and the frame."""

    steps: tuple[Step, ...]
    """In the order in which they run."""
    lease: timedelta = timedelta(minutes=15)
    """How long a worker may be silent before somebody looks after the request; more than `longest_silence`."""
    timeout: timedelta = timedelta(days=10)
    """TimeoutSeconds of the state machine; more than `worst_case`, at most a year."""
    verify_timeout: timedelta = timedelta(minutes=12)
    """Lambda timeout of the verification; more than that of each step that erases, at most 15 min."""
    frame_timeout: timedelta = timedelta(seconds=60)
    """Lambda timeout of completion and cancellation."""
    rounds: int = 3
    """How often one attempt's verification may send the steps round again, 1 to 10."""
    max_failures: int = 5
    """Failed attempts until the request is FAILED, 1 to 20."""
    max_dispatches: int = 200
    """Dispatches since the last redrive until the request is FAILED, more than max_failures: an outage of Step
    Functions uses up one every five minutes."""
    dispatch_visibility: timedelta = timedelta(minutes=2)
    """How long a dispatched request may stay unclaimed before it is dispatched again; doubles each time."""
    backoff: timedelta = timedelta(minutes=1)
    """Wait after the first failed attempt; doubles with each failure, with jitter."""
    backoff_limit: timedelta = timedelta(hours=1)
    """The longest wait between two attempts."""

    sweep_limit: int = 1500
    """Due requests that one run of the sweeper looks after at most, besides the executions that it looks at, 1 to
    3000; a run comes every minute."""
    start_rate: int = 40
    """Requests that the sweeper starts in a second at most, 1 to 100: an account's quota of StartExecution (150 a
    second in the smaller Regions) is shared with everything else (https://docs.aws.amazon.com/step-functions/latest/
    dg/service-quotas.html)."""
    describe_rate: int = 10
    """Executions that the sweeper looks at in a second at most, 1 to 15: DescribeExecution takes 15 for long. What
    `recover` looks at after status events is not paced, and comes on top."""

    @property
    def worst_case(self) -> timedelta:
        """How long one attempt can take at most: all turns, retries, waits and rounds."""
        steps = sum((step_worst_case(step) for step in self.steps), timedelta(0))
        erasing = sum((step_worst_case(step) for step in self.steps[self.first_erasing() :]), timedelta(0))
        verify = tries_worst_case(self.verify_timeout + START_UP, self.frame_retries())
        undo = sum((undo_worst_case(step, step.compensation) for step in self.steps if step.compensation), timedelta(0))
        frame = (3 if self.checked_steps else 2) * tries_worst_case(self.frame_timeout + START_UP, self.frame_retries())
        control = 6 * tries_worst_case(CONTROL_TIMEOUT, (CONTROL_RETRY.retry,))
        return steps + self.rounds * (erasing + verify) + verify + undo + frame + control

    @property
    def longest(self) -> timedelta:
        """How long a request may take after its grace period, if one attempt does it: postponing included."""
        return self.worst_case + sum((step.patience for step in self.steps), timedelta(0))

    @property
    def checked_steps(self) -> tuple[Step, ...]:
        """The steps whose stores are checked before the first step."""
        return tuple(step for step in self.steps if step.preflight is not None)

    @property
    def longest_silence(self) -> timedelta:
        """The longest time between two lease renewals of a healthy execution; a step's own pauses renew it."""
        return max(silence for _, silence in self.silences())

    def silences(self) -> tuple[tuple[str, timedelta], ...]:
        """Each part of the graph with the longest time that it may pass without renewing the lease."""
        parts = [(step.name, step.task_timeout + longest_wait(step_retries(step))) for step in self.steps]
        parts += [
            (f"undo of {step.name}", step.compensation.timeout + START_UP + total_waits(undo_retries(step)))
            for step in self.steps
            if step.compensation
        ]
        if self.checked_steps:
            parts.append(("CheckStores", self.frame_timeout + START_UP + longest_wait(self.frame_retries())))
        parts.append(("VerifyErasure", self.verify_timeout + START_UP + longest_wait(self.frame_retries())))
        return tuple(parts)

    @property
    def happy_path_transitions(self) -> int:
        """States entered when nothing goes wrong, each step is done in one turn and asks for its wait once."""
        frame = len(
            ("Claim", "ReadRequest", "Route", "VerifyErasure", "IsErased", "CompleteDeletion", "IsComplete", "End")
        )
        return frame + (1 if self.checked_steps else 0) + sum(5 if step.wait else 2 for step in self.steps)

    def first_erasing(self) -> int:
        """Index of the first step that erases: where the verification sends the request back to."""
        return next((index for index, step in enumerate(self.steps) if step.erases), len(self.steps))

    def frame_retries(self) -> tuple[Retry, ...]:
        """The retriers of the frame's own Lambdas."""
        return (Retry(on=(Retryable,), attempts=4), LAMBDA_RETRY.retry, ANY_RETRY.retry)


def step_retries(step: Step) -> tuple[Retry, ...]:
    """All retriers of a step's task, the frame's included."""
    waiting = (waits_for_death(UndoInFlight, step.compensation.timeout),) if step.compensation else ()
    return (*waiting, *step.retry, LAMBDA_RETRY.retry, ANY_RETRY.retry)


def undo_retries(step: Step) -> tuple[Retry, ...]:
    """All retriers of a compensation's task, the frame's included."""
    own = step.compensation.retry if step.compensation else ()
    return (waits_for_death(StepMayStillRun, step.timeout), *own, LAMBDA_RETRY.retry, ANY_RETRY.retry)


def waits_for_death(error: ErrorClass, timeout: timedelta) -> Retry:
    """A retrier that waits until a Lambda with this timeout must be dead; without jitter, which has no lower bound."""
    interval = math.ceil((timeout + MARGIN).total_seconds() / _WAITS_FOR_DEATH)
    return Retry(
        on=(error,),
        attempts=_WAITS_FOR_DEATH + 1,
        interval=timedelta(seconds=interval),
        backoff=1.0,
        jitter=False,
    )


def step_worst_case(step: Step) -> timedelta:
    """The longest a step can take in one attempt: every turn with every retry and every wait."""
    return step.turns * (tries_worst_case(step.task_timeout, step_retries(step)) + step.wait)


def undo_worst_case(step: Step, undo: Compensation) -> timedelta:
    """The longest a compensation can take."""
    return tries_worst_case(undo.timeout + START_UP, undo_retries(step)) + 2 * CONTROL_TIMEOUT


def tries_worst_case(task: timedelta, retries: Iterable[Retry]) -> timedelta:
    """A task that uses up every retrier, each try at its longest."""
    retries = tuple(retries)
    tries = 1 + sum(retry.attempts for retry in retries)
    return tries * task + total_waits(retries)


def total_waits(retries: Iterable[Retry]) -> timedelta:
    """All waits of all retriers."""
    return sum((retry.longest() for retry in retries), timedelta(0))


def longest_wait(retries: Iterable[Retry]) -> timedelta:
    """The longest single wait."""
    return max((wait for retry in retries for wait in retry.waits()), default=timedelta(0))


def raised(handler: Handler, named: Iterable[ErrorClass]) -> tuple[ErrorClass, ...]:
    """Which of a handler's declared errors the named classes stand for, as themselves and their subclasses."""
    named = tuple(named)
    return tuple(sorted((one for one in set(handler.raises) if issubclass(one, named)), key=lambda one: one.__name__))


def taken_by(handler: Handler, policies: Sequence[Retry | Catch]) -> tuple[tuple[ErrorClass, ...], ...]:
    """For each policy the declared errors that it takes: an error goes to the one that names its nearest ancestor."""
    taken: list[list[ErrorClass]] = [[] for _ in policies]
    for error in sorted(set(handler.raises), key=lambda one: one.__name__):
        nearest = _nearest(error, policies)
        if nearest is not None:
            taken[nearest].append(error)
    return tuple(tuple(errors) for errors in taken)


def _nearest(error: ErrorClass, policies: Sequence[Retry | Catch]) -> int | None:
    for ancestor in error.__mro__:
        for index, policy in enumerate(policies):
            if ancestor in policy.on:
                return index
    return None


def never_retried(handler: Handler, retries: tuple[Retry, ...]) -> tuple[ErrorClass, ...]:
    """The declared errors that no retrier may take, not even the one for everything."""
    taken = {error for errors in taken_by(handler, retries) for error in errors}
    return tuple(sorted(set(handler.raises) - taken, key=lambda one: one.__name__))


def undo_chain(plan: Plan, outcome: Outcome | None, up_to: int | None = None) -> tuple[Step, ...]:
    """The steps to undo on the way to an outcome, in the order of the undo.

    Args:
        plan: the plan.
        outcome: FAILED or RETRYABLE; None: a cancellation, which undoes everything.
        up_to: index of the step that failed; None: all.
    """
    steps = plan.steps if up_to is None else plan.steps[: max(up_to + 1, 0)]
    return tuple(step for step in reversed(steps) if step.compensation and outcome in {None, *step.compensation.on})
