"""Points in time and spans of it as an operator writes them."""

import re
from datetime import UTC, datetime, timedelta

from ops.output import Exit, OpsError

_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_SPAN = re.compile(rf"(?P<number>[1-9][0-9]{{0,5}})(?P<unit>[{''.join(_UNITS)}])")


def span(text: str) -> timedelta:
    """A span like 90m, 12h, 30d or 2w.

    Raises:
        OpsError: it is none.
    """
    match = _SPAN.fullmatch(text)
    if match is None:
        raise OpsError(Exit.USAGE, f"{text!r} is no span; write a number and one of {', '.join(_UNITS)}, e.g. 30d")
    return int(match["number"]) * _UNITS[match["unit"]]


def until(text: str, now: int) -> timedelta:
    """From now to a date (its beginning in UTC) or to a time with an offset.

    Raises:
        OpsError: it is neither, or not in the future.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise OpsError(Exit.USAGE, f"{text!r} is no time; write e.g. 2027-01-31 or 2027-01-31T12:00:00+01:00") from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    wait = aware - datetime.fromtimestamp(now, UTC)
    if wait <= timedelta(0):
        raise OpsError(Exit.USAGE, f"{text!r} is not in the future")
    return wait


def hold_span(until_text: str | None, lasts: str | None, now: int) -> timedelta | None:
    """How long a hold is to last; None: until somebody releases it.

    Raises:
        OpsError: both are given, or one is wrong.
    """
    if until_text is not None and lasts is not None:
        raise OpsError(Exit.USAGE, "give --until or --lasts, not both")
    if until_text is not None:
        return until(until_text, now)
    return span(lasts) if lasts is not None else None
