"""The context object: its fields, and where each exists."""

from statemachine.rules.findings import Place, Report
from statemachine.rules.machine import State
from statemachine.rules.values import choice_of, has_placeholder, suggestion

# Field to the fields within it; None where anything may follow.
_FIELDS: dict[str, dict[str, None] | None] = {
    "Execution": dict.fromkeys(("Id", "Input", "Name", "RoleArn", "StartTime", "RedriveCount", "RedriveTime")),
    "State": dict.fromkeys(("EnteredTime", "Name", "RetryCount")),
    "StateMachine": dict.fromkeys(("Id", "Name")),
    "Task": dict.fromkeys(("Token",)),
    "Map": dict.fromkeys(("Item",)),
}
_ITEM_FIELDS = frozenset({"Index", "Value", "Key", "Source"})
# The service makes a token for each of these, though only the first is meant to pass it on.
_TOKENED = (".waitForTaskToken", ".sync", ".sync:2")


def check_context(state: State, names: tuple[str, ...], place: Place, report: Report) -> None:
    """Whether the context object has what a path reads from it in this state."""
    if not names:
        return
    known = _known(names)
    for depth, fields in enumerate(known):
        if names[depth] not in fields:
            near = suggestion(names[depth], fields)
            problem = f"the context object has no {'.'.join(names[: depth + 1])}"
            report.add("A805", place, problem, f"write {near}" if near else f"there are {choice_of(fields)}")
            return
    if names[0] == "Map" and not state.in_map and state.type != "Map":
        report.add("A806", place, "Map.Item exists only within a Map and in its ItemSelector", "use the input")
    if names[:2] == ("Task", "Token") and not has_token(state):
        mend = "append .waitForTaskToken to the Resource, or drop the token"
        report.add("A807", place, "only a Task that waits for its token has one", mend)


def has_token(state: State) -> bool:
    """Whether the state is a Task that the service makes a token for."""
    resource = state.body.get("Resource")
    if state.type != "Task" or not isinstance(resource, str):
        return False
    return resource.endswith(_TOKENED) or (has_placeholder(resource) and ":states:" not in resource)


def _known(names: tuple[str, ...]) -> list[set[str]]:
    """The fields that exist at each depth of a path, as far as they are fixed."""
    levels: list[set[str]] = [set(_FIELDS)]
    inner = _FIELDS.get(names[0])
    if len(names) > 1 and inner is not None:
        levels.append(set(inner))
        if names[:2] == ("Map", "Item") and len(names) > 2:
            levels.append(set(_ITEM_FIELDS))
    return levels
