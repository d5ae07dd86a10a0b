"""Disables the user's sign-in and signs the user out everywhere, then waits until issued tokens have expired.

Done when: the user is disabled and the settle time has passed since the sign-out; nothing is deleted.
Safe to repeat because: only the user with the recorded sub is disabled, and disabling twice changes nothing.
Leaves open: access and ID tokens stay valid until they expire, up to 24 hours, and the settle time is an hour at most
(https://docs.aws.amazon.com/cognito-user-identity-pools/latest/APIReference/API_AdminUserGlobalSignOut.html).
"""

import math
from dataclasses import dataclass
from datetime import timedelta

from handlers.core import clock, settings
from handlers.core.checkpoint import Again, Checkpoint, Done
from handlers.core.frame import step_handler
from handlers.steps._identity import PoolSettings, call, find


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendSettings(PoolSettings):
    """What the step needs besides the frame's settings."""

    settle: timedelta
    """How long issued tokens live: nothing is erased before. 0: no wait."""


@step_handler()
def handler(checkpoint: Checkpoint) -> Done | Again:
    """Suspend the user with the recorded sub, and settle."""
    own = settings.load(SuspendSettings)
    identity = checkpoint.person.identity
    user = find(own.user_pool_id, identity) if identity is not None else None
    if user is None:
        return Done()
    signed_out_at = checkpoint.batch.get("signed_out_at")
    # A compensation may have enabled the user since the sign-out that an earlier attempt recorded.
    if signed_out_at is None or user.enabled:
        checkpoint.progress()
        call("admin_disable_user", own.user_pool_id, user.address)
        call("admin_user_global_sign_out", own.user_pool_id, user.address)
        signed_out_at = clock.now()
        if own.settle:
            checkpoint.progress({"signed_out_at": signed_out_at}, pause=own.settle)
    left = math.ceil(signed_out_at + own.settle.total_seconds() - clock.now())
    return Again(wait=timedelta(seconds=left)) if left > 0 else Done()
