"""Waiting for what happens in the background, without ever sleeping for a guess."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class WaitedTooLongError(AssertionError):
    """It did not come about; the message holds what was seen last."""

    def __init__(self, limit: float, last: object) -> None:
        self.last = last
        super().__init__(f"not within {limit} s; last seen: {last!r}")


def wait_until(
    look: Callable[[], T], holds: Callable[[T], object] = bool, *, limit: float = 10.0, every: float = 0.02
) -> T:
    """Look again and again until what is seen holds; that last sight.

    holds: by default, that it is true.
    limit, every: seconds.
    Raises WaitedTooLongError with the last sight.
    """
    ends = time.monotonic() + limit
    while True:
        seen = look()
        if holds(seen):
            return seen
        if time.monotonic() > ends:
            raise WaitedTooLongError(limit, seen)
        time.sleep(every)
