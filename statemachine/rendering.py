"""What every part of the definition is rendered with: the plan, one deployment, and the frame's common pieces."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from handlers.core.frame import Handler
from handlers.core.transition import Transition
from statemachine.plan import ANY_RETRY, CONTROL_RETRY, LAMBDA_RETRY, Plan, never_retried, taken_by, undo_chain
from statemachine.step import Compensation, ErrorClass, Outcome, Retry, Step, path_of
from statemachine.tasks import (
    ALL,
    CONDITION_FAILED,
    DATA_LIMIT,
    NOW,
    State,
    catcher,
    error_of,
    invoke_task,
    never,
    read_task,
    retrier,
    service_retrier,
    update_task,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What the definition must know of one deployment; all of it is known before anything is made."""

    request_table: str
    """Name of the request table."""
    functions: Mapping[str, str]
    """Role of each function -> ARN of its alias."""
    partition: str = "aws"


@dataclass(frozen=True, slots=True)
class Rendering:
    """One plan for one deployment."""

    plan: Plan
    deployment: Deployment

    def update(
        self,
        transition: Transition,
        values: Mapping[str, str | Mapping[str, object]],
        step: str | None = None,
        each: Sequence[str] = (),
    ) -> State:
        """A transition as a task."""
        task = update_task(
            transition,
            partition=self.deployment.partition,
            table=self.deployment.request_table,
            expressions=values,
            step=step,
            each=each,
        )
        return {**task, "Output": {}, "Retry": _control_retries()}

    def read(self, attributes: Sequence[str]) -> State:
        """A consistent read of a few attributes as a task."""
        task = read_task(attributes, partition=self.deployment.partition, table=self.deployment.request_table)
        return {**task, "Output": {}, "Retry": [service_retrier(CONTROL_RETRY)]}

    def invoke(self, role: str, step: str, timeout_seconds: int) -> State:
        """A call of one of our functions as a task."""
        return invoke_task(
            self.deployment.functions[role],
            step,
            partition=self.deployment.partition,
            timeout_seconds=timeout_seconds,
        )

    def lease(self) -> str:
        """When a lease taken now ends, as an expression."""
        return f"{NOW} + {int(self.plan.lease.total_seconds())}"

    def catch_retryable(self, place: str) -> list[State]:
        """Whatever went wrong there, another attempt may do better."""
        assign = {"error": error_of(place), "outcome": str(Outcome.RETRYABLE)}
        return [catcher([name], "MarkRetryable", **assign) for name in (DATA_LIMIT, ALL)]

    def first_undo(self, outcome: Outcome | None, up_to: int | None = None) -> str | None:
        """Where the way back to an outcome begins; None if there is nothing to undo on it."""
        chain = undo_chain(self.plan, outcome, up_to)
        return undo_name(chain[0]) if chain else None

    def way(self, index: int, outcome: Outcome) -> str:
        """Where an outcome leads: what was begun is undone first; after the pivot the undo is passed by at run time."""
        mark = {Outcome.HELD: "MarkHeld", Outcome.FAILED: "MarkFailed", Outcome.RETRYABLE: "MarkRetryable"}[outcome]
        return mark if outcome is Outcome.HELD else self.first_undo(outcome, up_to=index) or mark


def retries(handler: Handler, own: tuple[Retry, ...]) -> list[State]:
    """A task's Retry: first what must not be retried, then the policies, then Lambda's own errors, then everything."""
    taken = zip(own, taken_by(handler, own), strict=True)
    return [
        *never(_names(never_retried(handler, own))),
        *(retrier(retry, _names(errors)) for retry, errors in taken if errors),
        service_retrier(LAMBDA_RETRY),
        service_retrier(ANY_RETRY),
    ]


def _control_retries() -> list[State]:
    return [*never([CONDITION_FAILED]), service_retrier(CONTROL_RETRY)]


def unfinished() -> list[State]:
    """A Catch for what cannot even be written down: the lease ends, and recovery looks."""
    return [catcher([name], "Unfinished") for name in (DATA_LIMIT, ALL)]


def _names(errors: Sequence[ErrorClass]) -> list[str]:
    return [error.__name__ for error in errors]


def state_names(step: Step) -> tuple[str, ...]:
    """Every state that a step brings along."""
    names = [step.name, is_done_name(step)]
    if step.wait:
        names.append(wait_name(step))
    if step.compensation:
        names += [undo_name(step), calls_name(step), compensation_name(step.compensation), undone_name(step)]
        names.append(f"After{undone_name(step)}")
    return tuple(names)


def is_done_name(step: Step) -> str:
    """The choice after a step's task."""
    return f"Is{step.name}Done"


def wait_name(step: Step) -> str:
    """The pause that a step may ask for."""
    return f"Wait{step.name}"


def undo_name(step: Step) -> str:
    """The write that begins a step's undo."""
    return f"Undo{step.name}"


def calls_name(step: Step) -> str:
    """The choice whether there is anything to call."""
    return f"Calls{undo_name(step)}"


def undone_name(step: Step) -> str:
    """The write that ends a step's undo."""
    return f"{step.name}Undone"


def compensation_name(undo: Compensation) -> str:
    """A compensation's task: RestoreIdentity for handlers.steps.restore_identity.handler."""
    module = path_of(undo.handler).split(".")[-2]
    return "".join(word.capitalize() for word in module.split("_"))
