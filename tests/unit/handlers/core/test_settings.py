"""Settings from the environment: everything that is wrong is said at once, and never a value."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import pytest

from handlers.core import settings
from handlers.core.errors import SettingsError
from handlers.core.settings import StepSettings
from handlers.core.states import StepKind

STEP = {
    "REQUEST_TABLE": "deletions",
    "LEASE": "900",
    "STEP": "DeleteFiles",
    "STEP_KIND": "retriable",
    "STEP_ERASES": "true",
    "STEP_TIMEOUT": "300.5",
    "UNDO_TIMEOUT": "0",
    "STEP_VERIFY": "a.b",
    "STEP_PREFLIGHT": "a.c",
    "PATIENCE": "86400",
}


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settings.load.cache_clear()
    for name, value in STEP.items():
        monkeypatch.setenv(name, value)
    yield
    settings.load.cache_clear()


def test_each_field_is_read_from_the_variable_of_its_name() -> None:
    assert settings.load(StepSettings) == StepSettings(
        request_table="deletions",
        lease=timedelta(minutes=15),
        step="DeleteFiles",
        step_kind=StepKind.RETRIABLE,
        step_erases=True,
        step_timeout=timedelta(seconds=300.5),
        undo_timeout=timedelta(0),
        step_verify="a.b",
        step_preflight="a.c",
        patience=timedelta(days=1),
    )


def test_everything_missing_or_wrong_is_named_at_once_without_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REQUEST_TABLE")
    monkeypatch.setenv("LEASE", "secret")
    monkeypatch.setenv("STEP_KIND", "secret")
    monkeypatch.setenv("STEP_ERASES", "secret")

    with pytest.raises(SettingsError) as raised:
        settings.load(StepSettings)

    assert raised.value.problems == (
        "REQUEST_TABLE is missing; set it to a text",
        "LEASE is not a number of seconds",
        "STEP_KIND is not one of compensatable, pivot, retriable",
        "STEP_ERASES is not true or false",
    )


def test_the_environment_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = settings.load(StepSettings)
    monkeypatch.setenv("STEP", "Other")

    assert settings.load(StepSettings) is first


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    identifiers: tuple[str, ...]
    pool: str | None = None


@pytest.mark.parametrize("value", ["x", "{}", "[1]", '"a"'])
def test_a_list_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("IDENTIFIERS", value)

    with pytest.raises(SettingsError, match="IDENTIFIERS is not a JSON list of strings"):
        settings.load(Lists)


def test_an_optional_variable_may_be_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IDENTIFIERS", json.dumps(["a"]))

    assert settings.load(Lists) == Lists(identifiers=("a",))
