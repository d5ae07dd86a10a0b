"""The check before a deploy: every store that the settings name, with the steps' own code, and nothing but reading."""

import os
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from handlers.core import aws
from infra import preflight
from tests.world import ENVIRONMENT

STACK = """
config:
  aws:region: eu-west-1
  account-deletion:settings:
    platform: {name_prefix: acme}
    identifiers: [customer_id]
    record_stores:
      - {name: visits, table: visits, partition_key: customer, partition: "{customer_id}", partition_type: N}
    file_stores:
      - {name: photos, bucket: photos, prefix: "users/{user_id}/"}
"""


@pytest.fixture(autouse=True)
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An account with the table, and the stack's file; the bucket is made by whoever needs it."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(preflight, "ROOT", tmp_path)
    (tmp_path / "Pulumi.dev.yaml").write_text(STACK, encoding="utf-8")
    with mock_aws():
        aws.client.cache_clear()
        boto3.client("dynamodb").create_table(
            TableName="visits",
            KeySchema=[{"AttributeName": "customer", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "customer", "AttributeType": "N"}],
            BillingMode="PAY_PER_REQUEST",
        )
        yield
        aws.client.cache_clear()


def make_bucket() -> None:
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="photos", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    s3.put_bucket_versioning(Bucket="photos", VersioningConfiguration={"Status": "Enabled"})


def test_stores_that_are_as_they_must_be_are_fit_and_the_environment_is_as_before(
    capsys: pytest.CaptureFixture[str],
) -> None:
    make_bucket()
    before = dict(os.environ)

    assert preflight.main(["dev"]) == preflight.FIT

    assert capsys.readouterr().out.splitlines() == ["DeleteRecords: fit", "DeleteFiles: fit"]
    assert dict(os.environ) == before


def test_a_store_that_is_missing_is_named_with_its_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert preflight.main(["dev"]) == preflight.UNFIT

    records, files = capsys.readouterr().out.splitlines()
    assert records == "DeleteRecords: fit"
    assert files.startswith("DeleteFiles: store photos: ")


def test_a_table_with_another_key_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_bucket()
    wrong = STACK.replace("partition_type: N", "partition_type: S")
    (tmp_path / "Pulumi.dev.yaml").write_text(wrong, encoding="utf-8")

    assert preflight.main(["dev"]) == preflight.UNFIT

    assert "store visits: partition_key is customer (S), the table has customer (N)" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["config: {}", STACK.replace("prefix: ", "prefixes: ")], ids=["none", "misspelt"])
def test_wrong_settings_are_refused_before_any_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "Pulumi.dev.yaml").write_text(text, encoding="utf-8")

    assert preflight.main(["dev"]) == preflight.WRONG

    assert "file_stores[0].prefixes" in (error := capsys.readouterr().err) or "platform" in error


def test_a_service_that_cannot_be_asked_leaves_the_step_unchecked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_bucket()
    monkeypatch.setattr(aws, "back_off", lambda _: None)
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:9")

    assert preflight.main(["dev"]) == preflight.UNCHECKED

    records, files = capsys.readouterr().out.splitlines()
    assert records.startswith("DeleteRecords: not checked; ")
    assert files == "DeleteFiles: fit"
