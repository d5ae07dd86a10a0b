"""One emulator for each test process, and a clean one for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from local.emulator import Emulator
from local.resources.registry import Resources


@pytest.fixture(scope="session")
def emulator_session() -> Iterator[Emulator]:
    """A running emulator that keeps what is in it: for module fixtures that deploy once."""
    with Emulator.start() as emulator:
        yield emulator


@pytest.fixture
def emulator(emulator_session: Emulator) -> Emulator:
    """The same emulator, empty, with waits that take their time."""
    emulator_session.reset()
    emulator_session.scale_waits(1)
    return emulator_session


@pytest.fixture
def resources(emulator: Emulator) -> Resources:
    """The mapping, on that emulator."""
    return Resources(emulator)
