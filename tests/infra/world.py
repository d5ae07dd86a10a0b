"""Pulumi without an engine: runs a program and records every registration and invoke as the engine would get it."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pulumi
from google.protobuf import json_format
from pulumi.runtime import mocks, rpc, settings, stack

from infra.errors import DeployError

UNKNOWN = rpc.UNKNOWN
ACCOUNT = "123456789012"
REGION = "eu-west-1"


@dataclass(frozen=True, kw_only=True)
class Registered:
    """One resource as it reached the engine."""

    type: str
    name: str
    urn: str
    parent: str
    custom: bool
    protect: bool
    provider: str
    depends_on: frozenset[str]
    aliases: tuple[str, ...]
    inputs: Mapping[str, Any] = field(repr=False)
    """What the engine got; a value that a preview cannot know is UNKNOWN."""

    @property
    def physical_name(self) -> str:
        """The explicit name on AWS; empty for what has none (a policy of a queue, an invoke config)."""
        names = (self.inputs.get(key) for key in ("name", "layerName", "dashboardName"))
        return str(next((name for name in names if name), ""))


@dataclass(frozen=True, kw_only=True)
class World:
    """What a program asked of the engine."""

    resources: tuple[Registered, ...]
    invokes: tuple[tuple[str, str], ...]
    """Function token and provider of each invoke."""
    warnings: tuple[str, ...]
    exports: Mapping[str, Any]

    @property
    def aws(self) -> tuple[Registered, ...]:
        """The resources that AWS makes."""
        return tuple(one for one in self.resources if one.type.startswith("aws:"))

    @property
    def components(self) -> tuple[Registered, ...]:
        """The components, which exist in Pulumi only."""
        return tuple(one for one in self.resources if not one.custom)

    def of(self, kind: str) -> tuple[Registered, ...]:
        """All resources of a type, by the last part of its token."""
        return tuple(one for one in self.aws if one.type.rpartition(":")[2] == kind)

    def one(self, kind: str, end: str = "") -> Registered:
        """The one resource of a type whose name ends like that."""
        (found,) = (one for one in self.of(kind) if one.name.endswith(end))
        return found


def run(
    program: Callable[[], object],
    *,
    preview: bool = False,
    account: str = ACCOUNT,
    region: str = REGION,
    environment: str = "prod",
    config: Mapping[str, str] | None = None,
) -> World:
    """Run a program in a fresh event loop, as a preview (nothing computed is known) or as an update.

    Raises:
        Whatever the program raises; `refusal` answers it.
    """
    world, error = _attempt(
        program, _Cloud(account, region, preview=preview), environment=environment, config=dict(config or {})
    )
    if error is not None:
        raise error
    return world


def refusal(
    program: Callable[[], object], *, environment: str = "prod", config: Mapping[str, str] | None = None
) -> tuple[str, tuple[Registered, ...]]:
    """The message with which a program refuses to go on, and what AWS had been asked to make by then."""
    cloud = _Cloud(ACCOUNT, REGION, preview=True)
    world, error = _attempt(program, cloud, environment=environment, config=dict(config or {}))
    if not isinstance(error, DeployError | pulumi.RunError):
        raise error or AssertionError("the program was not refused")
    return str(error), world.aws


def _attempt(
    program: Callable[[], object], cloud: "_Cloud", *, environment: str, config: dict[str, str]
) -> tuple[World, Exception | None]:
    log = _Log()
    monitor = _Monitor(cloud)
    raised = None

    def body() -> None:  # what a program gives back is no business of Pulumi's
        program()

    with _fresh_loop() as loop:
        settings.reset_options()
        mocks.set_mocks(
            cloud, project="account-deletion", stack=environment, preview=cloud.preview, monitor=monitor, logger=log
        )
        pulumi.runtime.set_all_config(config)
        try:
            loop.run_until_complete(stack.run_pulumi_func(body))
        except Exception as error:  # noqa: BLE001 - handed to the caller, with what was registered before it
            raised = error
        root = settings.get_root_resource()
        exports = dict(root.outputs) if isinstance(root, stack.Stack) else {}
    world = World(
        resources=tuple(monitor.registered), invokes=tuple(monitor.invokes), warnings=tuple(log.lines), exports=exports
    )
    return world, raised


@contextmanager
def _fresh_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop for one run, and one in each thread that answers for the engine; all are closed afterwards."""
    loops: list[asyncio.AbstractEventLoop] = []

    def open_loop() -> None:
        loops.append(asyncio.new_event_loop())
        asyncio.set_event_loop(loops[-1])

    open_loop()
    loop = loops[0]
    loop.set_default_executor(ThreadPoolExecutor(initializer=open_loop))
    try:
        yield loop
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        for one in loops:
            one.close()
        asyncio.set_event_loop(None)


class _Log(logging.Logger):
    def __init__(self) -> None:
        super().__init__("pulumi under test")
        self.lines: list[str] = []

    def warning(self, msg: object, *args: object, **kwargs: object) -> None:
        self.lines.append(str(msg))


class _Cloud(mocks.Mocks):
    """Answers with what AWS would compute: nothing in a preview."""

    def __init__(self, account: str, region: str, *, preview: bool) -> None:
        self.account = account
        self.region = region
        self.preview = preview

    def call(self, args: mocks.MockCallArgs) -> dict[str, str]:  # type: ignore[override]
        return {
            "aws:index/getCallerIdentity:getCallerIdentity": {"accountId": self.account, "id": self.account},
            "aws:index/getRegion:getRegion": {"region": self.region, "id": self.region},
            "aws:index/getPartition:getPartition": {"partition": "aws", "id": "aws"},
        }[args.token]

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        if self.preview:
            return None, dict(args.inputs)
        computed = {
            "arn": self._arn(args),
            "version": "1",
            "url": f"https://queue/{args.name}",
            "keyId": f"key-{args.name}",
        }
        return f"{args.name}-id", {**computed, **args.inputs}

    def _arn(self, args: mocks.MockResourceArgs) -> str:
        name = args.inputs.get("name") or args.inputs.get("layerName") or args.name
        kind = args.typ.split("/")[0].removeprefix("aws:")
        place = f"{self.region}:{self.account}"
        return {
            "aws:iam/role:Role": f"arn:aws:iam::{self.account}:role{args.inputs.get('path', '/')}{name}",
            "aws:cloudwatch/logGroup:LogGroup": f"arn:aws:logs:{place}:log-group:{name}",
            "aws:kms/key:Key": f"arn:aws:kms:{place}:key/00000000-1111-2222-3333-444444444444",
        }.get(args.typ, f"arn:aws:{kind}:{place}:{name}")


class _Monitor(mocks.MockMonitor):
    def __init__(self, cloud: _Cloud) -> None:
        super().__init__(cloud)
        self.registered: list[Registered] = []
        self.invokes: list[tuple[str, str]] = []

    def Invoke(self, request: Any) -> Any:  # noqa: N802
        self.invokes.append((request.tok, request.provider))
        return super().Invoke(request)  # type: ignore[no-untyped-call]  # Pulumi's is untyped

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802
        answer = super().RegisterResource(request)  # type: ignore[no-untyped-call]  # Pulumi's is untyped
        if request.type != "pulumi:pulumi:Stack":
            self.registered.append(
                Registered(
                    type=request.type,
                    name=request.name,
                    urn=answer.urn,
                    parent=request.parent,
                    custom=request.custom,
                    protect=request.protect,
                    provider=request.provider,
                    depends_on=frozenset(request.dependencies),
                    aliases=tuple(self._alias(request, alias) for alias in request.aliases),
                    inputs=json_format.MessageToDict(request.object),
                )
            )
        return answer

    def _alias(self, request: Any, alias: Any) -> str:
        if alias.urn:
            return str(alias.urn)
        spec = alias.spec
        parent = "" if spec.noParent else (spec.parentUrn or request.parent)
        return self.make_urn(parent, spec.type or request.type, spec.name or request.name)


def document(resource: Registered, key: str = "policy") -> dict[str, Any]:
    """A policy or definition that a resource carries as text."""
    loaded: dict[str, Any] = json.loads(resource.inputs[key])
    return loaded
