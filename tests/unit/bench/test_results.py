"""What a bench says of its result: tables, their places in the document, and when it ends with an error."""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import __main__ as every
from bench import report
from bench.files import BOTO3, STEP, Result, wrong
from bench.growth import grow
from bench.processes import ROOT, BenchError, run_worker
from bench.records import GOAL, units
from bench.records import STEP as RECORDS
from bench.report import Table

pytestmark = pytest.mark.exhaustive

PAGE = report.DOCUMENT.read_text(encoding="utf-8")
PLACE = "before\n<!-- measured: speed -->\nold\n<!-- end of speed -->\nafter\n"
TABLE = Table(name="speed", head=("who", "seconds"), rows=(("a|b", "1.0"),), facts={"seconds": 1.0})


def test_a_table_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    document = tmp_path / "benchmarks.md"
    document.write_text(PLACE, encoding="utf-8")
    report.write([TABLE], document)
    first = document.read_text(encoding="utf-8")
    report.write([TABLE], document)
    assert first.startswith("before\n<!-- measured: speed -->\n| who | seconds |\n| --- | ---: |\n| a\\|b | 1.0 |\n")
    assert first.endswith("<!-- end of speed -->\nafter\n")
    assert "old" not in first
    assert document.read_text(encoding="utf-8") == first


def test_a_table_without_a_place_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    document = tmp_path / "benchmarks.md"
    document.write_text("nothing here\n", encoding="utf-8")
    with pytest.raises(BenchError, match="speed"):
        report.write([TABLE], document)
    assert document.read_text(encoding="utf-8") == "nothing here\n"


@pytest.mark.parametrize(("wrong", "code"), [((), 0), (("3 are left",), 1)])
def test_a_bench_fails_on_a_wrong_result_and_then_writes_nothing(
    wrong: tuple[str, ...],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = tmp_path / "benchmarks.md"
    document.write_text(PLACE, encoding="utf-8")
    monkeypatch.setattr(report, "DOCUMENT", document)
    monkeypatch.setattr(report, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["bench", "--write", "--json"])
    table = Table(name="speed", head=TABLE.head, rows=TABLE.rows, facts=TABLE.facts, wrong=wrong)

    ended = report.run("", lambda _: None, lambda _: [table])
    said = capsys.readouterr()

    assert ended == code
    assert json.loads(said.out)["tables"][0]["facts"] == {"seconds": 1.0}
    assert said.err == "".join(f"WRONG: {text}\n" for text in wrong)
    assert (document.read_text(encoding="utf-8") == PLACE) == bool(wrong)


def benches() -> set[str]:
    names = {path.stem for path in (ROOT / "bench").glob("*.py") if not path.name.startswith("__")}
    return {name for name in names if hasattr(importlib.import_module(f"bench.{name}"), "measure")}


def test_every_bench_with_tables_is_run_by_make_bench() -> None:
    assert benches() == set(every.WRITING)


def test_every_table_has_one_place_in_the_document_and_every_place_a_table() -> None:
    sources = "".join((ROOT / "bench" / f"{name}.py").read_text(encoding="utf-8") for name in every.WRITING)
    named = re.findall(r'name="([a-z-]+)",\s+head=', sources)
    places = re.findall(r"<!-- measured: ([a-z-]+) -->", report.DOCUMENT.read_text(encoding="utf-8"))
    assert named
    assert sorted(named) == sorted(places)


def test_every_command_that_the_document_names_is_taken_by_its_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    text = report.DOCUMENT.read_text(encoding="utf-8")
    commands = re.findall(r"`python -m bench\.(\w+)([^`]*)`", text)
    assert {name for name, _ in commands} == set(every.WRITING)
    for name, arguments in commands:
        parser = argparse.ArgumentParser()
        vars(importlib.import_module(f"bench.{name}"))["_arguments"](parser)
        parser.parse_args(arguments.split())


def measured(name: str) -> list[list[str]]:
    """The cells of a measured table, below its header."""
    text = report.DOCUMENT.read_text(encoding="utf-8").split(f"<!-- measured: {name} -->\n")[1]
    return [line.strip("| ").split(" | ") for line in text.split("\n\n")[0].splitlines()[2:]]


def worst(name: str, who: str, column: int, choose: Callable[..., float], server: str = "") -> float:
    """The worst number that a table has for somebody."""
    rows = [row for row in measured(name) if who in row and row[0].endswith(server)]
    return choose(float(row[column]) for row in rows)


def test_the_page_says_of_each_goal_whether_its_table_reaches_it() -> None:
    said = dict(re.findall(r"^\| (.*at (?:least|most) .*) \| (reached|missed) \|$", PAGE, re.MULTILINE))
    reached = {
        "as it answers: at least 2.0 times as fast as boto3's collection": worst("files", STEP, 4, min, "answers") >= 2,
        "like S3: at least 5.0 times as fast as boto3's collection": worst("files", STEP, 4, min, "like S3") >= 5,
        f"at most {GOAL} times the write units of boto3's batch_writer": worst("records", RECORDS, 5, max) <= GOAL,
    }
    assert said == {goal: "reached" if holds else "missed" for goal, holds in reached.items()}


def test_write_units_are_one_an_item_and_two_in_a_transaction_with_the_record_s_own() -> None:
    assert units({"BatchWriteItem": 4}, 100, 0) == 100
    # 200 for the deletes, 2 x 2 for a record of 1.5 KB in each of two transactions, 2 + 2 for begin and finish each.
    assert units({"TransactWriteItems": 2, "UpdateItem": 2, "Query": 3}, 100, 1500) == 200 + 8 + 8


@pytest.mark.parametrize(
    ("contender", "left", "counted", "number"),
    [(STEP, 0, 5, 0), (STEP, 2, 5, 1), (STEP, 0, 4, 1), (STEP, 1, 4, 2), (BOTO3, 3, None, 0)],
)
def test_what_the_step_leaves_or_miscounts_is_wrong_and_what_others_leave_is_only_shown(
    contender: str, left: int, counted: int | None, number: int
) -> None:
    counts = None if counted is None else {"files": counted}
    result = Result(server="", latency="", contender=contender, versions=5, seconds=1, left=left, counted=counts)
    assert len(wrong(result)) == number


@pytest.fixture(scope="module")
def grown() -> dict[int, object]:
    return {size: grow(size) for size in (10, 1_000)}


def test_a_deletion_of_more_objects_has_no_more_states_and_history(grown: dict[int, object]) -> None:
    small, large = (vars_of(one) for one in grown.values())
    same = ("executions", "transitions", "invocations", "events")
    assert {name: large[name] for name in same} == {name: small[name] for name in same}
    assert (small["left"], large["left"]) == (0, 0)
    assert small["control_writes"] < large["control_writes"]


def test_a_deletion_that_needs_several_turns_is_counted_with_all_of_them(
    grown: dict[int, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.growth.ITEMS_A_SECOND", 1.6)
    slow, fast = vars_of(grow(1_000)), vars_of(grown[1_000])
    # 1,000 items at 1.6 a second are 625 s, in turns of 270 s and a transaction.
    assert slow["invocations"] - fast["invocations"] == 2
    assert slow["transitions"] - fast["transitions"] == 2 * 2
    assert slow["left"] == 0


def vars_of(value: object) -> dict[str, int]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}  # type: ignore[attr-defined]


def test_a_worker_tells_what_it_did_and_needed() -> None:
    ran = run_worker("bench.contenders.nothing", {})
    assert (ran.invocations, ran.calls, ran.answer) == (1, {}, {"done": True})
    assert ran.peak > 5
    assert ran.seconds < 60


def test_a_worker_that_fails_is_an_error_with_its_last_words() -> None:
    with pytest.raises(BenchError, match="KeyError"):
        run_worker("bench.contenders.items_by_batch_writer", {})
