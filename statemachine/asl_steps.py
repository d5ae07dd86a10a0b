"""The steps, their verification and the completion, as states."""

from collections.abc import Sequence
from datetime import timedelta

from handlers.core.errors import Permanent, QuietEnd
from handlers.core.states import VERIFY_STEP
from statemachine.frame import CANCEL, CHECK, COMPLETE, HANDLERS, VERIFY, role_of
from statemachine.plan import Plan, raised, step_retries, taken_by
from statemachine.rendering import Rendering, is_done_name, retries, wait_name
from statemachine.step import START_UP, Catch, Outcome, Step
from statemachine.tasks import ALL, DATA_LIMIT, State, catcher, choice, error_of, jsonata, literal, rule

CHECK_STORES = "CheckStores"


def first_state(plan: Plan) -> str:
    """Where an attempt that shall delete begins."""
    return CHECK_STORES if plan.checked_steps else plan.steps[0].name


def check(r: Rendering) -> dict[str, State]:
    """The check of the stores, if some step has one."""
    return (
        {
            CHECK_STORES: {
                **_frame_task(r, CHECK, CHECK_STORES, r.plan.frame_timeout),
                "Comment": "A store that cannot be emptied as a whole is found before anything is touched.",
                "Output": {},
                "Next": r.plan.steps[0].name,
            }
        }
        if r.plan.checked_steps
        else {}
    )


def steps(r: Rendering) -> dict[str, State]:
    """Each step: its task, whether it is done, and its wait."""
    states: dict[str, State] = {}
    for index, step in enumerate(r.plan.steps):
        following = r.plan.steps[index + 1].name if index + 1 < len(r.plan.steps) else VERIFY_STEP
        states.update(_step(r, index, step, following))
    return states


def _step(r: Rendering, index: int, step: Step, following: str) -> dict[str, State]:
    payload = "$states.result.Payload"
    task = {
        **r.invoke(role_of(step), step.name, int(step.task_timeout.total_seconds())),
        "Comment": f"{step.kind}; a call that is repeated goes on where the last one stopped.",
        "Assign": {"turns": jsonata("$turns + 1")},
        "Output": {
            "done": jsonata(f"{payload}.done = true"),
            "wait": jsonata(f"$exists({payload}.wait) ? {payload}.wait : 0"),
            "progress": jsonata(f"{payload}.progress = true"),
            **_postpone_output(step, payload),
        },
        "Retry": retries(step.handler, step_retries(step)),
        "Catch": _catches(r, index, step),
        "Next": is_done_name(step),
    }
    again = [rule("$states.input.wait > 0", wait_name(step))] if step.wait else []
    later = rule("$states.input.postpone > 0", "Postpone", postpone=jsonata("$states.input.postpone"))
    states = {
        step.name: task,
        is_done_name(step): choice(
            [
                rule("$states.input.done", following, turns=0),
                *([later] if step.patience else []),
                rule(f"$turns >= {step.turns} and $states.input.progress", "Requeue"),
                rule(
                    f"$turns >= {step.turns}",
                    "MarkRetryable",
                    error=error_of(step.name, "TurnsSpent"),
                ),
                *again,
            ],
            step.name,
            "Not done: call it again, within bounds. Who got on until then gets another attempt, and no failure.",
        ),
    }
    if step.wait:
        limit = int(step.wait.total_seconds())
        states[wait_name(step)] = {
            "Type": "Wait",
            "Comment": "The step asked for a pause and renewed its lease for it.",
            "Seconds": jsonata(f"$min([$states.input.wait, {limit}])"),
            "Next": step.name,
        }
    return states


def _postpone_output(step: Step, payload: str) -> State:
    return {"postpone": jsonata(f"$exists({payload}.postpone) ? {payload}.postpone : 0")} if step.patience else {}


def _catches(r: Rendering, index: int, step: Step) -> list[State]:
    taken = zip(step.catch, taken_by(step.handler, step.catch), strict=True)
    caught = [_catch(r, index, step, catch, [error.__name__ for error in errors]) for catch, errors in taken if errors]
    return [*caught, *_catch_rest(r, index, step)]


def _catch(r: Rendering, index: int, step: Step, catch: Catch, names: Sequence[str]) -> State:
    if catch.to is Outcome.QUIET:
        return catcher(names, "OwnedElsewhere")
    return catcher(names, r.way(index, catch.to), error=error_of(step.name), outcome=str(catch.to))


def _catch_rest(r: Rendering, index: int, step: Step) -> list[State]:
    way = r.way(index, Outcome.RETRYABLE)
    assign = {"error": error_of(step.name), "outcome": str(Outcome.RETRYABLE)}
    return [catcher([name], way, **assign) for name in (DATA_LIMIT, ALL)]


def close(r: Rendering) -> dict[str, State]:
    """Verification, completion and cancellation."""
    own = ", ".join(literal(step.name) for step in r.plan.steps)
    done = ", ".join(literal(name) for name in (*(step.name for step in r.plan.steps), VERIFY_STEP))
    payload = "$states.result.Payload"
    return {
        VERIFY_STEP: {
            **_frame_task(r, VERIFY, VERIFY_STEP, r.plan.verify_timeout),
            "Comment": "List every store afresh; leftovers reopen their step.",
            "Assign": {
                "rounds": jsonata(f"{payload}.clean = true ? $rounds : $rounds + 1"),
                "error": error_of(VERIFY_STEP, "LeftoversRemain"),
            },
            "Output": {
                "clean": jsonata(f"{payload}.clean = true"),
                "own": jsonata(f"$count({payload}.leftovers[$ in [{own}]])"),
            },
            "Next": "IsErased",
        },
        "IsErased": choice(
            _erased_rules(r),
            "MarkRetryable",
            "Leftovers go round again, within bounds; those of a step that this graph lacks need a new attempt.",
        ),
        "CompleteDeletion": {
            **_frame_task(r, COMPLETE, "CompleteDeletion", r.plan.frame_timeout),
            "Comment": "COMPLETED if every step deployed now is done; the guard becomes the tombstone.",
            "Assign": {"error": error_of("CompleteDeletion", "StepNotDone")},
            "Output": {
                "done": jsonata(f"{payload}.done = true"),
                "foreign": jsonata(f"$count({payload}.missing[$not($ in [{done}])])"),
            },
            "Next": "IsComplete",
        },
        "IsComplete": choice(
            [rule("$states.input.done", "Deleted"), rule("$states.input.foreign > 0", "Requeue")],
            "MarkRetryable",
            "A step was added under way: a new attempt runs the new graph, and counts as no failure.",
        ),
        "CancelDeletion": {
            **_frame_task(r, CANCEL, "CancelDeletion", r.plan.frame_timeout),
            "Comment": "CANCELLED, everything touched was undone.",
            "Assign": {"error": error_of("CancelDeletion", "NotCancellable")},
            "Output": {"done": jsonata(f"{payload}.done = true")},
            "Next": "IsCancelled",
        },
        "IsCancelled": choice(
            [rule("$states.input.done", "Cancelled")], "MarkRetryable", "Not cancellable: another attempt decides."
        ),
    }


def _erased_rules(r: Rendering) -> list[State]:
    first = r.plan.first_erasing()
    rules = [rule("$states.input.clean", "CompleteDeletion")]
    if first < len(r.plan.steps):
        rules.append(rule(f"$states.input.own > 0 and $rounds <= {r.plan.rounds}", r.plan.steps[first].name, turns=0))
    rules.append(rule("$states.input.own = 0", "Requeue"))
    return rules


def _frame_task(r: Rendering, role: str, name: str, timeout: timedelta) -> State:
    handler = HANDLERS[role]
    permanent = [error.__name__ for error in raised(handler, [Permanent])]
    failed = {"error": error_of(name), "outcome": str(Outcome.FAILED)}
    return {
        **r.invoke(role, name, int((timeout + START_UP).total_seconds())),
        "Retry": retries(handler, r.plan.frame_retries()),
        "Catch": [
            catcher([error.__name__ for error in raised(handler, [QuietEnd])], "OwnedElsewhere"),
            catcher(permanent, r.first_undo(Outcome.FAILED) or "MarkFailed", **failed),
            *r.catch_retryable(name),
        ],
    }
