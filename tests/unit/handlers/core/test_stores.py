"""Stores as configuration: mistakes are found before anything is deployed."""

from typing import Any

import pytest

from handlers.core.stores import FileStore, RecordStore, file_stores, record_stores, to_json

HERE = {"account": "123456789012", "region": "eu-west-1"}
RECORD = {"name": "orders", "table": "orders", "partition_key": "pk", "partition": "USER#{user_id}"}
FILE = {"name": "photos", "bucket": "photos-bucket", "prefix": "users/{user_id}/"}


def test_stores_survive_the_environment() -> None:
    records = (RecordStore(**RECORD, sort_key="sk", sort_prefix="order#"), RecordStore(**RECORD, partition_type="N"))
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
        ({"sort_prefix": "order#"}, "sort_prefix needs sort_key"),
        ({"sort_key": "sk", "sort_prefix": "{user_id}"}, "nothing ends {user_id}"),
    ],
)
def test_a_wrong_record_store_is_refused_with_the_mend(change: dict[str, Any], said: str) -> None:
    problems = RecordStore(**{**RECORD, **change}).problems((), **HERE)

    assert any(said in problem for problem in problems), problems
    assert all(problem.startswith("record store ") for problem in problems)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"table": "arn:aws:dynamodb:eu-west-1:123456789012:table/orders"},
        {"sort_key": "sk", "sort_prefix": "order#"},
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
    ],
)
def test_a_wrong_file_store_is_refused_with_the_mend(change: dict[str, Any], said: str) -> None:
    problems = FileStore(**{**FILE, **change}).problems(())

    assert any(said in problem for problem in problems), problems


def test_a_right_file_store_has_no_problems() -> None:
    assert FileStore(**FILE).problems(()) == ()
