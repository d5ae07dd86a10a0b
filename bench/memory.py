"""The most memory that the files' step ever needs, in a process of its own, whatever the user has.

    python -m bench.memory --versions 100000 1000000

The bucket is on paper (bench/paper_bucket.py), so a million versions need no storage; calls, answers and what the step
keeps of them are real.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from bench import report
from bench.buckets import on_paper
from bench.control import control
from bench.files import PREFIX, STEP, run_step
from bench.processes import run_worker
from bench.report import Table
from statemachine.deletion import DELETE_FILES

GOAL = 256
"""MiB; the function has more, and the runtime needs some."""


def measure(given: argparse.Namespace) -> Sequence[Table]:
    """A process that deletes nothing, then each number of versions."""
    nothing = run_worker("bench.contenders.nothing", {})
    rows, wrong, facts = [("nothing, boto3 imported", "-", f"{nothing.peak:.0f}", "-")], [], {}
    with control() as table:
        for versions in given.versions:
            with on_paper(PREFIX, versions) as bucket:
                ran = run_step(table, bucket, bucket.port)
                left = bucket.left()
            facts[versions] = ran
            rows.append((f"{STEP}, {versions:,} versions", f"{ran['seconds']:.1f}", f"{ran['peak']:.0f}", str(left)))
            if left or ran["counted"].get("files") != versions:
                wrong.append(f"{left} of {versions} are left, {ran['counted']} were counted")
            if ran["peak"] > GOAL:
                wrong.append(f"{versions} versions needed {ran['peak']:.0f} MiB, more than {GOAL}")
    rows.append(("the function's memory", "-", str(DELETE_FILES.function.memory), "-"))
    head = ("what", "seconds", "peak MiB", "left")
    return [Table(name="memory", head=head, rows=tuple(rows), wrong=tuple(wrong), facts=facts)]


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--versions", type=int, nargs="+", default=[100_000, 1_000_000])


if __name__ == "__main__":
    sys.exit(report.run(__doc__ or "", _arguments, measure))
