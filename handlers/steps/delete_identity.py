"""Deletes the user from the Cognito user pool, with the profiles of external providers that are linked to it.

Done when: neither a look by the recorded sub and user name nor a search by sub finds any of the recorded profiles.
Safe to repeat because: only profiles with a recorded sub are deleted, and a sub is never given again; a user who
registers again under the same name, or by the same provider, has another one.
Leaves open: between the look and the delete, the name of a user of an external provider could pass to a new profile of
the same person; tokens already issued stay valid until they expire (https://docs.aws.amazon.com/cognito/latest/
developerguide/amazon-cognito-user-pools-using-tokens-with-identity-providers.html); a profile that was linked after
the request was accepted is deleted too, but the verification, which knows what was recorded then, does not look for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from handlers.core import settings
from handlers.core.checkpoint import Again, Checkpoint, Done
from handlers.core.errors import AccessDenied, EffectPending, StoreMissing, StoreRefused
from handlers.core.frame import step_handler
from handlers.core.person import Identity, Person, Profile
from handlers.steps._identity import PoolSettings, call, find, linked, look, search

STORE = "identity"
"""Under which name the profiles count."""


@step_handler(EffectPending)
def handler(checkpoint: Checkpoint) -> Done | Again:
    """Delete the profile with the recorded sub, then those that were linked to it."""
    identity = checkpoint.person.identity
    if identity is None:
        return Done()
    pool = settings.load(PoolSettings).user_pool_id
    late = _linked_since(checkpoint, pool, identity)
    for number, profile in enumerate((*identity.profiles(), *late)):
        user = find(pool, profile)
        if user is None:
            _count_if_recorded(checkpoint, number)
            continue
        checkpoint.progress({"profile": number, "late": [asdict(one) for one in late]})
        if user.address is None or not _delete(pool, user.address, profile):
            raise EffectPending(checkpoint.task.deletion_request_id, checkpoint.task.step, "AdminDeleteUser")
        checkpoint.add(STORE, 1)
        checkpoint.forget_batch()
    return Done()


def remaining(person: Person) -> Mapping[str, int]:
    """How many of the recorded profiles the pool still shows."""
    if person.identity is None:
        return {STORE: 0}
    pool = settings.load(PoolSettings).user_pool_id
    return {STORE: sum(find(pool, profile) is not None for profile in person.identity.profiles())}


def preflight(person: Person) -> Sequence[str]:
    """Whether the pool is there and lets itself be read; a permission to delete cannot be tried without deleting."""
    pool = settings.load(PoolSettings).user_pool_id
    sub = person.identity.sub if person.identity else person.user_id
    problems = []
    for read in (look, search):
        try:
            read(pool, sub)
        except StoreMissing:
            return (f"store {STORE}: there is no user pool {pool}; correct user_pool_id",)
        except AccessDenied as denied:
            problems.append(f"store {STORE}: the step's role may not {denied.operation}; allow it on the pool")
        except StoreRefused as refused:
            problems.append(f"store {STORE}: {refused}; correct user_pool_id")
    return problems


def _linked_since(checkpoint: Checkpoint, pool: str, identity: Identity) -> tuple[Profile, ...]:
    """What was linked since the request was accepted: only the main profile knows, so the batch keeps it."""
    if "late" in checkpoint.batch:
        return tuple(Profile(**profile) for profile in checkpoint.batch["late"])
    user = find(pool, identity)
    known = {profile.sub for profile in identity.profiles()}
    return tuple(one for one in linked(pool, user) if one.sub not in known) if user is not None else ()


def _count_if_recorded(checkpoint: Checkpoint, number: int) -> None:
    # Gone: by an earlier invocation that recorded it, or by somebody else.
    if checkpoint.batch.get("profile") == number:
        checkpoint.add(STORE, 1)
        checkpoint.forget_batch()


def _delete(pool: str, address: str, profile: Profile) -> bool:
    """False while the pool says that the user is not there, and a search still shows it."""
    return call("admin_delete_user", pool, address) or find(pool, profile) is None
