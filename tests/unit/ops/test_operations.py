"""What the commands that ask for something change and refuse, and what `letters`, `verify` and `plan` say before."""

import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from moto.core.botocore_stubber import MockRawResponse

from handlers.core import aws
from ops.output import Exit
from tests.unit.ops.terminal import DAY, PERSON, Ran, Terminal
from tests.unit.ops.test_reading import failed, people
from tests.wire import answered, invoked, refused
from tests.world import CUSTOMER, EVERYTHING, TABLE, USER

pytestmark = pytest.mark.exhaustive

NOW = 1_790_000_000
"""The present of the tests whose input holds times."""


def status(ops: Terminal, request: str) -> str:
    return str(ops.world.record(request)["status"])


# -- request


@pytest.mark.parametrize("grace", [None, 3])
def test_a_request_by_an_operator_is_accepted_with_the_grace_period_that_was_given(
    ops: Terminal, grace: int | None
) -> None:
    words = () if grace is None else ("--grace-days", str(grace))
    answer = ops.run("request", "--yes", *words, stdin=PERSON).data
    record = ops.world.record(answer["deletion_request_id"])
    assert (record["origin"], record["user_id"]) == ("operator", USER)
    assert record["identifiers"] == {"customer_id": CUSTOMER}
    assert record["grace_ends_at"] == ops.world.now + (grace or 30) * DAY


@pytest.mark.parametrize(
    ("stdin", "told"),
    [
        ("", "standard input is empty"),
        ("{", "standard input is no JSON object"),
        (json.dumps({"user": USER}), "the JSON object must hold user_id"),
        (json.dumps({"user_id": USER, "origin": "operator"}), "the JSON object must hold user_id"),
        (f"{USER}\n{USER}\n", "standard input has more than one line"),
    ],
)
def test_standard_input_of_another_shape_is_refused_without_being_repeated(
    ops: Terminal, stdin: str, told: str
) -> None:
    ran = ops.run("request", "--yes", stdin=stdin)
    assert (ran.code, ran.out) == (Exit.USAGE, "")
    assert told in ran.err
    assert f'"{USER}"' not in ran.err
    assert ops.world.wire.of("Invoke") == []


def test_what_the_request_function_refuses_ends_with_1_and_names_the_rule(ops: Terminal) -> None:
    ran = ops.run("request", "--yes", stdin=USER)
    assert (ran.code, ran.out) == (Exit.REFUSED, "")
    assert "InvalidEvent: identifiers: an object with exactly the declared ones: customer_id" in ran.err


def test_a_function_that_breaks_ends_with_5_and_keeps_its_foreign_message_to_itself(ops: Terminal) -> None:
    broken = {"errorType": "KeyError", "errorMessage": f"secret of {USER}"}
    ops.next_invocation(invoked(broken, FunctionError="Unhandled"))
    ran = ops.run("request", "--yes", stdin=PERSON)
    assert (ran.code, ran.out) == (Exit.AWS, "")
    assert ran.err == "ops: request-deletion: KeyError: its log has one line about it\n"


# -- operations


def test_a_request_is_held_released_and_cancelled(ops: Terminal) -> None:
    (request,) = people(ops, 1)
    seen = []
    for words in (("hold", request), ("release", request, "--yes"), ("cancel", request, "--yes")):
        answer = ops.run(*words).data
        seen.append((answer["status"], status(ops, request)))
    assert seen == [("HELD", "HELD"), ("SCHEDULED", "SCHEDULED"), ("CANCELLED", "CANCELLED")]


@pytest.mark.parametrize(("words", "days"), [(("--lasts", "2w"), 14), (("--until",), 3), ((), 0)])
def test_a_hold_ends_when_the_operator_said(ops: Terminal, words: tuple[str, ...], days: int) -> None:
    (request,) = people(ops, 1)
    until = datetime.fromtimestamp(ops.world.now + 3 * DAY, UTC).isoformat()
    ops.run("hold", request, *words, *([until] if words == ("--until",) else []))
    assert ops.world.record(request).get("due_at", 0) == (ops.world.now + days * DAY if days else 0)


@pytest.mark.parametrize(
    "words",
    [
        ("--lasts", "3"),
        ("--lasts", "0d"),
        ("--until", "soon"),
        ("--until", "2020-01-01"),
        ("--until", "x", "--lasts", "3d"),
    ],
)
def test_a_hold_without_a_sensible_end_is_refused(ops: Terminal, words: tuple[str, ...]) -> None:
    (request,) = people(ops, 1)
    assert ops.run("hold", request, *words).code == Exit.USAGE
    assert status(ops, request) == "SCHEDULED"


def test_a_person_is_held_before_any_request_and_released(ops: Terminal) -> None:
    held = ops.run("hold", "--person", stdin=PERSON).data
    request = ops.world.accept()
    while_held = status(ops, request)
    released = ops.run("release", "--person", "--yes", stdin=USER).data
    assert (held["deletion_request_id"], held["status"]) == (None, None)
    assert while_held == "HELD"
    assert (released["deletion_request_id"], status(ops, request)) == (request, "SCHEDULED")


@pytest.mark.parametrize("words", [("hold",), ("release", "--yes")])
def test_who_holds_or_releases_a_person_without_an_open_request_is_told_that_the_name_may_be_another_s(
    ops: Terminal, words: tuple[str, ...]
) -> None:
    """The user pool's name of the same person would be such a name; the hold on it stays, for a request to come."""
    (request,) = people(ops, 1)
    misspelt, right = (ops.run(*words, "--person", stdin=name) for name in (f"{USER}-x", user_of(ops, request)))
    assert (misspelt.code, misspelt.data["status"], status(ops, request)) == (Exit.OK, None, right.data["status"])
    assert misspelt.data["note"].startswith("no open request was found for exactly this user_id. It must be the user")
    assert lines(misspelt) == [f"ops: {misspelt.data['note']}"]
    assert (right.data["note"], lines(right)) == (None, [])


def user_of(ops: Terminal, request: str) -> str:
    return str(ops.world.record(request)["user_id"])


def test_the_person_of_a_request_is_held_by_its_id(ops: Terminal) -> None:
    request = ops.world.accept(grace_days=1)
    held = ops.run("hold", request, "--person").data
    refused_release = ops.run("release", request, "--yes")
    assert (held["operation"], held["status"]) == ("hold_person", "HELD")
    assert (refused_release.code, status(ops, request)) == (Exit.REFUSED, "HELD")
    assert refused_release.err.startswith("ops: operate: PersonHeld: ")


def test_who_releases_a_person_is_told_before_that_a_hold_of_the_open_request_ends_too(ops: Terminal) -> None:
    (request,) = people(ops, 1)
    asked = [ops.run("release", request, *words).err for words in ((), ("--person",))]
    assert ["also one that their open request had of its own" in question for question in asked] == [False, True]


def test_what_does_not_fit_the_request_s_state_ends_with_1(ops: Terminal) -> None:
    request = ops.world.claimed()
    ran = ops.run("cancel", request, "--yes")
    assert (ran.code, ran.out) == (Exit.REFUSED, "")
    assert "NotPossible" in ran.err


# -- redrive


def test_all_requests_that_failed_of_one_error_are_redriven_and_no_other(ops: Terminal) -> None:
    first, second, other = people(ops, 3)
    for request, error in ((first, "AccessDenied"), (second, "AccessDenied"), (other, "StoreMissing")):
        failed(ops, request, error)
    dry = ops.run("redrive", "--error", "AccessDenied", "--dry-run")
    after_dry = {status(ops, request) for request in (first, second, other)}
    ran = ops.run("redrive", "--error", "AccessDenied", "--yes")
    would, did = ({one["deletion_request_id"]: one["status"] for one in each.data["requests"]} for each in (dry, ran))
    assert would == did == {first: "RETRYABLE", second: "RETRYABLE"}
    assert after_dry == {"FAILED"}
    assert [status(ops, request) for request in (first, second, other)] == ["RETRYABLE", "RETRYABLE", "FAILED"]


@pytest.mark.parametrize("words", [("--all-failed",), ("--error", "AccessDenied")])
@pytest.mark.parametrize(("limit", "more"), [("1", True), ("2", False)])
def test_a_redrive_that_stops_at_its_limit_says_that_there_are_more(
    ops: Terminal, words: tuple[str, ...], limit: str, *, more: bool
) -> None:
    for request in people(ops, 2):
        failed(ops, request, "AccessDenied")
    dry = ops.run("redrive", *words, "--limit", limit, "--dry-run")
    ran = ops.run("redrive", *words, "--limit", limit, "--yes")
    told = f"ops: there are more than {limit}; give a higher --limit\n"
    assert [(one.code, len(one.data["requests"]), one.data["more"], told in one.err) for one in (dry, ran)] == [
        (Exit.OK, int(limit), more, more)
    ] * 2


def test_one_request_that_cannot_be_redriven_holds_up_no_other(ops: Terminal) -> None:
    first, second = people(ops, 2)
    for request in (first, second):
        failed(ops, request, "AccessDenied")
    ops.run("hold", first, "--person")
    ran = ops.run("redrive", "--all-failed", "--yes")
    assert ran.code == Exit.REFUSED
    assert [status(ops, request) for request in (first, second)] == ["FAILED", "RETRYABLE"]
    assert ran.err.startswith(f"ops: {first}: operate: PersonHeld")


@pytest.mark.parametrize(
    ("state", "code", "told"),
    [
        ("FAILED", Exit.OK, None),
        ("under way", Exit.OK, None),
        ("COMPLETED", Exit.REFUSED, "NotPossible: redrive of {} is not possible: it is COMPLETED"),
        ("SCHEDULED", Exit.REFUSED, "NotPossible: redrive of {} is not possible: it is SCHEDULED"),
        ("retried after a failure", Exit.REFUSED, "NotPossible: redrive of {} is not possible: it is RETRYABLE"),
        ("FAILED and held", Exit.REFUSED, "PersonHeld: redrive of {} is not possible: its person is held"),
        ("unknown", Exit.NOT_FOUND, "RequestUnknown: "),
    ],
)
def test_a_dry_run_answers_what_the_redrive_does_and_changes_nothing(
    ops: Terminal, state: str, code: Exit, told: str | None
) -> None:
    request = in_state(ops, state)
    before = ops.world.items(TABLE)
    dry = ops.run("redrive", request, "--dry-run")
    after = ops.world.items(TABLE)
    ran = ops.run("redrive", request, "--yes")
    (would,), (did,) = dry.data["requests"], ran.data["requests"]
    assert (dry.code, ran.code) == (code, code)
    assert would == did
    assert (would["problem"] or "").startswith(f"operate: {told.format(request)}" if told else "")
    assert bool(would["problem"]) is bool(told) is (would["status"] is None)
    assert after == before


def in_state(ops: Terminal, state: str) -> str:
    """A request in that state; its id."""
    if state == "unknown":
        return f"del_{'0' * 26}"
    (request,) = people(ops, 1)
    if state == "FAILED and held":
        ops.run("hold", request, "--person")
    changes: dict[str, dict[str, object]] = {
        "under way": {"status": "PROCESSING"},
        "retried after a failure": {"status": "RETRYABLE", "failures": 1},
    }
    ops.world.change(request, **changes.get(state, {"status": state.split()[0]}))
    return request


def test_a_dry_run_that_cannot_read_the_table_is_incomplete(ops: Terminal) -> None:
    (request,) = people(ops, 1)
    ops.world.wire.before("GetItem", refused("AccessDeniedException"))
    ran = ops.run("redrive", request, "--dry-run")
    assert (ran.code, ran.data["requests"][0]["problem"]) == (
        Exit.INCOMPLETE,
        "AccessDenied: GetItem answered AccessDeniedException",
    )


def test_a_redrive_that_a_function_could_not_answer_is_incomplete(ops: Terminal) -> None:
    (request,) = people(ops, 1)
    failed(ops, request, "AccessDenied")
    ops.next_invocation(refused("AccessDeniedException"))
    ran = ops.run("redrive", request, "--yes")
    assert (ran.code, status(ops, request)) == (Exit.INCOMPLETE, "FAILED")


def test_the_messages_of_a_queue_are_dispatched_and_deleted_and_what_fails_again_stays(ops: Terminal) -> None:
    request = ops.world.accept()
    sqs = ops.world.client("sqs")
    unknown = f"del_{'0' * 26}"
    for body in ({"deletion_request_id": request}, {"deletion_request_id": unknown}, {"nonsense": 1}):
        sqs.send_message(QueueUrl=ops.queues["dispatch"], MessageBody=json.dumps(body))
    dry = ops.run("redrive", "--queue", "dispatch", "--dry-run").data
    before = ops.world.record(request)["attempt"]
    ran = ops.run("redrive", "--queue", "dispatch", "--yes")
    queues = {one["name"]: one["messages"] for one in ops.run("queues").data["queues"]}
    assert (dry["handled"], before) == (2, 0)
    assert (ran.code, ran.data["handled"]) == (Exit.INCOMPLETE, 1)
    assert ran.data["left"]["failed again: RequestUnknown"] == 1
    assert (ops.world.record(request)["attempt"], queues["dispatch"]) == (1, 2)


def put(ops: Terminal, body: object, **attributes: str) -> str:
    """A message in the queue of `dispatch`; its id."""
    named = {name: {"DataType": "String", "StringValue": text} for name, text in attributes.items()}
    url, text = ops.queues["dispatch"], json.dumps(body)
    sent = ops.world.client("sqs").send_message(QueueUrl=url, MessageBody=text, MessageAttributes=named)
    return str(sent["MessageId"])


def waiting(ops: Terminal) -> int:
    """How many messages the queue of `dispatch` shows."""
    return next(int(one["messages"]) for one in ops.run("queues").data["queues"] if one["name"] == "dispatch")


def test_letters_tell_what_each_message_is_about_and_leave_it_without_its_text(ops: Terminal) -> None:
    request = ops.world.accept()
    event = {"source": "aws.states", "detail": {"name": f"{request}-3", "status": "FAILED"}}
    ids = [put(ops, {"deletion_request_id": request}, ErrorCode="200"), put(ops, event, ERROR_CODE="THROTTLING")]
    ids += [put(ops, {"source": "aws.scheduler"}), put(ops, {"user_id": USER})]
    ran = ops.run("letters", "dispatch")
    found = {one["message_id"]: one for one in ran.data["letters"]}
    said = [tuple(found[one][name] for name in ("about", "deletion_request_id", "error_code")) for one in ids]
    assert said == [
        ("a start", request, "200"),
        ("the end of an execution", request, "THROTTLING"),
        ("a run of the sweeper", None, None),
        ("not readable: neither an event of ours nor of the services that we know", None, None),
    ]
    assert [one for one in found.values() if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", one["sent_at"])] == []
    assert (ran.data["more"], waiting(ops), USER in ran.out) == (False, 4, False)


def test_letters_of_a_long_queue_stop_at_the_limit_and_say_so(ops: Terminal) -> None:
    for _ in range(3):
        put(ops, {})
    ran = ops.run("letters", "dispatch", "--limit", "2")
    assert (len(ran.data["letters"]), ran.data["more"], waiting(ops)) == (2, True, 3)
    assert "there are more than 2" in ran.err


def test_a_letter_is_discarded_by_its_id_and_the_others_stay(ops: Terminal) -> None:
    request = ops.world.accept()
    kept, discarded = put(ops, {"deletion_request_id": request}), put(ops, {"user_id": USER})
    ran = ops.run("discard", "dispatch", discarded, "--yes")
    again = ops.run("discard", "dispatch", discarded, "--yes")
    left = [one["message_id"] for one in ops.run("letters", "dispatch").data["letters"]]
    assert (ran.code, ran.data, again.code, again.out) == (Exit.OK, {"discarded": discarded}, Exit.NOT_FOUND, "")
    assert (left, ops.world.record(request)["attempt"]) == ([kept], 0)


# -- the sweeper


def test_a_run_of_the_sweeper_begins_what_is_due_and_says_what_came_of_it(ops: Terminal) -> None:
    request, later = ops.world.accept(), ops.world.accept("bob", "1002", grace_days=1)
    ran, again = ops.run("sweep", "--yes"), ops.say("sweep", "--yes")
    assert (ran.code, ran.data) == (Exit.OK, {"outcomes": {"dispatched": 1}})
    assert "nothing was due" in again.out
    assert [ops.world.record(one)["attempt"] for one in (request, later)] == [1, 0]


def test_what_stops_every_run_of_the_sweeper_is_named(ops: Terminal) -> None:
    ops.world.wire.before("Query", refused("AccessDeniedException"), times=20)
    ran = ops.run("sweep", "--yes")
    assert (ran.code, ran.out) == (Exit.AWS, "")
    assert lines(ran) == ["ops: sweep: AccessDenied: Query answered AccessDeniedException"]


# -- verify and plan


def test_verify_lists_by_the_steps_own_functions_and_deletes_nothing(ops: Terminal) -> None:
    ops.world.sign_up()
    request = ops.world.accept(grace_days=1)
    before = ops.world.data()
    ran = ops.run("verify", request)
    found = {store: number for step in ran.data["steps"] for store, number in step["stores"].items()}
    assert (ran.code, found) == (Exit.REFUSED, EVERYTHING)
    assert ops.world.data() == before


def test_verify_is_clean_where_nothing_is_left(ops: Terminal) -> None:
    (request,) = people(ops, 1)
    ran = ops.run("verify", request)
    assert (ran.code, ran.data["clean"]) == (Exit.OK, True)


def test_verify_names_the_step_whose_stores_it_could_not_list(ops: Terminal) -> None:
    ops.world.sign_up()
    request = ops.world.accept(grace_days=1)
    ops.world.wire.before("Query", refused("AccessDeniedException"))
    ran = ops.run("verify", request)
    unread = {step["step"]: step["stores"] for step in ran.data["steps"] if step["problem"]}
    assert (ran.code, unread, ran.data["clean"]) == (Exit.INCOMPLETE, {"DeleteRecords": None}, False)
    assert "AccessDenied: Query answered AccessDeniedException" in ran.err


def test_verify_of_a_request_that_has_ended_is_refused(ops: Terminal) -> None:
    (request,) = people(ops, 1)
    ops.run("cancel", request, "--yes")
    ran = ops.run("verify", request)
    assert (ran.code, ran.out) == (Exit.REFUSED, "")
    assert "has ended" in ran.err


def test_plan_counts_what_would_go_and_says_when_without_a_request(ops: Terminal) -> None:
    ops.world.sign_up()
    ops.world.sign_up("bob", "1002")
    before = ops.world.data()
    ran = ops.run("plan", "--grace-days", "2", stdin=PERSON)
    counts = {one["store"]: one["count"] for one in ran.data["stores"]}
    sizes = {one["store"]: one["bytes"] for one in ran.data["stores"] if one["bytes"] is not None}
    # Four versions of one byte; a delete marker weighs nothing.
    assert (ran.code, counts, sizes) == (Exit.OK, EVERYTHING, {"photos": 4})
    assert ran.data["grace_ends_at"] == f"{datetime.fromtimestamp(ops.world.now + 2 * DAY, UTC):%Y-%m-%dT%H:%M:%SZ}"
    assert ran.data["identity"] == "recorded"
    assert ops.world.data() == before
    assert ops.run("list").data["requests"] == []


def test_plan_asks_again_for_a_listing_that_came_torn_and_weighs_it_once(ops: Terminal) -> None:
    ops.world.sign_up()
    torn = [AWSResponse("https://s3", 200, HTTPHeaders(), MockRawResponse(b"<ListVersionsResult><Version><Si"))]
    place = ("before-send.s3.ListObjectVersions", lambda **_: torn.pop() if torn else None)
    events = aws.client("s3", region=None).meta.events
    events.register_first(*place)
    planned = ops.run("plan", stdin=PERSON)
    events.unregister(*place)
    sizes = {one["store"]: one["bytes"] for one in planned.data["stores"] if one["bytes"] is not None}
    assert (torn, planned.code, sizes) == ([], Exit.OK, {"photos": 4})


def test_plan_names_a_store_that_could_not_be_read_and_counts_the_others(ops: Terminal) -> None:
    ops.world.sign_up()
    ops.world.wire.before("ListObjectVersions", refused("AccessDenied", status=403))
    ran = ops.run("plan", stdin=PERSON)
    assert ran.code == Exit.INCOMPLETE
    assert ran.data["unread"] == {"DeleteFiles": "AccessDenied: ListObjectVersions answered AccessDenied"}
    assert {one["store"] for one in ran.data["stores"]} == {"orders", "visits", "identity"}


def test_plan_counts_the_other_stores_when_the_user_pool_cannot_be_read(ops: Terminal) -> None:
    ops.world.sign_up()
    ops.world.wire.before("ListUsers", refused("NotAuthorizedException"))
    ran = ops.run("plan", stdin=PERSON)
    counts = {one["store"]: one["count"] for one in ran.data["stores"]}
    problem = "AccessDenied: ListUsers answered NotAuthorizedException"
    assert (ran.code, ran.data["identity"], ran.data["unread"]) == (Exit.INCOMPLETE, "not read", {"identity": problem})
    assert counts == {store: number for store, number in EVERYTHING.items() if store != "identity"}
    assert ran.err == f"ops: identity: {problem}\n"


def person(**fields: object) -> str:
    """Standard input that names the user, with fields that differ; None leaves one out."""
    whole = {"user_id": USER, "identifiers": {"customer_id": CUSTOMER}, **fields}
    return json.dumps({name: value for name, value in whole.items() if value is not None})


def asked(days: float) -> str:
    """So many days before the world's present, east of Greenwich."""
    return datetime.fromtimestamp(NOW - days * DAY, timezone(timedelta(hours=2))).isoformat()


def lines(ran: Ran) -> list[str]:
    """What the command line says; the functions that run in this process print metrics between its lines."""
    return [line for line in ran.err.splitlines() if line.startswith("ops: ")]


def answered_with(ran: Ran) -> dict[str, object]:
    """What `plan` and `request` both say of a request; nothing where they refuse it."""
    names = ("status", "grace_ends_at", "erase_by", "identity")
    return {name: ran.data[name] for name in names} if ran.out else {}


@pytest.mark.parametrize(
    ("stdin", "words", "refused_field"),
    [
        (person(), (), None),
        (person(), ("--grace-days", "0.5"), None),
        (person(), ("--grace-days", "300"), "grace_days"),
        (person(user_id="user-a1b2"), (), None),
        (person(idempotency_key="ticket 7"), (), None),
        (person(requested_at=asked(10)), (), None),
        (person(requested_at=asked(10)), ("--grace-days", "3"), None),
        (person(requested_at=asked(35)), (), None),
        (person(requested_at=asked(-600 / DAY)), (), None),
        (person(requested_at=asked(44.9)), (), "requested_at"),
        (person(requested_at=asked(-601 / DAY)), (), "requested_at"),
        (person(requested_at="2026-01-01T00:00:00"), (), "requested_at"),
        (person(requested_at=7), (), "requested_at"),
        (person(idempotency_key=""), (), "idempotency_key"),
        (USER, (), "identifiers"),
        (person(identifiers="1001"), (), "identifiers"),
        (person(identifiers={"customer_id": CUSTOMER, "tenant_id": "1"}), (), "identifiers"),
        (person(identifiers={"customer_id": "*"}), (), "identifiers.customer_id"),
        (person(identifiers={"customer_id": 1001}), (), "identifiers.customer_id"),
        (person(user_id="a/b"), (), "user_id"),
        (person(user_id=7), (), "user_id"),
    ],
)
def test_plan_says_the_times_or_the_refusal_that_a_request_would_get(
    ops: Terminal, stdin: str, words: tuple[str, ...], refused_field: str | None
) -> None:
    ops.world.sign_up()
    ops.world.now = NOW
    planned = ops.run("plan", *words, stdin=stdin)
    requested = ops.run("request", "--yes", *words, stdin=stdin)
    assert (planned.code, lines(planned)) == (requested.code, lines(requested))
    assert answered_with(planned) == answered_with(requested)
    assert planned.code == (Exit.REFUSED if refused_field else Exit.OK)
    assert not refused_field or f"InvalidEvent: {refused_field}: " in planned.err


def held_person(ops: Terminal) -> None:
    ops.run("hold", "--person", stdin=PERSON)


def held_person_with_a_request(ops: Terminal) -> str:
    held_person(ops)
    return ops.open_request()


def failed_request(ops: Terminal) -> str:
    request = ops.open_request()
    failed(ops, request, "AccessDenied")
    return request


def ended_request(ops: Terminal) -> None:
    ops.run("cancel", ops.open_request(), "--yes")


@pytest.mark.parametrize(
    ("before", "as_it_is", "is_held"),
    [
        (Terminal.open_request, "SCHEDULED", False),
        (Terminal.held_request, "HELD", False),
        (held_person, "HELD", True),
        (held_person_with_a_request, "HELD", True),
        (failed_request, "FAILED", False),
        (ended_request, "SCHEDULED", False),
    ],
)
def test_plan_names_the_request_that_the_person_has_open_and_says_whether_the_person_is_held(
    ops: Terminal, before: Callable[[Terminal], str | None], as_it_is: str, *, is_held: bool
) -> None:
    ops.world.sign_up()
    request = before(ops)
    planned = ops.run("plan", stdin=PERSON)
    counts = {one["store"]: one["count"] for one in planned.data["stores"]}
    said = (planned.data["deletion_request_id"], planned.data["status"], planned.data["person_held"])
    assert (planned.code, counts) == (Exit.OK, EVERYTHING)
    assert said == (request, as_it_is, is_held)
    assert answered_with(planned) == answered_with(ops.run("request", "--yes", stdin=PERSON))


def test_plan_of_a_key_whose_request_has_ended_erases_nothing(ops: Terminal) -> None:
    ops.world.sign_up()
    stdin = person(idempotency_key="ticket 7")
    request = ops.run("request", "--yes", stdin=stdin).data["deletion_request_id"]
    ops.run("cancel", request, "--yes")
    planned = ops.run("plan", stdin=stdin)
    assert (planned.code, planned.data["deletion_request_id"], planned.data["stores"]) == (Exit.OK, request, [])
    assert answered_with(planned) == answered_with(ops.run("request", "--yes", stdin=stdin))
    assert (planned.data["status"], planned.data["identity"]) == ("CANCELLED", "removed")


def test_plan_refuses_a_key_that_was_used_for_another_user(ops: Terminal) -> None:
    ops.run("request", "--yes", stdin=person(idempotency_key="ticket 7"))
    planned = ops.run("plan", stdin=person(idempotency_key="ticket 7", user_id="user-a1b2"))
    assert (planned.code, planned.out) == (Exit.REFUSED, "")
    assert planned.err == "ops: request-deletion: InvalidEvent: idempotency_key: was used for another user\n"


@pytest.mark.parametrize(("operation", "has_request"), [("GenerateMac", True), ("GetItem", True), ("GetItem", False)])
def test_plan_counts_all_the_same_when_it_may_not_ask_for_the_person_s_request(
    ops: Terminal, operation: str, *, has_request: bool
) -> None:
    ops.world.sign_up()
    if has_request:
        ops.open_request()
    ops.world.wire.before(operation, refused("AccessDeniedException"))
    planned = ops.run("plan", stdin=PERSON)
    problem = f"AccessDenied: {operation} answered AccessDeniedException"
    counts = {one["store"]: one["count"] for one in planned.data["stores"]}
    said = [planned.data[name] for name in ("deletion_request_id", "status", "person_held")]
    assert (planned.code, planned.data["unread"], counts) == (Exit.INCOMPLETE, {"request": problem}, EVERYTHING)
    assert said == [None, "not read", None]


def test_plan_tells_a_person_apart_a_request_that_exists_and_one_that_would_be_new(ops: Terminal) -> None:
    ops.world.sign_up()
    new = ops.say("plan", stdin=PERSON).out
    request = ops.open_request()
    assert "a new one" in new
    assert request in ops.say("plan", stdin=PERSON).out


def test_plan_refuses_an_alias_of_a_user(ops: Terminal) -> None:
    sub = ops.world.sign_up()
    ops.world.wire.before("AdminGetUser", answered(Username=USER, UserAttributes=[{"Name": "sub", "Value": sub}]))
    ran = ops.run("plan", stdin=PERSON.replace(USER, "alias-a1b2"))
    assert (ran.code, ran.out) == (Exit.REFUSED, "")
    assert "is an alias in the user pool" in ran.err


def test_plan_acts_with_the_operator_s_own_aws_settings(ops: Terminal) -> None:
    """The deployed function's environment names its own wrapper, and must not become ours."""
    ops.world.sign_up()
    seen = []
    ops.world.wire.before("Query", lambda _: seen.append(dict(os.environ)))
    ops.run("plan", stdin=PERSON)
    assert seen[0]["STEP"] == "DeleteRecords"
    assert "AWS_LAMBDA_EXEC_WRAPPER" not in seen[0]
