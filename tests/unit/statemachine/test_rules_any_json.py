"""Whatever JSON comes in, findings come out and nothing is raised."""

import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from statemachine.rules import CATALOGUE, validate
from statemachine.rules.choices import COMPARISONS
from statemachine.rules.fields import STATE_FIELDS
from statemachine.rules.machine import STATE_TYPES

DEFINITIONS = [
    json.loads(path.read_text(encoding="utf-8"))
    for path in sorted((Path(__file__).parent / "definitions").glob("*/*.json"))
]
FIELDS = sorted({name for fields in STATE_FIELDS.values() for group in fields for name in group} | COMPARISONS)
WORDS = [
    *("StartAt", "States", "Type", "Next", "Default", "Choices", "ErrorEquals", "And", "Not", "Variable", "Condition"),
    *("FunctionName", "FunctionName.$", "Resource", "ReaderConfig", "MaxItems", "Mode", "Bucket", "", "a", "${x}"),
]
TEXTS = [
    *sorted(STATE_TYPES),
    *("JSONata", "JSONPath", "DISTRIBUTED", "INLINE", "States.ALL", "States.Runtime", "States.", "a", "b", "", "${x}"),
    *("$", "$$", "$.a", "$.", "$x.y", "$$.Map.Item.Value", "$$.Task.Token", "States.Format('{}')", "States.Array(("),
    *("{%", "%}", "{% %}", "{%%}", "{% $states.result.a %}", "{% $f($x, 1) ?? a %}", "{% a[ %}", "{% $x ~> |$|{}| %}"),
    *("arn:aws:states:::lambda:invoke", "arn:aws:states:::sqs:sendMessage.waitForTaskToken", "arn:aws:states:::"),
    *(
        "arn:aws:states:::aws-sdk:sqs:sendMessage",
        "arn:::::",
        "arn:${x}:states:::${y}",
        "2030-01-01T00:00:00Z",
        "\ud800",
    ),
]
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from([0, 1, -1, 10**400, 99_999_999, 1e308]),
    st.sampled_from(TEXTS),
    st.text(max_size=12),
    st.text(alphabet="${}%.[]()'?:@*|~#^&,a1 ", max_size=12).map(lambda text: "{%" + text + "%}"),
    st.text(alphabet="$.[]()'\"*?@:,\\a1 ", max_size=12).map(lambda text: "$" + text),
)
keys = st.one_of(st.sampled_from(FIELDS), st.sampled_from(WORDS), st.text(max_size=6))
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=5)),
    max_leaves=20,
)
states = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.dictionaries(keys, trees, max_size=6), max_size=3)
settled = settings(deadline=None, database=None, derandomize=True, max_examples=40)


def assert_answers(definition: Any) -> None:
    found = validate(definition)

    assert all(finding.code in CATALOGUE for finding in found)
    assert all(len(str(finding).splitlines()) == 1 for finding in found)


def parts(value: object, place: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    """The places of everything within a JSON tree."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, inner in pairs for found in ((*place, key), *parts(inner, (*place, key)))]


@given(trees)
@settled
def test_any_json_is_answered_with_findings(tree: Any) -> None:
    assert_answers(tree)


@given(states, st.sampled_from(["JSONata", "JSONPath"]), st.sampled_from(sorted(STATE_TYPES)))
@settled
def test_any_machine_of_states_is_answered_with_findings(
    found: dict[str, dict[str, Any]], language: str, kind: str
) -> None:
    definition = {
        "QueryLanguage": language,
        "StartAt": "a",
        "States": {n: {"Type": kind, **s} for n, s in found.items()},
    }

    assert_answers(definition)


@given(st.data())
@settled
def test_any_part_of_a_real_definition_may_be_replaced_or_lost(data: st.DataObject) -> None:
    definition = copy.deepcopy(data.draw(st.sampled_from(DEFINITIONS)))
    for _ in range(data.draw(st.integers(1, 3))):
        places = parts(definition)
        if not places:
            break
        *way, last = data.draw(st.sampled_from(places))
        holder = definition
        for key in way:
            holder = holder[key]
        if data.draw(st.booleans()):
            holder[last] = data.draw(trees)
        else:
            del holder[last]

    assert_answers(definition)
