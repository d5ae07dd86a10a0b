"""Which pulumi the tests get."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.engine.conftest import PULUMI_CLI

PINNED = "3.274.1"


@pytest.mark.parametrize("said", [f"v{PINNED}", PINNED])
def test_a_pulumi_of_the_pinned_version_on_the_path_is_used(tmp_path: Path, said: str) -> None:
    mine = _pulumi(tmp_path / "mine", said)

    assert _answer(tmp_path, mine.parent) == str(mine)


def test_another_version_on_the_path_is_left_for_the_one_that_was_built_before(tmp_path: Path) -> None:
    mine = _pulumi(tmp_path / "mine", "v3.1.0")
    built = _pulumi(tmp_path / "account-deletion" / f"pulumi-{PINNED}", PINNED)

    assert _answer(tmp_path, mine.parent) == str(built)


def _pulumi(directory: Path, version: str) -> Path:
    """An executable that only knows its version."""
    directory.mkdir(parents=True)
    executable = directory / "pulumi"
    executable.write_text(f"#!/bin/sh\necho {version}\n", encoding="utf-8")
    executable.chmod(0o755)
    return executable


def _answer(cache: Path, path: Path) -> str:
    environment = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run([PULUMI_CLI], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()
