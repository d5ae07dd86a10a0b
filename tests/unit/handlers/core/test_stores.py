"""Stores as configuration: mistakes are found before anything is deployed."""

import json
from typing import Any

import pytest

from handlers.core.stores import FileStore, RecordStore, file_stores, record_stores, to_json

HERE = {"account": "123456789012", "region": "eu-west-1"}
INDEX = {
    "name": "messages",
    "table": "messages",
    "partition_key": "room",
    "sort_key": "at",
    "sort_type": "N",
    "index": "by-author",
    "index_key": "author",
    "index_value": "{user_id}",
}
RECORD = {"name": "orders", "table": "orders", "partition_key": "pk", "partition": "USER#{user_id}"}
FILE: dict[str, Any] = {"name": "photos", "bucket": "photos-bucket", "prefix": "users/{user_id}/"}


def test_stores_survive_the_environment() -> None:
    records = (
        RecordStore(**RECORD, sort_key="sk", sort_prefix="order#"),
        RecordStore(**RECORD, partition_type="N"),
        RecordStore(**INDEX, index_type="B"),
    )
    files = (FileStore(**FILE),)

    assert record_stores(to_json(records)) == records
    assert file_stores(to_json(files)) == files


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "7"}, "name '7'"),
        ({"table": "a b"}, "is no table name"),
        ({"table": "arn:aws:dynamodb:x"}, "is no table ARN"),
        (
            {"table": "arn:aws:dynamodb:eu-west-1:210987654321:table/orders"},
            "run a stack of this project there",
        ),
        (
            {"table": "arn:aws:dynamodb:us-east-1:123456789012:table/orders"},
            "a transaction spans one account and Region",
        ),
        ({"partition_type": "X"}, "partition_type 'X' is none of S, N, B"),
        ({"partition": "USER#"}, "would match every user"),
        ({"sort_type": "X"}, "sort_type 'X' is none of S, N, B"),
        ({"index_type": "X"}, "index_type 'X' is none of S, N, B"),
        ({"partition_type": "N"}, "partition 'USER#{user_id}' is no number"),
        ({"partition": None}, "partition is missing; write the template of its value, or name an index"),
        ({"index_key": "author"}, "index_key and index_value need index"),
        ({"index_value": "{user_id}"}, "index_key and index_value need index"),
        ({"sort_prefix": "order#"}, "sort_prefix needs sort_key"),
        ({"sort_key": "sk", "sort_type": "N", "sort_prefix": "1#"}, "sort_prefix of a number"),
        ({"sort_key": "sk", "sort_prefix": "{user_id}"}, "nothing ends {user_id}"),
    ],
)
def test_a_wrong_record_store_is_refused_with_the_mend(change: dict[str, Any], said: str) -> None:
    problems = RecordStore(**{**RECORD, **change}).problems((), **HERE)

    assert any(said in problem for problem in problems), problems
    assert all(problem.startswith("record store ") for problem in problems)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"index": "a b"}, "index 'a b' is no index name"),
        ({"index_key": None}, "index needs index_key and index_value"),
        ({"index_value": None}, "index needs index_key and index_value"),
        ({"index_value": "all"}, "index_value: 'all' would match every user"),
        ({"index_value": "{email}"}, "index_value: '{email}' uses {email}, which is not declared"),
        ({"index_value": "u{user_id}", "index_type": "N"}, "index_value 'u{user_id}' is no number"),
        ({"partition": "{user_id}"}, "partition and sort_prefix exclude index"),
        ({"sort_prefix": "a#", "sort_type": "S"}, "partition and sort_prefix exclude index"),
    ],
)
def test_a_wrong_record_store_with_an_index_is_refused_with_the_mend(change: dict[str, Any], said: str) -> None:
    (problem,) = RecordStore(**{**INDEX, **change}).problems((), **HERE)

    assert problem.startswith(f"record store messages: {said}")


def test_a_right_record_store_with_an_index_has_no_problems() -> None:
    store = RecordStore(**INDEX)

    assert store.problems((), **HERE) == ()
    assert store.found_by == ("author", "S", "{user_id}")
    assert store.key_attributes == ("room", "at")


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"table": "arn:aws:dynamodb:eu-west-1:123456789012:table/orders"},
        {"sort_key": "sk", "sort_prefix": "order#"},
        {"sort_key": "sk", "sort_prefix": "order#", "sort_type": "B"},
        {"sort_key": "sk", "sort_type": "N"},
        {"partition": "{customer_id}", "partition_type": "N"},
    ],
)
def test_a_right_record_store_has_no_problems(change: dict[str, Any]) -> None:
    store = RecordStore(**{**RECORD, **change})

    assert store.problems(("customer_id",), **HERE) == ()
    assert store.table_name == "orders"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"bucket": "Photos"}, "is no bucket name"),
        ({"prefix": "users/{user_id}"}, "nothing ends {user_id}"),
        ({"prefix": ""}, "would match every user"),
        ({"name": ""}, "name ''"),
        ({"bucket": "photos--use1-az4--x-s3"}, "is a directory bucket, which has no versions"),
        ({"region": "Ireland"}, "region 'Ireland' is no Region; use one like eu-west-1"),
        ({"owner": "1234"}, "owner is no account id; use its 12 digits, in quotes"),
        ({"replicas": {"Archive": "kept by law"}}, "replicas 'Archive' is no bucket name"),
        ({"replicas": {"archive": " "}}, "replicas 'archive' has no reason"),
    ],
)
def test_a_wrong_file_store_is_refused_with_the_mend(change: dict[str, Any], said: str) -> None:
    problems = FileStore(**{**FILE, **change}).problems(())

    assert any(said in problem for problem in problems), problems


OPTIONS: dict[str, Any] = {
    "region": "us-gov-west-1",
    "requester_pays": True,
    "owner": "123456789012",
    "replicas": {"archive": "kept by law"},
}


@pytest.mark.parametrize("options", [{}, OPTIONS])
def test_a_right_file_store_has_no_problems(options: dict[str, Any]) -> None:
    assert FileStore(**FILE, **options).problems(()) == ()


def test_the_environment_carries_only_what_differs_from_the_defaults() -> None:
    stores = (FileStore(**FILE), FileStore(**{**FILE, "name": "far"}, **OPTIONS))

    text = to_json(stores)

    assert json.loads(text) == [FILE, {**FILE, "name": "far", **OPTIONS}]
    assert file_stores(text) == stores
    assert json.loads(to_json([RecordStore(**RECORD)])) == [RECORD]
