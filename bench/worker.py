"""Calls a handler until it is done, in this process and nothing beside it; `bench.processes.run_worker` starts it.

Reads {handler, event, timeout} from standard input and writes what `Ran` holds as its last line.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import botocore.client


@dataclass(slots=True)
class Context:
    """Lambda's context: the time that is left of one invocation."""

    timeout: float
    """Seconds."""
    _begun: float = field(default_factory=time.monotonic)

    def get_remaining_time_in_millis(self) -> int:
        """Until the invocation would be killed."""
        return int((self.timeout - (time.monotonic() - self._begun)) * 1000)


def counted() -> Counter[str]:
    """From now on every call of any boto3 client in this process: operation -> how many."""
    calls: Counter[str] = Counter()
    name = "_make_api_call"  # the one place that each call of each client passes
    call = getattr(botocore.client.BaseClient, name)

    def noted(client: Any, operation: str, parameters: Any) -> Any:
        calls[operation] += 1
        return call(client, operation, parameters)

    setattr(botocore.client.BaseClient, name, noted)
    return calls


def peak() -> float:
    """MiB. Not getrusage's: that begins with what the process had before exec, which is its parent's."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("this kernel does not tell a process its peak memory")


def main() -> int:
    """Run the task and tell."""
    task = json.load(sys.stdin)
    module, _, name = task["handler"].rpartition(".")
    handler: Callable[[Any, Context], Mapping[str, Any]] = getattr(import_module(module), name)
    calls = counted()
    invocations, answer = 0, {"done": False}
    begun, cpu = time.perf_counter(), time.process_time()
    while not answer.get("done", True):
        answer = dict(handler(task["event"], Context(task["timeout"])))
        invocations += 1
    took = {"seconds": time.perf_counter() - begun, "cpu": time.process_time() - cpu}
    print(json.dumps({**took, "invocations": invocations, "peak": peak(), "calls": calls, "answer": answer}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
