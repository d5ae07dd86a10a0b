"""What the handlers' tests share: a fresh world for each."""

from collections.abc import Iterator

import pytest
from moto import mock_aws

from tests.world import World


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A world on moto; see tests/world.py."""
    with mock_aws():
        made = World(monkeypatch)
        try:
            yield made
        finally:
            made.close()
