"""What statemachine.functions tells a function is what its handler reads (permissions: tests/workflow)."""

import dataclasses
import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from handlers.core import settings
from handlers.core.settings import StepSettings, TableSettings, UndoSettings
from handlers.core.stores import to_json
from statemachine import deletion
from statemachine.functions import FunctionSpec, function_specs
from statemachine.step import Value
from tests.world import FILE_STORES, RECORD_STORES

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SPECS = function_specs(deletion.workflow(identity=True))
BY_HANDLER = {spec.handler: spec for spec in SPECS}
VALUES = {
    "checked_functions": "{}",
    "erasing_functions": "{}",
    "identifiers": "[]",
    "record_stores": to_json(RECORD_STORES),
    "file_stores": to_json(FILE_STORES),
}


def modules_of(name: str) -> set[str]:
    """The module and every other one of the handlers whose functions it calls by name, and so on."""
    called = {value.__module__ for value in vars(import_module(name)).values() if inspect.isfunction(value)}
    others = {one for one in called - {name} if one.startswith("handlers.") and not one.startswith("handlers.core")}
    return {name}.union(*(modules_of(other) for other in others))


def settings_of(spec: FunctionSpec) -> "Iterator[type[DataclassInstance]]":
    """Every settings class that the function's invocation loads, also that of a handler whose work it calls."""
    names = sorted(modules_of(spec.handler.rpartition(".")[0]))
    for value in {value for name in names for value in vars(import_module(name)).values() if inspect.isclass(value)}:
        if dataclasses.is_dataclass(value) and value.__name__.endswith("Settings") and value is not TableSettings:
            yield value
    if spec.environment.get("STEP"):
        yield StepSettings
    elif spec.role.startswith("undo-"):
        yield UndoSettings


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.role)
def test_the_environment_of_a_function_is_what_its_settings_read(
    spec: FunctionSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in spec.environment.items():
        monkeypatch.setenv(name, VALUES.get(value.name, "1") if isinstance(value, Value) else value)
    settings.load.cache_clear()
    kinds = list(settings_of(spec))

    loaded = [settings.load(kind) for kind in kinds]

    assert loaded
    read = {field.name.upper() for kind in kinds for field in dataclasses.fields(kind)}
    # Powertools reads that itself.
    unused = spec.environment.keys() - read - {"POWERTOOLS_METRICS_NAMESPACE"}
    assert unused == set()
    settings.load.cache_clear()
