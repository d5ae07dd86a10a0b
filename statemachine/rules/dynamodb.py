"""What DynamoDB's calls are given: attributes with their types, and what is returned."""

from collections.abc import Callable, Iterator, Mapping

from statemachine.rules.findings import Place, Report
from statemachine.rules.values import choice_of, has_placeholder, is_jsonata, kind, shown

_FIELDS = frozenset({"Key", "Item", "ExpressionAttributeValues"})
_OLD = frozenset({"NONE", "ALL_OLD"})
_ALL = _OLD | {"UPDATED_OLD", "ALL_NEW", "UPDATED_NEW"}
_RETURNED = {"putItem": _OLD, "deleteItem": _OLD, "updateItem": _ALL}


def check_dynamodb(action: str, payload: Mapping[str, object], place: Place, report: Report) -> None:
    """The values of one call's parameters."""
    for values, at in _holders(payload, place):
        _check_attributes(values, at, report)
    allowed, value = _RETURNED.get(action), payload.get("ReturnValues")
    # A text that no action knows is found with the other enumerations.
    if allowed is None or value is None or _computed(value) or (isinstance(value, str) and value not in _ALL):
        return
    if not isinstance(value, str) or value not in allowed:
        got = shown(value) if isinstance(value, str) else kind(value)
        problem = f"{action} cannot return {got}"
        report.add("A908", (*place, "ReturnValues"), problem, f"write {choice_of(allowed)}")


def _holders(value: object, place: Place) -> Iterator[tuple[Mapping[str, object], Place]]:
    """The objects of attributes, in batches and transactions too."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key in _FIELDS and isinstance(inner, Mapping):
                if not has_placeholder(inner):
                    yield inner, (*place, key)
            else:
                yield from _holders(inner, (*place, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _holders(inner, (*place, str(index)))


def _check_attributes(values: Mapping[str, object], place: Place, report: Report) -> None:
    for name, value in values.items():
        if not name.endswith(".$"):
            _check_attribute(value, (*place, name), report)


def _check_attribute(value: object, place: Place, report: Report) -> None:
    """An attribute carries its type with it: {"S": "text"}."""
    if _computed(value):
        return
    # The SDK for Java writes some types in small letters, and NULL with one L.
    kinds = [key.removesuffix(".$").upper() for key in value] if isinstance(value, Mapping) else []
    if not isinstance(value, Mapping) or len(kinds) != 1 or kinds[0] not in _TYPES:
        problem = "a DynamoDB attribute is an object with its type as its only key"
        report.add("A908", place, problem, 'write {"S": ...} around a text, {"N": ...} around a number')
        return
    ((key, held),) = value.items()
    if not key.endswith(".$") and not _computed(held):
        _check_held(kinds[0], held, (*place, key), report)


def _check_held(name: str, held: object, place: Place, report: Report) -> None:
    accepts, says = _TYPES[name]
    if not accepts(held):
        got = shown(held) if isinstance(held, str) else kind(held)
        problem = f"the type {name} holds {says}, not {got}"
        mend = f'write "{held}"' if name == "N" and isinstance(held, int | float) else f"write {says}"
        report.add("A908", place, problem, mend)
    elif name == "M" and isinstance(held, Mapping):
        _check_attributes(held, place, report)
    elif name == "L" and isinstance(held, list):
        for index, element in enumerate(held):
            _check_attribute(element, (*place, str(index)), report)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_set(value: object) -> bool:
    return isinstance(value, list) and all(_is_text(element) or _computed(element) for element in value)


_TYPES: dict[str, tuple[Callable[[object], bool], str]] = {
    "S": (_is_text, "a text"),
    "N": (_is_text, "a number as a text"),
    "B": (_is_text, "bytes as a base64 text"),
    "SS": (_is_set, "an array of texts"),
    "NS": (_is_set, "an array of numbers as texts"),
    "BS": (_is_set, "an array of base64 texts"),
    "BOOL": (lambda value: isinstance(value, bool), "true or false"),
    "NULL": (lambda value: value is True, "true"),
    "NUL": (lambda value: value is True, "true"),
    "L": (lambda value: isinstance(value, list), "an array of attributes"),
    "M": (lambda value: isinstance(value, Mapping), "an object of attributes"),
}


def _computed(value: object) -> bool:
    return is_jsonata(value) or has_placeholder(value)
