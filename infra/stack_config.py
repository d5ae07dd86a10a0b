"""The stack's configuration, as Pulumi would read it: Pulumi.yaml's defaults, then Pulumi.<stack>.yaml."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml


class ConfigError(ValueError):
    """A setting that cannot be read here; the message names file and key."""


def stack_config(root: Path, stack: str) -> dict[str, str]:
    """{"account-deletion:environment": "local"}: complete keys to text; objects as JSON, as Pulumi hands them out.

    Raises ConfigError for an encrypted value: there is nothing here to decrypt it with.
    """
    project = _read(root / "Pulumi.yaml")
    name = str(project.get("name", ""))
    settings: dict[str, str] = {}
    for key, value in (project.get("config") or {}).items():
        default = value.get("value", value.get("default")) if isinstance(value, dict) else value
        if default is not None:
            settings[_full(name, key)] = _text(default)
    file = root / f"Pulumi.{stack}.yaml"
    for key, value in (_read(file).get("config") or {}).items():
        if isinstance(value, dict) and "secure" in value:
            raise ConfigError(f"{file.name}: {key} is encrypted, and nothing here can decrypt it; set it in plain text")
        settings[_full(name, key)] = _text(value)
    return settings


def _read(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    return dict(yaml.safe_load(file.read_text(encoding="utf-8")) or {})


def _full(project: str, key: str) -> str:
    return key if ":" in key else f"{project}:{key}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
