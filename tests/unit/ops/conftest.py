"""An operator's terminal in front of a world on moto: `ops.run("show", request)`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto import mock_aws

from tests.unit.ops.terminal import Terminal
from tests.world import World


@pytest.fixture
def ops(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Terminal]:
    """A deployment whose outputs are in a file."""
    monkeypatch.chdir(tmp_path)
    with mock_aws():
        world = World(monkeypatch)
        try:
            terminal = Terminal(world)
            outputs = tmp_path / "outputs.json"
            outputs.write_text(json.dumps(terminal.outputs), encoding="utf-8")
            monkeypatch.setenv("ACCOUNT_DELETION_OUTPUTS", str(outputs))
            yield terminal
        finally:
            world.close()
