"""What is committed is what the list renders to; `make refresh` writes it again."""

from pathlib import Path

import pytest

from statemachine import rules, tables, validate
from statemachine.__main__ import DOCUMENTS, GENERATED, GOLDEN, ROOT, main
from statemachine.deletion import workflow


@pytest.mark.parametrize("name", GENERATED)
def test_the_committed_file_is_what_the_list_renders_to(name: str) -> None:
    assert (GOLDEN / name).read_text(encoding="utf-8") == GENERATED[name](workflow(identity=True))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_tables_in_the_documents_are_those_of_the_code(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert tables.refreshed(text, workflow(identity=True)) == text
    assert "<!-- generated:" in text


def test_the_committed_definition_breaks_no_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert validate.main([str(GOLDEN / "deletion.asl.json"), "--strict"]) == 0
    assert capsys.readouterr().out == ""


def test_the_definition_stays_far_below_the_limit_of_its_size() -> None:
    assert (GOLDEN / "deletion.asl.json").stat().st_size < rules.SIZE_LIMIT / 4


def test_describe_tells_the_numbers_of_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe"]) == 0
    printed = capsys.readouterr().out
    assert "happy path: 20 transitions" in printed
    assert "control writes of a step's invocation: 2, and 1 a batch" in printed


def test_render_and_diagram_print_the_committed_files(capsys: pytest.CaptureFixture[str]) -> None:
    for command, name in (("render", "deletion.asl.json"), ("diagram", "deletion.mmd")):
        assert main([command]) == 0
        assert capsys.readouterr().out == (GOLDEN / name).read_text(encoding="utf-8")


def test_validate_takes_any_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text('{"StartAt": "A", "States": {"A": {"Type": "Pass", "Next": "B"}}}', encoding="utf-8")
    assert main(["validate", str(broken)]) == 1
    assert "/States/A/Next" in capsys.readouterr().out
