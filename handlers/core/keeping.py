"""How long an ended request is kept: the time at which DynamoDB may delete its record."""

from dataclasses import dataclass
from datetime import timedelta

from handlers.core import clock


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepSettings:
    """What whoever ends a request needs."""

    keep_requests: timedelta | None = None
    """From the end of a request until its record may go; None: never. The user's guard, the tombstone, stays."""

    def expires_at(self) -> int | None:
        """Epoch seconds for a request that ends now; None: it stays for ever."""
        return None if self.keep_requests is None else clock.now() + int(self.keep_requests.total_seconds())
