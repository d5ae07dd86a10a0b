"""aws:iam/*

A function may do what its role's policies and permissions boundary allow, and nothing else. The roles of state
machines, schedules and rules are stored, and nobody looks at them.
"""

from __future__ import annotations

import json
import re
from typing import Any

from local.resources.base import (
    Json,
    Made,
    ResourceType,
    World,
    changed,
    document,
    pairs,
    quietly,
    tag_changes,
    taken,
)

_SCHEDULE = re.compile(r"(arn:[^:]+:scheduler:[^:]*:[^:]*:schedule/)[^/]+/(.+)")


def _role_outputs(role: Json) -> Json:
    return {
        "arn": role["Arn"],
        "uniqueId": role["RoleId"],
        "createDate": role["CreateDate"].isoformat(),
        "name": role["RoleName"],
    }


def _create_role(world: World, inputs: Json) -> Made:
    client = world.client("iam")
    role = client.create_role(
        RoleName=inputs["name"],
        AssumeRolePolicyDocument=document(inputs["assumeRolePolicy"]),
        Tags=pairs(inputs.get("tags")),
        **taken(inputs, "path", "description", "maxSessionDuration", "permissionsBoundary"),
    )["Role"]
    _managed(client, inputs["name"], {}, inputs)
    return Made(inputs["name"], _role_outputs(role))


def _managed(client: Any, name: str, old: Json, new: Json) -> None:
    before, after = set(old.get("managedPolicyArns") or []), set(new.get("managedPolicyArns") or [])
    for arn in sorted(after - before):
        client.attach_role_policy(RoleName=name, PolicyArn=arn)
    for arn in sorted(before - after):
        client.detach_role_policy(RoleName=name, PolicyArn=arn)


def _update_role(world: World, name: str, old: Json, new: Json) -> Json:
    client = world.client("iam")
    if changed(old, new, "assumeRolePolicy"):
        client.update_assume_role_policy(RoleName=name, PolicyDocument=document(new["assumeRolePolicy"]))
    if changed(old, new, "description", "maxSessionDuration"):
        client.update_role(
            RoleName=name,
            Description=new.get("description", ""),
            MaxSessionDuration=new.get("maxSessionDuration", 3600),
        )
    if changed(old, new, "permissionsBoundary"):
        if new.get("permissionsBoundary"):
            client.put_role_permissions_boundary(RoleName=name, PermissionsBoundary=new["permissionsBoundary"])
        else:
            client.delete_role_permissions_boundary(RoleName=name)
    _managed(client, name, old, new)
    added, removed = tag_changes(old, new)
    if added:
        client.tag_role(RoleName=name, Tags=pairs(added))
    if removed:
        client.untag_role(RoleName=name, TagKeys=removed)
    return _role_outputs(client.get_role(RoleName=name)["Role"])


def _delete_role(world: World, name: str, outputs: Json) -> None:
    client = world.client("iam")
    for arn in outputs.get("managedPolicyArns") or []:
        quietly(client.detach_role_policy, RoleName=name, PolicyArn=arn)
    quietly(client.delete_role, RoleName=name)


def _put_policy(world: World, inputs: Json) -> None:
    world.client("iam").put_role_policy(
        RoleName=inputs["role"], PolicyName=inputs["name"], PolicyDocument=_as_asked_here(document(inputs["policy"]))
    )


def _as_asked_here(policy: str) -> str:
    """What the emulator asks for where AWS asks for something else.

    For the first entry of a DeleteObjects call s3:DeleteObject, also when it names a version (AWS:
    s3:DeleteObjectVersion alone); for a schedule in any group the one of that name in the group `default`.
    """
    read = json.loads(policy)
    for statement in read["Statement"]:
        actions, resources = _listed(statement, "Action"), _listed(statement, "Resource")
        if "s3:DeleteObjectVersion" in actions and "s3:DeleteObject" not in actions:
            statement["Action"] = [*actions, "s3:DeleteObject"]
        groups = [_SCHEDULE.fullmatch(resource) for resource in resources]
        statement["Resource"] = [*resources, *(f"{one[1]}default/{one[2]}" for one in groups if one)]
    return json.dumps(read)


def _listed(statement: Json, name: str) -> list[str]:
    value = statement.get(name, [])
    return [value] if isinstance(value, str) else list(value)


def _create_policy(world: World, inputs: Json) -> Made:
    _put_policy(world, inputs)
    return Made(f"{inputs['role']}:{inputs['name']}", {})


def _update_policy(world: World, _id: str, _old: Json, new: Json) -> Json:
    _put_policy(world, new)
    return {}


def _delete_policy(world: World, policy_id: str, _outputs: Json) -> None:
    role, name = policy_id.split(":", 1)
    quietly(world.client("iam").delete_role_policy, RoleName=role, PolicyName=name)


def _create_attachment(world: World, inputs: Json) -> Made:
    world.client("iam").attach_role_policy(RoleName=inputs["role"], PolicyArn=inputs["policyArn"])
    return Made(f"{inputs['role']}/{inputs['policyArn']}", {})


def _delete_attachment(world: World, _id: str, outputs: Json) -> None:
    quietly(world.client("iam").detach_role_policy, RoleName=outputs["role"], PolicyArn=outputs["policyArn"])


ROLE = ResourceType(
    pulumi_type="aws:iam/role:Role",
    honoured=frozenset(
        {"name", "path", "description", "maxSessionDuration", "managedPolicyArns", "permissionsBoundary", "tags"}
    ),
    not_honoured={
        "assumeRolePolicy": "stored and described; whoever names the role has it",
        "forceDetachPolicies": "a local role is always removed with what is attached by managedPolicyArns",
    },
    replaces=frozenset({"name", "path"}),
    named_by="name",
    create=_create_role,
    update=_update_role,
    delete=_delete_role,
)

ROLE_POLICY = ResourceType(
    pulumi_type="aws:iam/rolePolicy:RolePolicy",
    honoured=frozenset({"name", "role", "policy"}),
    replaces=frozenset({"name", "role"}),
    named_by="name",
    create=_create_policy,
    update=_update_policy,
    delete=_delete_policy,
)

ROLE_POLICY_ATTACHMENT = ResourceType(
    pulumi_type="aws:iam/rolePolicyAttachment:RolePolicyAttachment",
    honoured=frozenset({"role", "policyArn"}),
    create=_create_attachment,
    update=None,
    delete=_delete_attachment,
)

TYPES = (ROLE, ROLE_POLICY, ROLE_POLICY_ATTACHMENT)
