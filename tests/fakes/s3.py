"""S3 in memory: buckets with and without versions, delete markers, unfinished uploads.

Keys come in UTF-8 order, within a key the newest first. What a server may do or not, it does by its manners: short and
empty pages, a version that marked the end of a page and is gone, parts that outlive an abort.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum, auto
from hashlib import sha256
from itertools import cycle
from typing import Any
from urllib.parse import quote_plus

from tests.fakes.client import Service, refusal

MAX_OBJECTS = 1000


class LostMarker(Enum):
    """Where a listing goes on when the version that its marker names was deleted."""

    NEXT_VERSION = auto()
    """Right behind where it was (minio)."""
    NEXT_KEY = auto()
    """The rest of its key is skipped (ministack)."""
    NOWHERE = auto()
    """The listing ends (moto, versitygw)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """What this server does within its contract, and what servers are known to do beside it."""

    pages: Sequence[int] = (1000,)
    """How many entries the next pages hold at most; 0 is an empty page that is not the last one."""
    lost_marker: LostMarker = LostMarker.NEXT_VERSION
    stubborn_aborts: int = 0
    """How many aborts of an upload leave it there, because parts were in flight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version or a delete marker."""

    key: str
    id: str
    marker: bool
    written: int
    """The service's moment: the later, the newer."""
    modified: int
    """Epoch seconds."""
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """An unfinished upload."""

    key: str
    id: str
    written: int
    modified: int


@dataclass(slots=True)
class Bucket:
    """One bucket."""

    versioning: str = "Enabled"
    """Enabled, Suspended, or empty for a bucket that never had versions."""
    versions: dict[tuple[str, str], Version] = field(default_factory=dict)
    uploads: dict[tuple[str, str], Upload] = field(default_factory=dict)
    gone: dict[tuple[str, str], int] = field(default_factory=dict)
    """Where a removed version was: the moment of its writing."""
    locks: dict[tuple[str, str], int | None] = field(default_factory=dict)
    """Key and version id -> epoch seconds until which it is retained; None: a legal hold, which has no end."""
    aborts: dict[str, int] = field(default_factory=dict)
    """Upload id -> aborts so far."""


Removed = tuple[str, Version | Upload]
"""A bucket's name and what a client's call removed from it."""


class S3(Service):
    """All buckets."""

    name = "s3"

    def __init__(self, buckets: Mapping[str, Bucket], manners: Manners | None = None) -> None:
        super().__init__()
        self.buckets = buckets
        self.removed: list[Removed] = []
        """What calls of a client removed, in order."""
        self.now = 1_700_000_000
        """Epoch seconds of what is written next."""
        self._manners = manners or Manners()
        self._pages = cycle(self._manners.pages)

    # -- what an application does; its writes are no removals

    def put(self, bucket: str, key: str, *, marker: bool = False, body: bytes = b"") -> Version:
        """Write a version or a delete marker; where there are no versions it replaces what has the id null."""
        with self.lock:
            return self._write(bucket, key, marker=marker, body=body)

    def begin_upload(self, bucket: str, key: str) -> Upload:
        """Begin an upload."""
        with self.lock:
            self.moment += 1
            upload = Upload(key=key, id=f"u{self.moment:06}", written=self.moment, modified=self.now)
            self.buckets[bucket].uploads[key, upload.id] = upload
            return upload

    # -- operations

    def put_object(self, **request: Any) -> Mapping[str, Any]:
        """PutObject."""
        bucket = self._bucket("PutObject", request)
        version = self._write(request["Bucket"], request["Key"], marker=False, body=request.get("Body", b""))
        return {"VersionId": version.id} if bucket.versioning == "Enabled" else {}

    def create_multipart_upload(self, **request: Any) -> Mapping[str, Any]:
        """CreateMultipartUpload."""
        self._bucket("CreateMultipartUpload", request)
        upload = self.begin_upload(request["Bucket"], request["Key"])
        return {"Bucket": request["Bucket"], "Key": upload.key, "UploadId": upload.id}

    def list_object_versions(self, **request: Any) -> Mapping[str, Any]:
        """ListObjectVersions. As botocore decodes the keys, they come as they are."""
        bucket = self._bucket("ListObjectVersions", request)
        prefix, marker = request.get("Prefix", ""), request.get("KeyMarker")
        ordered = sorted(
            (one for one in bucket.versions.values() if one.key.startswith(prefix)),
            key=lambda one: (one.key.encode(), -one.written),
        )
        left = self._behind(bucket, ordered, request) if marker else ordered
        page, more = self._page(left, request.get("MaxKeys", MAX_OBJECTS), front=not marker)
        place = ("versions", request["Bucket"], prefix)
        self.note_listing(place, front=not marker, shown=len(page), ended=not more)
        latest = {one.key: one.id for one in reversed(ordered)}
        answer = {
            "IsTruncated": more,
            "Versions": [_shown(one, latest) for one in page if not one.marker],
            "DeleteMarkers": [_shown(one, latest) for one in page if one.marker],
        }
        if not more:
            return {name: value for name, value in answer.items() if value != []}
        last = (page[-1].key, page[-1].id) if page else (request["KeyMarker"], request["VersionIdMarker"])
        return {**answer, "NextKeyMarker": last[0], "NextVersionIdMarker": last[1]}

    def delete_objects(self, **request: Any) -> Mapping[str, Any]:
        """DeleteObjects: each key has its own outcome, and one that is not there counts as deleted."""
        self._bucket("DeleteObjects", request)
        objects = request["Delete"]["Objects"]
        if not 0 < len(objects) <= MAX_OBJECTS:
            raise refusal("DeleteObjects", "MalformedXML")
        locks = self.buckets[request["Bucket"]].locks
        denied = [one for one in objects if (one["Key"], one.get("VersionId")) in locks]
        free = [one for one in objects if one not in denied]
        deleted = [self._delete(request["Bucket"], one["Key"], one.get("VersionId")) for one in free]
        answer: dict[str, Any] = {} if request["Delete"].get("Quiet") else {"Deleted": deleted}
        return {**answer, "Errors": [{**one, "Code": "AccessDenied"} for one in denied]} if denied else answer

    def delete_object(self, **request: Any) -> Mapping[str, Any]:
        """DeleteObject."""
        bucket = self._bucket("DeleteObject", request)
        if (request["Key"], request.get("VersionId")) in bucket.locks:
            raise refusal("DeleteObject", "AccessDenied", status=403)
        answer = self._delete(request["Bucket"], request["Key"], request.get("VersionId"))
        version = answer.get("DeleteMarkerVersionId") or answer.get("VersionId")
        marker = {"DeleteMarker": True} if "DeleteMarker" in answer else {}
        return {**marker, **({"VersionId": version} if version else {})}

    def list_multipart_uploads(self, **request: Any) -> Mapping[str, Any]:
        """ListMultipartUploads. botocore does not decode what EncodingType=url encodes."""
        bucket = self._bucket("ListMultipartUploads", request)
        prefix = request.get("Prefix", "")
        marker = (request.get("KeyMarker", "").encode(), request.get("UploadIdMarker", ""))
        left = sorted(
            (one for one in bucket.uploads.values() if one.key.startswith(prefix)),
            key=lambda one: (one.key.encode(), one.written),
        )
        if marker[0]:
            left = [one for one in left if (one.key.encode(), one.id) > marker]
        page, more = self._page(left, request.get("MaxUploads", MAX_OBJECTS), front=True)
        place = ("uploads", request["Bucket"], prefix)
        self.note_listing(place, front=not marker[0], shown=len(page), ended=not more)
        encode = quote_plus if request.get("EncodingType") == "url" else str
        answer: dict[str, Any] = {"IsTruncated": more}
        if "EncodingType" in request:
            answer["EncodingType"] = request["EncodingType"]
        if page:
            answer["Uploads"] = [
                {"Key": encode(one.key), "UploadId": one.id, "Initiated": datetime.fromtimestamp(one.modified, UTC)}
                for one in page
            ]
        if more:
            answer |= {"NextKeyMarker": encode(page[-1].key), "NextUploadIdMarker": page[-1].id}
        return answer

    def abort_multipart_upload(self, **request: Any) -> Mapping[str, Any]:
        """AbortMultipartUpload; parts in flight may need another one."""
        bucket, place = self._upload("AbortMultipartUpload", request)
        aborts = bucket.aborts.get(place[1], 0)
        bucket.aborts[place[1]] = aborts + 1
        if aborts >= self._manners.stubborn_aborts:
            self.removed.append((request["Bucket"], bucket.uploads.pop(place)))
        return {}

    def list_parts(self, **request: Any) -> Mapping[str, Any]:
        """ListParts."""
        self._upload("ListParts", request)
        return {**request, "IsTruncated": False}

    def get_object_lock_configuration(self, **request: Any) -> Mapping[str, Any]:
        """GetObjectLockConfiguration: a bucket has one while something in it is locked."""
        if self._bucket("GetObjectLockConfiguration", request).locks:
            return {"ObjectLockConfiguration": {"ObjectLockEnabled": "Enabled"}}
        raise refusal("GetObjectLockConfiguration", "ObjectLockConfigurationNotFoundError", status=404)

    def get_object_retention(self, **request: Any) -> Mapping[str, Any]:
        """GetObjectRetention."""
        until = self._bucket("GetObjectRetention", request).locks.get((request["Key"], request["VersionId"]))
        if until is None:
            raise refusal("GetObjectRetention", "NoSuchObjectLockConfiguration", status=404)
        return {"Retention": {"Mode": "COMPLIANCE", "RetainUntilDate": datetime.fromtimestamp(until, UTC)}}

    def get_object_legal_hold(self, **request: Any) -> Mapping[str, Any]:
        """GetObjectLegalHold."""
        locks = self._bucket("GetObjectLegalHold", request).locks
        if locks.get((request["Key"], request["VersionId"]), 0) is not None:
            raise refusal("GetObjectLegalHold", "NoSuchObjectLockConfiguration", status=404)
        return {"LegalHold": {"Status": "ON"}}

    # -- the inside

    def _bucket(self, operation: str, request: Mapping[str, Any]) -> Bucket:
        if request["Bucket"] not in self.buckets:
            raise refusal(operation, "NoSuchBucket", status=404)
        return self.buckets[request["Bucket"]]

    def _upload(self, operation: str, request: Mapping[str, Any]) -> tuple[Bucket, tuple[str, str]]:
        bucket, place = self._bucket(operation, request), (request["Key"], request["UploadId"])
        if place not in bucket.uploads:
            raise refusal(operation, "NoSuchUpload", status=404)
        return bucket, place

    def _write(self, name: str, key: str, *, marker: bool, body: bytes = b"") -> Version:
        bucket = self.buckets[name]
        self.moment += 1
        # Ids whose order tells nothing.
        id_ = sha256(f"{name}{self.moment}".encode()).hexdigest()[:12] if bucket.versioning == "Enabled" else "null"
        version = Version(key=key, id=id_, marker=marker, written=self.moment, modified=self.now, body=body)
        bucket.versions[key, id_] = version
        return version

    def _delete(self, name: str, key: str, id_: str | None) -> Mapping[str, Any]:
        bucket = self.buckets[name]
        if id_ is None and bucket.versioning:
            if bucket.versioning == "Suspended":
                self._remove(name, key, "null")
            made = self._write(name, key, marker=True)
            return {"Key": key, "DeleteMarker": True, "DeleteMarkerVersionId": made.id}
        gone = self._remove(name, key, id_ or "null")
        answer: dict[str, Any] = {"Key": key, **({"VersionId": id_} if id_ else {})}
        return {**answer, "DeleteMarker": True, "DeleteMarkerVersionId": id_} if gone and gone.marker else answer

    def _remove(self, name: str, key: str, id_: str) -> Version | None:
        version = self.buckets[name].versions.pop((key, id_), None)
        if version is not None:
            self.buckets[name].gone[key, id_] = version.written
            self.removed.append((name, version))
        return version

    def _behind(self, bucket: Bucket, ordered: Sequence[Version], request: Mapping[str, Any]) -> list[Version]:
        key, id_ = request["KeyMarker"], request.get("VersionIdMarker")
        if id_ is None:
            return [one for one in ordered if one.key.encode() > key.encode()]
        marked = bucket.versions.get((key, id_))
        lost = self._manners.lost_marker if marked is None else LostMarker.NEXT_VERSION
        if lost is LostMarker.NOWHERE:
            return []
        written = marked.written if marked else bucket.gone.get((key, id_), 0)
        return [
            one
            for one in ordered
            if one.key.encode() > key.encode()
            or (one.key == key and one.written < written and lost is LostMarker.NEXT_VERSION)
        ]

    def _page(self, left: Sequence[Any], limit: int, *, front: bool) -> tuple[Sequence[Any], bool]:
        # An answer without a marker to go on from would lead nowhere, so the first page is never an empty one.
        size = min(limit, max(next(self._pages), 1 if front else 0))
        return left[:size], len(left) > size


def _shown(version: Version, latest: Mapping[str, str]) -> Mapping[str, Any]:
    shown = {
        "Key": version.key,
        "VersionId": version.id,
        "IsLatest": latest[version.key] == version.id,
        "LastModified": datetime.fromtimestamp(version.modified, UTC),
    }
    return shown if version.marker else {**shown, "Size": len(version.body)}


def entries(buckets: Mapping[str, Bucket]) -> Iterator[tuple[str, Version | Upload]]:
    """Everything that is there, with its bucket's name."""
    for name, bucket in buckets.items():
        yield from ((name, one) for one in bucket.versions.values())
        yield from ((name, one) for one in bucket.uploads.values())
