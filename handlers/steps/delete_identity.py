"""Deletes the user from the Cognito user pool.

Done when: neither a look by the recorded sub and user name nor a search by sub finds the user.
Safe to repeat because: only the user with the recorded sub is deleted, and a sub is never given again; a user who
registers again under the same name has another one.
Leaves open: between the look and the delete, the name of a user of an external provider could pass to a new profile of
the same person; tokens already issued stay valid until they expire (https://docs.aws.amazon.com/cognito/latest/
developerguide/amazon-cognito-user-pools-using-tokens-with-identity-providers.html); a further profile of an external
provider that was linked to the user is not looked for.
"""

from collections.abc import Mapping

from handlers.core import settings
from handlers.core.checkpoint import Again, Checkpoint, Done
from handlers.core.errors import EffectPending
from handlers.core.frame import step_handler
from handlers.core.person import Person
from handlers.steps._identity import PoolSettings, call, find

STORE = "identity"
"""Under which name the user counts."""


@step_handler(EffectPending)
def handler(checkpoint: Checkpoint) -> Done | Again:
    """Delete the user with the recorded sub."""
    identity = checkpoint.person.identity
    if identity is None:
        return Done()
    pool = settings.load(PoolSettings).user_pool_id
    user = find(pool, identity)
    if user is None:
        # Gone: by an earlier invocation that recorded it, or by somebody else.
        checkpoint.add(STORE, checkpoint.batch.get("size", 0))
        return Done()
    checkpoint.progress({"size": 1})
    if not call("admin_delete_user", pool, user.address) and find(pool, identity) is not None:
        raise EffectPending(checkpoint.task.deletion_request_id, checkpoint.task.step, "AdminDeleteUser")
    checkpoint.add(STORE, 1)
    return Done()


def remaining(person: Person) -> Mapping[str, int]:
    """1 while the pool still shows the user, else 0."""
    if person.identity is None:
        return {STORE: 0}
    return {STORE: int(find(settings.load(PoolSettings).user_pool_id, person.identity) is not None)}
