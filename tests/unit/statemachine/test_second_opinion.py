"""statelint, an older and independent validator of JSONPath definitions, beside ours."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from statemachine.rules import Severity, validate

linter = pytest.importorskip("statelint.linter", reason="needs statelint, which requirements.txt pins")
config = pytest.importorskip("statelint.config")
problem = pytest.importorskip("statelint.problem")

Definition = Mapping[str, object]
DEFINITIONS = Path(__file__).parent / "definitions"
# It takes a whole number for no float, and knows no substitutions.
LENIENT = config.Config({problem.ProblemType.FLOAT, problem.ProblemType.URI})
# What the language got after statelint, or statelint never had: file to a piece of its objection.
ITS_GAPS = {
    "choice-with-every-comparison": "should be a Reference Path",
    "intrinsics-of-a-template": "should be an Integer",
    "map-distributed-csv": "not allowed",
    "map-distributed-manifest": '"InputType" not allowed',
    "paths-of-all-kinds": "is not a JSONPath or intrinsic function expression",
    "substitutions": "should be an Integer",
}


def definitions(kind: str) -> list[object]:
    paths = sorted((DEFINITIONS / kind).glob("*.json"))
    texts = {path.stem: path.read_text(encoding="utf-8") for path in paths}
    # It reads JSONPath, and knows no variables.
    older = {name: text for name, text in texts.items() if "JSONata" not in text and '"Assign"' not in text}
    return [pytest.param(name, json.loads(text), id=name) for name, text in older.items()]


def objections(definition: object) -> list[str]:
    found: list[str] = linter.Linter.validate(definition, LENIENT)
    return found


@pytest.mark.parametrize(("name", "definition"), definitions("valid"))
def test_what_we_accept_statelint_accepts_but_for_its_known_gaps(name: str, definition: Definition) -> None:
    found = objections(definition)

    if name in ITS_GAPS:
        assert any(ITS_GAPS[name] in objection for objection in found)
    else:
        assert found == []


@pytest.mark.parametrize(("name", "definition"), definitions("broken"))
def test_what_statelint_refuses_we_refuse(name: str, definition: Definition) -> None:
    ours = [finding for finding in validate(definition) if finding.severity is Severity.ERROR]

    assert ours or not objections(definition)
