"""The processes that a bench starts: its own servers and workers, each ended by the process id that was started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.wire import HOST

ROOT = Path(__file__).resolve().parents[1]
ENDS_WITHIN = 10.0
"""Seconds from SIGTERM to SIGKILL."""
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "123456789012",
    "AWS_SECRET_ACCESS_KEY": "bench-secret",
    "AWS_DEFAULT_REGION": "eu-central-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""The access key is an account of the emulator, which takes any secret; MinIO is started with these two."""


class BenchError(RuntimeError):
    """A bench cannot go on, or its result is wrong; the message says what was seen."""


@contextmanager
def running(command: Sequence[str], **variables: str) -> Iterator[subprocess.Popen[str]]:
    """A process for as long as the block takes; its standard output is ours to read."""
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **variables}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(ENDS_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def own_server(module: str, *arguments: str) -> Iterator[int]:
    """One of the servers of this package; its port."""
    with running([sys.executable, "-m", module, *arguments]) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise BenchError(f"{module} ended with code {process.wait()}")
        yield int(line)


def endpoint(port: int) -> str:
    """Where a server of this machine listens."""
    return f"http://{HOST}:{port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a worker did."""

    seconds: float
    """Over all invocations, without the start of its process and without imports."""
    cpu: float
    """Seconds of a core that its process used meanwhile."""
    invocations: int
    peak: float
    """The most memory that its process ever had, in MiB (VmHWM)."""
    calls: Mapping[str, int]
    """AWS operation -> how often it was called; calls that the SDK repeats count once."""
    answer: Mapping[str, Any]
    """Of the last invocation."""


def run_worker(
    handler: str, event: Mapping[str, Any], variables: Mapping[str, str] | None = None, *, timeout: float = 900.0
) -> Ran:
    """Call a handler in a process of its own, as Lambda does, until it says that it is done.

    Args:
        handler: dotted path.
        event: what it is called with.
        variables: its environment, besides the credentials.
        timeout: seconds of one invocation; the handler is told how much is left.

    Raises:
        BenchError: it failed; with the end of what it wrote.
    """
    begun = time.monotonic()
    task = json.dumps({"handler": handler, "event": event, "timeout": timeout})
    ran = subprocess.run(
        [sys.executable, "-m", "bench.worker"],
        input=task,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **CREDENTIALS, **(variables or {})},
        check=False,
    )
    if ran.returncode:
        took = time.monotonic() - begun
        raise BenchError(f"{handler} failed after {took:.0f} s:\n{ran.stdout[-1500:]}\n{ran.stderr[-3000:]}")
    return Ran(**json.loads(ran.stdout.splitlines()[-1]))
