"""What leaves the command line: one answer on standard output, messages on standard error, and an exit code."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from handlers.core.errors import DeletionError

PIPE_WIDTH = 10_000
"""Characters of a line that goes to no terminal: more than any row has, as a program must find each on one line."""


class Exit(IntEnum):
    """How a command ended."""

    OK = 0
    REFUSED = 1
    USAGE = 2
    INCOMPLETE = 3
    NOT_FOUND = 4
    AWS = 5
    MISTAKE = 70
    INTERRUPTED = 130


EXITS: Mapping[Exit, str] = {
    Exit.OK: "done",
    Exit.REFUSED: "no: refused, not possible as the request stands, or something is left",
    Exit.USAGE: "the command, its input or the stack that it names is wrong; nothing was done",
    Exit.INCOMPLETE: "a store or a line could not be dealt with: what is printed is not everything; run it again",
    Exit.NOT_FOUND: "no request, or no message of the queue, has this id",
    Exit.AWS: "AWS, or the deployed function, refused the call or could not be reached",
    Exit.MISTAKE: "a mistake in this program",
    Exit.INTERRUPTED: "interrupted; `bulk` goes on where it stopped",
}
"""Every exit code and its meaning; `--help` prints it."""


class OpsError(Exception):
    """A command cannot go on. The message goes to standard error and holds no personal data."""

    def __init__(self, code: Exit, message: str) -> None:
        self.code = code
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command has to say."""

    data: Mapping[str, object]
    """One JSON object: what --json prints. Times are ISO 8601 in UTC, counts are numbers."""
    text: RenderableType
    """The same for a person."""
    code: Exit = Exit.OK
    """What the process ends with."""


def show(answer: Answer, *, as_json: bool) -> None:
    """Print an answer on standard output."""
    if as_json:
        sys.stdout.write(json.dumps(answer.data, indent=2) + "\n")
    else:
        width = None if sys.stdout.isatty() else PIPE_WIDTH
        Console(file=sys.stdout, highlight=False, width=width).print(answer.text)


def tell(message: str) -> None:
    """One line for a person, on standard error."""
    sys.stderr.write(f"ops: {message}\n")


def told(error: DeletionError) -> str:
    """One of our errors in a line: its class, and its words, which hold no personal data."""
    return f"{type(error).__name__}: {error}"


def iso(seconds: int | None) -> str | None:
    """Epoch seconds as the command line writes times; None stays None."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}" if seconds else None


def table(rows: Sequence[Mapping[str, object]], columns: Sequence[str], *, nothing: str) -> RenderableType:
    """Rows for a person: a column for each name, with words for spaces."""
    if not rows:
        return Text(nothing)
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column.replace("_", " "), overflow="fold", no_wrap=column == "deletion_request_id")
    for row in rows:
        made.add_row(*(cell(row.get(column)) for column in columns))
    return made


def facts(pairs: Mapping[str, object]) -> RenderableType:
    """Names and values, one pair a line; what is absent is left out."""
    made = Table.grid(padding=(0, 2))
    for name, value in pairs.items():
        if value is not None:
            made.add_row(name.replace("_", " "), cell(value))
    return made


def stacked(*parts: RenderableType) -> RenderableType:
    """Parts below each other, with an empty line between them."""
    spaced: list[RenderableType] = []
    for part in parts:
        spaced += [part, Text("")]
    return Group(*spaced[:-1])


def cell(value: object) -> Text:
    """A value as a person reads it; never as markup."""
    if value is None:
        return Text("-")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, list):
        return Text(", ".join(map(str, value)) or "-")
    if isinstance(value, Mapping):
        return Text(", ".join(f"{name} {number}" for name, number in value.items()) or "-")
    return Text(str(value))
