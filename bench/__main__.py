"""Every bench, one after the other, each in a process of its own; each writes its tables of docs/benchmarks.md.

    python -m bench

A bench that fails does not keep the others from running. Ends with 1 if one of them did.
"""

from __future__ import annotations

import subprocess
import sys

from bench.processes import ROOT

WRITING = ("files", "memory", "records", "growth", "sweeping", "recovery")
"""Those with a table in the document."""


def main() -> int:
    """Run them all."""
    commands = [["-m", "bench.cold_import"], *(["-m", f"bench.{name}", "--write"] for name in WRITING)]
    failed = []
    for command in commands:
        print(f"$ python {' '.join(command)}", flush=True)
        if subprocess.run([sys.executable, *command], cwd=ROOT, check=False).returncode:
            failed.append(command[1])
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
