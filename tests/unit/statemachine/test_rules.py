"""The committed definitions: valid ones have no findings, broken ones break exactly the rules that their names say."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from statemachine.rules import CATALOGUE, SIZE_LIMIT, Finding, Severity, validate

DEFINITIONS = Path(__file__).parent / "definitions"
VALID = sorted((DEFINITIONS / "valid").glob("*.json"))
BROKEN = sorted((DEFINITIONS / "broken").glob("*.json"))
# Too large or too deep to be committed: they have tests of their own.
MADE_HERE = {"A109", "A110"}


def read(path: Path) -> dict[str, Any]:
    definition: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return definition


def codes_in_name(path: Path) -> set[str]:
    """`A205+A905-parameters-in-jsonata.json` breaks A205 and A905."""
    return set(path.stem.split("-")[0].split("+"))


def codes(definition: Mapping[str, object]) -> set[str]:
    return {finding.code for finding in validate(definition)}


def passes(**fields: object) -> dict[str, object]:
    return {"StartAt": "A", "States": {"A": {"Type": "Pass", "End": True, **fields}}}


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_a_valid_definition_has_no_findings(path: Path) -> None:
    assert validate(read(path)) == ()


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_a_broken_definition_breaks_exactly_the_rules_in_its_name(path: Path) -> None:
    assert codes(read(path)) == codes_in_name(path)


def test_every_rule_is_broken_by_a_definition_of_its_own() -> None:
    broken = {code for path in BROKEN for code in codes_in_name(path)}

    assert broken | MADE_HERE == set(CATALOGUE)


def test_there_are_enough_definitions_of_both_kinds() -> None:
    assert len(VALID) >= 40
    assert len(BROKEN) >= 40


def test_every_rule_has_a_title_and_a_source_to_read_up() -> None:
    for rule in CATALOGUE.values():
        assert rule.title
        assert re.fullmatch(r"https://(states-language\.net|docs\.aws\.amazon\.com)/\S+", rule.source)


def test_a_code_says_whether_it_is_an_error_or_a_warning() -> None:
    letters = {Severity.ERROR: "A", Severity.WARNING: "W"}

    assert [code for code, rule in CATALOGUE.items() if not code.startswith(letters[rule.severity])] == []


def test_a_finding_says_where_what_and_what_to_write() -> None:
    definition = {"StartAt": "A", "States": {"A": {"Type": "Pass", "Next": "Bee"}, "Been": {"Type": "Succeed"}}}

    assert validate(definition)[0] == Finding(
        Severity.ERROR,
        "A302",
        "/States/A/Next",
        'there is no state "Bee" in this machine',
        'write "Been"',
    )


def test_a_place_is_a_json_pointer_with_its_two_escapes() -> None:
    definition = {"StartAt": "a/b~c", "States": {"a/b~c": {"Type": "Pass"}}}

    assert [finding.place for finding in validate(definition)] == ["/States/a~1b~0c"]


def test_a_finding_is_one_line_whatever_stands_in_the_definition() -> None:
    definition = {"StartAt": "A\nB", "States": {"A": {"Type": "Succeed"}}}

    lines = [str(finding) for finding in validate(definition)]

    assert lines
    assert all(len(line.splitlines()) == 1 for line in lines)


def test_all_findings_come_at_once_and_errors_first() -> None:
    definition = passes(Result={"id.$": "$.id"}, ResultPath="order", Next="Missing", Colour="red")

    found = validate(definition)

    assert {"A204", "A302", "A305", "A601", "W601"} <= {finding.code for finding in found}
    assert [finding.severity for finding in found] == sorted(finding.severity for finding in found)


def test_a_definition_just_within_the_limit_is_accepted_and_one_character_more_is_not() -> None:
    small = len(json.dumps(passes(Comment=""), separators=(",", ":")))

    assert validate(passes(Comment="x" * (SIZE_LIMIT - small))) == ()
    assert codes(passes(Comment="x" * (SIZE_LIMIT - small + 1))) == {"A109"}


def test_the_text_that_is_sent_counts_where_it_is_known() -> None:
    assert {finding.code for finding in validate(passes(), size=SIZE_LIMIT + 1)} == {"A109"}


def test_a_definition_nested_without_end_is_refused_and_not_walked() -> None:
    value: object = "deep"
    for _ in range(50_000):
        value = [value]

    assert codes(passes(Result=value)) == {"A110"}


@pytest.mark.parametrize("value", [None, [], "text", 5, True])
def test_what_is_no_object_is_no_definition(value: Any) -> None:
    assert codes(value) == {"A101"}


@pytest.mark.parametrize(
    ("retrier", "found"),
    [
        ({"MaxDelaySeconds": 4}, set()),
        ({"MaxDelaySeconds": 5}, {"W505"}),
        ({"IntervalSeconds": 5, "BackoffRate": 1, "MaxDelaySeconds": 6}, {"W505"}),
        ({"MaxAttempts": 90_000_000, "MaxDelaySeconds": 31_622_400}, set()),
        ({"MaxDelaySeconds": 1}, {"A506"}),
        ({"MaxDelaySeconds": 31_622_401}, {"A209", "W505"}),
    ],
)
def test_the_cap_of_delays_is_measured_against_the_delays_there_will_be(
    retrier: dict[str, Any], found: set[str]
) -> None:
    task = {"Type": "Task", "Resource": "arn:aws:lambda:eu-central-1:123456789012:function:f", "End": True}
    definition = {"StartAt": "A", "States": {"A": {**task, "Retry": [{"ErrorEquals": ["Throttled"], **retrier}]}}}

    assert codes(definition) == found


def test_an_own_error_with_the_reserved_prefix_may_be_caught_where_a_fail_state_raises_it() -> None:
    branch = {"StartAt": "Met", "States": {"Met": {"Type": "Fail", "Error": "States.QuorumMet"}}}
    catch = [{"ErrorEquals": ["States.QuorumMet"], "Next": "Done"}]
    wait = {"Type": "Parallel", "Branches": [branch], "Catch": catch, "End": True}
    states = {"Wait": wait, "Done": {"Type": "Pass", "End": True}}

    assert codes({"StartAt": "Wait", "States": states}) == {"W202"}


def test_nothing_is_said_of_reachability_while_a_target_awaits_its_substitution() -> None:
    states = {"A": {"Type": "Pass", "Next": "${Second}"}, "B": {"Type": "Succeed"}}

    assert validate({"StartAt": "A", "States": states}) == ()


def test_a_variable_counts_as_assigned_if_one_way_assigns_it() -> None:
    definition = read(DEFINITIONS / "valid" / "variable-from-one-of-two-ways.json")
    del definition["States"]["Make"]["Assign"]

    assert validate(definition) == ()


def test_sdk_parameters_are_taken_in_the_spelling_of_the_sdk_for_java() -> None:
    arguments = {"DbInstanceIdentifier": "shop", "DbSnapshotIdentifier": "shop-1"}
    task = {"Type": "Task", "Resource": "arn:aws:states:::aws-sdk:rds:createDBSnapshot", "Parameters": arguments}

    assert validate({"StartAt": "A", "States": {"A": {**task, "End": True}}}) == ()


RIGHT_ATTRIBUTES: tuple[object, ...] = (
    *({"N": "5"}, {"BOOL": False}, {"NULL": True}, {"L": [{"M": {}}]}, {"NS": ["1"]}),
    *({"N": "${Number}"}, {"L.$": "$.list"}, {"S": {"Fn::Sub": "${X}"}}, "${Whole}"),
)
WRONG_ATTRIBUTES: tuple[object, ...] = (
    *({kind: 5} for kind in ("S", "N", "B", "BOOL", "NULL", "SS", "NS", "BS", "L", "M")),
    *({"S": None}, {"BOOL": "true"}, {"NULL": False}, {"SS": "a"}, {"NS": [1]}),
    *({"L": [{"N": 1}]}, {"L": ["a"]}, {"M": {"a": {"N": 1}}}, {"M": {"a": "b"}}),
)


@pytest.mark.parametrize(
    ("attribute", "found"),
    [*((value, set()) for value in RIGHT_ATTRIBUTES), *((value, {"A908"}) for value in WRONG_ATTRIBUTES)],
)
@pytest.mark.parametrize("service", ["dynamodb", "aws-sdk:dynamodb"])
def test_a_dynamodb_attribute_holds_what_its_type_says(service: str, attribute: Any, found: set[str]) -> None:
    arguments = {"TableName": "t", "Item": {"pk": {"S": "a"}, "x": attribute}}
    task = {"Type": "Task", "Resource": f"arn:aws:states:::{service}:putItem", "Parameters": arguments, "End": True}

    assert codes({"StartAt": "A", "States": {"A": task}}) == found


@pytest.mark.parametrize(
    ("action", "allowed"),
    [
        ("putItem", {"NONE", "ALL_OLD"}),
        ("deleteItem", {"NONE", "ALL_OLD"}),
        ("updateItem", {"NONE", "ALL_OLD", "UPDATED_OLD", "ALL_NEW", "UPDATED_NEW"}),
    ],
)
@pytest.mark.parametrize("value", ["NONE", "ALL_OLD", "UPDATED_OLD", "ALL_NEW", "UPDATED_NEW", "none", True])
def test_each_dynamodb_action_returns_only_what_it_knows(action: str, allowed: set[str], value: Any) -> None:
    arguments = {"TableName": "t", "Item" if action == "putItem" else "Key": {"pk": {"S": "a"}}, "ReturnValues": value}
    task = {"Type": "Task", "Resource": f"arn:aws:states:::dynamodb:{action}", "Parameters": arguments, "End": True}

    found = [finding.code for finding in validate({"StartAt": "A", "States": {"A": task}})]

    assert found == ([] if value in allowed else ["A908"])


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        *((text, {"A410"}) for text in ("'abc'", "5", "-1.5", "null", "('a')", "((5))", "[]", "[true]", "{'a': true}")),
        *((text, set()) for text in ("false", "(true)", "$states.input.ok", "5 > 4", "'a' in ['a']", "$exists(5)")),
    ],
)
def test_a_condition_that_is_constant_is_true_or_false(condition: str, found: set[str]) -> None:
    rules = [{"Condition": "{% " + condition + " %}", "Next": "B"}]
    states = {"A": {"Type": "Choice", "Choices": rules, "Default": "B"}, "B": {"Type": "Succeed"}}

    assert codes({"QueryLanguage": "JSONata", "StartAt": "A", "States": states}) == found


def test_a_distributed_map_within_an_express_child_is_told_once_and_its_standard_children_may_wait() -> None:
    waits = {"Type": "Task", "Resource": "arn:aws:states:eu-central-1:123456789012:activity:a", "End": True}
    states: dict[str, Any] = {"C": waits}
    for name, kind in (("B", "STANDARD"), ("A", "EXPRESS")):
        config = {"Mode": "DISTRIBUTED", "ExecutionType": kind}
        processor = {"ProcessorConfig": config, "StartAt": next(iter(states)), "States": states}
        states = {name: {"Type": "Map", "ItemProcessor": processor, "End": True}}

    found = validate({"StartAt": "A", "States": states})

    place = "/States/A/ItemProcessor/States/B/ItemProcessor/ProcessorConfig/Mode"
    assert [(finding.code, finding.place) for finding in found] == [("A216", place)]
