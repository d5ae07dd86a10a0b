"""Disables the user's sign-in and signs the user out everywhere, then waits until issued tokens have expired.

Done when: each recorded profile that can be reached is disabled, and the settle time has passed since the sign-out;
nothing is deleted. A profile that is linked to another signs in as that one, so it needs no call of its own.
Safe to repeat because: only profiles with a recorded sub are disabled, and disabling twice changes nothing.
Leaves open: access and ID tokens stay valid until they expire, up to 24 hours, and the settle time is an hour at most
(https://docs.aws.amazon.com/cognito-user-identity-pools/latest/APIReference/API_AdminUserGlobalSignOut.html).
"""

import math
from dataclasses import dataclass
from datetime import timedelta

from handlers.core import clock, settings
from handlers.core.checkpoint import Again, Checkpoint, Done
from handlers.core.frame import step_handler
from handlers.steps._identity import PoolSettings, call, find, with_links


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendSettings(PoolSettings):
    """What the step needs besides the frame's settings."""

    settle: timedelta
    """How long issued tokens live: nothing is erased before. 0: no wait."""


@step_handler()
def handler(checkpoint: Checkpoint) -> Done | Again:
    """Suspend the recorded profiles, and settle."""
    own = settings.load(SuspendSettings)
    users = _reachable(checkpoint, own.user_pool_id)
    if not users:
        return Done()
    signed_out_at = checkpoint.batch.get("signed_out_at")
    # A compensation may have enabled the user since the sign-out that an earlier attempt recorded.
    if signed_out_at is None or any(is_enabled for _, is_enabled in users):
        checkpoint.progress()
        for address, _ in users:
            call("admin_disable_user", own.user_pool_id, address)
            call("admin_user_global_sign_out", own.user_pool_id, address)
        signed_out_at = clock.now()
        if own.settle:
            checkpoint.progress({"signed_out_at": signed_out_at}, pause=own.settle)
    left = math.ceil(signed_out_at + own.settle.total_seconds() - clock.now())
    return Again(wait=timedelta(seconds=left)) if left > 0 else Done()


def _reachable(checkpoint: Checkpoint, pool: str) -> list[tuple[str, bool]]:
    """Address of each recorded profile that calls reach, and whether it is enabled."""
    identity = checkpoint.person.identity
    if identity is None:
        return []
    found = [find(pool, profile) for profile in identity.profiles()]
    # The user may be gone when the deletion looks; a profile that is linked now then needs what is recorded here.
    with_links(checkpoint, pool, identity, found[0])
    return [(user.address, user.enabled) for user in found if user is not None and user.address is not None]
