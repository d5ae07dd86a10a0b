"""Dead-letter queues: what could not be delivered waits here, for an alarm and for redrive."""

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import pulumi
import pulumi_aws as aws

from infra.naming import QUEUE
from infra.site import Site

RETENTION: Final = timedelta(days=14)
"""The longest that SQS keeps a message: time to mend the cause before redrive (its default is 4 days)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterQueueArgs:
    """Whose failures it keeps."""

    site: Site
    """Account, Region, names and rails."""
    role: str
    """The part of its name that says whose queue it is; `-dlq` is appended."""
    rule_arn: str | None = None
    """The EventBridge rule that sends to it: EventBridge asks the queue's policy, as a rule has no role for it."""


class DeadLetterQueue(pulumi.ComponentResource):
    """A standard queue (a dead-letter queue of Lambda or EventBridge is never FIFO) that takes TLS only.

    Who may send is in the sender's role. Replacing it loses the messages in it: redrive first.
    """

    arn: str
    """The queue's ARN, known before the queue exists."""
    url: pulumi.Output[str]
    """The queue's URL, for redrive."""
    queue: aws.sqs.Queue
    """What must exist before anything names the ARN."""

    def __init__(self, name: str, args: DeadLetterQueueArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("account-deletion:queues:DeadLetterQueue", name, None, opts)
        site = args.site
        physical = site.name(QUEUE, f"{args.role}-dlq")
        key = site.platform.kms_key_arn
        self.arn = queue_arn(site, args.role)
        self.queue = aws.sqs.Queue(
            f"{name}-queue",
            name=physical,
            message_retention_seconds=int(RETENTION.total_seconds()),
            kms_master_key_id=key,
            sqs_managed_sse_enabled=True if key is None else None,
            tags=site.tags,
            opts=pulumi.ResourceOptions(parent=self),
        )
        aws.sqs.QueuePolicy(
            f"{name}-policy",
            queue_url=self.queue.url,
            policy=json.dumps(_policy(self.arn, args.rule_arn), sort_keys=True),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.url = self.queue.url
        self.register_outputs({"arn": self.arn, "url": self.url})


def queue_arn(site: Site, role: str) -> str:
    """The ARN of a role's dead-letter queue."""
    return site.arn("sqs", site.name(QUEUE, f"{role}-dlq"))


def _policy(arn: str, rule_arn: str | None) -> dict[str, object]:
    statements = [_tls_only(arn)]
    if rule_arn is not None:
        # https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rule-dlq.html
        statements.append(
            {
                "Sid": "AllowTheRule",
                "Effect": "Allow",
                "Principal": {"Service": "events.amazonaws.com"},
                "Action": "sqs:SendMessage",
                "Resource": arn,
                "Condition": {"ArnEquals": {"aws:SourceArn": rule_arn}},
            }
        )
    return {"Version": "2012-10-17", "Statement": statements}


def _tls_only(arn: str) -> dict[str, object]:
    return {
        "Sid": "DenyWithoutTls",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "sqs:*",
        "Resource": arn,
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
