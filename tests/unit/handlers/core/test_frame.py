"""The frame around every handler: only declared errors leave it, and none with a foreign word."""

import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

from handlers.core import frame
from handlers.core.checkpoint import Done
from handlers.core.errors import InvalidEvent, RetentionLocked, SettingsError, Unexpected
from handlers.core.frame import (
    FRAME_ERRORS,
    STEP_ERRORS,
    UNDO_ERRORS,
    Handler,
    compensation,
    lambda_handler,
    step_handler,
)
from tests.world import Context, World

HANDLERS = Path(frame.__file__).parents[1]
SECRET = "{'user_id': 'ann@example.com'}"


def test_a_declared_error_leaves_with_its_own_message(world: World) -> None:
    @lambda_handler()
    def handler(event: Any, context: Any) -> dict[str, object]:
        raise InvalidEvent("user_id", "a rule")

    with pytest.raises(InvalidEvent, match="user_id: a rule"):
        handler({}, Context())


@pytest.mark.invariant("I8")
def test_everything_else_is_masked_with_class_and_place(world: World) -> None:
    @lambda_handler()
    def handler(event: Any, context: Any) -> dict[str, object]:
        try:
            raise KeyError(SECRET)
        except KeyError:
            raise ValueError(SECRET)  # noqa: B904 (a context to be masked as well)

    world.lines()
    event = {"user_id": "@".join(("ann", "example.com"))}
    with pytest.raises(Unexpected) as raised:
        handler(event, Context())

    printed = "".join(traceback.format_exception(raised.value))
    assert str(raised.value).startswith("ValueError at test_frame.py:")
    assert "ann@example.com" not in printed
    (line,) = world.lines()
    assert (line["message"], line["error"]) == ("failed", "Unexpected")
    assert "ann@example.com" not in str(line)


@pytest.mark.invariant("I8")
def test_a_declared_error_with_a_foreign_cause_leaves_without_it(world: World) -> None:
    @lambda_handler()
    def handler(event: Any, context: Any) -> dict[str, object]:
        try:
            raise KeyError(SECRET)
        except KeyError as error:
            raise InvalidEvent("user_id", "a rule") from error

    with pytest.raises(InvalidEvent) as raised:
        handler({}, Context())

    assert "ann@example.com" not in "".join(traceback.format_exception(raised.value))


def test_an_error_that_was_not_declared_is_masked(world: World) -> None:
    @lambda_handler()
    def handler(event: Any, context: Any) -> dict[str, object]:
        raise RetentionLocked("del_1", "Step", 1)

    with pytest.raises(Unexpected, match="RetentionLocked at "):
        handler({}, Context())


def test_a_handler_declares_what_its_frame_raises_besides_its_own() -> None:
    assert lambda_handler(RetentionLocked)(lambda event, context: {}).raises == (*FRAME_ERRORS, RetentionLocked)
    assert step_handler(RetentionLocked)(lambda checkpoint: Done()).raises == (*STEP_ERRORS, RetentionLocked)
    assert compensation(RetentionLocked)(lambda person: None).raises == (*UNDO_ERRORS, RetentionLocked)


def test_a_handler_looks_like_the_function_it_was_made_of() -> None:
    from handlers.steps import delete_files

    handler: Any = delete_files.handler
    assert handler.__name__ == "handler"
    assert handler.__module__ == "handlers.steps.delete_files"
    assert handler.__doc__
    assert isinstance(handler, Handler)


def test_a_missing_variable_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.make_user()
    request = world.claimed()
    world.more_environment = {"STEP_VERIFY": "handlers.nowhere.remaining"}

    event = {"deletion_request_id": request, "owner": "me", "step": "DeleteFiles", "verify": True}
    with pytest.raises(SettingsError, match="STEP_VERIFY names no function"):
        world.run("DeleteFiles", event=event)


MODULES = sorted(
    ".".join(path.relative_to(HANDLERS.parent).with_suffix("").parts)
    for path in HANDLERS.rglob("*.py")
    if path.name != "__init__.py"
)


def test_importing_the_handlers_makes_no_client_and_loads_neither_pydantic_nor_pulumi() -> None:
    code = f"""
import sys
import boto3
def refuse(*args, **kwargs):
    raise AssertionError("a client at import")
boto3.client = boto3.resource = boto3.Session = boto3.session.Session = refuse
for name in {MODULES!r}:
    __import__(name)
heavy = [name for name in sys.modules if name.split(".")[0] in {{"pydantic", "pulumi", "aws_xray_sdk", "moto"}}]
assert not heavy, heavy
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(HANDLERS.parent)},
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert len(MODULES) > 20
