"""list, show and stuck: what an operator sees of requests."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from handlers.core.record import to_value
from handlers.core.request_table import request_key
from handlers.core.states import StepKind
from handlers.core.transition import Transition
from handlers.core.transitions import MARK_FAILED, PROGRESS
from handlers.core.transitions import begin as begin_of
from ops import stuck as stuck_requests
from ops.output import Exit, iso
from ops.timeline import console_link
from tests.unit.ops.terminal import DAY, Terminal
from tests.wire import answered, refused
from tests.world import OWNER, TABLE, USER

pytestmark = pytest.mark.exhaustive

PERSONAL = {"user_id", "identifiers", "identity"}


def people(ops: Terminal, number: int) -> list[str]:
    """Requests of so many users, due tomorrow."""
    return [ops.world.accept(f"user-a1b{n}", f"10{n}", grace_days=1) for n in range(number)]


def write(ops: Terminal, transition: Transition, request: str, **values: object) -> None:
    ops.world.write(transition, request, values)


def failed(ops: Terminal, request: str, error: str) -> None:
    """An attempt ended as FAILED."""
    ops.world.change(request, grace_ends_at=ops.world.now, due_at=ops.world.now)
    ops.world.dispatch(request)
    ops.world.claim(request)
    write(ops, MARK_FAILED, request, me=OWNER, error={"step": "DeleteFiles", "error": error, "at": ops.world.now})


def claimed(ops: Terminal, request: str, *, due_at: int = 0) -> None:
    """An execution holds it, until then or for its whole lease."""
    ops.world.change(request, grace_ends_at=ops.world.now, due_at=ops.world.now)
    ops.world.dispatch(request)
    ops.world.claim(request)
    if due_at:
        ops.world.change(request, due_at=due_at)


def ids(ops: Terminal, *words: str) -> set[str]:
    return {row["deletion_request_id"] for row in ops.run("list", *words).data["requests"]}


@pytest.mark.invariant("I8")
def test_what_is_personal_is_not_even_fetched(ops: Terminal) -> None:
    (request, _) = people(ops, 2)
    ops.world.change(request, due_at=ops.world.now - DAY)
    before = len(ops.world.wire.calls)
    for words in (("list",), ("stuck",), ("show", request)):
        ops.run(*words)
    reads = [call for call in ops.world.wire.calls[before:] if call.operation in {"Scan", "BatchGetItem", "GetItem"}]
    asked = [names_of(call.params) for call in reads]
    assert [call.operation for call in reads] == ["Scan", "BatchGetItem", "GetItem"]
    assert [names & {*PERSONAL, "subject"} for names in asked] == [set(), set(), set()]
    # Only one request's own page needs its steps, of which the bounds of a batch are dropped at once.
    assert ["steps" in names for names in asked] == [False, False, True]


def names_of(params: Mapping[str, Any]) -> set[str]:
    within = params.get("RequestItems", {TABLE: params})[TABLE]
    assert within["ProjectionExpression"]
    return set(within["ExpressionAttributeNames"].values())


def test_a_list_tells_requests_apart_by_state_time_promise_and_error(ops: Terminal) -> None:
    waiting, overdue, stuck, put_off, late, denied, missing = people(ops, 7)
    now = ops.world.now
    ops.world.change(overdue, due_at=now - 60)
    for request, due_at in ((stuck, now - 1), (put_off, now + 240)):
        claimed(ops, request, due_at=due_at)
    ops.world.change(late, erase_by=now + 2 * DAY)
    failed(ops, denied, "AccessDenied")
    failed(ops, missing, "StoreMissing")
    found = {
        "--state SCHEDULED": {waiting, overdue, late},
        "--state PROCESSING --state FAILED": {stuck, put_off, denied, missing},
        "--overdue": {overdue, stuck},
        "--stuck": {stuck, put_off},
        "--late": {late},
        "--error AccessDenied": {denied},
        "--state SCHEDULED --overdue": {overdue},
        "--error Nobody": set(),
    }
    assert {words: ids(ops, *words.split()) for words in found} == found


def test_a_list_that_is_longer_than_its_limit_says_so(ops: Terminal) -> None:
    people(ops, 3)
    ran = ops.run("list", "--limit", "2")
    whole = ops.run("list", "--limit", "3")
    assert (len(ran.data["requests"]), ran.data["more"], ran.err) == (
        2,
        True,
        "ops: there are more than 2; give a higher --limit\n",
    )
    assert (len(whole.data["requests"]), whole.data["more"], whole.err) == (3, False, "")


def test_a_list_goes_through_every_page_of_the_table(ops: Terminal) -> None:
    first, second = (f"del_{number:026}" for number in range(2))
    pages = [
        [{**request_key(one), "status": to_value("SCHEDULED"), "erase_by": to_value(1)}] for one in (first, second)
    ]
    ops.world.wire.before("Scan", answered(Items=pages[0], LastEvaluatedKey={"pk": {"S": "USER#k1"}}))
    ops.world.wire.before("Scan", answered(Items=pages[1]))
    assert ids(ops) == {first, second}
    assert [call.params.get("ExclusiveStartKey") for call in ops.world.wire.of("Scan")] == [
        None,
        {"pk": {"S": "USER#k1"}},
    ]


def test_a_list_shows_a_record_that_a_later_version_wrote(ops: Terminal) -> None:
    key = request_key(f"del_{'0' * 26}")
    ops.world.dynamodb.put_item(TableName=TABLE, Item={**key, "status": to_value("PAUSED")})
    (row,) = ops.run("list").data["requests"]
    assert (row["deletion_request_id"], row["status"], row["due_at"]) == (f"del_{'0' * 26}", "PAUSED", None)


def test_show_tells_a_request_from_its_beginning(ops: Terminal) -> None:
    ops.world.sign_up()
    request = ops.machine.dispatched()
    ops.machine.execute(request)
    shown = ops.run("show", request).data
    steps = {step["step"]: step for step in shown["steps"]}
    assert shown["status"] == "COMPLETED"
    assert steps["DeleteFiles"]["deleted"] == {"photos": 5, "photos.uploads": 1}
    assert steps["DeleteFiles"]["status"] == "DONE"
    what = [moment["what"] for moment in shown["timeline"]]
    assert what[-1] == "promised end"
    assert {"requested", "accepted", "completed", "DeleteFiles began", "DeleteFiles done"} <= set(what)
    assert [moment["at"] for moment in shown["timeline"]] == sorted(moment["at"] for moment in shown["timeline"])


@pytest.mark.invariant("I8")
def test_show_keeps_the_bounds_of_a_batch_to_itself(ops: Terminal) -> None:
    ops.world.sign_up()
    request = ops.world.claimed()
    begin = begin_of(StepKind.RETRIABLE, erases=True)
    values = {"me": OWNER, "now": ops.world.now, "due_at": ops.world.now + 900, "undo_dead": 0}
    ops.world.write(begin, request, values, step="DeleteFiles")
    fence = ops.world.record(request)["fence"]
    batch = {"place": "photos", "first_key": f"users/{USER}/1", "last_key": f"users/{USER}/2", "size": 2}
    progress = {"fence": fence, "seq_before": 0, "seq": 1, "deleted": {"photos": 7}, "batch": batch}
    ops.world.write(PROGRESS, request, {**progress, "due_at": ops.world.now + 900}, step="DeleteFiles")
    ran = ops.run("show", request)
    (step,) = (step for step in ran.data["steps"] if step["step"] == "DeleteFiles")
    assert (step["status"], step["deleted"], "batch" in step) == ("RUNNING", {"photos": 7}, False)
    assert f"users/{USER}" not in ran.out


def test_show_names_the_execution_its_end_and_where_the_console_shows_it(ops: Terminal) -> None:
    request = ops.world.accept()
    ops.machine.invoke("dispatch", {"deletion_request_id": request})
    arn = f"{ops.world.machine.replace(':stateMachine:', ':execution:')}:{request}-1"
    ops.world.wire.answers["DescribeExecution"] = answered(
        status="FAILED", error="RequestFailed", cause="the request is FAILED; see last_error"
    )
    execution = ops.run("show", request).data["execution"]
    assert (execution["arn"], execution["status"]) == (arn, "FAILED")
    assert (execution["error"], execution["cause"]) == ("RequestFailed", "the request is FAILED; see last_error")
    assert execution["link"] == (
        f"https://eu-west-1.console.aws.amazon.com/states/home?region=eu-west-1#/v2/executions/details/{arn}"
    )


def test_show_says_of_an_execution_that_is_forgotten_that_it_is_unknown(ops: Terminal) -> None:
    request = ops.world.accept()
    ops.world.dispatch(request)
    assert ops.run("show", request).data["execution"]["status"] == "UNKNOWN"


@pytest.mark.parametrize(
    ("partition", "region", "host"),
    [
        ("aws", "eu-central-1", "eu-central-1.console.aws.amazon.com"),
        ("aws-cn", "cn-north-1", "cn-north-1.console.amazonaws.cn"),
        ("aws-us-gov", "us-gov-west-1", "us-gov-west-1.console.amazonaws-us-gov.com"),
    ],
)
def test_the_link_leads_to_the_partition_s_own_console(partition: str, region: str, host: str) -> None:
    arn = f"arn:{partition}:states:{region}:123456789012:execution:workflow:one"
    assert console_link(arn) == f"https://{host}/states/home?region={region}#/v2/executions/details/{arn}"


def test_stuck_is_what_is_past_its_lease_or_long_overdue_the_oldest_first(ops: Terminal) -> None:
    waiting, just_due, long_due, leased, past_lease = people(ops, 5)
    now = ops.world.now
    ops.world.change(just_due, due_at=now - 60)
    ops.world.change(long_due, due_at=now - 600)
    claimed(ops, leased)
    claimed(ops, past_lease, due_at=now - 1)
    found = ops.run("stuck").data["requests"]
    assert [(one["deletion_request_id"], one["overdue_seconds"]) for one in found] == [(long_due, 600), (past_lease, 1)]
    assert [one["execution"] and one["execution"]["arn"] for one in found] == [None, OWNER]
    assert waiting


@pytest.mark.parametrize(("status", "is_stuck"), [("RUNNING", True), ("SUCCEEDED", False)])
def test_what_the_sweeper_has_put_off_is_stuck_as_long_as_its_execution_runs(
    ops: Terminal, status: str, *, is_stuck: bool
) -> None:
    (request,) = people(ops, 1)
    claimed(ops, request, due_at=ops.world.now - 1)
    ops.world.wire.answers["DescribeExecution"] = answered(status="RUNNING")
    swept = ops.machine.invoke("sweep", {})
    ops.world.wire.answers["DescribeExecution"] = answered(status=status)
    found = ops.run("stuck").data["requests"]
    assert swept == {"still running": 1}
    assert [(one["deletion_request_id"], one["overdue_seconds"]) for one in found] == [(request, 0)] * is_stuck


def test_stuck_requests_are_found_behind_many_that_are_only_due(ops: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stuck_requests, "CHUNK", 2)
    *due, first, second = people(ops, 6)
    for request in due:
        ops.world.change(request, due_at=ops.world.now - 60)
    for request in (first, second):
        claimed(ops, request, due_at=ops.world.now - 1)
    one, both = ops.run("stuck", "--limit", "1"), ops.run("stuck", "--limit", "2")
    assert (len(one.data["requests"]), one.data["more"]) == (1, True)
    assert one.err == "ops: there are more than 1; give a higher --limit\n"
    assert {row["deletion_request_id"] for row in both.data["requests"]} == {first, second}
    assert (both.data["more"], both.err) == (False, "")


def test_a_row_stays_on_one_line_where_no_terminal_is(ops: Terminal) -> None:
    (request,) = people(ops, 1)
    claimed(ops, request, due_at=ops.world.now - 1)
    # As long as names may be: 80 characters of the machine, 80 of the execution.
    longest = f"arn:aws-us-gov:states:us-gov-west-1:123456789012:execution:{'m' * 80}:{'e' * 80}"
    ops.world.change(request, owner=longest)
    _, row = ops.say("stuck").out.splitlines()
    assert row.split()[-1] == console_link(longest)
    assert row.startswith(request)


def test_show_says_when_a_hold_ends(ops: Terminal) -> None:
    (request,) = people(ops, 1)
    ops.run("hold", request, "--lasts", "3d")
    shown = ops.run("show", request).data
    assert (shown["status"], shown["hold_ends_at"]) == ("HELD", iso(ops.world.now + 3 * DAY))


@pytest.mark.parametrize("operation", ["Scan", "GetFunctionConfiguration"])
def test_a_call_that_aws_refuses_ends_with_5_and_names_the_call(ops: Terminal, operation: str) -> None:
    ops.world.wire.before(operation, refused("AccessDeniedException"))
    ran = ops.run("list")
    assert (ran.code, ran.out) == (Exit.AWS, "")
    assert ran.err == f"ops: AccessDenied: {operation} answered AccessDeniedException\n"


def test_times_are_iso_8601_in_utc() -> None:
    assert json.dumps([iso(1_800_000_000), iso(0), iso(None)]) == '["2027-01-15T08:00:00Z", null, null]'
