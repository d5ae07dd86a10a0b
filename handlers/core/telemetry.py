"""Logs and metrics, and the one place where personal data is kept out of both.

A line carries what the code names in FIELDS and nothing else; whatever came from a user, an event or a foreign
exception has no field to be in.
"""

import traceback
from collections.abc import Mapping
from functools import cache
from pathlib import PurePath
from threading import Lock

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics

from handlers.core.metrics import Metric

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


class MetricDimensionError(ValueError):
    """A value was to be sent without a dimension of its metric, or with another one."""

    def __init__(self, metric: Metric, given: frozenset[str]) -> None:
        wanted, got = ", ".join(metric.dimensions) or "none", ", ".join(sorted(given)) or "none"
        super().__init__(f"{metric.name}: its dimensions are {wanted}, not {got}; see handlers/core/metrics.py")


_one_line = Lock()
"""A metric is printed in two writes, the line and its end: whatever another thread writes in between, a metric or a
line of the log, would share its line, and nobody could parse that."""


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
    with _one_line:
        _logger().info(message, extra=dict(values))


def count(metric: Metric, value: float = 1, **dimensions: str) -> None:
    """One value of a metric, as one line in embedded metric format on standard output, which Lambda's log carries.

    The namespace is in POWERTOOLS_METRICS_NAMESPACE
    (https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html).

    Raises:
        MetricDimensionError: the dimensions are not those of the metric.
    """
    if dimensions.keys() != set(metric.dimensions):
        raise MetricDimensionError(metric, frozenset(dimensions))
    # An empty service: POWERTOOLS_SERVICE_NAME, set for the log, would become a dimension that no alarm looks at.
    line = EphemeralMetrics(service="")
    line.add_metric(name=metric.name, unit=metric.unit, value=value)
    for name, of_dimension in dimensions.items():
        line.add_dimension(name=name, value=of_dimension)
    with _one_line:
        line.flush_metrics()


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
