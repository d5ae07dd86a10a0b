"""The table of metrics is whole: what is sent is in it, and what is in it is sent, from where it says."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import handlers
from handlers.core import metrics
from handlers.core.metrics import ALL, STEP, Metric
from statemachine import deletion, tables

ROOT = Path(handlers.__file__).parent.parent
BY_CONSTANT = {name: value for name, value in vars(metrics).items() if isinstance(value, Metric)}


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every module of the handlers, by its dotted name."""
    for path in sorted(ROOT.glob("handlers/**/*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        yield name, ast.parse(path.read_text(encoding="utf-8"))


def sent() -> list[tuple[str, str, frozenset[str]]]:
    """(module, first argument, names of the dimensions) of each call of telemetry.count."""
    return [
        (module, ast.unparse(node.args[0]), frozenset(str(one.arg) for one in node.keywords if one.arg != "value"))
        for module, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"telemetry.count", "count"} and node.args
    ]


def test_everything_that_is_sent_is_a_metric_of_the_table() -> None:
    calls = sent()

    assert len(calls) >= len(ALL)
    assert [(module, what) for module, what, _ in calls if what.removeprefix("metrics.") not in BY_CONSTANT] == []


def test_nothing_goes_around_the_table() -> None:
    # Whoever makes an EMF line without telemetry could send anything.
    around = [
        module
        for module, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("aws_lambda_powertools.metrics")
    ]

    assert around == ["handlers.core.telemetry"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("constant", sorted(BY_CONSTANT))
def test_a_metric_is_sent_by_the_modules_that_the_table_names_and_with_its_dimensions(constant: str) -> None:
    calls = [(module, dimensions) for module, what, dimensions in sent() if what == f"metrics.{constant}"]

    assert {module for module, _ in calls} == set(BY_CONSTANT[constant].sent_by)
    assert {dimensions for _, dimensions in calls} == {frozenset(BY_CONSTANT[constant].dimensions)}


def test_table_holds_each_metric_once_and_no_other_dimension_than_the_step() -> None:
    assert list(ALL) == list(BY_CONSTANT.values())
    assert len({metric.name for metric in ALL}) == len(ALL)
    assert {metric.dimensions for metric in ALL} <= {(), (STEP,)}
    assert {metric.name: name.replace("_", "").lower() for name, metric in BY_CONSTANT.items()} == {
        metric.name: metric.name.lower() for metric in ALL
    }


def test_the_table_for_the_documentation_holds_every_metric() -> None:
    marked = "<!-- generated: metrics -->\n<!-- end of metrics -->"

    lines = tables.refreshed(marked, deletion.workflow(identity=True)).splitlines()

    assert lines[1] == "| metric | unit | by | one value says | sent by |"
    assert [line.split("`")[1] for line in lines[3:-1]] == [metric.name for metric in ALL]
    assert "| `StepRetries` | Count | step | " in "".join(lines)
    assert "`handlers/dispatch.py`<br>`handlers/recover.py`" in "".join(lines)


def test_every_meaning_is_a_sentence() -> None:
    assert [metric.name for metric in ALL if not metric.meaning.endswith(".") or not metric.meaning[0].isupper()] == []
