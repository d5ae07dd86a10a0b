"""Roles with the least they need: exact actions on exact resources, written down as data before a role is made."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_aws as aws

from infra.errors import ConfigurationError
from infra.naming import ROLE
from infra.platform import Text
from infra.site import Site

MAX_POLICY_CHARACTERS: Final = 10_240
"""All inline policies of one role, without white space:
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html"""
_ASSUMED_OUTPUT: Final = "x" * 200
"""Stands for a resource that is not known yet when a policy's length is checked."""
_ACTION: Final = re.compile(r"[a-z0-9-]+:[A-Za-z0-9]+")

Condition = Mapping[str, Mapping[str, str | list[str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One permission. An action is spelt out; `*` as a resource needs a written reason."""

    actions: tuple[str, ...]
    """IAM actions (not API calls: TransactWriteItems is not one), without wildcards."""
    resources: tuple[Text, ...]
    """ARNs. A `*` at the end of an ARN is for what is named at run time (a schedule, an object)."""
    condition: Condition | None = None
    """IAM condition block."""
    any_resource_because: str | None = None
    """Why the only resource is `*`: the actions know no other, with the AWS page that says so."""

    def __post_init__(self) -> None:
        wild = [action for action in self.actions if not _ACTION.fullmatch(action)]
        if wild or not self.actions or not self.resources:
            message = f"a permission needs exact actions and resources, not {self.actions} on {self.resources}"
            raise ConfigurationError((message,))
        if ("*" in _plain(self.resources)) != (self.any_resource_because is not None):
            message = f"{', '.join(self.actions)}: give the reason for the resource * (and only for it)"
            raise ConfigurationError((message,))

    def document(self) -> dict[str, object]:
        """The statement as IAM reads it."""
        body: dict[str, object] = {
            "Effect": "Allow",
            "Action": sorted(self.actions),
            "Resource": [*sorted(_plain(self.resources)), *(one for one in self.resources if not isinstance(one, str))],
        }
        return {**body, "Condition": self.condition} if self.condition else body


def platform_key_statements(site: Site) -> list[Statement]:
    """What whoever reads or writes something that the company's key encrypts needs; nothing without such a key."""
    key = site.platform.kms_key_arn
    return [] if key is None else [Statement(actions=("kms:Decrypt", "kms:GenerateDataKey"), resources=(key,))]


def length_problems(role: str, statements: Sequence[Statement]) -> list[str]:
    """Why these statements do not fit into one role; empty when they do."""
    length = len(_dumps(_document([_assumed(statement) for statement in statements])))
    if length <= MAX_POLICY_CHARACTERS:
        return []
    return [
        f"role {role}: its policy has {length} characters, IAM takes {MAX_POLICY_CHARACTERS}; "
        "split the step into two with half of the stores each"
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleArgs:
    """What a role is for."""

    site: Site
    """Account, Region, names and rails."""
    role: str
    """The part of its name that says whose role it is."""
    service: str
    """The service that may assume it, e.g. `lambda.amazonaws.com`."""
    statements: Sequence[Statement]
    """What it may do; an empty list is a role that may do nothing."""
    trust_condition: Condition | None = None
    """Limits who of that service may assume it (confused deputy)."""


class Role(pulumi.ComponentResource):
    """A role and its one inline policy.

    Replaced when its name or path changes: the function, machine or schedule that uses it follows by an update.
    """

    arn: pulumi.Output[str]
    """The role's ARN."""
    policy: aws.iam.RolePolicy
    """What must exist before anything uses the role: an ARN alone says nothing about order."""

    def __init__(self, name: str, args: RoleArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("account-deletion:iam:Role", name, None, opts)
        site = args.site
        physical = site.name(ROLE, args.role)
        trust: dict[str, object] = {
            "Effect": "Allow",
            "Action": "sts:AssumeRole",
            "Principal": {"Service": args.service},
        }
        if args.trust_condition:
            trust["Condition"] = args.trust_condition
        role = aws.iam.Role(
            f"{name}-role",
            name=physical,
            path=site.platform.role_path,
            description=f"account deletion: {args.role}",
            assume_role_policy=_dumps({"Version": "2012-10-17", "Statement": [trust]}),
            permissions_boundary=site.platform.permissions_boundary,
            tags=site.tags,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.policy = aws.iam.RolePolicy(
            f"{name}-policy",
            name=physical,
            role=role.name,
            policy=policy_text(args.statements),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.arn = role.arn
        self.register_outputs({"arn": self.arn})


def policy_text(statements: Sequence[Statement]) -> Text:
    """The policy document: plain text as long as every resource in it is."""
    document = _document(statements)
    if all(isinstance(one, str) for statement in statements for one in statement.resources):
        return _dumps(document)
    return pulumi.Output.json_dumps(document, separators=(",", ":"), sort_keys=True)


def _document(statements: Iterable[Statement]) -> dict[str, object]:
    return {"Version": "2012-10-17", "Statement": [statement.document() for statement in statements]}


def _dumps(document: Mapping[str, object]) -> str:
    return json.dumps(document, separators=(",", ":"), sort_keys=True)


def _plain(resources: Iterable[Text]) -> list[str]:
    return [one for one in resources if isinstance(one, str)]


def _assumed(statement: Statement) -> Statement:
    known = tuple(one if isinstance(one, str) else _ASSUMED_OUTPUT for one in statement.resources)
    return Statement(
        actions=statement.actions,
        resources=known,
        condition=statement.condition,
        any_resource_because=statement.any_resource_because,
    )
