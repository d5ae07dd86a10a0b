"""The real engine's way to the emulator: a provider plugin over the mapping of local/resources.

The engine starts it as an executable named pulumi-resource-aws that it finds on the PATH (`install` writes one), and
tells it the Region; AWS_ENDPOINT_URL says where the emulator is. A preview makes no call, so it needs no emulator.

It speaks Pulumi's provider protocol itself, not through pulumi.provider.experimental: the property values there drop
the hash of an asset and its requests the old inputs, so a changed file would be no change.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc  # type: ignore[import-untyped]  # pulumi brings it along
import pulumi
from google.protobuf import json_format
from google.protobuf.empty_pb2 import Empty
from google.protobuf.struct_pb2 import Struct, Value
from pulumi.runtime import proto, rpc
from pulumi.runtime.proto import provider_pb2_grpc

from local.emulator import ACCOUNT, REGION, ROOT, Address, Emulator, EmulatorError
from local.resources.base import Json, ResourceError
from local.resources.registry import (
    Resources,
    invoke_locally,
    refuse_unknown,
    replacements,
    resource_type,
    with_name,
)

EXECUTABLE: Final = "pulumi-resource-aws"
PARALLEL: Final = 16
"""Requests answered at a time."""
LOOKS_FOR_PARENT: Final = 5.0
"""Seconds between two looks whether the engine still lives: one that was killed tells nobody."""

_MESSAGE_SIZE: Final = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
_FUNCTION: Final = "aws:lambda/function:Function"
_VERSIONED: Final = ("codeSha256", "lastModified", "qualifiedArn", "qualifiedInvokeArn", "sourceCodeSize", "version")
"""What a new version of a function changes; all other computed outputs of all types outlive an update."""
_UNVERSIONED: Final = frozenset({"reservedConcurrentExecutions", "tags"})
"""Inputs of a function whose change makes no new version."""

_Answer = TypeVar("_Answer")


def _refusing(method: Callable[[Any, Any, Any], _Answer]) -> Callable[[Any, Any, Any], _Answer]:
    """A refusal of the mapping reaches the user as its message, without our stack."""

    @functools.wraps(method)
    def answered(self: Plugin, request: Any, context: Any) -> _Answer:
        try:
            return method(self, request, context)
        except (ResourceError, EmulatorError) as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
            raise

    return answered


class Plugin(provider_pb2_grpc.ResourceProviderServicer):
    """Called by several of gRPC's threads at once."""

    def __init__(self, endpoint: str | None) -> None:
        self._endpoint = endpoint
        self._region = REGION
        self._made: Resources | None = None

    # -- the provider itself ------------------------------------------------------------------------------------------

    def GetPluginInfo(self, _request: Any, _context: Any) -> proto.PluginInfo:  # noqa: N802 Pulumi's name, as below
        return proto.PluginInfo(version=importlib.metadata.version("pulumi-aws"))

    def CheckConfig(self, request: Any, _context: Any) -> proto.CheckResponse:  # noqa: N802
        return proto.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, _context: Any) -> proto.DiffResponse:  # noqa: N802
        same = request.old_inputs == request.news
        return proto.DiffResponse(changes=proto.DiffResponse.DIFF_NONE if same else proto.DiffResponse.DIFF_SOME)

    def Configure(self, request: Any, _context: Any) -> proto.ConfigureResponse:  # noqa: N802
        region = _plain(request.args).get("region") or request.variables.get("aws:config:region")
        self._region = str(region or REGION)
        if self._endpoint is not None:
            # Whoever started it stops it: nothing here needs its process or its directory.
            address = Address(endpoint=self._endpoint, pid=0, token="", workdir="", region=self._region)
            self._made = Resources(Emulator(address))
        # Without acceptSecrets the engine unwraps what is secret, and marks the same properties of the answer again.
        return proto.ConfigureResponse(acceptSecrets=False, supportsPreview=True)

    def Cancel(self, _request: Any, _context: Any) -> Empty:  # noqa: N802
        return Empty()

    @property
    def _resources(self) -> Resources:
        if self._made is None:
            raise EmulatorError(
                "AWS_ENDPOINT_URL is not set: start an emulator (`python -m local up`) and name it there"
            )
        return self._made

    @_refusing
    def Invoke(self, request: Any, _context: Any) -> proto.InvokeResponse:  # noqa: N802
        answer = _struct(invoke_locally(request.tok, _plain(request.args), ACCOUNT, self._region))
        return proto.InvokeResponse(**{"return": answer})

    # -- one resource -------------------------------------------------------------------------------------------------

    def Check(self, request: Any, _context: Any) -> proto.CheckResponse:  # noqa: N802
        given = _plain(request.news)
        try:
            refuse_unknown(request.type, given, self._region)
        except ResourceError as error:
            # The whole sentence is in the reason; what stands before it is enough for a reader to find the place.
            failure = proto.CheckFailure(property=getattr(error, "path", ""), reason=str(error))
            return proto.CheckResponse(inputs=request.news, failures=[failure])
        named = with_name(request.type, request.name, given, request.urn)
        added = {name: value for name, value in named.items() if name not in given}
        return proto.CheckResponse(inputs=_merged(request.news, added))

    @_refusing
    def Diff(self, request: Any, _context: Any) -> proto.DiffResponse:  # noqa: N802
        changed = _changed(request.old_inputs, request.news)
        replacing = sorted(replacements(request.type, changed.before, changed.after))
        named_by = resource_type(request.type).named_by
        return proto.DiffResponse(
            changes=proto.DiffResponse.DIFF_SOME if changed.names else proto.DiffResponse.DIFF_NONE,
            replaces=replacing,
            # Names are explicit: under the same name the old one must go before the new one comes.
            deleteBeforeReplace=bool(replacing) and named_by not in changed.names,
            diffs=sorted(changed.names),
            detailedDiff={
                name: proto.PropertyDiff(kind=changed.kind(name, replaces=name in replacing), inputDiff=True)
                for name in changed.names
            },
            hasDetailedDiff=True,
        )

    @_refusing
    def Create(self, request: Any, _context: Any) -> proto.CreateResponse:  # noqa: N802
        if request.preview:
            # In a preview the SDK takes each output that is not there as unknown.
            return proto.CreateResponse(properties=request.properties)
        resource_id, outputs = self._resources.create(request.type, _plain(request.properties))
        return proto.CreateResponse(id=resource_id, properties=_merged(request.properties, outputs))

    @_refusing
    def Update(self, request: Any, _context: Any) -> proto.UpdateResponse:  # noqa: N802
        if request.preview:
            return proto.UpdateResponse(properties=_foreseen(request))
        before, after = _plain(request.old_inputs), _plain(request.news)
        outputs = self._resources.update(request.type, request.id, before, after)
        return proto.UpdateResponse(properties=_merged(request.news, outputs))

    @_refusing
    def Delete(self, request: Any, _context: Any) -> Empty:  # noqa: N802
        self._resources.delete(request.type, request.id, _plain(request.properties))
        return Empty()

    @_refusing
    def Read(self, request: Any, _context: Any) -> proto.ReadResponse:  # noqa: N802
        if not request.properties.fields:
            mend = "the mapping cannot look anything up; name it by text instead of get() or import"
            raise ResourceError(f"{request.type}: {request.id}: {mend}")
        return proto.ReadResponse(id=request.id, properties=request.properties, inputs=request.inputs)


# -- values -----------------------------------------------------------------------------------------------------------

_SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
_ASSET: Final = "c44067f5952c0a294b673a41bacd8c17"
_ARCHIVE: Final = "0def7320c3a5731c473e5ecbe6d01bc7"


@dataclass(frozen=True, slots=True)
class _Changes:
    """The inputs of one resource, before and after."""

    before: Json
    after: Json

    @property
    def names(self) -> set[str]:
        return {
            name for name in self.before.keys() | self.after.keys() if self.before.get(name) != self.after.get(name)
        }

    def kind(self, name: str, *, replaces: bool) -> Any:
        """How the engine shows it."""
        word = "ADD" if name not in self.before else "DELETE" if name not in self.after else "UPDATE"
        return proto.PropertyDiff.Kind.Value(f"{word}_REPLACE" if replaces else word)


def _changed(old: Struct, new: Struct) -> _Changes:
    """Here the engine hands over no package but its hash, so one that only lies elsewhere is the same."""
    return _Changes(json_format.MessageToDict(old), json_format.MessageToDict(new))


def _foreseen(request: Any) -> Struct:
    """The outputs that an update will have, as far as they are known before it."""
    gone = request.old_inputs.fields.keys() - request.news.fields.keys()
    outputs = Struct(fields={name: value for name, value in request.olds.fields.items() if name not in gone})
    if request.type == _FUNCTION and _changed(request.old_inputs, request.news).names - _UNVERSIONED:
        outputs.update({name: rpc.UNKNOWN for name in _VERSIONED if name in outputs.fields})
    for name, value in request.news.fields.items():
        outputs.fields[name].CopyFrom(value)
    return outputs


def _merged(given: Struct, computed: Mapping[str, Any]) -> Struct:
    """What the engine gave, as it gave it (the hashes of packages are in there), and what came to it."""
    values = Struct()
    values.CopyFrom(given)
    for name, value in computed.items():
        if not _holds_package(value) and (name not in given.fields or _plain_value(given.fields[name]) != value):
            values.update({name: value})
    return values


def _holds_package(value: Any) -> bool:
    return isinstance(value, pulumi.Asset | pulumi.Archive)


def _struct(values: Mapping[str, Any]) -> Struct:
    return _merged(Struct(), values)


def _plain(values: Struct) -> Json:
    """The values as the mapping takes them: packages as pulumi's classes, whole numbers as int."""
    return {name: _plain_value(value) for name, value in values.fields.items()}


def _plain_value(value: Value) -> Any:
    match value.WhichOneof("kind"):
        case "struct_value":
            fields = _plain(value.struct_value)
            match fields.get(_SIGNATURE):
                case None:
                    return fields
                case sign if sign == _ASSET:
                    return _asset(fields)
                case sign if sign == _ARCHIVE:
                    return _archive(fields)
            raise ResourceError(f"a value that Pulumi marks with {fields[_SIGNATURE]} cannot be done here")
        case "list_value":
            return [_plain_value(item) for item in value.list_value.values]
        case "number_value" if value.number_value.is_integer():
            return int(value.number_value)
        case "null_value" | None:
            return None
        case kind:
            return getattr(value, kind)


def _asset(fields: Json) -> pulumi.Asset:
    if fields.get("path"):
        return pulumi.FileAsset(fields["path"])
    if fields.get("uri"):
        return pulumi.RemoteAsset(fields["uri"])
    return pulumi.StringAsset(fields.get("text", ""))


def _archive(fields: Json) -> pulumi.Archive:
    if fields.get("path"):
        return pulumi.FileArchive(fields["path"])
    if fields.get("uri"):
        return pulumi.RemoteArchive(fields["uri"])
    return pulumi.AssetArchive(fields.get("assets") or {})


# -- the process ------------------------------------------------------------------------------------------------------


def install(directory: Path) -> Path:
    """Write the executable that the engine looks for into a directory, which then goes to the front of the PATH."""
    directory.mkdir(parents=True, exist_ok=True)
    executable = directory / EXECUTABLE
    start = shlex.join(["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "local.plugin"])
    executable.write_text(f'#!/bin/sh\nexec {start} "$@"\n', encoding="utf-8")
    executable.chmod(0o755)
    return executable


def main() -> int:
    """Serve until the engine that started this ends it, or ends."""
    engine = os.getppid()
    server = grpc.server(ThreadPoolExecutor(PARALLEL, "pulumi-request"), options=_MESSAGE_SIZE)
    plugin = Plugin(os.environ.get("AWS_ENDPOINT_URL") or None)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(plugin, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    while os.getppid() == engine and server.wait_for_termination(LOOKS_FOR_PARENT):
        pass
    server.stop(0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
