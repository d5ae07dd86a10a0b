"""Values as Pulumi hands them over, as the mapping takes them, and as they are remembered."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pulumi

from local.packages import zip_bytes
from local.resources.base import Json

_SIGNATURE = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 Pulumi's mark of a secret value
_DIGEST = "package sha256"


def plain(value: Any) -> Any:
    """Without the wrapping of secrets, and with whole numbers as int: Pulumi's wire has floats only."""
    if isinstance(value, dict):
        if value.get(_SIGNATURE) == _SECRET:
            return plain(value["value"])
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def digested(value: Any) -> Any:
    """The same with each package replaced by its digest: what can be compared, and written to a file."""
    if isinstance(value, pulumi.Archive | pulumi.Asset):
        return {_DIGEST: base64.b64encode(hashlib.sha256(zip_bytes(value)).digest()).decode()}
    if isinstance(value, dict):
        return {name: digested(item) for name, item in value.items()}
    if isinstance(value, list):
        return [digested(item) for item in value]
    return value


def without_packages(outputs: Json) -> Json:
    return {name: value for name, value in outputs.items() if not (isinstance(value, dict) and _DIGEST in value)}
