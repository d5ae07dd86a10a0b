"""DeleteFiles: keys with every character that S3 allows, as they go over the wire.

moto lists and deletes all but control characters, which break its XML; those are deleted from a bucket held in memory.
"""

from xml.etree import ElementTree

import pytest

from tests.unit.handlers.steps.bucket import Bucket
from tests.world import BUCKET, USER, World

pytestmark = pytest.mark.exhaustive

PREFIX = f"users/{USER}/"
STEP = "DeleteFiles"
KEYS = (
    "plain.jpg",
    "a b.jpg",
    " a ",
    "a+b",
    "a%2Fb%20c%",
    "a&b<c>d\"e'f&amp;",
    "äöü-日本-😀",
    "e\u0301-\u200b-\u202e",
    "folder/",
    "//",
    "a//b",
    "a/../b/./c",
    "..",
    "?versions&delete=#",
    "a\tb",
    "x" * (1024 - len(PREFIX)),
    "é" * ((1024 - len(PREFIX)) // 2),
)


@pytest.mark.parametrize("versioning", ["Enabled", ""])
def test_a_file_of_any_name_goes_by_exactly_that_name(world: World, versioning: str) -> None:
    world.make_user()
    world.s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": versioning or "Suspended"})
    files = {(f"{PREFIX}{key}", world.put_file(f"{PREFIX}{key}")) for key in KEYS}
    uploads = {(f"{PREFIX}{key}", world.begin_upload(f"{PREFIX}{key}")) for key in KEYS}
    request = world.claimed()

    world.run_until_done(STEP, request)

    (call,) = world.wire.of("DeleteObjects")
    namespace = "{http://s3.amazonaws.com/doc/2006-03-01/}"
    sent = {
        (one.findtext(f"{namespace}Key"), one.findtext(f"{namespace}VersionId"))
        for one in ElementTree.fromstring(call.wire["body"]).iter(f"{namespace}Object")
    }
    aborted = {(one.params["Key"], one.params["UploadId"]) for one in world.wire.of("AbortMultipartUpload")}
    assert sent == files
    assert aborted == uploads
    assert (world.versions(PREFIX), world.uploads(PREFIX)) == ([], [])
    assert world.deleted(request, STEP) == {"photos": len(KEYS), "photos.uploads": len(KEYS)}


def test_botocore_asks_for_encoded_keys_of_versions_and_we_for_those_of_uploads(world: World) -> None:
    world.sign_up()
    request = world.claimed()

    world.run(STEP, request)

    assert not any("EncodingType" in call.params for call in world.wire.of("ListObjectVersions"))
    assert {call.params["EncodingType"] for call in world.wire.of("ListMultipartUploads")} == {"url"}
    for operation in ("ListObjectVersions", "ListMultipartUploads"):
        assert {call.wire["query_string"]["encoding-type"] for call in world.wire.of(operation)} == {"url"}


def test_line_ends_reach_s3_as_they_are(world: World, bucket: Bucket, request_id: str) -> None:
    bucket.put(f"{PREFIX}a\r\nb\nc")

    world.run(STEP, request_id)

    # XML's readers turn a bare carriage return into a line feed (https://www.w3.org/TR/xml/#sec-line-ends).
    (call,) = world.wire.of("DeleteObjects")
    assert bucket.batches == [[(f"{PREFIX}a\r\nb\nc", "v0")]]
    assert b"a&#xD;&#xA;b&#xA;c" in call.wire["body"]


@pytest.mark.parametrize("character", [*map(chr, {*range(1, 32)} - {9, 10, 13}), "\ufffe", "\uffff"])
def test_a_character_that_xml_cannot_carry_goes_in_a_call_of_its_own(
    world: World, bucket: Bucket, request_id: str, character: str
) -> None:
    key = f"{PREFIX}a{character}b"
    odd, plain = (key, bucket.put(key)), (f"{PREFIX}a", bucket.put(f"{PREFIX}a"))

    world.run(STEP, request_id)

    assert bucket.entries == []
    assert bucket.batches == [[plain]]
    assert bucket.singles == [odd]
    assert world.deleted(request_id, STEP) == {"photos": 2}
