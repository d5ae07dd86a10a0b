"""`python -m local demo`: users on the emulator who are deleted, with what usually breaks; one cancels, one stays.

The program that goes to AWS is deployed as it is; the stores with the users' data are made first and outside of it. At
the end every store is listed by code of the demo's own, and the exit code says whether everything is as it must be.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pulumi
from botocore.exceptions import BotoCoreError, ClientError

from infra.settings import Settings, read_settings
from infra.stack_config import ConfigError, stack_config
from local.cli import PROGRAM, Place
from local.demo_cases import BYSTANDER, USERS, Case, deleted
from local.demo_requests import DemoError, Names, Requests
from local.demo_stage import Stage
from local.demo_stores import BUCKET, NOBODY, ORDERS, STORES, Listing, Stores
from local.demo_story import Story
from local.demo_view import Result, View, view_for
from local.deploy import PROJECT, STACK, DeployError, Deployment, Memory, deploy
from local.emulator import HOME, ROOT, Emulator, EmulatorError, forget, recall, remember
from local.resources.registry import Resources
from local.waiting import WaitedTooLongError

KEPT = HOME / "demo"
"""What `--keep` leaves behind is remembered there."""
INTERRUPTED = 130
"""The exit code then: what shells call "ended by Ctrl-C"."""

_SETTINGS = f"{PROJECT}:settings"
_LOG_LINES = 30


@dataclass(frozen=True, slots=True)
class Played:
    """The demo after its last part, with everything still running."""

    emulator: Emulator
    stores: Stores
    story: Story
    outputs: Mapping[str, object]


Meddle = Callable[[Played], object]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; 0 when everything is as it must be, else 1."""
    parser = argparse.ArgumentParser(prog="python -m local demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the emulator running, and print how to look around")
    parser.add_argument("--plain", action="store_true", help="plain lines, also in a terminal")
    options = parser.parse_args(argv)
    return run(view_for(sys.stdout, plain=options.plain), kept=Place(KEPT) if options.keep else None)


def run(view: View, *, kept: Place | None = None, meddle: Meddle | None = None) -> int:
    """The whole demo.

    kept: where to remember the emulator that is left running; None stops it at the end.
    meddle: is called before the last look; what it does to the stores or requests is seen, or the demo lies.
    """
    began = time.monotonic()
    try:
        with _interruptible(), _emulator(kept) as emulator, view:
            played = _play(view, emulator, kept)
            if meddle is not None:
                meddle(played)
            is_good = judge(view, played.story, played.stores)
            words = "as it must be" if is_good else "NOT as it must be"
            view.end(f"Everything is {words}, after {time.monotonic() - began:.0f} s.", is_good=is_good)
            if kept is not None:
                _print_ways_in(emulator, kept, played)
    except KeyboardInterrupt:
        print("\nInterrupted; the emulator is stopped.", file=sys.stderr)
        return INTERRUPTED
    except _BROKEN as broken:
        print(f"demo: {broken}", file=sys.stderr)
        return 1
    return 0 if is_good else 1


class _WithLogError(Exception):
    """The demo broke while the emulator ran: the message and the end of the emulator's log."""


_BROKEN = (ConfigError, EmulatorError, _WithLogError)
_BREAKS = (BotoCoreError, ClientError, DemoError, DeployError, WaitedTooLongError, pulumi.RunError)


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM ends the demo like Ctrl-C does: with everything stopped."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _emulator(kept: Place | None) -> Iterator[Emulator]:
    """A new emulator. It is stopped at the end, unless it is to be kept and nothing broke."""
    if kept is not None and (last := recall(kept.state)) is not None:
        last.stop()
        forget(kept.state)
    if kept is not None:
        shutil.rmtree(kept.home, ignore_errors=True)
    emulator = Emulator.start(workdir=kept.emulator if kept else None)
    try:
        yield emulator
    except _BREAKS as error:
        log = emulator.log(_LOG_LINES)
        raise _WithLogError(f"{type(error).__name__}: {error}\n\nthe end of the emulator's log:\n{log}") from error
    else:
        if kept is not None:
            remember(emulator, kept.state)
    finally:
        if kept is None or not kept.state.exists():
            emulator.stop()


def _play(view: View, emulator: Emulator, kept: Place | None) -> Played:
    view.say(f"the emulator runs at {emulator.endpoint}")
    stores = Stores(emulator)
    stores.make()
    config = _config(stores.pool_id)
    done = _deploy(emulator, config, kept)
    view.say(f"deployed {PROGRAM.name}: {len(done.changes)} resources")
    stores.fill(USERS)
    before = stores.listing(USERS)
    _check_filled(before)
    total = sum(sum(before.counts(user.user_id).values()) for user in USERS)
    view.say(f"filled two tables, a versioned bucket and a user pool with {total} entries of {len(USERS)} users")
    view.say(f"{BYSTANDER.user_id} stays; digest of all that is theirs: {before.digest(BYSTANDER.user_id)[:16]}")
    requests = Requests(emulator, done.outputs, Names(_settings(config), emulator.region))
    story = Story(Stage(requests, stores, view), before)
    story.tell()
    return Played(emulator, stores, story, done.outputs)


def _config(pool_id: str) -> dict[str, str]:
    """Pulumi.local.yaml, and the pool that was just made."""
    config = stack_config(ROOT, STACK)
    settings = {**json.loads(config[_SETTINGS]), "user_pool_id": pool_id}
    return {**config, _SETTINGS: json.dumps(settings)}


def _settings(config: Mapping[str, str]) -> Settings:
    return read_settings(STACK, json.loads(config[_SETTINGS]))


def _deploy(emulator: Emulator, config: Mapping[str, str], kept: Place | None) -> Deployment:
    memory = Memory.load(kept.memory) if kept else None
    done = deploy(PROGRAM, Resources(emulator), memory=memory, config=config)
    if kept is not None:
        kept.outputs.write_text(json.dumps(done.outputs, indent=2) + "\n", encoding="utf-8")
    return done


def _check_filled(listing: Listing) -> None:
    for user in USERS:
        if (counts := listing.counts(user.user_id)) != user.expected():
            raise DemoError(f"the stores were not filled as planned: {counts}, not {user.expected()}")


def judge(view: View, story: Story, stores: Stores) -> bool:
    """List every store, and show what came of each user."""
    story.close()
    after = stores.listing(USERS)
    results = [_result(case, story.before, after) for case in story.cases]
    results.append(_bystander(story.before, after))
    if strange := {store: number for store, number in after.counts(NOBODY).items() if number}:
        results.append(_finding("(nobody's)", [f"appeared: {strange}"]))
    view.results(results)
    return all(result.is_good for result in results)


def _result(case: Case, before: Listing, after: Listing) -> Result:
    found, record = case.findings(before, after), case.record
    counts = deleted(record) if record else {}
    return Result(
        request=[case.user.user_id, case.plan, *case.notes, case.request_id],
        states=[f"{seconds:4.1f} {status}" for seconds, status in case.states],
        attempts=str(record.attempt) if record else "",
        invocations=[f"{record.step(step).invocations} {step}" for step in case.invocations] if record else [],
        counts=[f"{counts.get(store, 0)} / {case.user.expected()[store]} {store}" for store in STORES],
        verdict=found or case.good_news(),
        is_good=not found,
    )


def _bystander(before: Listing, after: Listing) -> Result:
    user = BYSTANDER.user_id
    is_same = before.digest(user) == after.digest(user)
    counts = after.counts(user)
    return Result(
        request=[user, "stays"],
        states=["nobody asked"],
        attempts="",
        invocations=[],
        counts=[f"0 / {BYSTANDER.expected()[store]} {store}" for store in STORES],
        verdict=["nothing changed, the digest is the same"] if is_same else [f"CHANGED: there are {counts}"],
        is_good=is_same,
    )


def _finding(whose: str, found: Sequence[str]) -> Result:
    return Result(request=[whose], states=[], attempts="", invocations=[], counts=[], verdict=found, is_good=False)


def _print_ways_in(emulator: Emulator, kept: Place, played: Played) -> None:
    python = os.path.relpath(sys.executable, ROOT)
    local = f"{python if not python.startswith('..') else sys.executable} -m local --home {_short(kept.home)}"
    machine, table = played.outputs["state_machine_arn"], played.outputs["request_table_name"]
    case = played.story.cases[-1]
    execution = str(machine).replace(":stateMachine:", ":execution:") + f":{case.executions[-1]}"
    print("\nThe emulator is still running. With the AWS CLI, or any SDK:\n")
    for name, value in emulator.environment().items():
        print(f"  export {name}={value}")
    print(f"  aws dynamodb scan --table-name {table}")
    print(f"  aws stepfunctions list-executions --state-machine-arn {machine}")
    print(f"  aws stepfunctions get-execution-history --execution-arn {execution}")
    print(f"  aws s3api list-object-versions --bucket {BUCKET} --max-items 5")
    print(f"  aws dynamodb scan --table-name {ORDERS} --select COUNT")
    print("  aws logs tail /aws/lambda/acme-local-delete-files")
    print(f"\nWhere it runs, and to stop it:\n\n  {local} status\n  {local} down")


def _short(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
