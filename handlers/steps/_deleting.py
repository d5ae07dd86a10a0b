"""Deletes a batch of entries by several calls in flight, as fast as the bucket takes them.

S3 takes some 3,500 deletes a second under a prefix, each key of a DeleteObjects call counts
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html), and it takes time to take more. So
how much is in flight adapts: half of it after a refusal, a little more after each call that went through.
"""

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field

from handlers.core import aws
from handlers.core.errors import AccessDenied, Retryable, StoreMissing, StoreUnavailable, Throttled
from handlers.core.patience import OutOfTime, pause
from handlers.steps._bucket import Bucket
from handlers.steps._files import PAGE, Entry, Kind

CALLS = 8
"""Calls in flight at most."""
_GROWTH = 100
"""By how many keys the window grows with each call that went through."""

_GONE = frozenset({"NoSuchKey", "NoSuchVersion"})
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot express, so DeleteObjects cannot carry it (https://www.w3.org/TR/xml/#charsets)."""

REFUSED = (Throttled, StoreUnavailable)
"""A call came too soon, or its outcome is unknown. All of S3's calls here are safe to repeat."""

HasTime = Callable[[], bool]
Prove = Callable[[], None]


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a call left."""

    refused: tuple[Entry, ...] = ()
    """Refused for the moment."""
    denied: tuple[Entry, ...] = ()
    """Locked, or a permission is missing."""


@dataclass(slots=True)
class Window:
    """How many keys may be in flight."""

    keys: int = CALLS * PAGE
    refusals: int = 0
    """Shrinkings in a row."""

    @property
    def calls(self) -> int:
        """In how many calls."""
        return max(1, self.keys // PAGE)

    def shrink(self, in_flight: int) -> None:
        """After a refusal: half of what was in flight."""
        self.keys = max(1, min(self.keys, in_flight) // 2)
        self.refusals += 1

    def grow(self) -> None:
        """After a call that went through."""
        self.keys = min(CALLS * PAGE, self.keys + _GROWTH)
        self.refusals = 0


@dataclass(slots=True)
class Deleting:
    """The deletes of one place."""

    bucket: Bucket
    pool: Executor
    """Runs CALLS calls at once."""
    has_time: HasTime
    window: Window = field(default_factory=Window)

    def delete(self, entries: Sequence[Entry], prove: Prove) -> tuple[Entry, ...]:
        """Delete by identity until none is left but those that S3 denies; returns these.

        Args:
            entries: what to delete.
            prove: called before each round of calls; raises if nothing more may be deleted.

        Raises:
            OutOfTime: some were not deleted; no call is in flight.
            AwsFailure: a call failed for good; others may be in flight until the pool ends. So may they be after what
                `prove` raises.
        """
        # What goes one by one comes last, so that the calls before are full.
        waiting = deque(sorted(entries, key=_goes_alone))
        flying: dict[Future[_Answer], int] = {}
        denied: list[Entry] = []
        while waiting or flying:
            if waiting:
                prove()
            self._send(waiting, flying)
            if not flying:
                raise OutOfTime
            in_flight = sum(flying.values())
            answers = [future.result() for future in _landed(flying)]
            denied += (entry for answer in answers for entry in answer.denied)
            self._adapt(in_flight, waiting, [entry for answer in answers for entry in answer.refused])
        return tuple(denied)

    def _send(self, waiting: deque[Entry], flying: dict[Future[_Answer], int]) -> None:
        while waiting and len(flying) < self.window.calls and self.has_time():
            chunk = _take(waiting, min(PAGE, self.window.keys))
            flying[self.pool.submit(_delete, self.bucket, chunk)] = len(chunk)

    def _adapt(self, in_flight: int, waiting: deque[Entry], refused: Sequence[Entry]) -> None:
        if not refused:
            self.window.grow()
            return
        waiting.extendleft(reversed(refused))
        self.window.shrink(in_flight)
        if self.has_time():
            pause(self.window.refusals)


def _landed(flying: dict[Future[_Answer], int]) -> list[Future[_Answer]]:
    done, _ = wait(flying, return_when=FIRST_COMPLETED)
    for future in done:
        del flying[future]
    return list(done)


def _take(waiting: deque[Entry], most: int) -> Sequence[Entry]:
    chunk = [waiting.popleft()]
    if _goes_alone(chunk[0]):
        return chunk
    while waiting and len(chunk) < most and not _goes_alone(waiting[0]):
        chunk.append(waiting.popleft())
    return chunk


def _goes_alone(entry: Entry) -> bool:
    return entry.kind is Kind.UPLOAD or bool(_NOT_IN_XML.search(entry.key))


def _delete(bucket: Bucket, chunk: Sequence[Entry]) -> _Answer:
    if chunk[0].kind is Kind.UPLOAD:
        return _abort(bucket, chunk[0])
    if _goes_alone(chunk[0]):
        return _delete_one(bucket, chunk[0])
    return _delete_together(bucket, chunk)


def _delete_together(bucket: Bucket, chunk: Sequence[Entry]) -> _Answer:
    objects = [{"Key": entry.key, "VersionId": entry.id} for entry in chunk]
    try:
        answer = bucket.call("delete_objects", Delete={"Objects": objects, "Quiet": True})
    except REFUSED:
        return _Answer(refused=tuple(chunk))
    codes = _codes(chunk, answer.get("Errors", ()))
    if codes is None:
        return _Answer(refused=tuple(chunk))
    for code in set(codes.values()) - {"AccessDenied"}:
        failure = aws.failure("DeleteObjects", code)
        if not isinstance(failure, Retryable):
            raise failure
    return _Answer(
        refused=tuple(entry for entry in chunk if codes.get(_identity(entry), "AccessDenied") != "AccessDenied"),
        denied=tuple(entry for entry in chunk if codes.get(_identity(entry)) == "AccessDenied"),
    )


def _codes(chunk: Sequence[Entry], errors: Sequence[Mapping[str, str]]) -> Mapping[tuple[str, str], str] | None:
    """Identity -> code of what a call did not delete; None if that cannot be told: then it goes again, in fewer keys.

    The answer is 200 whatever became of each key, and XML does not give every key back as it was (a carriage return).
    """
    found = {
        (error["Key"], error.get("VersionId", "")): error["Code"] for error in errors if error["Code"] not in _GONE
    }
    if len(chunk) == 1:
        return {_identity(chunk[0]): code for code in found.values()}
    return found if found.keys() <= {_identity(entry) for entry in chunk} else None


def _identity(entry: Entry) -> tuple[str, str]:
    return entry.key, entry.id


def _delete_one(bucket: Bucket, entry: Entry) -> _Answer:
    try:
        bucket.call("delete_object", Key=entry.key, VersionId=entry.id)
    except REFUSED:
        return _Answer(refused=(entry,))
    except AccessDenied:
        return _Answer(denied=(entry,))
    except StoreMissing as missing:
        if missing.code not in _GONE:
            raise
    return _Answer()


def _abort(bucket: Bucket, upload: Entry) -> _Answer:
    """Abort, then look whether parts are left: those that were in flight may outlive an abort
    (https://docs.aws.amazon.com/AmazonS3/latest/API/API_AbortMultipartUpload.html)."""
    for operation in ("abort_multipart_upload", "list_parts"):
        try:
            bucket.call(operation, Key=upload.key, UploadId=upload.id)
        except REFUSED:
            break
        except StoreMissing as missing:
            if missing.code != "NoSuchUpload":
                raise
            return _Answer()
    return _Answer(refused=(upload,))
