"""The machines within a definition: the whole, the branches of its Parallels, the processors of its Maps."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from statemachine.rules.findings import Place
from statemachine.rules.values import objects

STATE_TYPES = frozenset({"Task", "Pass", "Choice", "Wait", "Succeed", "Fail", "Parallel", "Map"})
PROCESSORS = ("ItemProcessor", "Iterator")


class Language(StrEnum):
    """In which language a state's expressions are written."""

    JSONPATH = "JSONPath"
    JSONATA = "JSONata"


class Role(StrEnum):
    """Where a machine stands in its definition."""

    WHOLE = "definition"
    BRANCH = "branch"
    PROCESSOR = "processor"


@dataclass(frozen=True, slots=True)
class State:
    """One state, as far as it can be read."""

    name: str
    body: Mapping[str, object]
    place: Place
    type: str
    """Empty where Type is missing or unknown: then only the rules for all states apply."""

    language: Language
    in_map: bool
    """Whether a Map runs it, however far outside."""

    machines: tuple["Machine", ...]

    @property
    def jsonata(self) -> bool:
        """Whether its expressions are JSONata."""
        return self.language is Language.JSONATA

    @property
    def distributed(self) -> bool:
        """Whether it is a Map whose iterations are executions of their own."""
        return self.type == "Map" and any(mode(machine.body) == "DISTRIBUTED" for machine in self.machines)


@dataclass(frozen=True, slots=True)
class Machine:
    """A StartAt and the states that it can lead to."""

    role: Role
    body: Mapping[str, object]
    place: Place
    states: dict[str, State]

    def nested(self) -> Iterator["Machine"]:
        """This machine and all within it."""
        yield self
        for state in self.states.values():
            for machine in state.machines:
                yield from machine.nested()


def mode(processor: Mapping[str, object]) -> object:
    """The processor's declared mode, if any."""
    config = processor.get("ProcessorConfig")
    return config.get("Mode") if isinstance(config, Mapping) else None


def read_machine(definition: Mapping[str, object]) -> Machine:
    """The definition as machines and states; what is no object is left to the rules that say so."""
    whole = definition.get("QueryLanguage")
    language = Language.JSONATA if whole == Language.JSONATA else Language.JSONPATH
    return _machine(Role.WHOLE, definition, (), language, in_map=False)


def _machine(role: Role, body: Mapping[str, object], place: Place, language: Language, *, in_map: bool) -> Machine:
    found = body.get("States")
    states = {
        name: _state(name, state, (*place, "States", name), language, in_map=in_map)
        for name, state in (found.items() if isinstance(found, Mapping) else ())
        if isinstance(state, Mapping)
    }
    return Machine(role, body, place, states)


def _state(name: str, body: Mapping[str, object], place: Place, language: Language, *, in_map: bool) -> State:
    declared = body.get("Type")
    kind = declared if isinstance(declared, str) and declared in STATE_TYPES else ""
    own = next((each for each in Language if each == body.get("QueryLanguage")), language)
    # A state's own QueryLanguage says nothing about the states inside it: those have the definition's.
    machines = tuple(_inner(kind, body, place, language, in_map=in_map))
    return State(name, body, place, kind, own, in_map, machines)


def _inner(
    kind: str, body: Mapping[str, object], place: Place, language: Language, *, in_map: bool
) -> Iterator[Machine]:
    if kind == "Parallel":
        for index, branch in objects(body.get("Branches")):
            yield _machine(Role.BRANCH, branch, (*place, "Branches", index), language, in_map=in_map)
    if kind == "Map":
        for field in PROCESSORS:
            processor = body.get(field)
            if isinstance(processor, Mapping):
                yield _machine(Role.PROCESSOR, processor, (*place, field), language, in_map=True)
