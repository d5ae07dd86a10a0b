"""The JSONPath of JSONPath states: paths in their fields, payload templates, and paths taken literally."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from statemachine.rules.choices import PATH_COMPARISONS
from statemachine.rules.findings import Place, Report
from statemachine.rules.intrinsics import OF_STRINGS, IntrinsicError, is_intrinsic, parse_intrinsic
from statemachine.rules.jsonpath import Path, PathError, looks_like_path, parse_path
from statemachine.rules.machine import State
from statemachine.rules.values import has_placeholder, is_jsonata, kind, meant_literally, objects, shown, strings

_NULLABLE = frozenset({"InputPath", "OutputPath", "ResultPath"})
_PATHS = frozenset({"InputPath", "OutputPath"})
_REFERENCES = frozenset(
    {
        "ResultPath",
        "ItemsPath",
        "TimeoutSecondsPath",
        "HeartbeatSecondsPath",
        "SecondsPath",
        "TimestampPath",
        "MaxConcurrencyPath",
        "ToleratedFailureCountPath",
        "ToleratedFailurePercentagePath",
    }
)
_INNER_PATHS = (
    ("ItemReader", "ReaderConfig", "MaxItemsPath"),
    ("ItemBatcher", "MaxItemsPerBatchPath"),
    ("ItemBatcher", "MaxInputBytesPerBatchPath"),
)
_TEMPLATES = ("Parameters", "ResultSelector", "ItemSelector", "Assign", "Credentials")
# Where a whole input is wanted so often that a lone $ is surely a path.
_WHOLE_INPUT = frozenset({"Payload", "Input", "Message", "MessageBody", "RequestBody", "Body", "Item", "Detail"})


@dataclass(frozen=True, slots=True)
class Use:
    """A path that a state reads, and where."""

    path: Path
    place: Place
    field: str
    """The state's field that it belongs to."""


def read_paths(state: State, report: Report) -> list[Use]:
    """Check all JSONPath of a state; answer with the paths that parse."""
    found: list[Use] = []
    for field, value, place in _path_fields(state):
        found += [Use(path, place, field) for path in _check_path_field(field.split("/")[-1], value, place, report)]
    for field, value, place in _templates(state):
        template = _Template(field, report)
        template.check(value, place, "")
        found += template.uses
    if "Result" in state.body and state.type == "Pass":
        _check_result(state.body["Result"], (*state.place, "Result"), report)
    for field in ("Error", "Cause"):
        if state.type == "Fail" and isinstance(state.body.get(field), str):
            _check_literal(field, str(state.body[field]), (*state.place, field), report)
    return found


def _path_fields(state: State) -> Iterator[tuple[str, object, Place]]:
    body, place = state.body, state.place
    for field in sorted(_PATHS | _REFERENCES | {"ErrorPath", "CausePath"}):
        if field in body:
            yield field, body[field], (*place, field)
    for fields in _INNER_PATHS:
        holder = _inner(body, *fields[:-1])
        if fields[-1] in holder:
            yield "/".join(fields), holder[fields[-1]], (*place, *fields)
    for index, catcher in objects(body.get("Catch")):
        if "ResultPath" in catcher:
            yield "Catch/ResultPath", catcher["ResultPath"], (*place, "Catch", index, "ResultPath")
    if state.type == "Choice":
        for index, rule in objects(body.get("Choices")):
            yield from _rule_paths(rule, (*place, "Choices", index))


def _rule_paths(rule: Mapping[str, object], place: Place) -> Iterator[tuple[str, object, Place]]:
    for field, value in rule.items():
        if field == "Variable" or field in PATH_COMPARISONS:
            yield "Choices/Variable", value, (*place, field)
        elif field == "Not" and isinstance(value, Mapping):
            yield from _rule_paths(value, (*place, field))
        elif field in {"And", "Or"}:
            for index, inner in objects(value):
                yield from _rule_paths(inner, (*place, field, index))


def _inner(body: Mapping[str, object], *fields: str) -> Mapping[str, object]:
    value: object = body
    for field in fields:
        value = value.get(field) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _templates(state: State) -> Iterator[tuple[str, object, Place]]:
    body, place = state.body, state.place
    for field in _TEMPLATES:
        if field in body:
            yield field, body[field], (*place, field)
    for field, inner in (("ItemReader", "Parameters"), ("ResultWriter", "Parameters"), ("ItemBatcher", "BatchInput")):
        holder = _inner(body, field)
        if inner in holder:
            yield field, holder[inner], (*place, field, inner)
    for field in ("Catch", "Choices"):
        for index, holder in objects(body.get(field)):
            if "Assign" in holder:
                yield f"{field}/Assign", holder["Assign"], (*place, field, index, "Assign")


def plain_texts(state: State) -> Iterator[tuple[Place, str]]:
    """The texts in what a state builds that are taken as they stand."""
    fields = ("Arguments", "Output", "Assign") if state.jsonata else ("Parameters", "ResultSelector", "ItemSelector")
    for field in fields:
        for place, text in strings(state.body.get(field), (*state.place, field)):
            evaluated = is_jsonata(text) if state.jsonata else place[-1].endswith(".$")
            if not evaluated and not any(map(meant_literally, place[2:])):
                yield place, text


def _check_path_field(field: str, value: object, place: Place, report: Report) -> Iterator[Path]:
    if value is None and field in _NULLABLE:
        return
    if not isinstance(value, str):
        report.add("A601", place, f"{field} is a path, not {kind(value)}", "write a path such as $.a.b")
        return
    if has_placeholder(value):
        return
    if field in {"ErrorPath", "CausePath"} and is_intrinsic(value):
        yield from _check_call(value, place, report, of_string=True)
        return
    if field in _PATHS and is_intrinsic(value):
        yield from _check_call(value, place, report, of_string=False)
        return
    path = _parse(value, place, report)
    if path is None:
        return
    if path.several and field in _REFERENCES | {"ErrorPath", "CausePath"}:
        problem = f"{field} identifies one node, and {shown(path.several)} may be several"
        report.add("A602", place, problem, "write only fields and indices")
    if field == "ResultPath" and path.root != "$":
        problem = "a result goes into the state's input, not into the context object or a variable"
        report.add("A608", place, problem, "begin with $. (or use Assign)")
        return
    yield path


def _parse(text: str, place: Place, report: Report) -> Path | None:
    try:
        return parse_path(text)
    except PathError as error:
        report.add("A601", place, f"{shown(text)} is no path: {error}", "write a path such as $.a.b")
        return None


def _check_call(text: str, place: Place, report: Report, *, of_string: bool) -> Iterator[Path]:
    try:
        call = parse_intrinsic(text)
    except IntrinsicError as error:
        report.add(error.code, place, error.problem, error.mend)
        return
    if of_string and call.function not in OF_STRINGS:
        report.add("A606", place, f"{call.function} gives no string", "use a function that does, as States.Format")
    yield from call.paths


class _Template:
    """A payload template: JSON in which the keys that end in .$ are computed."""

    def __init__(self, field: str, report: Report) -> None:
        self._field = field
        self._report = report
        self.uses: list[Use] = []

    def check(self, value: object, place: Place, key: str) -> None:
        """Check a value and all within it; `key` is the one under which it stands, empty for the template itself."""
        if isinstance(value, Mapping):
            self._object(value, place)
        elif isinstance(value, list):
            for index, element in enumerate(value):
                self.check(element, (*place, str(index)), key)
        elif isinstance(value, str):
            _check_literal(key, value, place, self._report)

    def _object(self, value: Mapping[str, object], place: Place) -> None:
        for key, element in value.items():
            if not key.endswith(".$"):
                if not meant_literally(key):
                    self.check(element, (*place, key), key)
                continue
            if key.removesuffix(".$") in value:
                problem = f"{key} and {key.removesuffix('.$')} are one field"
                self._report.add("A607", place, problem, "keep one of them")
            self._computed(element, (*place, key))

    def _computed(self, value: object, place: Place) -> None:
        if has_placeholder(value):
            return
        if not isinstance(value, str) or not (value.startswith("$") or is_intrinsic(value)):
            got = shown(value) if isinstance(value, str) else kind(value)
            problem = f"a key that ends in .$ holds a path, not {got}"
            self._report.add("A603", place, problem, "write a path or an intrinsic function, or drop the .$")
            return
        if is_intrinsic(value):
            paths = list(_check_call(value, place, self._report, of_string=False))
        else:
            path = _parse(value, place, self._report)
            paths = [] if path is None else [path]
        for path in paths:
            self.uses.append(Use(path, place, self._field))


def _check_literal(key: str, text: str, place: Place, report: Report) -> None:
    """Whether a text that nothing evaluates looks as if it should be."""
    if is_jsonata(text):
        problem = f"{shown(text)} is a JSONata expression in a JSONPath state, taken literally"
        report.add("W602", place, problem, 'set "QueryLanguage": "JSONata", or write a path')
        return
    # The service takes any JSON for a template, a text as well, and evaluates only keys.
    mend = f'write "{key}.$"' if key else "write an object whose keys end in .$"
    lone = text in {"$", "$$"} and (not key or key in _WHOLE_INPUT)
    if lone or looks_like_path(text):
        mend = f"write {key}Path" if key in {"Error", "Cause"} else mend
        report.add("W601", place, f"{shown(text)} is taken as these characters, not read", mend)
    elif is_intrinsic(text) and text.rstrip().endswith(")"):
        report.add("W601", place, f"{shown(text)} is taken as these characters, not called", mend)


def _check_result(value: object, place: Place, report: Report) -> None:
    """A Pass state's Result is taken as it stands."""
    if isinstance(value, Mapping):
        for key, element in value.items():
            if key.endswith(".$"):
                problem = f"Result is taken literally, with a field named {shown(key)}"
                report.add("W601", (*place, key), problem, "write Parameters instead of Result")
            elif not meant_literally(key):
                _check_result(element, (*place, key), report)
    elif isinstance(value, list):
        for index, element in enumerate(value):
            _check_result(element, (*place, str(index)), report)
    elif isinstance(value, str):
        _check_literal(place[-1], value, place, report)
