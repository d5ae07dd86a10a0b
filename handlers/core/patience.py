"""Waits for a service that asks for fewer calls, as long as the invocation has time: a busy store costs only that."""

from collections.abc import Callable
from typing import TypeVar

from handlers.core import aws
from handlers.core.errors import DeletionError

LONGEST = 7
"""The refusal from which on pauses grow no more: 6.4 s at most, well within checkpoint.RESERVE."""

_Answer = TypeVar("_Answer")


class OutOfTime(Exception):  # noqa: N818 (it is an answer, not a mistake)
    """This invocation has no time for one more call; the next one goes on."""


def pause(refusals: int) -> None:
    """Back off after so many refusals in a row."""
    aws.back_off(min(refusals, LONGEST))


def patiently(
    call: Callable[[], _Answer], has_time: Callable[[], bool], refused: tuple[type[DeletionError], ...]
) -> _Answer:
    """Make a call that is safe to repeat, again and again while it is refused.

    Raises:
        OutOfTime: before a call for which there is no time.
    """
    refusals = 0
    while has_time():
        if refusals:
            pause(refusals)
        try:
            return call()
        except refused:
            refusals += 1
    raise OutOfTime
