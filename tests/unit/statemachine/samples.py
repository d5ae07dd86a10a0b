"""Small steps to break on purpose."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from handlers.core.checkpoint import Again, Checkpoint, Done
from handlers.core.errors import RetentionLocked
from handlers.core.frame import compensation, step_handler
from handlers.core.person import Person
from statemachine.step import Compensation, Step, StepKind


@step_handler()
def handler(checkpoint: Checkpoint) -> Done | Again:
    return Done()


@step_handler(RetentionLocked)
def locking(checkpoint: Checkpoint) -> Done | Again:
    return Done()


@compensation()
def undo(person: Person) -> None:
    return None


def remaining(person: Person) -> Mapping[str, int]:
    return {}


def preflight(person: Person) -> Sequence[str]:
    return ()


def step(name: str = "PurgeSearchIndex", **changes: Any) -> Step:
    """A correct pivot step with changes."""
    return replace(Step(name=name, handler=handler, verify=remaining, kind=StepKind.PIVOT), **changes)


def compensatable(name: str = "SuspendAccess", **changes: Any) -> Step:
    """A correct compensatable step with changes."""
    plain = Step(
        name=name,
        handler=handler,
        kind=StepKind.COMPENSATABLE,
        erases=False,
        timeout=timedelta(minutes=1),
        compensation=Compensation(handler=undo),
    )
    return replace(plain, **changes)
