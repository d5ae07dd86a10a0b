"""aws:lambda/function and aws:lambda/layerVersion: real code, run as it is packed.

Python functions become `provided.al2023` with a bootstrap of ours: the emulator's own Python runtime calls every
exception Runtime.HandlerError and lets handlers import from the emulator's own site-packages. Custom runtimes get no
layers there, so the bootstrap brings them: what the LayerVersion holds, unpacked once by content.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import urllib.request
from pathlib import Path
from typing import Any

from local.packages import PackageError, unpack, with_runtime, zip_bytes
from local.resources.base import (
    LAYERS,
    Json,
    Made,
    RefusedValueError,
    ResourceType,
    World,
    first,
    quietly,
    shape,
    tag_changes,
    taken,
)

UNRESERVED = -1
"""What pulumi-aws calls "no reserved concurrency"."""


def _package(world: World, inputs: Json) -> bytes:
    if inputs.get("code") is not None:
        try:
            return zip_bytes(inputs["code"])
        except PackageError as error:
            raise RefusedValueError("code", inputs["code"], str(error)) from error
    if inputs.get("s3Bucket") is None:
        raise RefusedValueError("code", None, "give code, or s3Bucket and s3Key")
    where = taken(inputs, s3Bucket="Bucket", s3Key="Key", s3ObjectVersion="VersionId")
    content: bytes = world.client("s3").get_object(**where)["Body"].read()
    return content


# -- layers -----------------------------------------------------------------------------------------------------------


def _create_layer(world: World, inputs: Json) -> Made:
    answer = world.client("lambda").publish_layer_version(
        LayerName=inputs["layerName"],
        Content={"ZipFile": _package(world, inputs)},
        **taken(inputs, "compatibleRuntimes", "compatibleArchitectures", "description", "licenseInfo"),
    )
    computed = {
        "arn": answer["LayerVersionArn"],
        "layerArn": answer["LayerArn"],
        "version": str(answer["Version"]),
        "createdDate": answer["CreatedDate"],
        "codeSha256": answer["Content"]["CodeSha256"],
        "sourceCodeSize": answer["Content"]["CodeSize"],
        "sourceCodeHash": inputs.get("sourceCodeHash", answer["Content"]["CodeSha256"]),
    }
    return Made(answer["LayerVersionArn"], computed)


def _delete_layer(world: World, arn: str, _outputs: Json) -> None:
    name, version = arn.rsplit(":", 2)[1:]
    world.client("lambda").delete_layer_version(LayerName=name, VersionNumber=int(version))


def _layer_directory(world: World, arn: str) -> Path:
    content = world.client("lambda").get_layer_version_by_arn(Arn=arn)["Content"]
    directory = LAYERS / base64.b64decode(content["CodeSha256"]).hex()
    if not directory.exists():
        with urllib.request.urlopen(content["Location"], timeout=60) as answer:  # noqa: S310 the emulator's own URL
            unpack(answer.read(), directory)
    return directory


# -- functions --------------------------------------------------------------------------------------------------------


def _code(world: World, inputs: Json) -> bytes:
    package, runtime = _package(world, inputs), inputs.get("runtime", "")
    if runtime.startswith("python"):
        layers = [_layer_directory(world, arn) for arn in inputs.get("layers", [])]
        try:
            return with_runtime(package, sys.executable, layers)
        except PackageError as error:
            raise RefusedValueError("code", inputs.get("code"), str(error)) from error
    return package


def _runtime(inputs: Json) -> str:
    runtime = str(inputs.get("runtime", ""))
    if runtime.startswith("python"):
        return "provided.al2023"
    if runtime.startswith("provided"):
        return runtime
    raise RefusedValueError("runtime", runtime, "only python3.x and provided.* run on the emulator without Docker")


def _settings(inputs: Json) -> Json:
    """Everything but the code, in full: what a change removed goes back to its default."""
    network = first(inputs.get("vpcConfig")) or {}
    return {
        "Runtime": _runtime(inputs),
        "Role": inputs["role"],
        "Handler": inputs.get("handler", "bootstrap"),
        "Description": inputs.get("description", ""),
        "Timeout": inputs.get("timeout", 3),
        "MemorySize": inputs.get("memorySize", 128),
        "Layers": inputs.get("layers", []),
        "Environment": {
            "Variables": shape("environment", inputs.get("environment") or {}, "variables").get("Variables", {})
        },
        "DeadLetterConfig": shape("deadLetterConfig", first(inputs.get("deadLetterConfig")) or {}, "targetArn"),
        "KMSKeyArn": inputs.get("kmsKeyArn", ""),
        "TracingConfig": shape("tracingConfig", first(inputs.get("tracingConfig")) or {"mode": "PassThrough"}, "mode"),
        "EphemeralStorage": shape("ephemeralStorage", first(inputs.get("ephemeralStorage")) or {"size": 512}, "size"),
        "VpcConfig": shape("vpcConfig", network, "subnetIds", "securityGroupIds", "ipv6AllowedForDualStack"),
        "LoggingConfig": shape(
            "loggingConfig",
            first(inputs.get("loggingConfig")) or {"logFormat": "Text"},
            "logFormat",
            "logGroup",
            "applicationLogLevel",
            "systemLogLevel",
        ),
    }


def _create(world: World, inputs: Json) -> Made:
    client, name = world.client("lambda"), inputs["name"]
    config = client.create_function(
        FunctionName=name,
        Code={"ZipFile": _code(world, inputs)},
        Publish=bool(inputs.get("publish")),
        Architectures=inputs.get("architectures", ["x86_64"]),
        Tags=inputs.get("tags") or {},
        **_settings(inputs),
    )
    _concurrency(client, name, {}, inputs)
    return Made(name, _outputs(world, config, config["Version"]))


def _concurrency(client: Any, name: str, old: Json, new: Json) -> None:
    before, after = (side.get("reservedConcurrentExecutions", UNRESERVED) for side in (old, new))
    if before == after:
        return
    if after == UNRESERVED:
        client.delete_function_concurrency(FunctionName=name)
    else:
        client.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=after)


def _update(world: World, name: str, old: Json, new: Json) -> Json:
    client = world.client("lambda")
    before = client.get_function_configuration(FunctionName=name)
    touched = False
    if _settings(old) != _settings(new):
        client.update_function_configuration(FunctionName=name, **_settings(new))
        touched = True
    code = _code(world, new)
    if base64.b64encode(hashlib.sha256(code).digest()).decode() != before["CodeSha256"]:
        client.update_function_code(FunctionName=name, ZipFile=code)
        touched = True
    _concurrency(client, name, old, new)
    _tags(client, before["FunctionArn"], old, new)
    version = _last_version(client, name)
    if new.get("publish") and (touched or not old.get("publish")):
        version = client.publish_version(FunctionName=name)["Version"]
    return _outputs(world, client.get_function_configuration(FunctionName=name), version)


def _last_version(client: Any, name: str) -> str:
    pages = client.get_paginator("list_versions_by_function").paginate(FunctionName=name)
    versions = [version["Version"] for page in pages for version in page["Versions"]]
    numbers = [int(version) for version in versions if version != "$LATEST"]
    return str(max(numbers)) if numbers else "$LATEST"


def _tags(client: Any, arn: str, old: Json, new: Json) -> None:
    added, removed = tag_changes(old, new)
    if added:
        client.tag_resource(Resource=arn, Tags=added)
    if removed:
        client.untag_resource(Resource=arn, TagKeys=removed)


def _outputs(world: World, config: Json, version: str) -> Json:
    arn = f"arn:aws:lambda:{world.region}:{world.account}:function:{config['FunctionName']}"
    return {
        "arn": arn,
        "version": version,
        "qualifiedArn": f"{arn}:{version}",
        "invokeArn": invoke_arn(world, arn),
        "qualifiedInvokeArn": invoke_arn(world, f"{arn}:{version}"),
        "codeSha256": config["CodeSha256"],
        "sourceCodeSize": config["CodeSize"],
        "lastModified": config["LastModified"],
    }


def invoke_arn(world: World, function: str) -> str:
    """What an API integration calls."""
    return f"arn:aws:apigateway:{world.region}:lambda:path/2015-03-31/functions/{function}/invocations"


def _delete(world: World, name: str, _outputs: Json) -> None:
    quietly(world.client("lambda").delete_function, FunctionName=name)


_CODE = frozenset({"code", "s3Bucket", "s3Key", "s3ObjectVersion", "sourceCodeHash"})

LAYER_VERSION = ResourceType(
    pulumi_type="aws:lambda/layerVersion:LayerVersion",
    honoured=_CODE | {"layerName", "description"},
    not_honoured={
        "compatibleRuntimes": "stored; a function with another runtime may use it, as on AWS",
        "compatibleArchitectures": "stored; what runs is this machine's architecture",
        "licenseInfo": "stored",
        "skipDestroy": "a local layer is always removed",
    },
    replaces=_CODE | {"layerName", "description", "compatibleRuntimes", "compatibleArchitectures", "licenseInfo"},
    named_by="layerName",
    create=_create_layer,
    update=None,
    delete=_delete_layer,
)

FUNCTION = ResourceType(
    pulumi_type="aws:lambda/function:Function",
    honoured=_CODE
    | {
        "name",
        "role",
        "runtime",
        "handler",
        "timeout",
        "environment",
        "layers",
        "publish",
        "description",
        "deadLetterConfig",
        "loggingConfig",
        "reservedConcurrentExecutions",
        "tags",
        "packageType",
    },
    not_honoured={
        "memorySize": "stored; memory is not limited",
        "architectures": "stored; what runs is this machine's architecture",
        "vpcConfig": "stored; there are no networks",
        "kmsKeyArn": "stored; nothing is encrypted",
        "tracingConfig": "stored; there are no traces",
        "ephemeralStorage": "stored; the disk is this machine's",
        "skipDestroy": "a local function is always removed",
    },
    replaces=frozenset({"name", "packageType", "architectures"}),
    named_by="name",
    create=_create,
    update=_update,
    delete=_delete,
)

TYPES = (LAYER_VERSION, FUNCTION)
