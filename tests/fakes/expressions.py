"""DynamoDB's expressions, as far as the project writes any: conditions, updates and lists of paths.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Expressions.OperatorsAndFunctions.html
Each text is parsed once a process.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from itertools import pairwise
from typing import Any

Item = Mapping[str, Any]
"""Attribute -> typed value, such as {"N": "1"}."""


class InvalidExpression(Exception):  # noqa: N818 (DynamoDB's ValidationException)
    """The service would answer ValidationException."""


@dataclass(frozen=True, slots=True)
class Given:
    """What an expression refers to."""

    names: Mapping[str, str]
    values: Mapping[str, Any]

    def name(self, alias: str) -> str:
        """The attribute that an alias stands for, or the name itself."""
        if not alias.startswith("#"):
            return alias
        return self.names[alias]

    def value(self, alias: str) -> Any:
        """The typed value of an alias."""
        return self.values[alias]


_Operand = Callable[[Item, Given], Any]
_Test = Callable[[Item, Given], bool]
_Path = tuple[str, ...]
_TOKEN = re.compile(r"\s*(<>|<=|>=|[=<>(),.+-]|[#:]?[A-Za-z_][A-Za-z0-9_]*)")
_ALIAS = re.compile(r"[#:][A-Za-z_][A-Za-z0-9_]*")


def plain(value: Mapping[str, Any]) -> Any:
    """A typed value as something to compare: the type counts, and 1 is 1.0."""
    ((kind, inner),) = value.items()
    if kind == "N":
        return kind, Decimal(inner)
    if kind == "M":
        return kind, {name: plain(one) for name, one in inner.items()}
    if kind == "L":
        return kind, [plain(one) for one in inner]
    return kind, bytes(inner) if kind == "B" else inner


def holds(condition: str, item: Item, given: Given) -> bool:
    """Whether a condition holds for an item; an absent item is an empty one."""
    return _condition(condition)(item, given)


def updated(update: str, item: Item, given: Given) -> dict[str, Any]:
    """The item after an update; every operand is read from the item before it."""
    sets, removes = _update(update)
    paths = [_named(path, given) for path in (*(path for path, _ in sets), *removes)]
    _refuse_overlaps(paths)
    values = [operand(item, given) for _, operand in sets]
    if None in values:
        raise InvalidExpression("an operand refers to an attribute that is not there")
    after = _copied(item)
    for path, value in zip(paths, values, strict=False):
        _parent(after, path)[path[-1]] = _copied_value(value)
    for path in paths[len(sets) :]:
        _parent(after, path).pop(path[-1], None)
    return after


def projected(projection: str, item: Item, given: Given) -> dict[str, Any]:
    """The item's attributes that a projection names; only whole attributes are known here."""
    wanted = {given.name(part.strip()) for part in projection.split(",")}
    return {name: value for name, value in item.items() if name in wanted}


def refuse_misfits(given: Given, *texts: str) -> None:
    """Refuse a name or value that no expression uses, or that one uses and nobody gave, as the service does."""
    used = {alias for text in texts for alias in _aliases(text)}
    if misfits := {*given.names, *given.values} ^ used:
        raise InvalidExpression(f"unused, or not defined: {sorted(misfits)}")


@cache
def _aliases(text: str) -> frozenset[str]:
    return frozenset(_ALIAS.findall(text))


# -- parsing


class _Tokens:
    def __init__(self, text: str) -> None:
        self.left: list[str] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise InvalidExpression(f"syntax at {text[position:]!r}")
            self.left.append(match[1])
            position = match.end()

    def peek(self, ahead: int = 0) -> str:
        return self.left[ahead] if len(self.left) > ahead else ""

    def next(self) -> str:
        if not self.left:
            raise InvalidExpression("syntax: it ends too early")
        return self.left.pop(0)

    def take(self, *words: str) -> bool:
        if self.peek().upper() in words:
            self.next()
            return True
        return False

    def expect(self, word: str) -> None:
        if self.next() != word:
            raise InvalidExpression(f"syntax: {word} is missing")

    def listed(self) -> Iterator[None]:
        """Once for each element of a list that commas part."""
        yield
        while self.take(","):
            yield


@cache
def _condition(text: str) -> _Test:
    tokens = _Tokens(text)
    test = _or(tokens)
    if tokens.left:
        raise InvalidExpression(f"syntax at {tokens.peek()!r}")
    return test


def _or(tokens: _Tokens) -> _Test:
    parts = [_and(tokens)]
    while tokens.take("OR"):
        parts.append(_and(tokens))
    return parts[0] if len(parts) == 1 else lambda item, given: any(part(item, given) for part in parts)


def _and(tokens: _Tokens) -> _Test:
    parts = [_not(tokens)]
    while tokens.take("AND"):
        parts.append(_not(tokens))
    return parts[0] if len(parts) == 1 else lambda item, given: all(part(item, given) for part in parts)


def _not(tokens: _Tokens) -> _Test:
    if tokens.take("NOT"):
        inner = _not(tokens)
        return lambda item, given: not inner(item, given)
    if tokens.take("("):
        inner = _or(tokens)
        tokens.expect(")")
        return inner
    if tokens.peek(1) == "(" and tokens.peek() in _FUNCTIONS:
        return _function(tokens)
    return _comparison(tokens)


def _function(tokens: _Tokens) -> _Test:
    name = tokens.next()
    tokens.expect("(")
    operands = [_operand(tokens) for _ in tokens.listed()]
    tokens.expect(")")
    test = _FUNCTIONS[name]
    return lambda item, given: test(*(operand(item, given) for operand in operands))


def _begins_with(value: Any, start: Any) -> bool:
    if value is None:
        return False
    (kind, whole), (wanted, beginning) = plain(value), plain(start)
    return kind == wanted and bool(whole.startswith(beginning))


_FUNCTIONS: Mapping[str, Callable[..., bool]] = {
    "attribute_exists": lambda value: value is not None,
    "attribute_not_exists": lambda value: value is None,
    "begins_with": _begins_with,
}
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": lambda left, right: left == right,
    "<>": lambda left, right: left != right,
    "<": lambda left, right: left[0] == right[0] and left[1] < right[1],
    "<=": lambda left, right: left[0] == right[0] and left[1] <= right[1],
    ">": lambda left, right: left[0] == right[0] and left[1] > right[1],
    ">=": lambda left, right: left[0] == right[0] and left[1] >= right[1],
}


def _comparison(tokens: _Tokens) -> _Test:
    left, word = _operand(tokens), tokens.next()
    if word.upper() == "IN":
        tokens.expect("(")
        choices = [_operand(tokens) for _ in tokens.listed()]
        tokens.expect(")")
        return lambda item, given: any(_compare("=", left, one, item, given) for one in choices)
    if word not in _COMPARE:
        raise InvalidExpression(f"syntax at {word!r}")
    right = _operand(tokens)
    return lambda item, given: _compare(word, left, right, item, given)


def _compare(word: str, left: _Operand, right: _Operand, item: Item, given: Given) -> bool:
    one, other = left(item, given), right(item, given)
    # An attribute that is absent compares as false with everything, also as unequal.
    return one is not None and other is not None and _COMPARE[word](plain(one), plain(other))


def _operand(tokens: _Tokens) -> _Operand:
    word = tokens.peek()
    if word.startswith(":"):
        alias = tokens.next()
        return lambda _, given: given.value(alias)
    if word == "if_not_exists":
        tokens.next()
        tokens.expect("(")
        path = _operand(tokens)
        tokens.expect(",")
        default = _operand(tokens)
        tokens.expect(")")
        return lambda item, given: path(item, given) or default(item, given)
    path_read = _path(tokens)
    return lambda item, given: _read(item, _named(path_read, given))


def _path(tokens: _Tokens) -> _Path:
    parts = [tokens.next()]
    while tokens.take("."):
        parts.append(tokens.next())
    if not all(re.fullmatch(r"#?[A-Za-z_][A-Za-z0-9_]*", part) for part in parts):
        raise InvalidExpression(f"syntax at {parts}")
    return tuple(parts)


@cache
def _update(text: str) -> tuple[Sequence[tuple[_Path, _Operand]], Sequence[_Path]]:
    tokens = _Tokens(text)
    sets: list[tuple[_Path, _Operand]] = []
    removes: list[_Path] = []
    while tokens.left:
        if tokens.take("SET"):
            for _ in tokens.listed():
                path = _path(tokens)
                tokens.expect("=")
                sets.append((path, _sum(tokens)))
        elif tokens.take("REMOVE"):
            removes += [_path(tokens) for _ in tokens.listed()]
        else:
            raise InvalidExpression(f"syntax at {tokens.peek()!r}")
    return sets, removes


def _sum(tokens: _Tokens) -> _Operand:
    left = _operand(tokens)
    if tokens.peek() not in ("+", "-"):
        return left
    sign = 1 if tokens.next() == "+" else -1
    right = _operand(tokens)

    def add(item: Item, given: Given) -> Any:
        one, other = left(item, given), right(item, given)
        if one is None or other is None:
            return None
        if "N" not in one or "N" not in other:
            raise InvalidExpression("an operand of + or - is no number")
        return {"N": str(Decimal(one["N"]) + sign * Decimal(other["N"]))}

    return add


# -- paths


def _named(path: _Path, given: Given) -> _Path:
    return tuple(given.name(part) for part in path)


def _read(item: Item, path: _Path) -> Any:
    value: Any = item.get(path[0])
    for name in path[1:]:
        value = value["M"].get(name) if value is not None and "M" in value else None
    return value


def _parent(item: dict[str, Any], path: _Path) -> dict[str, Any]:
    parent = item
    for name in path[:-1]:
        value = parent.get(name)
        if value is None or "M" not in value:
            raise InvalidExpression("the document path is invalid for update")
        parent = value["M"]
    return parent


def _refuse_overlaps(paths: Sequence[_Path]) -> None:
    ordered = sorted(paths)
    for one, other in pairwise(ordered):
        if other[: len(one)] == one:
            raise InvalidExpression("two document paths overlap")


def _copied(item: Item) -> dict[str, Any]:
    return {name: _copied_value(value) for name, value in item.items()}


def _copied_value(value: Mapping[str, Any]) -> dict[str, Any]:
    if "M" in value:
        return {"M": _copied(value["M"])}
    if "L" in value:
        return {"L": [_copied_value(one) for one in value["L"]]}
    return dict(value)
