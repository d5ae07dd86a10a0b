"""SuspendIdentity, DeleteIdentity and the compensation: always the recorded user, never whoever has the name now."""

from collections.abc import Mapping
from typing import Any

import pytest

from handlers.core.errors import EffectPending, OwnershipLost, StoreMissing, Throttled
from handlers.core.states import StepStatus
from tests.wire import answered, refused
from tests.world import OTHER, OWNER, USER, Context, World

pytestmark = pytest.mark.exhaustive

SUSPEND, DELETE, RESTORE = "SuspendIdentity", "DeleteIdentity", "RestoreIdentity"
EXTERNAL = "Google_10001"


def undo(world: World, request: str, *, owner: str = OWNER) -> Mapping[str, Any]:
    """Call the compensation as the graph does, after it marked the step."""
    record = world.record(request)
    world.change(request, undoing=record["attempt"], steps__SuspendIdentity__status=str(StepStatus.UNDOING))
    world.now += 61
    event = {"deletion_request_id": request, "owner": owner, "step": SUSPEND}
    return world.run(RESTORE, event=event)


def test_a_local_user_is_deleted_by_sub(world: World) -> None:
    sub = world.make_user()
    request = world.claimed()

    world.run(DELETE, request)

    assert world.pool_user() is None
    (call,) = world.wire.of("AdminDeleteUser")
    assert call.params["Username"] == sub


def test_the_fence_is_proved_right_before_the_user_is_deleted(world: World) -> None:
    world.make_user()
    request = world.claimed()

    world.run(DELETE, request)

    names = world.wire.operations()
    before = world.wire.calls[names.index("AdminDeleteUser") - 1]
    assert before.operation == "UpdateItem"
    assert "#fence = :fence" in before.params["ConditionExpression"]


def test_a_user_of_an_external_provider_is_deleted_by_name_after_a_look_showed_the_sub(world: World) -> None:
    world.make_user(EXTERNAL)
    request = world.claimed(EXTERNAL, "5")

    world.run(DELETE, request)

    assert world.pool_user(EXTERNAL) is None
    looks = [call.params["Username"] for call in world.wire.of("AdminGetUser")]
    (call,) = world.wire.of("AdminDeleteUser")
    assert looks[-1] == call.params["Username"] == EXTERNAL
    assert world.deleted(request, DELETE) == {"identity": 1}


@pytest.mark.invariant("I1")
@pytest.mark.parametrize("name", [USER, EXTERNAL])
@pytest.mark.parametrize("step", [SUSPEND, DELETE])
def test_the_same_user_name_with_another_sub_is_left_alone(world: World, name: str, step: str) -> None:
    world.make_user(name)
    request = world.claimed(name, "5")
    world.cognito.admin_delete_user(UserPoolId=world.pool, Username=name)
    world.make_user(name)
    before = world.pool_user(name)

    answer = world.run(step, request)

    assert answer["done"]
    after = world.pool_user(name)
    assert before is not None
    assert after is not None
    assert (after["UserAttributes"], after["Enabled"]) == (before["UserAttributes"], True)
    assert world.deleted(request, step) == {}


def test_not_found_is_done_when_a_search_by_sub_finds_nothing_either(world: World) -> None:
    world.make_user()
    request = world.claimed()
    world.cognito.admin_delete_user(UserPoolId=world.pool, Username=USER)

    answer = world.run(DELETE, request)

    assert answer["done"]
    assert world.wire.operations()[-2:] == ["ListUsers", "UpdateItem"]
    assert world.deleted(request, DELETE) == {}


def test_not_found_is_not_done_while_a_search_by_sub_still_shows_the_user(world: World) -> None:
    sub = world.make_user()
    request = world.claimed()
    world.cognito.admin_delete_user(UserPoolId=world.pool, Username=USER)
    shown = answered(
        Users=[{"Username": USER, "Attributes": [{"Name": "sub", "Value": sub}], "Enabled": True}],
    )
    world.wire.before("ListUsers", shown, times=2)

    with pytest.raises(EffectPending):
        world.run(DELETE, request)

    assert world.record(request)["steps"][DELETE]["status"] == "RUNNING"
    assert world.run(DELETE, request)["done"]


def test_a_search_goes_on_where_a_page_is_empty(world: World) -> None:
    sub = world.make_user(EXTERNAL)
    shown = {"Username": EXTERNAL, "Attributes": [{"Name": "sub", "Value": sub}], "Enabled": True}
    world.wire.before("ListUsers", answered(Users=[], PaginationToken="more"))
    world.wire.before("ListUsers", answered(Users=[shown]))

    request = world.claimed(sub, "5")

    assert world.record(request)["identity"]["username"] == EXTERNAL
    assert [call.params.get("PaginationToken") for call in world.wire.of("ListUsers")] == [None, "more"]


@pytest.mark.parametrize("step", [SUSPEND, DELETE])
def test_without_an_identity_there_is_nothing_to_do(world: World, step: str) -> None:
    request = world.claimed()

    calls = len(world.wire.calls)
    answer = world.run(step, request)

    assert answer["done"]
    assert {call.operation for call in world.wire.calls[calls:]} == {"UpdateItem"}


def test_without_an_identity_nothing_is_left(world: World) -> None:
    request = world.claimed()

    event = {"deletion_request_id": request, "owner": OTHER, "step": DELETE, "verify": True}
    assert world.run(DELETE, event=event) == {"remaining": {}}


def test_a_missing_pool_is_named(world: World) -> None:
    world.make_user()
    request = world.claimed()
    world.more_environment = {"USER_POOL_ID": "eu-west-1_gone"}

    with pytest.raises(StoreMissing) as raised:
        world.run(DELETE, request)

    assert str(raised.value) == "AdminGetUser answered ResourceNotFoundException"


def test_too_many_requests_is_a_throttle(world: World) -> None:
    world.make_user()
    request = world.claimed()
    world.wire.before("AdminGetUser", refused("TooManyRequestsException"))

    with pytest.raises(Throttled):
        world.run(DELETE, request)


def test_suspending_disables_and_signs_out_everywhere(world: World) -> None:
    sub = world.make_user()
    request = world.claimed()

    world.run(SUSPEND, request)

    user = world.pool_user()
    assert user is not None
    assert user["Enabled"] is False
    assert [call.params["Username"] for call in world.wire.of("AdminUserGlobalSignOut")] == [sub]
    assert "touched_at" in world.record(request)
    assert "pivot_at" not in world.record(request)


def test_suspending_settles_once_before_it_is_done(world: World) -> None:
    world.more_environment = {"SETTLE": "3600"}
    world.make_user()
    request = world.claimed()

    first = world.run(SUSPEND, request)
    record = world.record(request)
    world.now += 3599
    early = world.run(SUSPEND, request)
    world.now += 1
    second = world.run(SUSPEND, request)

    assert first == {"done": False, "wait": 3600}
    assert record["steps"][SUSPEND]["batch"] == {"signed_out_at": world.now - 3600}
    assert record["due_at"] >= world.now + 900
    assert early == {"done": False, "wait": 1}
    assert second == {"done": True, "wait": 0}
    assert len(world.wire.of("AdminUserGlobalSignOut")) == 1


def test_a_user_who_was_enabled_again_since_is_suspended_again_and_settles_again(world: World) -> None:
    world.more_environment = {"SETTLE": "3600"}
    world.make_user()
    request = world.claimed()
    world.run(SUSPEND, request)
    world.cognito.admin_enable_user(UserPoolId=world.pool, Username=USER)
    world.now += 3600

    answer = world.run(SUSPEND, request)

    user = world.pool_user()
    assert user is not None
    assert user["Enabled"] is False
    assert answer == {"done": False, "wait": 3600}


@pytest.mark.parametrize("name", [USER, EXTERNAL])
def test_the_compensation_enables_the_user_again(world: World, name: str) -> None:
    world.make_user(name)
    request = world.claimed(name, "5")
    world.run(SUSPEND, request)

    answers = [undo(world, request), undo(world, request)]

    user = world.pool_user(name)
    assert user is not None
    assert user["Enabled"] is True
    assert answers == [{"done": True}, {"done": True}]


def test_the_compensation_enables_nobody_who_was_disabled_before(world: World) -> None:
    world.make_user()
    world.cognito.admin_disable_user(UserPoolId=world.pool, Username=USER)
    request = world.claimed()
    world.run(SUSPEND, request)

    undo(world, request)

    user = world.pool_user()
    assert user is not None
    assert user["Enabled"] is False


@pytest.mark.invariant("I1")
def test_the_compensation_enables_nobody_who_has_the_name_now(world: World) -> None:
    world.make_user()
    request = world.claimed()
    world.run(SUSPEND, request)
    world.cognito.admin_delete_user(UserPoolId=world.pool, Username=USER)
    world.make_user()
    world.cognito.admin_disable_user(UserPoolId=world.pool, Username=USER)

    assert undo(world, request) == {"done": True}

    assert world.wire.of("AdminEnableUser") == []


def test_the_compensation_of_another_execution_does_nothing(world: World) -> None:
    world.make_user()
    request = world.claimed()
    world.run(SUSPEND, request)

    undo(world, request, owner=OTHER)

    user = world.pool_user()
    assert user is not None
    assert user["Enabled"] is False


def test_no_step_begins_in_the_attempt_in_which_compensation_began(world: World) -> None:
    world.make_user()
    request = world.claimed()
    world.run(SUSPEND, request)
    undo(world, request)
    calls = len(world.wire.calls)

    with pytest.raises(OwnershipLost):
        world.run(SUSPEND, request, context=Context())

    assert [call.operation for call in world.wire.calls[calls:]] == ["UpdateItem"]


@pytest.mark.invariant("I1", "I2")
def test_a_late_worker_does_not_suspend_a_user_whose_request_was_cancelled(world: World) -> None:
    world.make_user()
    request = world.claimed()
    world.wire.before("AdminGetUser", lambda _: world.change(request, status="CANCELLED", owner=None, fence=9))

    with pytest.raises(OwnershipLost):
        world.run(SUSPEND, request)

    user = world.pool_user()
    assert user is not None
    assert user["Enabled"] is True
