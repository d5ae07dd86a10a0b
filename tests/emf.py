"""Lines in embedded metric format, as CloudWatch reads them
(https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html)."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One value of one metric."""

    namespace: str
    name: str
    unit: str
    dimensions: Mapping[str, str]
    value: float


def sent(lines: Iterable[str]) -> list[Sent]:
    """Every value in the lines that are metrics, in order; other lines are passed by."""
    return [value for line in lines if '"_aws"' in line for value in _values(json.loads(line))]


def _values(line: Mapping[str, Any]) -> list[Sent]:
    found = []
    for directive in line["_aws"]["CloudWatchMetrics"]:
        (names,) = directive["Dimensions"]
        for metric in directive["Metrics"]:
            (value,) = line[metric["Name"]]
            found.append(
                Sent(
                    namespace=directive["Namespace"],
                    name=metric["Name"],
                    unit=metric["Unit"],
                    dimensions={name: str(line[name]) for name in names},
                    value=value,
                )
            )
    return found
