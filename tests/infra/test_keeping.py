"""How long an ended request is kept: what the table and the functions are told."""

from datetime import timedelta
from typing import Any

import pytest

from tests.infra import golden, samples
from tests.infra.world import World, run

pytestmark = pytest.mark.exhaustive

ENDING = {"acme-prod-cancel-deletion", "acme-prod-cancel-request", "acme-prod-complete-deletion", "acme-prod-operate"}
"""Whatever makes a request COMPLETED or CANCELLED."""


def kept(world: World) -> dict[str, Any]:
    """Function -> how long it lets the requests live that it ends."""
    variables = {one.physical_name: one.inputs["environment"]["variables"] for one in world.of("Function")}
    return {name: found["KEEP_REQUESTS"] for name, found in variables.items() if "KEEP_REQUESTS" in found}


def test_the_table_deletes_what_has_expired_and_nothing_expires_unless_the_settings_say_so() -> None:
    world = golden.sample_world()

    assert world.one("Table").inputs["ttl"] == {"attributeName": "expires_at", "enabled": True}
    assert kept(world) == {}


def test_the_time_that_requests_are_kept_reaches_every_function_that_ends_one() -> None:
    settings = samples.settings(keep_requests=timedelta(days=400))

    world = run(lambda: samples.deploy(samples.arguments(settings=settings)))

    assert kept(world) == dict.fromkeys(ENDING, str(400 * 86_400))
