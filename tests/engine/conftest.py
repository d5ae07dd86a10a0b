"""The real engine, and one emulator for all of its tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from infra.stack_config import stack_config
from local.emulator import ROOT, Emulator
from tests.engine.engine import TIMES, Engine, Stack

PULUMI_CLI = ROOT / ".ci" / "pulumi-cli"
NEITHER_PULUMI_NOR_GO = 3


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How long the engine took."""
    if TIMES:
        terminalreporter.write_sep("-", "pulumi")
        for line in TIMES:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def pulumi_executable(pytestconfig: pytest.Config) -> Path:
    """The pinned pulumi; building it takes some minutes, once, and says so meanwhile."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else nullcontext():
        done = subprocess.run([PULUMI_CLI], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == NEITHER_PULUMI_NOR_GO and not os.environ.get("CI"):
        pytest.skip("no pulumi of the pinned version on the PATH, and no Go to build it with")
    assert done.returncode == 0, "see what .ci/pulumi-cli says above"
    return Path(done.stdout.strip())


@pytest.fixture(scope="session")
def emulator() -> Iterator[Emulator]:
    """A running emulator; what is in it belongs to the stacks."""
    # It speaks plain HTTP: if policies counted, the queues that take TLS only would be closed to everybody.
    with Emulator.start(permissions=False) as emulator:
        yield emulator


@pytest.fixture(scope="session")
def emulator_of_dev(emulator: Emulator) -> Emulator:
    """The same emulator, as seen from the Region that the stacks are configured for."""
    return Emulator(replace(emulator.address, region=stack_config(ROOT, "dev")["aws:region"]))


@pytest.fixture(scope="session")
def engine(pulumi_executable: Path, emulator: Emulator, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The engine on that emulator."""
    return Engine(pulumi=pulumi_executable, directory=tmp_path_factory.mktemp("engine"), endpoint=emulator.endpoint)


@pytest.fixture(scope="session")
def dev(engine: Engine) -> Stack:
    """The stack `dev`, deployed. Tests preview changes of it; whoever updates or destroys takes a stack of its own."""
    stack = engine.stack("dev")
    stack.up()
    return stack
