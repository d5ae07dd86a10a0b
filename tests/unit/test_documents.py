"""The documents do what they say: their example is executed as written, and their commands exist."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
COPIED = ("handlers", "statemachine", "tests", "docs", "README.md", "pyproject.toml", "__main__.py")
_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^`([\w/.]+\.py)`:$", re.MULTILINE)


def blocks(text: str) -> list[tuple[str, str, str]]:
    """(file named last before it, language, text) of each fenced block."""
    found = []
    for block in _BLOCK.finditer(text):
        named = _FILE.findall(text, 0, block.start())
        found.append((named[-1] if named else "", block[2], dedent(block[3])))
    return found


def apply(path: Path, diff: str) -> None:
    """Make a change as a reader would: the old lines must be there, once."""
    lines = diff.splitlines()
    old = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "+")
    new = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "-")
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, old
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture
def followed(tmp_path: Path) -> Path:
    """A copy of the project in which somebody followed docs/add-a-step.md."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tmp_path / name)
    for file, language, text in blocks((ROOT / "docs" / "add-a-step.md").read_text(encoding="utf-8")):
        if language == "python":
            (tmp_path / file).write_text(text, encoding="utf-8")
        elif language == "diff":
            apply(tmp_path / file, text)
    return tmp_path


@pytest.mark.exhaustive
def test_the_example_of_add_a_step_adds_a_working_step_to_the_graph(followed: Path) -> None:
    text = (followed / "docs" / "add-a-step.md").read_text(encoding="utf-8")
    commands = [line for _, language, block in blocks(text) if language == "sh" for line in block.splitlines()]
    for command in commands:
        program, *arguments = command.split()
        assert program == "python"
        ran = subprocess.run([sys.executable, *arguments], cwd=followed, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "DeletePreferences" in (followed / "statemachine/golden/deletion.asl.json").read_text(encoding="utf-8")


def test_the_example_of_add_a_step_keeps_the_project_s_style(followed: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "handlers", "statemachine", "tests/workflow"],
        cwd=followed,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout


def shell_lines() -> list[tuple[str, str]]:
    return [
        (document.name, line)
        for document in DOCUMENTS
        for _, language, text in blocks(document.read_text(encoding="utf-8"))
        if language == "sh"
        for line in text.splitlines()
    ]


def test_every_make_target_that_a_document_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    texts = [document.read_text(encoding="utf-8") for document in DOCUMENTS]
    typed = [f"`{line}`" for _, line in shell_lines()]
    named = {name for text in (*texts, *typed) for name in re.findall(r"`make ([a-z][a-z-]*)\b", text)}
    assert {"bench", "build", "demo", "test"} <= named
    assert named <= targets


def test_every_command_of_a_document_is_known_here() -> None:
    """A new kind of command needs a test that runs it."""
    known = ("make demo", "make test", "make build", "python -m ", "pulumi ", "cp Pulumi.")
    # tests/emulator/test_runbook.py types every line of the runbook.
    lines = [line for line in shell_lines() if line[0] != "runbook.md"]
    assert [line for line in lines if not line[1].startswith(known)] == []


def test_every_file_that_a_document_links_to_exists() -> None:
    missing = [
        (document.name, link)
        for document in DOCUMENTS
        for link in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8"))
        if not (document.parent / link).exists()
    ]
    assert missing == []


def test_every_invariant_has_a_test() -> None:
    invariants = set(
        re.findall(r"^- (I\d) ", (ROOT / "docs/architecture.md").read_text(encoding="utf-8"), re.MULTILINE)
    )
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    marked = {
        name for marks in re.findall(r"mark\.invariant\(([^)]*)\)", sources) for name in re.findall(r"I\d", marks)
    }
    assert invariants == {f"I{number}" for number in range(1, 9)}
    assert invariants - marked == set()
