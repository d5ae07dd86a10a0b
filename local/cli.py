"""`python -m local`: the emulator with this project's program on it, kept running between commands."""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pulumi

from infra.stack_config import ConfigError, stack_config
from local.deploy import PROJECT, STACK, Change, DeployError, Deployment, Memory, deploy
from local.emulator import HOME, ROOT, Emulator, EmulatorError, forget, recall, remember
from local.resources.base import Json
from local.resources.registry import Resources

PROGRAM = ROOT / "__main__.py"
NOT_RUNNING = 3
"""The exit code of `status` then: what the LSB calls "program is not running"."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one local stack keeps what it has to remember between commands."""

    home: Path = HOME

    @property
    def state(self) -> Path:
        """The running emulator's address."""
        return self.home / "state.json"

    @property
    def memory(self) -> Path:
        """What was deployed to it."""
        return self.home / "stack.json"

    @property
    def outputs(self) -> Path:
        """The exports of the last deployment."""
        return self.home / "outputs.json"

    @property
    def emulator(self) -> Path:
        """The emulator's own directory, with its log."""
        return self.home / "emulator"

    def exports(self) -> Json:
        """The exports of the last `up`; empty when there was none."""
        try:
            found: Json = json.loads(self.outputs.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        if words[:1] == ["demo"]:
            return _demo(words[1:])
        arguments = _parser().parse_args(words)
        code: int = arguments.run(arguments)
    except (ConfigError, DeployError, EmulatorError, pulumi.RunError) as error:
        print(f"local: {error}", file=sys.stderr)
        return 1
    return code


def up(
    program: Path = PROGRAM, config: Mapping[str, str] | None = None, place: Place | None = None
) -> tuple[Emulator, Deployment]:
    """Start the emulator unless it runs, and bring the program's resources about.

    config: on top of Pulumi.yaml and Pulumi.local.yaml beside the program; complete keys.
    Raises EmulatorError, DeployError, ConfigError.
    """
    place = place or Place()
    settings = {**stack_config(program.parent, STACK), **(config or {})}
    emulator = recall(place.state)
    if emulator is None:
        place.memory.unlink(missing_ok=True)  # what it remembers went with the emulator that had it
        shutil.rmtree(place.emulator, ignore_errors=True)
        emulator = Emulator.start(workdir=place.emulator)
        remember(emulator, place.state)
    done = deploy(program, Resources(emulator), memory=Memory.load(place.memory), config=settings)
    place.outputs.write_text(json.dumps(done.outputs, indent=2) + "\n", encoding="utf-8")
    return emulator, done


def down(place: Place | None = None) -> bool:
    """Stop the emulator and forget what was in it; whether one was running."""
    place = place or Place()
    emulator = recall(place.state)
    if emulator is not None:
        emulator.stop()
    forget(place.state)
    for file in (place.memory, place.outputs):
        file.unlink(missing_ok=True)
    return emulator is not None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m local", description=__doc__)
    parser.add_argument("--home", type=Path, default=HOME, help="where the stack is remembered (default: .local)")
    commands = parser.add_subparsers(required=True, metavar="command")

    command = commands.add_parser("up", help="start the emulator and deploy the program to it; again: change it")
    command.add_argument("--program", type=Path, default=PROGRAM, help="the Pulumi program (default: __main__.py)")
    command.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="stack configuration")
    command.add_argument("--json", action="store_true", help="print endpoint, environment and outputs as JSON")
    command.set_defaults(run=_up)

    command = commands.add_parser("status", help="where the emulator runs, and the outputs")
    command.add_argument("--json", action="store_true", help="the same as JSON")
    command.set_defaults(run=_status)

    command = commands.add_parser("down", help="stop the emulator and forget everything in it")
    command.set_defaults(run=_down)

    # Listed for the help only: everything behind "demo" belongs to the demo.
    commands.add_parser("demo", help="delete an account, and see it survive what usually breaks")
    return parser


def _up(arguments: argparse.Namespace) -> int:
    began = time.monotonic()
    emulator, done = up(arguments.program.resolve(), _config(arguments.config), Place(arguments.home))
    if arguments.json:
        print(json.dumps(_described(emulator, done.outputs), indent=2))
        return 0
    counts = ", ".join(f"{number} {change}" for change in Change if (number := done.count(change)))
    print(f"{counts or 'nothing declared'} in {time.monotonic() - began:.1f} s")
    _print(emulator, done.outputs)
    return 0


def _status(arguments: argparse.Namespace) -> int:
    place = Place(arguments.home)
    emulator = recall(place.state)
    if emulator is None:
        print("{}" if arguments.json else "not running; start it with `python -m local up`")
        return NOT_RUNNING
    if arguments.json:
        print(json.dumps(_described(emulator, place.exports()), indent=2))
    else:
        _print(emulator, place.exports())
    return 0


def _down(arguments: argparse.Namespace) -> int:
    print("stopped" if down(Place(arguments.home)) else "was not running")
    return 0


def _demo(rest: Sequence[str]) -> int:
    # By name, at run time: the demo stands on this module, not the other way round.
    code: int = importlib.import_module("local.demo").main(list(rest))
    return code


def _config(settings: list[str]) -> dict[str, str]:
    pairs = dict(setting.partition("=")[::2] for setting in settings)
    return {key if ":" in key else f"{PROJECT}:{key}": value for key, value in pairs.items()}


def _described(emulator: Emulator, exports: Json) -> Json:
    return {
        "endpoint": emulator.endpoint,
        "pid": emulator.address.pid,
        "environment": emulator.environment(),
        "outputs": exports,
    }


def _print(emulator: Emulator, exports: Json) -> None:
    print(f"endpoint  {emulator.endpoint}  (process {emulator.address.pid}, log in {emulator.address.workdir})")
    for name, value in sorted(exports.items()):
        print(f"{name}  {value if isinstance(value, str) else json.dumps(value)}")
