"""`python -m statemachine validate FILE [--strict]`: one line a finding, nothing where the definition is fine."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from statemachine.rules import Finding, Severity, validate

FINE, BROKEN, UNREADABLE = 0, 1, 2


class UnreadableError(ValueError):
    """The file holds no JSON that means one thing only."""


def main(argv: Sequence[str]) -> int:
    """Run the command.

    Args:
        argv: what stands after `validate`.

    Returns:
        0 if the definition is fine, 1 for errors (with --strict for warnings too), 2 if it cannot be read.
    """
    parser = argparse.ArgumentParser(prog="statemachine validate", description="Check a state machine's definition.")
    parser.add_argument("file", metavar="FILE", help="the definition, as JSON; - for standard input")
    parser.add_argument("--strict", action="store_true", help="let warnings fail as errors do")
    options = parser.parse_args(list(argv))
    try:
        text = _text_of(options.file)
        definition = parse(text)
    except UnreadableError as error:
        sys.stderr.write(f"{options.file}: {error}\n")
        return UNREADABLE
    findings = validate(definition, size=len(text))
    sys.stdout.write("".join(f"{finding}\n" for finding in findings))
    return BROKEN if _fails(findings, strict=options.strict) else FINE


def parse(text: str) -> Mapping[str, object]:
    """Read a definition; UnreadableError where it is no JSON or an object has a key twice."""
    try:
        # JSON that is no object comes back as it is: that is a finding, and the rules have it.
        definition: Mapping[str, object] = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except json.JSONDecodeError as error:
        raise UnreadableError(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise UnreadableError("not readable: nested too deeply") from error
    except UnreadableError:
        raise
    except ValueError as error:
        raise UnreadableError(f"not JSON: {error}") from error
    return definition


def _text_of(name: str) -> str:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UnreadableError("not JSON: the file is not UTF-8") from error
    return text


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise UnreadableError(f"the key {json.dumps(key)} stands twice in one object; keep one of them")
        found[key] = value
    return found


def _constant(name: str) -> NoReturn:
    raise UnreadableError(f"not JSON: {name} is no JSON value")


def _fails(findings: Sequence[Finding], *, strict: bool) -> bool:
    return any(strict or finding.severity is Severity.ERROR for finding in findings)
