"""The mapping itself: type token -> create, update, delete; function token -> invoke."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError

from local.emulator import ACCOUNT, REGION
from local.resources import (
    cloudwatch,
    dynamodb,
    events,
    functions,
    iam,
    kms,
    logs,
    messaging,
    scheduler,
    stepfunctions,
    storage,
    wiring,
)
from local.resources.base import (
    Inputs,
    Json,
    RefusedValueError,
    ResourceError,
    ResourceType,
    ServiceError,
    UnknownFieldError,
    UnknownPropertyError,
    UnknownTypeError,
    UnsupportedValueError,
    World,
)

_MODULES = (
    cloudwatch,
    dynamodb,
    events,
    functions,
    iam,
    kms,
    logs,
    messaging,
    scheduler,
    stepfunctions,
    storage,
    wiring,
)

TYPES: Mapping[str, ResourceType] = {kind.pulumi_type: kind for module in _MODULES for kind in module.TYPES}
"""Every type that a local run can make."""

EVERYWHERE = frozenset({"region"})
"""Inputs that each type of pulumi-aws has; accepted where they name the Region of the local run."""


def _caller(account: str, _region: str) -> Json:
    return {"id": account, "accountId": account, "arn": f"arn:aws:iam::{account}:root", "userId": account}


def _region(_account: str, region: str) -> Json:
    return {
        "id": region,
        "region": region,
        "name": region,
        "description": "local",
        "endpoint": f"ec2.{region}.amazonaws.com",
    }


def _partition(_account: str, _region: str) -> Json:
    return {"id": "aws", "partition": "aws", "dnsSuffix": "amazonaws.com", "reverseDnsPrefix": "com.amazonaws"}


_INVOKES: Mapping[str, Callable[[str, str], Json]] = {
    "aws:index/getCallerIdentity:getCallerIdentity": _caller,
    "aws:index/getRegion:getRegion": _region,
    "aws:index/getPartition:getPartition": _partition,
}


class Resources:
    """Makes, changes and removes resources in one place.

    Every method raises ResourceError: UnknownTypeError, UnknownPropertyError, UnsupportedValueError, or ServiceError.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    def create(self, token: str, inputs: Inputs) -> tuple[str, Json]:
        """Make it: (its id, every output: the inputs and what the service computed)."""
        kind = resource_type(token)
        with _explained(token):
            checked = self._checked(kind, inputs)
            made = kind.create(self._world, checked)
            return made.id, {**checked, **made.outputs}

    def update(self, token: str, resource_id: str, old: Inputs, new: Inputs) -> Json:
        """Change it in place: every output. `replacements` says whether that is possible."""
        kind = resource_type(token)
        with _explained(token):
            before, after = self._checked(kind, old), self._checked(kind, new)
            if kind.update is None:
                raise RefusedValueError(
                    "(any)", sorted(replacements(token, old, new)), "replace it: it cannot be changed"
                )
            return {**after, **kind.update(self._world, resource_id, before, after)}

    def delete(self, token: str, resource_id: str, outputs: Inputs) -> None:
        """Remove it; one that is gone already is no error."""
        with _explained(token):
            resource_type(token).delete(self._world, resource_id, dict(outputs))

    def invoke(self, token: str, args: Inputs) -> Json:
        """What a Pulumi function answers. Raises UnknownTypeError, UnknownPropertyError."""
        return invoke_locally(token, args, self._world.account, self._world.region)

    def _checked(self, kind: ResourceType, inputs: Inputs) -> Json:
        return _check(kind, inputs, self._world.region)


def invoke_locally(token: str, args: Inputs, account: str = ACCOUNT, region: str = REGION) -> Json:
    """What a Pulumi function answers for that account and Region: it needs no emulator."""
    if token not in _INVOKES:
        raise UnknownTypeError(token, sorted(_INVOKES))
    for name, value in args.items():
        if value is not None and (name, value) != ("region", region):
            raise UnknownPropertyError(token, name, ["region"])
    return _INVOKES[token](account, region)


def refuse_unknown(token: str, inputs: Inputs, region: str = REGION) -> None:
    """Raises UnknownTypeError, UnknownPropertyError, UnsupportedValueError; makes nothing, needs no emulator."""
    kind = resource_type(token)
    with _explained(token):
        _check(kind, inputs, region)


def _check(kind: ResourceType, inputs: Inputs, region: str) -> Json:
    rest = {name: value for name, value in inputs.items() if name not in EVERYWHERE}
    if (wanted := inputs.get("region")) not in (None, region):
        raise RefusedValueError("region", wanted, f"a local run has one Region, {region}")
    return kind.check(rest)


def resource_type(token: str) -> ResourceType:
    """The mapping of that type. Raises UnknownTypeError."""
    try:
        return TYPES[token]
    except KeyError:
        raise UnknownTypeError(token, sorted(TYPES)) from None


def replacements(token: str, old: Inputs, new: Inputs) -> set[str]:
    """The changed inputs that make a new resource necessary; empty when it can be changed in place."""
    kind = resource_type(token)
    differing = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
    return differing if kind.update is None else differing & kind.replaces


def with_name(token: str, logical: str, inputs: Inputs, seed: str) -> Json:
    """The inputs, with a physical name from the logical one where the program gives none.

    Like Pulumi's own, but always the same seven characters for the same seed (a URN), so that a later run finds it.
    """
    kind = resource_type(token)
    if kind.named_by is None or inputs.get(kind.named_by) is not None:
        return dict(inputs)
    return {**inputs, kind.named_by: f"{logical}-{hashlib.sha256(seed.encode()).hexdigest()[:7]}"}


@contextmanager
def _explained(token: str) -> Iterator[None]:
    """Every refusal names the type."""
    try:
        yield
    except ResourceError:
        raise
    except UnknownFieldError as error:
        raise UnknownPropertyError(token, error.path, error.known) from error
    except RefusedValueError as error:
        raise UnsupportedValueError(token, error.path, error.value, error.mend) from error
    except (ClientError, BotoCoreError) as error:
        raise ServiceError(token, error) from error
    except KeyError as error:
        raise UnsupportedValueError(token, str(error.args[0]), None, "it is required") from error
