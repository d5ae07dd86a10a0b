"""Variables: which are assigned on some way to a state, and who may assign which."""

import re
from collections.abc import Iterator, Mapping

from statemachine.rules.expressions import Located, is_called, unknown_names
from statemachine.rules.findings import Place, Report
from statemachine.rules.flow import assigned_names, is_open, reachable, ways
from statemachine.rules.jsonata import FUNCTIONS
from statemachine.rules.machine import Machine, State
from statemachine.rules.payloads import Use, plain_texts
from statemachine.rules.values import choice_of, has_placeholder, objects, shown, suggestion

RESERVED = frozenset({"states"})
_NAME = re.compile(r"[^\W\d]\w*")
_NAME_LIMIT = 80
_READ = re.compile(r"\$([^\W\d]\w*)[\w.\[\]]*")

Reads = Mapping[Place, list[Use] | list[Located]]
"""Per state, by its place: the paths or expressions that it reads."""


def check_variables(whole: Machine, reads: Reads, report: Report) -> None:
    """All rules about variables, in every machine of a definition."""
    for machine in whole.nested():
        for state in machine.states.values():
            for assign, place in _assigns(state):
                _check_names(assign, place, report)
    everywhere = {name for machine in whole.nested() for name in _assigned_in(machine)}
    if not any(is_open(machine) for machine in whole.nested()):
        _Scope(reads, everywhere, report).check(whole, frozenset(), frozenset())


def _assigns(state: State) -> Iterator[tuple[Mapping[str, object], Place]]:
    own = state.body.get("Assign")
    if isinstance(own, Mapping):
        yield own, (*state.place, "Assign")
    for field in ("Catch", "Choices"):
        for index, holder in objects(state.body.get(field)):
            assign = holder.get("Assign")
            if isinstance(assign, Mapping):
                yield assign, (*state.place, field, index, "Assign")


def _assigned_in(machine: Machine) -> set[str]:
    return {
        name for state in machine.states.values() for assign, _ in _assigns(state) for name in assigned_names(assign)
    }


def _check_names(assign: Mapping[str, object], place: Place, report: Report) -> None:
    for key in assign:
        name = key.removesuffix(".$")
        if has_placeholder(name):
            continue
        if name in RESERVED:
            report.add("A802", (*place, key), f"{shown(name)} is reserved", "assign another name")
        elif _NAME.fullmatch(name) is None:
            problem = f"{shown(name)} is no variable's name"
            report.add("A803", (*place, key), problem, "write letters, digits and _, beginning with a letter")
        elif len(name) > _NAME_LIMIT:
            problem = f"the name has {len(name)} characters, {_NAME_LIMIT} are allowed"
            report.add("A803", (*place, key), problem, "write a shorter one")


class _Scope:
    """Follows what is assigned through the machines, from outside in."""

    def __init__(self, reads: Reads, everywhere: set[str], report: Report) -> None:
        self._reads = reads
        self._everywhere = everywhere
        self._report = report

    def check(self, machine: Machine, outer: frozenset[str], hidden: frozenset[str]) -> None:
        """`outer` are the variables visible from around the machine, `hidden` those a Distributed Map cuts off."""
        before = _before(machine)
        for name in reachable(machine):
            state = machine.states[name]
            visible = outer | before[name]
            for variable, place, called in self._read(state):
                if variable not in visible:
                    self._missing(variable, place, visible, hidden, called=called)
            self._check_outer(state, outer)
            self._check_plain(state)
            for inner in state.machines:
                if state.distributed:
                    self.check(inner, frozenset(), hidden | visible)
                else:
                    self.check(inner, visible, hidden)

    def _read(self, state: State) -> Iterator[tuple[str, Place, bool]]:
        for item in self._reads.get(state.place, ()):
            if isinstance(item, Use):
                if not item.path.root.startswith("$"):
                    yield item.path.root, item.place, False
            else:
                for name in sorted(unknown_names(item.expression)):
                    yield name, item.place, is_called(item.expression, name)

    def _missing(
        self, name: str, place: Place, visible: frozenset[str], hidden: frozenset[str], *, called: bool
    ) -> None:
        if called and name not in self._everywhere:
            near = suggestion(name, FUNCTIONS)
            mend = f"write ${near}" if near else "define it, or use one of JSONata's"
            self._report.add("A706", place, f"there is no function ${name}", mend)
        elif name in hidden:
            problem = f"${name} is not visible here: a Distributed Map's states run in executions of their own"
            self._report.add("A808", place, problem, "pass it on with ItemSelector or BatchInput")
        else:
            later = name in self._everywhere
            problem = f"${name} is read, and {'no state before assigns it' if later else 'no state assigns it'}"
            near = suggestion(name, visible | FUNCTIONS if called else visible)
            fallback = f"there are {choice_of(visible)}" if visible else "Assign it in a state before"
            self._report.add("A801", place, problem, f"write ${near}" if near else fallback)

    def _check_plain(self, state: State) -> None:
        """A text that is nothing but a variable's name, where nothing evaluates it."""
        for place, text in plain_texts(state):
            match = _READ.fullmatch(text)
            if match and match.group(1) in self._everywhere:
                code, mend = ("W701", f'write "{{% {text} %}}"') if state.jsonata else ("W601", "append .$ to the key")
                self._report.add(code, place, f"{shown(text)} is taken as these characters, not read", mend)

    def _check_outer(self, state: State, outer: frozenset[str]) -> None:
        for assign, place in _assigns(state):
            for key in assign:
                if key.removesuffix(".$") in outer:
                    problem = f"{key.removesuffix('.$')} is a variable of the machine around this one"
                    mend = "assign another name, and give the value back as this machine's output"
                    self._report.add("A804", (*place, key), problem, mend)


def _before(machine: Machine) -> dict[str, frozenset[str]]:
    """Per state, the variables that some way from the start assigns before it."""
    found: dict[str, set[str]] = {name: set() for name in machine.states}
    pending = list(reachable(machine))
    live = set(pending)
    while pending:
        name = pending.pop()
        for way in ways(machine.states[name]):
            if isinstance(way.target, str) and way.target in live:
                arriving = found[name] | assigned_names(way.assign)
                if not arriving <= found[way.target]:
                    found[way.target] |= arriving
                    pending.append(way.target)
    return {name: frozenset(names) for name, names in found.items()}
