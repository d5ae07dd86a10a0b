"""How the demo is shown: live in a terminal, as plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, TextIO

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

PLAIN_WIDTH = 168
"""Columns of the last table where there is no terminal to measure."""
WIDE = 132
"""From this width on each number has a column of its own."""


@dataclass(slots=True)
class Row:
    """One user in the live view."""

    user: str
    plan: str
    """What will happen to the request."""
    now: str = ""
    """Where the request stands."""
    done: str = ""
    """What of the data is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One user in the last table; a cell is a list of lines."""

    request: Sequence[str]
    states: Sequence[str]
    attempts: str
    invocations: Sequence[str]
    counts: Sequence[str]
    verdict: Sequence[str]
    is_good: bool


class View(AbstractContextManager["View"], Protocol):
    """Where the demo tells what it does."""

    def say(self, text: str) -> None:
        """Something happened."""

    def show(self, row: Row) -> None:
        """Where a user's request stands now; called often."""

    def results(self, results: Iterable[Result]) -> None:
        """The last table."""

    def end(self, text: str, *, is_good: bool) -> None:
        """The last word."""


def view_for(out: TextIO, *, plain: bool) -> View:
    """The live view in a terminal, unless plain lines are asked for."""
    return Plain(out) if plain or not out.isatty() else Terminal(out)


@dataclass(slots=True)
class Plain(View):
    """A line for each thing that happens."""

    out: TextIO = field(default_factory=lambda: sys.stdout)
    _began: float = field(default_factory=time.monotonic)
    _shown: dict[str, str] = field(default_factory=dict)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.out.flush()

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:5.1f} s  {text}", file=self.out, flush=True)

    def show(self, row: Row) -> None:
        text = f"{row.user}  {row.now}  {row.done}".rstrip()
        if row.now and self._shown.get(row.user) != row.now:
            self._shown[row.user] = row.now
            self.say(text)

    def results(self, results: Iterable[Result]) -> None:
        console = Console(file=self.out, width=PLAIN_WIDTH, color_system=None, force_terminal=False)
        console.print(_table(results, box.ASCII2, PLAIN_WIDTH))

    def end(self, text: str, *, is_good: bool) -> None:  # noqa: ARG002 - plain lines have no colour
        print(text, file=self.out, flush=True)


@dataclass(slots=True)
class Terminal(View):
    """A table of the users that changes while they are deleted, and what happened above it."""

    out: TextIO = field(default_factory=lambda: sys.stdout)
    _began: float = field(default_factory=time.monotonic)
    _rows: dict[str, Row] = field(default_factory=dict)
    _console: Console = field(init=False)
    _live: Live = field(init=False)

    def __post_init__(self) -> None:
        self._console = Console(file=self.out)
        self._live = Live(self._picture(), console=self._console, transient=True, refresh_per_second=12)

    def __enter__(self) -> Terminal:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        self._console.print(Text(f"{time.monotonic() - self._began:5.1f} s  ", style="dim") + Text(text))

    def show(self, row: Row) -> None:
        self._rows[row.user] = row
        self._live.update(self._picture())

    def results(self, results: Iterable[Result]) -> None:
        self._live.update(Text(""))
        self._live.stop()
        self._console.print(_table(results, box.ROUNDED, self._console.width))

    def end(self, text: str, *, is_good: bool) -> None:
        self._console.print(Text(text, style="bold green" if is_good else "bold red"))

    def _picture(self) -> Table:
        table = Table(box=box.SIMPLE, show_header=bool(self._rows))
        for column in ("user", "what happens", "stands at", "gone"):
            table.add_column(column)
        for row in self._rows.values():
            table.add_row(row.user, row.plan, row.now, row.done)
        return table


def _table(results: Iterable[Result], edges: box.Box, width: int) -> Table:
    is_wide = width >= WIDE
    table = Table(box=edges, show_lines=True, padding=(0, 1), pad_edge=is_wide)
    table.add_column("request", overflow="fold")
    table.add_column("states, s after it")
    if is_wide:
        table.add_column("attempts", justify="right")
        table.add_column("invoked", justify="right")
    table.add_column("deleted / there were")
    table.add_column("verdict of an independent listing")
    for result in results:
        numbers = [[result.attempts], result.invocations] if is_wide else []
        states = result.states if is_wide or not result.attempts else [*result.states, *_numbers(result)]
        cells = (result.request, states, *numbers, result.counts)
        verdict = Text("\n".join(result.verdict), style="green" if result.is_good else "bold red")
        table.add_row(*(Text("\n".join(cell)) for cell in cells), verdict)
    return table


def _numbers(result: Result) -> list[str]:
    """What has no column of its own in a narrow terminal."""
    return [f"attempts {result.attempts}", *(f"invoked {line}" for line in result.invocations)]
