"""bulk: many users from a file, and a run that goes on where it stopped."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ops import bulk
from ops.output import Exit
from tests.unit.ops.terminal import Ran, Terminal
from tests.wire import Crash, raises, refused

pytestmark = pytest.mark.exhaustive

HEADER = "user_id,customer_id"


def file(*rows: str, name: str = "users.csv") -> str:
    Path(name).write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return name


def users(number: int) -> list[str]:
    return [f"user-a1b{n},10{n}" for n in range(number)]


def results(path: str = "users.csv.results.jsonl") -> list[Mapping[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def requests(ops: Terminal) -> set[str]:
    return {row["deletion_request_id"] for row in ops.run("list").data["requests"]}


def invoked(ops: Terminal) -> int:
    return len(ops.world.wire.of("Invoke"))


def test_every_line_becomes_a_request_and_a_result_by_its_number(ops: Terminal) -> None:
    ran = ops.run("bulk", file(HEADER, *users(3)), "--yes")
    header, *lines = results()
    assert (ran.code, ran.data["accepted"], ran.data["results"]) == (Exit.OK, 3, "users.csv.results.jsonl")
    assert header == {"run": ran.data["run"]}
    assert {line["line"] for line in lines} == {2, 3, 4}
    assert {line["deletion_request_id"] for line in lines} == requests(ops)
    assert {(line["outcome"], line["status"]) for line in lines} == {("accepted", "SCHEDULED")}


@pytest.mark.invariant("I8")
def test_the_results_file_holds_nothing_of_a_user(ops: Terminal) -> None:
    ops.run("bulk", file(HEADER, *users(2), "a/b,1", "user-a1b9"), "--yes")
    text = Path("users.csv.results.jsonl").read_text(encoding="utf-8")
    assert [name for name in ("user-a1b", "100", "101", "a/b") if f'"{name}' in text] == []


@pytest.mark.parametrize(
    "rows",
    [
        [HEADER, *users(2)],
        ["customer_id,user_id", "100,user-a1b0", "101,user-a1b1"],
        [json.dumps({"user_id": f"user-a1b{n}", "identifiers": {"customer_id": f"10{n}"}}) for n in range(2)],
        [f"\ufeff{HEADER}", *users(2), ""],
    ],
)
def test_csv_and_json_lines_name_the_same_users(ops: Terminal, rows: list[str]) -> None:
    ran = ops.run("bulk", file(*rows), "--yes")
    records = [ops.world.record(request) for request in requests(ops)]
    assert (ran.code, ran.data["accepted"]) == (Exit.OK, 2)
    assert {(one["user_id"], one["identifiers"]["customer_id"]) for one in records} == {
        ("user-a1b0", "100"),
        ("user-a1b1", "101"),
    }


def test_standard_input_is_read_under_a_name(ops: Terminal) -> None:
    text = "\n".join([HEADER, *users(2)])
    first = ops.run("bulk", "-", "--run", "inactive-2026", "--yes", stdin=text)
    again = ops.run("bulk", "-", "--run", "inactive-2026", "--yes", stdin=text)
    assert (first.data["accepted"], again.data["accepted"], len(requests(ops))) == (2, 2, 2)
    assert results("inactive-2026.results.jsonl")[0] == {"run": "inactive-2026"}


def test_a_second_run_asks_only_for_what_was_not_accepted(ops: Terminal) -> None:
    name = file(HEADER, *users(3))
    ops.next_invocation(refused("ServiceException", status=500))
    first = ops.run("bulk", name, "--yes", "--rate", "100")
    before = invoked(ops)
    second = ops.run("bulk", name, "--yes")
    assert (first.code, first.data["accepted"], first.data["failed"]) == (Exit.INCOMPLETE, 2, 1)
    assert (second.code, second.data["accepted"], second.data["accepted_before"]) == (Exit.OK, 1, 2)
    assert invoked(ops) == before + 1


@pytest.mark.parametrize("torn", ["", '{"line": 2, "outc'])
def test_a_run_that_lost_its_last_results_gets_the_same_requests_again(ops: Terminal, torn: str) -> None:
    """The process died after the requests were accepted and before, or while, the results were written."""
    name = file(HEADER, *users(3))
    first = ops.run("bulk", name, "--yes").data
    made = requests(ops)
    Path("users.csv.results.jsonl").write_text(f'{{"run": "{first["run"]}"}}\n{torn}', encoding="utf-8")
    again = ops.run("bulk", name, "--yes")
    assert (again.code, again.data["accepted"]) == (Exit.OK, 3)
    assert requests(ops) == made
    assert {line["deletion_request_id"] for line in results()[1:]} == made


def test_a_process_that_dies_on_the_way_leaves_a_run_that_can_go_on(
    ops: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "CHUNK", 2)
    name = file(HEADER, *users(5))
    done = []
    answer = ops.machine._answer  # noqa: SLF001
    ops.world.wire._before.clear()  # noqa: SLF001

    def dies_at_the_fourth(call: Any) -> Any:
        done.append(call)
        return raises(Crash())(call) if len(done) == 4 else answer(call)

    ops.world.wire.before("Invoke", dies_at_the_fourth, times=100)
    with pytest.raises(Crash):
        ops.run("bulk", name, "--yes")
    written = len(results()[1:])
    again = ops.run("bulk", name, "--yes")
    assert written == 2
    assert (again.code, again.data["accepted"], again.data["accepted_before"]) == (Exit.OK, 3, 2)
    assert len(requests(ops)) == 5


def test_a_line_that_is_wrong_is_refused_by_its_number_and_holds_up_no_other(ops: Terminal) -> None:
    ran = ops.run("bulk", file(HEADER, "a/b,1", "user-a1b0", *users(1)), "--yes")
    reasons = {line["line"]: line.get("reason", "") for line in results()[1:]}
    assert (ran.code, ran.data["accepted"], ran.data["refused"]) == (Exit.REFUSED, 1, 2)
    assert reasons[2].startswith("request-deletion: InvalidEvent: user_id: 1 to 128 characters")
    assert (reasons[3], reasons[4]) == ("1 columns instead of 2", "")


def test_a_number_of_another_user_under_the_same_run_name_is_refused(ops: Terminal) -> None:
    ops.run("bulk", file(HEADER, *users(2)), "--yes", "--run", "inactive")
    Path("users.csv.results.jsonl").unlink()
    ran = ops.run("bulk", file(HEADER, *reversed(users(2))), "--yes", "--run", "inactive")
    assert (ran.code, ran.data["refused"]) == (Exit.REFUSED, 2)
    assert "idempotency_key: was used for another user" in results()[1]["reason"]


@pytest.mark.parametrize("name", ["-", "users.csv"])
def test_other_users_under_a_name_that_was_used_before_are_never_passed_by(ops: Terminal, name: str) -> None:
    def run(*rows: str) -> Ran:
        file(HEADER, *rows)
        text = "\n".join([HEADER, *rows]) if name == "-" else None
        return ops.run("bulk", name, "--yes", "--run", "inactive", stdin=text)

    run("user-a1b0,100", "user-a1b1,101")
    made = requests(ops)
    ran = run("user-a1b0,100", "user-a1b9,109", "user-a1b8,108")
    assert (ran.code, ran.data["accepted_before"]) == (Exit.REFUSED, 0)
    assert (ran.data["accepted"], ran.data["refused"]) == (2, 1)
    assert len(requests(ops) - made) == 1


def test_a_run_in_which_nothing_gets_through_stops(ops: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "CHUNK", 2)
    ops.world.wire._before.clear()  # noqa: SLF001
    ops.world.wire.before("Invoke", refused("AccessDeniedException"), times=100)
    ran = ops.run("bulk", file(HEADER, *users(9)), "--yes")
    assert (ran.code, ran.out) == (Exit.INCOMPLETE, "")
    assert "AccessDenied: Invoke answered AccessDeniedException" in ran.err
    assert invoked(ops) == 2


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"run": "another"}\n', "belongs to the run another"),
        ("user_id\n", "is no results file"),
        ("user_id\nuser-a1b2", "is no results file"),
        ("user-a1b2", "is no results file"),
        ('{"line": 1}\n', "is no results file"),
    ],
)
def test_a_results_file_of_another_run_is_left_alone(ops: Terminal, content: str, told: str) -> None:
    Path("mine.jsonl").write_text(content, encoding="utf-8")
    ran = ops.run("bulk", file(HEADER, *users(1)), "--yes", "--results", "mine.jsonl")
    assert (ran.code, ran.out, invoked(ops)) == (Exit.USAGE, "", 0)
    assert told in ran.err
    assert Path("mine.jsonl").read_text(encoding="utf-8") == content


@pytest.mark.parametrize("content", [b"customer_id\n1\n", b"user_id\n\xff\xfe\n", b""])
def test_a_file_that_names_no_users_is_refused(ops: Terminal, content: bytes) -> None:
    Path("users.csv").write_bytes(content)
    ran = ops.run("bulk", "users.csv", "--yes")
    assert (ran.code, ran.out, invoked(ops)) == (Exit.USAGE, "", 0)


def test_the_file_is_read_as_it_is_needed() -> None:
    """A million lines are never all in memory."""
    read = []

    def endless() -> Iterable[str]:
        yield f"{HEADER}\n"
        for number in range(1_000_000):
            read.append(number)
            yield f"user-a1b{number},1\n"

    lines = bulk._csv_lines(endless())  # noqa: SLF001
    assert next(lines).number == 2
    assert len(read) < 3
