"""The parameters of a Task's call: those it needs, those it has, and values that it refuses."""

from collections.abc import Mapping
from dataclasses import dataclass

from statemachine.rules import sdk
from statemachine.rules.dynamodb import check_dynamodb
from statemachine.rules.findings import Place, Report
from statemachine.rules.integrations import HTTP_METHODS, MODELLED, OPTIMIZED, OWN_PARAMETERS, REFUSED_PARAMETERS
from statemachine.rules.machine import State
from statemachine.rules.values import choice_of, has_placeholder, is_jsonata, kind, shown, suggestion

# Parameters of which a call takes one only.
_ALTERNATIVES: Mapping[str, tuple[str, ...]] = {"sns:publish": ("TopicArn", "TargetArn", "PhoneNumber")}


@dataclass(frozen=True, slots=True)
class Target:
    """An integration that a Resource names."""

    service: str
    action: str
    pattern: str
    is_sdk: bool

    def __str__(self) -> str:
        """As the ARN ends."""
        return f"{'aws-sdk:' if self.is_sdk else ''}{self.service}:{self.action}{self.pattern}"


def payload_of(state: State) -> tuple[Mapping[str, object] | None, Place]:
    """The call's parameters, None where they are computed as a whole."""
    field = "Arguments" if state.jsonata else "Parameters"
    value = state.body.get(field, {})
    place = (*state.place, field) if field in state.body else state.place
    return (value if isinstance(value, Mapping) else None), place


def check_parameters(target: Target, state: State, report: Report) -> None:
    """What a call is given: all that it needs, nothing that it does not have, no value that it refuses."""
    payload, place = payload_of(state)
    if payload is None:
        _check_whole(target, state, report)
        return
    if any(has_placeholder(key) for key in payload):
        return
    suffix = "" if state.jsonata else ".$"
    given = {key.removesuffix(suffix) if suffix else key for key in payload}
    # The SDK for Java, which the SDK integrations follow, has its own idea of capitals within a name.
    spelled = given | ({name.lower() for name in given if name[:1].isupper()} if target.is_sdk else set())
    for needed in _required(target):
        if not spelled & {*needed.split("|"), needed.lower()}:
            names = needed.replace("|", " or ")
            near = next((name for name in given if name.lower() == needed.lower()), "")
            mend = f"write {needed} instead of {near}" if near else f"add {names}"
            report.add("A905", place, f"{target.service}:{target.action} needs {names}", mend)
    allowed = _allowed(target)
    for key in payload:
        name = key.removesuffix(suffix) if suffix else key
        if allowed is not None and not name.endswith(".$"):
            _check_parameter(target, name, allowed, (*place, key), report)
    alternatives = [name for name in _ALTERNATIVES.get(f"{target.service}:{target.action}", ()) if name in given]
    if len(alternatives) > 1:
        problem = f"{target.service}:{target.action} takes only one of {' and '.join(alternatives)}"
        report.add("A909", place, problem, "keep one of them")
    _check_values(target, payload, place, report)


def _check_whole(target: Target, state: State, report: Report) -> None:
    """Parameters that are no object: a template may be any JSON, but a call has parameters by name."""
    field = "Arguments" if state.jsonata else "Parameters"
    value = state.body.get(field)
    if has_placeholder(value) or (state.jsonata and is_jsonata(value)):
        return
    problem = f"{target.service}:{target.action} takes its parameters by name, not from {kind(value)}"
    report.add("A101", (*state.place, field), problem, "write an object")


def _required(target: Target) -> list[str]:
    if not target.is_sdk:
        return list(OPTIMIZED[target.service][target.action].required)
    _, required = sdk.parameters(sdk.services()[target.service], target.action)
    return sorted(sdk.java(name) for name in required)


def _allowed(target: Target) -> frozenset[str] | None:
    """The parameters of a call, None where they are not known."""
    key = f"{target.service}:{target.action}"
    if not target.is_sdk and key in OWN_PARAMETERS:
        return OWN_PARAMETERS[key]
    boto = sdk.services()[target.service] if target.is_sdk else MODELLED.get(target.service)
    if boto is None or target.action not in sdk.actions(boto):
        return None
    names, _ = sdk.parameters(boto, target.action)
    refused = frozenset() if target.is_sdk else REFUSED_PARAMETERS.get(target.service, frozenset())
    return frozenset((sdk.java if target.is_sdk else sdk.pascal)(name) for name in names) - refused


def _check_parameter(target: Target, name: str, allowed: frozenset[str], place: Place, report: Report) -> None:
    if name in allowed:
        return
    same = next((known for known in allowed if known.lower() == name.lower()), "")
    if same and name[:1].isupper() and target.is_sdk:
        return
    near = same or suggestion(name, allowed)
    mend = f"write {near}" if near else "drop it"
    report.add("A906", place, f"{target.service}:{target.action} has no parameter {shown(name)}", mend)


def _check_values(target: Target, payload: Mapping[str, object], place: Place, report: Report) -> None:
    if target.service == "http":
        _check_http(payload, place, report)
    elif target.service == "dynamodb":
        check_dynamodb(target.action, payload, place, report)
    elif target.service == "sqs":
        queue = payload.get("QueueUrl")
        grouped = {"MessageGroupId", "MessageGroupId.$"} & payload.keys()
        if target.action == "sendMessage" and isinstance(queue, str) and queue.endswith(".fifo") and not grouped:
            report.add("A905", place, "a FIFO queue needs MessageGroupId", "add MessageGroupId")
    _check_names(target, payload, place, report)


def _check_names(target: Target, payload: Mapping[str, object], place: Place, report: Report) -> None:
    """Parameters whose values are a fixed set of names."""
    boto = sdk.services()[target.service] if target.is_sdk else MODELLED.get(target.service)
    if boto is None or target.action not in sdk.actions(boto):
        return
    for name, values in sdk.enumerations(boto, target.action).items():
        key = sdk.java(name) if target.is_sdk else sdk.pascal(name)
        value = payload.get(key)
        if isinstance(value, str) and value not in values and not _computed(value):
            near = suggestion(value, values)
            mend = f"write {near or choice_of(values)}"
            report.add("A908", (*place, key), f"{key} is not {shown(value)}", mend)


def _check_http(payload: Mapping[str, object], place: Place, report: Report) -> None:
    for field in ("Authentication", "InvocationConfig"):
        holder = payload.get(field)
        if isinstance(holder, Mapping) and not {"ConnectionArn", "ConnectionArn.$"} & holder.keys():
            report.add("A905", (*place, field), "the connection is not named", "add ConnectionArn")
    method, endpoint = payload.get("Method"), payload.get("ApiEndpoint")
    if isinstance(method, str) and method not in HTTP_METHODS and not _computed(method):
        mend = f"write {choice_of(HTTP_METHODS)}"
        report.add("A908", (*place, "Method"), f"there is no method {shown(method)}", mend)
    if isinstance(endpoint, str) and not endpoint.startswith("https://") and not _computed(endpoint):
        report.add("A908", (*place, "ApiEndpoint"), "HTTP tasks call https:// only", "write an https:// address")


def _computed(text: str) -> bool:
    return is_jsonata(text) or has_placeholder(text)
