"""The dead-letter queues: what could not be delivered, putting it through again, and discarding what never will be."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from handlers import redrive as dead_letters
from handlers.core import aws
from handlers.redrive import Letter, RedriveReport, StillFails, redrive_queue
from ops.calls import FunctionFailed, invoke
from ops.output import Exit, OpsError
from ops.stack import Stack
from statemachine import frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """One dead-letter queue. The counts are approximate, as SQS says."""

    name: str
    """Whose failures it keeps."""
    url: str
    messages: int
    """Waiting to be redriven."""
    in_flight: int
    """Received and not yet deleted: a redrive is at work, or was cut off."""


def queues(stack: Stack) -> list[Queue]:
    """All dead-letter queues of the stack, by name.

    Raises:
        AwsFailure: one cannot be read.
    """
    return [_look(name, url) for name, url in sorted(stack.queues.items())]


def redrive(stack: Stack, name: str, *, rate: int, limit: int, dry_run: bool) -> RedriveReport:
    """Put a queue's messages through dispatch and recover again; what fails again stays in the queue.

    Args:
        stack: the deployment.
        name: whose failures the queue keeps.
        rate: messages handled a second at most.
        limit: messages looked at, at most.
        dry_run: leave everything where it is.

    Raises:
        OpsError: no queue has this name.
        AwsFailure: the queue cannot be read or written.
    """
    return redrive_queue(
        aws.client("sqs"),
        url_of(stack, name),
        lambda request: _invoke(stack, frame.DISPATCH, {"deletion_request_id": request}),
        lambda event: _invoke(stack, frame.RECOVER, event),
        rate=rate,
        limit=limit,
        dry_run=dry_run,
    )


def letters(stack: Stack, name: str, *, limit: int) -> list[Letter]:
    """What waits in a queue, without the messages' text.

    Raises:
        OpsError: no queue has this name.
        AwsFailure: the queue cannot be read.
    """
    return dead_letters.letters(aws.client("sqs"), url_of(stack, name), limit=limit)


def discard(stack: Stack, name: str, message_id: str) -> None:
    """Delete one message without handling it.

    Raises:
        OpsError: no queue has this name, or the queue shows no such message.
        AwsFailure: the queue cannot be read or written.
    """
    if not dead_letters.discard(aws.client("sqs"), url_of(stack, name), message_id):
        raise OpsError(Exit.NOT_FOUND, f"{name} shows no message {message_id}; one in flight is shown again by itself")


def url_of(stack: Stack, name: str) -> str:
    """The URL of a queue.

    Raises:
        OpsError: there is none of this name.
    """
    if name not in stack.queues:
        names = ", ".join(sorted(stack.queues))
        raise OpsError(Exit.USAGE, f"no dead-letter queue is called {name}; there are {names}")
    return stack.queues[name]


def _invoke(stack: Stack, role: str, event: Mapping[str, Any]) -> None:
    try:
        invoke(stack.function(role), event)
    except FunctionFailed as failed:
        raise StillFails(failed.error) from None


def _look(name: str, url: str) -> Queue:
    waiting, in_flight = "ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"
    with aws.our_errors("GetQueueAttributes"):
        answer = aws.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=[waiting, in_flight])
    found = answer["Attributes"]
    return Queue(name=name, url=url, messages=int(found[waiting]), in_flight=int(found[in_flight]))
