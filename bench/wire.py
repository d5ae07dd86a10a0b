"""HTTP/1.1 as far as the benches' own servers need it, and which S3 operation a request is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

LONGEST_HEAD = 1 << 16
HOST = "127.0.0.1"

LIST_VERSIONS, LIST_UPLOADS = "ListObjectVersions", "ListMultipartUploads"
DELETE_OBJECTS, DELETE_OBJECT, ABORT_UPLOAD = "DeleteObjects", "DeleteObject", "AbortMultipartUpload"
_OPERATIONS = {
    ("POST", "delete"): DELETE_OBJECTS,
    ("GET", "versions"): LIST_VERSIONS,
    ("GET", "uploads"): LIST_UPLOADS,
    ("GET", "list-type"): "ListObjectsV2",
    ("GET", "versioning"): "GetBucketVersioning",
    ("GET", "uploadId"): "ListParts",
    ("DELETE", "versionId"): DELETE_OBJECT,
    ("DELETE", "uploadId"): ABORT_UPLOAD,
}
"""Method and the parameter that tells them apart (https://docs.aws.amazon.com/AmazonS3/latest/API/)."""

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A request without its body."""

    method: str
    target: str
    """Path and query, as sent."""
    length: int
    """Bytes of the body that follows."""
    raw: bytes
    """As it came, with the empty line at its end."""

    @property
    def query(self) -> dict[str, str]:
        """Each parameter with its first value; one without a value has an empty one."""
        found = parse_qs(urlsplit(self.target).query, keep_blank_values=True)
        return {name: values[0] for name, values in found.items()}

    @property
    def key(self) -> str:
        """The object's key, where the path is /bucket/key."""
        return unquote(urlsplit(self.target).path).lstrip("/").partition("/")[2]

    @property
    def operation(self) -> str:
        """The S3 operation, where the benches know it; "" for any other."""
        found = (_OPERATIONS.get((self.method, parameter)) for parameter in self.query)
        return next((name for name in found if name), "")


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """The next request's head; None when the client has closed the connection.

    Raises:
        ValueError: a body whose length the head does not tell.
    """
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionResetError):
        return None
    first, *lines = raw.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if "transfer-encoding" in fields:
        raise ValueError("a chunked body")
    return Head(method=method, target=target, length=int(fields.get("content-length", "0")), raw=raw)


async def serve_until_killed(serve: Serve) -> None:
    """Serve connections on a free port of this machine, which is printed as the first line."""
    server = await asyncio.start_server(serve, HOST, 0, limit=LONGEST_HEAD)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()
