"""The mapping's promises that need no emulator."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import pytest
from pulumi import _types

from local.emulator import Address, Emulator, EmulatorError, emulator_python
from local.resources.registry import TYPES, replacements, with_name
from local.values import digested, plain
from local.waiting import WaitedTooLongError, wait_until


def properties(pulumi_type: str) -> set[str]:
    """The inputs that pulumi-aws has for a type, by their names on the wire."""
    _, module, class_name = pulumi_type.split(":")
    folder = module.partition("/")[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package's own deprecated classes warn when it is imported
        package = importlib.import_module(f"pulumi_aws.{'lambda_' if folder == 'lambda' else folder}")
        # "Init" where another type of the package has the plain name already.
        arguments: Any = getattr(package, f"{class_name}InitArgs", None) or getattr(package, f"{class_name}Args")
    return set(_types.input_type_py_to_pulumi_names(arguments).values())


@pytest.mark.parametrize("pulumi_type", sorted(TYPES))
def test_the_mapping_names_only_properties_that_pulumi_aws_has(pulumi_type: str) -> None:
    kind = TYPES[pulumi_type]
    named = kind.honoured | kind.not_honoured.keys() | kind.replaces | ({kind.named_by} - {None})
    assert named - properties(pulumi_type) == set()


@pytest.mark.parametrize("pulumi_type", sorted(TYPES))
def test_a_property_is_honoured_or_not_and_the_reason_is_written_down(pulumi_type: str) -> None:
    kind = TYPES[pulumi_type]
    assert kind.honoured & kind.not_honoured.keys() == set()
    assert kind.replaces <= kind.honoured | kind.not_honoured.keys()
    assert [name for name, reason in kind.not_honoured.items() if not reason] == []


def test_a_name_is_made_from_the_logical_one_and_stays_the_same() -> None:
    named = with_name("aws:sqs/queue:Queue", "dlq", {}, "urn:1")
    assert named == with_name("aws:sqs/queue:Queue", "dlq", {}, "urn:1")
    assert named != with_name("aws:sqs/queue:Queue", "dlq", {}, "urn:2")
    assert named["name"].startswith("dlq-")
    assert with_name("aws:sqs/queue:Queue", "dlq", {"name": "given"}, "urn:1") == {"name": "given"}


def test_only_some_changes_replace() -> None:
    old = {"name": "t", "hashKey": "pk", "tags": {"a": "1"}}
    assert replacements("aws:dynamodb/table:Table", old, {**old, "tags": {}}) == set()
    assert replacements("aws:dynamodb/table:Table", old, {**old, "hashKey": "id"}) == {"hashKey"}
    assert replacements("aws:lambda/permission:Permission", {"action": "a"}, {"action": "b"}) == {"action"}


def test_secrets_are_unwrapped_and_whole_numbers_are_whole() -> None:
    secret = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "value": [1.0, 1.5]}
    assert plain({"a": secret}) == {"a": [1, 1.5]}
    assert isinstance(plain(secret)[0], int)


def test_values_without_packages_are_remembered_as_they_are() -> None:
    assert digested({"a": [1, {"b": None}]}) == {"a": [1, {"b": None}]}


def test_waiting_too_long_shows_what_was_seen_last() -> None:
    seen = iter(range(1000))
    with pytest.raises(WaitedTooLongError, match=r"not within 0 s; last seen: 0"):
        wait_until(lambda: next(seen), lambda value: value < 0, limit=0)


def test_a_missing_emulator_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCOUNT_DELETION_EMULATOR_PYTHON", "/nowhere/python")
    with pytest.raises(EmulatorError, match=r"/nowhere/python does not exist: .*pip install -r local/requirements"):
        emulator_python()


def test_stopping_an_emulator_that_is_gone_ends_no_process(tmp_path: Any) -> None:
    """Port 9 answers nobody, and the process id could be anybody's by now."""
    here = Address(endpoint="http://127.0.0.1:9", pid=1, token="t", workdir=str(tmp_path / "gone"))
    emulator = Emulator(here)
    assert not emulator.alive()
    emulator.stop()
