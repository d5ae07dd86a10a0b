"""Checks the configuration of every step's stores before anything is touched.

Done when: each step's own function, asked to check only, names no problem.
Safe to repeat because: it reads only.
Leaves open: what is configured otherwise after the check, while the deletion runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from handlers.core import settings, telemetry
from handlers.core.checkpoint import LambdaContext
from handlers.core.errors import OwnershipLost, StoreUnfit
from handlers.core.events import TaskInput
from handlers.core.frame import AWS_ERRORS, lambda_handler
from handlers.steps._functions import ask


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSettings:
    """What the check needs."""

    checked_functions: Mapping[str, str]
    """Step with a preflight -> ARN of its function."""
    longest_check: timedelta
    """How long a step's check may take."""


@lambda_handler(*AWS_ERRORS, OwnershipLost, StoreUnfit)
def handler(event: Any, _context: LambdaContext) -> Mapping[str, object]:
    """Pass if every store is as it must be.

    Raises:
        StoreUnfit: names every store that is not, and the mend.
    """
    task = TaskInput.of(event)
    own = settings.load(CheckSettings)
    answers = ask("preflight", own.checked_functions, task, longest=own.longest_check)
    problems = tuple(f"{step}: {problem}" for step, answer in answers.items() for problem in answer["problems"])
    telemetry.log("stores checked", deletion_request_id=task.deletion_request_id, outcome=problems or "fit")
    if problems:
        raise StoreUnfit(problems)
    return {"done": True}
