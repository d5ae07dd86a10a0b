"""How long a cold import of each handler takes, against what it cannot do without.

    python -m bench.cold_import

Each import runs in a fresh interpreter, in turn with the baseline (`boto3.client("dynamodb")` and Powertools' Logger),
so that a slow moment of the machine meets both. Prints the median of each and the median of the pairwise ratios.
"""

import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUNS = 15
BASELINE = """
import boto3
from aws_lambda_powertools import Logger
boto3.client("dynamodb", region_name="eu-central-1")
Logger(service="baseline")
"""
MODULES = tuple(
    sorted(
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for folder in ("handlers", "handlers/steps")
        for path in (ROOT / folder).glob("*.py")
        if not path.name.startswith("_")
    )
)
GOAL = 1.3


def seconds(program: str) -> float:
    """Wall time of a program in its own interpreter, as it says itself: the interpreter's start is left out."""
    timed = f"import time\nbegun = time.perf_counter()\n{program}\nprint(time.perf_counter() - begun)"
    ran = subprocess.run(
        [sys.executable, "-c", timed],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none"},
    )
    return float(ran.stdout)


def main() -> int:
    """Measure and print; 1 if a handler is above the goal."""
    print(f"{'module':40} {'ms':>7} {'baseline ms':>12} {'ratio':>6}   median of {RUNS} pairs")
    worst = 0.0
    for module in MODULES:
        pairs = [(seconds(f"import {module}"), seconds(BASELINE)) for _ in range(RUNS)]
        ratio = statistics.median(own / base for own, base in pairs)
        own, base = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"{module:40} {own * 1000:7.0f} {base * 1000:12.0f} {ratio:6.2f}")
        worst = max(worst, ratio)
    print(f"goal: at most {GOAL}; worst: {worst:.2f}")
    return 0 if worst <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
