"""Runs all rules over one definition."""

import json
from collections.abc import Mapping

from statemachine.rules.catalogue import CATALOGUE
from statemachine.rules.choices import check_choice
from statemachine.rules.context import check_context
from statemachine.rules.express import check_express
from statemachine.rules.expressions import Located, read_expressions
from statemachine.rules.failures import check_fail, check_failures, raised_errors
from statemachine.rules.fields import check_machine, check_state
from statemachine.rules.findings import Finding, Place, Report
from statemachine.rules.flow import check_flow
from statemachine.rules.machine import State, read_machine
from statemachine.rules.maps import check_labels, check_map, check_parallel
from statemachine.rules.payloads import Use, read_paths
from statemachine.rules.tasks import check_task
from statemachine.rules.values import depth_exceeds
from statemachine.rules.variables import check_variables

SIZE_LIMIT = 1_048_576
_DEPTH_LIMIT = 200


def validate(definition: Mapping[str, object], *, size: int | None = None) -> tuple[Finding, ...]:
    """Check a definition against every rule.

    Args:
        definition: the parsed JSON; any JSON is answered with findings, never with an exception.
        size: the length of the text that is sent to the service, if it is known; otherwise the shortest one counts.

    Returns:
        All findings together, errors first; empty where the definition is fine.
    """
    report = Report(CATALOGUE)
    if not isinstance(definition, Mapping):
        report.add("A101", (), "a definition is an object", "write an object with StartAt and States")
        return report.findings()
    if depth_exceeds(definition, _DEPTH_LIMIT):
        report.add("A110", (), f"it is nested deeper than {_DEPTH_LIMIT} levels", "split it into several machines")
        return report.findings()
    _check_size(definition, size, report)
    _check_machines(definition, report)
    return report.findings()


def _check_size(definition: Mapping[str, object], size: int | None, report: Report) -> None:
    # Placeholders are filled in later, so that the service's count may still be another.
    length = len(json.dumps(definition, separators=(",", ":"), ensure_ascii=False)) if size is None else size
    if length > SIZE_LIMIT:
        problem = f"the definition has {length} characters, {SIZE_LIMIT} are allowed"
        report.add("A109", (), problem, "split it into several machines")


def _check_machines(definition: Mapping[str, object], report: Report) -> None:
    whole = read_machine(definition)
    language = read_machine({**definition, "States": {"": {"Type": "Pass"}}}).states[""].language
    raised = raised_errors(whole)
    reads: dict[Place, list[Use] | list[Located]] = {}
    for machine in whole.nested():
        check_machine(machine, report)
        for state in machine.states.values():
            check_state(state, language, report)
            reads[state.place] = _check_contents(state, raised, report)
    check_flow(whole, report)
    check_labels(whole, report)
    check_variables(whole, reads, report)


def _check_contents(state: State, raised: frozenset[str], report: Report) -> list[Use] | list[Located]:
    """What only some types of states have; answers with what the state reads."""
    if state.type == "Choice":
        check_choice(state, report)
    elif state.type == "Parallel":
        check_parallel(state, report)
    elif state.type == "Map":
        check_map(state, report)
    check_express(state, report)
    check_failures(state, raised, report)
    check_fail(state, report)
    if state.jsonata:
        expressions = read_expressions(state, report)
        if state.type == "Task":
            check_task(state, expressions, report)
        return expressions
    paths = read_paths(state, report)
    for use in paths:
        if use.path.root == "$$":
            check_context(state, use.path.names, use.place, report)
    if state.type == "Task":
        check_task(state, paths, report)
    return paths
