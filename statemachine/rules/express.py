"""What the EXPRESS children of a Distributed Map cannot do: wait for jobs, tokens or activities, start Map runs."""

from statemachine.rules.findings import Place, Report
from statemachine.rules.integrations import CALLBACK, SYNC, SYNC_2
from statemachine.rules.machine import PROCESSORS, State, mode
from statemachine.rules.values import fill_placeholders

_WAITING = (CALLBACK, SYNC_2, SYNC)
_MEND = "write STANDARD as the ExecutionType of the Map around it, or move it outside"


def check_express(state: State, report: Report) -> None:
    """All rules for one state that runs in an EXPRESS execution; others have nothing to fear."""
    if not state.express:
        return
    if state.type == "Task":
        _check_resource(state.body.get("Resource"), (*state.place, "Resource"), report)
    if state.distributed:
        for field in PROCESSORS:
            if any(machine.place[-1] == field and mode(machine.body) == "DISTRIBUTED" for machine in state.machines):
                place = (*state.place, field, "ProcessorConfig", "Mode")
                report.add("A216", place, "an EXPRESS execution cannot run a Distributed Map", _MEND)


def _check_resource(resource: object, place: Place, report: Report) -> None:
    if not isinstance(resource, str):
        return
    parts = fill_placeholders(resource, "").split(":", 5)
    if len(parts) < 6 or parts[2] != "states":
        return
    if parts[5].startswith("activity:"):
        report.add("A216", place, "an EXPRESS execution cannot wait for an activity", _MEND)
        return
    pattern = next((each for each in _WAITING if parts[5].endswith(each)), "")
    if pattern:
        report.add("A216", place, f"an EXPRESS execution has no {pattern}", _MEND)
