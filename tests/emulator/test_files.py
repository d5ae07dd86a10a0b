"""Buckets of every kind in whole requests on the emulator: the deployed function, its own role, real listings.

Checked here: versions, markers and uploads over several pages, versions that were written while versioning was
suspended, a bucket without versioning, Object Lock in both modes and a legal hold, and the preflight. The emulator
breaks on keys with \\x01 or \\x1f and never answers SlowDown or a redirect: those are in
tests/unit/handlers/steps/test_files_keys.py and its neighbours, over S3's own wire format.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

from handlers.core.states import Status
from local.demo_stores import BUCKET, Stores, User
from local.emulator import Emulator
from local.waiting import wait_until
from tests.emulator.stack import LIMIT, Stack, deploy_stack, make_lockable_bucket
from tests.emulator.test_deletion import deleted

pytestmark = pytest.mark.long

PLAIN, VAULT = "acme-local-plain", "acme-local-vault"
PREFIX = "{user_id}/"
KEYS = ("a b", "a+b", "a%2Fb", "a&b<c>", "äöü-日本-😀", "folder/", "a//b", "a/../b", "x" * 980)
MANY = 550
"""Files of which each is written twice: two pages of a listing, with delete markers on both."""
MODES = ("GOVERNANCE", "COMPLIANCE")


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """One for all tests of this file: each brings users of its own."""
    with Emulator.start(skip_waits=True) as emulator:
        stores = Stores(emulator)
        stores.make()
        place = {"CreateBucketConfiguration": {"LocationConstraint": emulator.region}}
        emulator.client("s3").create_bucket(Bucket=PLAIN, **place)
        make_lockable_bucket(emulator, VAULT)
        file_stores = [
            {"name": "files", "bucket": BUCKET, "prefix": "users/{user_id}/"},
            {"name": "plain", "bucket": PLAIN, "prefix": PREFIX},
            {"name": "vault", "bucket": VAULT, "prefix": PREFIX},
        ]
        yield deploy_stack(emulator, stores, file_stores=file_stores)


def put(stack: Stack, bucket: str, key: str, **fields: Any) -> str:
    """One more version; its id."""
    answer = stack.client("s3").put_object(Bucket=bucket, Key=key, Body=key.encode(), **fields)
    return str(answer.get("VersionId", "null"))


def left(stack: Stack, bucket: str, prefix: str) -> set[tuple[str, str]]:
    """(key, version id) of everything under a prefix."""
    pages = stack.client("s3").get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix)
    return {
        (entry["Key"], entry["VersionId"])
        for page in pages
        for kind in ("Versions", "DeleteMarkers")
        for entry in page.get(kind, ())
    }


def completed(stack: Stack, user: User) -> str:
    """A request that ran to its end; its id."""
    request = stack.started(user)
    record = stack.ended(request)
    assert record.status is Status.COMPLETED, record
    return request


def test_versions_markers_and_uploads_over_several_pages_are_gone_with_an_exact_count(stack: Stack) -> None:
    user, other = stack.sign_up(files=0, clean_ups=0), stack.sign_up()
    prefix, before = f"users/{user.user_id}/", stack.digest(other)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: put(stack, BUCKET, f"{prefix}{number % MANY:05}"), range(2 * MANY)))
        uploads = threads.map(
            lambda number: stack.client("s3").create_multipart_upload(Bucket=BUCKET, Key=f"{prefix}{number}"), range(20)
        )
        assert len(list(uploads)) == 20
    stack.client("s3").delete_objects(
        Bucket=BUCKET, Delete={"Objects": [{"Key": f"{prefix}{number:05}"} for number in range(0, MANY, 2)]}
    )
    request = completed(stack, user)
    assert left(stack, BUCKET, prefix) == set()
    assert {name: number for name, number in deleted(stack, request).items() if "files" in name} == {
        "files": 2 * MANY + MANY // 2,
        "files.uploads": 21,
    }
    assert stack.digest(other) == before


def test_one_key_with_more_versions_than_a_page_is_emptied_with_an_exact_count(stack: Stack) -> None:
    user = stack.sign_up(files=0, clean_ups=0)
    key = f"users/{user.user_id}/draft"
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: put(stack, BUCKET, key), range(1_050)))
    request = completed(stack, user)
    assert left(stack, BUCKET, key) == set()
    assert deleted(stack, request)["files"] == 1_050


def test_keys_with_unusual_characters_go_as_versions_and_as_uploads(stack: Stack) -> None:
    user = stack.sign_up(files=0, clean_ups=0)
    prefix = f"users/{user.user_id}/"
    for key in KEYS:
        put(stack, BUCKET, f"{prefix}{key}")
        stack.client("s3").create_multipart_upload(Bucket=BUCKET, Key=f"{prefix}{key}")
    request = completed(stack, user)
    assert left(stack, BUCKET, prefix) == set()
    assert "Uploads" not in stack.client("s3").list_multipart_uploads(Bucket=BUCKET, Prefix=prefix)
    assert deleted(stack, request)["files"] == len(KEYS)
    assert deleted(stack, request)["files.uploads"] == len(KEYS) + 1


def test_versions_of_a_time_with_suspended_versioning_go_too(stack: Stack) -> None:
    user = stack.sign_up(files=0, clean_ups=0)
    key, s3 = f"users/{user.user_id}/1", stack.client("s3")
    put(stack, BUCKET, key)
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Suspended"})
    null = put(stack, BUCKET, key)
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    put(stack, BUCKET, key)
    request = completed(stack, user)
    assert null == "null"
    assert left(stack, BUCKET, key) == set()
    assert deleted(stack, request)["files"] == 3


def test_a_bucket_without_versioning_is_emptied(stack: Stack) -> None:
    user, other = stack.sign_up(), stack.sign_up()
    for number in range(1_050):
        put(stack, PLAIN, f"{user.user_id}/{number}")
    put(stack, PLAIN, f"{other.user_id}/1")
    request = completed(stack, user)
    assert left(stack, PLAIN, f"{user.user_id}/") == set()
    assert left(stack, PLAIN, f"{other.user_id}/") == {(f"{other.user_id}/1", "null")}
    assert deleted(stack, request)["plain"] == 1_050


def test_what_is_under_retention_holds_the_request_until_it_ends_and_goes_then(stack: Stack) -> None:
    user = stack.sign_up()
    ends = int(time.time()) + 15
    until = datetime.fromtimestamp(ends, UTC)
    locked = {
        (key, put(stack, VAULT, key, ObjectLockMode=mode, ObjectLockRetainUntilDate=until))
        for mode, key in ((mode, f"{user.user_id}/{mode}") for mode in MODES)
    }
    put(stack, VAULT, f"{user.user_id}/free")
    request = stack.started(user)
    held = stack.ended(request)
    kept = left(stack, VAULT, f"{user.user_id}/")
    files = left(stack, BUCKET, f"users/{user.user_id}/")
    assert (held.status, held.due_at) == (Status.HELD, ends), held
    assert stack.item(request)["last_error"]["M"]["locked"] == {"N": str(len(MODES))}
    assert (kept, files) == (locked, set())

    # A sweep within that very second would find the locks still on, and hold the request for another minute.
    wait_until(time.time, lambda now: now > ends + 1, limit=20)
    record = wait_until(
        lambda: (stack.invoke("sweep", {}), stack.requests.record(request))[1],
        lambda record: record.status is Status.COMPLETED,
        limit=2 * LIMIT,
    )

    assert left(stack, VAULT, f"{user.user_id}/") == set()
    assert record.steps["DeleteFiles"].deleted["vault"] == len(MODES) + 1


def test_a_legal_hold_holds_the_request_without_an_end(stack: Stack) -> None:
    user = stack.sign_up()
    locked = put(stack, VAULT, f"{user.user_id}/kept", ObjectLockLegalHoldStatus="ON")
    put(stack, VAULT, f"{user.user_id}/free")
    request = stack.started(user)
    held = stack.ended(request)
    assert held.status is Status.HELD, held
    assert "due_at" not in stack.item(request)
    assert left(stack, VAULT, f"{user.user_id}/") == {(f"{user.user_id}/kept", locked)}
    assert left(stack, BUCKET, f"users/{user.user_id}/") == set()


def test_a_bucket_that_vanished_ends_the_request_before_anything_is_deleted(stack: Stack) -> None:
    user = stack.sign_up()
    before, s3 = stack.counts(user), stack.client("s3")
    for key, version in left(stack, PLAIN, ""):
        s3.delete_object(Bucket=PLAIN, Key=key, VersionId=version)
    s3.delete_bucket(Bucket=PLAIN)
    request = stack.started(user)
    record = stack.ended(request)
    s3.create_bucket(Bucket=PLAIN, CreateBucketConfiguration={"LocationConstraint": stack.emulator.region})
    assert record.status is Status.FAILED, record
    assert stack.counts(user) == before
    assert "StoreUnfit" in str(stack.item(request)["last_error"])
