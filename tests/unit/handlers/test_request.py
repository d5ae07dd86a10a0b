"""Accepting a request: one record, one guard, one schedule, and nothing that should not be there."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from handlers.core.errors import AccessDenied, InvalidEvent, StoreUnavailable
from handlers.core.events import is_request_id
from handlers.core.request_table import RequestTable
from handlers.operations import hold_person, release_person
from tests.wire import Call, Crash, cancelled, refused
from tests.world import ACCOUNT, CUSTOMER, REGION, TABLE, USER, World, function_arn

DAY = 86400
KEY = "the caller's key"


def event(**fields: object) -> dict[str, object]:
    """A complete event; None leaves a field out."""
    whole = {"user_id": USER, "identifiers": {"customer_id": CUSTOMER}, **fields}
    return {name: value for name, value in whole.items() if value is not None}


def accept(world: World, **fields: object) -> Mapping[str, Any]:
    return world.run("Request", event=event(**fields))


def schedules(world: World) -> list[Mapping[str, Any]]:
    client = world.client("scheduler")
    return [
        client.get_schedule(GroupName="deletions", Name=one["Name"]) for one in client.list_schedules()["Schedules"]
    ]


def requests(world: World) -> list[str]:
    return [item["pk"] for item in world.items("deletions") if item["pk"].startswith("REQUEST#")]


def test_a_request_is_recorded_with_its_guard_and_its_schedule(world: World) -> None:
    sub = world.make_user()

    answer = accept(world, origin="data_subject")

    request = answer["deletion_request_id"]
    assert answer == {
        "deletion_request_id": request,
        "status": "SCHEDULED",
        "grace_ends_at": world.now + 30 * DAY,
        "erase_by": world.now + 45 * DAY,
        "identity": "recorded",
    }
    record = world.record(request)
    subject = record["subject"]
    assert re.fullmatch(r"k1_[0-9a-f]{64}", subject)
    assert 0 <= record.pop("due_shard") < 16
    assert record == {
        "pk": f"REQUEST#{request}",
        "deletion_request_id": request,
        "user_id": USER,
        "identifiers": {"customer_id": CUSTOMER},
        "identity": {"sub": sub, "username": USER, "enabled": True, "linked": []},
        "subject": subject,
        "requested_at": world.now,
        "accepted_at": world.now,
        "erase_by": world.now + 45 * DAY,
        "origin": "data_subject",
        "status": "SCHEDULED",
        "grace_ends_at": world.now + 30 * DAY,
        "due_at": world.now + 30 * DAY,
        "attempt": 0,
        "attempt_base": 0,
        "claimed": 0,
        "failures": 0,
        "fence": 0,
        "seq": 0,
        "undoing": 0,
        "cancel_requested": False,
        "steps": {},
    }
    assert world.guard(subject) == {"pk": f"USER#{subject}", "active_request": request}


def test_the_schedule_calls_dispatch_once_with_the_id_alone(world: World) -> None:
    request = accept(world)["deletion_request_id"]

    (schedule,) = schedules(world)
    assert schedule["Name"] == request
    due = datetime.fromtimestamp(world.now + 30 * DAY, UTC)
    assert schedule["ScheduleExpression"] == f"at({due:%Y-%m-%dT%H:%M:%S})"
    assert schedule["ScheduleExpressionTimezone"] == "UTC"
    assert schedule["FlexibleTimeWindow"] == {"Mode": "OFF"}
    assert schedule["ActionAfterCompletion"] == "DELETE"
    target = schedule["Target"]
    assert target["Arn"] == function_arn("Dispatch")
    assert json.loads(target["Input"]) == {"deletion_request_id": request}
    assert target["RoleArn"] == f"arn:aws:iam::{ACCOUNT}:role/schedule"
    assert target["DeadLetterConfig"] == {"Arn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:schedule-dead-letters"}


def test_a_second_request_of_the_same_user_is_answered_with_the_first(world: World) -> None:
    first = accept(world)

    second = accept(world, grace_days=1)

    assert second == first
    assert len(requests(world)) == 1
    assert len(schedules(world)) == 1


def test_the_same_key_has_the_same_id_and_is_neither_stored_nor_logged(world: World) -> None:
    first = accept(world, idempotency_key=KEY)
    record = world.record(first["deletion_request_id"])
    world.now += 100

    second = accept(world, idempotency_key=KEY, grace_days=2)

    assert second == first
    assert is_request_id(first["deletion_request_id"])
    assert world.record(first["deletion_request_id"]) == record
    assert KEY not in json.dumps([*world.items("deletions"), *world.lines()])


def test_a_key_of_a_request_that_ended_is_answered_with_its_end(world: World) -> None:
    first = accept(world, idempotency_key=KEY)["deletion_request_id"]
    world.change(first, status="COMPLETED", user_id=None)
    world.dynamodb.delete_item(TableName="deletions", Key={"pk": {"S": f"USER#{world.record(first)['subject']}"}})

    again = accept(world, idempotency_key=KEY)
    new = accept(world)

    assert (again["deletion_request_id"], again["status"]) == (first, "COMPLETED")
    assert new["deletion_request_id"] != first


def test_the_same_key_for_another_user_is_refused(world: World) -> None:
    accept(world, idempotency_key=KEY)

    with pytest.raises(InvalidEvent) as raised:
        accept(world, idempotency_key=KEY, user_id="bert")

    assert str(raised.value) == "idempotency_key: was used for another user"
    assert len(requests(world)) == 1


def test_ids_without_a_key_are_ulids_that_sort_by_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = []
    for user in ("a1", "a2", "a3"):
        monkeypatch.setattr("time.time_ns", lambda user=user: int(user[1]) * 10**18)
        ids.append(accept(world, user_id=user)["deletion_request_id"])

    assert ids == sorted(ids)
    assert len(set(ids)) == 3
    assert all(is_request_id(one) for one in ids)


def test_subjects_and_ids_of_one_text_differ(world: World) -> None:
    accept(world, idempotency_key=USER)

    messages = {call.params["Message"] for call in world.wire.of("GenerateMac")}
    assert messages == {b'["subject","test","ann"]', b'["deletion_request_id","test","ann"]'}


# -- whoever is held


def hold(world: World, subject: str) -> None:
    hold_person(RequestTable(TABLE), subject)


def subject_of_user(world: World) -> str:
    """Whom a request would be for."""
    first = accept(world)["deletion_request_id"]
    subject = str(world.record(first)["subject"])
    for key in (f"REQUEST#{first}", f"USER#{subject}"):
        world.dynamodb.delete_item(TableName=TABLE, Key={"pk": {"S": key}})
    world.client("scheduler").delete_schedule(Name=first, GroupName="deletions")
    return subject


@pytest.mark.invariant("I2")
def test_a_request_of_a_held_person_is_accepted_as_held_and_nobody_looks_at_it(world: World) -> None:
    subject = subject_of_user(world)
    hold(world, subject)

    answer = accept(world)

    request = answer["deletion_request_id"]
    assert answer["status"] == "HELD"
    assert "due_at" not in world.record(request)
    assert world.guard(subject)["active_request"] == request
    assert schedules(world) == []
    assert accept(world) == answer


@pytest.mark.invariant("I2")
@pytest.mark.parametrize("before", [1, 2])
def test_a_hold_in_the_same_moment_meets_the_request_or_is_met_by_it(world: World, before: int) -> None:
    """Whichever of the two writes comes first, nothing is SCHEDULED under a held person."""
    subject = subject_of_user(world)
    operation = {1: "TransactWriteItems", 2: "CreateSchedule"}[before]
    world.wire.before(operation, lambda _: hold(world, subject))

    request = accept(world)["deletion_request_id"]

    assert world.record(request)["status"] == "HELD"
    assert "due_at" not in world.record(request)


def test_a_release_in_the_same_moment_leaves_a_request_that_goes_on(world: World) -> None:
    subject = subject_of_user(world)
    hold(world, subject)

    def release(_: Call) -> None:
        release_person(RequestTable(TABLE), subject)

    world.wire.before("TransactWriteItems", lambda _: None)
    world.wire.before("TransactWriteItems", release)

    assert accept(world)["status"] == "SCHEDULED"
    assert len(schedules(world)) == 1


def test_an_acceptance_of_a_held_person_whose_answer_is_lost_is_recognised(world: World) -> None:
    hold(world, subject_of_user(world))
    world.wire.before("TransactWriteItems", lambda _: world.wire.lose_answer("TransactWriteItems"), times=2)

    answer = accept(world)

    assert answer["status"] == "HELD"
    assert requests(world) == [f"REQUEST#{answer['deletion_request_id']}"]


# -- whose identity it is


@pytest.mark.parametrize("by", ["sub", "name", "external"])
def test_the_identity_is_found_by_sub_or_by_user_name(world: World, by: str) -> None:
    name = "Google_10001" if by == "external" else "berta"
    sub = world.make_user(name)
    world.cognito.admin_disable_user(UserPoolId=world.pool, Username=name)

    request = accept(world, user_id=sub if by == "sub" else name)["deletion_request_id"]

    assert world.record(request)["identity"] == {"sub": sub, "username": name, "enabled": False, "linked": []}


def test_an_alias_of_a_user_is_refused(world: World) -> None:
    """Whoever is behind an e-mail address today may be somebody else when the grace period ends."""

    def show_another(call: Call) -> Any:
        answer = world.cognito.admin_get_user(UserPoolId=world.pool, Username="berta")
        return type("Http", (), {"status_code": 200, "headers": {}})(), answer

    world.make_user("berta")
    world.wire.before("AdminGetUser", show_another)

    with pytest.raises(InvalidEvent, match="user_id: is an alias in the user pool"):
        accept(world)

    assert world.items(TABLE) == []


def test_a_user_whom_the_pool_does_not_know_is_accepted_and_counted(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = accept(world)

    assert answer["identity"] == "not found"
    assert '"IdentityNotFound":[1.0]' in capsys.readouterr().out


@pytest.mark.parametrize("key", ["key-1", None])
def test_a_repeated_request_is_answered_however_late_it_comes(world: World, key: str | None) -> None:
    """Neither the promise nor the identity is looked at again."""
    asked = datetime.fromtimestamp(world.now, UTC).isoformat()
    wish = {"requested_at": asked, "idempotency_key": key}
    first = accept(world, **{name: value for name, value in wish.items() if value})
    world.now += 44 * DAY
    world.wire.before("ListUsers", refused("InternalErrorException"), times=9)

    again = accept(world, **{name: value for name, value in wish.items() if value})

    assert again == first


def test_without_a_pool_nobody_is_looked_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = dict(world.functions()["Request"][1])
    del environment["USER_POOL_ID"]
    handler = world.functions()["Request"][0]
    monkeypatch.setattr(world, "functions", lambda: {"Request": (handler, environment)})

    request = accept(world)["deletion_request_id"]

    assert "identity" not in world.record(request)
    assert not {"ListUsers", "AdminGetUser"} & set(world.wire.operations())


# -- what is refused before any call


@pytest.mark.parametrize(
    "user_id", ["", "/", "..", None, "*", ".", "a/b", "a#b", " a", "a\n", "a" * 129, 7, True, ["a"]]
)
def test_a_user_id_that_could_reach_beyond_its_place_is_refused_before_any_call(world: World, user_id: object) -> None:
    with pytest.raises(InvalidEvent) as raised:
        accept(world, user_id=user_id)

    assert raised.value.field == "user_id"
    assert world.wire.calls == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"identifiers": None}, "identifiers: an object with exactly the declared ones: customer_id"),
        ({"identifiers": {}}, "identifiers: an object with exactly the declared ones: customer_id"),
        ({"identifiers": "1001"}, "identifiers: an object with exactly the declared ones: customer_id"),
        (
            {"identifiers": {"customer_id": "1", "tenant": "x"}},
            "identifiers: an object with exactly the declared ones: customer_id",
        ),
        (
            {"identifiers": {"customer_id": "*"}},
            "identifiers.customer_id: 1 to 128 characters: the first a letter or a digit, the others also "
            "_ . @ + = : | ~ -",
        ),
        ({"idempotency_key": ""}, "idempotency_key: 1 to 255 characters"),
        ({"idempotency_key": "x" * 256}, "idempotency_key: 1 to 255 characters"),
        ({"idempotency_key": 7}, "idempotency_key: 1 to 255 characters"),
        ({"origin": "somebody"}, "origin: one of self_service, data_subject, operator, inactivity"),
        ({"origin": 1}, "origin: one of self_service, data_subject, operator, inactivity"),
        ({"grace_days": -1}, "grace_days: a number of days from 0 to 40"),
        ({"grace_days": 40.1}, "grace_days: a number of days from 0 to 40"),
        ({"grace_days": float("nan")}, "grace_days: a number of days from 0 to 40"),
        ({"grace_days": True}, "grace_days: a number of days from 0 to 40"),
        ({"grace_days": "1"}, "grace_days: a number of days from 0 to 40"),
        (
            {"requested_at": "2026-01-01T00:00:00"},
            "requested_at: an ISO 8601 time with an offset, at most 10 minutes in the future",
        ),
        (
            {"requested_at": "yesterday"},
            "requested_at: an ISO 8601 time with an offset, at most 10 minutes in the future",
        ),
        ({"requested_at": 7}, "requested_at: an ISO 8601 time with an offset, at most 10 minutes in the future"),
        (
            {"name": "Ann"},
            "event: no fields but grace_days, idempotency_key, identifiers, origin, requested_at, user_id",
        ),
    ],
)
def test_a_wrong_field_is_named_with_its_rule_but_never_its_value(
    world: World, fields: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidEvent) as raised:
        accept(world, **fields)

    assert str(raised.value) == message
    assert world.wire.calls == []


@pytest.mark.parametrize("wrong", [None, "ann", [], 7])
def test_an_event_that_is_no_object_is_refused(world: World, wrong: Any) -> None:
    with world.environment("Request") as handler, pytest.raises(InvalidEvent, match="event: a JSON object"):
        handler(wrong, None)


# -- time


def at(seconds: int, zone: timezone = UTC) -> str:
    return datetime.fromtimestamp(seconds, zone).isoformat()


def test_the_grace_period_counts_from_when_it_was_asked(world: World) -> None:
    asked = world.now - 10 * DAY

    answer = accept(world, requested_at=at(asked, timezone(timedelta(hours=2))))

    assert answer["grace_ends_at"] == asked + 30 * DAY
    assert answer["erase_by"] == asked + 45 * DAY


def test_a_grace_period_that_is_over_already_ends_now_and_needs_no_schedule(world: World) -> None:
    answer = accept(world, requested_at=at(world.now - 35 * DAY))

    assert answer["grace_ends_at"] == world.now
    assert schedules(world) == []


def test_a_request_so_late_that_the_promise_cannot_be_kept_is_refused(world: World) -> None:
    with pytest.raises(InvalidEvent) as raised:
        accept(world, requested_at=at(world.now - 44 * DAY))

    assert raised.value.field == "requested_at"
    assert requests(world) == []


def test_a_clock_that_is_ten_minutes_ahead_is_believed_and_one_second_more_is_not(world: World) -> None:
    with pytest.raises(InvalidEvent):
        accept(world, requested_at=at(world.now + 601))

    assert accept(world, requested_at=at(world.now + 600))["status"] == "SCHEDULED"


@pytest.mark.parametrize(("days", "seconds"), [(0, 0), (0.5, DAY // 2), (40, 40 * DAY)])
def test_a_grace_period_within_bounds_is_kept(world: World, days: float, seconds: int) -> None:
    assert accept(world, grace_days=days)["grace_ends_at"] == world.now + seconds


@pytest.mark.parametrize(("seconds", "made"), [(119, 0), (121, 1)])
def test_what_is_due_within_two_minutes_gets_no_schedule(world: World, seconds: int, made: int) -> None:
    accept(world, grace_days=seconds / DAY)

    assert len(schedules(world)) == made


# -- what goes wrong


@pytest.mark.invariant("I4")
@pytest.mark.parametrize(
    "act",
    [
        refused("ServiceQuotaExceededException", status=402),
        refused("ValidationException"),
        refused("AccessDeniedException", status=403),
        refused("InternalServerException", status=500),
        refused("ThrottlingException", status=429),
        refused("ResourceNotFoundException", status=404),
    ],
)
def test_a_schedule_that_cannot_be_made_fails_nothing(
    world: World, act: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    world.wire.before("CreateSchedule", act)

    answer = accept(world)

    assert answer["status"] == "SCHEDULED"
    assert world.record(answer["deletion_request_id"])["due_at"] == answer["grace_ends_at"]
    assert "ScheduleNotCreated" in capsys.readouterr().out


@pytest.mark.invariant("I4")
def test_a_schedule_whose_answer_is_lost_exists_and_counts_as_made(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.wire.lose_answer("CreateSchedule")

    assert accept(world)["status"] == "SCHEDULED"
    assert len(schedules(world)) == 1
    assert "ScheduleNotCreated" not in capsys.readouterr().out


@pytest.mark.invariant("I4")
def test_a_crash_between_record_and_schedule_leaves_a_request_that_is_due(world: World) -> None:
    world.wire.before("CreateSchedule", lambda _: _crash())
    with pytest.raises(Crash):
        accept(world, idempotency_key=KEY)

    again = accept(world, idempotency_key=KEY)

    assert len(requests(world)) == 1
    assert world.record(again["deletion_request_id"])["due_at"] == again["grace_ends_at"]
    assert len(schedules(world)) == 1


def _crash() -> None:
    raise Crash


def test_an_acceptance_whose_answer_is_lost_is_recognised(world: World) -> None:
    world.wire.lose_answer("TransactWriteItems")

    answer = accept(world)

    assert requests(world) == [f"REQUEST#{answer['deletion_request_id']}"]


@pytest.mark.parametrize("act", [cancelled("None", "TransactionConflict"), cancelled("ThrottlingError", "None")])
def test_a_busy_guard_is_not_taken_for_an_open_request(world: World, act: Any) -> None:
    world.wire.before("TransactWriteItems", act, times=2)

    assert accept(world)["status"] == "SCHEDULED"


def test_a_guard_whose_request_ends_meanwhile_lets_the_new_one_in(world: World) -> None:
    first = accept(world)["deletion_request_id"]
    subject = world.record(first)["subject"]

    def complete(_: Call) -> None:
        world.change(first, status="COMPLETED", user_id=None)
        world.dynamodb.delete_item(TableName="deletions", Key={"pk": {"S": f"USER#{subject}"}})

    world.wire.before("GetItem", complete)

    second = accept(world)

    assert second["deletion_request_id"] != first
    assert world.guard(subject)["active_request"] == second["deletion_request_id"]


def test_a_guard_that_names_no_request_is_not_overwritten(world: World) -> None:
    first = accept(world)["deletion_request_id"]
    world.dynamodb.delete_item(TableName="deletions", Key={"pk": {"S": f"REQUEST#{first}"}})

    with pytest.raises(StoreUnavailable):
        accept(world)

    assert requests(world) == []


def test_a_key_that_may_not_be_used_is_named(world: World) -> None:
    world.wire.before("GenerateMac", refused("AccessDeniedException"))

    with pytest.raises(AccessDenied, match="GenerateMac answered AccessDeniedException"):
        accept(world)

    assert requests(world) == []


@pytest.mark.invariant("I8")
def test_neither_log_nor_answer_nor_schedule_holds_personal_data(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.make_user()
    world.lines()

    answer = accept(world)

    said = json.dumps([answer, world.lines(), schedules(world)], default=str) + capsys.readouterr().out
    said = said.replace(answer["deletion_request_id"], "")
    assert not any(f'"{secret}"' in said or f" {secret}" in said for secret in (USER, CUSTOMER))
