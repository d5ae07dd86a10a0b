"""Logs and metrics, and the one place where personal data is kept out of both.

A line carries what the code names in FIELDS and nothing else; whatever came from a user, an event or a foreign
exception has no field to be in.
"""

import traceback
from collections.abc import Mapping
from functools import cache
from pathlib import PurePath

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import MetricUnit, single_metric

SECONDS = MetricUnit.Seconds
NAMESPACE = "AccountDeletion"
FIELDS = frozenset(
    {
        "aws_code",
        "attempt",
        "deleted",
        "deletion_request_id",
        "error",
        "invocation",
        "outcome",
        "place",
        "remaining",
        "step",
        "wait",
    }
)
"""The only keys of a log line besides Powertools' own; none of them can hold personal data."""


class LogFieldError(ValueError):
    """A log line was to carry a field that is not in FIELDS."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__(f"{', '.join(sorted(names))}: not a log field; log one of {', '.join(sorted(FIELDS))}")


@cache
def _logger() -> Logger:
    return Logger(service="account-deletion")


def log(message: str, **values: object) -> None:
    """One structured line.

    Raises:
        LogFieldError: a field that is not in FIELDS.
    """
    refused = frozenset(values) - FIELDS
    if refused:
        raise LogFieldError(refused)
    _logger().info(message, extra=dict(values))


def count(metric: str, value: float = 1, *, unit: MetricUnit = MetricUnit.Count, **dimensions: str) -> None:
    """One metric in embedded metric format; few dimensions, never an id (each combination is billed)."""
    with single_metric(name=metric, unit=unit, value=value, namespace=NAMESPACE) as line:
        for name, dimension in dimensions.items():
            line.add_dimension(name=name, value=dimension)


def place_of(error: BaseException) -> str:
    """Where an exception was raised, as file:line function; never its message."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return "unknown place"
    last = frames[-1]
    return f"{PurePath(last.filename).name}:{last.lineno} {last.name}"


def totals(deleted: Mapping[str, int]) -> dict[str, int]:
    """Counts per store for a log line, without the stores that had nothing."""
    return {store: number for store, number in sorted(deleted.items()) if number}
