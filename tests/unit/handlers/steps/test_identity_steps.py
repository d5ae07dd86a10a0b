"""SuspendIdentity, DeleteIdentity and the compensation: always the recorded user, never whoever has the name now.

Checked on moto's user pools; a search that is behind, throttling and missing permissions are answers put on the wire.
Suspension, deletion, restoration and a profile that was linked later are checked on the emulator too, in whole requests
(tests/emulator/test_deletion.py). Neither links profiles of external providers: what follows from a link is made here.
"""

import contextlib
import json
from collections.abc import Mapping
from typing import Any

import pytest

from handlers.core.errors import EffectPending, InvalidEvent, OwnershipLost, StoreMissing, Throttled
from handlers.core.person import Identity, Person
from handlers.core.states import VERIFY_STEP, StepStatus
from handlers.steps import delete_identity
from tests.wire import Call, Crash, answered, connection_lost, raises, refused
from tests.world import OTHER, OWNER, USER, Context, World

pytestmark = pytest.mark.exhaustive

SUSPEND, DELETE, RESTORE = "SuspendIdentity", "DeleteIdentity", "RestoreIdentity"
EXTERNAL = "Google_10001"
SECOND = "Login_with.Somebody_7"


def undo(world: World, request: str, *, owner: str = OWNER) -> Mapping[str, Any]:
    """Call the compensation as the graph does, after it marked the step."""
    record = world.record(request)
    world.change(request, undoing=record["attempt"], steps__SuspendIdentity__status=str(StepStatus.UNDOING))
    world.now += 61
    event = {"deletion_request_id": request, "owner": owner, "step": SUSPEND}
    return world.run(RESTORE, event=event)


def sub_of(user: Mapping[str, Any] | None) -> str | None:
    """The sub of a user as AdminGetUser shows it."""
    return next((one["Value"] for one in (user or {}).get("UserAttributes", ()) if one["Name"] == "sub"), None)


def link(world: World, *names: str, user: str = USER) -> list[str]:
    """Link profiles of external providers to a user; their own subs.

    moto has no AdminLinkProviderForUser. What follows from it on AWS is made here: the user gets an attribute
    `identities`, only ListUsers shows the linked profiles with their own subs, and a call by the name of one of them
    reaches the user as long as the link lives.
    """
    main, name_of = sub_of(world.pool_user(user)), world.wire.name_of
    subs = [world.make_user(name) for name in names]
    identities = [dict(zip(("providerName", "userId"), name.rsplit("_", 1), strict=True)) for name in names]
    attribute = {"Name": "identities", "Value": json.dumps(identities)}
    world.cognito.admin_update_user_attributes(UserPoolId=world.pool, Username=user, UserAttributes=[attribute])

    def reached(address: str) -> str:
        is_linked = address in names and sub_of(world.pool_user(user)) == main
        return user if is_linked else name_of(address)

    world.wire.name_of = reached
    return subs


def left(world: World, request: str) -> int:
    """How many profiles the step's own verification finds."""
    event = {"deletion_request_id": request, "owner": OTHER, "step": DELETE, "verify": True}
    return int(world.run(DELETE, event=event)["remaining"].get("identity", 0))


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
    world.wire.before("ListUsers", shown, times=3)

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


def test_a_user_of_an_external_provider_is_suspended_by_name_after_a_look_showed_the_sub(world: World) -> None:
    world.make_user(EXTERNAL)
    request = world.claimed(EXTERNAL, "5")

    world.run(SUSPEND, request)

    user = world.pool_user(EXTERNAL)
    assert user is not None
    assert user["Enabled"] is False
    assert [call.params["Username"] for call in world.wire.of("AdminGetUser")][-1] == EXTERNAL
    assert [call.params["Username"] for call in world.wire.of("AdminDisableUser")] == [EXTERNAL]
    assert [call.params["Username"] for call in world.wire.of("AdminUserGlobalSignOut")] == [EXTERNAL]


@pytest.mark.parametrize("name", [USER, EXTERNAL])
def test_a_user_who_is_gone_already_is_neither_suspended_nor_waited_for_nor_restored(world: World, name: str) -> None:
    world.more_environment = {"SETTLE": "3600"}
    world.make_user(name)
    request = world.claimed(name, "5")
    world.cognito.admin_delete_user(UserPoolId=world.pool, Username=name)

    answers = [world.run(SUSPEND, request), undo(world, request)]

    assert answers == [{"done": True, "wait": 0}, {"done": True}]
    assert not {"AdminDisableUser", "AdminUserGlobalSignOut", "AdminEnableUser"} & set(world.wire.operations())


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


# -- profiles of external providers that are linked to the user


def test_linked_profiles_are_recorded_with_their_own_subs_and_whether_they_were_enabled(world: World) -> None:
    sub = world.make_user()
    first, second = link(world, EXTERNAL, SECOND)
    world.cognito.admin_disable_user(UserPoolId=world.pool, Username=SECOND)

    request = world.claimed()

    assert world.record(request)["identity"] == {
        "sub": sub,
        "username": USER,
        "enabled": True,
        "linked": [
            {"sub": first, "username": EXTERNAL, "enabled": True},
            {"sub": second, "username": SECOND, "enabled": False},
        ],
    }


def test_a_linked_profile_is_found_where_the_pool_keeps_names_in_lower_case(world: World) -> None:
    world.make_user()
    link(world, EXTERNAL)
    world.cognito.admin_delete_user(UserPoolId=world.pool, Username=EXTERNAL)
    sub = world.make_user(EXTERNAL.lower())

    request = world.claimed()

    assert world.record(request)["identity"]["linked"] == [{"sub": sub, "username": EXTERNAL.lower(), "enabled": True}]


def test_a_user_of_an_external_provider_is_not_linked_to_itself(world: World) -> None:
    world.make_user(EXTERNAL)
    identities = json.dumps([{"providerName": "Google", "userId": "10001", "primary": True}])
    attribute = {"Name": "identities", "Value": identities}
    world.cognito.admin_update_user_attributes(UserPoolId=world.pool, Username=EXTERNAL, UserAttributes=[attribute])

    request = world.claimed(EXTERNAL, "5")

    assert world.record(request)["identity"]["linked"] == []


def test_each_linked_profile_is_deleted_after_the_user_it_is_linked_to(world: World) -> None:
    sub = world.make_user()
    link(world, EXTERNAL, SECOND)
    request = world.claimed()
    before = left(world, request)

    world.run(DELETE, request)

    assert [call.params["Username"] for call in world.wire.of("AdminDeleteUser")] == [sub, EXTERNAL, SECOND]
    assert world.cognito.list_users(UserPoolId=world.pool)["Users"] == []
    assert world.deleted(request, DELETE) == {"identity": 3}
    assert (before, left(world, request)) == (3, 0)


def test_a_linked_profile_that_outlived_its_user_is_deleted(world: World) -> None:
    world.make_user()
    link(world, EXTERNAL)
    request = world.claimed()
    world.cognito.admin_delete_user(UserPoolId=world.pool, Username=USER)

    world.run(DELETE, request)

    assert world.pool_user(EXTERNAL) is None
    assert world.deleted(request, DELETE) == {"identity": 1}


@pytest.mark.invariant("I1")
def test_a_user_who_came_back_by_the_same_provider_is_left_alone(world: World) -> None:
    world.make_user()
    link(world, EXTERNAL)
    request = world.claimed()
    for name in (USER, EXTERNAL):
        world.cognito.admin_delete_user(UserPoolId=world.pool, Username=name)
    sub = world.make_user(EXTERNAL)

    answers = [world.run(SUSPEND, request), world.run(DELETE, request)]

    user = world.pool_user(EXTERNAL)
    assert [answer["done"] for answer in answers] == [True, True]
    assert user is not None
    assert (sub_of(user), user["Enabled"]) == (sub, True)
    assert world.deleted(request, DELETE) == {}


@pytest.mark.invariant("I1")
def test_a_search_that_is_behind_deletes_nobody_who_has_the_name_now(world: World) -> None:
    old = world.make_user(EXTERNAL)
    request = world.claimed(EXTERNAL, "5")
    world.cognito.admin_delete_user(UserPoolId=world.pool, Username=EXTERNAL)
    new = world.make_user(EXTERNAL)
    shown = {"Username": EXTERNAL, "Attributes": [{"Name": "sub", "Value": old}], "Enabled": True}
    world.wire.before("ListUsers", answered(Users=[shown]), times=2)

    with pytest.raises(EffectPending):
        world.run(DELETE, request)

    assert sub_of(world.pool_user(EXTERNAL)) == new
    assert world.run(DELETE, request)["done"]


@pytest.mark.parametrize("when", ["crash", "answer lost"])
def test_a_crash_at_any_call_leaves_no_linked_profile_and_exact_counts(world: World, when: str) -> None:
    number, happened = 0, True
    while happened:
        number += 1
        user = f"user{number}"
        world.make_user(user)
        link(world, f"Google_{number}", user=user)
        request = world.claimed(user, str(number))
        link_later(world, user, f"Other_{number}")
        world.wire.after(number, Crash if when == "crash" else connection_lost)

        with contextlib.suppress(Crash):
            world.run(DELETE, request)
        happened = not world.wire.pending()
        world.wire.calm()
        world.run_until_done(DELETE, request)

        assert world.cognito.list_users(UserPoolId=world.pool)["Users"] == [], f"{when} call {number}"
        assert world.deleted(request, DELETE) == {"identity": 3}, f"{when} call {number}"
        assert linked_names(world, request) == [f"Google_{number}", f"Other_{number}"], f"{when} call {number}"
    assert number > 10


@pytest.mark.parametrize("place", [0, 1, 2], ids=["the user", "a recorded link", "a later link"])
@pytest.mark.parametrize("happened", [True, False])
def test_a_deletion_that_was_written_down_by_nobody_is_found_out_by_looking(
    world: World, place: int, *, happened: bool
) -> None:
    world.make_user()
    link(world, EXTERNAL)
    request = world.claimed()
    link_later(world, USER, SECOND)
    for _ in range(place):
        world.wire.before("AdminDeleteUser", lambda _: None)
    dies_after = lambda _: world.wire.crash_after("AdminDeleteUser")  # noqa: E731
    world.wire.before("AdminDeleteUser", dies_after if happened else raises(Crash()))
    with contextlib.suppress(Crash):
        world.run(DELETE, request)
    crashed = world.record(request)["steps"][DELETE]
    calls = len(world.wire.of("AdminDeleteUser"))

    world.run(DELETE, request)

    assert (crashed["batch"], crashed["deleted"].get("identity", 0)) == ({"profile": place}, place)
    assert len(world.wire.of("AdminDeleteUser")) - calls == (2 if happened else 3) - place
    assert world.cognito.list_users(UserPoolId=world.pool)["Users"] == []
    assert world.deleted(request, DELETE) == {"identity": 3}


def linked_names(world: World, request: str) -> list[str]:
    """The user names of the linked profiles that the request remembers."""
    return [one["username"] for one in world.record(request)["identity"]["linked"]]


def link_later(world: World, user: str, name: str) -> None:
    """One more profile, linked to a user who has others."""
    known = next(one["Value"] for one in (world.pool_user(user) or {})["UserAttributes"] if one["Name"] == "identities")
    link(world, name, user=user)
    added = next(one["Value"] for one in (world.pool_user(user) or {})["UserAttributes"] if one["Name"] == "identities")
    attribute = {"Name": "identities", "Value": json.dumps(json.loads(known) + json.loads(added))}
    world.cognito.admin_update_user_attributes(UserPoolId=world.pool, Username=user, UserAttributes=[attribute])


def test_a_profile_that_was_linked_in_the_grace_period_is_deleted_too(world: World) -> None:
    world.make_user()
    request = world.claimed()
    link(world, EXTERNAL)

    world.run(DELETE, request)

    assert world.pool_user(EXTERNAL) is None
    assert world.deleted(request, DELETE) == {"identity": 2}
    assert "batch" not in world.record(request)["steps"][DELETE]


@pytest.mark.invariant("I3")
@pytest.mark.parametrize("kept", [EXTERNAL, SECOND], ids=["recorded at acceptance", "linked later"])
def test_a_linked_profile_that_the_pool_kept_is_found_when_its_user_is_gone(world: World, kept: str) -> None:
    world.make_user()
    subs = link(world, EXTERNAL)
    request = world.claimed()
    link_later(world, USER, SECOND)
    for step in ("SuspendIdentity", "DeleteRecords", "DeleteFiles"):
        world.run_until_done(step, request)
    keep(world, kept)
    world.run(DELETE, request)
    world.lines()
    world.wire.before("Invoke", world.lambdas, times=6)

    answers = [world.run(VERIFY_STEP, request), world.run(DELETE, request), world.run(VERIFY_STEP, request)]

    assert answers[0] == {"clean": False, "leftovers": [DELETE]}
    assert answers[2] == {"clean": True, "leftovers": []}
    assert world.cognito.list_users(UserPoolId=world.pool)["Users"] == []
    lines = world.lines()
    found = next(line["remaining"] for line in lines if line["message"] == "leftovers found")
    assert found == {DELETE: {"identity": 1}}
    assert not any(secret in json.dumps(lines) for secret in (EXTERNAL, SECOND, *subs))


def keep(world: World, name: str) -> None:
    """The pool says that it deleted this profile, and still has it."""

    def answer(call: Call) -> Any:
        if call.params["Username"] == name:
            return answered()(call)
        keep(world, name)
        return None

    world.wire.before("AdminDeleteUser", answer)


def test_a_profile_is_recorded_as_linked_before_the_user_who_shows_the_link_is_deleted(world: World) -> None:
    sub = world.make_user()
    request = world.claimed()
    (linked,) = link(world, EXTERNAL)
    known: list[object] = []
    world.wire.before("AdminDeleteUser", lambda _: known.append(world.record(request)["identity"]))

    world.run(DELETE, request)

    profile = {"sub": linked, "username": EXTERNAL, "enabled": True}
    assert known == [{"sub": sub, "username": USER, "enabled": True, "linked": [profile]}]


def test_a_profile_that_was_linked_in_the_grace_period_is_listed_with_the_others(world: World) -> None:
    world.make_user()
    link(world, EXTERNAL)
    request = world.claimed()
    link_later(world, USER, SECOND)

    before = left(world, request)
    world.run(DELETE, request)

    assert (before, left(world, request)) == (3, 0)


def test_what_was_linked_before_the_suspension_is_deleted_though_its_user_is_gone_by_then(world: World) -> None:
    world.make_user()
    request = world.claimed()
    link(world, EXTERNAL)
    world.run(SUSPEND, request)
    world.cognito.admin_delete_user(UserPoolId=world.pool, Username=USER)
    before = left(world, request)

    world.run(DELETE, request)

    assert world.pool_user(EXTERNAL) is None
    assert world.deleted(request, DELETE) == {"identity": 1}
    assert (before, left(world, request)) == (1, 0)


@pytest.mark.parametrize("was_enabled", [True, False])
def test_what_was_linked_before_the_suspension_is_restored_as_it_was(world: World, *, was_enabled: bool) -> None:
    world.make_user()
    request = world.claimed()
    link(world, EXTERNAL)
    if not was_enabled:
        world.cognito.admin_disable_user(UserPoolId=world.pool, Username=EXTERNAL)
    world.run(SUSPEND, request)
    world.cognito.admin_delete_user(UserPoolId=world.pool, Username=USER)
    world.change(request, steps__SuspendIdentity__status="RUNNING")
    world.run(SUSPEND, request)
    suspended = world.pool_user(EXTERNAL)

    undo(world, request)

    restored = world.pool_user(EXTERNAL)
    assert suspended is not None
    assert restored is not None
    assert (suspended["Enabled"], restored["Enabled"]) == (False, was_enabled)


def test_the_names_of_profiles_that_were_linked_later_are_removed_on_cancellation(world: World) -> None:
    world.make_user()
    request = world.claimed()
    subs = link(world, EXTERNAL)
    world.run(SUSPEND, request)
    undo(world, request)
    names = linked_names(world, request)
    world.change(request, cancel_requested=True)

    world.run("CancelDeletion", request)

    assert names == [EXTERNAL]
    assert world.record(request)["status"] == "CANCELLED"
    assert not any(secret in json.dumps(world.record(request)) for secret in (EXTERNAL, *subs))


def test_no_call_by_the_name_of_a_linked_profile_reaches_the_user_it_is_linked_to(world: World) -> None:
    sub = world.make_user()
    link(world, EXTERNAL)
    world.cognito.admin_disable_user(UserPoolId=world.pool, Username=USER)
    request = world.claimed()
    world.run(SUSPEND, request)

    undo(world, request)

    user = world.pool_user()
    assert user is not None
    assert user["Enabled"] is False
    assert [call.params["Username"] for call in world.wire.of("AdminDisableUser")] == [sub]
    assert world.wire.of("AdminEnableUser") == []


@pytest.mark.parametrize("was_enabled", [True, False])
def test_a_linked_profile_that_outlived_its_user_is_suspended_and_restored_as_it_was(
    world: World, *, was_enabled: bool
) -> None:
    world.make_user()
    link(world, EXTERNAL)
    if not was_enabled:
        world.cognito.admin_disable_user(UserPoolId=world.pool, Username=EXTERNAL)
    request = world.claimed()
    world.cognito.admin_delete_user(UserPoolId=world.pool, Username=USER)

    world.run(SUSPEND, request)
    suspended = world.pool_user(EXTERNAL)
    undo(world, request)

    restored = world.pool_user(EXTERNAL)
    assert suspended is not None
    assert restored is not None
    assert (suspended["Enabled"], restored["Enabled"]) == (False, was_enabled)


def test_the_record_of_a_request_that_knew_no_links_is_read(world: World) -> None:
    assert Identity.of({"sub": "s", "username": "u", "enabled": True}).profiles() == (
        Identity(sub="s", username="u", enabled=True),
    )


def test_the_names_of_linked_profiles_are_removed_on_completion_and_never_logged(world: World) -> None:
    world.make_user()
    subs = link(world, EXTERNAL)
    request = world.claimed()
    link_later(world, USER, SECOND)
    world.lines()
    for step in (SUSPEND, "DeleteRecords", "DeleteFiles", DELETE):
        world.run_until_done(step, request)
    world.change(request, steps__VerifyErasure__status="DONE")

    world.run("CompleteDeletion", request)

    said = json.dumps(world.record(request)) + json.dumps(world.lines())
    assert world.record(request)["status"] == "COMPLETED"
    assert not any(secret in said for secret in (EXTERNAL, SECOND, *subs))


# -- pools of another kind


@pytest.fixture
def mail_world(world: World) -> World:
    """A world whose pool takes e-mail addresses as user names: the pool's own name of a user is the sub."""
    pool = world.cognito.create_user_pool(PoolName="by-mail", UsernameAttributes=["email"])
    world.pool = pool["UserPool"]["Id"]
    return world


def test_a_user_of_a_pool_that_signs_in_by_mail_is_suspended_and_restored(mail_world: World) -> None:
    sub = mail_world.make_user("user-a1b2@example.com")
    request = mail_world.claimed(sub, "5")

    mail_world.run(SUSPEND, request)
    suspended = mail_world.pool_user(sub)
    undo(mail_world, request)

    restored = mail_world.pool_user(sub)
    assert suspended is not None
    assert restored is not None
    assert (suspended["Enabled"], restored["Enabled"]) == (False, True)


def test_a_user_of_a_pool_that_signs_in_by_mail_is_deleted_by_sub(mail_world: World) -> None:
    sub = mail_world.make_user("user-a1b2@example.com")
    request = mail_world.claimed(sub, "5")
    before = left(mail_world, request)

    mail_world.run(DELETE, request)

    assert (before, left(mail_world, request)) == (1, 0)
    assert mail_world.pool_user(sub) is None
    assert [call.params["Username"] for call in mail_world.wire.of("AdminDeleteUser")] == [sub]
    assert mail_world.deleted(request, DELETE) == {"identity": 1}


def test_an_address_is_not_taken_for_the_user_of_a_pool_that_signs_in_by_mail(mail_world: World) -> None:
    mail_world.make_user("user-a1b2@example.com")

    with pytest.raises(InvalidEvent, match="alias"):
        mail_world.accept("user-a1b2@example.com", "5")


# -- before the first step


def preflight(world: World, person: Person) -> list[str]:
    """The step's own look at its pool, in its function's environment."""
    with world.environment(DELETE):
        return list(delete_identity.preflight(person))


@pytest.mark.parametrize(
    "identity", [None, Identity(sub="5f0c4a2e-0000-4000-8000-000000000000", username=USER, enabled=True)]
)
def test_a_pool_that_can_be_read_is_fit(world: World, identity: Identity | None) -> None:
    assert preflight(world, Person(user_id=USER, identity=identity)) == []


def test_a_pool_that_does_not_exist_is_named_with_the_mend(world: World) -> None:
    world.more_environment = {"USER_POOL_ID": "eu-west-1_gone"}

    problems = preflight(world, Person(user_id=USER))

    assert problems == ["store identity: there is no user pool eu-west-1_gone; correct user_pool_id"]


@pytest.mark.parametrize("operation", ["AdminGetUser", "ListUsers"])
def test_a_permission_that_the_step_lacks_is_named_before_the_first_step(world: World, operation: str) -> None:
    world.wire.before(operation, refused("AccessDeniedException"))

    problems = preflight(world, Person(user_id=USER))

    assert problems == [f"store identity: the step's role may not {operation}; allow it on the pool"]


def test_a_pool_that_is_throttled_before_the_first_step_is_no_problem_of_its_settings(world: World) -> None:
    world.wire.before("ListUsers", refused("TooManyRequestsException"))

    with pytest.raises(Throttled):
        preflight(world, Person(user_id=USER))
