"""Deletes the user's files in the configured S3 buckets: every version, delete marker and unfinished upload.

Done when: a fresh listing of every store shows no version, no delete marker and no upload.
Safe to repeat because: only listed versions are deleted, by their version ids, after the fence was proved; a version
written later has another id. The batch's bounds are recorded before it goes, and the next listing tells what of it
went, so counts are exact over a crash (unless something was written to the same keys within the same second, or an
upload that had begun earlier was completed there).
Leaves open: in a bucket without versioning, or with suspended versioning, the id is `null`: a file written between
listing and delete goes too. Objects under retention wait as HELD, and so does what is listed after them. Replicas keep
what is deleted by version id (https://docs.aws.amazon.com/AmazonS3/latest/userguide/replication-what-is-isnot-
replicated.html): each destination needs to be a store of its own.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from handlers.core import aws, settings
from handlers.core.checkpoint import Again, Checkpoint, Done
from handlers.core.errors import (
    AccessDenied,
    AwsFailure,
    DeletionError,
    EffectPending,
    RetentionLocked,
    Retryable,
    StoreMissing,
    Throttled,
)
from handlers.core.frame import step_handler
from handlers.core.person import Person
from handlers.core.stores import FileStore
from handlers.steps._files import PAGE, Batch, Bounds, Entry, Kind, Place, Uploads, Versions, list_batch

TRIES = 6
"""Calls in a row for entries that a call refused for the moment."""

_GONE = frozenset({"NoSuchKey", "NoSuchVersion"})
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot express, so DeleteObjects cannot carry it (https://www.w3.org/TR/xml/#charsets)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """What the step needs besides the frame's settings."""

    file_stores: tuple[FileStore, ...]
    """The buckets that hold the user's files."""


@step_handler(RetentionLocked, EffectPending)
def handler(checkpoint: Checkpoint) -> Done | Again:
    """Empty one place after the other; the one with the recorded batch first."""
    recorded = checkpoint.batch.get("place")
    for place in sorted(_places(checkpoint.person), key=lambda place: place.name != recorded):
        while True:
            if not checkpoint.has_time():
                return Again()
            batch = _take(place, checkpoint)
            if batch is None:
                break
            _delete(place, batch.entries, checkpoint)
    return Done()


def remaining(person: Person) -> Mapping[str, int]:
    """How many versions and markers (under the store's name) and uploads (``<name>.uploads``) are left."""
    return {place.name: sum(len(page.entries) for page in place.pages()) for place in _places(person)}


def _places(person: Person) -> Iterator[Place]:
    for store in settings.load(FileSettings).file_stores:
        prefix = person.fill(store.prefix)
        # Uploads first: none may turn into a version behind our back.
        yield Uploads(name=f"{store.name}.uploads", bucket=store.bucket, prefix=prefix)
        yield Versions(name=store.name, bucket=store.bucket, prefix=prefix)


def _take(place: Place, checkpoint: Checkpoint) -> Batch | None:
    """List, count what is gone of the recorded batch, and record the next one: the fence is proved before it goes."""
    recorded = Bounds.of(checkpoint.batch, place)
    listed = list_batch(place, recorded)
    if recorded is not None:
        checkpoint.add(place.name, max(0, recorded.size - listed.survivors))
    if listed.batch is not None:
        checkpoint.progress(listed.batch.bounds.recorded())
    elif recorded is not None:
        checkpoint.forget_batch()
    return listed.batch


def _delete(place: Place, entries: Sequence[Entry], checkpoint: Checkpoint) -> None:
    """Delete by identity, as far as time goes. Nothing is counted here: the next listing tells what went."""
    versions = [entry for entry in entries if entry.kind is not Kind.UPLOAD]
    together = [entry for entry in versions if not _NOT_IN_XML.search(entry.key)]
    _delete_together(place, together, checkpoint)
    for entry in versions:
        if _NOT_IN_XML.search(entry.key) and checkpoint.has_time():
            _delete_one(place, entry, checkpoint)
    for entry in entries:
        if entry.kind is Kind.UPLOAD and checkpoint.has_time():
            _abort(place, entry, checkpoint)


def _delete_together(place: Place, entries: Sequence[Entry], checkpoint: Checkpoint) -> None:
    waiting, size, refusals = list(entries), PAGE, 0
    while waiting and checkpoint.has_time():
        chunk = waiting[:size]
        refused = _delete_objects(place, chunk, checkpoint)
        again = [entry for entry in chunk if (entry.key, entry.id) in refused]
        waiting = again + waiting[size:]
        if again:
            # Each key counts toward the prefix's request rate, so fewer go at once after a refusal.
            refusals, size = refusals + 1, max(1, len(chunk) // 2)
            if refusals == TRIES:
                raise aws.failure("DeleteObjects", next(iter(refused.values())))
            aws.back_off(refusals)
        else:
            refusals = 0


def _delete_objects(place: Place, entries: Sequence[Entry], checkpoint: Checkpoint) -> Mapping[tuple[str, str], str]:
    """One call; the code of each (key, version id) that it refused for the moment."""
    objects = [{"Key": entry.key, "VersionId": entry.id} for entry in entries]
    try:
        with aws.our_errors("DeleteObjects"):
            answer = aws.client("s3").delete_objects(Bucket=place.bucket, Delete={"Objects": objects, "Quiet": True})
    except Throttled as throttled:
        return {(entry.key, entry.id): throttled.code for entry in entries}
    # The answer is 200 whatever became of each key.
    errors = [error for error in answer.get("Errors", ()) if error.get("Code") not in _GONE]
    codes = [str(error.get("Code")) for error in errors]
    if "AccessDenied" in codes:
        raise _denied(place, checkpoint, "DeleteObjects", codes.count("AccessDenied"))
    for code in codes:
        failure = aws.failure("DeleteObjects", code)
        if not isinstance(failure, Retryable):
            raise failure
    return {(str(error.get("Key")), str(error.get("VersionId"))): str(error.get("Code")) for error in errors}


def _delete_one(place: Place, entry: Entry, checkpoint: Checkpoint) -> None:
    try:
        with aws.our_errors("DeleteObject"):
            aws.client("s3").delete_object(Bucket=place.bucket, Key=entry.key, VersionId=entry.id)
    except AccessDenied:
        raise _denied(place, checkpoint, "DeleteObject", 1) from None
    except StoreMissing as missing:
        if missing.code not in _GONE:
            raise


def _denied(place: Place, checkpoint: Checkpoint, operation: str, number: int) -> DeletionError:
    """Why deletes were denied: S3 gives one code for a retention lock and for a missing permission."""
    try:
        with aws.our_errors("GetObjectLockConfiguration"):
            answer = aws.client("s3").get_object_lock_configuration(Bucket=place.bucket)
    except AwsFailure:
        return AccessDenied(operation, "AccessDenied")
    if answer.get("ObjectLockConfiguration", {}).get("ObjectLockEnabled") != "Enabled":
        return AccessDenied(operation, "AccessDenied")
    return RetentionLocked(checkpoint.task.deletion_request_id, checkpoint.task.step, number)


def _abort(place: Place, upload: Entry, checkpoint: Checkpoint) -> None:
    """Abort until no part is listed: parts that were in flight may outlive the first abort."""
    for attempt in range(1, TRIES + 1):
        if not _upload_exists("abort_multipart_upload", place, upload):
            return
        if not _upload_exists("list_parts", place, upload):
            return
        aws.back_off(attempt)
    raise EffectPending(checkpoint.task.deletion_request_id, checkpoint.task.step, "AbortMultipartUpload")


def _upload_exists(operation: str, place: Place, upload: Entry) -> bool:
    """Call an operation on an upload; False if the upload is not there."""
    name = "".join(word.capitalize() for word in operation.split("_"))
    try:
        with aws.our_errors(name):
            getattr(aws.client("s3"), operation)(Bucket=place.bucket, Key=upload.key, UploadId=upload.id)
    except StoreMissing as missing:
        if missing.code != "NoSuchUpload":
            raise
        return False
    return True
