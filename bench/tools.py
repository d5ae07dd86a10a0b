"""Programs that a bench measures with or against, built once by Go into a cache outside the checkout.

They are tools of this directory only: nothing of the project depends on them. MinIO is AGPL; it is built and run, and
nothing of it is copied.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.processes import BenchError

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "account-deletion"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A Go program of exactly one version."""

    name: str
    module: str
    version: str
    """As the Go module proxy knows it."""
    program: str = ""
    """A main of our own, in Go, that takes of the module what is needed; empty: the module's main, whole."""

    def path(self) -> Path:
        """The executable; built now if it is not in the cache.

        Raises:
            BenchError: there is no Go, or it does not build.
        """
        built = CACHE / f"{self.name}-{self.version}" / self.name
        if not built.exists():
            self._build(built)
        return built

    def _build(self, into: Path) -> None:
        go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
        if go is None:
            raise BenchError(f"{self.name} {self.version} is built with Go (https://go.dev/doc/install); install it")
        print(f"building {self.name} {self.version} into {into.parent} (once, some minutes) ...", file=sys.stderr)
        into.parent.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=into.parent.parent) as work:
            # A module of our own around it: `go install` refuses modules with replacements.
            Path(work, "go.mod").write_text(f"module bench\n\ngo 1.25.0\n\nrequire {self.module} {self.version}\n")
            if self.program:
                Path(work, "main.go").write_text(self.program)
            what = "." if self.program else self.module
            build = [go, "build", "-mod=mod", "-trimpath", "-ldflags", "-s -w", "-o", f"done/{self.name}", what]
            environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
            ran = subprocess.run(build, cwd=work, env=environment, capture_output=True, text=True, check=False)
            if ran.returncode:
                raise BenchError(f"{self.name} does not build:\n{ran.stderr[-2000:]}")
            shutil.rmtree(into.parent, ignore_errors=True)
            Path(work, "done").rename(into.parent)


MINIO = Tool(name="minio", module="github.com/minio/minio", version="v0.0.0-20260212201848-7aac2a2c5b7c")
"""The S3 server: of those that build here the one that pages rightly while something is deleted."""
RCLONE = Tool(
    name="rclone",
    module="github.com/rclone/rclone",
    version="v1.76.0",
    program="""package main

import (
	_ "github.com/rclone/rclone/backend/s3"
	"github.com/rclone/rclone/cmd"
	_ "github.com/rclone/rclone/cmd/purge"
)

func main() { cmd.Main() }
""",
)
"""Its S3 backend and its purge, and none of its other seventy backends: a minute's build in place of a long one."""
