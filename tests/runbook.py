"""docs/runbook.md as data: its sections, their commands and their tables."""

import re
from textwrap import dedent
from typing import Final

from local.emulator import ROOT

RUNBOOK: Final = ROOT / "docs" / "runbook.md"
EXAMPLE: Final = "del_01M8MDKE09A7YHBGE0V5TR3YZK"
"""The request of the runbook's commands: a reader puts another id in its place."""
EXAMPLE_MESSAGE: Final = "059f36b4-87a3-44ab-83d2-661975830a7d"
"""The message of the runbook's commands, likewise."""

_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_SHELL = re.compile(r"^( *)```sh\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def sections() -> dict[str, str]:
    """Heading -> the text under it, up to the next heading of any level."""
    parts = _HEADING.split(RUNBOOK.read_text(encoding="utf-8"))[1:]
    headings = parts[1::3]
    assert len(set(headings)) == len(headings), "two headings have one name: a link could mean either"
    return dict(zip(headings, parts[2::3], strict=True))


def under(heading: str) -> list[str]:
    """The headings one level below a heading, in order."""
    found = _HEADING.findall(RUNBOOK.read_text(encoding="utf-8"))
    (level, start), *_ = [(marks, place) for place, (marks, text) in enumerate(found) if text == heading]
    below = []
    for marks, text in found[start + 1 :]:
        if len(marks) <= len(level):
            break
        below.append(text)
    return below


def commands(text: str) -> list[str]:
    """What a section says to type, in order; some of its blocks stand in a list."""
    return [line for block in _SHELL.finditer(text) for line in dedent(block[2]).splitlines()]


def rows(text: str) -> list[list[str]]:
    """The cells of a section's tables, without headers."""
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("|")]
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    rules = {place for place, cells in enumerate(table) if all(set(cell) == {"-"} for cell in cells)}
    return [cells for place, cells in enumerate(table) if not {place, place + 1} & rules]
