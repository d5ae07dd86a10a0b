"""What is listed of one user's files in a bucket, and in which batches it goes.

A batch is recorded by its bounds before it goes (handlers/steps/delete_files.py). So its bounds must tell later, from
a fresh listing alone, which of its entries are still there: it holds all entries of whole keys, or, of one key that
fills a batch, all entries of one kind before the one that it names as the next.

The listing goes on behind a batch while the batch is being deleted. So the entry that the next page starts after must
stay: the last key, which the next page may continue, is carried over to the next batch.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import Any, Protocol
from urllib.parse import unquote_plus

from handlers.core import aws
from handlers.steps._bucket import Bucket

PAGE = 1000
"""Entries of one listing and of one DeleteObjects call at most (https://docs.aws.amazon.com/AmazonS3/latest/API/
API_DeleteObjects.html)."""
BATCH = 8 * PAGE
"""Entries from which on a batch goes: one write of the record for so many, and the calls that they need side by
side. Two batches are in memory at once, 5 MB together."""
AHEAD = 3
"""Pages that are fetched and not read yet, at most: 400 KB each."""


class Kind(StrEnum):
    """What an entry is: each has its own way to be deleted."""

    VERSION = "version"
    MARKER = "marker"
    UPLOAD = "upload"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One version, delete marker or unfinished upload."""

    key: str = field(repr=False)
    id: str
    """Version id or upload id: an identity, where the bucket's versioning is Enabled."""
    kind: Kind
    modified: int
    """Epoch seconds."""


Marker = Mapping[str, str]
"""The part of a listing's request that says where its page starts; empty at the front."""


@dataclass(frozen=True, slots=True)
class Page:
    """One answer of a listing."""

    read: Callable[[], tuple[Entry, ...]] = field(repr=False)
    """Its entries, in the listing's order within each kind. It costs CPU, so the next page may be fetched meanwhile."""
    next: Marker | None
    """Where the page after it starts; None: it is the last."""


Fetch = Callable[[Marker], Page]


class Place(Protocol):
    """Where entries are listed: one store's versions, or its unfinished uploads."""

    @property
    def name(self) -> str:
        """Under which name its entries count."""

    @property
    def bucket(self) -> Bucket:
        """Where to delete them."""

    def page(self, after: Marker) -> Page:
        """List one page."""


def pages(fetch: Fetch) -> Iterator[Page]:
    """All pages from the front, asked for one by one."""
    after: Marker | None = {}
    while after is not None:
        page = fetch(after)
        yield page
        after = page.next


def pages_ahead(fetch: Fetch, fetcher: Executor) -> Iterator[Page]:
    """All pages from the front; up to AHEAD are fetched, one after the other, while one is read.

    A listing takes as long as it takes: so each is asked for as soon as the one before it has come, and not only when
    somebody has the time to look at that one.
    """
    ahead: deque[Future[Page | None]] = deque([fetcher.submit(fetch, {})])
    while True:
        while len(ahead) <= AHEAD:
            ahead.append(fetcher.submit(_follow, fetch, ahead[-1]))
        page = ahead.popleft().result()
        if page is None:
            return
        yield page


def _follow(fetch: Fetch, before: "Future[Page | None]") -> Page | None:
    page = before.result()
    return None if page is None or page.next is None else fetch(page.next)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """A batch as the record keeps it: enough to tell its entries from later ones, and never a list of keys."""

    place: str
    size: int
    first_key: str = field(repr=False)
    last_key: str = field(repr=False)
    newest: int
    """The latest entry's time: what was written later does not belong to the batch."""
    kind: str = ""
    """Within one key: the kind of all its entries. Empty: whole keys."""
    next_id: str = ""
    """Within one key: the first entry of that kind that the batch left out. Empty: none."""

    @classmethod
    def of(cls, batch: Mapping[str, Any], place: Place) -> "Bounds | None":
        """From the record; None if it holds no batch of this place."""
        return cls(**batch) if batch.get("place") == place.name else None

    def recorded(self) -> dict[str, Any]:
        """For the record."""
        return asdict(self)

    def survivors(self, listed: Iterable[Page]) -> "Batch":
        """Which of its entries a fresh listing from the front still shows, as a batch of their own."""
        # Within one key, what follows belongs to the next batch, also where the entry that begins it is gone.
        found = tuple(islice(self._survivors(listed), self.size if self.kind else None))
        return Batch(replace(self, size=len(found)), found)

    def _survivors(self, listed: Iterable[Page]) -> Iterator[Entry]:
        for page in listed:
            entries = page.read()
            for entry in entries:
                if self.kind and entry.key == self.last_key and entry.id == self.next_id:
                    return
                if self._holds(entry):
                    yield entry
            if any(entry.key > self.last_key for entry in entries):
                return

    def _holds(self, entry: Entry) -> bool:
        return (
            self.first_key <= entry.key <= self.last_key
            and entry.modified <= self.newest
            and self.kind in ("", entry.kind)
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """Entries to delete and their bounds."""

    bounds: Bounds
    entries: tuple[Entry, ...]


def batches(place: str, listed: Iterable[Page]) -> Iterator[Batch]:
    """All that is listed, in the order in which it may go while the listing goes on."""
    following, more = iter(listed), True
    carried: tuple[Entry, ...] = ()
    while more:
        entries, more = _gather(carried, following)
        gone, carried = _cut(place, entries, more=more)
        if gone.entries:
            yield gone


def _gather(carried: Sequence[Entry], listed: Iterator[Page]) -> tuple[Sequence[Entry], bool]:
    """Entries for a batch, and whether more pages follow."""
    # By identity: some servers list the last entry of a page on the next one too.
    entries = {(entry.key, entry.id): entry for entry in carried}
    for page in listed:
        entries |= {(entry.key, entry.id): entry for entry in page.read()}
        if page.next is None:
            return tuple(entries.values()), False
        if len(entries) >= BATCH:
            return tuple(entries.values()), True
    return tuple(entries.values()), False


def _cut(place: str, entries: Sequence[Entry], *, more: bool) -> tuple[Batch, tuple[Entry, ...]]:
    """A batch of what may go now, and what is carried over."""
    now, kind, next_id = tuple(entries), "", ""
    if more:
        last = max(entry.key for entry in entries)
        now = tuple(entry for entry in entries if entry.key != last)
        if not now:
            now, kind, next_id = _within_one_key(entries)
    bounds = Bounds(
        place=place,
        size=len(now),
        first_key=min((entry.key for entry in now), default=""),
        last_key=max((entry.key for entry in now), default=""),
        newest=max((entry.modified for entry in now), default=0),
        kind=kind,
        next_id=next_id,
    )
    going = {(entry.key, entry.id) for entry in now}
    return Batch(bounds, now), tuple(entry for entry in entries if (entry.key, entry.id) not in going)


def _within_one_key(entries: Sequence[Entry]) -> tuple[tuple[Entry, ...], str, str]:
    # Versions and markers of a key come in two lists whose common order the answer does not tell.
    kind = Counter(entry.kind for entry in entries).most_common(1)[0][0]
    *same, left = (entry for entry in entries if entry.kind is kind)
    return tuple(same), kind, left.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """All versions and delete markers under a prefix."""

    name: str
    bucket: Bucket
    prefix: str = field(repr=False)

    def page(self, after: Marker) -> Page:
        """List one page."""
        # Never EncodingType: botocore sets it and decodes the keys, unless the caller set it.
        answer = self.bucket.call("list_object_versions", Prefix=self.prefix, MaxKeys=PAGE, **after)
        return Page(partial(_versions, answer), _next(answer, answer.get("NextKeyMarker", ""), "VersionIdMarker"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploads:
    """All unfinished multipart uploads under a prefix."""

    name: str
    bucket: Bucket
    prefix: str = field(repr=False)

    def page(self, after: Marker) -> Page:
        """List one page."""
        # botocore neither sets EncodingType here nor decodes the keys.
        answer = self.bucket.call(
            "list_multipart_uploads", Prefix=self.prefix, MaxUploads=PAGE, EncodingType="url", **after
        )
        decode = unquote_plus if answer.get("EncodingType") == "url" else str
        return Page(
            partial(_uploads, answer, decode), _next(answer, decode(answer.get("NextKeyMarker", "")), "UploadIdMarker")
        )


def _next(answer: Mapping[str, Any], key: str, id_marker: str) -> Marker | None:
    if not answer.get("IsTruncated"):
        return None
    # S3 refuses an empty id marker.
    marker = {"KeyMarker": key, id_marker: answer.get(f"Next{id_marker}")}
    return {name: value for name, value in marker.items() if value}


def _versions(answer: Mapping[str, Any]) -> tuple[Entry, ...]:
    kinds = {Kind.VERSION: answer.get("Versions", ()), Kind.MARKER: answer.get("DeleteMarkers", ())}
    # The answer is read here (handlers/core/s3_listing.py).
    with aws.our_errors("ListObjectVersions"):
        return tuple(
            Entry(key=fields["Key"], id=fields["VersionId"], kind=kind, modified=_epoch(fields["LastModified"]))
            for kind, entries in kinds.items()
            for fields in entries
        )


def _uploads(answer: Mapping[str, Any], decode: Callable[[str], str]) -> tuple[Entry, ...]:
    return tuple(
        Entry(key=decode(fields["Key"]), id=fields["UploadId"], kind=Kind.UPLOAD, modified=_epoch(fields["Initiated"]))
        for fields in answer.get("Uploads", ())
    )


def _epoch(time: datetime) -> int:
    return int(time.timestamp())
