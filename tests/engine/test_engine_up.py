"""What the engine makes on the emulator, changes there, and refuses to remove."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pulumi.automation import CommandError

from local.emulator import Emulator
from statemachine import deletion
from tests.engine.engine import FUNCTION, MACHINE, Engine, Report, Stack, definition, inputs, refusal

PROTECTED = ("store-table", "store-subject-key", "schedules-group")


@pytest.fixture(scope="module")
def staging(engine: Engine, dev: Stack) -> Report:
    """The first update of `staging`, beside dev."""
    return engine.stack("staging").up()


def test_outputs_name_what_was_made(dev: Stack, emulator_of_dev: Emulator) -> None:
    outputs = dev.outputs()

    table = emulator_of_dev.client("dynamodb").describe_table(TableName=outputs["request_table_name"])["Table"]
    assert table["TableStatus"] == "ACTIVE"
    key = emulator_of_dev.client("kms").describe_key(KeyId=outputs["subject_key_arn"])["KeyMetadata"]
    assert key["KeyUsage"] == "GENERATE_VERIFY_MAC"
    function, _, alias = outputs["request_function_arn"].rpartition(":")
    assert emulator_of_dev.client("lambda").get_alias(FunctionName=function, Name=alias)["FunctionVersion"] == "1"
    for url in outputs["dead_letter_queue_urls"].values():
        assert emulator_of_dev.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])[
            "Attributes"
        ]
    machine = emulator_of_dev.client("stepfunctions").describe_state_machine(
        stateMachineArn=outputs["state_machine_arn"]
    )
    assert json.loads(machine["definition"]) == definition(dev.preview().one(MACHINE))


def test_an_update_brings_a_changed_timeout_about(
    engine: Engine, emulator_of_dev: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = engine.stack("change", config_of="dev")
    first = stack.up()
    step = replace(deletion.DELETE_FILES, timeout=deletion.DELETE_FILES.timeout / 2)
    monkeypatch.setattr(deletion, "DELETE_FILES", step)

    second = stack.up()

    assert second.one(FUNCTION, "delete-files-function") in second.changes
    assert second.one(MACHINE) in second.changes
    name = inputs(first.one(FUNCTION, "delete-files-function"))["name"]
    live = emulator_of_dev.client("lambda").get_function_configuration(FunctionName=name, Qualifier="live")
    assert (live["Timeout"], live["Version"]) == (step.timeout.total_seconds(), "2")
    assert not stack.preview().changes


def test_destroying_a_stack_without_protection_removes_everything_and_nothing_of_another(
    engine: Engine, dev: Stack, emulator_of_dev: Emulator
) -> None:
    before = _names(emulator_of_dev)
    stack = engine.stack("scratch", config_of="dev")
    made = stack.up()
    assert _names(emulator_of_dev) != before

    gone = stack.destroy()

    assert {one.urn for one in gone.changes} == {one.urn for one in made.aws}
    assert _names(emulator_of_dev) == before
    assert not dev.preview().changes


def test_stacks_side_by_side_share_no_name(dev: Stack, staging: Report) -> None:
    ours, theirs = (Counter(_physical(report)) for report in (dev.preview(), staging))

    assert ours.keys() & theirs.keys() == set()
    assert max(ours.values()) == max(theirs.values()) == 1


def test_destroying_a_protected_stack_is_refused_with_the_names_of_what_is_protected(
    engine: Engine, staging: Report, emulator_of_dev: Emulator
) -> None:
    before = _names(emulator_of_dev)
    stack = engine.stack("staging")

    with pytest.raises(CommandError) as refused:
        stack.preview_destroy()

    for name in PROTECTED:
        assert f'::account-deletion-{name}" cannot be deleted because it is protected' in refusal(refused.value)
    assert _names(emulator_of_dev) == before
    assert not stack.preview().changes


def test_renaming_a_protected_stack_is_refused_in_the_preview(engine: Engine, staging: Report) -> None:
    stack = engine.stack("staging")

    with stack.configured("name_prefix: acme", "name_prefix: umbrella"), pytest.raises(CommandError) as refused:
        stack.preview()

    assert '::account-deletion-store-table" as it is currently marked for protection' in refusal(refused.value)


def test_destroying_a_protected_stack_unseen_keeps_what_is_protected(
    engine: Engine, staging: Report, emulator_of_dev: Emulator
) -> None:
    stack = engine.stack("preprod", config_of="staging")
    stack.up()
    outputs = stack.outputs()

    with pytest.raises(CommandError) as refused:
        stack.destroy()

    assert "cannot be deleted because it is protected" in refusal(refused.value)
    kept = _names(emulator_of_dev)
    assert outputs["request_table_name"] in kept["list_tables"]
    assert outputs["schedule_group_name"] in kept["list_schedule_groups"]
    key = emulator_of_dev.client("kms").describe_key(KeyId=outputs["subject_key_arn"])["KeyMetadata"]
    assert key["KeyState"] == "Enabled"


def _physical(report: Report) -> Iterator[tuple[str, str]]:
    """(type, explicit name) of everything that has one; an alias of a function is named within its function."""
    for one in report.aws:
        given: Any = inputs(one)
        name = given.get("name") or given.get("layerName")
        if name is not None:
            yield one.type, "/".join(str(given[part]) for part in ("functionName", "role") if part in given) + name


def _names(emulator: Emulator) -> dict[str, set[str]]:
    """What is on the emulator, by the operation that lists it."""
    return {
        operation: {
            one if field is None else one[field]
            for page in emulator.client(service).get_paginator(operation).paginate()
            for one in page.get(key, [])
        }
        for service, operation, key, field in _LISTS
    }


_LISTS = (
    ("dynamodb", "list_tables", "TableNames", None),
    ("lambda", "list_functions", "Functions", "FunctionName"),
    ("lambda", "list_layers", "Layers", "LayerName"),
    ("stepfunctions", "list_state_machines", "stateMachines", "name"),
    ("iam", "list_roles", "Roles", "RoleName"),
    ("sqs", "list_queues", "QueueUrls", None),
    ("logs", "describe_log_groups", "logGroups", "logGroupName"),
    ("scheduler", "list_schedule_groups", "ScheduleGroups", "Name"),
    ("scheduler", "list_schedules", "Schedules", "Name"),
    ("events", "list_rules", "Rules", "Name"),
    ("kms", "list_aliases", "Aliases", "AliasName"),
)
