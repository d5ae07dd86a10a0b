"""The fast parser of listings says what botocore's own says, of what a deletion needs."""

from typing import Any

import botocore.handlers
import botocore.session
import pytest
from botocore.handlers import decode_list_object_versions
from botocore.parsers import ResponseParserError, RestXMLParser, create_parser

from handlers.core import aws
from handlers.core.errors import StoreUnavailable
from handlers.core.s3_listing import Parsers

MODEL: Any = botocore.session.get_session().get_service_model("s3")
HEAD = '<?xml version="1.0" encoding="UTF-8"?>'
NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
ENTRIES = """
<Version><Key>a%20b%2Bc%252F</Key><VersionId>3/L4kqtJlcpXroDTDmJ+rmSpXd3dIbrHY</VersionId><IsLatest>true</IsLatest>
<LastModified>2026-10-12T17:50:30.123Z</LastModified><ETag>"fba9"</ETag><Size>434234</Size>
<StorageClass>STANDARD</StorageClass><Owner><ID>75aa</ID><DisplayName>x</DisplayName></Owner></Version>
<DeleteMarker><Key>a</Key><VersionId>null</VersionId><IsLatest>false</IsLatest>
<LastModified>2009-10-12T17:50:30Z</LastModified><Owner><ID>75aa</ID></Owner></DeleteMarker>
<Version><Key>c</Key><VersionId>2</VersionId><IsLatest>true</IsLatest><LastModified>2026-10-12T17:50:30+02:00</LastModified>
</Version>
"""
NEXT = "<NextKeyMarker>a%20b</NextKeyMarker><NextVersionIdMarker>v</NextVersionIdMarker>"
TAIL = f"<Name>b</Name><Prefix>a%2F</Prefix><EncodingType>url</EncodingType><MaxKeys>1000</MaxKeys>{NEXT}"
FIELDS = ("Key", "VersionId", "LastModified")


def response(body: str, status: int = 200) -> dict[str, Any]:
    return {"status_code": status, "headers": {"x-amz-request-id": "r1"}, "body": body.encode(), "context": {}}


def both(body: str, operation: str = "ListObjectVersions", status: int = 200) -> tuple[Any, Any]:
    """What our parser and botocore's say."""
    shape = MODEL.operation_model(operation).output_shape
    return ours(body, operation, status), RestXMLParser().parse(response(body, status), shape)


def ours(body: str, operation: str = "ListObjectVersions", status: int = 200) -> Any:
    """What our parser says."""
    shape = MODEL.operation_model(operation).output_shape
    return Parsers().create_parser("rest-xml").parse(response(body, status), shape)


@pytest.mark.parametrize("truncated", ["true", "false"])
@pytest.mark.parametrize("namespace", [NAMESPACE, ""])
@pytest.mark.parametrize("entries", ["", ENTRIES, ENTRIES * 3])
def test_a_listing_says_the_same_in_all_that_a_deletion_reads(truncated: str, namespace: str, entries: str) -> None:
    body = (
        f"{HEAD}<ListVersionsResult {namespace}><IsTruncated>{truncated}</IsTruncated>{TAIL}{entries}"
        "</ListVersionsResult>"
    )

    fast, theirs = both(body)
    decode_list_object_versions(theirs, {"encoding_type_auto_set": True})

    for kind in ("Versions", "DeleteMarkers"):
        assert list(fast[kind]) == [{name: entry[name] for name in FIELDS} for entry in theirs.get(kind, [])]
    for name in ("IsTruncated", "NextKeyMarker", "NextVersionIdMarker", "ResponseMetadata"):
        assert fast[name] == theirs[name]


def test_a_listing_that_is_not_encoded_is_not_decoded() -> None:
    body = (
        f"<ListVersionsResult {NAMESPACE}><IsTruncated>false</IsTruncated><NextKeyMarker>a%20&amp;</NextKeyMarker>"
        f"{ENTRIES}</ListVersionsResult>"
    )

    fast = ours(body)

    assert fast["NextKeyMarker"] == "a%20&"
    assert [entry["Key"] for entry in fast["Versions"]] == ["a%20b%2Bc%252F", "c"]
    assert not fast["IsTruncated"]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "<html></html>",
        f"<ListVersionsResult {NAMESPACE}></ListVersionsResult>",
        f"<ListVersionsResult {NAMESPACE}>{ENTRIES}</ListVersionsResult>",
        "<ListVersionsResult><IsTruncated></IsTruncated></ListVersionsResult>",
        "<ListVersionsResult><IsTruncated>perhaps</IsTruncated></ListVersionsResult>",
    ],
)
def test_an_answer_that_does_not_say_whether_more_follows_is_no_empty_listing(body: str) -> None:
    with pytest.raises(ResponseParserError):
        ours(body)


@pytest.mark.parametrize("kind", ["Versions", "DeleteMarkers"])
@pytest.mark.parametrize(
    "body",
    [
        "<IsTruncated>false</IsTruncated>",
        "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>",
        f"<ListBucketResult {NAMESPACE}><IsTruncated>false</IsTruncated></ListBucketResult>",
        f"<ListVersionsResult {NAMESPACE}><IsTruncated>false</IsTruncated>{ENTRIES}",
        "<ListVersionsResult><IsTruncated>false</IsTruncated></ListVersions",
    ],
)
def test_what_is_no_listing_or_is_cut_off_is_an_error_at_the_first_look(body: str, kind: str) -> None:
    listing = ours(body)

    with pytest.raises(ResponseParserError):
        list(listing[kind])


@pytest.mark.parametrize("kind", ["Version", "DeleteMarker"])
@pytest.mark.parametrize(
    ("whole", "broken"),
    [
        ("<Key>a</Key>", ""),
        ("<Key>a</Key>", "<Key/>"),
        ("<VersionId>2</VersionId>", ""),
        ("<VersionId>2</VersionId>", "<VersionId></VersionId>"),
        ("<LastModified>2026-10-12T17:50:30Z</LastModified>", ""),
        ("<LastModified>2026-10-12T17:50:30Z</LastModified>", "<LastModified>yesterday</LastModified>"),
    ],
)
def test_a_version_that_could_not_be_deleted_by_its_id_is_an_error(kind: str, whole: str, broken: str) -> None:
    entry = "<Key>a</Key><VersionId>2</VersionId><LastModified>2026-10-12T17:50:30Z</LastModified>"
    assert whole in entry
    listing = ours(
        f"<ListVersionsResult {NAMESPACE}><IsTruncated>false</IsTruncated>"
        f"<{kind}>{entry.replace(whole, broken)}</{kind}></ListVersionsResult>"
    )

    with pytest.raises(ResponseParserError):
        list(listing[f"{kind}s"])


def test_an_unreadable_answer_is_a_store_that_fails_for_the_moment() -> None:
    with pytest.raises(StoreUnavailable) as raised, aws.our_errors("ListObjectVersions"):
        ours("")

    assert str(raised.value) == "ListObjectVersions answered ResponseParserError"


@pytest.mark.parametrize("operation", ["ListMultipartUploads", "DeleteObjects", "GetObjectRetention"])
def test_other_answers_are_botocore_s(operation: str) -> None:
    retention = "<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>2026-10-12T17:50:30Z</RetainUntilDate></Retention>"

    fast, theirs = both(retention if operation == "GetObjectRetention" else "<Result/>", operation)

    assert fast == theirs


@pytest.mark.parametrize("status", [403, 404, 500, 503])
@pytest.mark.parametrize("body", ["", "<Error><Code>SlowDown</Code><Message>x</Message></Error>", "<html></html>"])
def test_an_error_says_the_same(status: int, body: str) -> None:
    fast, theirs = both(body, status=status)

    assert fast == theirs


@pytest.mark.parametrize("protocol", ["json", "query", "rest-json", "ec2"])
def test_other_protocols_have_botocore_s_parser(protocol: str) -> None:
    assert type(Parsers().create_parser(protocol)) is type(create_parser(protocol))


def test_the_session_of_the_handlers_reads_listings_with_it() -> None:
    session = aws.session()

    factory = session._session.get_component("response_parser_factory")  # noqa: SLF001
    assert isinstance(factory, Parsers)
    assert aws.session() is session


# -- what is kept from botocore's look for an error in each 200

WHOLE = f"{HEAD}\n<ListVersionsResult {NAMESPACE}><IsTruncated>false</IsTruncated>{ENTRIES}</ListVersionsResult>\n"
ERROR = "<Error><Code>InternalError</Code></Error>"


def looked_at(body: str, status: int = 200) -> dict[str, Any]:
    """The response after the event in which botocore looks for an error."""
    client = aws.session().client(
        "s3", region_name="eu-central-1", aws_access_key_id="test", aws_secret_access_key="test"
    )
    answer = response(body, status)
    client.meta.events.emit(
        "before-parse.s3.ListObjectVersions",
        operation_model=MODEL.operation_model("ListObjectVersions"),
        response_dict=answer,
        customized_response_dict={},
    )
    return answer


@pytest.mark.parametrize("body", [WHOLE, WHOLE.removeprefix(HEAD), WHOLE.replace(NAMESPACE, "").strip()])
def test_a_whole_listing_is_parsed_only_once(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(botocore.handlers, "ETree")

    answer = looked_at(body)

    shape = MODEL.operation_model("ListObjectVersions").output_shape
    listing = Parsers().create_parser("rest-xml").parse(answer, shape)
    assert [entry["Key"] for entry in listing["Versions"]] == ["a%20b%2Bc%252F", "c"]
    assert answer["status_code"] == 200


@pytest.mark.parametrize(
    "body",
    [ERROR, HEAD + ERROR, WHOLE[:-3], WHOLE[: len(WHOLE) // 2], f"{WHOLE}{ERROR}", "<!DOCTYPE a>", "nothing"],
)
def test_an_answer_that_is_no_whole_listing_is_asked_for_again(body: str) -> None:
    assert looked_at(body)["status_code"] == 500


def test_an_error_is_not_taken_for_a_listing() -> None:
    assert looked_at(WHOLE, status=503) == response(WHOLE, status=503)
