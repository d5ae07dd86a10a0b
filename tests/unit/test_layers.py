"""Which package may import which, and what a handler loads: read from the code, so that no list can be forgotten."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    *("handlers.core", "handlers.steps", "handlers", "statemachine", "infra", "local", "ops", "examples"),
    *("bench", "tests"),
)
MAY_IMPORT = {
    "handlers.core": set(),
    "handlers.steps": {"handlers.core"},
    "handlers": {"handlers.core", "handlers.steps"},
    "statemachine": {"handlers", "handlers.core", "handlers.steps"},
    "infra": {"statemachine", "handlers.core"},
    "local": {"infra", "statemachine", "handlers", "handlers.core", "handlers.steps"},
    "examples": {"statemachine", "handlers.core", "handlers.steps"},
    "ops": {"statemachine", "handlers", "handlers.core"},
}
PULUMI = {"infra", "local"}


def sources(package: str) -> Iterator[Path]:
    for path in sorted((ROOT / package.replace(".", "/")).rglob("*.py")):
        if package_of(module_of(path)) == package:
            yield path


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def package_of(module: str) -> str | None:
    return next((package for package in PACKAGES if module == package or module.startswith(package + ".")), None)


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                yield f"{node.module}.{alias.name}"


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_only_from_the_packages_below_it(package: str) -> None:
    files = list(sources(package))
    wrong = [
        f"{module_of(path)} imports {name}"
        for path in files
        for name in imported(path)
        if package_of(name) not in {None, package, *MAY_IMPORT[package]}
    ]
    assert files
    assert wrong == []


def test_only_infra_and_local_import_pulumi() -> None:
    packages = [package for package in MAY_IMPORT if package not in PULUMI]
    wrong = [
        module_of(path)
        for package in packages
        for path in sources(package)
        if any(name.split(".")[0] in {"pulumi", "pulumi_aws"} for name in imported(path))
    ]
    assert wrong == []


def handler_modules() -> list[str]:
    return [
        module_of(path)
        for package in ("handlers", "handlers.steps")
        for path in sources(package)
        if path.name != "__init__.py"
    ]


def test_importing_the_handlers_loads_no_pulumi_no_pydantic_and_makes_no_client() -> None:
    """In a fresh interpreter without credentials or Region: a client made at import would fail there."""
    program = f"""
import importlib, sys
for module in {handler_modules()!r}:
    importlib.import_module(module)
    heavy = {{"pulumi", "pulumi_aws", "pydantic", "aws_xray_sdk", "statemachine", "infra"}} & set(sys.modules)
    if heavy:
        print(module, sorted(heavy))
import boto3
print("session:", boto3.DEFAULT_SESSION)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, env={}, check=False)
    assert (ran.stdout.strip(), ran.stderr) == ("session: None", "")


def test_every_file_with_tests_is_collected() -> None:
    uncollected = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("*.py")
        if not path.name.startswith("test_")
        and any(
            isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        )
    ]
    assert uncollected == []


def test_every_package_and_program_has_its_types_checked() -> None:
    there = {path.parent.name for path in ROOT.glob("*/__init__.py")} | {path.stem for path in ROOT.glob("*.py")}

    checks = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]

    assert {*checks["packages"], *checks["modules"]} == there


def test_every_service_of_the_provider_that_is_used_has_its_types_checked() -> None:
    used = {
        f"pulumi_aws.{service}.*"
        for package in PULUMI
        for path in sources(package)
        for service in services(path.read_text(encoding="utf-8"))
    }

    overrides = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]["overrides"]

    read = {module for one in overrides if one.get("follow_imports") == "normal" for module in one["module"]}
    assert used
    assert used <= read


def services(source: str) -> Iterator[str]:
    """The modules of pulumi_aws that a program names."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == "pulumi_aws":
            yield from (one.name for one in node.names)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            name = node.value
            if isinstance(name.value, ast.Name) and name.value.id == "aws" and node.attr[0].isupper():
                yield name.attr
