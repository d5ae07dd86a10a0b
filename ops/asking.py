"""What comes from standard input: whose data it is about, and yes or no. Arguments can be read by others."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from handlers.core.states import Origin
from ops.output import Exit, OpsError, tell

FIELDS = frozenset({"idempotency_key", "identifiers", "requested_at", "user_id"})
"""What a JSON object on standard input may hold: the request function's fields that no option gives."""
LONGEST = 65_536
"""Characters that are read of standard input at most."""
SHAPE = 'one line: a user id, or {"user_id": ..., "identifiers": {...}}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Whose data; its repr shows no personal data."""

    fields: Mapping[str, object] = field(repr=False)
    """Fields of the request function's event."""

    @property
    def user_id(self) -> str:
        """The name that the stores know the user by; the function checks its shape."""
        return str(self.fields["user_id"])

    def event(self, **more: object) -> Mapping[str, object]:
        """The request function's event, with fields that the command gives; those that are None are left out."""
        given = {name: value for name, value in more.items() if value is not None}
        return {"origin": str(Origin.OPERATOR), **self.fields, **given}


def is_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty()


def person() -> Named:
    """Whose data, from standard input.

    Raises:
        OpsError: it holds something else; the message names the rule, never the value.
    """
    if is_terminal():
        tell(f"whose data? {SHAPE}")
        return parsed(sys.stdin.readline())
    text = sys.stdin.read(LONGEST)
    if len(text.strip().splitlines()) > 1 and not text.lstrip().startswith("{"):
        raise OpsError(Exit.USAGE, f"standard input has more than one line; give {SHAPE}, or use `bulk`")
    return parsed(text)


def parsed(text: str) -> Named:
    """A line as a person.

    Raises:
        OpsError: it is neither a name nor such an object.
    """
    line = text.strip()
    if not line:
        raise OpsError(Exit.USAGE, f"standard input is empty; give {SHAPE}")
    if not line.startswith("{"):
        return Named(fields={"user_id": line})
    try:
        fields = json.loads(line)
    except ValueError:
        raise OpsError(Exit.USAGE, f"standard input is no JSON object; give {SHAPE}") from None
    if "user_id" not in fields or not fields.keys() <= FIELDS:
        raise OpsError(Exit.USAGE, f"the JSON object must hold user_id, and may hold {', '.join(sorted(FIELDS))}")
    return Named(fields=fields)


def confirm(question: str, *, yes: bool) -> None:
    """Go on only if the operator says so.

    Raises:
        OpsError: nobody can be asked, or the answer is no.
    """
    if yes:
        return
    if not is_terminal():
        raise OpsError(Exit.USAGE, f"{question} Nobody can be asked here; give --yes")
    tell(f"{question} [y/N]")
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise OpsError(Exit.REFUSED, "nothing was done")
