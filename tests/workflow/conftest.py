"""A world with a deployed state machine."""

from collections.abc import Iterator

import pytest
from moto import mock_aws

from statemachine.deletion import workflow
from tests.machine import Machine
from tests.world import World


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with mock_aws():
        world = World(monkeypatch)
        yield world
        world.close()


@pytest.fixture
def machine(world: World) -> Machine:
    return Machine(world, workflow(identity=True))
