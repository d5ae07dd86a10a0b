"""What holds for every command, whatever it does. A new command fails here until it has a case."""

import ast
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer.main

from ops import cli
from ops.output import EXITS, Exit
from tests.unit.ops.terminal import PERSON, Ran, Terminal
from tests.world import CUSTOMER, USER

pytestmark = pytest.mark.exhaustive

ROOT = Path(__file__).resolve().parents[3]
EXECUTION = {"arn", "link", "status", "started_at", "stopped_at", "error", "cause"}
ROW = {"deletion_request_id", "status", "origin", "due_at", "erase_by", "attempt", "failures", "error", "notes"}
ANSWERED = {"deletion_request_id", "status", "grace_ends_at", "erase_by", "identity"}
OPERATED = {"operation", "deletion_request_id", "status", "dispatched", "note"}
SHOWN = {
    *ROW,
    "requested_at",
    "accepted_at",
    "grace_ends_at",
    "completed_at",
    "cancelled_at",
    "expires_at",
    "hold_ends_at",
    "cancel_requested",
    "schedule",
    "last_error",
    "execution",
    "steps",
    "timeline",
}
MAY_CALL = {
    "AdminGetUser",
    "BatchGetItem",
    "ChangeMessageVisibility",
    "DeleteMessage",
    "DescribeExecution",
    "GenerateMac",
    "GetFunctionConfiguration",
    "GetItem",
    "GetQueueAttributes",
    "GetSchedule",
    "Invoke",
    "ListMultipartUploads",
    "ListObjectVersions",
    "ListUsers",
    "Query",
    "ReceiveMessage",
    "Scan",
}
"""The calls that leave an operator's process: all of them only ask, but for the messages of dead-letter queues."""
WRITES = {"batch_write_item", "delete_item", "execute_statement", "put_item", "transact_write_items", "update_item"}


@dataclass(frozen=True)
class Case:
    """A command that succeeds, with the keys of its JSON object."""

    words: Callable[[Terminal], tuple[str, ...]]
    keys: set[str]
    stdin: str | None = None
    code: Exit = Exit.OK


def after(prepared: object, *words: str) -> tuple[str, ...]:
    """What to type once something is there."""
    assert prepared
    return words


def dead_letter(ops: Terminal) -> str:
    """The id of a message that nobody can read, with a name in it."""
    text = json.dumps({"user_id": USER})
    sent = ops.world.client("sqs").send_message(QueueUrl=ops.queues["dispatch"], MessageBody=text)
    return str(sent["MessageId"])


def users(ops: Terminal) -> str:
    Path("users.csv").write_text(f"user_id,customer_id\n{USER},{CUSTOMER}\n", encoding="utf-8")
    return "users.csv"


CASES = {
    "list": Case(lambda ops: ("list", "--state", "SCHEDULED"), {"requests", "more"}),
    "show": Case(lambda ops: ("show", ops.open_request()), SHOWN),
    "stuck": Case(lambda ops: ("stuck",), {"requests", "more"}),
    "queues": Case(lambda ops: ("queues",), {"queues"}),
    "letters": Case(lambda ops: after(dead_letter(ops), "letters", "dispatch"), {"letters", "more"}),
    "verify": Case(
        lambda ops: ("verify", ops.open_request()), {"deletion_request_id", "clean", "steps"}, code=Exit.REFUSED
    ),
    "plan": Case(lambda ops: ("plan",), {*ANSWERED, "person_held", "stores", "unread"}, stdin=PERSON),
    "request": Case(lambda ops: ("request", "--yes"), ANSWERED, stdin=PERSON),
    "cancel": Case(lambda ops: ("cancel", ops.open_request(), "--yes"), OPERATED),
    "hold": Case(lambda ops: ("hold", "--person"), OPERATED, stdin=PERSON),
    "release": Case(lambda ops: ("release", ops.held_request(), "--yes"), OPERATED),
    "redrive": Case(lambda ops: ("redrive", "--queue", "dispatch", "--yes"), {"dry_run", "handled", "left"}),
    "discard": Case(lambda ops: ("discard", "dispatch", dead_letter(ops), "--yes"), {"discarded"}),
    "sweep": Case(lambda ops: after(ops.world.accept(), "sweep", "--yes"), {"outcomes"}),
    "bulk": Case(
        lambda ops: ("bulk", users(ops), "--yes"),
        {"run", "results", "accepted", "accepted_before", "refused", "failed"},
    ),
}


def names() -> set[str]:
    return {str(one.name) for one in cli.app.registered_commands}


def run(ops: Terminal, case: Case, *, as_json: bool = True) -> Ran:
    words = case.words(ops)
    return (ops.run if as_json else ops.say)(*words, stdin=case.stdin)


def test_every_command_has_a_case() -> None:
    assert set(CASES) == names()


@pytest.mark.parametrize("name", CASES)
def test_a_command_answers_with_one_json_object_on_standard_output(ops: Terminal, name: str) -> None:
    ops.world.sign_up()
    ran = run(ops, CASES[name])
    assert (ran.code, set(ran.data)) == (CASES[name].code, CASES[name].keys), ran.err


@pytest.mark.parametrize("name", CASES)
def test_a_command_answers_a_person_too(ops: Terminal, name: str) -> None:
    ops.world.sign_up()
    ran = run(ops, CASES[name], as_json=False)
    assert ran.code == CASES[name].code, ran.err
    assert ran.out.strip()
    assert "{" not in ran.out


@pytest.mark.invariant("I8")
@pytest.mark.parametrize("name", CASES)
def test_nothing_of_a_user_is_in_what_a_command_prints_or_is_given_as_an_argument(ops: Terminal, name: str) -> None:
    sub = ops.world.sign_up()
    words = CASES[name].words(ops)
    ran = ops.run(*words, stdin=CASES[name].stdin)
    said = ops.say(*words, stdin=CASES[name].stdin)
    printed = [json.dumps(words), ran.out, ran.err, said.out, said.err]
    for secret in (f'"{USER}"', f"{USER} ", CUSTOMER, sub, "users/", "USER#"):
        assert [text for text in printed if secret in text] == [], secret


@pytest.mark.parametrize("name", CASES)
def test_a_command_only_reads_and_leaves_every_write_to_the_functions(ops: Terminal, name: str) -> None:
    ops.world.sign_up()
    words, before = CASES[name].words(ops), len(ops.world.wire.calls)
    ops.run(*words, stdin=CASES[name].stdin)
    assert {call.operation for call in ops.world.wire.calls[before:] if not call.function} <= MAY_CALL


def test_no_module_of_the_command_line_calls_what_writes_a_table() -> None:
    called = {
        node.attr
        for path in (ROOT / "ops").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
    }
    assert "scan" in called
    assert called & WRITES == set()
    assert {name for name in called if name in {"update", "update_with_guard", "update_and_delete"}} <= {"update"}


def test_every_command_takes_the_common_options() -> None:
    commands: Mapping[str, Any] = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    options = {name: {option for one in found.params for option in one.opts} for name, found in commands.items()}
    assert {name for name, found in options.items() if not {"--json", "--outputs", "--environment"} <= found} == set()


def test_help_names_every_exit_code_and_its_meaning(ops: Terminal) -> None:
    ran = ops.say("--help")
    text = " ".join(ran.out.split())
    assert set(EXITS) == set(Exit)
    assert [code for code, meaning in EXITS.items() if f"{code.value}: {meaning}" not in text] == []


@pytest.mark.parametrize(
    "words",
    [
        ("show", "del_1"),
        ("show",),
        ("list", "--state", "LOST"),
        ("redrive",),
        ("redrive", "--all-failed", "--error", "AccessDenied"),
        ("redrive", "--queue", "nobody", "--yes"),
        ("letters", "nobody"),
        ("discard", "nobody", "059f36b4-87a3-44ab-83d2-661975830a7d", "--yes"),
        ("hold",),
        ("hold", "--person", "--lasts", "3d"),
        ("bulk", "missing.csv", "--yes"),
        ("bulk", "-", "--yes"),
        ("bulk", "-", "--yes", "--run", "a b"),
    ],
)
def test_a_wrong_command_ends_with_2_and_does_nothing(ops: Terminal, words: tuple[str, ...]) -> None:
    ran = ops.say(*words, stdin=PERSON)
    assert (ran.code, ran.out) == (Exit.USAGE, "")
    assert ops.world.wire.of("Invoke") == []


@pytest.mark.parametrize("words", [("show",), ("cancel", "-y"), ("hold",), ("release", "-y"), ("verify",)])
def test_an_unknown_id_ends_with_4(ops: Terminal, words: tuple[str, ...]) -> None:
    ran = ops.run(words[0], f"del_{'0' * 26}", *words[1:])
    assert (ran.code, ran.out) == (Exit.NOT_FOUND, "")


@pytest.mark.parametrize("name", ["bulk", "cancel", "discard", "redrive", "release", "request", "sweep"])
def test_what_deletes_or_ends_something_asks_and_does_nothing_where_nobody_can_be_asked(
    ops: Terminal, name: str
) -> None:
    ops.world.sign_up()
    words = CASES[name].words(ops)
    before = len(ops.world.wire.of("Invoke"))
    ran = ops.run(*(word for word in words if word != "--yes"), stdin=PERSON)
    assert (ran.code, ran.out) == (Exit.USAGE, "")
    assert "--yes" in ran.err
    assert len(ops.world.wire.of("Invoke")) == before


@pytest.mark.parametrize(("answer", "code", "status"), [("y", Exit.OK, "CANCELLED"), ("n", Exit.REFUSED, "SCHEDULED")])
def test_who_is_asked_decides(
    ops: Terminal, monkeypatch: pytest.MonkeyPatch, answer: str, code: Exit, status: str
) -> None:
    ops.world.sign_up()
    request = ops.open_request()
    monkeypatch.setattr("ops.asking.is_terminal", lambda: True)
    ran = ops.run("cancel", request, stdin=f"{answer}\n")
    assert ran.code == code
    assert ops.world.record(request)["status"] == status


def test_a_mistake_in_the_program_shows_its_place_and_no_foreign_message(
    ops: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ValueError(USER)

    monkeypatch.setattr("ops.letters.queues", broken)
    ran = ops.run("queues")
    assert (ran.code, ran.out) == (Exit.MISTAKE, "")
    assert ran.err == f"ops: ValueError at test_commands.py:{broken.__code__.co_firstlineno + 1} broken\n"


def test_an_interrupted_command_ends_with_130(ops: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ops.letters.queues", interrupted)
    assert ops.run("queues").code == Exit.INTERRUPTED
