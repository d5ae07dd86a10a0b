"""The fakes answer as moto does, call by call: what moves a fake away from the services moves it away from moto.

What is compared is every field that the project reads, errors with their codes and old items included. Where moto is
wrong the script says so, and tests/emulator/test_fakes.py compares with the emulator, which is right there. No engine
here has what the fakes do on purpose, by their manners: short and empty pages, an index that lags behind, parts that
outlive an abort. No script has what only AWS refuses (more than 1,000 keys in DeleteObjects), nor a listing that goes
on from a deleted version, which each server does in its own way (LostMarker in tests/fakes/s3.py).
"""

from collections.abc import Iterator

import boto3
import pytest
from moto import mock_aws

from tests.fakes import scripts

pytestmark = pytest.mark.exhaustive


@pytest.fixture
def session() -> Iterator[boto3.Session]:
    """A session whose clients are moto's."""
    with mock_aws():
        yield boto3.Session(aws_access_key_id="testing", aws_secret_access_key="testing", region_name="eu-west-1")


@pytest.mark.parametrize("script", scripts.S3_SCRIPTS, ids=lambda script: script.__name__)
def test_buckets_in_memory_answer_as_those_of_moto(session: boto3.Session, script: scripts.Script) -> None:
    other = session.client("s3")
    scripts.make_buckets(other)

    ours, theirs = scripts.play(script, scripts.buckets_in_memory(), "moto"), scripts.play(script, other, "moto")

    assert ours == theirs


@pytest.mark.parametrize("script", scripts.DYNAMODB_SCRIPTS, ids=lambda script: script.__name__)
def test_tables_in_memory_answer_as_those_of_moto(session: boto3.Session, script: scripts.Script) -> None:
    other = session.client("dynamodb")
    scripts.make_tables(other)

    ours, theirs = scripts.play(script, scripts.tables_in_memory(), "moto"), scripts.play(script, other, "moto")

    assert ours == theirs
