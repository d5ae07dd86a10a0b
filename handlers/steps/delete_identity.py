"""Deletes the user from the Cognito user pool, with the profiles of external providers that are linked to it.

Done when: neither a look by the recorded sub and user name nor a search by sub finds any of the recorded profiles, to
which belong those that were linked since the request was accepted: they are recorded before the user is deleted, so the
verification looks for each of them too.
Safe to repeat because: only profiles with a recorded sub are deleted, and a sub is never given again; a user who
registers again under the same name, or by the same provider, has another one.
Leaves open: between the look and the delete, the name of a user of an external provider could pass to a new profile of
the same person; tokens already issued stay valid until they expire (https://docs.aws.amazon.com/cognito/latest/
developerguide/amazon-cognito-user-pools-using-tokens-with-identity-providers.html). Only the living user says what is
linked to it, and only an eventually consistent search shows those profiles; ListUsers filters by none of a user's
identities (https://docs.aws.amazon.com/cognito-user-identity-pools/latest/APIReference/API_ListUsers.html). So a
profile stays unknown, and is neither deleted nor verified, if it was linked within the seconds between the last look
and the delete, if the search did not show it yet, or if somebody else deleted the user before a step saw the link.
"""

from collections.abc import Mapping, Sequence

from handlers.core import settings
from handlers.core.checkpoint import Again, Checkpoint, Done
from handlers.core.errors import AccessDenied, EffectPending, StoreMissing, StoreRefused
from handlers.core.frame import step_handler
from handlers.core.person import Person, Profile
from handlers.steps._identity import PoolSettings, call, find, linked_since, look, search, with_links

STORE = "identity"
"""Under which name the profiles count."""


@step_handler(EffectPending)
def handler(checkpoint: Checkpoint) -> Done | Again:
    """Delete the profile with the recorded sub, then those that were linked to it."""
    identity = checkpoint.person.identity
    if identity is None:
        return Done()
    pool = settings.load(PoolSettings).user_pool_id
    identity = with_links(checkpoint, pool, identity, find(pool, identity))
    for number, profile in enumerate(identity.profiles()):
        user = find(pool, profile)
        if user is None:
            _count_if_recorded(checkpoint, number)
            continue
        checkpoint.progress({"profile": number})
        if user.address is None or not _delete(pool, user.address, profile):
            raise EffectPending(checkpoint.task.deletion_request_id, checkpoint.task.step, "AdminDeleteUser")
        checkpoint.add(STORE, 1)
        checkpoint.forget_batch()
    return Done()


def remaining(person: Person) -> Mapping[str, int]:
    """How many profiles of the user the pool still shows: the recorded ones, and what is linked to the user by now."""
    if person.identity is None:
        return {STORE: 0}
    pool = settings.load(PoolSettings).user_pool_id
    users = [find(pool, profile) for profile in person.identity.profiles()]
    late = linked_since(pool, person.identity, users[0])
    return {STORE: sum(user is not None for user in users) + len(late)}


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


def _count_if_recorded(checkpoint: Checkpoint, number: int) -> None:
    # Gone: by an earlier invocation that recorded it, or by somebody else.
    if checkpoint.batch.get("profile") == number:
        checkpoint.add(STORE, 1)
        checkpoint.forget_batch()


def _delete(pool: str, address: str, profile: Profile) -> bool:
    """False while the pool says that the user is not there, and a search still shows it."""
    return call("admin_delete_user", pool, address) or find(pool, profile) is None
