"""JSONPath as the language uses it: paths into a state's input, the context object and variables."""

import re
from dataclasses import dataclass

_ROOT = re.compile(r"\$\$|\$([^\W\d]\w*)|\$")
_PLAIN_INDEX = re.compile(r"\s*(-?\d+|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")\s*")
_UNION = re.compile(r"[^,]+(,[^,]+)+")
_SLICE = re.compile(r"\s*-?\d*\s*:\s*-?\d*\s*(:\s*-?\d*\s*)?")
_CALL = re.compile(r"\w+\(\)")
_NAME_STOPS = frozenset(".[ \t\r\n")


class PathError(ValueError):
    """A text that is no path; the message says why."""


@dataclass(frozen=True, slots=True)
class Path:
    """A path that parses."""

    root: str
    """`$` for the input, `$$` for the context object, otherwise the variable's name."""

    names: tuple[str, ...]
    """The leading fields, as far as each is named outright."""

    several: str
    """The first piece that may select more than one node; empty in a reference path."""


def parse_path(text: str) -> Path:
    """Read a path; PathError where it is none. Blanks after it do no harm."""
    text = text.rstrip()
    match = _ROOT.match(text)
    if match is None:
        raise PathError("a path begins with $")
    root = match.group(1) or match.group(0)
    names: list[str] = []
    several = ""
    position, plain = match.end(), True
    while position < len(text):
        piece, name, position = _segment(text, position)
        if name is None:
            plain = False
            several = several or piece
        elif plain:
            names.append(name)
    return Path(root, tuple(names), several)


def looks_like_path(text: str) -> bool:
    """Whether a text that is taken as it stands is surely meant as a path: a price or a sentence is none."""
    if not text.startswith(("$.", "$$.", "$[", "$$[")):
        return False
    try:
        parse_path(text)
    except PathError:
        return False
    return True


def _segment(text: str, position: int) -> tuple[str, str | None, int]:
    """One segment: its text, its field's name if it is one, and where the next begins."""
    if text[position] == "[":
        return _bracket(text, position)
    if text[position] != ".":
        raise PathError(f"unexpected {text[position]!r}")
    start = position + 1
    if text.startswith(".", start):
        rest, _, end = _segment(text, start) if start + 1 < len(text) else ("", None, start)
        if not rest:
            raise PathError("the path ends with a dot")
        return ".." + rest, None, end
    if start >= len(text):
        raise PathError("the path ends with a dot")
    if text[start] == "[":
        return _bracket(text, start)
    return _field(text, start)


def _field(text: str, start: int) -> tuple[str, str | None, int]:
    end = start
    while end < len(text) and text[end] not in _NAME_STOPS:
        end += 2 if text[end] == "\\" else 1
    name = text[start:end]
    if end < len(text) and text[end].isspace():
        raise PathError("a field with blanks in its name is written ['...']")
    if not name:
        raise PathError("two dots, or a dot before nothing")
    if name == "*" or _CALL.fullmatch(name):
        return name, None, end
    if any(stop in name for stop in "?()'\"") and "\\" not in name:
        raise PathError(f"{name!r} is no field name; write ['...'] around it")
    return name, re.sub(r"\\(.)", r"\1", name), end


def _bracket(text: str, start: int) -> tuple[str, str | None, int]:
    end = _closing(text, start)
    inner = text[start + 1 : end]
    if not inner.strip():
        raise PathError("empty brackets")
    if _PLAIN_INDEX.fullmatch(inner):
        return inner, inner.strip().strip("'\""), end + 1
    stripped = inner.strip()
    selects = stripped == "*" or stripped.startswith(("?(", "("))
    if selects or _SLICE.fullmatch(inner) or _UNION.fullmatch(inner):
        return f"[{inner}]", None, end + 1
    raise PathError(f"[{inner}] is neither an index, a quoted name nor a filter")


def _closing(text: str, start: int) -> int:
    """The bracket that closes the one at `start`, past quotes and nested brackets."""
    depth, quote, position = 0, "", start
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 1
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        else:
            depth += {"[": 1, "]": -1}.get(character, 0)
            if depth == 0:
                return position
        position += 1
    raise PathError("a bracket or quote is not closed")
