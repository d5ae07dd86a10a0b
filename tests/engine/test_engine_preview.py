"""What a reviewer sees: previews, of nothing and of changes, by the real engine."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pulumi.automation import CommandError, DiffKind, OpType

import infra.packaging
from infra.packaging import Build, load_build
from infra.stack_config import stack_config
from local.emulator import ROOT
from statemachine import deletion
from tests.engine.engine import (
    ALIAS,
    FUNCTION,
    MACHINE,
    TABLE,
    Engine,
    Report,
    Stack,
    definition,
    differences,
    operations,
    program,
    watched,
)
from tests.infra import world

NAME = "account-deletion"
DEFINITION = f"{NAME}-workflow-machine.definition"
DIGEST = f"{DEFINITION}.States.Claim.Arguments.ExpressionAttributeValues.:definition.S"
"""What a claim records of the definition that it runs."""


@dataclass(frozen=True, slots=True)
class First:
    """The first preview of a stack, on a machine without emulator and network."""

    report: Report
    programs: tuple[str, ...]
    """What was started meanwhile, by the program and by Pulumi's SDK."""
    hosts: frozenset[str]
    """Whom the program and Pulumi's SDK talked to."""
    asked_proxy: bool
    """Whether the engine, or a plugin, looked for the network."""


@pytest.fixture(scope="module")
def first(pulumi_executable: Path, tmp_path_factory: pytest.TempPathFactory) -> First:
    """One preview of dev, from nothing."""
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.setblocking(False)
        address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        stack = Engine(
            pulumi=pulumi_executable,
            directory=tmp_path_factory.mktemp("nothing"),
            environment={"HTTP_PROXY": address, "HTTPS_PROXY": address, "NO_PROXY": "127.0.0.1,localhost"},
        ).stack("dev")
        with watched() as seen:
            report = stack.preview()
        try:
            proxy.accept()
            asked_proxy = True
        except BlockingIOError:
            asked_proxy = False
    return First(report, tuple(seen.programs), frozenset(seen.hosts), asked_proxy)


def test_first_preview_creates_exactly_what_the_program_registers_without_an_engine(first: First) -> None:
    registered = world.run(program, preview=True, environment="dev", config=stack_config(ROOT, "dev")).aws

    assert operations(first.report.aws) == {("create", one.name) for one in registered}
    assert len(first.report.aws) == len(registered)


def test_first_preview_knows_the_whole_definition_and_shows_it_line_by_line(first: First) -> None:
    shown = definition(first.report.one(MACHINE))

    assert world.UNKNOWN not in json.dumps(shown)
    assert {step.name for step in deletion.steps(identity=True)} <= set(_strings(shown))
    lines = {" ".join(line.replace(":", " : ", 1).split()) for line in first.report.text.splitlines()}
    assert {f'StartAt : "{shown["StartAt"]}"', "States : {", "DeleteRecords : {"} <= lines


def test_first_preview_starts_nothing_but_pulumi_and_leaves_the_machine_alone(first: First) -> None:
    assert {Path(one).name for one in first.programs} == {"pulumi"}
    assert first.hosts <= {"127.0.0.1", "localhost", "::1"}
    assert not first.asked_proxy


def test_second_preview_of_a_deployed_stack_changes_nothing(dev: Stack) -> None:
    report = dev.preview()

    assert operations(report.changes) == set()
    assert report.aws


def test_second_update_of_a_deployed_stack_changes_nothing(dev: Stack) -> None:
    assert operations(dev.up().changes) == set()


def test_another_retry_is_a_change_of_that_retry_and_of_the_bound_that_requests_are_held_to(
    dev: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _worst_case()
    *others, last = deletion.DELETE_FILES.retry
    slower = replace(last, interval=last.interval * 2)
    monkeypatch.setattr(deletion, "DELETE_FILES", replace(deletion.DELETE_FILES, retry=(*others, slower)))

    report = dev.preview()

    changed = differences(report)
    assert changed.pop(DIGEST)
    assert changed == {
        f"{DEFINITION}.States.DeleteFiles.Retry[2].IntervalSeconds": (5, 10),
        f"{NAME}-request-deletion-function.environment.variables.ATTEMPT_WORST_CASE": (before, _worst_case()),
        f"{NAME}-request-deletion-live.functionVersion": ("1", world.UNKNOWN),
        f"{NAME}-sweep-function.environment.variables.ATTEMPT_WORST_CASE": (before, _worst_case()),
        f"{NAME}-sweep-live.functionVersion": ("1", world.UNKNOWN),
    }
    assert {one.op for one in report.changes} == {OpType.UPDATE}
    assert "~ IntervalSeconds: 5 => 10" in report.text


def test_another_timeout_is_a_change_of_the_function_and_of_all_that_waits_for_it(
    dev: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _worst_case()
    assert deletion.DELETE_FILES.timeout == timedelta(minutes=10)
    monkeypatch.setattr(deletion, "DELETE_FILES", replace(deletion.DELETE_FILES, timeout=timedelta(minutes=5)))

    report = dev.preview()

    changed = differences(report)
    assert changed.pop(DIGEST)
    assert changed == {
        f"{NAME}-delete-files-function.timeout": (600, 300),
        f"{NAME}-delete-files-function.environment.variables.STEP_TIMEOUT": ("600", "300"),
        f"{NAME}-delete-files-live.functionVersion": ("1", world.UNKNOWN),
        f"{NAME}-request-deletion-function.environment.variables.ATTEMPT_WORST_CASE": (before, _worst_case()),
        f"{NAME}-request-deletion-live.functionVersion": ("1", world.UNKNOWN),
        f"{NAME}-sweep-function.environment.variables.ATTEMPT_WORST_CASE": (before, _worst_case()),
        f"{NAME}-sweep-live.functionVersion": ("1", world.UNKNOWN),
        f"{NAME}-verify-erasure-function.environment.variables.LONGEST_LISTING": ("600", "300"),
        f"{NAME}-verify-erasure-live.functionVersion": ("1", world.UNKNOWN),
        f"{DEFINITION}.States.DeleteFiles.TimeoutSeconds": (630, 330),
    }
    assert {one.op for one in report.changes} == {OpType.UPDATE}


def test_another_line_of_a_handler_is_a_change_of_the_functions_that_names_the_file(
    dev: Stack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = "handlers/steps/delete_files.py"
    _deploy_instead(monkeypatch, name, tmp_path / "delete_files.py", more="\n# one more line\n")

    report = dev.preview()

    assert {one.op for one in report.changes} == {OpType.UPDATE}
    assert {one.type for one in report.changes} == {FUNCTION, ALIAS}
    assert len(report.changes) == len(report.of(FUNCTION)) + len(report.of(ALIAS))
    assert all(one.diffs == ["code"] for one in report.of(FUNCTION))
    files = {line.split('"')[1] for line in report.text.splitlines() if '.py"' in line and "~" in line}
    assert files == {name}


def test_another_name_is_a_replacement_and_says_so(dev: Stack) -> None:
    with dev.configured("name_prefix: acme", "name_prefix: umbrella"):
        report = dev.preview()

    steps = {one.op: one for one in report.of(TABLE)}
    assert list(steps) == [OpType.CREATE_REPLACEMENT, OpType.REPLACE, OpType.DELETE_REPLACED]
    assert steps[OpType.REPLACE].keys == ["name"]
    differences = steps[OpType.REPLACE].detailed_diff or {}
    assert differences["name"].diff_kind is DiffKind.UPDATE_REPLACE


def test_a_wrong_setting_is_refused_with_its_message_and_without_a_stack_trace(dev: Stack) -> None:
    with (
        dev.configured("grace_minimum: 0 seconds", "grace_minimum: 40 days"),
        pytest.raises(CommandError) as refused,
    ):
        dev.preview()

    assert "keep it between grace_minimum (40 days) and grace_maximum" in str(refused.value)
    assert "Traceback" not in str(refused.value)


def _strings(value: Any) -> Iterator[str]:
    """Every key and every text in a JSON value."""
    if isinstance(value, dict):
        yield from value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from [item] if isinstance(item, str) else _strings(item)


def _worst_case() -> str:
    """The longest attempt, in the seconds that the request function is given."""
    return str(int(deletion.workflow(identity=True).worst_case.total_seconds()))


def _deploy_instead(monkeypatch: pytest.MonkeyPatch, name: str, file: Path, *, more: str) -> None:
    """From now on the program deploys a file with more in it."""
    build: Build = load_build()
    file.write_text(build.code[name].read_text(encoding="utf-8") + more, encoding="utf-8")
    changed = replace(build, code={**build.code, name: file})
    monkeypatch.setattr(infra.packaging, "load_build", lambda: changed)
