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

    express: bool
    """Whether it runs in an EXPRESS execution that a Distributed Map starts."""

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


def _starts_express(processor: Mapping[str, object], *, outside: bool) -> bool:
    """Whether a processor's states run in an EXPRESS execution, with `outside` for the Map itself."""
    config = processor.get("ProcessorConfig")
    if not isinstance(config, Mapping) or config.get("Mode") != "DISTRIBUTED":
        return outside
    return config.get("ExecutionType") == "EXPRESS"


@dataclass(frozen=True, slots=True)
class _Around:
    """What a machine's surroundings say of its states."""

    language: Language
    in_map: bool = False
    express: bool = False


def read_machine(definition: Mapping[str, object]) -> Machine:
    """The definition as machines and states; what is no object is left to the rules that say so."""
    whole = definition.get("QueryLanguage")
    language = Language.JSONATA if whole == Language.JSONATA else Language.JSONPATH
    return _machine(Role.WHOLE, definition, (), _Around(language))


def _machine(role: Role, body: Mapping[str, object], place: Place, around: _Around) -> Machine:
    found = body.get("States")
    states = {
        name: _state(name, state, (*place, "States", name), around)
        for name, state in (found.items() if isinstance(found, Mapping) else ())
        if isinstance(state, Mapping)
    }
    return Machine(role, body, place, states)


def _state(name: str, body: Mapping[str, object], place: Place, around: _Around) -> State:
    declared = body.get("Type")
    kind = declared if isinstance(declared, str) and declared in STATE_TYPES else ""
    own = next((each for each in Language if each == body.get("QueryLanguage")), around.language)
    # A state's own QueryLanguage says nothing about the states inside it: those have the definition's.
    machines = tuple(_inner(kind, body, place, around))
    return State(name, body, place, kind, own, around.in_map, around.express, machines)


def _inner(kind: str, body: Mapping[str, object], place: Place, around: _Around) -> Iterator[Machine]:
    if kind == "Parallel":
        for index, branch in objects(body.get("Branches")):
            yield _machine(Role.BRANCH, branch, (*place, "Branches", index), around)
    if kind == "Map":
        for field in PROCESSORS:
            processor = body.get(field)
            if isinstance(processor, Mapping):
                express = _starts_express(processor, outside=around.express)
                inside = _Around(around.language, in_map=True, express=express)
                yield _machine(Role.PROCESSOR, processor, (*place, field), inside)
