"""A company's rails, as one object: what a platform team decides once for everything that this program makes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import pulumi

from infra.errors import refuse
from infra.naming import name_part_problems

Text = str | pulumi.Output[str]
"""What may come from another stack. Not pulumi.Input: an Awaitable could be read only once."""
_DAYS: Final = "1 3 5 7 14 30 60 90 120 150 180 365 400 545 731 1096 1827 2192 2557 2922 3288 3653"
RETENTION_DAYS: Final = tuple(map(int, _DAYS.split()))
"""https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html"""
_ARN: Final = re.compile(r"arn:aws[a-z-]*:[a-z0-9-]+:[a-z0-9-]*:[0-9]*:.+")
_ROLE_PATH: Final = re.compile(r"/([!-.0-~]+/)*")
_MAX_ROLE_PATH: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Where functions that must reach something private run (`FunctionOptions.network`)."""

    subnet_ids: tuple[Text, ...]
    """Private subnets, at least one; two Availability Zones for availability. They need a way to the AWS services that
    the handlers call (NAT or VPC endpoints)."""
    security_group_ids: tuple[Text, ...]
    """Security groups of the functions, at least one."""

    def __post_init__(self) -> None:
        problems = []
        if not self.subnet_ids:
            problems.append("network.subnet_ids: name at least one subnet")
        if not self.security_group_ids:
            problems.append("network.security_group_ids: name at least one security group")
        refuse(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """The rails. Each reaches every resource that has such a property; a test over all resources holds it."""

    name_prefix: str
    """First part of every physical name. Changing it replaces everything: the tables are protected against it."""
    permissions_boundary: Text | None = None
    """ARN of the policy that bounds every role; None sets no boundary."""
    role_path: str = "/"
    """IAM path of every role, with a slash at both ends. Changing it replaces the roles."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags of every resource that can have some, beside our own `application` and `environment`; these win."""
    kms_key_arn: Text | None = None
    """ARN of the key that encrypts table, queues, logs and environment variables; its key policy must let the
    services use it (events.amazonaws.com too, for the queue of the rule). A request's own schedule, which holds nothing
    but the request's id, stays under AWS's key. None uses the keys that AWS owns."""
    log_retention: timedelta = timedelta(days=90)
    """How long every log group keeps its lines: whole days, one of the values that CloudWatch Logs takes."""
    network: Network | None = None
    """Where functions with `network=True` run; None refuses such functions."""
    page_topics: tuple[Text, ...] = ()
    """ARNs of the SNS topics that wake somebody up: what a person must look at now. A topic encrypted with
    alias/aws/sns never gets an alarm; one with a key of yours does, if its key policy lets
    cloudwatch.amazonaws.com use it."""
    ticket_topics: tuple[Text, ...] = ()
    """ARNs of the SNS topics for what can wait until somebody is at work."""

    def __post_init__(self) -> None:
        problems = [problem for problem in name_part_problems(self.name_prefix, "env") if "prefix" in problem]
        days = self.log_retention / timedelta(days=1)
        if days not in RETENTION_DAYS:
            allowed = ", ".join(map(str, RETENTION_DAYS))
            problems.append(f"log_retention of {days:g} days: CloudWatch Logs takes {allowed}")
        if not _ROLE_PATH.fullmatch(self.role_path) or len(self.role_path) > _MAX_ROLE_PATH:
            problems.append(f"role_path {self.role_path!r}: begin and end it with a slash, e.g. /service/")
        problems += _arn_problems("permissions_boundary", [self.permissions_boundary])
        problems += _arn_problems("kms_key_arn", [self.kms_key_arn])
        problems += _arn_problems("page_topics", self.page_topics)
        problems += _arn_problems("ticket_topics", self.ticket_topics)
        problems += _tag_problems(self.tags)
        refuse(problems)


def _arn_problems(name: str, values: Sequence[Text | None]) -> list[str]:
    """Plain values that are no ARNs; what comes as an Output is AWS' to refuse."""
    plain = [value for value in values if isinstance(value, str)]
    return [f"{name} {value!r}: not an ARN" for value in plain if not _ARN.fullmatch(value)]


def _tag_problems(tags: Mapping[str, str]) -> list[str]:
    return [
        f"tags: {key!r} cannot be a tag (keys of 1 to 128 characters, values up to 256, not beginning with aws:)"
        for key, value in tags.items()
        if not 1 <= len(key) <= 128 or len(value) > 256 or key.lower().startswith("aws:")
    ]
