"""Asks other Lambda functions and tells their answer from their error."""

import json
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from handlers.core import aws

ANSWER = timedelta(seconds=10)
"""How much longer than a step's own work the call of its function may take."""


class FunctionRaised(Exception):  # noqa: N818 (it is an answer, not a mistake)
    """The function ran, and raised (https://docs.aws.amazon.com/lambda/latest/dg/python-exceptions.html)."""

    def __init__(self, error: str, message: str) -> None:
        self.error = error
        """The class of the error, or what Lambda calls it, e.g. Runtime.ExitError; "Unknown" if it has no name."""
        self.message = message
        """Its own words. Only those of our classes are known to hold no personal data."""
        super().__init__(error)


def caller(longest: timedelta, *, tries: int) -> Any:
    """The client that `invoke` calls with; ask for it before threads begin, or each of them makes its own.

    Args:
        longest: how long an answer may take.
        tries: calls in all; 1 where a function must not run beside its own repetition.
    """
    return aws.client("lambda", read_seconds=longest.total_seconds(), tries=tries)


def invoke(client: Any, function_arn: str, event: Mapping[str, object]) -> Any:
    """A function's answer.

    Args:
        client: what `caller` made.
        function_arn: ARN of the alias.
        event: JSON; goes nowhere else.

    Raises:
        FunctionRaised: the function raised.
        AwsFailure: the call itself failed.
    """
    with aws.our_errors("Invoke"):
        answer = client.invoke(FunctionName=function_arn, Payload=json.dumps(event, sort_keys=True).encode())
        payload = json.loads(answer["Payload"].read())
    if "FunctionError" in answer:
        raise FunctionRaised(str(payload.get("errorType", "Unknown")), str(payload.get("errorMessage")))
    return payload


def ask_steps(
    question: str, functions: Mapping[str, str], *, deletion_request_id: str, owner: str, longest: timedelta
) -> Mapping[str, Future[Any]]:
    """What each step's function answers, all asked at once.

    Args:
        question: the flag of TaskInput that asks it: "verify" or "preflight".
        functions: step -> ARN of its function.
        deletion_request_id: the request that is asked about.
        owner: who asks.
        longest: how long a function may take.

    Returns:
        Step -> its outcome, which has come: `result()` is the function's answer, or raises as `invoke` does.
    """
    asked = {"deletion_request_id": deletion_request_id, "owner": owner, question: True}
    # One try: a question that was cut off may still be worked on.
    client = caller(longest + ANSWER, tries=1)
    with ThreadPoolExecutor(max_workers=max(1, len(functions))) as pool:
        return {
            step: pool.submit(invoke, client, function, {**asked, "step": step}) for step, function in functions.items()
        }
