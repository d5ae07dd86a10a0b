"""The settings of one environment: what Pulumi.<environment>.yaml holds under `account-deletion:settings`.

`read_settings` turns the plain mapping into objects that cannot be wrong; every problem is named at once, with the
field, the rule and the mend, before any resource is registered.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from datetime import timedelta
from typing import Any, Final, TypeVar, get_type_hints

from handlers.core.stores import FileStore, RecordStore, to_json
from handlers.core.templates import USER_ID
from infra.errors import ConfigurationError, refuse
from infra.naming import name_part_problems
from infra.platform import Network, Platform, Text

_DURATION: Final = re.compile(r"(?P<number>\d+) (?P<unit>second|minute|hour|day)s?")
_WORD: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
_REALM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_POOL: Final = re.compile(r"(?P<region>[a-z-]+-\d+)_[0-9A-Za-z]{1,45}")
_STORE_ARN: Final = re.compile(r"arn:[^:]+:dynamodb:(?P<region>[^:]*):(?P<account>[^:]*):")
_NOWHERE: Final = ("", "")
MAX_SETTLE: Final = timedelta(hours=1)
KEEP_MINIMUM: Final = timedelta(days=91)
"""A day more than Step Functions remembers an execution's name
(https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html): a request that is asked for
again with an old idempotency key would have the old id, and its executions the old names."""

_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One environment of one team."""

    environment: str
    """The stack's name: one lower case word, part of every physical name."""
    platform: Platform
    """The company's rails."""
    realm: str = ""
    """Goes into every subject and every derived request id, so that two user bases of one account stay apart; empty
    takes the environment's name. Changing it makes all tombstones unfindable."""
    identifiers: tuple[str, ...] = ()
    """Names by which stores know the user besides `user_id`; a request must bring each of them."""
    record_stores: tuple[RecordStore, ...] = ()
    """The DynamoDB tables, in this account and Region, that hold a user's items. Named here, owned by the team."""
    file_stores: tuple[FileStore, ...] = ()
    """The S3 buckets that hold a user's files. Named here, owned by the team."""
    user_pool_id: str | None = None
    """The Cognito user pool, in this account and Region; None for a team without one."""
    grace_default: timedelta = timedelta(days=30)
    """From the click to the deletion, where a request does not ask for another time."""
    grace_minimum: timedelta = timedelta(0)
    """The shortest grace period that a request may ask for."""
    grace_maximum: timedelta = timedelta(days=35)
    """The longest grace period that a request may ask for."""
    erase_within: timedelta = timedelta(days=45)
    """The promise: from the request to its end. A grace period and one whole attempt must fit into it."""
    settle: timedelta = MAX_SETTLE
    """Wait between sign-out and the first erasure: as long as an issued token lives, at most an hour."""
    keep_requests: timedelta | None = None
    """From the end of a request until DynamoDB deletes its record; None keeps it for ever. The tombstone, which tells
    that and when the user was deleted, always stays. Requests that have ended already keep what was set then."""
    protect_data: bool = True
    """Whether tables and keys are protected against deletion and the table is backed up; false only where requests
    may be lost (dev)."""

    def __post_init__(self) -> None:
        if not self.realm:
            object.__setattr__(self, "realm", self.environment)
        problems = name_part_problems(self.platform.name_prefix, self.environment)
        if not _REALM.fullmatch(self.realm):
            problems.append(f"realm {self.realm!r}: use up to 63 letters, digits and _ . -")
        problems += self._identifier_problems()
        problems += _duplicates("record_stores", [store.name for store in self.record_stores])
        problems += _duplicates("file_stores", [store.name for store in self.file_stores])
        for store in self.record_stores:
            # The account and Region of the stack are asked later (place_problems): here its own count as right.
            match = _STORE_ARN.match(store.table)
            account, region = (match["account"], match["region"]) if match else _NOWHERE
            problems += store.problems(self.identifiers, account=account, region=region)
        for file_store in self.file_stores:
            problems += file_store.problems(self.identifiers)
        if self.user_pool_id is not None and not _POOL.fullmatch(self.user_pool_id):
            problems.append(f"user_pool_id {self.user_pool_id!r}: a pool's id looks like eu-west-1_AbCdEfGhI")
        problems += self._time_problems()
        refuse(problems)

    def store_values(self) -> dict[str, str]:
        """What a function is told of the stores, by the name of the Value."""
        pool = {} if self.user_pool_id is None else {"user_pool_id": self.user_pool_id}
        return {
            "record_stores": to_json(self.record_stores),
            "file_stores": to_json(self.file_stores),
            "settle": str(int(self.settle.total_seconds())),
            **pool,
        }

    def place_problems(self, account: str, region: str) -> list[str]:
        """What cannot be reached from a stack in this account and Region."""
        problems = [
            problem
            for store in self.record_stores
            for problem in store.problems(self.identifiers, account=account, region=region)
        ]
        pool = _POOL.fullmatch(self.user_pool_id or "")
        if pool and pool["region"] != region:
            problems.append(
                f"user_pool_id {self.user_pool_id!r}: the pool is in {pool['region']}, the stack in {region}; "
                "run a stack of this project there"
            )
        return problems

    def attempt_problems(self, worst_case: timedelta) -> list[str]:
        """Whether one attempt that takes its longest still keeps the promise after the longest grace period."""
        if self.grace_maximum + worst_case < self.erase_within:
            return []
        return [
            f"erase_within of {_words(self.erase_within)}: grace_maximum of {_words(self.grace_maximum)} and one "
            f"attempt of up to {_words(worst_case)} do not fit into it; shorten grace_maximum or promise more"
        ]

    def _identifier_problems(self) -> list[str]:
        wrong = [name for name in self.identifiers if not _WORD.fullmatch(name) or name == USER_ID]
        problems = [
            f"identifiers {name!r}: use a lower case word with digits and _, other than {USER_ID}" for name in wrong
        ]
        return problems + _duplicates("identifiers", self.identifiers)

    def _time_problems(self) -> list[str]:
        problems = []
        for name in ("grace_default", "grace_minimum", "grace_maximum", "erase_within", "settle"):
            duration = getattr(self, name)
            if duration < timedelta(0) or duration.microseconds:
                problems.append(f"{name} of {duration}: use whole seconds, not below 0")
        if not self.grace_minimum <= self.grace_default <= self.grace_maximum:
            problems.append(
                f"grace_default of {_words(self.grace_default)}: keep it between grace_minimum "
                f"({_words(self.grace_minimum)}) and grace_maximum ({_words(self.grace_maximum)})"
            )
        if self.keep_requests is not None and (self.keep_requests < KEEP_MINIMUM or self.keep_requests.microseconds):
            least = f"whole seconds, at least {_words(KEEP_MINIMUM)}: so long an execution's name cannot be used again"
            problems.append(f"keep_requests of {_words(self.keep_requests)}: use {least}; or leave it out")
        if self.settle > MAX_SETTLE:
            most = f"at most {_words(MAX_SETTLE)}, the longest wait in the graph"
            problems.append(f"settle of {_words(self.settle)}: {most}")
        return problems


def read_settings(environment: str, mapping: Mapping[str, Any]) -> Settings:
    """The settings in a plain mapping, as Pulumi's configuration holds them.

    Raises:
        ConfigurationError: names everything that is wrong.
    """
    reader = _Reader()
    settings = reader.read(Settings, mapping, "", given={"environment": environment})
    refuse(reader.problems)
    if settings is None:
        raise AssertionError("no settings although nothing is wrong with them")
    return settings


class _Unreadable(Exception):  # noqa: N818 - an answer of a reader, never seen by a user
    """The value has another shape; the text says which it should have."""


@dataclass
class _Reader:
    """Reads mappings into frozen classes and collects what is wrong on the way."""

    problems: list[str] = field(default_factory=list)

    def read(
        self, kind: type[_Read], mapping: object, place: str, given: Mapping[str, object] | None = None
    ) -> _Read | None:
        """One object, or None when a part of it is wrong (the problems say what)."""
        before = len(self.problems)
        values = {**(given or {}), **self._values(kind, mapping, place, frozenset(given or ()))}
        if len(self.problems) > before:
            return None
        try:
            return kind(**values)
        except ConfigurationError as error:
            self.problems += error.problems
            return None

    def _values(self, kind: type[Any], mapping: object, place: str, given: frozenset[str]) -> dict[str, object]:
        hints = get_type_hints(kind)
        names = [one.name for one in fields(kind) if one.name not in given]
        if not isinstance(mapping, Mapping):
            self.problems.append(f"{place or 'settings'}: a mapping with {', '.join(names)}")
            return {}
        unknown = sorted(str(key) for key in mapping if key not in names)
        self.problems += [f"{place}{key}: no such setting; there are {', '.join(names)}" for key in unknown]
        values = {}
        for one in fields(kind):
            if one.name in mapping and one.name not in given:
                values[one.name] = self._value(hints[one.name], mapping[one.name], f"{place}{one.name}")
            elif one.name not in given and one.default is MISSING and one.default_factory is MISSING:
                self.problems.append(f"{place}{one.name} is missing")
        return values

    def _value(self, hint: Any, value: object, place: str) -> object:
        if hint in _PARTS:
            return self.read(_PARTS[hint], value, f"{place}.")
        if hint in _LISTS:
            if not isinstance(value, Sequence) or isinstance(value, str):
                self.problems.append(f"{place}: a list")
                return ()
            return tuple(self.read(_LISTS[hint], one, f"{place}[{index}].") for index, one in enumerate(value))
        read, shape = _READERS[hint]
        try:
            return read(value)
        except _Unreadable:
            # Never the value: a setting in the wrong place may be a secret.
            self.problems.append(f"{place}: {shape}")
            return None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _Unreadable
    return value


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise _Unreadable
    return value


def _duration(value: object) -> timedelta:
    match = _DURATION.fullmatch(_text(value))
    if match is None:
        raise _Unreadable
    return timedelta(**{f"{match['unit']}s": int(match["number"])})


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise _Unreadable
    return tuple(_text(one) for one in value)


def _tags(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise _Unreadable
    return {_text(key): _text(one) for key, one in value.items()}


_PARTS: Final[Mapping[Any, type[Any]]] = {Platform: Platform, Network | None: Network}
_LISTS: Final[Mapping[Any, type[Any]]] = {
    tuple[RecordStore, ...]: RecordStore,
    tuple[FileStore, ...]: FileStore,
}
_READERS: Final[Mapping[Any, tuple[Callable[[object], Any], str]]] = {
    str: (_text, "a text"),
    str | None: (_text, "a text"),
    Text | None: (_text, "a text"),
    bool: (_truth, "true or false"),
    timedelta: (_duration, "a number and a unit, such as 30 days, 1 hour or 90 seconds"),
    timedelta | None: (_duration, "a number and a unit, such as 400 days"),
    tuple[str, ...]: (_texts, "a list of texts"),
    tuple[Text, ...]: (_texts, "a list of texts"),
    Mapping[str, str]: (_tags, "a mapping of texts"),
}


def _duplicates(name: str, values: Sequence[str]) -> list[str]:
    twice = sorted({value for value in values if values.count(value) > 1})
    return [f"{name}: {value!r} is there twice" for value in twice]


def _words(duration: timedelta) -> str:
    """As it would be written in the settings, in the largest unit that is exact."""
    seconds = int(duration.total_seconds())
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size} {unit}{'s' if seconds != size else ''}"
    return f"{seconds} seconds"
