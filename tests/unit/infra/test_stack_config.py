"""The stack's configuration as a local run reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.stack_config import ConfigError, stack_config


def test_the_stacks_file_wins_over_the_projects_defaults(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text(
        "name: demo\nruntime: python\nconfig:\n  word: {default: one}\n  days: {type: integer, default: 30}\n"
        "  none: {type: string}\n  aws:region: eu-central-1\n",
        encoding="utf-8",
    )
    (tmp_path / "Pulumi.local.yaml").write_text(
        "config:\n  demo:word: two\n  demo:flag: true\n  demo:settings:\n    tables: [a, b]\n", encoding="utf-8"
    )
    assert stack_config(tmp_path, "local") == {
        "demo:word": "two",
        "demo:days": "30",
        "demo:flag": "true",
        "demo:settings": '{"tables": ["a", "b"]}',
        "aws:region": "eu-central-1",
    }


def test_no_files_are_no_settings(tmp_path: Path) -> None:
    assert stack_config(tmp_path, "local") == {}


def test_an_encrypted_value_is_refused_with_its_key(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.local.yaml").write_text("config:\n  demo:key:\n    secure: v1:abc\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"Pulumi\.local\.yaml: demo:key is encrypted"):
        stack_config(tmp_path, "local")
