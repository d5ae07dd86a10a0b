"""What a resource type of the mapping is made of, and how it refuses what it does not know."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from botocore.exceptions import ClientError

Json = dict[str, Any]
Inputs = Mapping[str, Any]


class ResourceError(Exception):
    """A resource, or a part of one, that the local run cannot make. The message names the type and the mend."""


class UnknownTypeError(ResourceError):
    """A type token that the mapping does not have."""

    def __init__(self, token: str, known: list[str]) -> None:
        self.token = token
        super().__init__(f"{token}: not in the mapping of local/resources; it has {', '.join(known)}")


class UnknownPropertyError(ResourceError):
    """An input that the mapping of this type neither passes on nor lists as not honoured."""

    def __init__(self, token: str, path: str, known: list[str]) -> None:
        self.token = token
        self.path = path
        super().__init__(f"{token}: property {path} is not in the mapping; it has {', '.join(known)}")


class UnsupportedValueError(ResourceError):
    """A value of a known property that the emulator, or this mapping, cannot do."""

    def __init__(self, token: str, path: str, value: object, mend: str) -> None:
        self.token = token
        self.path = path
        super().__init__(f"{token}: {path} = {value!r}: {mend}")


class ServiceError(ResourceError):
    """The emulator answered a call with an error."""

    def __init__(self, token: str, error: Exception) -> None:
        self.token = token
        super().__init__(f"{token}: {error}")


class World(Protocol):
    """What the mapping needs to know of the place where it makes resources. `local.emulator.Emulator` is one."""

    @property
    def account(self) -> str: ...

    @property
    def region(self) -> str: ...

    def client(self, service: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class Made:
    """What a creation answers."""

    id: str
    outputs: Json
    """Only what the service computed; the inputs are added to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceType:
    """One Pulumi resource type: which inputs it takes and the calls behind them."""

    pulumi_type: str
    """Its token, e.g. aws:dynamodb/table:Table"""
    honoured: frozenset[str]
    """Inputs that reach the emulator and mean there what they mean on AWS."""
    not_honoured: Mapping[str, str] = field(default_factory=dict)
    """Inputs that are accepted, each with the reason why they have no effect."""
    replaces: frozenset[str] = frozenset()
    """Inputs whose change makes a new resource."""
    named_by: str | None = None
    """The input that takes a name made from the logical one, when the program gives none."""
    create: Callable[[World, Json], Made]
    update: Callable[[World, str, Json, Json], Json] | None
    """(world, id, old inputs, new inputs) -> computed outputs. None: every change is a replacement."""
    delete: Callable[[World, str, Json], None]
    """(world, id, outputs). A resource that is gone already is no error."""

    def check(self, inputs: Inputs) -> Json:
        """The inputs without absent ones. Raises UnknownPropertyError."""
        known = self.honoured | self.not_honoured.keys()
        for name in inputs:
            if name not in known and inputs[name] is not None:
                raise UnknownPropertyError(self.pulumi_type, name, sorted(known))
        return {name: value for name, value in inputs.items() if value is not None}


class UnknownFieldError(Exception):  # becomes UnknownPropertyError as soon as the type is known
    """A field of a nested value that the mapping does not have."""

    def __init__(self, path: str, known: list[str]) -> None:
        self.path = path
        self.known = known
        super().__init__(path)


class RefusedValueError(Exception):  # becomes UnsupportedValueError as soon as the type is known
    """A value that cannot be done here."""

    def __init__(self, path: str, value: object, mend: str) -> None:
        self.path = path
        self.value = value
        self.mend = mend
        super().__init__(path)


def pascal(name: str) -> str:
    """billingMode -> BillingMode: how most services spell what Pulumi spells in camel case."""
    return name[:1].upper() + name[1:]


def taken(inputs: Inputs, *names: str, **renamed: str) -> Json:
    """Those inputs that are there, under the service's names: PascalCase, or the given one (logFormat="Format")."""
    wanted = {name: pascal(name) for name in names} | renamed
    return {wire: inputs[name] for name, wire in wanted.items() if inputs.get(name) is not None}


def shape(path: str, value: Inputs, *names: str, **renamed: str) -> Json:
    """A nested value under the service's names. Raises UnknownFieldError for a field that is not among them."""
    known = {*names, *renamed}
    for name in value:
        if name not in known and value[name] is not None:
            raise UnknownFieldError(f"{path}.{name}", sorted(known))
    return taken(value, *names, **renamed)


def first(value: Any) -> Any:
    """Pulumi sometimes hands a block of at most one as a list."""
    return value[0] if isinstance(value, list) else value


def document(value: Any) -> str:
    """A policy or definition as text, whether the program gave text or an object."""
    return value if isinstance(value, str) else json.dumps(value)


def pairs(tags: Inputs | None, key: str = "Key", value: str = "Value") -> list[Json]:
    """{"a": "b"} -> [{"Key": "a", "Value": "b"}]"""
    return [{key: name, value: text} for name, text in sorted((tags or {}).items())]


def tag_changes(old: Json, new: Json) -> tuple[dict[str, str], list[str]]:
    """(tags to set, keys to remove) that lead from the old inputs' tags to the new ones'."""
    before, after = old.get("tags") or {}, new.get("tags") or {}
    return {key: text for key, text in after.items() if before.get(key) != text}, sorted(before.keys() - after.keys())


def changed(old: Json, new: Json, *names: str) -> bool:
    """Whether any of these inputs differs."""
    return any(old.get(name) != new.get(name) for name in names)


def quietly(call: Callable[..., Any], *, absent: tuple[str, ...] = (), **arguments: Any) -> None:
    """Call it; that the thing is not there (by any of these error codes, or the usual ones) is no error."""
    try:
        call(**arguments)
    except ClientError as error:
        # Query protocols put a namespace before the code.
        code = str(error.response["Error"]["Code"]).rpartition(".")[2]
        if code not in (*_ABSENT, *absent):
            raise


_ABSENT = ("ResourceNotFoundException", "NoSuchEntity", "NoSuchEntityException")

LAYERS = Path(__file__).resolve().parent.parent.parent / ".local" / "layers"
"""Unpacked layers, by content: what /opt is in a real Lambda."""
