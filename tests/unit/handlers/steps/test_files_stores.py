"""DeleteFiles: what a store's options put on the wire, and what its preflight says of a bucket.

Checked on what botocore is about to send and, of the preflight, on moto's buckets and answers put on the wire
(replication, MFA delete, redirects, outages). On the emulator all buckets are of one account and Region; there the
preflight runs in each whole request, and in one it finds its bucket gone (tests/emulator/test_files.py).
"""

from collections.abc import Mapping
from typing import Any

import botocore.session
import pytest

from handlers.core.errors import StoreUnavailable
from handlers.core.stores import FileStore, to_json
from tests.unit.handlers.steps.bucket import Bucket, ok
from tests.wire import refused
from tests.world import ACCOUNT, BUCKET, USER, World

pytestmark = pytest.mark.exhaustive

PREFIX = f"users/{USER}/"
STEP = "DeleteFiles"
PHOTOS = {"name": "photos", "bucket": BUCKET, "prefix": "users/{user_id}/"}
QUESTIONS = ("GetBucketReplication", "GetBucketVersioning", "ListMultipartUploads", "ListObjectVersions")


def configure(world: World, *stores: Mapping[str, Any]) -> None:
    world.more_environment = {"FILE_STORES": to_json([FileStore(**store) for store in stores])}


def everything_of(world: World) -> None:
    """Every way of the step that makes another kind of call."""
    world.sign_up()
    world.sign_up("bert", "7")
    request = world.claimed()
    world.run(STEP, event={"deletion_request_id": request, "owner": "me", "step": STEP, "preflight": True})
    denied = {"Key": f"{PREFIX}a b+c.jpg", "Code": "AccessDenied"}
    world.wire.before("DeleteObjects", lambda call: ok(Errors=[{**denied, **_first(call)}]))
    world.wire.before(
        "GetObjectLockConfiguration", lambda _: ok(ObjectLockConfiguration={"ObjectLockEnabled": "Enabled"})
    )
    world.wire.before("GetObjectLegalHold", refused("NoSuchVersion", status=404))
    world.wire.before("GetObjectLegalHold", lambda _: ok(LegalHold={}))
    world.run_until_done(STEP, request)
    # moto cannot list such a key.
    Bucket(world).put("users/bert/\x01")
    world.run(STEP, world.claimed(user="bert", customer="7"))


def _first(call: Any) -> Mapping[str, str]:
    return dict(call.params["Delete"]["Objects"][0])


def test_who_owns_the_bucket_and_who_pays_is_said_in_every_call_that_takes_it(world: World) -> None:
    configure(world, {**PHOTOS, "owner": ACCOUNT, "requester_pays": True})
    s3: Any = botocore.session.get_session().get_service_model("s3")

    everything_of(world)

    calls = [call for call in world.wire.calls if call.params.get("Bucket") == BUCKET]
    for call in calls:
        members = s3.operation_model(call.operation).input_shape.members
        assert call.params["ExpectedBucketOwner"] == ACCOUNT, call.operation
        assert ("RequestPayer" in call.params) == ("RequestPayer" in members), call.operation
        assert call.wire["headers"]["x-amz-expected-bucket-owner"] == ACCOUNT, call.operation
    assert {call.operation for call in calls if "RequestPayer" in call.params} >= {
        "AbortMultipartUpload",
        "DeleteObject",
        "DeleteObjects",
        "ListMultipartUploads",
        "ListObjectVersions",
    }


def test_a_store_without_options_says_neither(world: World) -> None:
    everything_of(world)

    assert not any({"ExpectedBucketOwner", "RequestPayer"} & set(call.params) for call in world.wire.calls)


def test_a_bucket_in_another_region_is_asked_there(world: World) -> None:
    configure(world, PHOTOS, {**PHOTOS, "name": "far", "region": "us-west-2", "prefix": "far/{user_id}/"})
    world.sign_up()
    request = world.claimed()

    world.run(STEP, request)

    hosts = {
        call.params["Prefix"]: call.wire["context"]["client_region"] for call in world.wire.of("ListObjectVersions")
    }
    assert hosts == {PREFIX: "eu-west-1", f"far/{USER}/": "us-west-2"}


# -- preflight


def preflight(world: World) -> list[str]:
    request = world.claimed()
    event = {"deletion_request_id": request, "owner": "me", "step": STEP, "preflight": True}
    problems: list[str] = world.run(STEP, event=event)["problems"]
    return problems


def replicated(world: World, *rules: Mapping[str, Any]) -> None:
    world.wire.before(
        "GetBucketReplication",
        lambda _: ok(
            ReplicationConfiguration={"Role": "arn:aws:iam::1:role/r", "Rules": [dict(rule) for rule in rules]}
        ),
    )


def rule(bucket: str, **fields: Any) -> dict[str, Any]:
    return {"Status": "Enabled", "Destination": {"Bucket": f"arn:aws:s3:::{bucket}"}, **fields}


@pytest.mark.parametrize("versioning", ["Enabled", "Suspended", ""])
def test_a_bucket_as_it_should_be_has_no_problem(world: World, versioning: str) -> None:
    world.make_user()
    world.make_bucket("other-bucket", versioning=versioning)
    configure(world, {**PHOTOS, "bucket": "other-bucket"})

    assert preflight(world) == []
    assert {call.operation for call in world.wire.calls if "Bucket" in call.params} == set(QUESTIONS)


def test_a_missing_bucket_is_said_once(world: World) -> None:
    world.make_user()
    configure(world, {**PHOTOS, "bucket": "gone-bucket"})

    assert preflight(world) == ["store photos: its bucket does not exist; correct bucket or region"]


def test_mfa_delete_is_refused(world: World) -> None:
    world.make_user()
    world.wire.before("GetBucketVersioning", lambda _: ok(Status="Enabled", MFADelete="Enabled"))

    assert preflight(world) == [
        "store photos: MFA delete is on, so no function can delete a version; switch it off",
    ]


def test_a_replica_that_is_neither_a_store_nor_accepted_is_refused(world: World) -> None:
    world.make_user()
    world.make_bucket("second-bucket")
    configure(
        world,
        {**PHOTOS, "replicas": {"accepted-bucket": "erased by its own lifecycle rule"}},
        {**PHOTOS, "name": "second", "bucket": "second-bucket"},
    )
    replicated(world, rule("accepted-bucket"), rule("second-bucket"), rule("third-bucket", Status="Disabled"))

    assert preflight(world) == [
        "store photos: it is replicated to third-bucket, where deletes by version id do not arrive; add a store of "
        "that bucket whose prefix covers the same keys, or name it in replicas with a reason",
    ]


@pytest.mark.parametrize(
    ("prefix", "replicated_prefix", "covers"),
    [
        ("exports/{user_id}/", "", False),
        ("users/{user_id}/", "", True),
        ("users/{user_id}", "", True),
        ("users/{user_id}/photos/", "", False),
        ("users/{user_id}/photos/", f"{PREFIX}photos/", True),
        ("users/{user_id}/photos/", f"{PREFIX}photos/2026/", True),
        ("users/{user_id}/photos/", f"{PREFIX}films/", False),
        ("users/{user_id}/", "users/", True),
    ],
)
def test_a_bucket_of_replicas_is_known_only_where_a_store_lists_the_keys_that_are_copied(
    world: World, prefix: str, replicated_prefix: str, covers: bool
) -> None:
    world.make_user()
    world.make_bucket("exports")
    configure(world, PHOTOS, {"name": "exports", "bucket": "exports", "prefix": prefix})
    replicated(world, rule("exports", Filter={"Prefix": replicated_prefix}))

    found = preflight(world)

    assert [problem.partition(",")[0] for problem in found] == (
        [] if covers else ["store photos: it is replicated to exports"]
    )
    assert USER not in " ".join(found)


@pytest.mark.parametrize(
    ("fields", "concerns"),
    [
        ({"Prefix": ""}, True),
        ({"Prefix": "logs/"}, False),
        ({"Prefix": "users/"}, True),
        ({"Filter": {"Prefix": "logs/"}}, False),
        ({"Filter": {"Prefix": f"{PREFIX}photos/"}}, True),
        ({"Filter": {"And": {"Prefix": "logs/", "Tags": []}}}, False),
        ({"Filter": {"Tag": {"Key": "a", "Value": "b"}}}, True),
        ({}, True),
    ],
)
def test_only_replication_of_the_user_s_keys_is_a_problem(
    world: World, fields: Mapping[str, Any], concerns: bool
) -> None:
    world.make_user()
    replicated(world, rule("third-bucket", **fields))

    assert bool(preflight(world)) == concerns


@pytest.mark.parametrize(
    ("operation", "permission"),
    [
        ("GetBucketReplication", "s3:GetReplicationConfiguration"),
        ("GetBucketVersioning", "s3:GetBucketVersioning"),
        ("ListMultipartUploads", "s3:ListBucketMultipartUploads"),
        ("ListObjectVersions", "s3:ListBucketVersions"),
    ],
)
def test_a_missing_permission_is_named(world: World, operation: str, permission: str) -> None:
    world.make_user()
    world.wire.before(operation, refused("AccessDenied", status=403))

    assert preflight(world) == [
        f"store photos: {operation} answered AccessDenied; allow {permission}, or correct owner",
    ]


def test_a_bucket_that_redirects_is_said_with_the_code(world: World) -> None:
    world.make_user()
    world.wire.before("GetBucketVersioning", refused("PermanentRedirect"))

    assert preflight(world) == [
        "store photos: GetBucketVersioning answered PermanentRedirect; correct bucket, region or owner",
    ]


def test_a_bucket_that_does_not_answer_is_no_problem_but_asked_again(world: World) -> None:
    world.make_user()
    world.wire.before("GetBucketReplication", refused("InternalError", status=500))

    with pytest.raises(StoreUnavailable):
        preflight(world)


def test_the_preflight_neither_writes_nor_names_a_key(world: World, bucket: Bucket, request_id: str) -> None:
    bucket.put(f"{PREFIX}1")
    before = world.record(request_id)
    world.wire.before("GetBucketVersioning", refused("AccessDenied", status=403))

    event = {"deletion_request_id": request_id, "owner": "me", "step": STEP, "preflight": True}
    problems = world.run(STEP, event=event)["problems"]

    assert world.record(request_id) == before
    assert bucket.keys() == {f"{PREFIX}1"}
    assert USER not in " ".join(problems)
