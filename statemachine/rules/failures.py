"""Retry and Catch: which errors they name, in which order, and whether those can happen there."""

from collections.abc import Iterator, Mapping

from statemachine.rules.fields import MAX_SECONDS, Form, check_form
from statemachine.rules.findings import Place, Report
from statemachine.rules.machine import Machine, State
from statemachine.rules.values import (
    choice_of,
    has_placeholder,
    is_integer,
    is_number,
    kind,
    objects,
    shown,
    suggestion,
)

ALL = "States.ALL"
TASK_FAILED = "States.TaskFailed"
KNOWN_ERRORS = frozenset(
    {
        ALL,
        TASK_FAILED,
        "States.BranchFailed",
        "States.DataLimitExceeded",
        "States.ExceedToleratedFailureThreshold",
        "States.HeartbeatTimeout",
        "States.Http.Socket",
        "States.IntrinsicFailure",
        "States.ItemReaderFailed",
        "States.NoChoiceMatched",
        "States.ParameterPathFailure",
        "States.Permissions",
        "States.QueryEvaluationError",
        "States.ResultPathMatchFailure",
        "States.ResultWriterFailed",
        "States.Runtime",
        "States.Timeout",
    }
)
# The response's code follows; only HTTP tasks raise these.
_HTTP_STATUS = "States.Http.StatusCode."
# Raised only by the states named here, so that a Task never sees them.
_NOT_OF_TASKS = {
    "States.NoChoiceMatched": "a Choice",
    "States.BranchFailed": "a Parallel",
    "States.ExceedToleratedFailureThreshold": "a Map",
    "States.ItemReaderFailed": "a Map",
    "States.ResultWriterFailed": "a Map",
}
_OF_JSONPATH = frozenset({"States.IntrinsicFailure", "States.ParameterPathFailure", "States.ResultPathMatchFailure"})
_OF_JSONATA = frozenset({"States.QueryEvaluationError"})

MAX_DELAY = 31_622_400
_RETRIER_FORMS = {
    "IntervalSeconds": Form(is_integer, "a whole number of seconds", low=1, high=MAX_SECONDS),
    "MaxAttempts": Form(is_integer, "a whole number", low=0, high=MAX_SECONDS),
    "BackoffRate": Form(is_number, "a number", low=1),
    "MaxDelaySeconds": Form(is_integer, "a whole number of seconds", low=1, high=MAX_DELAY),
    "Comment": Form(lambda value: isinstance(value, str), "a string"),
}
_RETRIER_FIELDS = _RETRIER_FORMS.keys() | {"ErrorEquals", "JitterStrategy"}
_CATCHER_FIELDS = frozenset({"ErrorEquals", "Next", "Comment", "Assign"})
_DEFAULT_INTERVAL, _DEFAULT_ATTEMPTS, _DEFAULT_RATE = 1, 3, 2.0


def check_failures(state: State, raised: frozenset[str], report: Report) -> None:
    """All rules of a state's Retry and Catch; `raised` are the errors of the definition's own Fail states."""
    if state.type not in {"Task", "Parallel", "Map"}:
        return
    for field in ("Retry", "Catch"):
        if field not in state.body:
            continue
        handlers, place = state.body[field], (*state.place, field)
        if not isinstance(handlers, list) or any(not isinstance(handler, Mapping) for handler in handlers):
            problem = f"{field} is an array of objects, not {kind(handlers)}"
            report.add("A507", place, problem, "write an array of objects, each with ErrorEquals")
        for index, handler in objects(handlers):
            _check_names(state, handler, raised, (*place, index), report)
            if field == "Retry":
                _check_retrier(handler, (*place, index), report)
            else:
                _check_catcher(state, handler, (*place, index), report)
        _check_order(handlers, place, report)


def error_names(handler: Mapping[str, object]) -> list[str]:
    """The errors that a retrier or catcher names."""
    names = handler.get("ErrorEquals")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def raised_errors(whole: Machine) -> frozenset[str]:
    """The errors that a definition's own Fail states raise."""
    states = [state for machine in whole.nested() for state in machine.states.values() if state.type == "Fail"]
    return frozenset(error for state in states if isinstance(error := state.body.get("Error"), str))


def check_fail(state: State, report: Report) -> None:
    """The error that a Fail state raises."""
    error = state.body.get("Error")
    if state.type == "Fail" and isinstance(error, str) and error.startswith("States."):
        problem = f"{shown(error)} begins as the language's own errors do"
        report.add("W202", (*state.place, "Error"), problem, "name it without the prefix States.")


def _check_names(
    state: State, handler: Mapping[str, object], raised: frozenset[str], place: Place, report: Report
) -> None:
    names = handler.get("ErrorEquals")
    here = (*place, "ErrorEquals") if "ErrorEquals" in handler else place
    if not isinstance(names, list) or not names:
        report.add("A501", here, "no errors are named", 'write an array of names, such as ["States.ALL"]')
        return
    for index, name in enumerate(names):
        if isinstance(name, str) and name in raised:
            continue
        if isinstance(name, str):
            _check_name(state, name, (*here, str(index)), report)
        else:
            report.add("A501", (*here, str(index)), f"an error is a string, not {kind(name)}", "write a name")


def _check_name(state: State, name: str, place: Place, report: Report) -> None:
    known = name in KNOWN_ERRORS or name.startswith(_HTTP_STATUS)
    if name.startswith("States.") and not known and not has_placeholder(name):
        near = suggestion(name, KNOWN_ERRORS)
        mend = f"write {near}" if near else "name your own errors without the prefix States."
        report.add("A504", place, f"the language has no error {shown(name)}", mend)
        return
    lost = suggestion(name, KNOWN_ERRORS) if name not in KNOWN_ERRORS else ""
    if lost and name.lower().removeprefix("state.").removeprefix("states.") == lost.lower().removeprefix("states."):
        report.add("W502", place, f"no error is spelled {shown(name)}", f"write {lost}")
        return
    reason = _never(state, name)
    if reason:
        report.add("W502", place, f"{name} never matches here: {reason}", "drop it")


def _never(state: State, name: str) -> str:
    """Why an error cannot match at this state, or nothing."""
    if name == "States.Runtime":
        return "it always ends the execution"
    if state.type != "Task":
        return ""
    if name in _NOT_OF_TASKS:
        return f"{_NOT_OF_TASKS[name]} raises it, no Task"
    if name in (_OF_JSONPATH if state.jsonata else _OF_JSONATA):
        return f"a {state.language} state does not raise it"
    if name == "States.HeartbeatTimeout" and not {"HeartbeatSeconds", "HeartbeatSecondsPath"} & state.body.keys():
        return "the state has no HeartbeatSeconds"
    resource = state.body.get("Resource")
    calls_http = not isinstance(resource, str) or has_placeholder(resource) or ":http:" in resource
    return "only http:invoke raises it" if name.startswith("States.Http.") and not calls_http else ""


def _check_retrier(retrier: Mapping[str, object], place: Place, report: Report) -> None:
    for field, value in retrier.items():
        if field in _RETRIER_FORMS:
            check_form(field, value, _RETRIER_FORMS[field], (*place, field), report, jsonata=False)
        elif field not in _RETRIER_FIELDS:
            _unknown("retrier", field, _RETRIER_FIELDS, place, report)
    strategy = retrier.get("JitterStrategy")
    if "JitterStrategy" in retrier and strategy not in ("FULL", "NONE") and not has_placeholder(strategy):
        report.add("A210", (*place, "JitterStrategy"), f"there is no strategy {shown(strategy)}", "write FULL or NONE")
    _check_delay(retrier, place, report)


def _check_delay(retrier: Mapping[str, object], place: Place, report: Report) -> None:
    cap = retrier.get("MaxDelaySeconds")
    interval = retrier.get("IntervalSeconds", _DEFAULT_INTERVAL)
    if not (isinstance(cap, int) and isinstance(interval, int)) or isinstance(cap, bool) or isinstance(interval, bool):
        return
    here = (*place, "MaxDelaySeconds")
    if cap <= interval:
        problem = f"MaxDelaySeconds {cap} is not longer than IntervalSeconds {interval}"
        report.add("A506", here, problem, f"write more than {interval}, or drop it")
        return
    longest = _longest_delay(interval, retrier, cap)
    if longest is not None and longest < cap:
        problem = f"no delay comes to MaxDelaySeconds {cap}: the last is {longest:g} s"
        report.add("W505", here, problem, "drop it, or raise MaxAttempts or BackoffRate")


def _longest_delay(interval: float, retrier: Mapping[str, object], cap: int) -> float | None:
    """The last retry's delay before the cap, or None where it cannot be told."""
    attempts = retrier.get("MaxAttempts", _DEFAULT_ATTEMPTS)
    rate = retrier.get("BackoffRate", _DEFAULT_RATE)
    if not (isinstance(attempts, int) and isinstance(rate, int | float)) or rate < 1 or attempts < 1:
        return None
    delay = float(interval)
    if rate == 1:
        return delay
    for _ in range(attempts - 1):
        if delay >= cap:
            break
        delay *= rate
    return delay


def _check_catcher(state: State, catcher: Mapping[str, object], place: Place, report: Report) -> None:
    own, other = ({"Output"}, {"ResultPath"}) if state.jsonata else ({"ResultPath"}, {"Output"})
    for field in catcher:
        if field in other:
            code, language = ("A205", "JSONPath") if state.jsonata else ("A206", "JSONata")
            problem = f"{field} is a field of {language} states; this one is {state.language}"
            report.add(code, (*place, field), problem, f"write {choice_of(own)}")
        elif field not in _CATCHER_FIELDS | own:
            _unknown("catcher", field, _CATCHER_FIELDS | own, place, report)
    if "Next" not in catcher:
        report.add("A207", place, "the catcher does not say where to go", 'add "Next"')
    if "Comment" in catcher and not isinstance(catcher["Comment"], str):
        report.add("A101", (*place, "Comment"), "Comment is a string", "write a string")
    if "Assign" in catcher and not isinstance(catcher["Assign"], Mapping):
        report.add("A101", (*place, "Assign"), "Assign is an object of variables", "write an object")


def _unknown(what: str, field: str, known: frozenset[str] | set[str], place: Place, report: Report) -> None:
    near = suggestion(field, known)
    mend = f"write {near}" if near else "drop it"
    report.add("A505", (*place, field), f"a {what} has no field {shown(field)}", mend)


def _check_order(handlers: object, place: Place, report: Report) -> None:
    last = len(handlers) - 1 if isinstance(handlers, list) else 0
    for index, handler in objects(handlers):
        names, here = error_names(handler), (*place, index, "ErrorEquals")
        if ALL in names and len(names) > 1:
            report.add("A502", here, f"{ALL} matches every error and stands beside others", f"name {ALL} alone")
        if ALL in names and int(index) != last:
            report.add("A503", here, f"what comes after {ALL} never matches", "move it to the end")
    _check_shadows(list(_named(handlers, place)), report)


def _named(handlers: object, place: Place) -> Iterator[tuple[str, Place, str]]:
    for index, handler in objects(handlers):
        for position, name in enumerate(error_names(handler)):
            yield name, (*place, index, "ErrorEquals", str(position)), index


def _check_shadows(named: list[tuple[str, Place, str]], report: Report) -> None:
    seen: dict[str, str] = {}
    for name, place, index in named:
        if name in seen and name != ALL:
            report.add("W501", place, f"{name} was named before: the first wins", "name each error once")
        elif seen.get(TASK_FAILED, index) != index and not name.startswith("States."):
            problem = f"{name} never comes this far: {TASK_FAILED} before it matches every error but States.Timeout"
            report.add("W503", place, problem, f"move {name} before {TASK_FAILED}")
        seen.setdefault(name, index)
