"""A user's files on some server: what the contenders of bench.files are given, and a look at what they leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config

from bench.processes import CREDENTIALS, endpoint, own_server
from bench.wire import DELETE_OBJECT, DELETE_OBJECTS, LIST_UPLOADS, LIST_VERSIONS

LIKE_S3: Mapping[str, float] = {LIST_VERSIONS: 0.1, LIST_UPLOADS: 0.1, DELETE_OBJECTS: 0.3, DELETE_OBJECT: 0.03}
"""Operation -> seconds until S3 answers: about what it takes in a Region. They are assumptions, the same for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """A bucket that holds one user's files and nothing else."""

    name: str
    prefix: str
    port: int
    """Of its server."""

    def left(self) -> int:
        """How many versions, delete markers and unfinished uploads a fresh listing shows; no code of the handlers."""
        client = s3_client(endpoint(self.port))
        pages = client.get_paginator("list_object_versions").paginate(Bucket=self.name)
        entries = sum(len(page.get("Versions", ())) + len(page.get("DeleteMarkers", ())) for page in pages)
        return entries + len(client.list_multipart_uploads(Bucket=self.name).get("Uploads", ()))

    def versions(self) -> list[tuple[str, str]]:
        """(key, version id) of each version."""
        pages = s3_client(endpoint(self.port)).get_paginator("list_object_versions").paginate(Bucket=self.name)
        return [(one["Key"], one["VersionId"]) for page in pages for one in page.get("Versions", ())]


def s3_client(url: str) -> Any:
    """A boto3 client that belongs to the bench."""
    config = Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 3})
    session = boto3.Session(
        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        region_name=CREDENTIALS["AWS_DEFAULT_REGION"],
    )
    return session.client("s3", endpoint_url=url, config=config)


@contextmanager
def on_paper(prefix: str, versions: int, *, per_second: int = 0) -> Iterator[Bucket]:
    """A bucket of bench.paper_bucket, with three unfinished uploads besides."""
    arguments = ("--versions", str(versions), "--prefix", prefix, "--per-second", str(per_second))
    with own_server("bench.paper_bucket", *arguments) as port:
        yield Bucket(name="paper", prefix=prefix, port=port)


@contextmanager
def answering_like(bucket: Bucket, delays: Mapping[str, float]) -> Iterator[int]:
    """The port under which the bucket answers with these delays; its own where there are none."""
    if not delays:
        yield bucket.port
        return
    arguments = [text for name, seconds in delays.items() for text in ("--delay", f"{name}={seconds}")]
    with own_server("bench.proxy", "--to", str(bucket.port), *arguments) as port:
        yield port
