"""The tables of docs/architecture.md and the picture of README.md, made from the code they tell about."""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from handlers.core import errors, metrics
from handlers.core.transition import AnyOf, Clause, Condition, Transition
from handlers.core.transitions import ALL
from statemachine import diagram, rules
from statemachine.plan import Plan

_MARKED = "<!-- generated: {0} -->\n{1}<!-- end of {0} -->"
_BETWEEN = r"<!-- generated: {0} -->\n.*?<!-- end of {0} -->"


def transitions(_: Plan) -> str:
    """Every conditional write: who makes it, from where to where, and under which condition."""
    rows = [
        (one.name, str(one.runs_in), _moves(one), _condition(one.condition, one.each_condition), _effect(one))
        for one in ALL
    ]
    return _table(("transition", "in", "moves", "condition", "effect"), rows)


def reasons(_: Plan) -> str:
    """Every clause once, with what goes wrong without it."""
    clauses = {clause.text: clause.reason for one in ALL for clause in _clauses(one.condition)}
    return _table(("clause", "without it"), [(f"`{text}`", reason) for text, reason in sorted(clauses.items())])


def error_classes(_: Plan) -> str:
    """Every error class with the first sentence of its docstring."""
    rows = [
        (f"`{one.__name__}`", f"`{one.__mro__[1].__name__}`", _first_sentence(one))
        for _, one in inspect.getmembers(errors, inspect.isclass)
        if issubclass(one, errors.DeletionError)
    ]
    return _table(("error", "kind", "meaning"), rows)


def rule_codes(_: Plan) -> str:
    """Every rule of the definition's validator."""
    rows = [(code, str(rule.severity), rule.title) for code, rule in sorted(rules.CATALOGUE.items())]
    return _table(("code", "severity", "rule"), rows)


def metric_names(_: Plan) -> str:
    """Every metric that the functions send."""
    rows = [
        (f"`{one.name}`", str(one.unit), ", ".join(one.dimensions) or "-", one.meaning, _files(one.sent_by))
        for one in metrics.ALL
    ]
    return _table(("metric", "unit", "by", "one value says", "sent by"), rows)


def picture(plan: Plan) -> str:
    """The diagram as a fenced block."""
    return f"```mermaid\n{diagram.mermaid(plan)}```\n"


GENERATED: Mapping[str, Callable[[Plan], str]] = {
    "transitions": transitions,
    "reasons": reasons,
    "errors": error_classes,
    "rules": rule_codes,
    "metrics": metric_names,
    "picture": picture,
}
"""Name of a marked place in a document -> what makes its text."""


def refreshed(document: str, plan: Plan) -> str:
    """The document with each of its marked places written anew."""
    for name, make in GENERATED.items():
        text = _MARKED.format(name, make(plan))
        # A text is no pattern: its backslashes stay as they are.
        document = re.sub(_BETWEEN.format(name), text.replace("\\", r"\\"), document, flags=re.DOTALL)
    return document


def _files(modules: Iterable[str]) -> str:
    return "<br>".join(f"`{module.replace('.', '/')}.py`" for module in modules)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _moves(transition: Transition) -> str:
    moves = [f"{before or '-'} → {after}" for before, after in transition.moves]
    return "<br>".join(moves)


def _condition(condition: Condition, each: tuple[str, ...]) -> str:
    parts = [_shown(part) for part in condition] + [f"each step: {text}" for text in each]
    return "<br>".join(f"`{part}`" for part in parts)


def _shown(part: Clause | AnyOf) -> str:
    if isinstance(part, Clause):
        return part.text
    return " OR ".join(" AND ".join(_shown(clause) for clause in alternative) for alternative in part.alternatives)


def _clauses(condition: Iterable[Clause | AnyOf]) -> list[Clause]:
    found: list[Clause] = []
    for part in condition:
        if isinstance(part, Clause):
            found.append(part)
        else:
            found += [clause for alternative in part.alternatives for clause in _clauses(alternative)]
    return found


def _effect(transition: Transition) -> str:
    parts = [*transition.set, *(f"each step: {text}" for text in transition.each_set)]
    removed = [*transition.remove, *(f"each step: {text}" for text in transition.each_remove)]
    lines = [f"`{part}`" for part in parts] + [f"without `{part}`" for part in removed]
    if transition.guard is not None:
        guard = [*transition.guard.set, *(f"without {part}" for part in transition.guard.remove)]
        lines.append(f"guard: `{', '.join(guard)}`")
    return "<br>".join(lines) or "the whole record"


def _first_sentence(one: type) -> str:
    text = " ".join((inspect.getdoc(one) or "").split())
    return text.split(". ")[0].rstrip(".") + "."
