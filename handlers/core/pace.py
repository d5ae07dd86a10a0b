"""Spreads calls evenly over time: services have quotas on calls a second."""

import time
from dataclasses import dataclass, field
from threading import Lock


@dataclass(slots=True)
class Pace:
    """Gives each caller, in whatever thread, its turn."""

    rate: int
    """Turns a second."""
    _lock: Lock = field(default_factory=Lock)
    _next: float = 0.0

    def wait(self) -> None:
        """Return when it is this caller's turn."""
        with self._lock:
            now = time.monotonic()
            turn = max(self._next, now)
            self._next = turn + 1 / self.rate
        if turn > now:
            time.sleep(turn - now)
