"""Deploys a Pulumi program to the emulator in this process: no CLI, no engine, the same resources.

Pulumi's test mocks stand in for the engine, except that each registered resource is really made. What was made is
remembered by URN, so that the next deployment changes, leaves, replaces or removes instead of making everything
again.
"""

from __future__ import annotations

import asyncio
import json
import runpy
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import pulumi
from pulumi.runtime import mocks, set_all_config, set_mocks, settings
from pulumi.runtime.stack import run_pulumi_func

from local.resources.base import Json
from local.resources.registry import Resources, replacements, with_name
from local.values import digested, plain, without_packages

PROJECT = "account-deletion"
STACK = "local"

PARALLEL = 8
"""Resources made at a time."""

Program = Callable[[], object] | Path
"""A function that makes resources and exports, or the path of a `__main__.py` that does."""


class Change(StrEnum):
    """What one deployment did to one resource: Pulumi's own words."""

    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    SAME = "same"
    DELETE = "delete"


class DeployError(Exception):
    """A deployment stopped. Whatever was made before stays, and is remembered for the next one."""

    def __init__(self, urn: str, reason: BaseException) -> None:
        self.urn = urn
        super().__init__(f"{urn}: {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """One resource as it was made. Packages are remembered by their digest only."""

    urn: str
    pulumi_type: str
    id: str
    inputs: Json
    outputs: Json


@dataclass(slots=True)
class Memory:
    """What a stack consists of: URN -> Remembered, in the order of creation. Kept in a file if one is named."""

    file: Path | None = None
    resources: dict[str, Remembered] = field(default_factory=dict)

    @classmethod
    def load(cls, file: Path) -> Memory:
        """The memory in that file; an empty one when there is no file yet."""
        if not file.exists():
            return cls(file)
        items = [Remembered(**item) for item in json.loads(file.read_text(encoding="utf-8"))]
        return cls(file, {item.urn: item for item in items})

    def keep(self, item: Remembered) -> None:
        """Remember it, as the newest."""
        self.resources.pop(item.urn, None)
        self.resources[item.urn] = item
        self._save()

    def drop(self, urn: str) -> None:
        """Forget it."""
        self.resources.pop(urn, None)
        self._save()

    def _save(self) -> None:
        if self.file is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            items = [asdict(item) for item in self.resources.values()]
            self.file.write_text(json.dumps(items, indent=1) + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Deployment:
    """What came of it."""

    outputs: Json
    """The stack's exports, as plain values."""
    changes: Mapping[str, Change]
    """URN -> what happened to it; components are not in it."""

    def count(self, change: Change) -> int:
        """How many resources that happened to."""
        return sum(1 for each in self.changes.values() if each is change)


def deploy(
    program: Program,
    resources: Resources,
    *,
    memory: Memory | None = None,
    config: Mapping[str, str] | None = None,
    project: str = PROJECT,
    stack: str = STACK,
) -> Deployment:
    """Run the program and make what it declares.

    memory: what earlier deployments made; a new, empty one by default.
    config: the stack's configuration, complete keys ("account-deletion:environment") to text; Pulumi.yaml is not read.
    Raises DeployError with the URN of the resource that could not be made.
    """
    engine = _Engine(resources, memory if memory is not None else Memory())
    with _threads_with_loops() as threads:
        # A thread and a loop of its own: the caller may be inside one, and Pulumi keeps its state per context.
        outputs = _in_thread(
            lambda: asyncio.run(_run(program, engine, dict(config or {}), project, stack, threads=threads))
        )
    engine.remove_undeclared()
    return Deployment(outputs, dict(engine.changes))


def destroy(resources: Resources, memory: Memory) -> int:
    """Remove all that is remembered, the newest first; how many that were."""
    engine = _Engine(resources, memory)
    engine.remove_undeclared()
    return len(engine.changes)


# -- running the program ----------------------------------------------------------------------------------------------


async def _run(
    program: Program, engine: _Engine, config: dict[str, str], project: str, stack: str, *, threads: Executor
) -> Json:
    asyncio.get_running_loop().set_default_executor(threads)
    settings.reset_options()
    settings.SETTINGS.outputs.clear()  # as Pulumi's own test decorator does: the last run's loop is closed by now
    set_all_config(config)
    set_mocks(engine, project=project, stack=stack, preview=False, monitor=_Monitor(engine))

    async def body() -> None:
        _call(program)

    try:
        await run_pulumi_func(body)
    except BaseException:
        # Nobody reads the outputs of what was not made; asyncio would print each of them.
        asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
        raise
    root = settings.get_root_resource()
    exports: dict[str, Any] = dict(root.outputs) if root is not None else {}  # type: ignore[attr-defined]
    return {name: await pulumi.Output.from_input(value).future() for name, value in exports.items()}


def _call(program: Program) -> None:
    if not isinstance(program, Path):
        program()
        return
    # As Pulumi's language host does it: the program's directory is importable.
    sys.path.insert(0, str(program.parent))
    try:
        runpy.run_path(str(program), run_name="__main__")
    finally:
        sys.path.remove(str(program.parent))


@contextmanager
def _threads_with_loops() -> Iterator[ThreadPoolExecutor]:
    """Threads that make resources. Pulumi's mocks give each an event loop and never close it; here somebody does."""
    loops: list[asyncio.AbstractEventLoop] = []

    def prepare() -> None:
        loops.append(asyncio.new_event_loop())
        asyncio.set_event_loop(loops[-1])

    try:
        with ThreadPoolExecutor(PARALLEL, "pulumi-resource", prepare) as threads:
            yield threads
    finally:
        for loop in loops:
            loop.close()


def _in_thread(work: Callable[[], Json]) -> Json:
    done: list[Json] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:  # noqa: BLE001 carried over to the caller's thread
            failed.append(error)

    thread = threading.Thread(target=run, name="pulumi-program")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]


# -- standing in for the engine ---------------------------------------------------------------------------------------

_URN: ContextVar[str] = ContextVar("urn")


class _Monitor(mocks.MockMonitor):
    """Tells the engine which URN the resource has that is being registered; the mocks are not told."""

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 Pulumi's name
        with _urn(self.make_urn(request.parent, request.type, request.name)):
            return super().RegisterResource(request)  # type: ignore[no-untyped-call]


@contextmanager
def _urn(urn: str) -> Iterator[None]:
    token = _URN.set(urn)
    try:
        yield
    finally:
        _URN.reset(token)


class _Engine(mocks.Mocks):
    """Called by several of Pulumi's threads at once: one per resource that is ready to be made."""

    def __init__(self, resources: Resources, memory: Memory) -> None:
        self.failed: DeployError | None = None
        self.changes: dict[str, Change] = {}
        self._resources = resources
        self._memory = memory
        self._seen: set[str] = set()
        self._lock = threading.Lock()

    def call(self, args: mocks.MockCallArgs) -> Any:
        return self._resources.invoke(args.token, plain(args.args))

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        if not args.custom or args.typ.startswith("pulumi:providers:"):
            return args.name, {}
        urn = _URN.get()
        if self.failed is not None:
            raise self.failed  # the program goes on for a while after the first failure; nothing more is made
        try:
            return self._register(urn, args)
        except Exception as error:
            with self._lock:
                self.failed = self.failed or DeployError(urn, error)
            raise self.failed from error

    def _register(self, urn: str, args: mocks.MockResourceArgs) -> tuple[str, Json]:
        with self._lock:
            if urn in self._seen:
                raise ValueError("two resources have this URN; give them different names")
            self._seen.add(urn)
        inputs = with_name(args.typ, args.name, plain(args.inputs), urn)
        before, now = self._memory.resources.get(urn), digested(inputs)
        change, (resource_id, outputs) = self._bring_about(before, args.typ, inputs, now)
        with self._lock:
            if change in (Change.CREATE, Change.REPLACE):
                self._memory.drop(urn)
            self.changes[urn] = change
            self._memory.keep(
                Remembered(urn=urn, pulumi_type=args.typ, id=resource_id, inputs=now, outputs=digested(outputs))
            )
        return resource_id, outputs

    def _bring_about(
        self, before: Remembered | None, pulumi_type: str, inputs: Json, now: Json
    ) -> tuple[Change, tuple[str, Json]]:
        """now: the inputs as they will be remembered, with digests for packages: what is compared."""
        if before is None:
            return Change.CREATE, self._resources.create(pulumi_type, inputs)
        if before.inputs == now:
            return Change.SAME, (before.id, {**inputs, **without_packages(before.outputs)})
        if replacements(pulumi_type, before.inputs, now):
            # Names are explicit, so the old one must go first.
            self._resources.delete(pulumi_type, before.id, before.outputs)
            self._memory.drop(before.urn)
            return Change.REPLACE, self._resources.create(pulumi_type, inputs)
        outputs = self._resources.update(pulumi_type, before.id, before.inputs, inputs)
        return Change.UPDATE, (before.id, outputs)

    def remove_undeclared(self) -> None:
        """What the program no longer has goes, the newest first. Raises DeployError."""
        for item in reversed(list(self._memory.resources.values())):
            if item.urn not in self.changes:
                try:
                    self._resources.delete(item.pulumi_type, item.id, item.outputs)
                except Exception as error:
                    raise DeployError(item.urn, error) from error
                self.changes[item.urn] = Change.DELETE
                self._memory.drop(item.urn)
