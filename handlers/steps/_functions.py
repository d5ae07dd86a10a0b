"""Asks the functions of the steps about their stores: each answers with its own step's rights, and no more."""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from handlers.core import aws
from handlers.core.errors import DeletionError, OwnershipLost, Permanent, StoreRefused, StoreUnavailable, below
from handlers.core.events import TaskInput

ANSWER = timedelta(seconds=10)
"""How much longer than a step's own work the call of its function may take."""


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
    # One try: a question that was cut off is asked again by the state machine, not while it may still be worked on.
    client = aws.client("lambda", read_seconds=(longest + ANSWER).total_seconds(), tries=1)
    with ThreadPoolExecutor(max_workers=max(1, len(functions))) as pool:
        answers = pool.map(lambda step: _ask_one(client, question, functions[step], step, task), functions)
        return dict(zip(functions, answers, strict=True))


def _ask_one(client: Any, question: str, function: str, step: str, task: TaskInput) -> Any:
    event = {"deletion_request_id": task.deletion_request_id, "owner": task.owner, "step": step, question: True}
    with aws.our_errors("Invoke"):
        answer = client.invoke(FunctionName=function, Payload=json.dumps(event, sort_keys=True).encode())
        payload = json.loads(answer["Payload"].read())
    if "FunctionError" in answer:
        raise _failure(task, f"{question} {step}", str(payload.get("errorType", "Unknown")))
    return payload


def _failure(task: TaskInput, operation: str, error_type: str) -> DeletionError:
    """What a step's failed answer means for whoever asked, by its error class alone."""
    if error_type == OwnershipLost.__name__:
        return OwnershipLost(task.deletion_request_id, task.step)
    if error_type in {error.__name__ for error in below(Permanent)}:
        return StoreRefused(operation, error_type)
    return StoreUnavailable(operation, error_type)
