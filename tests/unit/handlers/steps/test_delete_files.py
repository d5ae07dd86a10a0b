"""DeleteFiles in particular: what a bucket can do to it. A bucket held in memory answers where moto cannot."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote_plus

import pytest

from handlers.core.errors import StoreMissing
from handlers.core.stores import FileStore, to_json
from tests.unit.handlers.steps.bucket import Bucket, ok
from tests.wire import Crash, refused
from tests.world import BUCKET, USER, Context, World

pytestmark = pytest.mark.exhaustive

PREFIX = f"users/{USER}/"
STEP = "DeleteFiles"


def batch_of(world: World, request: str) -> Mapping[str, Any]:
    batch: Mapping[str, Any] = world.record(request)["steps"][STEP].get("batch", {})
    return batch


def test_three_versions_and_a_delete_marker_go_by_version_id_and_nothing_is_listed_any_more(world: World) -> None:
    world.sign_up()
    request = world.claimed()
    versions = world.versions(PREFIX)

    world.run(STEP, request)

    assert world.versions() == []
    (call,) = world.wire.of("DeleteObjects")
    sent = [(one["Key"], one["VersionId"]) for one in call.params["Delete"]["Objects"]]
    assert sorted(sent) == sorted(versions)
    assert all(f"<VersionId>{version}</VersionId>".encode() in call.wire["body"] for _, version in versions)
    assert b"<Quiet>true</Quiet>" in call.wire["body"]
    listing = world.wire.of("ListObjectVersions")[0]
    assert listing.wire["query_string"] == {"encoding-type": "url", "max-keys": 1000, "prefix": PREFIX}
    assert listing.wire["url_path"].endswith("?versions")


@pytest.mark.parametrize("keys", [1, 40, 2501])
@pytest.mark.parametrize("markers", [False, True])
def test_2501_versions_go_in_calls_of_at_most_1000_with_an_exact_count(
    world: World, bucket: Bucket, request_id: str, keys: int, markers: bool
) -> None:
    for number in range(2501):
        bucket.put(f"{PREFIX}{number % keys:04}", marker=markers and number % 3 == 0)

    answer = world.run_until_done(STEP, request_id)

    assert answer["done"]
    assert bucket.entries == []
    assert max(len(batch) for batch in bucket.batches) <= 1000
    assert len(bucket.batches) <= 6
    assert world.deleted(request_id, STEP) == {"photos": 2501}


@pytest.mark.parametrize("keys", [1, 40, 2501])
@pytest.mark.parametrize("deleted", [0, 1, 500, 1000])
@pytest.mark.parametrize("markers", [False, True])
def test_a_crash_in_the_middle_of_a_batch_leaves_an_exact_count(
    world: World, bucket: Bucket, request_id: str, keys: int, deleted: int, markers: bool
) -> None:
    for number in range(1500):
        bucket.put(f"{PREFIX}{number % keys:04}", marker=markers and number % 2 == 0)
    bucket.crash_in_batch = deleted
    with pytest.raises(Crash):
        world.run(STEP, request_id)

    world.run_until_done(STEP, request_id)

    assert bucket.entries == []
    assert world.deleted(request_id, STEP) == {"photos": 1500}


def test_a_version_written_after_the_batch_was_listed_is_not_taken_for_a_survivor(
    world: World, bucket: Bucket, request_id: str
) -> None:
    for number in range(10):
        bucket.put(f"{PREFIX}{number}")
    bucket.crash_in_batch = 10
    with pytest.raises(Crash):
        world.run(STEP, request_id)
    for number in range(4):
        bucket.put(f"{PREFIX}{number}", modified=1_000_001)

    world.run_until_done(STEP, request_id)

    assert world.deleted(request_id, STEP) == {"photos": 14}


def test_the_record_keeps_bounds_and_size_of_a_batch_but_no_list(world: World, bucket: Bucket, request_id: str) -> None:
    for number in range(1000):
        bucket.put(f"{PREFIX}{number:04}", modified=1_000_000 + number)
    bucket.crash_in_batch = 0

    with pytest.raises(Crash):
        world.run(STEP, request_id)

    assert batch_of(world, request_id) == {
        "place": "photos",
        "size": 1000,
        "first_key": f"{PREFIX}0000",
        "last_key": f"{PREFIX}0999",
        "newest": 1_000_999,
        "kind": "",
        "next_id": "",
    }


def test_the_bounds_are_recorded_before_the_batch_goes(world: World, bucket: Bucket, request_id: str) -> None:
    bucket.put(f"{PREFIX}1")

    world.run(STEP, request_id)

    names = world.wire.operations()
    last = names.index("DeleteObjects")
    assert names[last - 2 : last] == ["ListObjectVersions", "UpdateItem"]
    condition = world.wire.calls[last - 1].params
    assert "#fence = :fence" in condition["ConditionExpression"]
    assert condition["ExpressionAttributeValues"][":batch"]["M"]["size"] == {"N": "1"}


@pytest.mark.parametrize("code", ["InternalError", "SlowDown", "ServiceUnavailable"])
def test_errors_in_an_answer_of_200_send_only_those_keys_again(
    world: World, bucket: Bucket, request_id: str, code: str
) -> None:
    versions = [(f"{PREFIX}{number}", bucket.put(f"{PREFIX}{number}")) for number in range(5)]
    bucket.refuse = {versions[1]: [code], versions[3]: [code, code]}

    answer = world.run(STEP, request_id)

    assert answer["done"]
    assert [set(batch) for batch in bucket.batches] == [set(versions), {versions[1], versions[3]}, {versions[3]}]
    assert world.deleted(request_id, STEP) == {"photos": 5}
    assert len(world.sleeps) == 2


@pytest.mark.parametrize("code", ["SlowDown", "InternalError"])
def test_a_key_that_is_refused_again_and_again_is_tried_while_there_is_time_and_never_fails_the_step(
    world: World, bucket: Bucket, request_id: str, code: str
) -> None:
    stubborn = (f"{PREFIX}1", bucket.put(f"{PREFIX}1"))
    bucket.put(f"{PREFIX}2")
    bucket.refuse = {stubborn: [code] * 40}

    answers = [world.run(STEP, request_id, context=Context(looks=40)) for _ in range(3)]

    assert [answer["done"] for answer in answers] == [False, False, True]
    assert world.deleted(request_id, STEP) == {"photos": 2}
    assert world.record(request_id)["failures"] == 0
    assert all(0 <= pause <= 6.4 for pause in world.sleeps)
    # After a last refusal, when no time is left, nobody waits.
    assert 38 <= len(world.sleeps) <= 40


def test_a_throttled_call_is_repeated_with_fewer_keys(world: World, bucket: Bucket, request_id: str) -> None:
    for number in range(8):
        bucket.put(f"{PREFIX}{number}")
    world.wire.before("DeleteObjects", refused("SlowDown", status=503))

    world.run(STEP, request_id)

    assert [len(batch) for batch in bucket.batches] == [4, 4]
    assert world.deleted(request_id, STEP) == {"photos": 8}


def test_a_version_that_is_gone_already_is_no_error(world: World, bucket: Bucket, request_id: str) -> None:
    gone = (f"{PREFIX}1", bucket.put(f"{PREFIX}1"))
    bucket.refuse = {gone: ["NoSuchVersion"]}
    world.run_until_done(STEP, request_id)

    assert bucket.entries == []


def test_an_unknown_code_is_refused_for_good(world: World, bucket: Bucket, request_id: str) -> None:
    odd = (f"{PREFIX}1", bucket.put(f"{PREFIX}1"))
    bucket.refuse = {odd: ["NoSuchBucket"]}

    with pytest.raises(StoreMissing):
        world.run(STEP, request_id)


def test_keys_that_xml_cannot_carry_go_one_by_one(world: World, bucket: Bucket, request_id: str) -> None:
    odd = {(key, bucket.put(key)) for key in (f"{PREFIX}a\x01b", f"{PREFIX}\x1f", f"{PREFIX}\uffff")}
    plain = {(key, bucket.put(key)) for key in (f"{PREFIX}a b+c%2F\t\r\n", f"{PREFIX}äöü😀")}

    world.run(STEP, request_id)

    assert bucket.entries == []
    assert {one for batch in bucket.batches for one in batch} == plain
    assert set(bucket.singles) == odd
    assert world.deleted(request_id, STEP) == {"photos": 5}


def test_one_user_is_never_taken_for_another_whose_id_begins_alike(
    world: World, bucket: Bucket, request_id: str
) -> None:
    for key in (f"{PREFIX}1", f"users/{USER}a/1", f"users/{USER}/", f"users/{USER}", f"users/x/users/{USER}/1"):
        bucket.put(key)

    world.run(STEP, request_id)

    assert bucket.keys() == {f"users/{USER}a/1", f"users/{USER}", f"users/x/users/{USER}/1"}


@pytest.mark.parametrize("looks", range(18))
def test_wherever_time_runs_short_the_counts_stay_exact(world: World, looks: int) -> None:
    world.sign_up()
    request = world.claimed()
    world.run(STEP, request, context=Context(looks=looks))

    world.run_until_done(STEP, request)

    assert world.data()["photos"] == world.data()["uploads"] == []
    assert world.deleted(request, STEP) == {"photos": 5, "photos.uploads": 1}


def test_a_batch_of_another_store_is_settled_before_anything_else(world: World) -> None:
    world.make_bucket("avatars-bucket")
    stores = (
        FileStore(name="avatars", bucket="avatars-bucket", prefix="{user_id}/"),
        FileStore(name="photos", bucket=BUCKET, prefix="users/{user_id}/"),
    )
    world.more_environment = {"FILE_STORES": to_json(stores)}
    world.sign_up()
    request = world.claimed()
    world.wire.crash_after("DeleteObjects")
    with pytest.raises(Crash):
        world.run(STEP, request)
    world.put_file(f"{USER}/late.png", "avatars-bucket")

    world.run_until_done(STEP, request)

    assert world.deleted(request, STEP) == {"avatars": 1, "photos": 5, "photos.uploads": 1}


@pytest.mark.parametrize("versioning", ["", "Suspended"])
def test_a_bucket_without_versions_is_emptied_by_the_version_id_null(world: World, versioning: str) -> None:
    world.make_bucket("plain-bucket", versioning=versioning)
    world.more_environment = {
        "FILE_STORES": to_json([FileStore(name="plain", bucket="plain-bucket", prefix="{user_id}/")])
    }
    world.make_user()
    for name in ("a", "b"):
        world.put_file(f"{USER}/{name}", "plain-bucket")
    request = world.claimed()

    world.run(STEP, request)

    assert world.versions(bucket="plain-bucket") == []
    (call,) = world.wire.of("DeleteObjects")
    assert {one["VersionId"] for one in call.params["Delete"]["Objects"]} == {"null"}
    assert world.deleted(request, STEP) == {"plain": 2}


def test_an_upload_is_aborted_until_no_part_is_listed(world: World) -> None:
    world.sign_up()
    request = world.claimed()
    world.wire.before("AbortMultipartUpload", lambda _: ok())
    world.wire.before("ListParts", lambda _: ok(Parts=[{"PartNumber": 1}]))

    world.run(STEP, request)

    assert len(world.wire.of("AbortMultipartUpload")) == 2
    assert world.uploads() == []
    assert world.deleted(request, STEP)["photos.uploads"] == 1


def test_an_upload_that_outlives_every_abort_is_never_done(world: World) -> None:
    world.sign_up()
    request = world.claimed()
    world.wire.before("AbortMultipartUpload", lambda _: ok(), times=9)
    world.wire.before("ListParts", lambda _: ok(Parts=[]), times=9)

    answer = world.run(STEP, request, context=Context(looks=15))

    assert not answer["done"]
    world.run_until_done(STEP, request)
    assert world.deleted(request, STEP)["photos.uploads"] == 1


def test_upload_keys_are_decoded_by_us_because_botocore_does_not(world: World) -> None:
    world.make_user()
    request = world.claimed()
    listed = {"Key": quote_plus(f"{PREFIX}a b+c%2F\x01"), "UploadId": "u1", "Initiated": datetime.now(UTC)}
    world.wire.before("ListMultipartUploads", lambda _: ok(EncodingType="url", Uploads=[listed], IsTruncated=False))
    world.wire.before("AbortMultipartUpload", lambda _: ok())
    world.wire.before("ListParts", refused("NoSuchUpload", status=404))

    world.run(STEP, request)

    (listing, *_) = world.wire.of("ListMultipartUploads")
    assert listing.params["EncodingType"] == "url"
    (call,) = world.wire.of("AbortMultipartUpload")
    assert (call.params["Key"], call.params["UploadId"]) == (f"{PREFIX}a b+c%2F\x01", "u1")


def test_a_missing_bucket_is_named_and_never_taken_for_an_empty_one(world: World) -> None:
    world.more_environment = {
        "FILE_STORES": to_json([FileStore(name="gone", bucket="gone-bucket", prefix="{user_id}/")])
    }
    world.make_user()
    request = world.claimed()

    with pytest.raises(StoreMissing) as raised:
        world.run(STEP, request)

    assert str(raised.value) == "ListMultipartUploads answered NoSuchBucket"
    assert json.dumps(world.record(request)["steps"][STEP]["status"]) == '"RUNNING"'
