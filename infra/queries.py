"""Saved queries of CloudWatch Logs Insights: the questions that follow an alarm, over the logs of all functions.

A line of the log has the fields of handlers.core.telemetry.FIELDS, and a line of a metric its name and its dimensions.
"""

from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_aws as aws

from handlers.core import metrics
from handlers.core.metrics import Metric
from infra.naming import FUNCTION_LOG_GROUP, QUERY
from infra.site import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One question."""

    role: str
    """Last part of its name."""
    text: str
    """In the language of Logs Insights
    (https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax.html)."""


def _value(metric: Metric) -> str:
    """Where a metric's line has its value: Powertools writes a list of one."""
    return f"`{metric.name}.0`"


QUERIES: Final = (
    Query(
        role="timeline-of-a-request",
        text="""fields @timestamp, @log, message, step, attempt, outcome, error, place, deleted, remaining
| filter deletion_request_id = "del_..."
| sort @timestamp asc
| limit 1000""",
    ),
    Query(
        role="failures-by-function-and-error",
        text="""filter message = "failed"
| stats count(*) as times, count_distinct(deletion_request_id) as requests by @log, error, place
| sort times desc""",
    ),
    Query(
        role="fenced-out-workers",
        text="""filter message = "failed" and error in ["OwnershipLost", "Superseded"]
| stats count(*) as times by bin(5m), @log, error
| sort times desc""",
    ),
    Query(
        role="slow-steps",
        text=f"""filter ispresent({_value(metrics.STEP_DURATION)})
| stats count(*) as finished, pct({_value(metrics.STEP_DURATION)}, 50) as p50, pct({_value(metrics.STEP_DURATION)}, 90)\
 as p90, max({_value(metrics.STEP_DURATION)}) as longest by {metrics.STEP}
| sort longest desc""",
    ),
    Query(
        role="requests-that-need-a-person",
        # A step that holds its request fails with the lock's name; an operator's hold and a request of a person who is
        # held have the state as their outcome.
        text="""filter message in ["dispatches exhausted", "not deferred", "not handled", "not scheduled", "request \
failed", "still running", "will miss erase_by"] or error = "RetentionLocked" or outcome = "HELD"
| stats count(*) as times, max(@timestamp) as seen by deletion_request_id, message, step, error, aws_code
| sort seen desc""",
    ),
    Query(
        role="what-was-deleted",
        text="""filter message = "step done"
| fields @timestamp, deletion_request_id, step, deleted
| sort @timestamp desc""",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueriesArgs:
    """Whose logs are asked."""

    site: Site
    """Account, Region, names and rails."""
    roles: tuple[str, ...]
    """The functions' roles; a query asks up to 50 log groups."""


class Queries(pulumi.ComponentResource):
    """The saved queries. They hold nothing and cost nothing until somebody runs one."""

    def __init__(self, name: str, args: QueriesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("account-deletion:queries:Queries", name, None, opts)
        groups = [args.site.name(FUNCTION_LOG_GROUP, role) for role in args.roles]
        for query in QUERIES:
            aws.cloudwatch.QueryDefinition(
                f"{name}-{query.role}",
                name=args.site.name(QUERY, query.role),
                query_string=query.text,
                log_group_names=groups,
                opts=pulumi.ResourceOptions(parent=self),
            )
        self.register_outputs({})
