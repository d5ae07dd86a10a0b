"""What is listed of one user's files in a bucket, and which of it makes the next batch.

A batch is recorded by its bounds before it goes (handlers/steps/delete_files.py). So its bounds must tell later, from
a fresh listing alone, which of its entries are still there: it holds all entries of whole keys, or, of one key that
fills a page, all entries of one kind before the one that it names as the next.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from itertools import chain
from typing import Any, Protocol
from urllib.parse import unquote_plus

from handlers.core import aws

PAGE = 1000
"""Entries of one listing and of one DeleteObjects call at most (https://docs.aws.amazon.com/AmazonS3/latest/API/
API_DeleteObjects.html)."""


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


@dataclass(frozen=True, slots=True)
class Page:
    """One answer of a listing, in the listing's order within each kind."""

    entries: tuple[Entry, ...]
    truncated: bool
    """Whether another page follows."""


class Place(Protocol):
    """Where entries are listed: one store's versions, or its unfinished uploads."""

    @property
    def name(self) -> str:
        """Under which name its entries count."""

    @property
    def bucket(self) -> str:
        """Where to delete them."""

    def pages(self) -> Iterator[Page]:
        """List from the front; pages are asked for one by one."""


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

    def survivors(self, pages: Iterable[Page]) -> tuple[Entry, ...]:
        """Which of its entries a listing still shows."""
        found = []
        for entry in chain.from_iterable(page.entries for page in self._until_passed(pages)):
            if self.kind and entry.key == self.last_key and entry.id == self.next_id:
                break
            if self._holds(entry):
                found.append(entry)
        return tuple(found)

    def _until_passed(self, pages: Iterable[Page]) -> Iterator[Page]:
        for page in pages:
            yield page
            if any(entry.key > self.last_key for entry in page.entries):
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


@dataclass(frozen=True, slots=True)
class Listed:
    """What one listing says."""

    survivors: int
    """How many of the recorded batch are still there."""
    batch: Batch | None
    """What to delete next: the survivors, else a new batch from the front; None if nothing is there."""


def list_batch(place: Place, recorded: Bounds | None) -> Listed:
    """List the place once, for the recorded batch and the next one, so that nothing vanishes between them uncounted."""
    pages = place.pages()
    front = next((page for page in pages if page.entries), Page((), truncated=False))
    left = recorded.survivors(chain((front,), pages)) if recorded else ()
    if recorded and left:
        return Listed(len(left), Batch(replace(recorded, size=len(left)), left))
    return Listed(0, _cut(place.name, front) if front.entries else None)


def _cut(place: str, page: Page) -> Batch:
    entries, kind, next_id = page.entries, "", ""
    if page.truncated:
        # The last key may go on on the next page.
        last = max(entry.key for entry in entries)
        whole = tuple(entry for entry in entries if entry.key != last)
        entries, kind, next_id = (whole, "", "") if whole else _within_one_key(entries)
    bounds = Bounds(
        place=place,
        size=len(entries),
        first_key=min(entry.key for entry in entries),
        last_key=max(entry.key for entry in entries),
        newest=max(entry.modified for entry in entries),
        kind=kind,
        next_id=next_id,
    )
    return Batch(bounds, entries)


def _within_one_key(entries: Sequence[Entry]) -> tuple[tuple[Entry, ...], str, str]:
    # Versions and markers of a key come in two lists whose common order the answer does not tell.
    kind = Counter(entry.kind for entry in entries).most_common(1)[0][0]
    same = tuple(entry for entry in entries if entry.kind is kind)
    return (same[:-1], kind, same[-1].id) if len(same) > 1 else (same, kind, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """All versions and delete markers under a prefix."""

    name: str
    bucket: str
    prefix: str = field(repr=False)

    def pages(self) -> Iterator[Page]:
        """List from the front."""
        # Never EncodingType: botocore sets it and decodes the keys, unless the caller set it.
        request: dict[str, Any] = {"Bucket": self.bucket, "Prefix": self.prefix, "MaxKeys": PAGE}
        while True:
            with aws.our_errors("ListObjectVersions"):
                answer = aws.client("s3").list_object_versions(**request)
            truncated = bool(answer.get("IsTruncated"))
            versions = [_version(Kind.VERSION, fields) for fields in answer.get("Versions", ())]
            markers = [_version(Kind.MARKER, fields) for fields in answer.get("DeleteMarkers", ())]
            yield Page((*versions, *markers), truncated)
            if not truncated:
                return
            request["KeyMarker"] = answer["NextKeyMarker"]
            request["VersionIdMarker"] = answer["NextVersionIdMarker"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploads:
    """All unfinished multipart uploads under a prefix."""

    name: str
    bucket: str
    prefix: str = field(repr=False)

    def pages(self) -> Iterator[Page]:
        """List from the front."""
        # botocore neither sets EncodingType here nor decodes the keys.
        request: dict[str, Any] = {
            "Bucket": self.bucket,
            "Prefix": self.prefix,
            "MaxUploads": PAGE,
            "EncodingType": "url",
        }
        while True:
            with aws.our_errors("ListMultipartUploads"):
                answer = aws.client("s3").list_multipart_uploads(**request)
            decode = unquote_plus if answer.get("EncodingType") == "url" else str
            truncated = bool(answer.get("IsTruncated"))
            yield Page(
                tuple(
                    Entry(
                        key=decode(fields["Key"]),
                        id=fields["UploadId"],
                        kind=Kind.UPLOAD,
                        modified=_epoch(fields["Initiated"]),
                    )
                    for fields in answer.get("Uploads", ())
                ),
                truncated,
            )
            if not truncated:
                return
            request["KeyMarker"] = decode(answer["NextKeyMarker"])
            request["UploadIdMarker"] = answer["NextUploadIdMarker"]


def _version(kind: Kind, fields: Mapping[str, Any]) -> Entry:
    return Entry(key=fields["Key"], id=fields["VersionId"], kind=kind, modified=_epoch(fields["LastModified"]))


def _epoch(time: datetime) -> int:
    return int(time.timestamp())
