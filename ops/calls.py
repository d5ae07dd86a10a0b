"""Asks deployed functions. Every change of a request goes this way: there is no second protocol."""

import json
from collections.abc import Mapping
from typing import Any

from handlers.core import aws, errors
from ops.output import Exit, OpsError
from ops.stack import function_name

ANSWER_SECONDS = 70
"""How long a function of the frame may take: its timeout is a minute."""

_EXITS = {
    errors.InvalidEvent: Exit.REFUSED,
    errors.NotPossible: Exit.REFUSED,
    errors.RequestUnknown: Exit.NOT_FOUND,
}
"""What an error of a function, or a subclass of it, means for the operator; any other is AWS' or the deployment's."""


class FunctionFailed(OpsError):  # noqa: N818 (named like the errors of the handlers)
    """A deployed function raised."""

    def __init__(self, function: str, error: str, message: str) -> None:
        self.error = error
        """The class of the error, e.g. NotPossible."""
        # Our own classes write messages without personal data; of any other only the name is safe.
        kind = _declared().get(error)
        known = message if kind else "its log has one line about it"
        code = next((code for family, code in _EXITS.items() if kind and issubclass(kind, family)), Exit.AWS)
        super().__init__(code, f"{function_name(function)}: {error}: {known}")


def caller(*, read_seconds: float = ANSWER_SECONDS, tries: int = aws.TRIES) -> Any:
    """The client that `invoke` calls with; ask for it before threads do, as boto3 makes clients in one thread only.

    https://docs.aws.amazon.com/boto3/latest/guide/clients.html#multithreading-or-multiprocessing-with-clients
    """
    return aws.client("lambda", read_seconds=read_seconds, tries=tries)


def invoke(
    function_arn: str, event: Mapping[str, object], *, read_seconds: float = ANSWER_SECONDS, tries: int = aws.TRIES
) -> Mapping[str, Any]:
    """A function's answer.

    Args:
        function_arn: ARN of the alias.
        event: JSON; goes nowhere else.
        read_seconds: how long the answer may take.
        tries: calls in all; 1 where a function must not run beside its own repetition.

    Raises:
        FunctionFailed: the function raised.
        AwsFailure: the call itself failed.
    """
    client = caller(read_seconds=read_seconds, tries=tries)
    with aws.our_errors("Invoke"):
        answer = client.invoke(FunctionName=function_arn, Payload=json.dumps(event, sort_keys=True).encode())
        payload: Mapping[str, Any] = json.loads(answer["Payload"].read())
    if "FunctionError" in answer:
        raise FunctionFailed(function_arn, str(payload.get("errorType", "Unknown")), str(payload.get("errorMessage")))
    return payload


def _declared() -> Mapping[str, type[errors.DeletionError]]:
    return {error.__name__: error for error in errors.below(errors.DeletionError)}
