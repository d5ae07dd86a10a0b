"""Leaving PROCESSING, and the ends, as states."""

from handlers.core.transition import Transition
from handlers.core.transitions import MARK_FAILED, MARK_HELD, MARK_RETRYABLE, POSTPONE, REQUEUE
from statemachine.rendering import Rendering, unfinished
from statemachine.tasks import CONDITION_FAILED, EXECUTION, NOW, State, catcher, jsonata


def marks(r: Rendering) -> dict[str, State]:
    """The writes that leave PROCESSING."""
    limit, base = (int(one.total_seconds()) for one in (r.plan.backoff_limit, r.plan.backoff))
    backoff = f"$floor($min([{limit}, {base} * $power(2, $failures)]) * (0.5 + $random() / 2))"
    return {
        "MarkRetryable": _mark(
            r,
            MARK_RETRYABLE,
            "MarkRetryable",
            "WillRetry",
            "Count the failure; the sweeper starts another attempt after a backoff.",
            due_at=f"{NOW} + {backoff}",
        ),
        "MarkFailed": _mark(r, MARK_FAILED, "MarkFailed", "DeletionFailed", "In front of an operator."),
        "MarkHeld": _mark(
            r,
            MARK_HELD,
            "MarkHeld",
            "Held",
            "Wait for a release. A retention lock was written by the step itself: its error finds the request HELD.",
        ),
        "Postpone": _mark(
            r,
            POSTPONE,
            "Postpone",
            "WillRetry",
            "A processor needs hours or days: a new attempt asks again, and this one counts as no failure.",
            due_at=f"{NOW} + $postpone",
        ),
        "Requeue": _mark(
            r,
            REQUEUE,
            "Requeue",
            "WillRetry",
            "Another attempt at once: on a new graph, or of a step that needs more turns.",
            due_at=NOW,
        ),
    }


def _mark(r: Rendering, transition: Transition, name: str, following: str, comment: str, **values: str) -> State:
    error = {
        "M": {
            "step": {"S": jsonata("$error.step")},
            "error": {"S": jsonata("$error.name")},
            "at": {"N": jsonata(f"$string({NOW})")},
        }
    }
    return {
        **r.update(transition, {"me": EXECUTION, "error": error, **values}),
        "Comment": comment,
        "Catch": [catcher([CONDITION_FAILED], "InspectRequest", resume=name), *unfinished()],
        "Next": following,
    }


def ends() -> dict[str, State]:
    """Where an execution ends."""
    succeed = {
        "Deleted": "COMPLETED: every store was listed again and was empty.",
        "Cancelled": "CANCELLED: everything touched was undone.",
        "Held": "HELD until it is released.",
        "WillRetry": "RETRYABLE: this attempt is over, another one follows.",
        "EndedBefore": "The request had ended before; nothing was done.",
        "OnHold": "Somebody holds the request; nothing more was done.",
        "OwnedElsewhere": "Another execution has the request, or it waits for a later one; nothing more was done.",
    }
    return {
        **{name: {"Type": "Succeed", "Comment": comment} for name, comment in succeed.items()},
        "DeletionFailed": {
            "Type": "Fail",
            "Comment": "FAILED: an operator must look. The execution fails too: the service's own metric shows it.",
            "Error": jsonata("$error.name"),
            "Cause": jsonata("'The request is FAILED; its record says in which step: ' & $error.step"),
        },
        "Unfinished": {
            "Type": "Fail",
            "Comment": "The request table could not be reached; recovery finds the request by its lease.",
            "Error": "Unfinished",
            "Cause": "The request table could not be reached; recovery finds the request by its lease.",
        },
    }
