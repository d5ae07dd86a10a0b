"""What every part of the demo does: ask for a deletion, watch the request, tell what happens."""

from __future__ import annotations

import time
from dataclasses import dataclass

from handlers.core.record import Record
from handlers.core.states import Status
from local.demo_cases import Case
from local.demo_requests import Requests
from local.demo_stores import Stores
from local.demo_view import View
from local.waiting import wait_until

WITHIN = 90.0
"""Seconds that an attempt may take before the demo gives up; it takes three, on a busy machine many more."""

_ENDED = frozenset({Status.COMPLETED, Status.CANCELLED, Status.FAILED})


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the parts play."""

    requests: Requests
    stores: Stores
    view: View

    def say(self, case: Case, text: str) -> None:
        """Something happened to this user."""
        self.view.say(f"{case.user.user_id}: {text}")

    def accept(self, case: Case, *, grace_days: int = 0) -> None:
        """The user asks to be deleted."""
        case.asked_at = time.monotonic()
        case.request_id = self.requests.accept(case.user, grace_days=grace_days)
        self.say(case, f"asked to be deleted, {case.request_id}")
        self.look(case)

    def start(self, case: Case) -> None:
        """The user asks to be deleted, and the due event comes."""
        self.accept(case)
        self.requests.due(case.request_id)

    def follow(self, case: Case) -> Record:
        """Watch until the request has ended, or waits after the last attempt that it may take."""
        return wait_until(
            lambda: self.look(case),
            lambda record: (
                record.status in _ENDED or (record.status is Status.RETRYABLE and record.claimed >= case.attempts)
            ),
            limit=WITHIN,
            every=0.03,
        )

    def look(self, case: Case) -> Record:
        """The request as it is now."""
        record = case.record = self.requests.record(case.request_id)
        if not case.states or case.states[-1][1] is not record.status:
            case.states.append((time.monotonic() - case.asked_at, record.status))
        self.view.show(case.row())
        return record
