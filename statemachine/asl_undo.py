"""The compensation paths, as states."""

from handlers.core.transitions import UNDO_BEGIN, UNDO_DONE
from statemachine.frame import undo_role_of
from statemachine.plan import undo_retries
from statemachine.rendering import Rendering, calls_name, compensation_name, retries, undo_name, undone_name
from statemachine.step import START_UP, Compensation, Outcome, Step
from statemachine.tasks import (
    ALL,
    CONDITION_FAILED,
    DATA_LIMIT,
    EXECUTION,
    NOW,
    State,
    catcher,
    choice,
    error_of,
    jsonata,
    rule,
)


def undos(r: Rendering) -> dict[str, State]:
    """Each compensatable step's way back, and where the ways lead."""
    states: dict[str, State] = {}
    for index, step in enumerate(r.plan.steps):
        if step.compensation:
            states.update(_undo(r, index, step, step.compensation))
    if states:
        states["UndoFailed"] = choice(
            [rule(f"$failures >= {r.plan.max_failures}", "MarkFailed")],
            "MarkRetryable",
            "A compensation failed for good: another attempt, or an operator once failures are spent.",
        )
        states["AfterUndo"] = choice(
            [
                rule("$outcome = 'CANCELLED'", "CancelDeletion"),
                rule("$outcome = 'FAILED'", "MarkFailed"),
            ],
            "MarkRetryable",
            "Everything that could be undone is undone, or the pivot was passed.",
        )
    return states


def _undo(r: Rendering, index: int, step: Step, undo: Compensation) -> dict[str, State]:
    old = "$states.result.Attributes"
    status = f"{old}.steps.M.{step.name}.M.status.S"
    begin = {
        **r.update(UNDO_BEGIN, {"me": EXECUTION, "attempt": "$attempt", "due_at": r.lease()}, step=step.name),
        "Comment": f"No step begins in this attempt any more; {step.name} is being undone.",
        "Assign": {
            "fence": jsonata(f"$number({old}.fence.N) + 1"),
            "called": jsonata(f"{status} in ['RUNNING', 'DONE', 'UNDOING']"),
        },
        "Catch": [
            catcher([CONDITION_FAILED], "InspectRequest", resume=undo_name(step)),
            *r.catch_retryable(undo_name(step)),
        ],
        "Next": calls_name(step),
    }
    # The old values of what this write touches, and nothing else of the record, tell whether there is anything to call.
    begin["Arguments"]["ReturnValues"] = "UPDATED_OLD"
    call = compensation_name(undo)
    return {
        undo_name(step): begin,
        calls_name(step): choice(
            [rule("$called", call)], undone_name(step), "Nothing to call for what never began or is undone."
        ),
        call: _compensation(r, step, undo),
        undone_name(step): {
            **r.update(UNDO_DONE, {"fence": "$fence", "now": NOW}, step=step.name),
            "Comment": f"{step.name} is undone.",
            "Catch": [
                catcher([CONDITION_FAILED], "InspectRequest", resume=undo_name(step)),
                *r.catch_retryable(undone_name(step)),
            ],
            "Next": _after_undone(r, index, step),
        },
        **_undone_choice(r, index, step),
    }


def _compensation(r: Rendering, step: Step, undo: Compensation) -> State:
    name = compensation_name(undo)
    timeout = int((undo.timeout + START_UP).total_seconds())
    return {
        **r.invoke(undo_role_of(step), step.name, timeout),
        "Comment": f"Undo {step.name}, once its own Lambda must be dead.",
        "Output": {},
        "Retry": retries(undo.handler, undo_retries(step)),
        "Catch": [catcher([error], "UndoFailed", error=error_of(name)) for error in (DATA_LIMIT, ALL)],
        "Next": undone_name(step),
    }


def _after_undone(r: Rendering, index: int, step: Step) -> str:
    ways = _ways_after(r, index)
    return ways[0] if len(set(ways)) == 1 else f"After{undone_name(step)}"


def _undone_choice(r: Rendering, index: int, step: Step) -> dict[str, State]:
    ways = _ways_after(r, index)
    if len(set(ways)) == 1:
        return {}
    cancelled, failed, retryable = ways
    rules = [rule("$outcome = 'CANCELLED'", cancelled), rule("$outcome = 'FAILED'", failed)]
    return {f"After{undone_name(step)}": choice(rules, retryable, "Which undo comes next depends on where this leads.")}


def _ways_after(r: Rendering, index: int) -> tuple[str, ...]:
    """The next undo on the way to CANCELLED, FAILED and RETRYABLE."""
    return tuple(
        r.first_undo(outcome, up_to=index - 1) or "AfterUndo" for outcome in (None, Outcome.FAILED, Outcome.RETRYABLE)
    )
