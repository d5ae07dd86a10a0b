"""The JSONata of JSONata states: which fields hold expressions, and what each may read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from statemachine.rules.context import check_context
from statemachine.rules.findings import Place, Report
from statemachine.rules.jsonata import FUNCTIONS, Expression, arity, read_expression
from statemachine.rules.jsonpath import looks_like_path
from statemachine.rules.machine import State
from statemachine.rules.values import is_jsonata, meant_literally, objects, shown, strings, suggestion

_BEFORE = (
    "Arguments",
    "Items",
    "ItemSelector",
    "ItemReader",
    "ItemBatcher",
    "ResultWriter",
    "Credentials",
    "TimeoutSeconds",
    "HeartbeatSeconds",
    "Seconds",
    "Timestamp",
    "MaxConcurrency",
    "ToleratedFailureCount",
    "ToleratedFailurePercentage",
    "Error",
    "Cause",
)
_AFTER = ("Output", "Assign")
_WITH_RESULT = frozenset({"Task", "Parallel", "Map"})
_FIELDS = frozenset({"input", "result", "errorOutput", "context"})
_NOT_SERVED = {"eval": "$parse reads JSON from a string"}


@dataclass(frozen=True, slots=True)
class Located:
    """One expression of a state."""

    expression: Expression
    place: Place
    field: str
    """The state's field that it belongs to."""

    has_result: bool
    has_error: bool


def read_expressions(state: State, report: Report) -> list[Located]:
    """Check all JSONata of a state; answer with the expressions that parse."""
    found: list[Located] = []
    for field, value, place, has_result, has_error in _holders(state):
        for at, text in strings(value, place):
            if is_jsonata(text):
                located = Located(read_expression(text[2:-2].strip()), at, field, has_result, has_error)
                _check(state, located, report)
                if not located.expression.error:
                    found.append(located)
            elif at[-1] != "Condition":
                _check_plain(text, at, report)
        _check_keys(value, place, report)
    return found


def _holders(state: State) -> Iterator[tuple[str, object, Place, bool, bool]]:
    body, place = state.body, state.place
    for field in _BEFORE:
        if field in body:
            yield field, body[field], (*place, field), False, False
    for field in _AFTER:
        if field in body:
            yield field, body[field], (*place, field), state.type in _WITH_RESULT, False
    for outer, fields, in_catch in (("Catch", _AFTER, True), ("Choices", ("Condition", *_AFTER), False)):
        for index, holder in objects(body.get(outer)):
            for field in fields:
                if field in holder:
                    yield outer, holder[field], (*place, outer, index, field), False, in_catch


def _check(state: State, located: Located, report: Report) -> None:
    expression, place = located.expression, located.place
    if expression.error:
        report.add("A701", place, f"the expression does not parse: {expression.error}", "mend the expression")
        return
    for operator in sorted(expression.newer):
        problem = f"{operator} came with JSONata 2.1, the service has 2.0.6"
        report.add("A709", place, problem, "write ... ? ... : ... with $exists")
    for operator in sorted(expression.sums_of_texts):
        mend = "join texts with &, or turn them into numbers with $number"
        report.add("A710", place, f"{operator} calculates, and a text stands beside it", mend)
    for name in sorted(expression.top):
        mend = "write $states.input, a field of it, or a variable"
        report.add("A708", place, f"{name} is read from the top level, where nothing is", mend)
    for chain in sorted(expression.states):
        _check_states(state, located, chain, report)
    if "states" in expression.bound:
        report.add("A802", place, "$states is reserved", "bind another name")
    _check_calls(expression, place, report)


def _check_states(state: State, located: Located, chain: tuple[str, ...], report: Report) -> None:
    if not chain:
        return
    field, place = chain[0], located.place
    if field not in _FIELDS:
        near = suggestion(field, _FIELDS)
        mend = f"write $states.{near}" if near else "there are input, context, result and errorOutput"
        report.add("A705", place, f"$states has no field {shown(field)}", mend)
    elif field == "result" and not located.has_result:
        problem = "$states.result exists only in Output and Assign of a Task, Parallel or Map"
        report.add("A703", place, problem, "write $states.input")
    elif field == "errorOutput" and not located.has_error:
        problem = "$states.errorOutput exists only in a catcher's Output and Assign"
        report.add("A704", place, problem, "read it there and Assign it to a variable")
    elif field == "context":
        check_context(state, chain[1:], place, report)


def _check_calls(expression: Expression, place: Place, report: Report) -> None:
    for name, mend in _NOT_SERVED.items():
        if name in expression.variables:
            report.add("A706", place, f"Step Functions has no ${name}", mend)
    for name, count in sorted(expression.calls):
        if name in expression.bound or name not in FUNCTIONS:
            continue
        fewest, most = arity(name)
        if count < fewest:
            report.add("A707", place, f"${name} takes at least {fewest} arguments, not {count}", "give the others too")
        if most is not None and count > most:
            report.add("A707", place, f"${name} takes at most {most} arguments, not {count}", "drop the others")


def unknown_names(expression: Expression) -> set[str]:
    """The names that must be variables of the machine."""
    return expression.variables - FUNCTIONS - _NOT_SERVED.keys()


def is_called(expression: Expression, name: str) -> bool:
    """Whether the expression calls a name, so that a misspelt function is the likelier mistake."""
    return any(called == name for called, _ in expression.calls)


def _is_path(text: str) -> bool:
    """JSONPath, or what begins like it and goes on as JSONata; a price or a sentence is neither."""
    return looks_like_path(text) or (text.startswith(("$.", "$$.")) and not read_expression(text).error)


def _check_plain(text: str, place: Place, report: Report) -> None:
    """A string that is no expression: one that wants to be, or one of the other language."""
    opened, closed = "{%" in text, "%}" in text
    if (text.startswith("{%") and not closed) or (text.endswith("%}") and not opened):
        problem = f"{shown(text)} opens an expression without closing it, or the reverse"
        report.add("A702", place, problem, 'write "{% ... %}" with nothing outside')
    elif opened and closed:
        problem = f"{shown(text)} is more than its expression, and taken literally"
        report.add("W702", place, problem, 'write nothing outside of "{% ... %}"; join texts inside with &')
    elif _is_path(text) and not any(map(meant_literally, place[2:])):
        problem = f"{shown(text)} is JSONPath, taken literally in a JSONata state"
        report.add("W701", place, problem, 'write "{% $states.input... %}"')
    elif text.startswith("$states."):
        report.add("W701", place, f"{shown(text)} is taken literally", 'write "{% ' + text + ' %}"')


def _check_keys(value: object, place: Place, report: Report) -> None:
    if isinstance(value, Mapping):
        for key, element in value.items():
            if "{%" in key:
                report.add("W702", (*place, key), "a key is never evaluated", "build the object within one expression")
            if key.endswith(".$"):
                problem = f"the key {shown(key)} is taken literally in a JSONata state"
                report.add("W701", (*place, key), problem, f"write {shown(key.removesuffix('.$'))} with {{% %}}")
            _check_keys(element, (*place, key), report)
    elif isinstance(value, list):
        for index, element in enumerate(value):
            _check_keys(element, (*place, str(index)), report)
