"""Plan -> Amazon States Language in JSONata: the frame around the steps, and each step's own paths.

    Claim -> ReadRequest -> Route -> CheckStores
          -> step 1 -> ... -> step n -> VerifyErasure -> CompleteDeletion -> Deleted

The variables of an execution: id and attempt (its input), failures, turns, rounds, error (place and class of the last
error), outcome (where an undo leads), postpone (seconds that a step asked for), resume (who asked InspectRequest),
seen (what it saw); and of an undo: fence and called.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from handlers.core.states import VERIFY_STEP, Status
from handlers.core.transitions import CLAIM
from statemachine.asl_ends import ends, marks
from statemachine.asl_steps import check, close, first_state, steps
from statemachine.asl_undo import undos
from statemachine.plan import Plan
from statemachine.rendering import Deployment, Rendering, undo_name, unfinished
from statemachine.step import Outcome
from statemachine.tasks import CONDITION_FAILED, EXECUTION, NOW, State, catcher, choice, jsonata, literal, rule

__all__ = ["Deployment", "render", "to_json"]


def render(plan: Plan, deployment: Deployment) -> State:
    """The definition of the state machine.

    Raises:
        KeyError: the deployment lacks a function.
    """
    definition = _definition(Rendering(plan, deployment))
    # The digest tells which graph an attempt ran; it is taken over the definition without it.
    digest = hashlib.sha256(to_json(definition).encode()).hexdigest()[:16]
    definition["States"]["Claim"]["Arguments"]["ExpressionAttributeValues"][":definition"] = {"S": digest}
    return definition


def to_json(definition: Mapping[str, Any]) -> str:
    """The definition as text: sorted keys, so that a diff shows what changed and nothing else."""
    return json.dumps(definition, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _definition(r: Rendering) -> State:
    states: dict[str, State] = {}
    for part in (_start(r), check(r), steps(r), close(r), undos(r), marks(r), ends()):
        states.update(part)
    return {
        "Comment": "Deletes one account, or leaves the request where the next attempt goes on.",
        "QueryLanguage": "JSONata",
        "StartAt": "Claim",
        "States": _reachable(states, "Claim"),
        "TimeoutSeconds": int(r.plan.timeout.total_seconds()),
    }


def _reachable(states: Mapping[str, State], start: str) -> dict[str, State]:
    """The states that some way leads to: a list without a step that can be held needs no way to HELD."""
    reached: dict[str, State] = {}
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached[name] = states[name]
            waiting += _targets(states[name])
    return reached


def _targets(state: State) -> list[str]:
    ways = [state, *state.get("Choices", ()), *state.get("Catch", ())]
    return [way[field] for way in ways for field in ("Next", "Default") if field in way]


_ENDED = [str(status) for status in (Status.COMPLETED, Status.CANCELLED, Status.FAILED)]


def _start(r: Rendering) -> dict[str, State]:
    return {
        "Claim": _claim(r),
        "ReadRequest": _read_request(r),
        "Route": _route(r),
        "InspectRequest": _inspect(r),
        "Inspected": _inspected(r),
    }


def _claim(r: Rendering) -> State:
    claim = r.update(
        CLAIM,
        {
            "me": EXECUTION,
            "attempt": "$states.input.attempt",
            "now": NOW,
            "due_at": r.lease(),
            "definition": {"S": "0" * 16},
        },
        each=[*(step.name for step in r.plan.steps), VERIFY_STEP],
    )
    # Before its own Assign has run, the request is known from the input alone.
    claim["Arguments"]["Key"] = {"pk": {"S": jsonata("'REQUEST#' & $states.input.deletion_request_id")}}
    known = {
        "id": jsonata("$states.input.deletion_request_id"),
        "attempt": jsonata("$states.input.attempt"),
        "failures": 0,
        "turns": 0,
        "rounds": 0,
        "resume": "Claim",
        "outcome": str(Outcome.FAILED),
        "error": {"step": "Claim", "name": "None"},
    }
    return {
        **claim,
        "Comment": "Take the request for this execution; a claim whose answer was lost is taken again.",
        "Assign": known,
        "Catch": [catcher([CONDITION_FAILED], "InspectRequest", **known), *unfinished()],
        "Next": "ReadRequest",
    }


def _read_request(r: Rendering) -> State:
    item = "$states.result.Item"
    last = f"{item}.last_error.M"
    return {
        **r.read(("cancel_requested", "failures", "pivot_at", "last_error")),
        "Comment": "Read what Route needs, consistently.",
        "Assign": {
            "failures": jsonata(f"$number({item}.failures.N)"),
            "route": {
                "cancel": jsonata(f"{item}.cancel_requested.BOOL = true"),
                "pivoted": jsonata(f"$exists({item}.pivot_at)"),
            },
            "error": {
                "step": jsonata(f"$exists({last}.step.S) ? {last}.step.S : 'Route'"),
                "name": jsonata(f"$exists({last}.error.S) ? {last}.error.S : 'FailuresSpent'"),
            },
        },
        "Catch": r.catch_retryable("ReadRequest"),
        "Next": "Route",
    }


def _route(r: Rendering) -> State:
    undo = r.first_undo(Outcome.FAILED)
    cancel = r.first_undo(None)
    spent = f"$failures >= {r.plan.max_failures}"
    return choice(
        [
            rule("$route.cancel", cancel or "CancelDeletion", outcome=str(Status.CANCELLED)),
            rule(f"{spent} and $not($route.pivoted)", undo or "MarkFailed", outcome=str(Outcome.FAILED)),
            rule(spent, "MarkFailed"),
        ],
        first_state(r.plan),
        "A cancellation is undone first; spent failures end here, undone where the pivot allows it.",
    )


def _inspect(r: Rendering) -> State:
    item = "$states.result.Item"
    return {
        **r.read(("status", "owner", "claimed", "pivot_at")),
        "Comment": "A condition failed: look why, because the graph does not get the old item with the error.",
        "Assign": {
            "seen": {
                "status": jsonata(f"$exists({item}.status.S) ? {item}.status.S : 'NONE'"),
                "mine": jsonata(f"{item}.status.S = 'PROCESSING' and {item}.owner.S = {EXECUTION}"),
                "claimed": jsonata(f"{item}.claimed.N = $string($attempt)"),
                "pivoted": jsonata(f"$exists({item}.pivot_at)"),
            }
        },
        "Catch": unfinished(),
        "Next": "Inspected",
    }


def _inspected(r: Rendering) -> State:
    undo_again = [
        rule(f"$seen.mine and $resume = {literal(undo_name(step))}", undo_name(step))
        for step in r.plan.steps
        if step.compensation
    ]
    passes_by = [rule("$seen.mine and $seen.pivoted and $resume != 'Claim'", "AfterUndo")] if undo_again else []
    ended = " or ".join(f"$seen.status = {literal(status)}" for status in _ENDED)
    return choice(
        [
            *passes_by,
            *undo_again,
            rule("$seen.status = 'FAILED' and $seen.claimed and $resume = 'MarkFailed'", "DeletionFailed"),
            rule(ended, "EndedBefore"),
            rule("$seen.status = 'HELD'", "OnHold"),
        ],
        "OwnedElsewhere",
        "Mine still: an undo goes on, or is passed by after the pivot. Otherwise end quietly.",
    )
