"""Task states: what a Resource calls, in which pattern, with which parameters."""

import re
from collections.abc import Iterable, Mapping

from statemachine.rules import sdk
from statemachine.rules.expressions import Located
from statemachine.rules.failures import error_names
from statemachine.rules.findings import Place, Report
from statemachine.rules.integrations import (
    CALLBACK,
    ERROR_PREFIXES,
    LAMBDA_ERRORS,
    OPTIMIZED,
    PATTERNS,
)
from statemachine.rules.machine import State
from statemachine.rules.parameters import Target, check_parameters, payload_of
from statemachine.rules.payloads import Use
from statemachine.rules.values import (
    choice_of,
    fill_placeholders,
    has_placeholder,
    is_jsonata,
    objects,
    shown,
    suggestion,
)

_PARTITION = re.compile(r"aws[a-z-]*")
_FUNCTION = re.compile(r"(function|task):[\w-]+(:([\w-]+|\$LATEST))?|[\w:-]*PLACEHOLDER[\w:$-]*")
_ARN_MEND = "write an ARN such as arn:aws:states:::lambda:invoke"
_UNKNOWN = "PLACEHOLDER"


def check_task(state: State, reads: Iterable[Use | Located], report: Report) -> None:
    """All rules about what a Task calls."""
    resource = state.body.get("Resource")
    _check_credentials(state, report)
    if not isinstance(resource, str):
        return
    target = _target(resource, (*state.place, "Resource"), report)
    if target is None:
        return
    known = _known_optimized(target, state, report) if not target.is_sdk else _known_sdk(target, state, report)
    if target.pattern == CALLBACK:
        _check_token(state, reads, report)
    if known:
        check_parameters(target, state, report)
    _check_errors(target, state, report)


def _target(resource: str, place: Place, report: Report) -> Target | None:
    """The integration that a Resource names; None for Lambda functions, activities and what is no ARN."""
    text = fill_placeholders(resource, _UNKNOWN)
    parts = text.split(":", 5)
    if has_placeholder(resource) and (len(parts) < 6 or parts[0] != "arn"):
        return None
    if len(parts) < 6 or parts[0] != "arn" or not (_PARTITION.fullmatch(parts[1]) or _UNKNOWN in parts[1]):
        report.add("A901", place, f"{shown(resource)} is no ARN", _ARN_MEND)
        return None
    service, rest = parts[2], parts[5]
    if _UNKNOWN in service or service in {"lambda", "swf"} or _UNKNOWN in rest.partition(":")[0]:
        if service == "lambda" and _FUNCTION.fullmatch(rest) is None:
            report.add("A901", place, f"{shown(resource)} names no function", "write ...:function:NAME, or NAME:ALIAS")
        return None
    if service != "states":
        report.add("A901", place, f"a Task cannot call {shown(resource)} by this ARN", _ARN_MEND)
        return None
    return _states_target(resource, rest, place, report)


def _states_target(resource: str, rest: str, place: Place, report: Report) -> Target | None:
    is_sdk = rest.startswith("aws-sdk:")
    pieces = rest.removeprefix("aws-sdk:").split(":", 1)
    if pieces[0] == "activity" and not is_sdk:
        if ":::" in resource or len(pieces) < 2 or not pieces[1]:
            mend = "write arn:aws:states:REGION:ACCOUNT:activity:NAME"
            report.add("A901", place, f"{shown(resource)} names no activity", mend)
        return None
    if pieces[0] in {"stateMachine", "execution"}:
        mend = "write arn:aws:states:::states:startExecution and name it in StateMachineArn"
        report.add("A901", place, "a Task does not call a state machine by its ARN", mend)
        return None
    if len(pieces) < 2 or not pieces[1]:
        report.add("A901", place, f"{shown(resource)} names no action", _ARN_MEND)
        return None
    action, dot, pattern = pieces[1].partition(".")
    if _UNKNOWN in pieces[1]:
        return None
    return Target(pieces[0], action, dot + pattern, is_sdk)


def _known_optimized(target: Target, state: State, report: Report) -> bool:
    """Whether there is such an optimized call; the finding if not."""
    place = (*state.place, "Resource")
    actions = OPTIMIZED.get(target.service)
    if actions is None:
        near = suggestion(target.service, OPTIMIZED)
        java = sdk.correct_service(target.service)
        mend = f"write {near}" if near else f"write arn:aws:states:::aws-sdk:{java or 'service'}:{target.action}"
        report.add("A902", place, f"there is no optimized integration with {shown(target.service)}", mend)
        return False
    action = actions.get(target.action)
    if action is None:
        near = suggestion(target.action, actions)
        mend = f"write {near}" if near else f"there are {choice_of(actions)}; call others through aws-sdk"
        report.add("A903", place, f"{target.service} has no optimized action {shown(target.action)}", mend)
        return False
    _check_pattern(target, action.patterns, place, report)
    return True


def _check_pattern(target: Target, allowed: frozenset[str], place: Place, report: Report) -> None:
    if target.pattern in allowed:
        return
    near = suggestion(target.pattern, allowed - {""}) if target.pattern not in PATTERNS else ""
    given = choice_of(pattern for pattern in allowed if pattern)
    fallback = f"write {given}, or nothing" if given else "write nothing after the action"
    problem = f"{target.service}:{target.action} does not support {shown(target.pattern)}"
    report.add("A904", place, problem, f"write {near}" if near else fallback)


def _known_sdk(target: Target, state: State, report: Report) -> bool:
    """Whether there is such a call of the SDK; the finding if not."""
    place = (*state.place, "Resource")
    boto = sdk.services().get(target.service)
    if boto is None and target.service in sdk.RETIRED:
        return False
    if boto is None:
        near = sdk.correct_service(target.service) or suggestion(target.service, sdk.services())
        mend = f"write {near}" if near else "write the service's name in lower case without hyphens"
        report.add("A902", place, f"there is no SDK integration with {shown(target.service)}", mend)
        return False
    _check_pattern(target, frozenset({"", CALLBACK}), place, report)
    if target.action not in sdk.actions(boto):
        near = suggestion(target.action, sdk.actions(boto))
        mend = f"write {near}" if near else "write the API's action with a small first letter"
        report.add("A903", place, f"{target.service} has no action {shown(target.action)}", mend)
        return False
    return True


def _check_token(state: State, reads: Iterable[Use | Located], report: Report) -> None:
    field = "Arguments" if state.jsonata else "Parameters"
    if has_placeholder(state.body.get(field)):
        return
    if any(item.field == field and _reads_token(item) for item in reads):
        return
    token = "{% $states.context.Task.Token %}" if state.jsonata else "$$.Task.Token"
    problem = "the task token is not passed on, so that nobody can answer: the state waits until it times out"
    report.add("A907", payload_of(state)[1], problem, f"put {token} into {field}")


def _reads_token(item: Use | Located) -> bool:
    """Whether a path or expression reads the token or something around it."""
    whole = ("Task", "Token")
    if isinstance(item, Use):
        return item.path.root == "$$" and item.path.names[:2] == whole[: len(item.path.names)]
    chains = [chain[1:] for chain in item.expression.states if chain[:1] in ((), ("context",))]
    return any(chain[:2] == whole[: len(chain)] for chain in chains)


def _check_errors(target: Target, state: State, report: Report) -> None:
    prefixes = ERROR_PREFIXES.get(target.service)
    for field in ("Retry", "Catch"):
        for index, handler in objects(state.body.get(field)):
            for name in error_names(handler):
                place = (*state.place, field, index, "ErrorEquals")
                if prefixes:
                    _check_prefix(target, name, prefixes, place, report)
                if target.service == "lambda" and name.startswith("Lambda.") and name not in LAMBDA_ERRORS:
                    _check_lambda_error(name, place, report)


def _check_prefix(target: Target, name: str, prefixes: tuple[str, str], place: Place, report: Report) -> None:
    right = prefixes[1] if target.is_sdk else prefixes[0]
    prefix, dot, error = name.partition(".")
    if dot and prefix != right and prefix.lower() == right.lower():
        report.add("W504", place, f"{target} spells it {right}.{error}, not {name}", f"write {right}.{error}")


def _check_lambda_error(name: str, place: Place, report: Report) -> None:
    near = suggestion(name, LAMBDA_ERRORS, cutoff=0.95)
    if near:
        report.add("W504", place, f"Lambda has no error {shown(name)}", f"write {near}")


def _check_credentials(state: State, report: Report) -> None:
    if "Credentials" not in state.body:
        return
    value, place = state.body["Credentials"], (*state.place, "Credentials")
    if is_jsonata(value) and state.jsonata:
        return
    if not isinstance(value, Mapping):
        report.add("A101", place, "Credentials is an object", 'write {"RoleArn": ...}')
    elif not {"RoleArn", "RoleArn.$"} & value.keys():
        report.add("W203", place, "Credentials name no role", "add RoleArn")
