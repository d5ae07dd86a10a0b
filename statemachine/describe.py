"""Plan -> the numbers that somebody asks for before a deployment."""

from datetime import timedelta
from pathlib import Path

from statemachine.plan import Plan, step_retries, step_worst_case
from statemachine.step import Step, file_of

ROOT = Path(__file__).resolve().parents[1]

CONTROL_WRITES = 2
"""Of each invocation of a step: begin and finish; and one for each batch."""


def describe(plan: Plan) -> str:
    """A table of the steps and the arithmetic of the whole, ending in a newline."""
    rows = [("step", "kind", "timeout", "turns", "tries", "wait", "worst case", "file"), *map(_row, plan.steps)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    longest = max(plan.silences(), key=lambda one: one[1])
    facts = [
        f"happy path: {plan.happy_path_transitions} transitions",
        f"control writes of a step's invocation: {CONTROL_WRITES}, and 1 a batch",
        f"longest silence: {show(longest[1])} ({longest[0]}); lease {show(plan.lease)}",
        f"worst case of one attempt: {show(plan.worst_case)}; machine timeout {show(plan.timeout)}",
        *([f"with all postponing: {show(plan.longest)}"] if plan.longest > plan.worst_case else []),
        f"attempts: FAILED after {plan.max_failures} failed ones, or {plan.max_dispatches} dispatches",
    ]
    return "\n".join([*table, "", *facts]) + "\n"


def show(duration: timedelta) -> str:
    """A duration as people read it: 5 d 3 h, 10 min 30 s."""
    seconds = int(duration.total_seconds())
    units = [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)]
    parts = []
    for unit, size in units:
        if seconds >= size:
            parts.append(f"{seconds // size} {unit}")
            seconds %= size
    return " ".join(parts[:2]) or "0 s"


def _row(step: Step) -> tuple[str, ...]:
    tries = 1 + sum(retry.attempts for retry in step_retries(step))
    return (
        step.name,
        str(step.kind),
        show(step.timeout),
        str(step.turns),
        str(tries),
        show(step.wait),
        show(step_worst_case(step)),
        str(Path(file_of(step.handler)).relative_to(ROOT)),
    )
