"""The team's own stores as typed configuration: which tables and buckets hold a user's data, and under which keys.

The stack names these stores and gets access to them. It never makes, changes or destroys them.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from handlers.core.templates import Template

_ARN = re.compile(r"arn:[^:]+:dynamodb:(?P<region>[^:]+):(?P<account>\d{12}):table/(?P<table>.+)")
_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_STORE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_ONE_NAME = re.compile(r"\{[a-z_][a-z0-9_]*\}")
KEY_TYPES = ("S", "N", "B")

_Store = TypeVar("_Store")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordStore:
    """The user's items in one DynamoDB table: those of one partition, or of one partition under a sort-key prefix."""

    name: str
    """What reports and metrics call it: letters, digits, _ and -; no personal data."""
    table: str
    """The table's name, or its ARN in the stack's own account and Region: a transaction spans no more."""
    partition_key: str
    """The partition key's attribute name."""
    partition: str
    """Template of the partition key's value, e.g. ``USER#{user_id}``."""
    partition_type: str = "S"
    """S, N or B (B: the template's UTF-8 bytes)."""
    sort_key: str | None = None
    """The sort key's attribute name; None for a table without one."""
    sort_prefix: str | None = None
    """Template of the beginning of the sort key's value; None takes the whole partition."""

    @property
    def table_name(self) -> str:
        """The name, also where the settings hold an ARN."""
        match = _ARN.fullmatch(self.table)
        return match["table"] if match else self.table

    def problems(self, identifiers: Collection[str], *, account: str, region: str) -> tuple[str, ...]:
        """What is wrong with the store for a stack in this account and Region, each with the mend."""
        found = list(_name_problems(self.name))
        found += self._place_problems(account, region)
        if self.partition_type not in KEY_TYPES:
            found.append(f"partition_type {self.partition_type!r} is none of {', '.join(KEY_TYPES)}")
        if self.partition_type == "N" and not _ONE_NAME.fullmatch(self.partition):
            found.append(f"partition {self.partition!r} is no number; for N write one placeholder and nothing else")
        found += [f"partition: {text}" for text in Template(self.partition).problems(identifiers, prefix=False)]
        if self.sort_prefix is not None:
            if self.sort_key is None:
                found.append("sort_prefix needs sort_key; name the table's sort key")
            found += self._sort_problems(identifiers)
        return tuple(f"record store {self.name}: {text}" for text in found)

    def _sort_problems(self, identifiers: Collection[str]) -> list[str]:
        template = Template(self.sort_prefix or "")
        # The partition already holds the user, so a sort prefix may be the same for all.
        problems = template.problems(identifiers, prefix=True)
        return [f"sort_prefix: {text}" for text in problems if "would match every user" not in text]

    def _place_problems(self, account: str, region: str) -> list[str]:
        if not self.table.startswith("arn:"):
            return (
                []
                if _TABLE.fullmatch(self.table)
                else [f"table {self.table!r} is no table name; 3 to 255 of a-zA-Z0-9_.-"]
            )
        match = _ARN.fullmatch(self.table)
        if match is None:
            return [f"table {self.table!r} is no table ARN"]
        if (match["account"], match["region"]) != (account, region):
            return [
                f"table is in {match['account']}/{match['region']}, the stack in {account}/{region}: a transaction "
                "spans one account and Region; run a stack of this project there"
            ]
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStore:
    """The user's files in one S3 bucket: all versions of all keys under one prefix."""

    name: str
    """What reports and metrics call it: letters, digits, _ and -; no personal data."""
    bucket: str
    """The bucket's name."""
    prefix: str
    """Template of the beginning of the user's keys, e.g. ``users/{user_id}/``."""

    def problems(self, identifiers: Collection[str]) -> tuple[str, ...]:
        """What is wrong with the store, each with the mend."""
        found = list(_name_problems(self.name))
        if not _BUCKET.fullmatch(self.bucket):
            found.append(f"bucket {self.bucket!r} is no bucket name; 3 to 63 of a-z0-9.-")
        found += [f"prefix: {text}" for text in Template(self.prefix).problems(identifiers, prefix=True)]
        return tuple(f"file store {self.name}: {text}" for text in found)


def to_json(stores: Iterable[RecordStore | FileStore]) -> str:
    """The stores as a function's environment carries them."""
    return json.dumps([asdict(store) for store in stores], sort_keys=True)


def record_stores(text: str) -> tuple[RecordStore, ...]:
    """Read back what to_json wrote.

    Raises:
        ValueError, TypeError: not a list of record stores.
    """
    return _from_json(text, lambda fields: RecordStore(**fields))


def file_stores(text: str) -> tuple[FileStore, ...]:
    """Read back what to_json wrote.

    Raises:
        ValueError, TypeError: not a list of file stores.
    """
    return _from_json(text, lambda fields: FileStore(**fields))


def _from_json(text: str, make: Callable[[Mapping[str, Any]], _Store]) -> tuple[_Store, ...]:
    return tuple(make(fields) for fields in json.loads(text))


def _name_problems(name: str) -> tuple[str, ...]:
    return () if _STORE.fullmatch(name) else (f"name {name!r}: a letter, then up to 62 letters, digits, _ or -",)
