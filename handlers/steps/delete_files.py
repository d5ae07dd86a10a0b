"""Deletes the user's files in the configured S3 buckets: every version, delete marker and unfinished upload.

Done when: a fresh listing of every store shows no version, no delete marker and no upload.
Safe to repeat because: only listed versions are deleted, by their version ids, after the fence was proved; a version
written later has another id. A batch's bounds are recorded before it goes. An invocation that sees its end counts what
S3 confirmed; after a crash a fresh listing tells what of the batch went. So counts are exact (unless something was
written to the same keys within the same second, an upload that had begun earlier was completed there, or some of the
versions of one key that fills several batches are locked).
Leaves open: in a bucket without versioning, or with suspended versioning, the id is `null`: a file written between
listing and delete goes too. Versions under retention or a legal hold stay until these end: the request is HELD once
everything else is gone. Replicas keep what is deleted by version id (https://docs.aws.amazon.com/AmazonS3/latest/
userguide/replication-what-is-isnot-replicated.html): each destination needs to be a store of its own, or is named in
the store's `replicas` with a reason.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Event

from handlers.core import clock, settings
from handlers.core.checkpoint import Again, Checkpoint, Done
from handlers.core.errors import RetentionLocked
from handlers.core.frame import step_handler
from handlers.core.patience import OutOfTime, patiently
from handlers.core.person import Person
from handlers.core.stores import FileStore
from handlers.steps._bucket import Bucket
from handlers.steps._bucket_fitness import problems
from handlers.steps._deleting import CALLS, REFUSED, Deleting
from handlers.steps._files import (
    Batch,
    Bounds,
    Entry,
    Fetch,
    Marker,
    Page,
    Place,
    Uploads,
    Versions,
    batches,
    pages,
    pages_ahead,
)
from handlers.steps._locks import Locks

PROVE_AGAIN = 30
"""Seconds after which the fence is proved again within a batch: one that S3 slows down takes minutes, and whoever holds
or cancels the request, or takes it over, does not wait for its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """What the step needs besides the frame's settings."""

    file_stores: tuple[FileStore, ...]
    """The buckets that hold the user's files."""


@step_handler(RetentionLocked)
def handler(checkpoint: Checkpoint) -> Done | Again:
    """Empty one place after the other; the one with the recorded batch first."""
    recorded = checkpoint.batch.get("place")
    places = sorted(_places(checkpoint.person), key=lambda place: place.name != recorded)
    try:
        with _workers() as workers:
            locks = [_Emptying.of(place, checkpoint, workers).run() for place in places]
    except OutOfTime:
        return Again()
    locked = [lock for lock in locks if lock.number]
    if locked:
        # No batch is under way while the request waits, for months perhaps.
        checkpoint.progress()
        raise _held(checkpoint, locked)
    return Done()


def remaining(person: Person) -> Mapping[str, int]:
    """How many versions and markers (under the store's name) and uploads (``<name>.uploads``) are left."""
    return {place.name: sum(len(page.read()) for page in pages(place.page)) for place in _places(person)}


def preflight(person: Person) -> Sequence[str]:
    """What of each store's bucket would make the deletion incomplete, with the mend.

    Raises:
        Retryable: S3 does not answer for the moment.
    """
    stores = settings.load(FileSettings).file_stores
    places = {(store.bucket, person.fill(store.prefix)) for store in stores}
    return [
        f"store {store.name}: {problem}"
        for store in stores
        for problem in problems(store, person.fill(store.prefix), places)
    ]


@dataclass(frozen=True, slots=True)
class _Workers:
    """The threads of one invocation: none of them outlives it."""

    fetcher: Executor
    """One thread: fetches the next page while one is read."""
    lister: Executor
    """One thread: makes the next batch while one is being deleted."""
    deleters: Executor
    """CALLS threads."""
    stopping: Event
    """Set when the invocation ends, whatever the reason."""


@contextmanager
def _workers() -> Iterator[_Workers]:
    # The lister waits for the fetcher, so it ends first.
    with ThreadPoolExecutor(1) as fetcher, ThreadPoolExecutor(1) as lister, ThreadPoolExecutor(CALLS) as deleters:
        workers = _Workers(fetcher, lister, deleters, Event())
        try:
            yield workers
        finally:
            workers.stopping.set()


@dataclass(slots=True)
class _Emptying:
    """One place on its way to be empty."""

    place: Place
    checkpoint: Checkpoint
    workers: _Workers
    deleting: Deleting
    fetch: Fetch
    since: int
    proved_at: int = 0

    @classmethod
    def of(cls, place: Place, checkpoint: Checkpoint, workers: _Workers) -> "_Emptying":
        def goes_on() -> bool:
            return not workers.stopping.is_set() and checkpoint.has_time()

        def fetch(after: Marker) -> Page:
            return patiently(partial(place.page, after), goes_on, REFUSED)

        return cls(
            place=place,
            checkpoint=checkpoint,
            workers=workers,
            deleting=Deleting(place.bucket, workers.deleters, checkpoint.has_time),
            fetch=fetch,
            since=clock.now(),
        )

    def run(self) -> Locks:
        """Pass after pass from the front, until one finds nothing but what is locked."""
        self._settle()
        while True:
            listed, locks = self._pass()
            if listed == locks.number:
                return locks

    def _settle(self) -> None:
        """Count what is gone of the batch that the last invocation recorded, and delete the rest of it."""
        recorded = Bounds.of(self.checkpoint.batch, self.place)
        if recorded is None:
            return
        self._require_time()
        left = recorded.survivors(pages(self.fetch))
        if left.entries:
            # An earlier worker's calls may still land: its bounds stay until those of the rest are recorded.
            self._require_time()
        self.checkpoint.add(self.place.name, max(0, recorded.size - left.bounds.size))
        self.checkpoint.forget_batch()
        if left.entries:
            self._record(left)
            self._delete(left)

    def _pass(self) -> tuple[int, Locks]:
        """Everything from the front to the end; how many entries were listed, and which of them are locked."""
        self._require_time()
        locks, listed = Locks(bucket=self.place.bucket, since=self.since), 0
        todo = batches(self.place.name, pages_ahead(self.fetch, self.workers.fetcher))
        ahead = self.workers.lister.submit(next, todo, None)
        while batch := ahead.result():
            self._record(batch)
            ahead = self.workers.lister.submit(next, todo, None)
            listed += batch.bounds.size
            locks.add(self._delete(batch))
        locks.ask()
        return listed, locks

    def _record(self, batch: Batch) -> None:
        """Prove the fence; what is counted so far is durable from here on."""
        self._require_time()
        self._prove(batch)

    def _delete(self, batch: Batch) -> Sequence[Entry]:
        """Delete and count a batch; what S3 denied."""
        denied = self.deleting.delete(batch.entries, partial(self._prove_again, batch))
        self.checkpoint.add(self.place.name, batch.bounds.size - len(denied))
        self.checkpoint.forget_batch()
        return denied

    def _prove(self, batch: Batch) -> None:
        self.checkpoint.progress(batch.bounds.recorded())
        self.proved_at = clock.now()

    def _prove_again(self, batch: Batch) -> None:
        if clock.now() - self.proved_at >= PROVE_AGAIN:
            self._prove(batch)

    def _require_time(self) -> None:
        if not self.checkpoint.has_time():
            raise OutOfTime


def _places(person: Person) -> Iterator[Place]:
    for store in settings.load(FileSettings).file_stores:
        bucket, prefix = Bucket.of(store), person.fill(store.prefix)
        # Uploads first: none may turn into a version behind our back.
        yield Uploads(name=f"{store.name}.uploads", bucket=bucket, prefix=prefix)
        yield Versions(name=store.name, bucket=bucket, prefix=prefix)


def _held(checkpoint: Checkpoint, locks: Sequence[Locks]) -> RetentionLocked:
    ends = [lock.until for lock in locks]
    until = None if None in ends else max(end for end in ends if end is not None)
    return RetentionLocked(
        checkpoint.task.deletion_request_id, checkpoint.task.step, sum(lock.number for lock in locks), until
    )
