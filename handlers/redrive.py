"""Puts what was undeliverable through dispatch and recover again, from a dead-letter queue, at a limited rate.

What stays can be looked at, and discarded by its id once somebody has decided so. It runs in the operator's process.
Four bodies are known, each from the service that wrote it:

- a function's own queue: the bare event, with ErrorCode, ErrorMessage and RequestID as attributes
  (https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-retain-records.html#invocation-dlq);
- a function's destination: an envelope with the event under requestPayload (same page, #invocation-async-destinations);
- the queue of a rule: the event itself, with RULE_ARN and ERROR_CODE as attributes
  (https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rule-dlq.html);
- the scheduler's: what the target was to get, with SCHEDULE_ARN, whose last part is the request's id
  (https://docs.aws.amazon.com/scheduler/latest/UserGuide/configuring-schedule-dlq.html).

Safe to repeat because: dispatch and recover are; a message is deleted only after it was handled, and for a request that
is over both do nothing.
Leaves open: what cannot be read, or fails again, stays in the queue and is reported. Its text is shown nowhere, as
anybody who may invoke a function may have written a name into it.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from handlers.core import aws
from handlers.core.errors import DeletionError, StoreRefused
from handlers.core.events import is_request_id
from handlers.core.pace import Pace

RECEIVED_AT_ONCE = 10
"""The most that one ReceiveMessage returns."""
INVISIBLE = timedelta(minutes=15)
"""For how long a received message is hidden from others: longer than ten of them take at one a second, with retries."""
_NOT_READABLE = "not readable: no JSON object"
_UNKNOWN = "not readable: neither an event of ours nor of the services that we know"


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A dispatch that did not come about."""

    deletion_request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusEvent:
    """The state machine said that an execution ended, and recover did not hear it."""

    event: Mapping[str, Any]
    """As EventBridge sent it."""


@dataclass(frozen=True, slots=True)
class SweepRun:
    """A run of the sweeper that did not come about: the next one made up for it, a minute later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unparsable:
    """A message that is none of these."""

    reason: str
    """What is wrong with its shape; nothing of its content."""


Parsed = Due | StatusEvent | SweepRun | Unparsable


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A message of a dead-letter queue, without its text."""

    message_id: str
    """By which it is discarded."""
    sent_at: int
    """Epoch seconds."""
    parsed: Parsed
    """What it is about."""
    error_code: str
    """What the service that gave up says of it, e.g. THROTTLING, or the HTTP status of a function's error; empty where
    it says nothing."""

    @property
    def deletion_request_id(self) -> str | None:
        """The request that it is about; None if it names none of ours."""
        if isinstance(self.parsed, Due):
            return self.parsed.deletion_request_id
        if not isinstance(self.parsed, StatusEvent):
            return None
        # An execution is called <deletion_request_id>-<attempt>.
        named = str(self.parsed.event["detail"].get("name", "")).rpartition("-")[0]
        return named if is_request_id(named) else None


class StillFails(Exception):  # noqa: N818 (named like the errors of the handlers)
    """What a message asks for failed again: raised by the caller's dispatch and recover, with a word on why.

    The word is shown to the operator, so it holds no personal data: a class name.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveReport:
    """What became of the messages."""

    handled: int
    """Handled and deleted; in a dry run: what would be."""
    left: Mapping[str, int] = field(default_factory=dict)
    """Why messages are still in the queue -> how many."""


def parse(body: str, attributes: Mapping[str, str]) -> Parsed:
    """What a message of any of our dead-letter queues is about.

    Args:
        body: the message's body.
        attributes: the texts of its message attributes; the scheduler's message is known by them.
    """
    scheduled = attributes.get("SCHEDULE_ARN", "").rpartition("/")[2]
    if is_request_id(scheduled):
        return Due(deletion_request_id=scheduled)
    try:
        event = json.loads(body)
    except ValueError:
        return Unparsable(reason=_NOT_READABLE)
    return (
        _of_event(event.get("requestPayload", event)) if isinstance(event, dict) else Unparsable(reason=_NOT_READABLE)
    )


def _of_event(event: object) -> Parsed:
    if not isinstance(event, dict):
        return Unparsable(reason=_NOT_READABLE)
    if is_request_id(event.get("deletion_request_id")):
        return Due(deletion_request_id=event["deletion_request_id"])
    if event.get("source") == "aws.states" and isinstance(event.get("detail"), dict):
        return StatusEvent(event=event)
    # What the scheduler sends to a target without an Input of its own; only the sweeper has none.
    return SweepRun() if event.get("source") == "aws.scheduler" else Unparsable(reason=_UNKNOWN)


def letters(sqs: Any, queue_url: str, *, limit: int) -> list[Letter]:
    """What a dead-letter queue holds; everything stays in it.

    Args:
        sqs: a client.
        queue_url: the queue.
        limit: messages looked at, at most.

    Raises:
        AwsFailure: the queue could not be read.
    """
    hidden = set[str]()
    try:
        return [_letter(message) for message in _messages(sqs, queue_url, limit, hidden)]
    finally:
        _show(sqs, queue_url, hidden)


def discard(sqs: Any, queue_url: str, message_id: str) -> bool:
    """Delete one message without handling it; whether the queue showed it.

    No request is lost by it: the sweeper finds each by its time or its lease.

    Raises:
        AwsFailure: the queue could not be read or written.
    """
    hidden = set[str]()
    try:
        for message in _messages(sqs, queue_url, None, hidden):
            if message["MessageId"] == message_id:
                _delete(sqs, queue_url, message["ReceiptHandle"])
                hidden.remove(message["ReceiptHandle"])
                return True
        return False
    finally:
        _show(sqs, queue_url, hidden)


def redrive_queue(
    sqs: Any,
    queue_url: str,
    dispatch: Callable[[str], object],
    recover: Callable[[Mapping[str, Any]], object],
    *,
    rate: int,
    limit: int,
    dry_run: bool = False,
) -> RedriveReport:
    """Handle what a dead-letter queue holds, each message once.

    Args:
        sqs: a client.
        queue_url: the queue.
        dispatch: starts the request of this id if it is due; raises a DeletionError or StillFails if it cannot.
        recover: takes a request from the execution of this status event; raises the same.
        rate: messages handled a second at most.
        limit: messages looked at, at most.
        dry_run: say what would be handled, and leave everything where it is.

    Raises:
        AwsFailure: the queue could not be read or written; a message that was handled and could not be deleted is
            handled again next time, which does nothing.
    """
    pace = Pace(rate)
    handled, left, hidden = 0, Counter[str](), set[str]()
    try:
        for message in _messages(sqs, queue_url, limit, hidden):
            why = _handle(message, dispatch, recover, pace, dry_run=dry_run)
            if why is None and not dry_run:
                _delete(sqs, queue_url, message["ReceiptHandle"])
                hidden.remove(message["ReceiptHandle"])
            handled += why is None
            left.update([why] if why else [])
    finally:
        # Not before: what is visible at once would be received again in this run.
        _show(sqs, queue_url, hidden)
    return RedriveReport(handled=handled, left=dict(left))


def _delete(sqs: Any, queue_url: str, receipt: str) -> None:
    with aws.our_errors("DeleteMessage"):
        sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=receipt)


def _show(sqs: Any, queue_url: str, receipts: set[str]) -> None:
    for receipt in receipts:
        try:
            with aws.our_errors("ChangeMessageVisibility"):
                sqs.change_message_visibility(QueueUrl=queue_url, ReceiptHandle=receipt, VisibilityTimeout=0)
        except StoreRefused:
            # MessageNotInflight: in a long run its time was over before, so others see it already.
            continue


def _messages(sqs: Any, queue_url: str, limit: int | None, hidden: set[str]) -> Iterator[Mapping[str, Any]]:
    """Each message once, until the queue shows none or the limit is reached; notes what is hidden from others by it."""
    seen: set[str] = set()
    while limit is None or len(seen) < limit:
        with aws.our_errors("ReceiveMessage"):
            answer = sqs.receive_message(
                QueueUrl=queue_url,
                MaxNumberOfMessages=min(RECEIVED_AT_ONCE, limit - len(seen)) if limit else RECEIVED_AT_ONCE,
                VisibilityTimeout=int(INVISIBLE.total_seconds()),
                # Long polling asks all servers; a short poll may miss the few messages of a small queue (https://
                # docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-short-and-long-polling.html).
                WaitTimeSeconds=1,
                MessageAttributeNames=["All"],
                MessageSystemAttributeNames=["SentTimestamp"],
            )
        received = answer.get("Messages", ())
        hidden.update(message["ReceiptHandle"] for message in received)
        fresh = [message for message in received if message["MessageId"] not in seen]
        if not fresh:
            return
        seen.update(message["MessageId"] for message in fresh)
        yield from fresh


def _handle(
    message: Mapping[str, Any],
    dispatch: Callable[[str], object],
    recover: Callable[[Mapping[str, Any]], object],
    pace: Pace,
    *,
    dry_run: bool,
) -> str | None:
    """Handle one message; why it stays, or None if it is done with."""
    parsed = parse(message["Body"], _attributes(message))
    if isinstance(parsed, Unparsable):
        return parsed.reason
    if dry_run or isinstance(parsed, SweepRun):
        return None
    pace.wait()
    try:
        if isinstance(parsed, Due):
            dispatch(parsed.deletion_request_id)
        else:
            recover(parsed.event)
    except DeletionError as error:
        return f"failed again: {type(error).__name__}"
    except StillFails as failed:
        return f"failed again: {failed}"
    return None


def _letter(message: Mapping[str, Any]) -> Letter:
    attributes = _attributes(message)
    return Letter(
        message_id=message["MessageId"],
        sent_at=int(message["Attributes"]["SentTimestamp"]) // 1000,
        parsed=parse(message["Body"], attributes),
        error_code=attributes.get("ERROR_CODE") or attributes.get("ErrorCode", ""),
    )


def _attributes(message: Mapping[str, Any]) -> Mapping[str, str]:
    """The texts of its message attributes."""
    return {name: value.get("StringValue", "") for name, value in message.get("MessageAttributes", {}).items()}
