"""The bucket on paper and the proxy in front of it behave as S3 does, as far as a bench goes by them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from bench.buckets import answering_like, on_paper, s3_client
from bench.contenders import versions_by_collection
from bench.paper_bucket import UPLOADS, Bucket
from bench.processes import CREDENTIALS, endpoint
from bench.proxy import Proxy
from bench.wire import DELETE_OBJECTS, LIST_VERSIONS, Head

pytestmark = pytest.mark.exhaustive

PREFIX = "users/user-a1b2/"
VERSIONS = 2_500


@pytest.fixture
def bucket() -> Iterator[Any]:
    with on_paper(PREFIX, VERSIONS) as made:
        yield made


def head(method: str, target: str) -> Head:
    return Head(method=method, target=target, length=0, raw=b"")


@pytest.mark.parametrize(
    ("method", "target", "operation"),
    [
        ("GET", "/files?versions&prefix=users%2F", "ListObjectVersions"),
        ("GET", "/files?uploads&prefix=users%2F", "ListMultipartUploads"),
        ("POST", "/files?delete", "DeleteObjects"),
        ("DELETE", "/files/users/a.jpg?versionId=1&x-id=DeleteObject", "DeleteObject"),
        ("DELETE", "/files/users/a.jpg?uploadId=1", "AbortMultipartUpload"),
        ("PUT", "/files/delete?x=1", ""),
    ],
)
def test_a_request_is_known_by_its_method_and_query(method: str, target: str, operation: str) -> None:
    assert head(method, target).operation == operation


def test_a_listing_shows_every_version_once_in_order_over_its_pages(bucket: Any) -> None:
    client = s3_client(endpoint(bucket.port))
    pages = list(client.get_paginator("list_object_versions").paginate(Bucket=bucket.name, Prefix=PREFIX))
    found = [(one["Key"], one["VersionId"]) for page in pages for one in page["Versions"]]
    assert [len(page["Versions"]) for page in pages] == [1000, 1000, 500]
    assert len(set(found)) == VERSIONS
    assert found == sorted(found)
    assert bucket.left() == VERSIONS + UPLOADS


def test_a_listing_goes_on_after_a_marker_whose_version_is_deleted() -> None:
    paper = Bucket(10, PREFIX)
    marker = {"key-marker": paper.key(3), "version-id-marker": f"{3:032}"}
    paper.delete_one(paper.key(3), 3)
    page = paper.list_versions({"max-keys": "2", **marker})
    assert [f"<VersionId>{number:032}</VersionId>" in page for number in (3, 4, 5, 6)] == [False, True, True, False]


def test_a_delete_by_a_version_of_another_key_deletes_nothing() -> None:
    paper = Bucket(10, PREFIX)
    paper.delete_one(paper.key(4), 0)
    assert paper.left(0, 10) == list(range(10))


def test_the_collection_of_boto3_empties_the_bucket_through_the_proxy_and_leaves_the_uploads(
    bucket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with answering_like(bucket, {"DeleteObjects": 0.001}) as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint(port))
        versions_by_collection({"bucket": bucket.name, "prefix": PREFIX}, None)
    assert port != bucket.port
    assert bucket.left() == UPLOADS


def test_deletes_beyond_a_second_s_budget_are_told_to_slow_down_and_delete_nothing() -> None:
    with on_paper(PREFIX, 100, per_second=10) as bucket:
        client = s3_client(endpoint(bucket.port))
        named = [{"Key": key, "VersionId": version} for key, version in bucket.versions()]
        with pytest.raises(ClientError) as refused:
            client.delete_objects(Bucket=bucket.name, Delete={"Objects": named})
        left = bucket.left()
    assert refused.value.response["Error"]["Code"] == "SlowDown"
    assert left == 100 + UPLOADS


def test_the_proxy_keeps_back_each_request_as_long_as_its_operation_asks_for(
    bucket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[float] = []

    async def sleep(seconds: float) -> None:
        kept.append(seconds)

    monkeypatch.setattr("bench.proxy.asyncio.sleep", sleep)
    proxy = Proxy(port=bucket.port, delays={LIST_VERSIONS: 7.0, DELETE_OBJECTS: 9.0})
    asyncio.run(_through(proxy, bucket.name))
    assert kept == [7.0, 9.0, 0]
    assert bucket.left() == VERSIONS + UPLOADS - 1


async def _through(proxy: Proxy, name: str) -> None:
    """A listing, a delete of the first version and a look at uploads, one after the other on one connection."""
    body = f"<Delete><Object><Key>{PREFIX}album-00000000.jpg</Key><VersionId>{0:032}</VersionId></Object></Delete>"
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
        for line, content in (("GET", "versions"), ("POST", "delete"), ("GET", "uploads")):
            sent = body.encode() if line == "POST" else b""
            request = f"{line} /{name}?{content} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(sent)}\r\n\r\n"
            writer.write(request.encode() + sent)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
        writer.close()
        await writer.wait_closed()
