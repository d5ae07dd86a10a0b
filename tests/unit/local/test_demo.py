"""What the demo concludes from what it saw, and how it shows it; tests/emulator/test_demo.py holds what it sees."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from rich import box
from rich.console import Console

from handlers.core.record import Record, StepRecord
from handlers.core.states import Status
from infra.settings import read_settings
from infra.stack_config import stack_config
from local.demo_cases import BYSTANDER, MODIFIED, PLAIN, USERS, Case, deleted
from local.demo_stores import BUCKET, NOBODY, ORDERS, STORES, VISITS, Listing
from local.demo_story import plan
from local.demo_view import Plain, Result, Row, Terminal, _table, view_for
from local.emulator import ROOT

EMPTY = Listing({})
COUNTS = PLAIN.expected()
ENTRY, OTHER = (json.dumps({"note": note}) for note in ("as it was", "another"))


def record(**changed: Any) -> Record:
    """A completed one, as it must be."""
    files = {"files": COUNTS["files"], "files.uploads": 1}
    rows = {"visits": COUNTS["visits"], "orders": COUNTS["orders"]}
    steps = {
        "DeleteRecords": StepRecord.of({"status": "DONE", "deleted": rows, "invocations": 1}),
        "DeleteFiles": StepRecord.of({"status": "DONE", "deleted": files, "invocations": 1}),
        "DeleteIdentity": StepRecord.of({"status": "DONE", "deleted": {"identity": 1}, "invocations": 1}),
    }
    as_it_must_be = Record(
        deletion_request_id="del_1",
        status=Status.COMPLETED,
        attempt=1,
        attempt_base=0,
        claimed=1,
        failures=0,
        owner="",
        fence=12,
        seq=0,
        due_at=0,
        undoing=0,
        subject="k1_",
        person=None,
        steps=steps,
    )
    return replace(as_it_must_be, **changed)


def case(**changed: Any) -> Case:
    """A user's part that went as it must."""
    values: dict[str, Any] = {"record": record(), "executions": ["del_1-1"], **changed}
    return Case(user=PLAIN, plan="deleted plainly", **values)


def listing(**stores: list[str]) -> Listing:
    return Listing({PLAIN.user_id: stores})


def with_files(**changed: Any) -> Mapping[str, StepRecord]:
    steps = dict(record().steps)
    return {**steps, "DeleteFiles": replace(steps["DeleteFiles"], **changed)}


def test_a_user_of_whom_nothing_is_left_gives_no_finding() -> None:
    assert case().findings(EMPTY, EMPTY) == []


@pytest.mark.parametrize(
    ("changed", "left", "finding"),
    [
        ({}, {"files": ["one"]}, "left: 1 files"),
        ({"record": None}, {}, "no request was accepted"),
        (
            {"record": record(status=Status.FAILED, attributes={"last_error": {"step": "A", "error": "B"}})},
            {},
            "is FAILED: B in A",
        ),
        (
            {"record": record(steps=with_files(deleted={"files": 179, "files.uploads": 1}))},
            {},
            "recorded: 260 orders, 220 visits, 179 files, 1 files.uploads, 1 identity",
        ),
        ({"executions": ["del_1-1", "del_1-2"]}, {}, "2 executions, not 1"),
        ({"record": record(attempt=2)}, {}, "2 attempts, 1 claimed, not 1"),
        ({"record": record(claimed=2)}, {}, "1 attempts, 2 claimed, not 1"),
        ({"record": record(steps=with_files(invocations=2))}, {}, "DeleteFiles was invoked 2 times, not 1"),
        ({"invocations": {"DeleteRecords": 2}}, {}, "DeleteRecords was invoked 1 times, not 2"),
        ({"failed_with": "AccessDenied in DeleteFiles"}, {}, "failed with: AccessDenied in DeleteFiles, not nothing"),
        ({"fails_with": "AccessDenied in DeleteFiles"}, {}, "failed with: nothing, not AccessDenied in DeleteFiles"),
        ({"is_held": True}, {}, "was never held and released"),
        ({"is_held": True, "when_held": EMPTY}, {}, "was never held and released"),
        (
            {
                "is_held": True,
                "when_held": listing(orders=[ENTRY, ENTRY], identity=[ENTRY]),
                "when_released": listing(orders=[ENTRY], identity=[OTHER]),
            },
            {},
            "CHANGED while held: orders 2 to 1, identity",
        ),
        (
            {"before_late_event": ({"fence": 1}, []), "after_late_event": ({"fence": 2}, [])},
            {},
            "an event after the end had an effect",
        ),
    ],
)
def test_each_thing_that_must_not_be_is_a_finding(
    changed: dict[str, Any], left: dict[str, list[str]], finding: str
) -> None:
    assert case(**changed).findings(EMPTY, Listing({PLAIN.user_id: left})) == [finding]


def test_a_hold_in_which_nothing_changed_gives_no_finding() -> None:
    kept = listing(orders=[ENTRY], identity=[OTHER])
    assert case(is_held=True, when_held=kept, when_released=kept).findings(EMPTY, EMPTY) == []


BEFORE = {"orders": [ENTRY], "identity": [json.dumps({"Enabled": True, MODIFIED: 1})]}
RESTORED = {**BEFORE, "identity": [json.dumps({"Enabled": True, MODIFIED: 2})]}
SUSPENDED = {**BEFORE, "identity": [json.dumps({"Enabled": False, MODIFIED: 2})]}


def cancelled(**changed: Any) -> Case:
    """A user who cancelled after the suspension, as it must go."""
    ended = record(status=Status.CANCELLED, steps={})
    values: dict[str, Any] = {"ends_as": Status.CANCELLED, "invocations": {}, "could_sign_in": False, "record": ended}
    return case(**{**values, **changed})


@pytest.mark.parametrize(
    ("changed", "after", "findings"),
    [
        ({}, RESTORED, []),
        ({}, SUSPENDED, ["CHANGED: identity"]),
        ({}, {**RESTORED, "orders": [OTHER]}, ["CHANGED: orders"]),
        ({}, {**RESTORED, "orders": []}, ["CHANGED: orders 1 to 0"]),
        ({"could_sign_in": True}, RESTORED, ["was not suspended before the cancellation"]),
        ({"could_sign_in": None}, RESTORED, ["was not suspended before the cancellation"]),
        (
            {"record": record()},
            RESTORED,
            [
                "is COMPLETED: no error in no step",
                "recorded: 260 orders, 220 visits, 180 files, 1 files.uploads, 1 identity",
            ],
        ),
    ],
)
def test_a_cancelled_user_keeps_everything_and_can_sign_in(
    changed: dict[str, Any], after: dict[str, list[str]], findings: list[str]
) -> None:
    assert cancelled(**changed).findings(listing(**BEFORE), listing(**after)) == findings


def test_each_user_of_the_plan_is_filled_and_only_the_bystander_is_not_asked_about() -> None:
    planned = [case.user for case, _ in plan()]
    assert [user for user in USERS if user not in planned] == [BYSTANDER]
    assert len(planned) == len(set(planned))


def test_counts_are_summed_over_the_steps_in_the_order_of_the_stores() -> None:
    assert list(deleted(record())) == list(STORES)
    assert deleted(record()) == COUNTS


def test_a_digest_is_the_users_own_and_sees_every_entry() -> None:
    before = Listing({BYSTANDER.user_id: {"orders": ["a", "b"]}, NOBODY: {"orders": ["c"]}})
    reordered = Listing({BYSTANDER.user_id: {"orders": ["b", "a"]}})
    touched = Listing({BYSTANDER.user_id: {"orders": ["a", "B"]}})
    assert reordered.digest(BYSTANDER.user_id) == before.digest(BYSTANDER.user_id)
    assert touched.digest(BYSTANDER.user_id) != before.digest(BYSTANDER.user_id)


def test_the_settings_of_the_local_stack_name_the_stores_that_the_demo_makes() -> None:
    settings = read_settings("local", json.loads(stack_config(ROOT, "local")["account-deletion:settings"]))
    assert [store.table for store in settings.record_stores] == [ORDERS, VISITS]
    assert [store.bucket for store in settings.file_stores] == [BUCKET]
    assert [store.name for store in settings.record_stores] == ["orders", "visits"]
    assert [store.name for store in settings.file_stores] == ["files"]


def test_the_bystanders_names_begin_like_those_of_a_user_who_is_deleted() -> None:
    assert BYSTANDER.user_id.startswith(PLAIN.user_id)
    assert BYSTANDER.customer_id.startswith(PLAIN.customer_id)
    assert len({user.user_id for user in USERS}) == len(USERS)


def test_plain_lines_come_once_for_each_change_and_without_control_characters() -> None:
    out = io.StringIO()
    with Plain(out) as view:
        view.show(Row("user-a1b2", "deleted plainly"))
        view.show(Row("user-a1b2", "deleted plainly", "PROCESSING", "3 orders"))
        view.show(Row("user-a1b2", "deleted plainly", "PROCESSING", "4 orders"))
        view.show(Row("user-a1b2", "deleted plainly", "COMPLETED", "4 orders"))
    lines = [line.split("s  ", 1)[1] for line in out.getvalue().splitlines()]
    assert lines == ["user-a1b2  PROCESSING  3 orders", "user-a1b2  COMPLETED  4 orders"]
    assert "\x1b" not in out.getvalue()


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_view_is_live_in_a_terminal_only() -> None:
    assert isinstance(view_for(FakeTerminal(), plain=False), Terminal)
    assert isinstance(view_for(FakeTerminal(), plain=True), Plain)
    assert isinstance(view_for(io.StringIO(), plain=False), Plain)


@pytest.mark.parametrize("width", [80, 100, 132, 168])
def test_the_last_table_shows_every_number_and_the_verdict_at_any_width(width: int) -> None:
    result = Result(
        request=["user-a1b2", "deleted plainly", "del_01M8MC9Z4QX9YCM6WMHRTB8KQJ"],
        states=[" 0.1 SCHEDULED", " 3.2 COMPLETED"],
        attempts="1",
        invocations=["1 DeleteRecords", "2 DeleteFiles"],
        counts=["260 / 260 orders"],
        verdict=["nothing left"],
        is_good=True,
    )
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(_table([result], box.ASCII2, width))
    shown = out.getvalue()
    for text in ("user-a1b2", "3.2 COMPLETED", "260 / 260 orders", "nothing left", "attempts", "DeleteFiles"):
        assert text in shown
    assert max(map(len, shown.splitlines())) <= width
