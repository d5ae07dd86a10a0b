"""What the tests of single steps share."""

import pytest

from tests.unit.handlers.steps.bucket import Bucket
from tests.world import World


@pytest.fixture
def bucket(world: World) -> Bucket:
    """The user's bucket, held in memory."""
    return Bucket(world)


@pytest.fixture
def request_id(world: World) -> str:
    """A claimed request of a user who has nothing but a login."""
    world.make_user()
    return world.claimed()
