"""The operator's command line as a process of its own, against a deployed stack: what the unit tests cannot show.

That it finds the stack by its tags, that the functions' own rights suffice, and what really becomes of requests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from handlers.core import aws
from handlers.core.record import to_value
from handlers.core.request_table import request_key
from handlers.core.states import Status
from local.demo_stores import User
from local.emulator import ROOT
from ops.cli import app
from statemachine.deletion import DELETE_RECORDS
from statemachine.frame import role_of
from tests.emulator.stack import Stack, fresh_stack
from tests.emulator.test_deletion import NOTHING
from tests.emulator.test_recovery import stop_the_clock
from tests.unit.ops.terminal import Ran

pytestmark = pytest.mark.long

DAYS = ("--grace-days", "1")


@dataclass(frozen=True)
class Operator:
    """A shell in front of the deployed stack, with the AWS settings of the usual variables."""

    stack: Stack
    home: Path

    def run(self, *words: str, stdin: str = "") -> Ran:
        """Run a command with --json, in this process: a new one needs a second to start."""
        result = CliRunner().invoke(app, [*words, "--json"], input=stdin, catch_exceptions=False)
        return Ran(result.exit_code, result.stdout, result.stderr)

    def asked(self, user: User) -> str:
        """A request with a day of grace; its id."""
        return str(self.run("request", *DAYS, "--yes", stdin=line(user)).data["deletion_request_id"])

    def ids(self, *words: str) -> set[str]:
        return {row["deletion_request_id"] for row in self.run("list", *words, "--limit", "1000").data["requests"]}


def line(user: User) -> str:
    """A user as standard input names one."""
    return json.dumps({"user_id": user.user_id, "identifiers": {"customer_id": user.customer_id}})


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """One for all tests of this file; its sweeper never runs by the clock."""
    with fresh_stack() as deployed:
        stop_the_clock(deployed)
        yield deployed


@pytest.fixture
def operator(stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operator]:
    (tmp_path / "outputs.json").write_text(json.dumps(stack.done.outputs), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCOUNT_DELETION_OUTPUTS", "outputs.json")
    for name, value in stack.emulator.environment().items():
        monkeypatch.setenv(name, value)
    forget_clients()
    yield Operator(stack, tmp_path)
    forget_clients()


def forget_clients() -> None:
    """What this process made for other settings."""
    aws.client.cache_clear()
    aws.session.cache_clear()


def status(stack: Stack, request: str) -> Status:
    return stack.requests.record(request).status


def test_the_stack_is_found_by_its_tags_as_by_its_outputs(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    by_outputs = operator.run("queues")
    monkeypatch.delenv("ACCOUNT_DELETION_OUTPUTS")
    by_tags = operator.run("queues")
    of_another = operator.run("queues", "--environment", "prod")
    assert by_tags.data == by_outputs.data
    assert {queue["name"] for queue in by_tags.data["queues"]} >= {"dispatch", "recover", "schedule", "status", "sweep"}
    assert (of_another.code, of_another.out) == (2, "")


def test_the_command_line_is_a_program_of_its_own(operator: Operator) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "ops", "queues", "--json"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        env={**os.environ, "ACCOUNT_DELETION_OUTPUTS": str(operator.home / "outputs.json")},
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout) == operator.run("queues").data


def test_an_operator_plans_asks_lists_shows_and_cancels(operator: Operator, stack: Stack) -> None:
    user = stack.sign_up()
    before = stack.digest(user)
    planned = operator.run("plan", *DAYS, stdin=line(user))
    request = operator.asked(user)
    shown = operator.run("show", request).data
    listed = operator.ids("--state", "SCHEDULED")
    cancelled = operator.run("cancel", request, "--yes").data
    assert {one["store"]: one["count"] for one in planned.data["stores"]} == stack.counts(user)
    assert next(one["bytes"] for one in planned.data["stores"] if one["store"] == "files") > 0
    assert (shown["status"], shown["schedule"][:3], shown["execution"]) == ("SCHEDULED", "at(", None)
    assert request in listed
    assert (cancelled["status"], status(stack, request)) == ("CANCELLED", Status.CANCELLED)
    assert stack.digest(user) == before


def test_show_follows_a_deletion_to_its_end_and_verify_refuses_it_then(operator: Operator, stack: Stack) -> None:
    user = stack.sign_up()
    request = operator.asked(user)
    left = operator.run("verify", request)
    stack.set_back(request, "grace_ends_at", 2 * 86_400)
    stack.set_back(request, "due_at", 2 * 86_400)
    stack.requests.due(request)
    record = stack.ended(request)
    shown = operator.run("show", request).data
    after = operator.run("verify", request)
    assert {store: n for step in left.data["steps"] for store, n in step["stores"].items()} == stack_counts(user)
    assert (left.code, record.status, stack.counts(user)) == (1, Status.COMPLETED, NOTHING)
    assert (shown["status"], shown["execution"]["status"]) == ("COMPLETED", "SUCCEEDED")
    assert {step["step"] for step in shown["steps"] if step["status"] == "DONE"} >= {"DeleteRecords", "VerifyErasure"}
    assert (after.code, after.out) == (1, "")


def stack_counts(user: User) -> dict[str, int]:
    return {store: number for store, number in user.expected().items() if number}


def test_a_request_and_a_person_are_held_and_released(operator: Operator, stack: Stack) -> None:
    user = stack.sign_up()
    request = operator.asked(user)
    held = operator.run("hold", request, "--lasts", "3d").data
    held_status = status(stack, request)
    released = operator.run("release", request, "--yes").data
    other = stack.sign_up()
    person = operator.run("hold", "--person", stdin=other.user_id).data
    of_held = operator.asked(other)
    while_held = status(stack, of_held)
    freed = operator.run("release", "--person", "--yes", stdin=other.user_id).data
    assert (held["status"], held_status, released["status"]) == ("HELD", Status.HELD, "SCHEDULED")
    assert (person["deletion_request_id"], while_held) == (None, Status.HELD)
    assert (freed["deletion_request_id"], status(stack, of_held)) == (of_held, Status.SCHEDULED)


def test_a_failed_request_shows_its_cause_and_is_redriven_to_its_end(operator: Operator, stack: Stack) -> None:
    user = stack.sign_up()
    with stack.policy(role_of(DELETE_RECORDS), None):
        request = stack.started(user)
        assert stack.ended(request).status is Status.FAILED
        shown = operator.run("show", request).data
    failed = operator.ids("--state", "FAILED")
    dry = operator.run("redrive", "--all-failed", "--dry-run").data["requests"]
    ran = operator.run("redrive", "--error", shown["error"], "--yes")
    record = stack.ended(request)
    assert shown["last_error"]["error"] == shown["error"]
    assert shown["execution"]["status"] == "FAILED"
    assert shown["execution"]["link"].startswith(f"https://{stack.emulator.region}.console.aws.amazon.com/states/")
    assert [one["deletion_request_id"] for one in dry] == [request] == list(failed)
    assert (ran.code, record.status, stack.counts(user)) == (0, Status.COMPLETED, NOTHING)


def test_what_the_dispatcher_could_not_do_is_redriven_from_its_queue(operator: Operator, stack: Stack) -> None:
    user = stack.sign_up()
    request = str(stack.ask(user)["deletion_request_id"])
    url = stack.done.outputs["dead_letter_queue_urls"]["schedule"]
    stack.client("sqs").send_message(QueueUrl=url, MessageBody=json.dumps({"deletion_request_id": request}))
    ran = operator.run("redrive", "--queue", "schedule", "--yes")
    record = stack.ended(request)
    queues = {one["name"]: one["messages"] for one in operator.run("queues").data["queues"]}
    assert (ran.code, ran.data["handled"]) == (0, 1)
    assert (record.status, stack.counts(user), queues["schedule"]) == (Status.COMPLETED, NOTHING, 0)


def test_what_is_past_its_lease_or_long_overdue_is_stuck(operator: Operator, stack: Stack) -> None:
    overdue, dead = operator.asked(stack.sign_up()), operator.asked(stack.sign_up())
    for request in (overdue, dead):
        stack.set_back(request, "due_at", 2 * 86_400)
    # As if its execution had ended and been forgotten, and nobody had looked.
    owner = stack.execution_arn(dead)
    stack.client("dynamodb").update_item(
        TableName=stack.done.outputs["request_table_name"],
        Key=request_key(dead),
        UpdateExpression="SET #status = :status, #owner = :owner",
        ExpressionAttributeNames={"#status": "status", "#owner": "owner"},
        ExpressionAttributeValues={":status": to_value("PROCESSING"), ":owner": to_value(owner)},
    )
    found = {one["deletion_request_id"]: one for one in operator.run("stuck").data["requests"]}
    assert set(found) == {overdue, dead}
    assert found[overdue]["overdue_seconds"] >= 86_400
    assert found[overdue]["execution"] is None
    assert (found[dead]["execution"]["arn"], found[dead]["execution"]["status"]) == (owner, "UNKNOWN")


def test_many_users_are_asked_for_from_a_file_and_a_second_run_asks_for_none(operator: Operator, stack: Stack) -> None:
    users = [stack.sign_up(files=1) for _ in range(20)]
    rows = [f"{user.user_id},{user.customer_id}" for user in users]
    (operator.home / "users.csv").write_text("\n".join(["user_id,customer_id", *rows]), encoding="utf-8")
    before = operator.ids()
    first = operator.run("bulk", "users.csv", "--yes", "--rate", "100")
    made = operator.ids() - before
    second = operator.run("bulk", "users.csv", "--yes")
    lines = (operator.home / "users.csv.results.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    assert (first.code, first.data["accepted"], len(made)) == (0, 20, 20)
    assert (second.code, second.data["accepted"], second.data["accepted_before"]) == (0, 0, 20)
    assert {json.loads(one)["deletion_request_id"] for one in lines} == made
    assert operator.ids() - before == made


@pytest.mark.invariant("I8")
def test_nothing_of_a_user_is_in_what_an_operator_reads(operator: Operator, stack: Stack) -> None:
    user = stack.sign_up()
    sub = stack.sub(user)
    request = operator.asked(user)
    plan = operator.run("plan", stdin=line(user))
    read = [operator.run(*words) for words in (("list",), ("show", request), ("verify", request), ("stuck",))]
    printed = "".join(ran.out + ran.err for ran in [plan, *read])
    assert request in printed
    assert [secret for secret in (user.user_id, user.customer_id, sub, "@example.com") if secret in printed] == []
