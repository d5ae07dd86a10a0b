"""The intrinsic functions of JSONPath states: their grammar, their names, how many arguments each takes."""

import re
from dataclasses import dataclass

from statemachine.rules.jsonpath import Path, PathError, parse_path
from statemachine.rules.values import choice_of, suggestion

# Function to the least and the most arguments; None for no upper bound.
FUNCTIONS: dict[str, tuple[int, int | None]] = {
    "States.Array": (0, None),
    "States.ArrayContains": (2, 2),
    "States.ArrayGetItem": (2, 2),
    "States.ArrayLength": (1, 1),
    "States.ArrayPartition": (2, 2),
    "States.ArrayRange": (3, 3),
    "States.ArrayUnique": (1, 1),
    "States.Base64Decode": (1, 1),
    "States.Base64Encode": (1, 1),
    "States.Format": (1, None),
    "States.Hash": (2, 2),
    "States.JsonMerge": (3, 3),
    "States.JsonToString": (1, 1),
    "States.MathAdd": (2, 2),
    "States.MathRandom": (2, 3),
    "States.StringSplit": (2, 2),
    "States.StringToJson": (1, 1),
    "States.UUID": (0, 0),
}
# Those whose result is a string: only they may stand in ErrorPath and CausePath.
OF_STRINGS = frozenset(
    {
        "States.ArrayGetItem",
        "States.Base64Decode",
        "States.Base64Encode",
        "States.Format",
        "States.Hash",
        "States.JsonToString",
        "States.UUID",
    }
)
_HASHES = frozenset({"MD5", "SHA-1", "SHA-256", "SHA-384", "SHA-512"})
_MAX_NESTING = 10
# Function to what a literal argument must be, by its index.
_LITERALS: dict[str, dict[int, type]] = {
    "States.ArrayGetItem": {1: float},
    "States.ArrayPartition": {1: float},
    "States.ArrayRange": dict.fromkeys((0, 1, 2), float),
    "States.Base64Decode": {0: str},
    "States.Base64Encode": {0: str},
    "States.Hash": {1: str},
    "States.MathAdd": dict.fromkeys((0, 1), float),
    "States.MathRandom": dict.fromkeys((0, 1, 2), float),
    "States.StringSplit": dict.fromkeys((0, 1), str),
    "States.StringToJson": {0: str},
}

_NAME = re.compile(r"\s*(States\.\w*|[A-Za-z_][\w.]*)\s*\(")
_STRING = re.compile(r"\s*'((?:[^'\\]|\\.)*)'")
_NUMBER = re.compile(r"\s*(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)")
_WORD = re.compile(r"\s*(null|true|false)\b")


class IntrinsicError(ValueError):
    """A call that does not work."""

    def __init__(self, code: str, problem: str, mend: str) -> None:
        """`code` is the rule's."""
        super().__init__(problem)
        self.code, self.problem, self.mend = code, problem, mend


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument: a literal, a path or another call."""

    literal: object = None
    is_literal: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A whole expression."""

    function: str
    paths: tuple[Path, ...]
    """The paths among all arguments, nested calls included."""


def is_intrinsic(text: str) -> bool:
    """Whether a text means to be an intrinsic function."""
    return text.lstrip().startswith("States.")


def parse_intrinsic(text: str) -> Call:
    """Read a call with all within it; IntrinsicError at the first thing that is wrong."""
    reader = _Reader(text)
    function = reader.call(depth=1)
    if text[reader.position :].strip():
        raise _syntax(f"{text[reader.position :].strip()!r} after the call")
    return Call(function, tuple(reader.paths))


def _syntax(problem: str) -> IntrinsicError:
    return IntrinsicError("A604", problem, "write States.Name(argument, 'text', $.path)")


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.paths: list[Path] = []

    def call(self, depth: int) -> str:
        match = _NAME.match(self.text, self.position)
        if match is None:
            raise _syntax("the call has no opening parenthesis")
        name = match.group(1)
        if name not in FUNCTIONS:
            near = suggestion(name, FUNCTIONS)
            mend = f"write {near}" if near else f"there are {choice_of(FUNCTIONS, len(FUNCTIONS))}"
            raise IntrinsicError("A605", f"there is no function {name}", mend)
        if depth > _MAX_NESTING:
            raise IntrinsicError("A606", f"more than {_MAX_NESTING} calls within each other", "use several states")
        self.position = match.end()
        arguments = self._arguments(depth)
        _check_arguments(name, arguments)
        return name

    def _arguments(self, depth: int) -> list[Argument]:
        found: list[Argument] = []
        if self._skip(")"):
            return found
        while True:
            found.append(self._argument(depth))
            if self._skip(")"):
                return found
            if not self._skip(","):
                raise _syntax("an argument is not followed by a comma or a closing parenthesis")

    def _skip(self, character: str) -> bool:
        while self.position < len(self.text) and self.text[self.position].isspace():
            self.position += 1
        if self.text.startswith(character, self.position):
            self.position += 1
            return True
        return False

    def _argument(self, depth: int) -> Argument:
        for pattern, convert in ((_STRING, str), (_NUMBER, float), (_WORD, str)):
            match = pattern.match(self.text, self.position)
            if match:
                self.position = match.end()
                return Argument(_literal(match.group(1), convert, pattern), is_literal=True)
        rest = self.text[self.position :].lstrip()
        if rest.startswith("$"):
            self._path()
        elif _NAME.match(self.text, self.position):
            self.call(depth + 1)
        else:
            raise _syntax(f"{rest[:20]!r} is no argument: texts stand in single quotes")
        return Argument()

    def _path(self) -> None:
        self.position = len(self.text) - len(self.text[self.position :].lstrip())
        end = _end_of_path(self.text, self.position)
        text = self.text[self.position : end].rstrip()
        try:
            self.paths.append(parse_path(text))
        except PathError as error:
            raise IntrinsicError("A601", f"{text!r} is no path: {error}", "write a path such as $.a.b") from error
        self.position = end


def _literal(text: str, convert: type, pattern: re.Pattern[str]) -> object:
    if pattern is _WORD:
        return {"null": None, "true": True, "false": False}[text]
    return convert(text)


def _end_of_path(text: str, start: int) -> int:
    """Where a path among arguments ends: at a comma or parenthesis outside of brackets and quotes."""
    depth, parentheses, quote = 0, 0, ""
    for position in range(start, len(text)):
        character = text[position]
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"" and depth:
            quote = character
        elif character in "[]":
            depth += 1 if character == "[" else -1
        elif character == "(":
            parentheses += 1
        elif character == ")" and parentheses:
            parentheses -= 1
        elif character in ",)" and depth <= 0:
            return position
    return len(text)


def _check_arguments(name: str, arguments: list[Argument]) -> None:
    least, most = FUNCTIONS[name]
    count = len(arguments)
    if count < least or (most is not None and count > most):
        needed = str(least) if least == most else f"{least} or more" if most is None else f"{least} to {most}"
        raise IntrinsicError("A606", f"{name} takes {needed} arguments, not {count}", f"give {needed}")
    _check_literals(name, arguments)
    if name == "States.Format":
        _check_format(arguments)
    if name == "States.Hash" and arguments[1].is_literal and arguments[1].literal not in _HASHES:
        raise IntrinsicError("A606", f"there is no hash {arguments[1].literal!r}", f"write one of {choice_of(_HASHES)}")
    if name == "States.JsonMerge" and arguments[2].is_literal and arguments[2].literal is not False:
        raise IntrinsicError("A606", "States.JsonMerge merges only shallowly", "write false as its third argument")
    if name == "States.ArrayRange" and arguments[2].is_literal and arguments[2].literal == 0:
        raise IntrinsicError("A606", "States.ArrayRange cannot go by steps of 0", "write another step")


def _check_literals(name: str, arguments: list[Argument]) -> None:
    for index, argument in enumerate(arguments):
        wanted = _LITERALS.get(name, {}).get(index)
        if argument.is_literal and wanted is not None and not isinstance(argument.literal, wanted):
            says = "a text in single quotes" if wanted is str else "a number"
            raise IntrinsicError("A606", f"argument {index + 1} of {name} is {says}", f"write {says}, or a path")


def _check_format(arguments: list[Argument]) -> None:
    template = arguments[0]
    if not template.is_literal:
        return
    if not isinstance(template.literal, str):
        raise IntrinsicError("A606", "States.Format begins with a text", "write '...{}...' first")
    plain = re.sub(r"\\.", "", template.literal)
    places, values = plain.count("{}"), len(arguments) - 1
    if places != values:
        problem = f"States.Format has {places} {{}} and {values} values"
        raise IntrinsicError("A606", problem, "give one value for each {}")
