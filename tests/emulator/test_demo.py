"""`make demo` to its end: what it says when all is well, and that it says so when it is not."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from local import demo
from local.cli import Place, main
from local.demo_cases import ABANDONED, BYSTANDER, CANCELLED, DUPLICATED, HELD, PLAIN, REDRIVEN, USERS, Case
from local.demo_requests import DemoError, Requests
from local.demo_stores import BUCKET, ORDERS, VISITS, Stores, User
from local.demo_story import plan
from local.demo_view import Plain
from local.emulator import HOME, PYTHON_VARIABLE, ROOT

pytestmark = pytest.mark.long

RUNS = "run-*"
"""Directories of emulators that are not kept."""


def test_the_demo_ends_every_request_as_it_must_leaves_the_bystander_and_runs_on_when_it_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(HOME / f"demo-of-test-{os.getpid()}")
    monkeypatch.setattr(demo, "KEPT", place.home)
    try:
        code = demo.main(["--plain", "--keep"])
        text = capsys.readouterr().out
        assert code == 0, text
        assert text.count("nothing is left") == 7
        assert text.count("nothing changed, the digest is the same") == 1
        assert text.count("nothing changed, and the user can sign in") == 1
        assert text.count("nothing was lost while it was held") == 1
        assert "Everything is as it must be" in text
        assert "the due event came again after the end and was left alone" in text
        assert "the process of DeleteFiles is killed with" in text
        assert "which its schedule calls each minute, started it in" in text
        assert "the status event reached the recovery, and attempt 2 went on" in text
        assert "the due event came and the sweeper ran: it was left alone" in text
        assert "FAILED with AccessDenied in DeleteIdentity; the permission is given back" in text
        for user in USERS:
            for store, number in user.expected().items():
                gone = 0 if user in (CANCELLED, BYSTANDER) else number
                assert f"{gone} / {number} {store}" in text
        for command, shows in zip(text.splitlines()[-2:], ("state_machine_arn", "stopped"), strict=True):
            python, dash_m, package, *words = shlex.split(command)
            assert (ROOT / python, dash_m, package) == (Path(sys.executable), "-m", "local")
            assert main(words) == 0
            assert shows in capsys.readouterr().out
        assert not place.state.exists()
    finally:
        main(["--home", str(place.home), "down"])
        shutil.rmtree(place.home)


class Meddler:
    """Does to the finished demo what must not happen, and asks for the verdict each time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.verdicts: dict[str, bool] = {}
        self.shown: dict[str, str] = {}

    def __call__(self, played: demo.Played) -> None:
        emulator = played.emulator
        s3, dynamodb = emulator.client("s3"), emulator.client("dynamodb")
        self._judge(played, "as it was")

        key = {"pk": {"S": f"CUSTOMER#{PLAIN.customer_id}"}, "sk": {"S": "ORDER#late"}}
        dynamodb.put_item(TableName=ORDERS, Item=key)
        self._judge(played, "an item of a deleted user")
        dynamodb.delete_item(TableName=ORDERS, Key=key)

        upload = s3.create_multipart_upload(Bucket=BUCKET, Key=f"users/{DUPLICATED.user_id}/late.mov")["UploadId"]
        self._judge(played, "an upload of a deleted user")
        s3.abort_multipart_upload(Bucket=BUCKET, Key=f"users/{DUPLICATED.user_id}/late.mov", UploadId=upload)

        key = {"pk": {"S": "CUSTOMER#nobody"}, "sk": {"S": "1"}}
        dynamodb.put_item(TableName=ORDERS, Item=key)
        self._judge(played, "an item of nobody")
        dynamodb.delete_item(TableName=ORDERS, Key=key)

        self._change_the_cancelled(played)
        self._leave_something_of_the_others(played)

        self._judge(played, "as it was again")
        self._hold_with_a_loss(played)
        self._start_again(played)
        self._judge(played, "a second execution")
        s3.put_object(Bucket=BUCKET, Key=f"users/{BYSTANDER.user_id}/new.jpg", Body=b"x")

    def _change_the_cancelled(self, played: demo.Played) -> None:
        s3, pool = played.emulator.client("s3"), played.emulator.client("cognito-idp")
        key = f"users/{CANCELLED.user_id}/new.jpg"
        version = s3.put_object(Bucket=BUCKET, Key=key, Body=b"x")["VersionId"]
        self._judge(played, "a new file of the cancelled user")
        s3.delete_object(Bucket=BUCKET, Key=key, VersionId=version)

        who = {"UserPoolId": played.stores.pool_id, "Username": CANCELLED.user_id}
        pool.admin_disable_user(**who)
        self._judge(played, "the cancelled user is still suspended")
        pool.admin_enable_user(**who)

    def _leave_something_of_the_others(self, played: demo.Played) -> None:
        dynamodb = played.emulator.client("dynamodb")
        key = {"pk": {"S": f"CUSTOMER#{REDRIVEN.customer_id}"}, "sk": {"S": "ORDER#00000"}}
        dynamodb.put_item(TableName=ORDERS, Item=key)
        self._judge(played, "an item of the redriven user")
        dynamodb.delete_item(TableName=ORDERS, Key=key)

        key = {"user": {"S": ABANDONED.user_id}, "at": {"N": "1"}}
        dynamodb.put_item(TableName=VISITS, Item=key)
        self._judge(played, "an item of the user whose worker died")
        dynamodb.delete_item(TableName=VISITS, Key=key)

    def _hold_with_a_loss(self, played: demo.Played) -> None:
        """The held user registers again, and their part is played once more: now somebody deletes an item meanwhile."""
        cases = played.story.cases
        before = next(case for case in cases if case.user is HELD)
        again, play = next((case, play) for case, play in plan() if case.user is HELD)
        real = Requests.sweep

        def sweep(requests: Requests) -> Mapping[str, Any]:
            lose_an_order(played, HELD)
            return real(requests)

        played.stores.fill([HELD])
        with self.monkeypatch.context() as patches:
            patches.setattr(Requests, "sweep", sweep)
            play(played.story.stage, again)
        self._judge_with(played, before, again, "an item lost while held")

    def _judge_with(self, played: demo.Played, before: Case, again: Case, name: str) -> None:
        cases = played.story.cases
        place = cases.index(before)
        cases[place] = again
        self._judge(played, name)
        cases[place] = before

    def _start_again(self, played: demo.Played) -> None:
        request = played.story.cases[1].request_id
        played.emulator.client("stepfunctions").start_execution(
            stateMachineArn=played.outputs["state_machine_arn"], name=f"{request}-9", input="{}"
        )

    def _judge(self, played: demo.Played, name: str) -> None:
        out = io.StringIO()
        self.verdicts[name] = demo.judge(Plain(out), played.story, played.stores)
        self.shown[name] = out.getvalue()


def lose_an_order(played: demo.Played, user: User) -> None:
    key = {"pk": {"S": f"CUSTOMER#{user.customer_id}"}, "sk": {"S": "ORDER#00000"}}
    played.emulator.client("dynamodb").delete_item(TableName=ORDERS, Key=key)


def test_the_demo_fails_when_something_is_left_lost_or_changed_that_must_not_be_or_a_duplicate_had_an_effect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    meddler, out = Meddler(monkeypatch), io.StringIO()
    code = demo.run(Plain(out), meddle=meddler)
    assert meddler.verdicts == {
        "as it was": True,
        "an item of a deleted user": False,
        "an upload of a deleted user": False,
        "an item of nobody": False,
        "a new file of the cancelled user": False,
        "the cancelled user is still suspended": False,
        "an item of the redriven user": False,
        "an item of the user whose worker died": False,
        "as it was again": True,
        "an item lost while held": False,
        "a second execution": False,
    }
    assert "left: 1 orders" in meddler.shown["an item of a deleted user"]
    assert "left: 1 files.uploads" in meddler.shown["an upload of a deleted user"]
    assert "(nobody's)" in meddler.shown["an item of nobody"]
    assert "CHANGED: files 90 to 91" in meddler.shown["a new file of the cancelled user"]
    assert "CHANGED: identity" in meddler.shown["the cancelled user is still suspended"]
    assert "left: 1 orders" in meddler.shown["an item of the redriven user"]
    assert "left: 1 visits" in meddler.shown["an item of the user whose worker died"]
    assert "CHANGED while held: orders 80 to 79" in meddler.shown["an item lost while held"]
    assert "2 executions, not 1" in meddler.shown["a second execution"]
    assert code == 1
    assert "CHANGED" in out.getvalue()
    assert "Everything is NOT as it must be" in out.getvalue()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_an_interrupted_demo_leaves_nothing_running(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "local", "demo", "--plain"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    endpoint = first.split()[-1]
    assert process.returncode == demo.INTERRUPTED, errors
    assert "Interrupted; the emulator is stopped." in errors
    assert "Traceback" not in errors
    assert not answers(endpoint)


def answers(endpoint: str) -> bool:
    try:
        urllib.request.urlopen(f"{endpoint}/_ministack/health", timeout=5).close()
    except OSError:
        return False
    return True


def test_a_demo_that_breaks_says_why_with_the_log_and_leaves_nothing_running(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise DemoError("the play is over")

    monkeypatch.setattr(Stores, "make", broken)
    before = sorted(HOME.glob(RUNS))
    assert demo.main(["--plain"]) == 1
    said = capsys.readouterr().err
    assert "DemoError: the play is over" in said
    assert "the end of the emulator's log" in said
    assert [path for path in sorted(HOME.glob(RUNS)) if path not in before] == []


def test_a_missing_emulator_is_a_message_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv(PYTHON_VARIABLE, str(tmp_path / "python"))
    assert demo.main(["--plain"]) == 1
    assert f"demo: {tmp_path / 'python'} does not exist" in capsys.readouterr().err
