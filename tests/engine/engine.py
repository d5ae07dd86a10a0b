"""The real Pulumi engine with this repository's program: stacks in a directory, on an emulator or on nothing."""

from __future__ import annotations

import functools
import json
import runpy
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pulumi import automation
from pulumi.automation import CommandError, OpType, StepEventMetadata

from local.emulator import ROOT
from local.plugin import install

PROJECT = "account-deletion"
MACHINE = "aws:sfn/stateMachine:StateMachine"
FUNCTION = "aws:lambda/function:Function"
ALIAS = "aws:lambda/alias:Alias"
TABLE = "aws:dynamodb/table:Table"

TIMES: list[str] = []
"""How long each run of the engine took: printed at the end, never asserted."""


def program() -> None:
    """The repository's __main__.py, as Pulumi's language host runs it."""
    sys.path.insert(0, str(ROOT))
    try:
        runpy.run_path(str(ROOT / "__main__.py"), run_name="__main__")
    finally:
        sys.path.remove(str(ROOT))


@dataclass(frozen=True, slots=True)
class Report:
    """What the engine did, or would do."""

    text: str
    """What a user reads."""
    steps: tuple[StepEventMetadata, ...]
    """One for each resource, also for those that stay as they are."""

    @property
    def aws(self) -> tuple[StepEventMetadata, ...]:
        """The steps on resources of AWS."""
        return tuple(step for step in self.steps if step.type.startswith("aws:"))

    @property
    def changes(self) -> tuple[StepEventMetadata, ...]:
        """The steps that change something in AWS."""
        return tuple(step for step in self.aws if step.op is not OpType.SAME)

    def of(self, kind: str) -> tuple[StepEventMetadata, ...]:
        """The steps on resources of one type."""
        return tuple(step for step in self.aws if step.type == kind)

    def one(self, kind: str, end: str = "") -> StepEventMetadata:
        """The one step on a resource of that type whose logical name ends like that."""
        (found,) = (step for step in self.of(kind) if step.urn.endswith(end))
        return found


def operations(steps: tuple[StepEventMetadata, ...]) -> set[tuple[str, str]]:
    """(operation, the resource's logical name) of each."""
    return {(step.op.value, logical(step)) for step in steps}


def logical(step: StepEventMetadata) -> str:
    """The name that the program gave the resource."""
    return step.urn.rpartition("::")[2]


def inputs(step: StepEventMetadata, *, old: bool = False) -> Mapping[str, Any]:
    """What the program says, or said, of the resource."""
    state = step.old if old else step.new
    assert state is not None
    return state.inputs or {}


def definition(step: StepEventMetadata, *, old: bool = False) -> dict[str, Any]:
    """The state machine's definition in a step on it."""
    parsed: dict[str, Any] = json.loads(inputs(step, old=old)["definition"])
    return parsed


def differences(report: Report) -> dict[str, tuple[Any, Any]]:
    """logical name and path of a property, also inside of JSON text -> (before, after), for each leaf that differs."""
    found: dict[str, tuple[Any, Any]] = {}
    for step in report.changes:
        found |= _differences(inputs(step, old=True), inputs(step), logical(step))
    return found


def _differences(old: Any, new: Any, path: str) -> dict[str, tuple[Any, Any]]:
    old, new = _parsed(old), _parsed(new)
    if isinstance(old, dict) and isinstance(new, dict):
        pairs = [(f"{path}.{name}", old.get(name), new.get(name)) for name in sorted(old.keys() | new.keys())]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = [(f"{path}[{index}]", *pair) for index, pair in enumerate(zip(old, new, strict=True))]
    else:
        return {} if old == new else {path: (old, new)}
    return {place: pair for name, before, after in pairs for place, pair in _differences(before, after, name).items()}


def _parsed(value: Any) -> Any:
    """What stands in a text that is JSON."""
    if isinstance(value, str) and value.startswith(("{", "[")):
        with suppress(ValueError):  # JSONata begins like that too
            return json.loads(value)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One backend, empty in the beginning, below a directory of its own."""

    pulumi: Path
    """The executable."""
    directory: Path
    """Backend, project and the engine's own home."""
    endpoint: str = ""
    """The emulator's; without one nothing can be made, only previewed."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """On top of what the engine needs."""

    def stack(self, name: str, *, config_of: str | None = None, program: Callable[[], object] = program) -> Stack:
        """A stack with the configuration of Pulumi.<name>.yaml, or of another environment's."""
        binaries, project = self.directory / "bin", self.directory / "project"
        for place in (project, self.directory / "backend"):
            place.mkdir(parents=True, exist_ok=True)
        install(binaries)
        link = binaries / "pulumi"
        if not link.exists():
            link.symlink_to(self.pulumi)
        shutil.copy(ROOT / "Pulumi.yaml", project)
        settings = project / f"Pulumi.{name}.yaml"
        if not settings.exists():  # a copy: the engine writes the salt of the stack's secrets there
            shutil.copy(ROOT / f"Pulumi.{config_of or name}.yaml", settings)

        def body() -> None:  # what a program gives back is no business of Pulumi's
            program()

        stack = automation.create_or_select_stack(
            stack_name=name,
            project_name=PROJECT,
            program=body,
            opts=automation.LocalWorkspaceOptions(
                work_dir=str(project),
                pulumi_command=automation.PulumiCommand(str(self.directory)),
                pulumi_home=str(self.directory / "home"),
                env_vars={
                    "PULUMI_BACKEND_URL": f"file://{self.directory / 'backend'}",
                    "PULUMI_CONFIG_PASSPHRASE": "engine tests",
                    "PULUMI_SKIP_UPDATE_CHECK": "true",
                    "AWS_ENDPOINT_URL": self.endpoint,
                    **self.environment,
                },
            ),
        )
        return Stack(stack)


def refusal(error: CommandError) -> str:
    """What a user reads, without line breaks."""
    return " ".join(str(error).split())


@dataclass(frozen=True, slots=True)
class Stack:
    """One environment."""

    pulumi: automation.Stack

    def preview(self) -> Report:
        """What `up` would do."""
        return self._report("preview", self.pulumi.preview, diff=True)

    def up(self) -> Report:
        """Do it."""
        return self._report("up", self.pulumi.up)

    def preview_destroy(self) -> Report:
        """What `destroy` would do; Pulumi's command line shows it, and asks, before it destroys."""
        return self._report("preview of destroy", self.pulumi.preview_destroy)

    def destroy(self) -> Report:
        """Remove everything, unasked."""
        return self._report("destroy", self.pulumi.destroy)

    @contextmanager
    def configured(self, setting: str, instead: str) -> Iterator[None]:
        """Another line in the stack's configuration for a while."""
        file = Path(self.pulumi.workspace.work_dir, f"Pulumi.{self.pulumi.name}.yaml")
        before = file.read_text(encoding="utf-8")
        assert before.count(setting) == 1, before
        file.write_text(before.replace(setting, instead), encoding="utf-8")
        try:
            yield
        finally:
            file.write_text(before, encoding="utf-8")

    def outputs(self) -> dict[str, Any]:
        """The exports."""
        return {name: output.value for name, output in self.pulumi.outputs().items()}

    def state(self) -> str:
        """What the backend keeps, as text."""
        (file,) = Path(self.pulumi.workspace.work_dir).parent.glob(f"backend/**/stacks/**/{self.pulumi.name}.json")
        return file.read_text(encoding="utf-8")

    def _report(self, verb: str, run: Callable[..., Any], **options: Any) -> Report:
        steps: list[StepEventMetadata] = []

        def listen(event: automation.EngineEvent) -> None:
            if event.resource_pre_event is not None:
                steps.append(event.resource_pre_event.metadata)

        began = time.monotonic()
        text = run(on_event=listen, color="never", **options).stdout
        seconds = time.monotonic() - began
        TIMES.append(f"{verb} of stack {self.pulumi.name}: {seconds:.1f} s")
        return Report(text, tuple(steps))


# -- what a preview touches -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Watch:
    """What this process did while it was watched."""

    programs: list[str] = field(default_factory=list)
    """Executables that were started."""
    hosts: set[str] = field(default_factory=set)
    """Addresses that were connected to."""

    def note(self, event: str, details: tuple[Any, ...]) -> None:
        """An audit event, https://docs.python.org/3/library/audit_events.html."""
        if event == "subprocess.Popen":
            self.programs.append(str(details[0]))
        elif event == "socket.connect" and isinstance(details[1], tuple):
            self.hosts.add(str(details[1][0]))


_watches: list[Watch] = []


def _audit(event: str, details: tuple[Any, ...]) -> None:
    for watch in _watches:
        watch.note(event, details)


@contextmanager
def watched() -> Iterator[Watch]:
    """Programs and connections of this process; audit hooks stay for ever, so there is one, which nobody feels."""
    _hook()
    watch = Watch()
    _watches.append(watch)
    try:
        yield watch
    finally:
        _watches.remove(watch)


@functools.cache
def _hook() -> None:
    sys.addaudithook(_audit)
