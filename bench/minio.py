"""MinIO on this machine, with one versioned bucket: a real S3 server, for what a bucket on paper cannot tell."""

from __future__ import annotations

import base64
import hashlib
import http.client
import shutil
import socket
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import local
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape

from bench.buckets import s3_client
from bench.processes import CREDENTIALS, BenchError, endpoint, running
from bench.tools import MINIO
from bench.wire import HOST

BUCKET = "files"
VERSIONS_OF_A_KEY = 2
AT_ONCE = 8
READY_WITHIN = 60.0
_ANYBODY = (
    '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": ["*"]}, "Action": '
    '["s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion"], "Resource": ["arn:aws:s3:::files/*"]}]}'
)
"""Lets seeding and the server's own measurement go without signatures, which would take longer than the server."""


@dataclass(frozen=True, slots=True)
class Minio:
    """A running server."""

    port: int
    _connections: local = field(default_factory=local)

    def client(self) -> Any:
        """A boto3 client of our own, for seeding and for looking."""
        return s3_client(endpoint(self.port))

    def make_bucket(self) -> None:
        """Versioned, and open to anybody on this machine."""
        client = self.client()
        client.create_bucket(Bucket=BUCKET)
        client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        client.put_bucket_policy(Bucket=BUCKET, Policy=_ANYBODY)

    def seed(self, prefix: str, versions: int) -> None:
        """So many empty versions, two of each key."""
        names = [f"{prefix}album-{number:08}.jpg" for number in range(versions // VERSIONS_OF_A_KEY)]
        for _ in range(VERSIONS_OF_A_KEY):
            self._each(lambda name: self._call("PUT", f"/{BUCKET}/{quote(name)}", b""), names)

    def delete(self, calls: Iterable[Sequence[tuple[str, str]]], at_once: int) -> None:
        """DeleteObjects calls for these (key, version id), so many at a time: nothing but the server's own work."""
        bodies = [_delete_body(entries) for entries in calls]
        self._each(lambda body: self._call("POST", f"/{BUCKET}?delete", body), bodies, at_once)

    def _each(self, call: Callable[[Any], object], values: Iterable[Any], at_once: int = AT_ONCE) -> None:
        with ThreadPoolExecutor(at_once) as threads:
            for _ in threads.map(call, values):
                pass

    def _call(self, method: str, target: str, body: bytes) -> None:
        if not hasattr(self._connections, "open"):
            self._connections.open = http.client.HTTPConnection(HOST, self.port)
        connection: http.client.HTTPConnection = self._connections.open
        digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        connection.request(method, target, body, {"Content-MD5": digest})
        answer = connection.getresponse()
        said = answer.read()
        if answer.status not in (200, 204) or b"<Error>" in said:
            raise BenchError(f"{method}: {answer.status} {said[:300]!r}")


def _delete_body(entries: Sequence[tuple[str, str]]) -> bytes:
    objects = "".join(
        f"<Object><Key>{escape(key)}</Key><VersionId>{version}</VersionId></Object>" for key, version in entries
    )
    return f"<Delete>{objects}<Quiet>true</Quiet></Delete>".encode()


@contextmanager
def seeded(prefix: str, versions: int) -> Iterator[Path]:
    """A directory with the data of a server that holds so many versions; each contender is given a copy."""
    with directory() as data:
        with started(data) as minio:
            minio.make_bucket()
            minio.seed(prefix, versions)
        yield data


@contextmanager
def copied(data: Path) -> Iterator[Minio]:
    """A server over a copy of a directory of data."""
    with directory() as copy:
        shutil.copytree(data, copy, dirs_exist_ok=True)
        with started(copy) as minio:
            yield minio


@contextmanager
def directory() -> Iterator[Path]:
    """A directory of its own, in memory where the machine has such a file system: the disk is not what is measured."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


@contextmanager
def started(data: Path) -> Iterator[Minio]:
    """A server over this directory."""
    port = _free_port()
    variables = {
        "MINIO_ROOT_USER": CREDENTIALS["AWS_ACCESS_KEY_ID"],
        "MINIO_ROOT_PASSWORD": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        "MINIO_BROWSER": "off",
        "MINIO_UPDATE": "off",
        "MINIO_SCANNER_SPEED": "slowest",
        "HOME": str(data),
    }
    command = [str(MINIO.path()), "server", str(data), "--address", f"{HOST}:{port}", "--quiet"]
    with running(command, **variables) as process:
        ends = time.monotonic() + READY_WITHIN
        while not _is_ready(port):
            if process.poll() is not None or time.monotonic() > ends:
                raise BenchError("minio does not come up")
            time.sleep(0.05)
        yield Minio(port)


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"{endpoint(port)}/minio/health/ready", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
