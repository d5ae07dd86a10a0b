"""The ways between states: where each leads, what it reaches, whether anything ever ends."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from statemachine.rules.findings import Place, Report, pointer
from statemachine.rules.machine import Machine, State
from statemachine.rules.values import choice_of, has_placeholder, is_number, kind, objects, shown, suggestion

TERMINAL_TYPES = frozenset({"Succeed", "Fail"})
WITHOUT_NEXT = frozenset({"Choice", "Succeed", "Fail"})
NAME_LIMIT = 80


@dataclass(frozen=True, slots=True)
class Way:
    """One way out of a state."""

    target: object
    place: Place
    assign: object
    """The Assign that is evaluated when this way is taken."""

    caught: bool


def ways(state: State) -> Iterator[Way]:
    """All ways out of a state, those included that lead nowhere."""
    body, own = state.body, state.body.get("Assign")
    if "Next" in body and state.type not in WITHOUT_NEXT:
        yield Way(body["Next"], (*state.place, "Next"), own, caught=False)
    if state.type == "Choice":
        if "Default" in body:
            yield Way(body["Default"], (*state.place, "Default"), own, caught=False)
        for index, rule in objects(body.get("Choices")):
            if "Next" in rule:
                yield Way(rule["Next"], (*state.place, "Choices", index, "Next"), rule.get("Assign"), caught=False)
    if state.type in {"Task", "Parallel", "Map"}:
        for index, catcher in objects(body.get("Catch")):
            if "Next" in catcher:
                yield Way(catcher["Next"], (*state.place, "Catch", index, "Next"), catcher.get("Assign"), caught=True)


def is_terminal(state: State) -> bool:
    """Whether a machine ends here."""
    return state.type in TERMINAL_TYPES or state.body.get("End") is True


def successors(machine: Machine, name: str) -> list[str]:
    """The states of the machine that a state leads to."""
    state = machine.states.get(name)
    return [] if state is None else [w.target for w in ways(state) if isinstance(w.target, str)]


def leads_on(machine: Machine, name: str) -> bool:
    """Whether a state has at least one way that ends in a state."""
    return any(target in machine.states for target in successors(machine, name))


def reachable(machine: Machine) -> set[str]:
    """The states that an execution can come to."""
    start = machine.body.get("StartAt")
    found: set[str] = set()
    pending = [start] if isinstance(start, str) else []
    while pending:
        name = pending.pop()
        if name in machine.states and name not in found:
            found.add(name)
            pending.extend(successors(machine, name))
    return found


def is_open(machine: Machine) -> bool:
    """Whether some targets are not known before a substitution, so that nothing can be said of reachability."""
    targets = [machine.body.get("StartAt"), *(way.target for state in machine.states.values() for way in ways(state))]
    return any(has_placeholder(target) for target in targets)


def check_flow(whole: Machine, report: Report) -> None:
    """All rules about ways, in every machine of a definition."""
    _check_names(whole, report)
    everywhere = {name for machine in whole.nested() for name in machine.states}
    for machine in whole.nested():
        _check_start(machine, report)
        for state in machine.states.values():
            _check_targets(machine, state, everywhere, report)
            _check_next_and_end(state, report)
        if machine.states and not is_open(machine):
            _check_reachability(machine, report)
    _check_waits(whole, report)


def _check_names(whole: Machine, report: Report) -> None:
    seen: dict[str, Place] = {}
    for machine in whole.nested():
        for name, state in machine.states.items():
            if not 1 <= len(name) <= NAME_LIMIT and not has_placeholder(name):
                problem = f"the name has {len(name)} characters, {NAME_LIMIT} are allowed"
                report.add("A201", state.place, problem, f"name the state with 1 to {NAME_LIMIT} characters")
            if name in seen:
                problem = f"another state is named {shown(name)}, at {pointer(seen[name])}"
                report.add("A202", state.place, problem, "name each state of the definition differently, branches too")
            seen.setdefault(name, state.place)


def _check_start(machine: Machine, report: Report) -> None:
    start = machine.body.get("StartAt")
    if not isinstance(start, str) or start in machine.states or has_placeholder(start) or not machine.states:
        return
    mend = _name_instead(start, machine)
    report.add("A301", (*machine.place, "StartAt"), f"there is no state {shown(start)} here", mend)


def _name_instead(name: str, machine: Machine) -> str:
    near = suggestion(name, machine.states)
    return f"write {shown(near)}" if near else f"write one of {choice_of(machine.states)}"


def _check_targets(machine: Machine, state: State, everywhere: set[str], report: Report) -> None:
    for way in ways(state):
        if not isinstance(way.target, str):
            report.add("A101", way.place, f"a target is a state's name, not {kind(way.target)}", "write a name")
            continue
        if way.target in machine.states or has_placeholder(way.target):
            continue
        problem = f"there is no state {shown(way.target)} in this machine"
        if way.target in everywhere:
            problem = f"the state {shown(way.target)} is in another machine: no way leads into a branch or out of it"
        report.add("A303" if way.caught else "A302", way.place, problem, _name_instead(way.target, machine))


def _check_next_and_end(state: State, report: Report) -> None:
    if not state.type or state.type in WITHOUT_NEXT:
        return
    end = state.body.get("End")
    if "End" in state.body and not isinstance(end, bool):
        report.add("A101", (*state.place, "End"), f"End is true, not {shown(end)}", "write true, or Next instead")
        return
    if end is True and "Next" in state.body:
        report.add("A305", state.place, "the state has both Next and End", "keep one of them")
    elif end is not True and "Next" not in state.body:
        report.add("A304", state.place, "the state says not what comes next", 'add "Next", or "End": true')


def _check_reachability(machine: Machine, report: Report) -> None:
    start = machine.body.get("StartAt")
    if not isinstance(start, str) or start not in machine.states:
        return
    found = reachable(machine)
    for name, state in machine.states.items():
        if name not in found:
            mend = "lead a Next, Default or Catch to it, or drop it"
            report.add("A306", state.place, "no way leads to this state", mend)
    ending = _ending(machine)
    if not found & ending:
        mend = 'let a state that is reached have "End": true, or be a Succeed or Fail'
        report.add("A307", (*machine.place, "States"), "no state that ends this machine can be reached", mend)
        return
    trapped = sorted(found - ending)
    if trapped:
        problem = f"once here, an execution goes round {choice_of(trapped)} until its history is full"
        report.add("W301", machine.states[trapped[0]].place, problem, "add a way out")


def _check_waits(whole: Machine, report: Report) -> None:
    limit = whole.body.get("TimeoutSeconds")
    for state in whole.states.values():
        seconds = state.body.get("Seconds")
        if state.type == "Wait" and is_number(seconds) and is_number(limit) and seconds >= limit:
            problem = f"the machine has timed out after {limit} s, before this wait of {seconds} s is over"
            report.add("W302", (*state.place, "Seconds"), problem, "wait for less, or raise the TimeoutSeconds")


def _ending(machine: Machine) -> set[str]:
    """The states from which some way leads to an end."""
    before: dict[str, set[str]] = {}
    for name in machine.states:
        for target in successors(machine, name):
            before.setdefault(target, set()).add(name)
    found: set[str] = set()
    # A state that leads nowhere has its own finding already.
    pending = [name for name, state in machine.states.items() if is_terminal(state) or not leads_on(machine, name)]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending.extend(before.get(name, ()))
    return found


def assigned_names(assign: object) -> set[str]:
    """The variables that an Assign gives a value, in either language's spelling."""
    return {key.removesuffix(".$") for key in assign} if isinstance(assign, Mapping) else set()
