"""What a bench prints, and the tables of docs/benchmarks.md, which are written by the bench that measured them."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Shown

from bench.processes import ROOT, BenchError

DOCUMENT = ROOT / "docs" / "benchmarks.md"
_MARKED = "<!-- measured: {0} -->\n{1}<!-- end of {0} -->"
_BETWEEN = r"<!-- measured: {0} -->\n.*?<!-- end of {0} -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table of results."""

    name: str
    """Of its place in the document."""
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    wrong: tuple[str, ...] = ()
    """Results, not times, that are not what they must be."""
    facts: Mapping[str, Any] | None = None
    """The same in numbers, for --json."""


Measure = Callable[[argparse.Namespace], Sequence[Table]]


def run(description: str, add: Callable[[argparse.ArgumentParser], None], measure: Measure) -> int:
    """A bench's command line: measure, print, and with --write put the tables into the document.

    Returns 1 if a result is wrong; never because something was slow.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the results as JSON and no table")
    parser.add_argument("--write", action="store_true", help=f"write the tables of {DOCUMENT.relative_to(ROOT)}")
    add(parser)
    given = parser.parse_args()
    try:
        tables = measure(given)
    except BenchError as error:
        print(error, file=sys.stderr)
        return 1
    if given.json:
        print(json.dumps({"machine": machine(), "tables": [asdict(table) for table in tables]}, indent=2))
    else:
        for table in tables:
            _show(table)
    wrong = [text for table in tables for text in table.wrong]
    for text in wrong:
        print(f"WRONG: {text}", file=sys.stderr)
    if given.write and not wrong:
        write(tables, Path(DOCUMENT))
    return 1 if wrong else 0


def write(tables: Iterable[Table], document: Path) -> None:
    """Put each table at its marked place.

    Raises:
        BenchError: the document has no such place.
    """
    text = document.read_text(encoding="utf-8")
    for table in tables:
        between = re.compile(_BETWEEN.format(table.name), re.DOTALL)
        if not between.search(text):
            raise BenchError(f"{document.name} has no place for the table {table.name}")
        said = _MARKED.format(table.name, markdown(table))
        text = between.sub(lambda _, said=said: said, text)  # type: ignore[misc]
    document.write_text(text, encoding="utf-8")


def markdown(table: Table) -> str:
    """The table as the document shows it, with the machine that it was measured on."""
    lines = [table.head, ["---", *(["---:"] * (len(table.head) - 1))], *table.rows]
    shown = "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
    return f"{shown}\nMeasured on {machine()}.\n"


def machine() -> str:
    """What results depend on besides the code."""
    cores = len(os.sched_getaffinity(0))
    versions = f"Python {platform.python_version()}, boto3 {version('boto3')}"
    return f"{cores} cores ({platform.machine()}, shared by clients and servers), {versions}"


def _show(table: Table) -> None:
    shown = Shown(title=table.name, title_justify="left")
    for index, name in enumerate(table.head):
        shown.add_column(name, justify="right" if index else "left")
    for row in table.rows:
        shown.add_row(*row)
    Console(width=160).print(shown)
