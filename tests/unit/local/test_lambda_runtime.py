"""The loop inside a Lambda worker, without a worker."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from local.lambda_runtime import InitError, answer, load

CONTEXT = SimpleNamespace(aws_request_id="r-1")


class RetentionLocked(Exception):  # noqa: N818 named as the handlers name theirs
    """Any class of a handler's own."""


def test_an_answer_is_json() -> None:
    assert answer(lambda event, _: {"got": event}, 1, CONTEXT) == ("response", b'{"got": 1}')


def test_an_exception_is_reported_by_its_class_without_the_runtimes_frames() -> None:
    def handler(_event: Any, _context: Any) -> None:
        raise RetentionLocked("until May")

    kind, report = answer(handler, {}, CONTEXT)
    told = json.loads(report)
    assert kind == "error"
    assert (told["errorType"], told["errorMessage"], told["requestId"]) == ("RetentionLocked", "until May", "r-1")
    assert len(told["stackTrace"]) == 1
    assert "in handler" in told["stackTrace"][0]


def test_an_answer_that_is_no_json_is_a_marshal_error() -> None:
    kind, report = answer(lambda _event, _context: object(), {}, CONTEXT)
    assert (kind, json.loads(report)["errorType"]) == ("error", "Runtime.MarshalError")


@pytest.mark.parametrize("leaving", [SystemExit(1), KeyboardInterrupt()])
def test_what_ends_the_process_on_aws_ends_it_here(leaving: BaseException) -> None:
    def handler(_event: Any, _context: Any) -> None:
        raise leaving

    with pytest.raises(type(leaving)):
        answer(handler, {}, CONTEXT)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("no_such_module_anywhere.handler", "Runtime.ImportModuleError"),
        ("json.no_such_function", "Runtime.HandlerNotFound"),
        ("broken_for_this_test.handler", "Runtime.UserCodeSyntaxError"),
        ("failing_for_this_test.handler", "LookupError"),
    ],
)
def test_a_handler_that_cannot_be_loaded_has_awss_name_for_it(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_for_this_test.py").write_text("def handler(:", encoding="utf-8")
    (tmp_path / "failing_for_this_test.py").write_text("raise LookupError('at import')", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InitError) as failed:
        load(name)
    assert failed.value.kind == kind


def test_a_handler_in_a_package_may_be_named_with_slashes() -> None:
    handler: Any = load("json/decoder.JSONDecoder")
    assert handler is json.JSONDecoder


def test_the_runtime_imports_the_standard_library_only() -> None:
    """It is copied into packages, where nothing else is."""
    import ast
    import sys

    import local.lambda_runtime as runtime

    tree = ast.parse(Path(runtime.__file__).read_text(encoding="utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names
