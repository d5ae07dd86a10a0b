"""request, cancel, hold, release, redrive, verify and plan: what they change, and what they refuse."""

import json
import os
from datetime import UTC, datetime

import pytest

from ops.output import Exit
from tests.unit.ops.terminal import DAY, PERSON, Terminal
from tests.unit.ops.test_reading import failed, people
from tests.wire import answered, invoked, refused
from tests.world import CUSTOMER, EVERYTHING, USER


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
    assert {one["deletion_request_id"] for one in dry.data["requests"]} == {first, second}
    assert after_dry == {"FAILED"}
    assert {one["deletion_request_id"]: one["status"] for one in ran.data["requests"]} == {
        first: "RETRYABLE",
        second: "RETRYABLE",
    }
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


@pytest.mark.parametrize(
    ("stdin", "words", "told"),
    [
        (USER, (), "identifiers: an object with exactly the declared ones: customer_id"),
        (PERSON.replace(USER, "a/b"), (), "user_id: 1 to 128 characters"),
        (PERSON, ("--grace-days", "300"), "grace_days: from 0 to 35"),
    ],
)
def test_plan_refuses_what_the_request_function_would_refuse(
    ops: Terminal, stdin: str, words: tuple[str, ...], told: str
) -> None:
    ran = ops.run("plan", *words, stdin=stdin)
    assert (ran.code, ran.out) == (Exit.REFUSED, "")
    assert told in ran.err


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
