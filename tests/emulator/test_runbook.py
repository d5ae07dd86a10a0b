"""Somebody with nothing but docs/runbook.md: each of its commands is typed as it stands there, on a deployed stack.

Each section's play brings the stack into the state that the section is about, types the section's commands in their
order, and looks at what they print and at what became of the request. Only what a reader would put in is put in: the
request's id, the execution's ARN, the message's id. The three programs that are not this project's are not run: `make`
must have the target, the outputs file is written from the deployment (tests/engine runs the Pulumi CLI), and `aws` is
read as the AWS CLI reads it, by the names in the services' models, and called through boto3.
"""

from __future__ import annotations

import io
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from botocore import xform_name
from typer.testing import CliRunner

from handlers.core import aws
from handlers.core.record import Record, to_value
from handlers.core.request_table import request_key
from handlers.core.states import Status
from handlers.sweep import DEFERRED
from infra import preflight
from infra.stack_config import stack_config
from local.demo_stores import Stores, User
from local.emulator import ROOT, Emulator
from local.waiting import wait_until
from ops.cli import app
from ops.output import Exit
from statemachine import deletion
from statemachine.deletion import DELETE_IDENTITY, DELETE_RECORDS, SUSPEND_IDENTITY
from statemachine.frame import REQUEST, role_of
from tests.emulator.stack import LIMIT, SETTINGS, Stack, deploy_stack, make_lockable_bucket
from tests.emulator.test_deletion import NOTHING
from tests.emulator.test_recovery import stop_the_clock, sweep
from tests.runbook import EXAMPLE, EXAMPLE_MESSAGE, commands, sections
from tests.unit.ops.terminal import Ran

pytestmark = pytest.mark.long

BEFORE = "Before you need it"
EXAMPLE_EXECUTION = re.compile(r"arn:aws:states:\S+:execution:\S+")
VAULT = "acme-local-vault"
"""A bucket of the team with Object Lock."""
UNHEARD_OF = "PAUSED"
"""A status as a later version of this program might know it."""
HOUR, DAY = 3_600, 86_400


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """One for all plays, where one bucket's objects can be locked; its sweeper runs when somebody says so."""
    with Emulator.start(skip_waits=True) as emulator:
        stores = Stores(emulator)
        stores.make()
        make_lockable_bucket(emulator, VAULT)
        files = json.loads(stack_config(ROOT, "local")[SETTINGS])["file_stores"]
        vault = {"name": "vault", "bucket": VAULT, "prefix": "users/{user_id}/"}
        deployed = deploy_stack(emulator, stores, file_stores=[*files, vault])
        stop_the_clock(deployed)
        yield deployed


@dataclass
class Desk:
    """A shell in an empty directory, and the runbook open beside it."""

    stack: Stack
    home: Path
    setenv: Callable[[str, str], None]
    request: str = EXAMPLE
    """What the reader puts in the place of the example's id ..."""
    execution: str = ""
    """... of the example's execution ..."""
    message: str = EXAMPLE_MESSAGE
    """... and of the example's message."""
    left: list[str] = field(default_factory=list)
    """Commands of the open section that were not typed yet."""

    def open(self, heading: str) -> None:
        """Turn to a section."""
        self.left = commands(sections()[heading])

    def next(self, *, stdin: str = "", code: Exit = Exit.OK) -> str:
        """Type the section's next command; what it prints. It must end with the exit code."""
        return self.type(self.left.pop(0), stdin=stdin, code=code)

    def type(self, line: str, *, stdin: str = "", code: Exit = Exit.OK) -> str:
        """Type a command of the runbook."""
        written = EXAMPLE_EXECUTION.sub(self.execution, line) if self.execution else line
        written = written.replace(EXAMPLE, self.request).replace(EXAMPLE_MESSAGE, self.message)
        ran = self._run(shlex.split(written), stdin)
        assert ran.code == code, (line, ran)
        return ran.out

    def _run(self, words: list[str], stdin: str) -> Ran:
        match words:
            case ["make", target]:
                return made(target)
            case ["pulumi", "stack", "output", "--json", ">", file]:
                (self.home / file).write_text(json.dumps(self.stack.done.outputs), encoding="utf-8")
                return Ran(0, "", "")
            case ["export", assignment]:
                self.setenv(*assignment.split("=", 1))
                return Ran(0, "", "")
            case [".venv/bin/python", "-m", "ops", *rest]:
                # In this process: a new one needs a second to start (tests/emulator/test_ops.py starts one).
                result = CliRunner().invoke(app, rest, input=stdin, catch_exceptions=False)
                return Ran(result.exit_code, result.stdout, result.stderr)
            case [".venv/bin/python", "-m", "infra.preflight", *rest]:
                out, err = io.StringIO(), io.StringIO()
                with redirect_stdout(out), redirect_stderr(err):
                    code = preflight.main(rest)
                return Ran(code, out.getvalue(), err.getvalue())
            case ["aws", *rest]:
                return aws_cli(rest)
        raise AssertionError(f"nobody here knows how to run {words}")


def made(target: str) -> Ran:
    """`make` of a target that the Makefile must have."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8").replace("$(VENV)", ".venv")
    return Ran(0 if re.search(rf"^{re.escape(target)}:", text, re.MULTILINE) else 2, "", "")


def aws_cli(words: list[str]) -> Ran:
    """The AWS CLI, for options that take a text: every name is looked up in the service's model.

    A blob is refused: the CLI's second version takes it in base64, the first one as it is
    (https://docs.aws.amazon.com/cli/latest/userguide/cliv2-migration-changes.html#cliv2-migration-binaryparam).
    """
    service, operation, *rest = words
    client = boto3.client(service)  # type: ignore[call-overload]  # the name is the runbook's
    names = {xform_name(name, "-"): name for name in client.meta.service_model.operation_names}
    model = client.meta.service_model.operation_model(names[operation])
    options = {f"--{xform_name(name, '-')}": name for name in model.input_shape.members}
    given = {options[option]: value for option, value in zip(rest[::2], rest[1::2], strict=True)}
    assert {model.input_shape.members[name].type_name for name in given} <= {"string"}, given
    answer = getattr(client, xform_name(names[operation]))(**given)
    printed = {name: value for name, value in answer.items() if name != "ResponseMetadata"}
    return Ran(0, json.dumps(printed, default=str), "")


@pytest.fixture
def desk(stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A desk whose owner has credentials, and has read the runbook's beginning."""
    monkeypatch.chdir(tmp_path)
    for name, value in stack.emulator.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("ACCOUNT_DELETION_OUTPUTS", raising=False)
    forget_clients()
    made_ready = Desk(stack, tmp_path, monkeypatch.setenv)
    made_ready.open(BEFORE)
    while made_ready.left:
        made_ready.next()
    yield made_ready
    forget_clients()
    forget_requests(stack)


def forget_clients() -> None:
    """What this process made for other settings."""
    aws.client.cache_clear()
    aws.session.cache_clear()


def forget_requests(stack: Stack) -> None:
    """A play that did not come to its end must not spoil the next one."""
    client, table = stack.client("dynamodb"), stack.done.outputs["request_table_name"]
    for page in client.get_paginator("scan").paginate(TableName=table, ProjectionExpression="pk"):
        for key in page["Items"]:
            client.delete_item(TableName=table, Key=key)


# -- what the plays look at


def line(user: User) -> str:
    """A user as the runbook's standard input names one."""
    return json.dumps({"user_id": user.user_id, "identifiers": {"customer_id": user.customer_id}})


def row(printed: str, request: str) -> list[str]:
    """The words of a request's line in a table; empty if it has none."""
    return next((found.split() for found in printed.splitlines() if found.startswith(request)), [])


def fact(printed: str, name: str) -> str:
    """A value by its name, of what is printed one pair a line."""
    return next(found.removeprefix(name).strip() for found in printed.splitlines() if found.startswith(f"{name}  "))


def named(printed: str) -> str:
    """The request that an answer names."""
    return fact(printed, "deletion request id")


def status(desk: Desk) -> Status:
    return desk.stack.requests.record(desk.request).status


def write(desk: Desk, **attributes: object) -> None:
    """Put a request into a state that no operation makes."""
    desk.stack.client("dynamodb").update_item(
        TableName=desk.stack.done.outputs["request_table_name"],
        Key=request_key(desk.request),
        UpdateExpression=f"SET {', '.join(f'#{name} = :{name}' for name in attributes)}",
        ExpressionAttributeNames={f"#{name}": name for name in attributes},
        ExpressionAttributeValues={f":{name}": to_value(value) for name, value in attributes.items()},
    )


def accepted(desk: Desk, user: User, *, grace_days: int = 0) -> str:
    """A request that waits for its time, which may have come."""
    desk.request = str(desk.stack.ask(user, grace_days=grace_days)["deletion_request_id"])
    return desk.request


def failed(desk: Desk, user: User) -> str:
    """A request that fails for a permission that a step lacks; `allow` and `pulumi up` give it back afterwards."""
    with desk.stack.requests.without_permission(DELETE_IDENTITY, "cognito-idp:AdminDeleteUser"):
        request = desk.stack.started(user)
        assert desk.stack.ended(request).status is Status.FAILED
    return request


def retryable(desk: Desk, user: User) -> str:
    """A request whose second attempt ended without a word, and which waits for the third."""
    accepted(desk, user)
    write(desk, status="PROCESSING", owner=desk.stack.execution_arn(desk.request), failures=1)
    desk.stack.set_back(desk.request, "due_at", HOUR)
    assert sweep(desk.stack) == {"recovered": 1}
    assert status(desk) is Status.RETRYABLE
    return desk.request


def completed(desk: Desk, user: User) -> None:
    """The request has ended, and the user is gone."""
    record = wait_until(
        lambda: desk.stack.requests.record(desk.request),
        lambda found: found.status is Status.COMPLETED,
        limit=LIMIT,
    )
    assert record.status is Status.COMPLETED
    assert desk.stack.counts(user) == NOTHING


def swept_to_the_end(desk: Desk, user: User, *, later: int = 0) -> None:
    """Time passes, the sweeper runs, and the request ends well."""
    if later:
        desk.stack.set_back(desk.request, "due_at", later)
    assert sweep(desk.stack) == {"dispatched": 1}
    completed(desk, user)


# -- the plays: one for each section with commands


def before_you_need_it(desk: Desk) -> None:
    accepted(desk, desk.stack.sign_up(), grace_days=10)
    *_, listed = [desk.next() for _ in list(desk.left)]
    assert row(listed, desk.request)[1] == "SCHEDULED"


def first_look(desk: Desk) -> None:
    user = desk.stack.sign_up()
    accepted(desk, user, grace_days=10)
    looks = [desk.next() for _ in range(6)]
    shown = desk.next()
    *lists, stuck, queues = looks
    assert [text.strip() for text in lists] == ["no such request"] * 4
    assert stuck.strip() == "nothing is stuck"
    assert {tuple(found.split()[1:]) for found in queues.splitlines()[1:]} == {("0", "0")}
    assert fact(shown, "status") == "SCHEDULED"
    needs_a_person(desk)


def needs_a_person(desk: Desk) -> None:
    """What waits for ever, or longer than was promised, is found by the first look."""
    _, held, late, *_ = commands(sections()["First look"])
    desk.stack.invoke("operate", {"operation": "hold", "deletion_request_id": desk.request})
    without_end = row(desk.type(held), desk.request)
    desk.stack.set_back(desk.request, "erase_by", 60 * DAY)
    missed = row(desk.type(late), desk.request)
    assert (without_end[1:3], "late" in missed) == (["HELD", "-"], True)


def alarm_failed(desk: Desk) -> None:
    """Starting from nothing but the runbook: the commands of its beginning have been typed, the rest is here."""
    user, other = desk.stack.sign_up(), desk.stack.sign_up()
    of_other = failed(desk, other)
    desk.request = failed(desk, user)
    listed, shown = desk.next(), desk.next()
    one = desk.next()
    completed(desk, user)
    would, done = desk.next(), desk.next()
    story = desk.type(shows())
    assert row(listed, desk.request)[1] == row(listed, of_other)[1] == "FAILED"
    assert {"error AccessDenied", "step DeleteIdentity"} <= set(fact(shown, "last error").split(", "))
    assert "first step that cannot be undone began" in shown
    assert row(one, desk.request)[1] == "RETRYABLE"
    assert (row(would, desk.request), row(would, of_other)[1:]) == ([], ["RETRYABLE", "-"])
    assert row(done, of_other)[1] == "RETRYABLE"
    assert fact(story, "status") == "COMPLETED"
    desk.request = of_other
    completed(desk, other)


def shows() -> str:
    """The command that shows one request, as the first look has it."""
    return commands(sections()["First look"])[-1]


def oldest_overdue(desk: Desk) -> None:
    user = desk.stack.sign_up()
    accepted(desk, user)
    desk.stack.set_back(desk.request, "due_at", HOUR)
    overdue, *_ = desk.left
    listed, stuck = desk.next(), desk.next()
    swept_to_the_end(desk, user)
    assert row(listed, desk.request)[-1] == "overdue"
    assert int(row(stuck, desk.request)[2]) >= HOUR
    assert desk.type(overdue).strip() == "no such request"


def will_miss_erase_by(desk: Desk) -> None:
    user = desk.stack.sign_up()
    accepted(desk, user)
    desk.stack.set_back(desk.request, "erase_by", 60 * DAY)
    listed, shown = desk.next(), desk.next()
    swept_to_the_end(desk, user)
    assert "late" in row(listed, desk.request)[-1] + row(listed, desk.request)[-2]
    assert "late" in fact(shown, "notes")


def sweeper_silent(desk: Desk) -> None:
    """The sweeper's schedule is disabled in all of these plays."""
    user = desk.stack.sign_up()
    accepted(desk, user)
    printed = desk.next()
    assert fact(printed, "dispatched") == "1"
    completed(desk, user)


def failure_ratio(desk: Desk) -> None:
    user, other = desk.stack.sign_up(), desk.stack.sign_up()
    of_other = failed(desk, other)
    waits = retryable(desk, user)
    listed = desk.next()
    assert (row(listed, of_other)[1], row(listed, waits)[1]) == ("FAILED", "RETRYABLE")
    swept_to_the_end(desk, user, later=HOUR)
    desk.request = of_other
    desk.stack.invoke("operate", {"operation": "redrive", "deletion_request_id": of_other})
    completed(desk, other)


def start_failed(desk: Desk) -> None:
    """The request's dispatches are spent, and Step Functions answers again."""
    user = desk.stack.sign_up()
    accepted(desk, user)
    write(desk, attempt=deletion.workflow(identity=True).max_dispatches)
    exhausted = sweep(desk.stack)
    listed, redriven = desk.next(), desk.next()
    completed(desk, user)
    assert exhausted == {"not dispatched": 1}
    assert row(listed, desk.request)[1] == "FAILED"
    assert row(redriven, desk.request)[1] == "RETRYABLE"


def still_running(desk: Desk) -> None:
    """The event was lost in the end: the execution is over, and so is the lease."""
    user = desk.stack.sign_up()
    accepted(desk, user)
    write(desk, status="PROCESSING", owner=desk.stack.execution_arn(desk.request))
    listed = desk.next()
    assert {"PROCESSING", "UNKNOWN"} <= set(row(listed, desk.request))
    assert sweep(desk.stack) == {"recovered": 1}
    completed(desk, user)


def schedule_not_created(desk: Desk) -> None:
    user = desk.stack.sign_up()
    with desk.stack.policy(REQUEST, desk.stack.policy_without(REQUEST, "scheduler:CreateSchedule")):
        accepted(desk, user, grace_days=10)
    shown = desk.next()
    assert fact(shown, "status") == "SCHEDULED"
    assert [line for line in shown.splitlines() if line.startswith("schedule ")] == []


def function_throttles(desk: Desk) -> None:
    user = desk.stack.sign_up()
    accepted(desk, user)
    desk.stack.set_back(desk.request, "due_at", HOUR)
    listed = desk.next()
    assert row(listed, desk.request)[-1] == "overdue"
    swept_to_the_end(desk, user)


def states(desk: Desk) -> None:
    accepted(desk, desk.stack.sign_up(), grace_days=10)
    listed = desk.next()
    assert row(listed, desk.request)[1] == "SCHEDULED"


def stuck_processing(desk: Desk) -> None:
    """The step's process is stopped, so its task waits for an answer that does not come."""
    warm, user = desk.stack.sign_up(), desk.stack.sign_up()
    assert desk.stack.ended(desk.stack.started(warm)).status is Status.COMPLETED
    with desk.stack.requests.frozen(SUSPEND_IDENTITY) as processes:
        assert processes
        desk.request = desk.stack.started(user)
        desk.execution = wait_until(lambda: owner(desk), bool, limit=LIMIT)
        desk.stack.set_back(desk.request, "due_at", HOUR)
        swept = sweep(desk.stack)
        stuck, _ = desk.next(), desk.next()
        again = wait_until(
            lambda: desk.stack.requests.record(desk.request), lambda found: found.attempt == 2, limit=LIMIT
        )
    assert swept == {"still running": 1}
    assert {"PROCESSING", "RUNNING"} <= set(row(stuck, desk.request))
    assert again.attributes["last_error"]["error"] == "ABORTED"
    completed(desk, user)


def owner(desk: Desk) -> str:
    found: Record = desk.stack.requests.record(desk.request)
    return found.owner if found.status is Status.PROCESSING else ""


def held(desk: Desk) -> None:
    user, s3 = desk.stack.sign_up(), desk.stack.client("s3")
    contract = {"Bucket": VAULT, "Key": f"users/{user.user_id}/contract"}
    s3.put_object(**contract, Body=b"signed", ObjectLockLegalHoldStatus="ON")
    s3.put_object(Bucket=VAULT, Key=f"users/{user.user_id}/draft", Body=b"free")
    desk.request = desk.stack.started(user)
    desk.stack.ended(desk.request)
    left = s3.list_object_versions(Bucket=VAULT, Prefix=f"users/{user.user_id}/")["Versions"]
    shown = desk.next()
    s3.put_object_legal_hold(**contract, LegalHold={"Status": "OFF"})
    released = desk.next()
    assert [one["Key"] for one in left] == [contract["Key"]]
    assert (fact(shown, "status"), "locked 1" in fact(shown, "last error")) == ("HELD", True)
    assert fact(released, "status") == "RETRYABLE"
    completed(desk, user)


def not_handled(desk: Desk) -> None:
    user = desk.stack.sign_up()
    accepted(desk, user)
    write(desk, status=UNHEARD_OF)
    swept = sweep(desk.stack)
    shown = desk.next()
    write(desk, status="SCHEDULED")
    assert swept == {"not handled": 1}
    assert fact(shown, "status") == UNHEARD_OF
    swept_to_the_end(desk, user, later=2 * int(DEFERRED.total_seconds()))


def dead_letters(desk: Desk) -> None:
    user = desk.stack.sign_up()
    accepted(desk, user)
    url = desk.stack.done.outputs["dead_letter_queue_urls"]["dispatch"]
    sqs = desk.stack.client("sqs")
    sqs.send_message(QueueUrl=url, MessageBody=json.dumps({"deletion_request_id": desk.request}))
    desk.message = str(sqs.send_message(QueueUrl=url, MessageBody=json.dumps({"user": user.user_id}))["MessageId"])
    look, *_ = desk.left
    waiting, would, done = desk.next(), desk.next(code=Exit.INCOMPLETE), desk.next(code=Exit.INCOMPLETE)
    letters, discarded = desk.next(), desk.next()
    assert row(waiting, "dispatch") == ["dispatch", "2", "0"]
    assert (fact(would, "handled"), fact(done, "handled")) == ("1", "1")
    assert "not readable" in " ".join(row(letters, desk.message))
    assert user.user_id not in letters
    assert fact(discarded, "discarded") == desk.message
    assert row(desk.type(look), "dispatch") == ["dispatch", "0", "0"]
    completed(desk, user)


def function_errors(desk: Desk) -> None:
    user = desk.stack.sign_up()
    waits = retryable(desk, user)
    assert {"RETRYABLE", "UNKNOWN"} <= set(row(desk.next(), waits))
    swept_to_the_end(desk, user, later=HOUR)


def ask_for_a_deletion(desk: Desk) -> None:
    user = desk.stack.sign_up()
    before = desk.stack.digest(user)
    plan = desk.next(stdin=line(user))
    asked = desk.next(stdin=line(user))
    desk.request = named(asked)
    counts = {words[1]: int(words[2]) for words in map(str.split, plan.splitlines()) if words[:1] == ["DeleteRecords"]}
    assert counts == {"orders": user.orders, "visits": user.visits}
    assert (fact(asked, "status"), desk.stack.digest(user)) == ("SCHEDULED", before)


def ask_for_many(desk: Desk) -> None:
    users = [desk.stack.sign_up(files=1) for _ in range(3)]
    rows = [f"{user.user_id},{user.customer_id}" for user in users]
    (desk.home / "users.csv").write_text("\n".join(["user_id,customer_id", *rows]), encoding="utf-8")
    (bulk,) = desk.left
    first, second = desk.next(), desk.type(bulk)
    results = (desk.home / fact(first, "results")).read_text(encoding="utf-8")
    requests = {entry["deletion_request_id"] for entry in map(json.loads, results.splitlines()[1:])}
    assert (fact(first, "accepted"), fact(second, "accepted"), fact(second, "accepted before")) == ("3", "0", "3")
    assert len(requests) == 3
    assert [user.user_id for user in users if user.user_id in results] == []


def cancel(desk: Desk) -> None:
    user = desk.stack.sign_up()
    before = desk.stack.digest(user)
    accepted(desk, user, grace_days=10)
    (cancels,) = desk.left
    printed = [desk.next()]
    with desk.stack.requests.without_permission(DELETE_RECORDS, "dynamodb:DescribeTable"):
        desk.request = desk.stack.started(user)
        assert desk.stack.ended(desk.request).status is Status.FAILED
    printed += [desk.type(cancels)]
    assert [fact(answer, "status") for answer in printed] == ["CANCELLED"] * 2
    assert status(desk) is Status.CANCELLED
    assert desk.stack.digest(user) == before


def legal_hold(desk: Desk) -> None:
    user = desk.stack.sign_up()
    accepted(desk, user, grace_days=10)
    held_until, released = desk.next(), desk.next()
    of_person = desk.next(stdin=user.user_id)
    while_held = status(desk)
    freed = desk.next(stdin=user.user_id)
    assert (fact(held_until, "status"), fact(released, "status")) == ("HELD", "SCHEDULED")
    assert (named(of_person), while_held) == (desk.request, Status.HELD)
    assert (fact(freed, "status"), status(desk)) == ("SCHEDULED", Status.SCHEDULED)


def see_what_is_left(desk: Desk) -> None:
    user = desk.stack.sign_up()
    accepted(desk, user, grace_days=10)
    before = desk.stack.digest(user)
    printed = desk.next(code=Exit.REFUSED)
    assert f"orders {user.orders}, visits {user.visits}" in printed
    assert desk.stack.digest(user) == before


def check_the_stores(desk: Desk) -> None:
    """The settings are those of Pulumi.dev.yaml, but for the pool, whose id nobody can choose."""
    dev = stack_config(ROOT, "dev")
    settings = json.loads(dev[SETTINGS])
    settings["user_pool_id"] = desk.stack.stores.pool_id
    write_config(desk.home, {"aws:region": desk.stack.emulator.region, SETTINGS: settings})
    make_stores(desk.stack, settings)
    printed = desk.next()
    assert printed.splitlines() == ["DeleteRecords: fit", "DeleteFiles: fit", "DeleteIdentity: fit"]


def write_config(home: Path, config: Mapping[str, Any]) -> None:
    (home / "Pulumi.yaml").write_text("name: account-deletion\n", encoding="utf-8")
    (home / "Pulumi.dev.yaml").write_text(yaml.safe_dump({"config": config}), encoding="utf-8")


def make_stores(stack: Stack, settings: Mapping[str, Any]) -> None:
    """The team's stores, as its settings describe them."""
    for store in settings["record_stores"]:
        keys = {store["partition_key"]: "HASH", store["sort_key"]: "RANGE"}
        stack.client("dynamodb").create_table(
            TableName=store["table"],
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
            KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind in keys.items()],
        )
    for store in settings["file_stores"]:
        place = {"LocationConstraint": stack.emulator.region}
        stack.client("s3").create_bucket(Bucket=store["bucket"], CreateBucketConfiguration=place)
        versioned = {"Status": "Enabled"}
        stack.client("s3").put_bucket_versioning(Bucket=store["bucket"], VersioningConfiguration=versioned)


PLAYS: Mapping[str, Callable[[Desk], None]] = {
    BEFORE: before_you_need_it,
    "First look": first_look,
    "failed": alarm_failed,
    "oldest-overdue": oldest_overdue,
    "will-miss-erase-by": will_miss_erase_by,
    "sweeper-silent": sweeper_silent,
    "failure-ratio": failure_ratio,
    "start-failed": start_failed,
    "stuck-processing": stuck_processing,
    "held": held,
    "not-handled": not_handled,
    "schedule-not-created": schedule_not_created,
    "still-running": still_running,
    "dead-letters": dead_letters,
    "function-errors": function_errors,
    "function-throttles": function_throttles,
    "States": states,
    "Ask for a deletion": ask_for_a_deletion,
    "Ask for many": ask_for_many,
    "Cancel": cancel,
    "Legal hold": legal_hold,
    "See what is left of a user": see_what_is_left,
    "Check the stores before a deploy": check_the_stores,
}


@pytest.mark.parametrize("heading", [heading for heading, text in sections().items() if commands(text)])
def test_the_commands_of_a_section_do_what_the_section_says(
    desk: Desk, heading: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "ROOT", desk.home)
    assert heading in PLAYS, "a section with commands that nobody types here"
    desk.open(heading)
    PLAYS[heading](desk)
    assert desk.left == [], "commands that nobody types here"


@pytest.mark.parametrize(
    ("left", "error", "line"),
    [
        (["dynamodb:GetItem", "dynamodb:UpdateItem"], "StoreUnfit", "dynamodb:DescribeTable is denied; allow it to"),
        ([], "StoreRefused", '"error":"AccessDenied"'),
    ],
    ids=["the stores", "everything"],
)
def test_a_step_that_may_not_even_read_is_found_before_anything_is_touched(
    desk: Desk, left: list[str], error: str, line: str
) -> None:
    """The table of errors: the record has the class only, and the log what it is about."""
    user = desk.stack.sign_up()
    before = desk.stack.digest(user)
    with desk.stack.policy(role_of(DELETE_RECORDS), policy(left)):
        desk.request = desk.stack.started(user)
        desk.stack.ended(desk.request)
    shown = desk.type(shows())
    untouched = desk.stack.digest(user) == before
    desk.type(redrives())
    completed(desk, user)
    said = [found.replace('": "', '":"') for found in desk.stack.log_lines() if desk.request in found]
    assert {f"error {error}", "step CheckStores"} <= set(fact(shown, "last error").split(", "))
    assert untouched
    assert [found for found in said if line in found] != []


def policy(actions: list[str]) -> str | None:
    """A role's policy with nothing but these actions; None where there are none."""
    allowed = {"Effect": "Allow", "Action": actions, "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [allowed]}) if actions else None


def redrives() -> str:
    """The command that redrives one request."""
    return next(command for command in commands(sections()["failed"]) if f"redrive {EXAMPLE}" in command)


def test_no_play_is_about_a_section_that_the_runbook_does_not_have() -> None:
    assert [heading for heading in PLAYS if not commands(sections().get(heading, ""))] == []
