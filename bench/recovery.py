"""How long a request stands still when its worker dies.

    python -m bench.recovery

The whole stack on an emulator whose waits and schedules take their real time, a user whose files take long enough, and
three deaths: the function's process is killed; the execution is stopped; the execution is stopped and its status event
is lost. A lost event is made up for when the lease ends. The lease is 15 minutes, which nobody waits for here: its end
is set to the moment of death, and what is measured begins then.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial

from bench import report
from bench.processes import BenchError
from bench.report import Table
from handlers.core.record import Record
from handlers.core.states import Status, StepStatus
from local.demo_stores import Stores
from local.emulator import Emulator
from local.waiting import wait_until
from statemachine.deletion import DELETE_FILES
from tests.emulator.stack import Stack, deploy_stack

LIMIT = 300.0
"""Seconds until a bench gives up."""
TRIES = 5
"""A step can be over before it is caught."""
STEP = DELETE_FILES.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds since the death."""

    what: str
    noticed: float
    """The record is no longer the dead worker's."""
    again: float
    """A new worker has begun: the same step in the same execution, or the next attempt's claim."""
    ended: float
    """The request is COMPLETED."""
    failures: int


def measure(given: argparse.Namespace) -> Sequence[Table]:
    """Each death, on one stack."""
    with Emulator.start() as emulator:
        stores = Stores(emulator)
        stores.make()
        stack = deploy_stack(emulator, stores)
        timings = [
            _function_killed(stack, given.files),
            _execution_stopped(stack, given.files),
            _event_lost(stack, given.files),
        ]
    return [_table(timings)]


def _function_killed(stack: Stack, files: int) -> Timing:
    for request in _in_the_files(stack, files):
        seen: list[Record] = []
        if stack.requests.kill_if(DELETE_FILES, partial(_is_running, stack, request, seen)):
            return _begun_again(stack, request, seen[-1], time.monotonic())
    raise AssertionError("not reached")


def _begun_again(stack: Stack, request: str, before: Record, died: float) -> Timing:
    def is_begun_again(record: Record) -> bool:
        return record.step(STEP).invocations > before.step(STEP).invocations

    again = _when(stack, request, is_begun_again) - died
    return _timing(stack, "its Lambda is killed", request, died, again, again)


def _execution_stopped(stack: Stack, files: int) -> Timing:
    with _stopped(stack, files) as (request, _, died):
        noticed = _when(stack, request, lambda record: record.status is not Status.PROCESSING) - died
    again = _when(stack, request, lambda record: record.claimed == 2) - died
    return _timing(stack, "its execution is stopped", request, died, noticed, again)


def _event_lost(stack: Stack, files: int) -> Timing:
    with _events_lost(stack), _stopped(stack, files) as (request, before, died):
        stack.set_back(request, "due_at", before.due_at - int(time.time()))
        noticed = _when(stack, request, lambda record: record.status is not Status.PROCESSING) - died
    again = _when(stack, request, lambda record: record.claimed == 2) - died
    return _timing(stack, "the same, and the event is lost: from the lease's end", request, died, noticed, again)


@contextmanager
def _stopped(stack: Stack, files: int) -> Iterator[tuple[str, Record, float]]:
    """A request whose execution was stopped in the middle of the files, its record then, and when it was.

    For as long as the block takes the process is frozen: it would go on with its batch and renew the lease.
    """
    for request in _in_the_files(stack, files):
        seen: list[Record] = []
        with stack.requests.frozen(DELETE_FILES) as processes:
            if processes and _is_running(stack, request, seen):
                stack.client("stepfunctions").stop_execution(executionArn=seen[-1].owner)
                yield request, seen[-1], time.monotonic()
                return


def _in_the_files(stack: Stack, files: int) -> Iterator[str]:
    """Requests that were just seen in the middle of the files, each as often as it is seen so.

    Raises:
        BenchError: they are over too soon to be caught.
    """
    for _ in range(TRIES):
        request = stack.started(stack.sign_up(files=files, clean_ups=10))
        while (status := stack.requests.record(request).step(STEP).status) is not StepStatus.DONE:
            if status is StepStatus.RUNNING:
                yield request
        _when(stack, request, lambda record: record.status is Status.COMPLETED)
    raise BenchError(f"the step is over before it is caught; give it more than {files} files")


def _is_running(stack: Stack, request: str, seen: list[Record]) -> bool:
    """Whether the step is still under way; the record goes to `seen`."""
    seen.append(stack.requests.record(request))
    return seen[-1].step(STEP).status is StepStatus.RUNNING


def _when(stack: Stack, request: str, holds: Callable[[Record], object]) -> float:
    wait_until(lambda: stack.requests.record(request), holds, limit=LIMIT, every=0.05)
    return time.monotonic()


def _timing(stack: Stack, what: str, request: str, died: float, noticed: float, again: float) -> Timing:
    print(f"{what}: noticed after {noticed:.1f} s, again after {again:.1f} s", file=sys.stderr)
    ended = _when(stack, request, lambda record: record.status is Status.COMPLETED) - died
    failures = stack.requests.record(request).failures
    return Timing(what=what, noticed=noticed, again=again, ended=ended, failures=failures)


@contextmanager
def _events_lost(stack: Stack) -> Iterator[None]:
    """For as long as the block takes, nobody hears of an execution that ended."""
    events = stack.client("events")
    (rule,) = (one["Name"] for one in events.list_rules()["Rules"])
    events.disable_rule(Name=rule)
    try:
        yield
    finally:
        events.enable_rule(Name=rule)


def _table(timings: Sequence[Timing]) -> Table:
    head = ("a worker dies", "noticed after s", "new worker after s", "completed after s", "failures")
    rows = tuple(
        (one.what, f"{one.noticed:.1f}", f"{one.again:.1f}", f"{one.ended:.1f}", str(one.failures)) for one in timings
    )
    return Table(name="recovery", head=head, rows=rows, facts={"deaths": [asdict(one) for one in timings]})


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--files", type=int, default=300)


if __name__ == "__main__":
    sys.exit(report.run(__doc__ or "", _arguments, measure))
