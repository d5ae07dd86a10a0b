"""Plan -> Mermaid: one picture of the way forward, the way back, and every ending."""

from itertools import pairwise

from statemachine.plan import Plan
from statemachine.rendering import compensation_name
from statemachine.step import Outcome, Step, StepKind

_SHAPES = {StepKind.COMPENSATABLE: "{0}[{0}]", StepKind.PIVOT: "{0}[[{0}]]", StepKind.RETRIABLE: "{0}[{0}]"}


def mermaid(plan: Plan) -> str:
    """A Mermaid flowchart (https://mermaid.js.org/syntax/flowchart.html), ending in a newline."""
    first, last = plan.steps[0].name, plan.steps[-1].name
    lines = [
        "flowchart TD",
        "    Claim --> Route",
        "    Claim -. somebody else has it .-> Quiet([ends quietly])",
        *_start(plan, first),
        *(f"    {_SHAPES[step.kind].format(step.name)}" for step in plan.steps),
        *(f"    {one.name} --> {other.name}" for one, other in pairwise(plan.steps)),
        f"    {last} --> VerifyErasure",
        *_leftovers(plan),
        "    VerifyErasure -- every store is empty --> CompleteDeletion --> COMPLETED([COMPLETED])",
        *_undos(plan),
        "    Steps{{any step}} -. retries spent .-> RETRYABLE([RETRYABLE])",
        "    Steps -. retention lock .-> HELD([HELD])",
    ]
    return "\n".join(lines) + "\n"


def _start(plan: Plan, first: str) -> list[str]:
    if not plan.checked_steps:
        return [f"    Route --> {first}"]
    return [
        "    Route --> CheckStores",
        f"    CheckStores --> {first}",
    ]


def _leftovers(plan: Plan) -> list[str]:
    erasing = plan.first_erasing()
    if erasing == len(plan.steps):
        return []
    return [f"    VerifyErasure -- leftovers, at most {plan.rounds} rounds --> {plan.steps[erasing].name}"]


def _undos(plan: Plan) -> list[str]:
    undone = [step for step in reversed(plan.steps) if step.compensation]
    if not undone:
        return [
            "    Route -. failures spent .-> FAILED([FAILED])",
            "    Route -. cancel requested .-> CANCELLED([CANCELLED])",
            "    Steps -. permanent error .-> FAILED",
        ]
    names = [_undo(step) for step in undone]
    return [
        f"    Route -. failures spent, cancel requested .-> {names[0]}",
        f"    Steps -. permanent error .-> {names[0]}",
        *(f"    {one} -.-> {other}" for one, other in pairwise(names)),
        *(f"    {_undo(step)} -. also before a retry .-> RETRYABLE" for step in undone if _on_retry(step)),
        f"    {names[-1]} -.-> FAILED([FAILED])",
        f"    {names[-1]} -.-> CANCELLED([CANCELLED])",
    ]


def _undo(step: Step) -> str:
    return compensation_name(step.compensation) if step.compensation else step.name


def _on_retry(step: Step) -> bool:
    return step.compensation is not None and Outcome.RETRYABLE in step.compensation.on
