"""What one JSONata expression reads: its syntax tree, walked once and remembered."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from jsonata.jexception import JException
from jsonata.parser import Parser
from jsonata.tokenizer import Tokenizer

# Function to the most arguments it takes; None for no upper bound. JSONata 2.0.6, without $eval.
_BY_ARITY: tuple[tuple[int | None, str], ...] = (
    (0, "millis uuid"),
    (1, "sum count max min average lowercase uppercase length trim number floor ceil abs sqrt boolean not keys exists"),
    (1, "spread merge reverse error type shuffle distinct base64encode base64decode encodeUrlComponent encodeUrl"),
    (1, "decodeUrlComponent decodeUrl clone random parse"),
    (2, "string substringBefore substringAfter contains join formatBase formatInteger parseInteger round power map"),
    (2, "filter single sift lookup append each assert sort toMillis now partition hash"),
    (3, "substring pad match split formatNumber reduce fromMillis range"),
    (4, "replace"),
    (None, "zip"),
)
_BUILT_IN = {name: most for most, names in _BY_ARITY for name in names.split()}
FUNCTIONS = frozenset(_BUILT_IN)

# Functions that take nothing from the context item in place of a missing argument, with the fewest they need.
_NEEDED: tuple[tuple[int, str], ...] = (
    (1, "sum count max min average join single exists merge reverse shuffle distinct sort type"),
    (1, "zip assert hash parse"),
    (2, "map filter append reduce partition"),
    (3, "range"),
)
_FEWEST = {name: fewest for fewest, names in _NEEDED for name in names.split()}
_ARITHMETIC = frozenset("+-*/%")
_LITERALS = {"string": "a text", "number": "a number"}
_CONSTRUCTED = {"[": "an array", "{": "an object"}
_NEWER_OPERATORS = frozenset({"??", "?:"})
# Where the parser itself stumbles rather than says what is wrong; it then proves nothing about the text.
_STUMBLES = (TypeError, AttributeError, IndexError, re.error, UnboundLocalError)


@dataclass(slots=True)
class Expression:
    """What an expression reads and calls."""

    error: str = ""
    """Why it does not parse; empty if it does."""

    variables: set[str] = field(default_factory=set)
    """Names that it reads and does not bind itself, functions called included, `states` left out."""

    states: set[tuple[str, ...]] = field(default_factory=set)
    """The fields that it reads from $states; () for all of it, or for what only run time can tell."""

    top: set[str] = field(default_factory=set)
    """What it reads from the top level: field names, `$`, `$$`, `*`."""

    calls: set[tuple[str, int]] = field(default_factory=set)
    """Functions by name, with their numbers of arguments; what is handed on with ~> counts too."""

    sums_of_texts: set[str] = field(default_factory=set)
    """Arithmetic operators that stand beside a text."""

    bound: set[str] = field(default_factory=set)
    """Names that it binds itself."""

    constant: str = ""
    """The kind of value that it always has, where that is none of true, false and what only run time can tell."""

    newer: set[str] = field(default_factory=set)
    """Operators that the service's version does not have."""


@lru_cache(maxsize=4096)
def read_expression(text: str) -> Expression:
    """Parse the text between {% and %}."""
    found = Expression()
    try:
        tree = Parser().parse(text)
    except JException as error:
        found.error = _reason(error)
        return found
    except (KeyError, ValueError):
        found.error = "it has a character or word that JSONata does not know"
        return found
    except RecursionError:
        found.error = "it is nested too deeply"
        return found
    except _STUMBLES:
        return found
    found.newer = _newer_operators(text)
    found.constant = _constant(tree)
    _Walk(found).run(tree)
    found.variables -= found.bound
    return found


def _reason(error: JException) -> str:
    try:
        return " ".join(str(error).split()) or "syntax error"
    except _STUMBLES:
        return "syntax error"


def _constant(tree: object) -> str:
    while isinstance(tree, Parser.Symbol) and tree.type == "block" and len(tree.expressions or ()) == 1:
        tree = tree.expressions[0]
    if not isinstance(tree, Parser.Symbol) or (tree.predicate, tree.stages, tree.group) != (None, None, None):
        return ""
    if tree.type == "value":
        return "null" if tree.value is None else ""
    if tree.type == "unary":
        return _CONSTRUCTED.get(str(tree.value), "")
    return _LITERALS.get(str(tree.type), "")


def _newer_operators(text: str) -> set[str]:
    if not any(operator in text for operator in _NEWER_OPERATORS):
        return set()
    found: set[str] = set()
    tokens = Tokenizer(text)
    try:
        token = tokens.next(False)
        while token is not None:
            if token.type == "operator":
                found.add(str(token.value))
            # After a value a slash divides; before one it begins a regular expression.
            token = tokens.next(token.type != "operator" or token.value in {")", "]", "}"})
    except (JException, *_STUMBLES):
        return set()
    return found & _NEWER_OPERATORS


class _Walk:
    """Walks a tree; `here` says whether a context item exists at a node: within filters, steps and the like."""

    def __init__(self, found: Expression) -> None:
        self._found = found

    def run(self, tree: object) -> None:
        """Walk without recursion."""
        pending: list[tuple[object, bool]] = [(tree, False)]
        while pending:
            node, here = pending.pop()
            if isinstance(node, list | tuple):
                pending += [(element, here) for element in node]
            elif isinstance(node, Parser.Symbol):
                pending += self._visit(node, here=here)

    def _visit(self, node: Parser.Symbol, *, here: bool) -> Iterator[tuple[object, bool]]:
        for name in (node.focus, node.index):
            if isinstance(name, str):
                self._found.bound.add(name)
        handler = getattr(self, f"_visit_{node.type}", None) if isinstance(node.type, str) else None
        if handler is not None:
            yield from handler(node, here=here)
            # A predicate or group hangs on any kind of node, and has the items before it as its context.
            yield from self._attached(node)
            return
        yield from self._children(node, here=here)

    def _attached(self, node: Parser.Symbol) -> Iterator[tuple[object, bool]]:
        for stage in (*(node.stages or ()), *(node.predicate or ())):
            expression = getattr(stage, "expr", None)
            if expression is not None:
                yield expression, True
            if isinstance(getattr(stage, "value", None), str) and getattr(stage, "type", None) == "index":
                self._found.bound.add(stage.value)
        if node.group is not None:
            yield getattr(node.group, "lhs_object", None), True

    def _children(self, node: Parser.Symbol, *, here: bool) -> Iterator[tuple[object, bool]]:
        for part in ("lhs", "rhs", "expression", "expressions", "condition", "then", "_else", "lhs_object"):
            yield getattr(node, part), here
        for part in ("rhs_object", "rhs_terms", "arguments", "procedure", "body"):
            yield getattr(node, part), here
        for term in node.terms or ():
            yield term, True
        yield from self._attached(node)

    def _visit_path(self, node: Parser.Symbol, *, here: bool) -> Iterator[tuple[object, bool]]:
        steps = list(node.steps or ())
        if not steps:
            return
        first = steps[0]
        if first.type == "variable" and first.value == "states":
            self._found.states.add(_chain(steps))
            yield from self._attached(first)
        else:
            yield first, here
        for step in steps[1:]:
            yield step, True

    def _visit_name(self, node: Parser.Symbol, *, here: bool) -> Iterator[tuple[object, bool]]:
        if not here:
            self._found.top.add(str(node.value))
        return iter(())

    def _visit_wildcard(self, _node: Parser.Symbol, *, here: bool) -> Iterator[tuple[object, bool]]:
        if not here:
            self._found.top.add("*")
        return iter(())

    _visit_descendant = _visit_wildcard

    def _visit_variable(self, node: Parser.Symbol, *, here: bool) -> Iterator[tuple[object, bool]]:
        name = str(node.value)
        if name == "states":
            self._found.states.add(())
        elif name == "$":
            self._found.top.add("$$")
        elif name == "":
            if not here:
                self._found.top.add("$")
        else:
            self._found.variables.add(name)
        return iter(())

    def _visit_bind(self, node: Parser.Symbol, *, here: bool) -> Iterator[tuple[object, bool]]:
        self._found.bound.add(str(node.lhs.value))
        yield node.rhs, here

    def _visit_lambda(self, node: Parser.Symbol, *, here: bool) -> Iterator[tuple[object, bool]]:
        for parameter in node.arguments or ():
            self._found.bound.add(str(parameter.value))
        yield node.body, here

    def _visit_function(self, node: Parser.Symbol, *, here: bool) -> Iterator[tuple[object, bool]]:
        procedure = node.procedure
        if procedure is not None and procedure.type == "variable":
            self._found.calls.add((str(procedure.value), len(node.arguments or ())))
        yield procedure, here
        yield node.arguments, here

    def _visit_apply(self, node: Parser.Symbol, *, here: bool) -> Iterator[tuple[object, bool]]:
        yield node.lhs, here
        called = node.rhs
        if called is None or called.type != "function" or called.procedure is None:
            yield called, here
            return
        if called.procedure.type == "variable":
            self._found.calls.add((str(called.procedure.value), len(called.arguments or ()) + 1))
        yield called.procedure, here
        yield called.arguments, here
        yield from self._attached(called)

    def _visit_binary(self, node: Parser.Symbol, *, here: bool) -> Iterator[tuple[object, bool]]:
        if node.value in _ARITHMETIC and "string" in (getattr(node.lhs, "type", ""), getattr(node.rhs, "type", "")):
            self._found.sums_of_texts.add(str(node.value))
        yield node.lhs, here
        yield node.rhs, here

    def _visit_partial(self, node: Parser.Symbol, *, here: bool) -> Iterator[tuple[object, bool]]:
        yield node.procedure, here
        yield node.arguments, here

    def _visit_transform(self, node: Parser.Symbol, *, here: bool) -> Iterator[tuple[object, bool]]:
        del here  # a transform has the object that it is applied to
        yield node.pattern, True
        yield node.update, True
        yield node.delete, True


def _chain(steps: list[Parser.Symbol]) -> tuple[str, ...]:
    """The fields named outright after $states."""
    if steps[0].stages or steps[0].predicate:
        return ()
    names: list[str] = []
    for step in steps[1:]:
        if step.type != "name":
            break
        names.append(str(step.value))
        if step.stages:
            break
    return tuple(names)


def arity(function: str) -> tuple[int, int | None]:
    """How many arguments a built-in function takes at least and at most."""
    return _FEWEST.get(function, 0), _BUILT_IN[function]
