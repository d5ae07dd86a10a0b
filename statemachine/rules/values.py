"""Small questions about JSON values that all rules ask."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TypeGuard

from statemachine.rules.findings import Place

# CloudFormation, SAM and Terraform fill these in before the service sees the definition.
_PLACEHOLDER = re.compile(r"\$\{[^{}]*\}")
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def has_placeholder(value: object) -> bool:
    """Whether a value waits for a substitution, so that what it will be is not known here."""
    if isinstance(value, Mapping):
        return len(value) == 1 and all(key == "Ref" or key.startswith("Fn::") for key in value)
    return isinstance(value, str) and _PLACEHOLDER.search(value) is not None


def fill_placeholders(text: str, filler: str) -> str:
    """The text with each substitution replaced."""
    return _PLACEHOLDER.sub(filler, text)


def is_integer(value: object) -> bool:
    """A JSON number without a fraction: true is none, and 5.0 is one."""
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


def is_number(value: object) -> TypeGuard[int | float]:
    """A JSON number: true is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_timestamp(value: object) -> bool:
    """RFC 3339 in the profile of the language: upper-case T and Z, an offset always, an existing day."""
    if not isinstance(value, str) or _RFC3339.fullmatch(value) is None:
        return False
    try:
        datetime.fromisoformat(re.sub(r"\.\d+", "", value))
    except ValueError:
        return False
    return True


def meant_literally(key: str) -> bool:
    """Whether a parameter may hold JSONPath that is meant for the service it goes to."""
    return key.lower().endswith(("path", "paths", "pathsmap", "pattern", "expression", "definition"))


def is_jsonata(value: object) -> bool:
    """Whether a JSONata state evaluates the string: the delimiters are its very first and last characters."""
    return isinstance(value, str) and len(value) >= 4 and value.startswith("{%") and value.endswith("%}")


def kind(value: object) -> str:
    """The JSON type of a value, for messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "an object" if isinstance(value, Mapping) else "an array"


def shown(value: object, limit: int = 60) -> str:
    """A value in a message: short, on one line."""
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= limit else text[: limit - 1] + "\N{HORIZONTAL ELLIPSIS}"


def suggestion(name: str, known: Iterable[str], cutoff: float = 0.75) -> str:
    """The known name that was probably meant, or nothing."""
    candidates = sorted(known)
    for candidate in candidates:
        if candidate.lower() == name.lower():
            return candidate
    close = difflib.get_close_matches(name, candidates, n=1, cutoff=cutoff)
    return close[0] if close else ""


def choice_of(names: Iterable[str], limit: int = 12) -> str:
    """Some names as an enumeration for a mend."""
    ordered = sorted(names)
    text = ", ".join(ordered[:limit])
    return text + ", ..." if len(ordered) > limit else text


def objects(value: object) -> Iterator[tuple[str, Mapping[str, object]]]:
    """The objects of an array, with their indices; whatever else stands there is another rule's finding."""
    if isinstance(value, list):
        for index, element in enumerate(value):
            if isinstance(element, Mapping):
                yield str(index), element


def strings(value: object, place: Place) -> Iterator[tuple[Place, str]]:
    """Every string in a JSON tree, keys left out, with its place."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, element in value.items():
            yield from strings(element, (*place, key))
    elif isinstance(value, list):
        for index, element in enumerate(value):
            yield from strings(element, (*place, str(index)))


def depth_exceeds(value: object, limit: int) -> bool:
    """Whether a JSON tree is nested deeper than `limit`; walks without recursion."""
    level: list[object] = [value]
    for _ in range(limit):
        inner: list[object] = []
        for element in level:
            if isinstance(element, Mapping):
                inner.extend(element.values())
            elif isinstance(element, list):
                inner.extend(element)
        if not inner:
            return False
        level = inner
    return True
