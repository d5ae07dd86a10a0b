"""The launcher of the command line, and completion in a shell, as processes of their own."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.exhaustive

ROOT = Path(__file__).resolve().parents[3]
NAME = "account-deletion"
COMPLETE = """
eval "$(_ACCOUNT_DELETION_COMPLETE=source_bash "$1")"
COMP_WORDS=("${@:1}")
COMP_CWORD=$(($# - 1))
read -r _ _ _ _ function name < <(complete -p)
"$function" "$1"
echo "$name: ${COMPREPLY[*]}"
"""
"""What bash does for a tab after these words."""


@pytest.fixture
def launcher(tmp_path: Path) -> Path:
    """A link to the launcher of a checkout whose .venv is the environment of this process."""
    checkout = tmp_path / "a checkout"
    checkout.mkdir()
    shutil.copy(ROOT / NAME, checkout)
    for package in ("handlers", "ops", "statemachine"):
        (checkout / package).symlink_to(ROOT / package)
    (checkout / ".venv").symlink_to(sys.prefix)
    link = tmp_path / "bin" / NAME
    link.parent.mkdir()
    link.symlink_to(checkout / NAME)
    return link


def ran(*words: str | Path, cwd: Path) -> tuple[int, str, str]:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_the_launcher_runs_from_any_directory_whatever_is_in_it(launcher: Path, tmp_path: Path) -> None:
    (tmp_path / "ops.py").write_text("raise AssertionError\n", encoding="utf-8")
    code, out, err = ran(launcher, "bulk", "missing.csv", "--yes", "--outputs", "none.json", cwd=tmp_path)
    assert (code, out, err) == (2, "", "ops: none.json: No such file or directory\n")


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (("verif",), "verify"),
        (("list", "--state", "COMPL"), "COMPLETED"),
        (("redrive", "--all"), "--all-failed"),
    ],
)
def test_bash_completes_the_words_of_a_command(
    launcher: Path, tmp_path: Path, words: tuple[str, ...], completed: str
) -> None:
    code, out, err = ran("bash", "--norc", "-c", COMPLETE, "bash", launcher, *words, cwd=tmp_path)
    assert (code, out, err) == (0, f"{NAME}: {completed}\n", "")
