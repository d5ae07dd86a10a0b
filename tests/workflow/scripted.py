"""A step that does what a test says, and steps to put around it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from handlers.core.checkpoint import Checkpoint
from handlers.core.errors import RetentionLocked
from handlers.core.frame import Answer, step_handler
from handlers.core.person import Person
from statemachine.deletion import workflow
from statemachine.step import Step, StepKind
from statemachine.workflow import Workflow

NAME = "AskVendor"
STORE = "vendor"

answers: list[Callable[[Checkpoint], Answer]] = []
"""What the next invocations do; the last one stays."""
problems: list[str] = []
"""What the preflight finds."""


@step_handler(RetentionLocked)
def handler(checkpoint: Checkpoint) -> Answer:
    answer = answers.pop(0) if len(answers) > 1 else answers[0]
    return answer(checkpoint)


def remaining(_person: Person) -> Mapping[str, int]:
    return {STORE: 0}


def preflight(_person: Person) -> Sequence[str]:
    return tuple(problems)


STEP = Step(
    name=NAME,
    handler=handler,
    verify=remaining,
    preflight=preflight,
    kind=StepKind.RETRIABLE,
    timeout=timedelta(minutes=1),
    turns=3,
    patience=timedelta(days=14),
)


def plan() -> Workflow:
    """The list, and the scripted step as its last."""
    return replace(workflow(identity=True), steps=(*workflow(identity=True).steps, STEP), timeout=timedelta(days=20))
