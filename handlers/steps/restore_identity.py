"""Enables the user's sign-in again: the compensation of suspend_identity.

Done when: each recorded profile can sign in again, if that was so when the request was accepted.
Safe to repeat because: only profiles with a recorded sub are enabled, and enabling twice changes nothing.
Leaves open: sessions that the suspension ended stay ended; the user signs in again
(https://docs.aws.amazon.com/cognito-user-identity-pools/latest/APIReference/API_AdminEnableUser.html).
"""

from handlers.core import settings
from handlers.core.frame import compensation
from handlers.core.person import Person
from handlers.steps._identity import PoolSettings, call, find


@compensation()
def handler(person: Person) -> None:
    """Enable the recorded profiles, except those whose sign-in was disabled before the request."""
    if person.identity is None:
        return
    pool = settings.load(PoolSettings).user_pool_id
    for profile in person.identity.profiles():
        user = find(pool, profile) if profile.enabled else None
        if user is not None and user.address is not None:
            call("admin_enable_user", pool, user.address)
