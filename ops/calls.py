"""Asks deployed functions. Every change of a request goes this way: there is no second protocol."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from handlers.core import aws, errors, invoking
from handlers.core.invoking import FunctionRaised
from ops.output import Exit, OpsError
from ops.stack import function_name

LONGEST = timedelta(seconds=70)
"""How long a function of the frame may take: its timeout is a minute."""

_EXITS = {
    errors.InvalidEvent: Exit.REFUSED,
    errors.NotPossible: Exit.REFUSED,
    errors.RequestUnknown: Exit.NOT_FOUND,
}
"""What an error of a function, or a subclass of it, means for the operator; any other is AWS' or the deployment's."""


class FunctionFailed(OpsError):  # noqa: N818 (named like the errors of the handlers)
    """A deployed function raised, or would."""

    def __init__(self, function: str, error: str, message: str) -> None:
        self.error = error
        """The class of the error, e.g. NotPossible."""
        # Our own classes write messages without personal data; of any other only the name is safe.
        kind = _declared().get(error)
        known = message if kind else "its log has one line about it"
        code = next((code for family, code in _EXITS.items() if kind and issubclass(kind, family)), Exit.AWS)
        super().__init__(code, f"{function_name(function)}: {error}: {known}")


def caller() -> Any:
    """The client that `invoke` calls with; ask for it before threads begin."""
    return invoking.caller(LONGEST, tries=aws.TRIES)


def invoke(function_arn: str, event: Mapping[str, object]) -> Mapping[str, Any]:
    """The answer of a function of the frame.

    Args:
        function_arn: ARN of the alias.
        event: JSON; goes nowhere else.

    Raises:
        FunctionFailed: the function raised.
        AwsFailure: the call itself failed.
    """
    try:
        answer: Mapping[str, Any] = invoking.invoke(caller(), function_arn, event)
    except FunctionRaised as raised:
        raise FunctionFailed(function_arn, raised.error, raised.message) from None
    return answer


def _declared() -> Mapping[str, type[errors.DeletionError]]:
    return {error.__name__: error for error in errors.below(errors.DeletionError)}
