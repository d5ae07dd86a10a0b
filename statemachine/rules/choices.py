"""The rules of Choice states: what each tests, with what, and whether one always matches."""

import re
from collections.abc import Callable, Mapping

from statemachine.rules.findings import Place, Report
from statemachine.rules.jsonata import read_expression
from statemachine.rules.jsonpath import looks_like_path
from statemachine.rules.machine import State
from statemachine.rules.values import (
    choice_of,
    has_placeholder,
    is_jsonata,
    is_number,
    is_timestamp,
    kind,
    objects,
    shown,
    suggestion,
)

_ORDERS = ("Equals", "LessThan", "GreaterThan", "LessThanEquals", "GreaterThanEquals")
_ORDERED = [f"{family}{order}" for family in ("String", "Numeric", "Timestamp") for order in _ORDERS]
PATH_COMPARISONS = frozenset({*(f"{name}Path" for name in _ORDERED), "BooleanEqualsPath"})
_TESTS = frozenset({"IsNull", "IsPresent", "IsNumeric", "IsString", "IsBoolean", "IsTimestamp"})
COMPARISONS = PATH_COMPARISONS | {*_ORDERED, "BooleanEquals", "StringMatches"} | _TESTS
_LITERAL = re.compile(r"'[^']*'|\"[^\"]*\"|-?[\d.]+")
_BOOLEAN = frozenset({"And", "Or", "Not"})


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


_OPERANDS: dict[str, tuple[Callable[[object], bool], str]] = {
    "String": (_is_text, "a string"),
    "Numeric": (is_number, "a number"),
    "Timestamp": (is_timestamp, "an RFC 3339 timestamp as 2030-01-31T12:00:00Z"),
    "Boolean": (_is_flag, "true or false"),
    "Is": (_is_flag, "true or false"),
}


def check_choice(state: State, report: Report) -> None:
    """All rules of one Choice state."""
    rules = state.body.get("Choices")
    place = (*state.place, "Choices")
    if isinstance(rules, list):
        if not rules:
            report.add("A401", place, "there are no choice rules", "add at least one rule")
        for index, rule in enumerate(rules):
            if not isinstance(rule, Mapping):
                problem = f"a choice rule is an object, not {kind(rule)}"
                report.add("A101", (*place, str(index)), problem, "write an object with Next")
    for position, entry in objects(rules):
        _check_top(state, entry, (*place, position), report)
    _check_order(rules, place, report)
    if "Default" not in state.body and rules and isinstance(rules, list) and not _exhaustive(rules):
        problem = "an input that no rule matches fails with States.NoChoiceMatched, which a Choice cannot catch"
        report.add("W401", state.place, problem, 'add "Default"')


def _check_top(state: State, rule: Mapping[str, object], place: Place, report: Report) -> None:
    if "Next" not in rule:
        report.add("A407", place, "the rule does not say where to go", 'add "Next"')
    if "Comment" in rule and not isinstance(rule["Comment"], str):
        report.add("A101", (*place, "Comment"), "Comment is a string", "write a string")
    if "Assign" in rule and not isinstance(rule["Assign"], Mapping):
        report.add("A101", (*place, "Assign"), "Assign is an object of variables", "write an object")
    if state.jsonata:
        _check_condition(rule, place, report)
    else:
        _check_rule(rule, place, report, nested=False)


def _check_condition(rule: Mapping[str, object], place: Place, report: Report) -> None:
    for field in rule:
        if field in {"Next", "Condition", "Assign", "Output", "Comment"}:
            continue
        if field in COMPARISONS | _BOOLEAN | {"Variable"}:
            problem, mend = f"{field} is a field of JSONPath choice rules; this state is JSONata", "write a Condition"
            report.add("A205", (*place, field), problem, mend)
        else:
            _unknown(field, {"Next", "Condition", "Assign", "Output", "Comment"}, place, report)
    condition = rule.get("Condition")
    if "Condition" not in rule:
        report.add("A402", place, "the rule has no Condition", 'add "Condition": "{% ... %}"')
    elif not (is_jsonata(condition) or isinstance(condition, bool) or has_placeholder(condition)):
        problem = f"Condition is one JSONata expression, not {shown(condition)}"
        report.add("A409", (*place, "Condition"), problem, 'write "{% ... %}" around the expression')
    elif isinstance(condition, str) and is_jsonata(condition):
        constant = read_expression(condition[2:-2].strip()).constant
        if constant:
            problem = f"the Condition is always {constant}, and only true and false decide"
            report.add("A410", (*place, "Condition"), problem, "compare it with something, as in $states.input.a = 1")


def _unknown(field: str, known: set[str] | frozenset[str], place: Place, report: Report) -> None:
    near = suggestion(field, known)
    mend = f"write {near}" if near else "drop it"
    report.add("A404", (*place, field), f"a choice rule has no field {shown(field)}", mend)


def _check_rule(rule: Mapping[str, object], place: Place, report: Report, *, nested: bool) -> None:
    allowed = COMPARISONS | _BOOLEAN | {"Variable", "Comment"} | ({"Next", "Assign"} if not nested else set())
    for field in rule:
        if field in {"Condition", "Output"}:
            report.add("A206", (*place, field), f"{field} is a field of JSONata states", "write a comparison")
        elif nested and field in {"Next", "Assign"}:
            report.add("A408", (*place, field), f"{field} stands only in the outermost rule", "move it there")
        elif field not in allowed:
            _unknown(field, allowed, place, report)
    tests = [field for field in rule if field in COMPARISONS | _BOOLEAN]
    if not tests and "Condition" not in rule and not any(suggestion(field, COMPARISONS) for field in rule):
        report.add("A402", place, "the rule tests nothing", f"add one of {choice_of(_BOOLEAN)} or a comparison")
    if len(tests) > 1:
        report.add("A403", place, f"{' and '.join(tests)} in one rule", "join them with And")
    for field in tests:
        if field in _BOOLEAN:
            _check_boolean(field, rule, (*place, field), report)
        else:
            _check_comparison(field, rule, place, report)


def _check_boolean(field: str, rule: Mapping[str, object], place: Place, report: Report) -> None:
    value = rule[field]
    if "Variable" in rule:
        report.add("A403", place[:-1], f"Variable and {field} in one rule", f"move the comparison into {field}")
    if field == "Not":
        if isinstance(value, Mapping):
            _check_rule(value, place, report, nested=True)
        else:
            report.add("A405", place, f"Not holds one rule, not {kind(value)}", "write an object")
        return
    if not isinstance(value, list) or not value:
        report.add("A405", place, f"{field} holds an array of at least one rule", "write an array of rules")
        return
    for index, inner in enumerate(value):
        if isinstance(inner, Mapping):
            _check_rule(inner, (*place, str(index)), report, nested=True)
        else:
            report.add("A405", (*place, str(index)), f"a rule is an object, not {kind(inner)}", "write an object")


def _check_comparison(field: str, rule: Mapping[str, object], place: Place, report: Report) -> None:
    value = rule[field]
    if "Variable" not in rule:
        report.add("A406", place, f"{field} compares nothing", 'add "Variable", a path')
    if field in PATH_COMPARISONS:
        return
    accepts, says = next(form for family, form in _OPERANDS.items() if field.startswith(family))
    if not accepts(value) and not has_placeholder(value):
        got = shown(value) if isinstance(value, str) else kind(value)
        report.add("A405", (*place, field), f"{field} compares with {says}, not {got}", f"write {says}")
    elif field.startswith("String") and isinstance(value, str) and looks_like_path(value):
        problem = f"{shown(value)} is compared as these characters, not read"
        mend = f"write {field}Path" if f"{field}Path" in PATH_COMPARISONS else "write the text itself"
        report.add("W402", (*place, field), problem, mend)


def _check_order(rules: object, place: Place, report: Report) -> None:
    """A rule after one that always matches, or after its like, never comes to be asked."""
    before: list[dict[str, object]] = []
    for index, rule in objects(rules):
        test = _test_of(rule)
        if test and (test in before or any(_always(earlier) for earlier in before)):
            report.add("W403", (*place, index), "a rule before this one always matches first", "drop it, or move it up")
        before.append(test)


def _always(test: dict[str, object]) -> bool:
    return test.get("Condition") in (True, "{% true %}")


def _exhaustive(rules: list[object]) -> bool:
    """Whether it is plain to see that some rule always matches: one is true, or two are opposites."""
    tests = [_test_of(rule) for rule in rules if isinstance(rule, Mapping)]
    if _enumerates(tests):
        return True
    for test in tests:
        if _always(test):
            return True
        if _opposite(test) in tests or any(other.get("Not") == test for other in tests):
            return True
        if _negated(test.get("Condition")) & {_bare(other.get("Condition")) for other in tests}:
            return True
    return False


def _enumerates(tests: list[dict[str, object]]) -> bool:
    """Whether several rules name the values of one variable: then a value that is none of them is meant to fail."""
    subjects = {_subject(test) for test in tests}
    return len(tests) > 1 and len(subjects) == 1 and subjects != {""}


def _subject(test: dict[str, object]) -> str:
    """What a rule compares for equality with one value, or nothing."""
    variable = test.get("Variable")
    if isinstance(variable, str) and {"StringEquals", "NumericEquals", "StringMatches"} & test.keys():
        return variable
    left, equals, right = _bare(test.get("Condition")).partition("=")
    return left if equals and _LITERAL.fullmatch(right) else ""


def _test_of(rule: Mapping[str, object]) -> dict[str, object]:
    return {field: value for field, value in rule.items() if field not in {"Next", "Comment", "Assign", "Output"}}


def _opposite(test: dict[str, object]) -> dict[str, object] | None:
    swapped = {"LessThan": "GreaterThanEquals", "GreaterThan": "LessThanEquals"}
    for field, value in test.items():
        if isinstance(value, bool) and field in _TESTS | {"BooleanEquals"}:
            return {**test, field: not value}
        for one, other in swapped.items():
            for path in ("", "Path"):
                if field.endswith(one + path) and field in COMPARISONS:
                    rest = {name: kept for name, kept in test.items() if name != field}
                    return {**rest, field.removesuffix(one + path) + other + path: value}
    return None


def _bare(condition: object) -> str:
    return "".join(condition[2:-2].split()) if isinstance(condition, str) and is_jsonata(condition) else ""


def _negated(condition: object) -> set[str]:
    """Spellings of a condition's opposite."""
    text = _bare(condition)
    if not text:
        return set()
    found = {f"$not({text})", f"{text}=false"}
    if text.endswith("=true"):
        found |= {text.removesuffix("true") + "false", f"$not({text.removesuffix('=true')})"}
    swaps = (("!=", "="), ("<=", ">"), (">=", "<"))
    for one, other in swaps:
        if text.count(one) == 1 and " and " not in str(condition) and " or " not in str(condition):
            found.add(text.replace(one, other))
    return found
