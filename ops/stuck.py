"""Requests that nobody looks after as they should be: past their lease, or overdue although the sweeper runs.

A lease that has just been put off by the sweeper looks like one that soon ends; both are shown while it runs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice

from handlers.core import settings
from handlers.core.states import Status
from handlers.sweep import SweepSettings, overdue
from ops.reading import Request, read_all
from ops.stack import Stack
from ops.timeline import RUNNING, Execution, describe
from statemachine import frame

UNATTENDED = timedelta(minutes=3)
"""The sweeper looks every minute; what has been due for longer than this it does not get to."""
CHUNK = 100
"""Requests that are read together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """One such request."""

    request: Request
    overdue_by: int
    """Seconds since somebody should have looked after it; 0 where the sweeper did and has put it off."""
    execution: Execution | None
    """The execution that holds it past its lease; None for a request that waits."""


def find(stack: Stack, now: int) -> Iterator[Stuck]:
    """The oldest first, by the index that the sweeper goes by; it is read as far as somebody asks.

    Raises:
        AwsFailure: table, index or Step Functions cannot be read.
    """
    with stack.acting_as(stack.function(frame.SWEEP)):
        own = settings.load(SweepSettings)
    # What the sweeper has put off is due again by then.
    due = overdue(own, now + int(frame.LOOK_AGAIN.total_seconds()))
    while chunk := [one.deletion_request_id for one in islice(due, CHUNK)]:
        for request in read_all(stack.request_table, chunk):
            if _may_be_stuck(request, now):
                found = _look(request, now)
                if request.is_overdue(now) or _is_running(found):
                    yield found


def _may_be_stuck(request: Request, now: int) -> bool:
    if request.status == Status.PROCESSING:
        return request.is_stuck(now)
    return request.is_overdue(now - int(UNATTENDED.total_seconds()))


def _is_running(found: Stuck) -> bool:
    # An execution that has ended is given back by its event; it is stuck only when its lease is over as well.
    return found.execution is not None and found.execution.status == RUNNING


def _look(request: Request, now: int) -> Stuck:
    owner = request.fields.get("owner")
    return Stuck(
        request=request,
        overdue_by=max(0, now - request.time("due_at")),
        execution=describe(str(owner)) if owner else None,
    )
