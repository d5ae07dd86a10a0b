"""A bucket that exists on paper only: any number of versions without any storage, as fast as HTTP on this machine is.

    python -m bench.paper_bucket --versions 1000000 --prefix users/user-a1b2/

It speaks what a deletion asks (listings of versions and uploads, DeleteObjects, DeleteObject, AbortMultipartUpload)
over real HTTP and in S3's form (https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectVersions.html), so that
whoever is measured does all of their own work, and the server is never what limits them. What was deleted is gone from
the next listing. Prints its port as the first line.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import time
from dataclasses import dataclass, field
from urllib.parse import quote

from bench.wire import (
    ABORT_UPLOAD,
    DELETE_OBJECT,
    DELETE_OBJECTS,
    LIST_UPLOADS,
    LIST_VERSIONS,
    Head,
    read_head,
    serve_until_killed,
)

VERSIONS_OF_A_KEY = 2
UPLOADS = 3
"""Unfinished uploads that are there at first."""
_NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
_OBJECT = re.compile(r"<Key>([^<]*)</Key><VersionId>(\d+)</VersionId>")
_SLOW_DOWN = "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_ENTRY = (
    "<Version><Key>%salbum-%08d.jpg</Key><VersionId>%032d</VersionId><IsLatest>%s</IsLatest>"
    "<LastModified>2026-01-31T12:00:00.000Z</LastModified><ETag>&quot;d41d8cd98f00b204e9800998ecf8427e&quot;</ETag>"
    "<Size>0</Size><StorageClass>STANDARD</StorageClass><Owner><ID>"
    "75aa57f09aa0c8caeab4f8c24e99d10f8e7faeebf76c078efc7c6caea54ba06a</ID></Owner></Version>"
)
_LATEST = {True: "true", False: "false"}


def unset(flags: bytearray, start: int, most: int) -> list[int]:
    """The first places, from this one on, whose flag is 0."""
    found: list[int] = []
    while len(found) < most and (start := flags.find(0, start)) >= 0:
        found.append(start)
        start += 1
    return found


@dataclass(slots=True)
class Bucket:
    """Which versions are still there. Version number n belongs to key n // VERSIONS_OF_A_KEY."""

    versions: int
    prefix: str
    per_second: int = 0
    """Keys that DeleteObjects takes in a second, as S3's 3,500 a prefix; 0: any number. Beyond them: SlowDown."""
    uploads: set[str] = field(default_factory=lambda: {f"upload-{number}" for number in range(UPLOADS)})
    """Ids of the unfinished uploads, each for a key of its own."""
    quoted: str = field(init=False)
    """The prefix as a listing shows it."""
    _gone: bytearray = field(init=False)
    _budget: float = field(init=False)
    _looked_at: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.quoted = quote(self.prefix)
        self._gone = bytearray(self.versions)
        self._budget = self.per_second

    def key(self, number: int) -> str:
        """The key of a version."""
        return f"{self.prefix}album-{number // VERSIONS_OF_A_KEY:08}.jpg"

    def left(self, start: int, most: int) -> list[int]:
        """The first versions, from this one on, that are still there."""
        return unset(self._gone, start, most)

    def after(self, key: str, version: str) -> int:
        """The first version after a marker, which need not exist any more."""
        if not key:
            return 0
        if version:
            return int(version) + 1
        number = int(key.removeprefix(f"{self.prefix}album-").removesuffix(".jpg"))
        return (number + 1) * VERSIONS_OF_A_KEY

    def list_versions(self, query: dict[str, str]) -> str:
        """A page in S3's form."""
        size = int(query.get("max-keys", "1000"))
        start = self.after(query.get("key-marker", ""), query.get("version-id-marker", ""))
        found = self.left(start, size + 1)
        page, more = found[:size], len(found) > size
        entries = "".join(
            # The prefix is all of a key that needs it, and quoting each key takes as long as all the rest.
            _ENTRY % (self.quoted, number // VERSIONS_OF_A_KEY, number, _LATEST[number % VERSIONS_OF_A_KEY == 0])
            for number in page
        )
        marker = (
            f"<NextKeyMarker>{quote(self.key(page[-1]))}</NextKeyMarker>"
            f"<NextVersionIdMarker>{page[-1]:032}</NextVersionIdMarker>"
            if more
            else ""
        )
        return (
            f"<ListVersionsResult {_NAMESPACE}><Name>paper</Name><Prefix>{quote(self.prefix)}</Prefix>{marker}"
            f"<MaxKeys>{size}</MaxKeys><EncodingType>url</EncodingType><IsTruncated>{str(more).lower()}</IsTruncated>"
            f"{entries}</ListVersionsResult>"
        )

    def delete(self, body: str) -> str | None:
        """Delete what the call names by key and version; its answer, or None where S3 would say SlowDown."""
        named = [(key, int(version)) for key, version in _OBJECT.findall(body)]
        if not self._affords(len(named)):
            return None
        for key, number in named:
            self.delete_one(key, number)
        quiet = "<Quiet>true</Quiet>" in body
        said = (
            ""
            if quiet
            else "".join(
                f"<Deleted><Key>{key}</Key><VersionId>{number:032}</VersionId></Deleted>" for key, number in named
            )
        )
        return f"<DeleteResult {_NAMESPACE}>{said}</DeleteResult>"

    def delete_one(self, key: str, number: int) -> None:
        """Delete a version; one that is not there is as good as deleted."""
        if number < self.versions and self.key(number) == key:
            self._gone[number] = 1

    def list_uploads(self) -> str:
        """One page in S3's form, which is decoded by whoever asked for its encoding."""
        entries = "".join(
            f"<Upload><Key>{quote(self.prefix + one)}</Key><UploadId>{one}</UploadId>"
            "<Initiated>2026-01-31T12:00:00.000Z</Initiated></Upload>"
            for one in sorted(self.uploads)
        )
        return (
            f"<ListMultipartUploadsResult {_NAMESPACE}><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>"
            f"{entries}</ListMultipartUploadsResult>"
        )

    def _affords(self, keys: int) -> bool:
        if not self.per_second:
            return True
        now = time.monotonic()
        self._budget = min(self.per_second, self._budget + (now - self._looked_at) * self.per_second)
        self._looked_at = now
        if self._budget < keys:
            return False
        self._budget -= keys
        return True

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        while head := await read_head(reader):
            if b"100-continue" in head.raw:
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = await reader.readexactly(head.length)
            status, text = self.answer(head, body.decode())
            content = f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'.encode() if text else b""
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {len(content)}\r\n\r\n".encode()
            )
            writer.write(content)
            await writer.drain()
        writer.close()

    def answer(self, head: Head, body: str) -> tuple[str, str]:
        """Status line and document."""
        query = head.query
        if head.method == "HEAD":
            return "404 Not Found", ""
        if head.operation == LIST_VERSIONS:
            return "200 OK", self.list_versions(query)
        if head.operation == LIST_UPLOADS:
            return "200 OK", self.list_uploads()
        if head.operation == DELETE_OBJECTS:
            said = self.delete(body)
            return ("200 OK", said) if said is not None else ("503 Slow Down", _SLOW_DOWN)
        if head.operation == DELETE_OBJECT:
            if not self._affords(1):
                return "503 Slow Down", _SLOW_DOWN
            self.delete_one(head.key, int(query["versionId"]))
            return "204 No Content", ""
        return self._answer_rarer(head.operation, query)

    def _answer_rarer(self, operation: str, query: dict[str, str]) -> tuple[str, str]:
        if operation == ABORT_UPLOAD and query["uploadId"] in self.uploads:
            self.uploads.remove(query["uploadId"])
            return "204 No Content", ""
        if "uploadId" in query:
            return "404 Not Found", "<Error><Code>NoSuchUpload</Code></Error>"
        if operation == "GetBucketVersioning":
            status = "<Status>Enabled</Status>"
            return "200 OK", f"<VersioningConfiguration {_NAMESPACE}>{status}</VersioningConfiguration>"
        return "501 Not Implemented", "<Error><Code>NotImplemented</Code></Error>"


def main() -> int:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--versions", type=int, required=True)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--per-second", type=int, default=0)
    given = parser.parse_args()
    bucket = Bucket(given.versions, given.prefix, given.per_second)
    asyncio.run(serve_until_killed(bucket.serve))
    return 0


if __name__ == "__main__":
    sys.exit(main())
