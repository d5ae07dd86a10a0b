"""Asks the functions of the steps about their stores: each answers with its own step's rights, and no more."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from handlers.core.errors import DeletionError, OwnershipLost, Permanent, StoreRefused, StoreUnavailable, below
from handlers.core.events import TaskInput
from handlers.core.invoking import FunctionRaised, ask_steps


def ask(question: str, functions: Mapping[str, str], task: TaskInput, *, longest: timedelta) -> dict[str, Any]:
    """What each step's function answers, all asked at once.

    Args:
        question: the flag of TaskInput that asks it: "verify" or "preflight".
        functions: step -> ARN of its function.
        task: who asks, for which request.
        longest: how long a function may take.

    Returns:
        Step -> the function's answer.

    Raises:
        AwsFailure: a function could not be called, or failed: StoreRefused for what will fail again.
        OwnershipLost: the request has ended meanwhile.
    """
    outcomes = ask_steps(
        question, functions, deletion_request_id=task.deletion_request_id, owner=task.owner, longest=longest
    )
    answers = {}
    for step, outcome in outcomes.items():
        try:
            answers[step] = outcome.result()
        except FunctionRaised as raised:
            raise _failure(task, f"{question} {step}", raised.error) from None
    return answers


def _failure(task: TaskInput, operation: str, error_type: str) -> DeletionError:
    """What a step's failed answer means for whoever asked, by its error class alone."""
    if error_type == OwnershipLost.__name__:
        return OwnershipLost(task.deletion_request_id, task.step)
    if error_type in {error.__name__ for error in below(Permanent)}:
        return StoreRefused(operation, error_type)
    return StoreUnavailable(operation, error_type)
