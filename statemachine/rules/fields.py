"""Which fields a machine and a state of each type has in each language, and what may stand in the simple ones."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from statemachine.rules.findings import Place, Report
from statemachine.rules.machine import STATE_TYPES, Language, Machine, Role, State
from statemachine.rules.values import (
    choice_of,
    has_placeholder,
    is_integer,
    is_jsonata,
    is_number,
    is_timestamp,
    kind,
    shown,
    suggestion,
)

MAX_SECONDS = 99_999_999

_COMMON = frozenset({"Type", "Comment", "QueryLanguage"})
_LEAVING = _COMMON | {"Next", "End", "Assign"}
_FAILING = _LEAVING | {"Retry", "Catch"}
_PROCESSING = frozenset({"InputPath", "OutputPath"})

# Per type: the fields in both languages, those only in JSONPath, those only in JSONata.
STATE_FIELDS: dict[str, tuple[frozenset[str], frozenset[str], frozenset[str]]] = {
    "Task": (
        _FAILING | {"Resource", "TimeoutSeconds", "HeartbeatSeconds", "Credentials"},
        _PROCESSING | {"Parameters", "ResultSelector", "ResultPath", "TimeoutSecondsPath", "HeartbeatSecondsPath"},
        frozenset({"Arguments", "Output"}),
    ),
    "Pass": (_LEAVING, _PROCESSING | {"Parameters", "Result", "ResultPath"}, frozenset({"Output"})),
    "Choice": (_COMMON | {"Choices", "Default", "Assign"}, _PROCESSING, frozenset({"Output"})),
    "Wait": (
        _LEAVING | {"Seconds", "Timestamp"},
        _PROCESSING | {"SecondsPath", "TimestampPath"},
        frozenset({"Output"}),
    ),
    "Succeed": (_COMMON, _PROCESSING, frozenset({"Output"})),
    "Fail": (_COMMON | {"Error", "Cause"}, frozenset({"ErrorPath", "CausePath"}), frozenset()),
    "Parallel": (
        _FAILING | {"Branches"},
        _PROCESSING | {"Parameters", "ResultSelector", "ResultPath"},
        frozenset({"Arguments", "Output"}),
    ),
    "Map": (
        _FAILING
        | {"ItemProcessor", "Iterator", "ItemSelector", "ItemReader", "ItemBatcher", "ResultWriter", "Label"}
        | {"MaxConcurrency", "ToleratedFailureCount", "ToleratedFailurePercentage"},
        _PROCESSING
        | {"ItemsPath", "Parameters", "ResultSelector", "ResultPath", "MaxConcurrencyPath"}
        | {"ToleratedFailureCountPath", "ToleratedFailurePercentagePath"},
        frozenset({"Items", "Output"}),
    ),
}
_JSONPATH_FIELDS = frozenset().union(*(fields[1] for fields in STATE_FIELDS.values()))
_INSTEAD = {"Arguments": "Parameters", "Output": "ResultSelector, ResultPath or OutputPath", "Items": "ItemsPath"}
_JSONATA_FIELDS = frozenset().union(*(fields[2] for fields in STATE_FIELDS.values()))

_MACHINE_FIELDS = {
    Role.WHOLE: frozenset({"Comment", "StartAt", "States", "Version", "TimeoutSeconds", "QueryLanguage"}),
    Role.BRANCH: frozenset({"Comment", "StartAt", "States"}),
    Role.PROCESSOR: frozenset({"Comment", "StartAt", "States", "ProcessorConfig"}),
}

EXCLUSIVE = (
    ("TimeoutSeconds", "TimeoutSecondsPath"),
    ("HeartbeatSeconds", "HeartbeatSecondsPath"),
    ("MaxConcurrency", "MaxConcurrencyPath"),
    ("ToleratedFailureCount", "ToleratedFailureCountPath"),
    ("ToleratedFailurePercentage", "ToleratedFailurePercentagePath"),
    ("Error", "ErrorPath"),
    ("Cause", "CausePath"),
    ("Iterator", "ItemProcessor"),
)
_REQUIRED = {"Task": "Resource", "Choice": "Choices", "Parallel": "Branches"}


@dataclass(frozen=True, slots=True)
class Form:
    """What a simple field may hold."""

    accepts: Callable[[object], bool]
    says: str
    code: str = "A101"
    low: float | None = None
    high: float | None = None
    expression: bool = False
    """Whether a JSONata state may compute it."""


def _text(value: object) -> bool:
    return isinstance(value, str)


_SECONDS = Form(is_integer, "a whole number of seconds", low=1, high=MAX_SECONDS, expression=True)
_COUNT = Form(is_integer, "a whole number", low=0, expression=True)
_FORMS: dict[str, Form] = {
    "Comment": Form(_text, "a string"),
    "TimeoutSeconds": _SECONDS,
    "HeartbeatSeconds": _SECONDS,
    "Seconds": Form(is_integer, "a whole number of seconds", low=0, high=MAX_SECONDS, expression=True),
    "Timestamp": Form(is_timestamp, "an RFC 3339 timestamp as 2030-01-31T12:00:00Z", code="A211", expression=True),
    "MaxConcurrency": _COUNT,
    "ToleratedFailureCount": _COUNT,
    "ToleratedFailurePercentage": Form(is_number, "a number", low=0, high=100, expression=True),
    "Error": Form(_text, "a string"),
    "Cause": Form(_text, "a string"),
    "Resource": Form(_text, "an ARN"),
    "Items": Form(lambda value: isinstance(value, list), "an array", expression=True),
    "Assign": Form(lambda value: isinstance(value, Mapping), "an object of variables"),
    "Branches": Form(lambda value: isinstance(value, list), "an array of machines"),
    "Choices": Form(lambda value: isinstance(value, list), "an array of choice rules"),
    "ItemProcessor": Form(lambda value: isinstance(value, Mapping), "a machine"),
    "Iterator": Form(lambda value: isinstance(value, Mapping), "a machine"),
}


def check_form(field: str, value: object, form: Form, place: Place, report: Report, *, jsonata: bool) -> None:
    """Whether a value has its field's type and is within its range."""
    if has_placeholder(value) or (jsonata and form.expression and is_jsonata(value)):
        return
    if not form.accepts(value):
        either = " or a {% %} expression" if jsonata and form.expression else ""
        problem = f"{field} is {form.says}{either}, not {shown(value) if _text(value) else kind(value)}"
        report.add(form.code, place, problem, f"write {form.says}")
        return
    if isinstance(value, int | float):
        check_range(field, value, (form.low, form.high), place, report)


def check_range(
    field: str, value: float, limits: tuple[float | None, float | None], place: Place, report: Report
) -> None:
    """Whether a number is within its limits, both included."""
    low, high = limits
    if low is not None and value < low:
        report.add("A209", place, f"{field} is {value}, the least is {low}", f"write {low} or more")
    if high is not None and value > high:
        report.add("A209", place, f"{field} is {value}, the most is {high}", f"write {high} or less")


def check_machine(machine: Machine, report: Report) -> None:
    """The fields of one machine."""
    body, place = machine.body, machine.place
    _check_parts(machine, report)
    for field in body:
        _check_machine_field(machine, field, report)
    for name, form in (("Comment", _FORMS["Comment"]), ("TimeoutSeconds", _SECONDS)):
        if name in body and name in _MACHINE_FIELDS[machine.role]:
            check_form(name, body[name], form, (*place, name), report, jsonata=False)
    if machine.role is Role.WHOLE and "Version" in body and body["Version"] != "1.0":
        report.add("A105", (*place, "Version"), f"the version {shown(body['Version'])} does not exist", 'write "1.0"')
    if machine.role is Role.WHOLE:
        _check_language(body, place, report)


def _check_parts(machine: Machine, report: Report) -> None:
    body, place = machine.body, machine.place
    for field, says in (("StartAt", "a state's name"), ("States", "an object of states")):
        if field not in body:
            report.add("A102", place, f"{field} is missing", f'add "{field}", {says}')
    if "StartAt" in body and not isinstance(body["StartAt"], str):
        report.add("A101", (*place, "StartAt"), f"StartAt is a name, not {kind(body['StartAt'])}", "write a name")
    states = body.get("States")
    if "States" in body and not isinstance(states, Mapping):
        report.add("A101", (*place, "States"), f"States is an object, not {kind(states)}", "write an object of states")
    if isinstance(states, Mapping):
        if not states:
            report.add("A103", (*place, "States"), "there are no states", "add at least one state")
        for name, state in states.items():
            if not isinstance(state, Mapping):
                problem = f"a state is an object, not {kind(state)}"
                report.add("A101", (*place, "States", name), problem, "write an object with a Type")


def _check_machine_field(machine: Machine, field: str, report: Report) -> None:
    allowed = _MACHINE_FIELDS[machine.role]
    if field in allowed:
        return
    if field == "QueryLanguage":
        mend = "set it for the whole definition, or on each state"
        report.add("A108", (*machine.place, field), f"a {machine.role} cannot declare a QueryLanguage", mend)
        return
    near = suggestion(field, allowed)
    mend = f"write {near}" if near else f"drop it; there are {choice_of(allowed)}"
    report.add("A104", (*machine.place, field), f"a {machine.role} has no field {shown(field)}", mend)


def _check_language(body: Mapping[str, object], place: Place, report: Report) -> None:
    if "QueryLanguage" in body and body["QueryLanguage"] not in tuple(Language):
        problem = f"there is no query language {shown(body['QueryLanguage'])}"
        report.add("A106", (*place, "QueryLanguage"), problem, "write JSONPath or JSONata")


def check_state(state: State, whole: Language, report: Report) -> None:
    """The fields of one state."""
    if not state.type:
        _check_type(state, report)
        return
    _check_language(state.body, state.place, report)
    if whole is Language.JSONATA and state.body.get("QueryLanguage") == Language.JSONPATH:
        mend = "drop it, or set JSONPath for the whole definition and JSONata where it is used"
        report.add("A107", (*state.place, "QueryLanguage"), "a JSONata definition has no JSONPath states", mend)
    for field, value in state.body.items():
        if not _check_state_field(state, field, report):
            continue
        if field in _FORMS:
            check_form(field, value, _FORMS[field], (*state.place, field), report, jsonata=state.jsonata)
    _check_presence(state, report)
    _check_heartbeat(state, report)


def _check_type(state: State, report: Report) -> None:
    declared = state.body.get("Type")
    near = suggestion(declared, STATE_TYPES, cutoff=0.6) if isinstance(declared, str) else ""
    problem = f"there is no state type {shown(declared)}" if "Type" in state.body else "the state has no Type"
    report.add("A203", state.place, problem, f"write {near or choice_of(STATE_TYPES)}")


def _check_state_field(state: State, field: str, report: Report) -> bool:
    """Whether the state has such a field at all; the finding if not."""
    both, jsonpath, jsonata = STATE_FIELDS[state.type]
    place = (*state.place, field)
    own, other = (jsonata, jsonpath) if state.jsonata else (jsonpath, jsonata)
    if field in both or field in own:
        return True
    foreign = _JSONPATH_FIELDS if state.jsonata else _JSONATA_FIELDS
    if field in other or (field in foreign and field not in own and not suggestion(field, both | own)):
        code, language = ("A205", "JSONPath") if state.jsonata else ("A206", "JSONata")
        mend = _counterpart(state, field)
        report.add(code, place, f"{field} is a field of {language} states; this one is {state.language}", mend)
        return False
    near = suggestion(field, both | own)
    mend = f"write {near}" if near else "drop it"
    report.add("A204", place, f"a {state.type} state has no field {shown(field)}", mend)
    return False


def _counterpart(state: State, field: str) -> str:
    """What a state's own language has instead of a field of the other."""
    if not state.jsonata:
        return f"write {_INSTEAD[field]}" if field in _INSTEAD else "drop it"
    if field in {"Parameters", "Result"}:
        instead = {"Pass": "Output", "Map": "ItemSelector"}.get(state.type, "Arguments")
    elif field in {"OutputPath", "ResultPath", "ResultSelector"}:
        instead = "Output"
    else:
        instead = field.removesuffix("Path")
    return f"write {instead}" if instead in _allowed(state) else "drop it"


def _allowed(state: State) -> frozenset[str]:
    both, jsonpath, jsonata = STATE_FIELDS[state.type]
    return both | (jsonata if state.jsonata else jsonpath)


def _check_presence(state: State, report: Report) -> None:
    body = state.body
    field = _REQUIRED.get(state.type)
    if field and field not in body:
        report.add("A207", state.place, f"a {state.type} state needs {field}", f'add "{field}"')
    if state.type == "Map" and not {"ItemProcessor", "Iterator"} & body.keys():
        report.add("A207", state.place, "a Map state needs ItemProcessor", 'add "ItemProcessor"')
    for one, other in EXCLUSIVE:
        if one in body and other in body and not (state.jsonata and other.endswith("Path")):
            report.add("A208", state.place, f"{one} and {other} exclude each other", "keep one of them")
    if state.type == "Map" and "Parameters" in body and "ItemSelector" in body:
        report.add("A208", state.place, "Parameters is the old name of ItemSelector", "keep ItemSelector")
    if state.type == "Wait":
        names = ("Seconds", "Timestamp") if state.jsonata else ("Seconds", "SecondsPath", "Timestamp", "TimestampPath")
        given = [name for name in names if name in body]
        if not given:
            report.add("A207", state.place, "a Wait state says how long", "add Seconds or Timestamp")
        if len(given) > 1:
            report.add("A208", state.place, f"{' and '.join(given)} exclude each other", "keep one of them")


def _check_heartbeat(state: State, report: Report) -> None:
    heartbeat, timeout = state.body.get("HeartbeatSeconds"), state.body.get("TimeoutSeconds")
    if state.type != "Task" or not isinstance(heartbeat, int | float) or not isinstance(timeout, int | float):
        return
    if heartbeat >= timeout:
        problem = f"HeartbeatSeconds {heartbeat} is not shorter than TimeoutSeconds {timeout}"
        report.add("A212", (*state.place, "HeartbeatSeconds"), problem, f"write less than {timeout}")
