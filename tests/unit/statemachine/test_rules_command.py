"""`python -m statemachine validate`: what it prints, and with which code it ends."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from statemachine.rules import SIZE_LIMIT
from statemachine.validate import main

DEFINITIONS = Path(__file__).parent / "definitions"
BROKEN = sorted((DEFINITIONS / "broken").glob("*.json"))
FINE = {"StartAt": "A", "States": {"A": {"Type": "Succeed"}}}


Written = Callable[[str], str]
"""Writes a definition to a file, and tells its path."""


@pytest.fixture
def written(tmp_path: Path) -> Written:
    def write(text: str) -> str:
        path = tmp_path / "machine.asl.json"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def test_a_fine_definition_ends_with_0_and_prints_nothing(written: Written, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([written(json.dumps(FINE)), "--strict"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_errors_end_with_1_and_warnings_only_with_strict(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    only_warnings = all(code.startswith("W") for code in path.stem.split("-")[0].split("+"))

    assert main([str(path)]) == (0 if only_warnings else 1)
    assert main([str(path), "--strict"]) == 1


def test_a_finding_is_printed_as_severity_code_place_problem_and_mend(
    written: Written, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps({"StartAt": "A", "States": {"A": {"Type": "Sucess"}}})

    assert main([written(text)]) == 1
    assert capsys.readouterr().out.splitlines()[0] == (
        'error A203 /States/A: there is no state type "Sucess"; write Succeed'
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON: Expecting value at line 1, column 1"),
        ("{'StartAt': 'A'}", "not JSON: Expecting property name enclosed in double quotes at line 1, column 2"),
        ('{"a": NaN}', "not JSON: NaN is no JSON value"),
        (
            '{"States": {"A": {"Type": "Pass", "Type": "Wait"}}}',
            'the key "Type" stands twice in one object; keep one of them',
        ),
        ("[" * 100_000, "not readable: nested too deeply"),
    ],
)
def test_what_cannot_be_read_ends_with_2_and_one_clear_line(
    written: Written, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    path = written(text)

    assert main([path]) == 2
    assert capsys.readouterr() == ("", f"{path}: {says}\n")


def test_json_that_is_no_object_is_an_error_like_others(written: Written, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([written("[]")]) == 1
    assert capsys.readouterr().out == (
        'error A101 "": a definition is an object; write an object with StartAt and States\n'
    )


def test_a_missing_file_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "missing.json"

    assert main([str(path)]) == 2
    assert capsys.readouterr().err == f"{path}: cannot be read: No such file or directory\n"


def test_a_file_that_is_not_utf_8_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "latin1.json"
    path.write_bytes(b'{"Comment": "gr\xfc\xdfe"}')

    assert main([str(path)]) == 2
    assert capsys.readouterr().err == f"{path}: not JSON: the file is not UTF-8\n"


def test_the_file_as_it_stands_is_measured_blanks_included(
    written: Written, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps(FINE)

    assert main([written(text + " " * (SIZE_LIMIT - len(text)))]) == 0
    assert main([written(text + " " * (SIZE_LIMIT - len(text) + 1))]) == 1
    assert capsys.readouterr().out.startswith('error A109 "": ')
