"""What a transition is: one conditional write to a request, as a value, and how it is written out.

Notation of an expression: ``#name`` is an attribute, ``#step`` the step at hand, ``:UPPER`` the word itself (a
status), ``:n0`` and ``:n1`` numbers, ``:empty`` an empty map, ``:yes`` true, and any other ``:name`` a parameter whose
type is in PARAMETERS. ``{}`` in an ``each_*`` expression stands for each of the steps that the caller names; ``:empty``
there is a value of its own for each, because the emulator makes one map of all places that one value is written to.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from handlers.core.states import VERIFY_STEP, Status

PARAMETERS: Mapping[str, str] = {
    "attempt": "N",
    "attempt_base": "N",
    "batch": "M",
    "definition": "S",
    "deleted": "M",
    "due_at": "N",
    "due_before": "N",
    "error": "M",
    "expires_at": "N",
    "failures": "N",
    "fence": "N",
    "fence_after": "N",
    "id": "S",
    "linked": "L",
    "me": "S",
    "now": "N",
    "owner": "S",
    "receipt": "S",
    "rounds": "N",
    "seq": "N",
    "seq_before": "N",
    "status": "S",
    "step_dead": "N",
    "subject": "S",
    "undo_dead": "N",
}
"""Parameter -> DynamoDB type. Times are epoch seconds. For `expires_at`, None is "for ever": it becomes a NULL, which
TTL passes by (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/howitworks-ttl.html)."""

_CONSTANTS: Mapping[str, Mapping[str, object]] = {
    "n0": {"N": "0"},
    "n1": {"N": "1"},
    "empty": {"M": {}},
    "yes": {"BOOL": True},
}
_NAME = re.compile(r"#([A-Za-z_][A-Za-z0-9_]*)")
_VALUE = re.compile(r":([A-Za-z_][A-Za-z0-9_]*)")


class RunsIn(StrEnum):
    """Who makes the write."""

    GRAPH = "graph"
    LAMBDA = "lambda"


@dataclass(frozen=True, slots=True)
class Clause:
    """One condition with its reason."""

    text: str
    """A DynamoDB condition in the module's notation."""
    reason: str
    """What goes wrong without it."""


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of the alternatives holds; each alternative is a list of clauses that all hold."""

    alternatives: tuple[tuple[Clause, ...], ...]


Condition = tuple[Clause | AnyOf, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """What is written to the user's guard: together with the request, or by itself where no request is concerned."""

    condition: Condition
    """All of them must hold."""
    set: tuple[str, ...] = ()
    """Neither this nor `remove`: the guard is only looked at, in the same transaction."""
    remove: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One conditional write to a request."""

    name: str
    """The standard word for it; the same in code, docs and runbook."""
    moves: tuple[tuple[Status | None, Status], ...]
    """Each (from, to) that it may make; None: the record does not exist yet."""
    runs_in: RunsIn
    condition: Condition
    """All of them must hold."""
    set: tuple[str, ...] = ()
    """Absolute values; only fence, failures and invocations count up in place."""
    remove: tuple[str, ...] = ()
    each_condition: tuple[str, ...] = ()
    each_set: tuple[str, ...] = ()
    each_remove: tuple[str, ...] = ()
    mine: Mapping[str, str | None] = field(default_factory=dict)
    """Path in the record -> parameter (or :WORD) that it equals once this same write was applied; None: it is absent
    then. Empty: the condition still holds after the write, so repeating it is harmless."""
    guard: Guard | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A transition's expressions for one caller, ready for either carrier."""

    condition: str
    update: str
    names: Mapping[str, str]
    constants: Mapping[str, Mapping[str, object]]
    """``:name`` -> typed value, for the words and numbers that are always the same."""
    parameters: frozenset[str]
    """What the caller must give, without the colon."""


def render(
    transition: Transition, *, step: str | None = None, each: Iterable[str] = (), known: Iterable[str] = ()
) -> Rendered:
    """Write out the request side of a transition.

    Args:
        transition: which write.
        step: the step at hand, for ``#step``.
        each: step names for the ``each_*`` expressions.
        known: further step names for ``each_remove`` alone: steps of the record that are in no list any more.
    """
    aliases = {f"e{number}": name for number, name in enumerate(each)}
    old = {f"k{number}": name for number, name in enumerate(sorted(set(known) - set(aliases.values())))}
    condition = _both(
        _conjunction(transition.condition), *_spread(transition.each_condition, aliases, joined_by=" AND ")
    )
    sets = [*transition.set, *_spread(transition.each_set, aliases)]
    removes = [*transition.remove, *_spread(transition.each_remove, {**aliases, **old})]
    return _rendered(condition, sets, removes, {**aliases, **old}, step)


def render_guard(guard: Guard) -> Rendered:
    """Write out the guard side of a transition."""
    return _rendered(_conjunction(guard.condition), list(guard.set), list(guard.remove), {}, None)


def _rendered(
    condition: str, sets: list[str], removes: list[str], aliases: Mapping[str, str], step: str | None
) -> Rendered:
    update = " ".join(
        part
        for part in (f"SET {', '.join(sets)}" if sets else "", f"REMOVE {', '.join(removes)}" if removes else "")
        if part
    )
    text = f"{condition} {update}"
    fixed = {**aliases, "verify": VERIFY_STEP, **({"step": step} if step else {})}
    names = {f"#{name}": fixed.get(name, name) for name in sorted(set(_NAME.findall(text)))}
    used = set(_VALUE.findall(text))
    parameters = frozenset(used & PARAMETERS.keys())
    constants = {f":{word}": _constant(word) for word in sorted(used - parameters)}
    return Rendered(condition=condition, update=update, names=names, constants=constants, parameters=parameters)


def _constant(word: str) -> Mapping[str, object]:
    return _CONSTANTS.get(word.partition("_")[0], {"S": word})


def _conjunction(condition: Condition) -> str:
    return _both(*(_one(part) for part in condition))


def _both(*parts: str) -> str:
    return " AND ".join(part for part in parts if part)


def _one(part: Clause | AnyOf) -> str:
    if isinstance(part, Clause):
        return part.text
    return "(" + " OR ".join(f"({_conjunction(alternative)})" for alternative in part.alternatives) + ")"


def _spread(templates: tuple[str, ...], aliases: Mapping[str, str], joined_by: str = "") -> list[str]:
    lines = [
        template.replace("{}", f"#{alias}").replace(":empty", f":empty_{alias}")
        for template in templates
        for alias in aliases
    ]
    return [joined_by.join(lines)] if joined_by and lines else lines
