"""Typed settings of a function, read from its environment once, at the first invocation.

Not at import: the state machine builder imports every handler, without an environment. Each settings class is a
frozen dataclass whose fields are the variables in lower case: ``request_table`` is read from ``REQUEST_TABLE``.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from datetime import timedelta
from functools import cache
from typing import Any, TypeVar, get_type_hints

from handlers.core import stores
from handlers.core.errors import SettingsError
from handlers.core.states import StepKind

_Settings = TypeVar("_Settings")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """What every function that touches a request needs."""

    request_table: str
    """The request table's name."""
    lease: timedelta
    """How long a worker may be silent before somebody looks after the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSettings(TableSettings):
    """What the frame around a step's handler needs."""

    step: str
    """The step's name, the key in the record."""
    step_kind: StepKind
    """Which mark its begin leaves for the way back."""
    step_erases: bool
    """Whether its begin takes the verification out of DONE."""
    step_timeout: timedelta
    """The step's Lambda timeout: its compensation waits that long."""
    undo_timeout: timedelta
    """The compensation's Lambda timeout: the step waits that long after an undo; 0 without a compensation."""
    step_verify: str
    """Dotted path of the function that lists what is left; empty for a step that erases nothing."""
    step_preflight: str
    """Dotted path of the function that checks the step's stores; empty for a step without one."""
    patience: timedelta
    """How long the step may postpone in all; 0: not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoSettings(TableSettings):
    """What the frame around a compensation needs."""

    step_timeout: timedelta
    """The Lambda timeout of the step that is undone: until then the step itself may still run."""


def _truth(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError("true or false")
    return text == "true"


def _seconds(text: str) -> timedelta:
    return timedelta(seconds=float(text))


def _names(text: str) -> tuple[str, ...]:
    values = json.loads(text)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TypeError("a JSON list of strings")
    return tuple(values)


def _mapping(text: str) -> Mapping[str, str]:
    values = json.loads(text)
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        raise TypeError("a JSON object of strings")
    return values


_READERS: Mapping[Any, tuple[Callable[[str], Any], str]] = {
    str: (str, "a text"),
    str | None: (str, "a text"),
    int: (int, "a whole number"),
    bool: (_truth, "true or false"),
    timedelta: (_seconds, "a number of seconds"),
    timedelta | None: (_seconds, "a number of seconds"),
    StepKind: (StepKind, f"one of {', '.join(StepKind)}"),
    tuple[str, ...]: (_names, "a JSON list of strings"),
    Mapping[str, str]: (_mapping, "a JSON object of strings"),
    tuple[stores.RecordStore, ...]: (stores.record_stores, "a JSON list of record stores"),
    tuple[stores.FileStore, ...]: (stores.file_stores, "a JSON list of file stores"),
}


@contextmanager
def acting_as(environment: Mapping[str, str]) -> Iterator[None]:
    """For as long as the block takes, this process is told what a function with this environment is told.

    For command lines that run a function's own code with the caller's rights; not for several threads.
    """
    before = dict(os.environ)
    os.environ.update(environment)
    load.cache_clear()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        load.cache_clear()


@cache
def load(kind: type[_Settings]) -> _Settings:
    """The process's settings of this kind.

    Raises:
        SettingsError: names every variable that is missing or wrong, and what it should be; never a value.
    """
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    problems = []
    for field in fields(kind):  # type: ignore[arg-type]  # every settings class is a dataclass
        variable = field.name.upper()
        read, shape = _READERS[hints[field.name]]
        text = os.environ.get(variable)
        if text is None:
            if field.default is MISSING:
                problems.append(f"{variable} is missing; set it to {shape}")
            continue
        try:
            values[field.name] = read(text)
        except (ValueError, TypeError):
            problems.append(f"{variable} is not {shape}")
    if problems:
        raise SettingsError(tuple(problems))
    return kind(**values)
