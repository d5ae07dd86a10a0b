"""Asks for the deletion of many users, from a file, so that a run that was cut off can simply be run again.

Each line's idempotency key follows from the run's name and the line's number, so a line that was accepted is answered
with the same request however often it is asked again, and one that names another user by then is refused. What became
of each line is kept in a results file, by number: no user's name is in it.
"""

import csv
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BufferedRandom
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

from handlers.core.errors import AwsFailure
from handlers.core.pace import Pace
from ops.asking import Named, parsed
from ops.calls import FunctionFailed, caller, invoke
from ops.output import Exit, OpsError, told

WORKERS = 8
CHUNK = 4 * WORKERS
"""Lines that are asked for before what became of them is written down together."""
OUTCOMES = ("accepted", "accepted before", "refused", "failed")
RUN_RULE = "1 to 64 letters, digits, '.', '_' or '-'"
_RUN = re.compile(r"[A-Za-z0-9._-]{1,64}")
_DIGEST_CHARACTERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the file."""

    number: int
    """The file's own line number; of a record over several lines the last one."""
    named: Named | None
    """Whose data; None for a line that cannot be read."""
    problem: str = ""
    """Why not: the rule, never the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of a line."""

    line: int
    outcome: str
    """accepted, refused (asking again will not help) or failed (ask again)."""
    deletion_request_id: str | None = None
    status: str | None = None
    reason: str | None = None

    def recorded(self) -> dict[str, object]:
        """For the results file: what is absent is left out."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in fields.items() if value is not None}


class Results:
    """The results file of one run; what is in it survives a crash of this process."""

    def __init__(self, path: Path, run: str) -> None:
        """Open or make it.

        Raises:
            OpsError: it belongs to another run, or is something else.
        """
        self.accepted: set[int] = set()
        """Numbers of the lines that were; as long as the content is the same, they need not be asked again."""
        try:
            self._file: BufferedRandom = path.open("r+b") if path.exists() else path.open("w+b")
        except OSError as error:
            raise OpsError(Exit.USAGE, f"{path}: {error.strerror}") from None
        try:
            self._read(path, run)
        except OpsError:
            self._file.close()
            raise

    def _read(self, path: Path, run: str) -> None:
        content = self._file.read()
        if not content:
            self._write([{"run": run}])
            return
        whole, _, torn = content.rpartition(b"\n")
        try:
            header, *entries = (json.loads(line) for line in whole.splitlines())
            belongs_to = header["run"]
            self.accepted = {entry["line"] for entry in entries if entry["outcome"] == "accepted"}
        except (ValueError, KeyError, TypeError):
            raise OpsError(Exit.USAGE, f"{path} is no results file; give another --results") from None
        if belongs_to != run:
            raise OpsError(Exit.USAGE, f"{path} belongs to the run {belongs_to}; give another --results")
        if torn:
            # A crash cut the last line off; its line of the input is asked again, with the same key.
            self._file.seek(-len(torn), os.SEEK_END)
            self._file.truncate()

    def add(self, results: Iterable[Result]) -> None:
        """Write results down, to the disk."""
        self._write([result.recorded() for result in results])

    def _write(self, entries: Iterable[Mapping[str, object]]) -> None:
        self._file.write(b"".join(json.dumps(entry).encode() + b"\n" for entry in entries))
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> "Results":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def run_name(path: Path) -> str:
    """A file's own run: another content is another run."""
    digest = hashlib.sha256()
    for block in _blocks(path):
        digest.update(block)
    return digest.hexdigest()[:_DIGEST_CHARACTERS]


def size(path: Path) -> int:
    """How many lines a file has, for a progress bar."""
    return sum(block.count(b"\n") for block in _blocks(path))


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            yield block


def is_run_name(name: str) -> bool:
    """Whether a run may be called that (RUN_RULE)."""
    return _RUN.fullmatch(name) is not None


def lines(file: TextIO) -> Iterator[Line]:
    """The lines of a file: JSON Lines if the first one begins with a brace, else CSV with a header.

    Raises:
        OpsError: it is neither.
    """
    try:
        first = file.readline()
        rest = chain((first,), file)
        yield from _json_lines(rest) if first.lstrip().startswith("{") else _csv_lines(rest)
    except (UnicodeDecodeError, csv.Error):
        raise OpsError(Exit.USAGE, "the file is neither CSV nor JSON Lines in UTF-8") from None


def _json_lines(file: Iterable[str]) -> Iterator[Line]:
    for number, text in enumerate(file, 1):
        if not text.strip():
            continue
        try:
            yield Line(number=number, named=parsed(text))
        except OpsError as error:
            yield Line(number=number, named=None, problem=str(error))


def _csv_lines(file: Iterable[str]) -> Iterator[Line]:
    reader = csv.reader(file)
    header = [name.strip() for name in next(reader, [])]
    if "user_id" not in header:
        raise OpsError(Exit.USAGE, "the first line must name the columns: user_id, then the declared identifiers")
    for row in reader:
        if not any(row):
            continue
        if len(row) != len(header):
            yield Line(number=reader.line_num, named=None, problem=f"{len(row)} columns instead of {len(header)}")
            continue
        names = {name: value.strip() for name, value in zip(header, row, strict=True)}
        user = {"user_id": names.pop("user_id")}
        yield Line(number=reader.line_num, named=Named(fields={**user, **({"identifiers": names} if names else {})}))


def ask_all(
    function: str,
    wanted: Iterable[Line],
    results: Results,
    *,
    run: str,
    skip_accepted: bool,
    rate: int,
    on_result: Callable[[Result], None],
) -> Counter[str]:
    """Ask for every line, in the order of the file; how many per outcome.

    Args:
        function: ARN of the request function.
        wanted: the lines; they are read as they are needed.
        results: where to write what became of them.
        run: the run's name, part of each idempotency key.
        skip_accepted: pass by the numbers that were accepted before; only if the name stands for this very content.
        rate: requests a second at most.
        on_result: called for each line, also for those that are passed by.

    Raises:
        OpsError: of a whole chunk no line got through, or the file cannot be read on.
    """
    caller()
    counts: Counter[str] = Counter()
    pace = Pace(rate)
    pending = iter(wanted)
    skipped = frozenset(results.accepted) if skip_accepted else frozenset()
    with ThreadPoolExecutor(WORKERS) as pool:
        while chunk := list(islice(pending, CHUNK)):
            new = [line for line in chunk if line.number not in skipped]
            found = list(pool.map(lambda line: _ask(function, line, run, pace), new))
            results.add(found)
            before = [Result(line=line.number, outcome="accepted before") for line in chunk if line not in new]
            for result in (*before, *found):
                counts[result.outcome] += 1
                on_result(result)
            if found and all(result.outcome == "failed" for result in found):
                raise OpsError(Exit.INCOMPLETE, f"line {found[0].line} and those after it: {found[0].reason}")
    return counts


def _ask(function: str, line: Line, run: str, pace: Pace) -> Result:
    if line.named is None:
        return Result(line=line.number, outcome="refused", reason=line.problem)
    pace.wait()
    try:
        answer = invoke(function, line.named.event(idempotency_key=f"bulk:{run}:{line.number}"))
    except FunctionFailed as failed:
        outcome = "refused" if failed.code is Exit.REFUSED else "failed"
        return Result(line=line.number, outcome=outcome, reason=str(failed))
    except AwsFailure as failure:
        return Result(line=line.number, outcome="failed", reason=told(failure))
    return Result(
        line=line.number,
        outcome="accepted",
        deletion_request_id=str(answer["deletion_request_id"]),
        status=str(answer["status"]),
    )
