"""What the sample environment consists of, as committed text: a change of it shows in the pull request.

`python -m tests.infra.golden` writes the files anew. A resource that would vanish is replaced or destroyed on AWS, so
its line may go only when another resource takes it over by an alias, or when `--destroys` says that this is meant.
"""

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.infra import samples
from tests.infra.world import Registered, World, document, run

_DATA: Final = Path(__file__).resolve().parent / "data"
RESOURCES: Final = _DATA / "resources.txt"
ROLES: Final = _DATA / "roles.json"
COMMAND: Final = "python -m tests.infra.golden"


def resource_text(world: World) -> str:
    """One line a resource: its URN, which holds the type, and its physical name."""
    return "".join(sorted(f"{_line(one)}\n" for one in world.resources))


def role_text(world: World) -> str:
    """Every role with who may assume it, and every action on every resource."""
    policies = {one.inputs["role"]: document(one) for one in world.of("RolePolicy")}
    roles = {
        one.physical_name: {
            "trusts": [_trust(statement) for statement in document(one, "assumeRolePolicy")["Statement"]],
            "may": [_permission(statement) for statement in policies[one.physical_name]["Statement"]],
        }
        for one in world.of("Role")
    }
    return json.dumps(roles, indent=2, sort_keys=True) + "\n"


def vanished(committed: str, world: World) -> list[str]:
    """Lines of the committed text that no resource of today answers for, not even by an alias."""
    urns = {one.urn for one in world.resources}
    aliases = {alias for one in world.resources for alias in one.aliases}
    gone = set(committed.splitlines()) - set(resource_text(world).splitlines())
    return sorted(line for line in gone if line.split()[0] in urns or line.split()[0] not in aliases)


@cache
def sample_world() -> World:
    """The environment that the files describe."""
    return run(samples.deploy)


def refresh(arguments: list[str]) -> int:
    """Write both files; 1 when that would hide that something is replaced or destroyed."""
    world = sample_world()
    lost = vanished(RESOURCES.read_text(encoding="utf-8"), world) if RESOURCES.exists() else []
    if lost and "--destroys" not in arguments:
        for line in lost:
            sys.stderr.write(f"would be replaced or destroyed: {line}\n")
        sys.stderr.write(f"give it an alias, or say that this is meant: {COMMAND} --destroys\n")
        return 1
    RESOURCES.write_text(resource_text(world), encoding="utf-8")
    ROLES.write_text(role_text(world), encoding="utf-8")
    return 0


def _line(one: Registered) -> str:
    return f"{one.urn} {one.physical_name or '-'}"


def _trust(statement: dict[str, Any]) -> dict[str, Any]:
    return {"service": statement["Principal"]["Service"], **_condition(statement)}


def _permission(statement: dict[str, Any]) -> dict[str, Any]:
    return {"actions": statement["Action"], "on": statement["Resource"], **_condition(statement)}


def _condition(statement: dict[str, Any]) -> dict[str, Any]:
    return {"if": statement["Condition"]} if "Condition" in statement else {}


if __name__ == "__main__":
    sys.exit(refresh(sys.argv[1:]))
