"""Enables the user's sign-in again: the compensation of suspend_identity.

Done when: the user can sign in again, if that was so when the request was accepted.
Safe to repeat because: only the user with the recorded sub is enabled, and enabling twice changes nothing.
Leaves open: sessions that the suspension ended stay ended; the user signs in again
(https://docs.aws.amazon.com/cognito-user-identity-pools/latest/APIReference/API_AdminEnableUser.html).
"""

from handlers.core import settings
from handlers.core.frame import compensation
from handlers.core.person import Person
from handlers.steps._identity import PoolSettings, call, find


@compensation()
def handler(person: Person) -> None:
    """Enable the user with the recorded sub, unless sign-in was disabled before the request."""
    identity = person.identity
    if identity is None or not identity.enabled:
        return
    pool = settings.load(PoolSettings).user_pool_id
    user = find(pool, identity)
    if user is not None:
        call("admin_enable_user", pool, user.address)
