"""What the provider plugin promises the engine, on programs of a few lines."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import pulumi
import pulumi_aws as aws
import pytest
from pulumi.automation import CommandError

import infra.functions  # noqa: F401 loads aws.lambda_, and keeps its warning quiet
from local.emulator import Emulator
from tests.engine.engine import Engine, Stack, inputs, operations

Programs = Callable[[Callable[[], object]], Stack]


@pytest.fixture
def small(engine: Engine, request: pytest.FixtureRequest) -> Programs:
    """The stack of one test, with the program that is given; another program is another version of it."""
    name = f"plugin{zlib.crc32(request.node.name.encode())}"
    return lambda program: engine.stack(name, config_of="dev", program=program)


def test_a_secret_reaches_the_emulator_and_is_not_readable_in_the_state(
    small: Programs, emulator_of_dev: Emulator
) -> None:
    def program() -> None:
        queue = aws.sqs.Queue("queue", tags={"open": "seen", "hidden": pulumi.Output.secret("whisper")})
        pulumi.export("url", queue.url)

    stack = small(program)
    stack.up()

    assert "seen" in stack.state()
    assert "whisper" not in stack.state()
    tags = emulator_of_dev.client("sqs").list_queue_tags(QueueUrl=stack.outputs()["url"])["Tags"]
    assert tags == {"open": "seen", "hidden": "whisper"}
    assert not stack.preview().changes


def test_a_computed_output_is_unknown_before_the_resource_exists_and_kept_through_an_update(small: Programs) -> None:
    seen: list[str] = []

    def program(delay: int) -> None:
        queue = aws.sqs.Queue("queue", delay_seconds=delay)
        queue.arn.apply(seen.append)

    small(lambda: program(1)).preview()
    assert seen == []
    small(lambda: program(1)).up()
    made = set(seen)
    seen.clear()

    report = small(lambda: program(2)).preview()

    assert operations(report.changes) == {("update", "queue")}
    assert set(seen) == made
    assert len(made) == 1


def test_a_name_made_from_the_logical_one_stays_the_same(small: Programs) -> None:
    def program() -> None:
        aws.sqs.Queue("letters")

    stack = small(program)
    name = inputs(stack.up().one("aws:sqs/queue:Queue"))["name"]

    assert name.startswith("letters-")
    assert not stack.up().changes


def test_a_removed_property_and_a_removed_resource_go(small: Programs, emulator_of_dev: Emulator) -> None:
    seen: list[object] = []

    def program(*, full: bool) -> None:
        queue = aws.sqs.Queue("one", tags={"team": "accounts"} if full else None)
        queue.tags.apply(seen.append)
        pulumi.export("url", queue.url)
        if full:
            aws.sqs.Queue("two")

    small(lambda: program(full=True)).up()
    stack = small(lambda: program(full=False))
    seen.clear()

    assert operations(stack.preview().changes) == {("update", "one"), ("delete", "two")}
    assert {"team": "accounts"} not in seen
    assert operations(stack.up().changes) == {("update", "one"), ("delete", "two")}
    answer = emulator_of_dev.client("sqs").list_queue_tags(QueueUrl=stack.outputs()["url"])
    assert answer.get("Tags", {}) == {}


def test_a_replacement_under_the_same_name_deletes_first(small: Programs, emulator_of_dev: Emulator) -> None:
    def program(key: str) -> None:
        aws.dynamodb.Table(
            "table",
            name="replaced-in-place",
            billing_mode="PAY_PER_REQUEST",
            hash_key=key,
            attributes=[aws.dynamodb.TableAttributeArgs(name=key, type="S")],
        )

    small(lambda: program("old")).up()
    report = small(lambda: program("new")).up()

    assert next(step.op.value for step in report.changes if step.op.value.startswith(("delete", "create"))) == (
        "delete-replaced"
    )
    table = emulator_of_dev.client("dynamodb").describe_table(TableName="replaced-in-place")["Table"]
    assert table["KeySchema"] == [{"AttributeName": "new", "KeyType": "HASH"}]


def test_a_package_is_known_by_what_is_in_it_and_not_by_where_it_lies(small: Programs, tmp_path: Path) -> None:
    def program(file: Path, description: str) -> None:
        aws.lambda_.Function(
            "function",
            description=description,
            role="arn:aws:iam::123456789012:role/any",
            runtime="provided.al2023",
            handler="bootstrap",
            code=pulumi.AssetArchive({"bootstrap": pulumi.FileAsset(str(file))}),
        )

    here, there = tmp_path / "here", tmp_path / "there"
    here.write_text("#!/bin/sh\n", encoding="utf-8")
    there.write_text("#!/bin/sh\n", encoding="utf-8")
    small(lambda: program(here, "one")).up()

    (moved,) = small(lambda: program(there, "two")).preview().changes
    here.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    (changed,) = small(lambda: program(here, "one")).preview().changes

    assert (moved.op.value, moved.diffs) == ("update", ["description"])
    assert (changed.op.value, changed.diffs) == ("update", ["code"])


def test_a_property_that_the_mapping_does_not_have_is_refused_in_the_preview(small: Programs) -> None:
    def program() -> None:
        aws.sqs.Queue("queue", name_prefix="letters")

    with pytest.raises(CommandError) as refused:
        small(program).preview()

    assert "aws:sqs/queue:Queue: property namePrefix is not in the mapping" in str(refused.value)
    assert "Traceback" not in str(refused.value)


def test_an_error_of_the_emulator_reaches_the_user_as_its_message(small: Programs) -> None:
    def program() -> None:
        aws.sqs.Queue("queue", delay_seconds=100_000)

    with pytest.raises(CommandError) as refused:
        small(program).up()

    assert "aws:sqs/queue:Queue" in str(refused.value)
    assert "Traceback" not in str(refused.value)


def test_a_refresh_finds_what_was_made(small: Programs) -> None:
    def program() -> None:
        aws.sqs.Queue("queue", delay_seconds=1)

    stack = small(program)
    stack.up()

    assert set(stack.pulumi.refresh(color="never").summary.resource_changes or ()) == {"same"}
    assert not stack.preview().changes


def test_an_update_without_an_emulator_is_refused_with_the_mend(pulumi_executable: Path, tmp_path: Path) -> None:
    stack = Engine(pulumi=pulumi_executable, directory=tmp_path).stack("dev", program=lambda: aws.sqs.Queue("queue"))

    with pytest.raises(CommandError, match="AWS_ENDPOINT_URL is not set"):
        stack.up()


def test_looking_a_resource_up_is_refused_with_the_mend(small: Programs) -> None:
    def program() -> None:
        aws.sqs.Queue.get("queue", "https://queue.example/somebody-elses")

    with pytest.raises(CommandError, match="name it by text instead"):
        small(program).preview()
