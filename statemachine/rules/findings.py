"""What a rule says about a definition: where, what is wrong, what to write instead."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

Place = tuple[str, ...]
"""The way from the definition's root to a value: keys and indices, outermost first."""


class Severity(StrEnum):
    """Whether a definition with the finding can work; not how bad it is for the user."""

    ERROR = "error"
    """The service refuses the definition, or an execution breaks where it gets there."""

    WARNING = "warning"
    """Legal, and almost surely not what was meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of the catalogue."""

    code: str
    """Stable: a code that was released never means anything else."""

    severity: Severity
    title: str
    source: str
    """The section of the language's specification, or the service's page, that says so."""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One broken rule at one place."""

    severity: Severity
    code: str
    place: str
    """JSON pointer (RFC 6901) into the definition; empty for the whole of it."""

    problem: str
    mend: str

    def __str__(self) -> str:
        """One line for a console."""
        place = self.place or '""'
        text = f"{self.severity} {self.code} {place}: {self.problem}; {self.mend}"
        return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def pointer(place: Iterable[str]) -> str:
    """The JSON pointer of a place."""
    return "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in place)


class Report:
    """Collects the findings of one definition, in the order in which the rules ran."""

    def __init__(self, rules: dict[str, Rule]) -> None:
        """Start empty; a code outside `rules` is a mistake in this package and raises KeyError."""
        self._rules = rules
        self._findings: dict[Finding, None] = {}

    def add(self, code: str, place: Place, problem: str, mend: str) -> None:
        """Record a finding once, however many rules come upon it."""
        finding = Finding(self._rules[code].severity, code, pointer(place), problem, mend)
        self._findings.setdefault(finding)

    def findings(self) -> tuple[Finding, ...]:
        """All of them: errors first, then by place in the order found."""
        return tuple(sorted(self._findings, key=lambda finding: finding.severity is Severity.WARNING))
