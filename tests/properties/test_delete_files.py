"""DeleteFiles in every world that Hypothesis thinks of.

A world: a user's versions, delete markers and uploads in three stores and two buckets, neighbours whose keys begin
alike, servers with short and empty pages. A storm: crashes, lost and late answers, refusals, invocations that
overtake each other, another owner, a hold, writes under way. What is promised, and asserted:

- a version or upload that was written before the last listing began is gone, and that listing showed nothing;
- nothing of anybody else was touched;
- the counts are what went, each once;
- the record is DONE without a batch, and a step that is DONE deletes nothing more;
- a held request deletes no more than the batch that was recorded;
- what is locked is reported once everything else is gone, and goes when the locks end;
- an execution that lost the request never gets an answer;
- after COMPLETED nothing is deleted: a user who registered again keeps everything.

Not promised by the step's docstring, so not generated: a version written to the same key within a listed version's
second; an upload that is completed under way; in a bucket whose versioning is not Enabled, a write under way, or after
the end, to a key that is being deleted; entries that somebody else deletes under way; locks on some versions of a key
that fills several batches.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import strategies as st

from handlers.core.errors import RetentionLocked
from handlers.core.stores import FileStore, to_json
from handlers.steps import _deleting, delete_files
from handlers.steps import _files as listings
from tests.fakes.dynamodb import DynamoDB, Table
from tests.fakes.s3 import S3, Bucket, LostMarker, Manners, Upload, Version, entries
from tests.properties.storm import Weather
from tests.properties.story import CUSTOMER, NOW, TABLE, USER, Story, environment
from tests.properties.strategies import THREADS, WEATHER, for_all

pytestmark = pytest.mark.long

PARTS = 10
CASES = 200
STEP = "DeleteFiles"
STORES = (
    FileStore(name="photos", bucket="media", prefix="users/{user_id}/"),
    FileStore(name="avatars", bucket="media", prefix="avatars/{user_id}/"),
    FileStore(name="exports", bucket="exports", prefix="{customer_id}/"),
)
PLACES = (("media", f"users/{USER}/"), ("media", f"avatars/{USER}/"), ("exports", f"{CUSTOMER}/"))
"""Bucket and prefix of each store."""
OTHERS = (
    ("media", "users/1"),
    ("media", "users/10/a"),
    ("media", "users/1x/a"),
    ("media", "users/"),
    ("media", "users/1.a"),
    ("media", "Users/1/a"),
    ("media", "avatars/1"),
    ("media", "avatars/11/a"),
    ("media", "x/users/1/a"),
    ("exports", "70/a"),
    ("exports", "7"),
    ("exports", "1/7/a"),
)
"""Bucket and key of what belongs to others."""
SUFFIXES = ("a", "b", "a/b", "", "é", "😀", "a+b c%2F&<", "\x01", "~", "../x", "//")


@dataclass(frozen=True, slots=True)
class Written:
    """Versions and markers of one key, written one after the other."""

    place: int
    suffix: int
    pattern: int
    """Binary: a 1 in front, then a 1 for each marker and a 0 for each version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """A world."""

    versioning: tuple[str, str]
    written: Sequence[Written]
    uploads: Sequence[tuple[int, int]]
    """Place and suffix."""
    others: Sequence[int]
    locks: Sequence[int]
    """Which versions are locked: even numbers for a while, odd ones by a legal hold."""
    same_second: bool
    """Whether everything was written within one second."""
    manners: Manners
    batch: int
    """From how many entries on a batch goes; the step's own size would hold every world here."""
    call: int
    """How many keys a call holds at most."""


_written = st.builds(Written, st.integers(0, 2), st.integers(0, len(SUFFIXES) - 1), st.integers(2, 600))
_files = st.builds(
    Files,
    versioning=st.tuples(*[st.sampled_from(("Enabled", "Enabled", "Suspended", ""))] * 2),
    written=st.lists(_written, max_size=6),
    uploads=st.lists(st.tuples(st.integers(0, 2), st.integers(0, len(SUFFIXES) - 1)), max_size=4),
    others=st.lists(st.integers(0, len(OTHERS) - 1), max_size=6),
    locks=st.one_of(st.just(()), st.lists(st.integers(0, 30), max_size=3)),
    same_second=st.booleans(),
    manners=st.builds(
        Manners,
        # One page at least holds something, or no listing would ever end.
        pages=st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(1, 7)),
        lost_marker=st.sampled_from(LostMarker),
        stubborn_aborts=st.integers(0, 3),
    ),
    batch=st.integers(1, 9),
    call=st.integers(1, 4),
)


class FileStory(Story):
    """DeleteFiles in one world."""

    def __init__(self, files: Files, weather: Weather) -> None:
        self.s3 = S3({"media": Bucket(), "exports": Bucket()}, files.manners)
        super().__init__(STEP, delete_files.handler, DynamoDB({TABLE: Table(keys=("pk",))}), {"s3": self.s3}, weather)
        self._fresh = 0
        self._same_second = files.same_second
        for name, versioning in zip(("media", "exports"), files.versioning, strict=True):
            # A bucket with suspended versioning had versions before.
            self.s3.buckets[name].versioning = "Enabled" if versioning == "Suspended" else versioning
        for number, written in enumerate(files.written):
            self._suspend(files, after=number >= len(files.written) // 2)
            self._write_all(written)
        self._suspend(files, after=True)
        for place, suffix in files.uploads:
            self._tick()
            self.s3.begin_upload(PLACES[place][0], PLACES[place][1] + SUFFIXES[suffix])
        for other in files.others:
            self._tick()
            self.s3.put(*OTHERS[other], body=b"theirs")
        self._same_second = False
        self._lock(files.locks)
        self.foreign = self._foreign()
        """What belongs to others, and only they may change."""

    def _suspend(self, files: Files, *, after: bool) -> None:
        for name, versioning in zip(("media", "exports"), files.versioning, strict=True):
            if after and versioning == "Suspended":
                self.s3.buckets[name].versioning = "Suspended"

    def _write_all(self, written: Written) -> None:
        bucket, prefix = PLACES[written.place]
        for bit in bin(written.pattern)[3:]:
            self._tick()
            marker = bit == "1" and self.s3.buckets[bucket].versioning != ""
            self.s3.put(bucket, prefix + SUFFIXES[written.suffix], marker=marker, body=bit.encode())

    def _lock(self, numbers: Sequence[int]) -> None:
        mine = [
            (bucket, one)
            for bucket, one in entries(self.s3.buckets)
            if isinstance(one, Version) and not one.marker and _store(bucket, one) and one.id != "null"
        ]
        for number in numbers if mine else ():
            bucket, one = mine[number % len(mine)]
            self.s3.buckets[bucket].locks[one.key, one.id] = None if number % 2 else NOW + 1000 + number

    def _tick(self) -> None:
        if not self._same_second:
            self.s3.now += 1

    # -- who writes

    def write(self, number: int) -> None:
        """One write of the user or of somebody else, each in a second of its own."""
        with self.s3.lock:
            self._tick()
            what, number = number % 4, number // 4
            if what == 0:
                bucket, key = OTHERS[number % len(OTHERS)]
                later = self.s3.put(bucket, key, body=b"later")
                self.foreign[bucket, key, later.id] = later
                return
            bucket, prefix = PLACES[number % 3]
            if what == 1:
                self.s3.begin_upload(bucket, prefix + SUFFIXES[number % len(SUFFIXES)])
            else:
                self.s3.put(bucket, self._late_key(bucket, prefix, number), marker=what == 2 and self._enabled(bucket))

    def _late_key(self, bucket: str, prefix: str, number: int) -> str:
        if self._enabled(bucket):
            return prefix + SUFFIXES[number % len(SUFFIXES)]
        self._fresh += 1
        return f"{prefix}{SUFFIXES[number % len(SUFFIXES)]}{self._fresh}"

    def register_again(self) -> None:
        """Everything is written anew, where versions are told apart."""
        with self.s3.lock:
            self._tick()
            for bucket, prefix in PLACES:
                for suffix in SUFFIXES:
                    self.s3.begin_upload(bucket, prefix + suffix)
                    if self._enabled(bucket):
                        self.s3.put(bucket, prefix + suffix, body=b"new")

    def _enabled(self, bucket: str) -> bool:
        return self.s3.buckets[bucket].versioning == "Enabled"

    # -- what is true

    def removed(self) -> Mapping[str, int]:
        """By store."""
        with self.s3.lock:
            return Counter(_store(bucket, one) for bucket, one in self.s3.removed)

    def check_remaining(self, remaining: Mapping[str, int]) -> None:
        """Each store is counted."""
        assert remaining == Counter(_store(*one) for one in entries(self.s3.buckets) if _store(*one))

    def contents(self) -> Any:
        """Every entry, byte for byte."""
        return {(bucket, one) for bucket, one in entries(self.s3.buckets)}

    def check_held(self, since: int) -> None:
        """No more than the batch that was recorded may still land."""
        assert since <= self.record["steps"][STEP].get("batch", {}).get("size", 0), "a held request went on"

    def check_locked(self, locked: RetentionLocked) -> None:
        """Everything that is not locked went first."""
        locks = [(name, *place, until) for name, one in self.s3.buckets.items() for place, until in one.locks.items()]
        left = {(name, one.key, one.id) for name, one in self._early()}
        assert left == {lock[:3] for lock in locks}
        ends = [lock[3] for lock in locks]
        until = None if None in ends else max(end for end in ends if end is not None)
        assert (locked.locked, locked.until) == (len(locks), until)

    def unlock(self) -> None:
        """All of them."""
        with self.s3.lock:
            for bucket in self.s3.buckets.values():
                bucket.locks.clear()

    def check_done(self) -> None:
        """Gone is what the last listing could see; nobody else's was touched."""
        assert "" not in self.removed(), "something of somebody else was deleted"
        assert self._foreign() == self.foreign, "something of somebody else changed"
        assert list(self._early()) == []
        for bucket, prefix in PLACES:
            for kind in ("versions", "uploads"):
                last = self.s3.listings[kind, bucket, prefix]
                assert (last.shown, last.ended) == (0, True), f"{kind} were not seen to be gone"

    def _early(self) -> Iterator[tuple[str, Version | Upload]]:
        """What is left of what the last listing could see."""
        for name, one in entries(self.s3.buckets):
            for bucket, prefix in PLACES:
                kind = "uploads" if isinstance(one, Upload) else "versions"
                is_here = name == bucket and one.key.startswith(prefix)
                if is_here and one.written <= self.s3.listings[kind, bucket, prefix].began:
                    yield name, one

    def _foreign(self) -> dict[tuple[str, str, str], Version | Upload]:
        return {(name, one.key, one.id): one for name, one in entries(self.s3.buckets) if not _store(name, one)}


def _store(bucket: str, one: Version | Upload) -> str:
    """Under which name an entry counts; empty if it is somebody else's."""
    for store, (name, prefix) in zip(STORES, PLACES, strict=True):
        if name == bucket and one.key.startswith(prefix):
            return f"{store.name}.uploads" if isinstance(one, Upload) else store.name
    return ""


def _tell(files: Files, weather: Weather) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # Of a key that fills several batches, and of which some versions are locked, counts are not promised.
        patch.setattr(listings, "BATCH", 1000 if files.locks else files.batch)
        patch.setattr(_deleting, "PAGE", files.call)
        FileStory(files, weather).tell()


@pytest.fixture(scope="module", autouse=True)
def process() -> Iterator[None]:
    with environment(STEP, delete_files, FILE_STORES=to_json(STORES)):
        yield


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.invariant("I1", "I2", "I6")
def test_whatever_happens_under_way_every_file_of_the_user_goes_and_no_other(part: int) -> None:
    for_all(_files, WEATHER, _tell, cases=CASES, part=part)


def test_so_it_is_with_calls_side_by_side() -> None:
    """The order of calls is the machine's here, so a case that fails may pass when it is repeated."""
    for_all(_files, THREADS, _tell, cases=CASES // 5, part=PARTS)
