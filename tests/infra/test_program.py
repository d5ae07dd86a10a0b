"""`__main__.py` with each environment's own file: what `pulumi preview` runs, without an engine."""

import ast
import json
import re
import runpy
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import packaging
from infra.packaging import ROOT, Manifest, digest_of, layer_path, lock_path, manifest_path
from statemachine import deletion
from statemachine.workflow import Workflow
from tests.infra import samples
from tests.infra.world import refusal, run

pytestmark = pytest.mark.exhaustive

ENVIRONMENTS = ("dev", "staging", "prod")


def config_of(environment: str) -> dict[str, str]:
    """What the engine gives to the program: every value as a text, structures as JSON."""
    with (ROOT / f"Pulumi.{environment}.yaml").open(encoding="utf-8") as file:
        config: dict[str, Any] = yaml.safe_load(file)["config"]
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}


def program() -> None:
    runpy.run_path(str(ROOT / "__main__.py"), run_name="__main__")


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after `make build`."""
    monkeypatch.setattr(packaging, "load_build", samples.build)


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_environment_file_deploys(environment: str) -> None:
    world = run(program, preview=True, environment=environment, config=config_of(environment))

    assert world.one("Table").physical_name == f"acme-{environment}-deletions"
    assert {one.protect for one in world.of("Table")} == {environment != "dev"}
    assert world.warnings == ()
    assert set(world.exports) == {
        "dashboard_name",
        "dead_letter_queue_urls",
        "function_arns",
        "request_function_arn",
        "request_table_name",
        "schedule_group_name",
        "state_machine_arn",
        "subject_key_arn",
    }


@pytest.mark.usefixtures("built")
def test_wrong_configuration_is_refused_before_anything_is_made() -> None:
    config = {"account-deletion:settings": json.dumps({"platform": {"prefix": "acme"}, "grace": "30 days"})}

    assert refusal(program, config=config) == (
        "the settings cannot be deployed:\n"
        "  - grace: no such setting; there are platform, realm, identifiers, record_stores, file_stores, user_pool_id, "
        "grace_default, grace_minimum, grace_maximum, erase_within, settle, keep_requests, protect_data\n"
        "  - platform.prefix: no such setting; there are name_prefix, permissions_boundary, role_path, tags, "
        "kms_key_arn, log_retention, network, page_topics, ticket_topics\n"
        "  - platform.name_prefix is missing",
        (),
    )


@pytest.mark.usefixtures("built")
def test_missing_configuration_says_what_to_set() -> None:
    message, _ = refusal(program)

    assert message == "the settings cannot be deployed:\n  - platform is missing"


@pytest.mark.usefixtures("built")
def test_broken_step_list_is_refused_with_its_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*, identity: bool) -> Workflow:
        return Workflow(steps=(deletion.DELETE_FILES, deletion.DELETE_RECORDS))

    monkeypatch.setattr(deletion, "workflow", broken)
    message, asked_for = refusal(program, environment="dev", config=config_of("dev"))

    assert message.startswith("W04 DeleteFiles: retriable before any pivot;")
    assert asked_for == ()


def checkout(root: Path, *, lock: str) -> Path:
    """A built checkout, as far as load_build looks."""
    for path in (lock_path(root), layer_path(root), root / "handlers" / "step.py"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    manifest = Manifest(
        format=packaging.FORMAT,
        runtime=packaging.RUNTIME,
        architecture=packaging.ARCHITECTURE,
        lock=digest_of(lock_path(root)),
        layer=digest_of(layer_path(root)),
        modules=(),
    )
    manifest_path(root).write_text(manifest.to_json())
    lock_path(root).write_text(lock)
    return root


def use(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaging.load_build, "__defaults__", (root,))


def test_preview_without_a_build_says_which_command_makes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(tmp_path, monkeypatch)

    assert refusal(program, environment="dev", config=config_of("dev")) == (
        "the packages for Lambda are not built; run: make build",
        (),
    )


def test_preview_with_a_stale_build_says_which_command_makes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(checkout(tmp_path, lock="boto3==2\n"), monkeypatch)

    assert refusal(program, environment="dev", config=config_of("dev")) == (
        "the layer in .build is older than infra/layer.lock or than the builder; run: make build",
        (),
    )


def test_preview_starts_no_process_and_touches_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    use(checkout(tmp_path, lock=""), monkeypatch)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: used.append("process"))
    monkeypatch.setattr(socket.socket, "connect", lambda *_: used.append("network"))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: used.append("network"))

    world = run(program, preview=True, environment="dev", config=config_of("dev"))

    assert used == []
    assert [*world.of("Function")[0].inputs["code"]["assets"]] == ["handlers/step.py"]


def modules_of(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def test_nothing_below_main_reads_the_configuration_or_the_stack() -> None:
    readers = [
        str(path.relative_to(ROOT))
        for package in ("infra", "statemachine", "handlers")
        for path in modules_of(package)
        if re.search(r"pulumi\.(Config|get_stack|get_project)|runtime\.config", path.read_text(encoding="utf-8"))
    ]

    assert readers == []


def test_paths_come_from_the_files_place_and_not_from_the_working_directory() -> None:
    wrong = [
        str(path.relative_to(ROOT))
        for path in modules_of("infra")
        if re.search(r"getcwd|\.cwd\(\)|get_root_directory", path.read_text(encoding="utf-8"))
    ]

    assert wrong == []


def test_what_the_build_imports_knows_nothing_of_pulumi() -> None:
    for name in ("build", "errors", "naming", "packaging"):
        tree = ast.parse((ROOT / "infra" / f"{name}.py").read_text(encoding="utf-8"))
        imported = {
            alias.name if isinstance(node, ast.Import) else str(node.module)
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        assert {module for module in imported if module.startswith("pulumi")} == set()
