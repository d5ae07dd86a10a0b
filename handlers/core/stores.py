"""The team's own stores as typed configuration: which tables and buckets hold a user's data, and under which keys.

The stack names these stores and gets access to them. It never makes, changes or destroys them.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any, TypeVar

from handlers.core.templates import Template

_ARN = re.compile(r"arn:[^:]+:dynamodb:(?P<region>[^:]+):(?P<account>\d{12}):table/(?P<table>.+)")
_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_DIRECTORY = "--x-s3"
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d")
_ACCOUNT = re.compile(r"\d{12}")
_STORE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_ONE_NAME = re.compile(r"\{[a-z_][a-z0-9_]*\}")
KEY_TYPES = ("S", "N", "B")

_Store = TypeVar("_Store")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordStore:
    """The user's items in one DynamoDB table: those of one partition, of one partition under a sort-key prefix, or
    those that a global secondary index finds.
    """

    name: str
    """What reports and metrics call it: letters, digits, _ and -; no personal data."""
    table: str
    """The table's name, or its ARN in the stack's own account and Region: a transaction spans no more."""
    partition_key: str
    """The table's partition key: its attribute's name."""
    partition: str | None = None
    """Template of the partition key's value, e.g. ``USER#{user_id}``; None for a store with an index."""
    partition_type: str = "S"
    """S, N or B (B: the template's UTF-8 bytes)."""
    sort_key: str | None = None
    """The table's sort key: its attribute's name; None for a table without one."""
    sort_type: str = "S"
    """S, N or B."""
    sort_prefix: str | None = None
    """Template of the beginning of the sort key's value; None takes the whole partition. Not with N or an index."""
    index: str | None = None
    """The global secondary index that finds the user's items where the table's own key does not."""
    index_key: str | None = None
    """The index's partition key: its attribute's name."""
    index_type: str = "S"
    """S, N or B (B: the template's UTF-8 bytes)."""
    index_value: str | None = None
    """Template of the index key's value, e.g. ``{customer_id}``: all items that carry it are the user's."""

    @property
    def table_name(self) -> str:
        """The name, also where the settings hold an ARN."""
        match = _ARN.fullmatch(self.table)
        return match["table"] if match else self.table

    @property
    def key_attributes(self) -> tuple[str, ...]:
        """The attributes that name an item of the table."""
        return (self.partition_key,) if self.sort_key is None else (self.partition_key, self.sort_key)

    @property
    def found_by(self) -> tuple[str, str, str]:
        """Attribute, type and template of the value that every item of the user has, in the table or in the index."""
        if self.index is None:
            return self.partition_key, self.partition_type, self.partition or ""
        return self.index_key or "", self.index_type, self.index_value or ""

    def problems(self, identifiers: Collection[str], *, account: str, region: str) -> tuple[str, ...]:
        """What is wrong with the store for a stack in this account and Region, each with the mend."""
        found = [
            *_name_problems(self.name),
            *self._place_problems(account, region),
            *self._type_problems(),
            *(self._index_problems() if self.index is not None else self._partition_problems()),
            *self._sort_problems(identifiers),
        ]
        name, given = ("partition", self.partition) if self.index is None else ("index_value", self.index_value)
        if given is not None:
            found += _value_problems(name, self.found_by[1], given, identifiers)
        return tuple(f"record store {self.name}: {text}" for text in found)

    def _type_problems(self) -> list[str]:
        kinds = {"partition_type": self.partition_type, "sort_type": self.sort_type, "index_type": self.index_type}
        return [
            f"{name} {kind!r} is none of {', '.join(KEY_TYPES)}"
            for name, kind in kinds.items()
            if kind not in KEY_TYPES
        ]

    def _partition_problems(self) -> list[str]:
        found = []
        if self.partition is None:
            found.append("partition is missing; write the template of its value, or name an index that finds the items")
        if self.index_key is not None or self.index_value is not None:
            found.append("index_key and index_value need index; name the index, or remove them")
        return found

    def _index_problems(self) -> list[str]:
        found = []
        if not _TABLE.fullmatch(self.index or ""):
            found.append(f"index {self.index!r} is no index name; 3 to 255 of a-zA-Z0-9_.-")
        if self.index_key is None or self.index_value is None:
            found.append("index needs index_key and index_value; name the index's partition key and its value")
        if self.partition is not None or self.sort_prefix is not None:
            found.append("partition and sort_prefix exclude index; remove them, or make two stores of it")
        return found

    def _sort_problems(self, identifiers: Collection[str]) -> list[str]:
        if self.sort_prefix is None:
            return []
        found = []
        if self.sort_key is None:
            found.append("sort_prefix needs sort_key; name the table's sort key")
        if self.sort_type == "N":
            found.append("sort_prefix of a number: only text and bytes can begin alike; remove it or correct sort_type")
        # The partition already holds the user, so a sort prefix may be the same for all.
        problems = Template(self.sort_prefix).problems(identifiers, prefix=True)
        return found + [f"sort_prefix: {text}" for text in problems if "would match every user" not in text]

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


def _value_problems(name: str, kind: str, template: str, identifiers: Collection[str]) -> list[str]:
    found = []
    if kind == "N" and not _ONE_NAME.fullmatch(template):
        found.append(f"{name} {template!r} is no number; for N write one placeholder and nothing else")
    return found + [f"{name}: {text}" for text in Template(template).problems(identifiers, prefix=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStore:
    """The user's files in one S3 bucket: all versions of all keys under one prefix."""

    name: str
    """What reports and metrics call it: letters, digits, _ and -; no personal data."""
    bucket: str
    """The bucket's name."""
    prefix: str
    """Template of the beginning of the user's keys, e.g. ``users/{user_id}/``."""
    region: str | None = None
    """The bucket's Region, e.g. ``us-east-1``; None: the stack's own."""
    requester_pays: bool = False
    """Whether whoever asks pays for it, as the bucket demands (https://docs.aws.amazon.com/AmazonS3/latest/userguide/
    RequesterPaysBuckets.html)."""
    owner: str | None = None
    """The account, 12 digits, that must own the bucket, so that nobody's bucket of the same name is taken for it."""
    replicas: Mapping[str, str] = field(default_factory=dict)
    """Bucket that this one is replicated to -> the reason why what is deleted here may stay there. Deletes by version
    id are not replicated, so any other destination must be a store of its own."""

    def problems(self, identifiers: Collection[str]) -> tuple[str, ...]:
        """What is wrong with the store, each with the mend."""
        found = list(_name_problems(self.name))
        found += _bucket_problems("bucket", self.bucket)
        found += [f"prefix: {text}" for text in Template(self.prefix).problems(identifiers, prefix=True)]
        if self.region is not None and not _REGION.fullmatch(self.region):
            found.append(f"region {self.region!r} is no Region; use one like eu-west-1")
        if self.owner is not None and not _ACCOUNT.fullmatch(self.owner):
            found.append("owner is no account id; use its 12 digits, in quotes")
        for bucket, reason in self.replicas.items():
            found += _bucket_problems("replicas", bucket)
            if not reason.strip():
                found.append(f"replicas {bucket!r} has no reason; say why what is deleted may stay there")
        return tuple(f"file store {self.name}: {text}" for text in found)


def to_json(stores: Iterable[RecordStore | FileStore]) -> str:
    """The stores as a function's environment carries them."""
    return json.dumps([_changed(store) for store in stores], sort_keys=True)


def _changed(store: RecordStore | FileStore) -> dict[str, Any]:
    """What differs from the defaults: an environment holds 4 KB in all."""
    defaults = {
        one.name: one.default_factory() if one.default_factory is not MISSING else one.default for one in fields(store)
    }
    return {name: value for name, value in asdict(store).items() if value != defaults[name]}


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


def _bucket_problems(field: str, bucket: str) -> tuple[str, ...]:
    if not _BUCKET.fullmatch(bucket):
        return (f"{field} {bucket!r} is no bucket name; 3 to 63 of a-z0-9.-",)
    if bucket.endswith(_DIRECTORY):
        return (f"{field} {bucket!r} is a directory bucket, which has no versions; use a general purpose one",)
    return ()


def _name_problems(name: str) -> tuple[str, ...]:
    return () if _STORE.fullmatch(name) else (f"name {name!r}: a letter, then up to 62 letters, digits, _ or -",)
