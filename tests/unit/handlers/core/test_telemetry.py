"""Logs and metrics have no place for personal data."""

import io
import json
import logging
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from handlers.core import telemetry
from handlers.core.metrics import STEP, Metric, Unit
from handlers.core.telemetry import LogFieldError, MetricDimensionError
from tests import emf
from tests.emf import Sent
from tests.world import World


def test_a_line_carries_the_fields_it_was_given(world: World) -> None:
    world.lines()

    telemetry.log("step done", deletion_request_id="del_1", step="DeleteFiles", deleted={"photos": 3})

    (line,) = world.lines()
    assert line["message"] == "step done"
    assert line["deletion_request_id"] == "del_1"
    assert line["deleted"] == {"photos": 3}


@pytest.mark.invariant("I8")
@pytest.mark.parametrize("name", ["user_id", "event", "message_text", "key", "exception"])
def test_a_field_that_could_hold_personal_data_is_refused(world: World, name: str) -> None:
    world.lines()

    with pytest.raises(LogFieldError, match=f"{name}: not a log field; log one of "):
        telemetry.log("x", **{name: "ann"})

    assert world.lines() == []


ONE = Metric(name="One", unit=Unit.SECONDS, dimensions=(STEP,), meaning="Something.", sent_by=())
PLAIN = Metric(name="Plain", meaning="Something.", sent_by=())


def test_a_metric_goes_to_the_environments_namespace_with_its_unit_value_and_dimensions(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "AccountDeletion/acme-prod")

    telemetry.count(ONE, 2, step="DeleteFiles")

    assert emf.sent(capsys.readouterr().out.splitlines()) == [
        Sent(
            namespace="AccountDeletion/acme-prod",
            name="One",
            unit="Seconds",
            dimensions={"step": "DeleteFiles"},
            value=2,
        )
    ]


def test_the_name_of_the_service_in_the_log_is_no_dimension(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "AccountDeletion/acme-prod")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "accounts")

    telemetry.count(PLAIN)

    (value,) = emf.sent(capsys.readouterr().out.splitlines())
    assert (value.dimensions, value.value) == ({}, 1)


@pytest.mark.parametrize(
    ("metric", "dimensions", "message"),
    [
        (ONE, {}, "One: its dimensions are step, not none; see handlers/core/metrics.py"),
        (PLAIN, {"user": "user-a1b2"}, "Plain: its dimensions are none, not user; see handlers/core/metrics.py"),
    ],
)
def test_a_value_without_its_dimensions_or_with_others_is_refused(
    capsys: pytest.CaptureFixture[str], metric: Metric, dimensions: dict[str, Any], message: str
) -> None:
    with pytest.raises(MetricDimensionError) as refused:
        telemetry.count(metric, **dimensions)

    assert str(refused.value) == message
    assert capsys.readouterr().out == ""


class SlowEnd(io.StringIO):
    """Standard output where the end of a line takes its time, so that other threads get in between."""

    def write(self, text: str) -> int:
        if text == "\n":
            threading.Event().wait(0.005)
        return super().write(text)


def test_metrics_and_lines_of_the_log_of_several_threads_never_share_a_line(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "AccountDeletion/acme-prod")
    out = SlowEnd()
    monkeypatch.setattr(sys, "stdout", out)
    for handler in logging.getLogger("account-deletion").handlers:
        monkeypatch.setattr(handler, "stream", out)

    def write(number: int) -> None:
        if number % 2:
            telemetry.count(PLAIN)
        else:
            telemetry.log("step done", attempt=number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(32)))

    lines = out.getvalue().splitlines()
    logged = [json.loads(line)["attempt"] for line in lines if '"_aws"' not in line]
    assert [value.name for value in emf.sent(lines)] == ["Plain"] * 16
    assert sorted(logged) == list(range(0, 32, 2))


def test_a_place_is_file_line_and_function_and_never_the_message() -> None:
    def fail() -> None:
        raise ValueError("secret of ann")

    with pytest.raises(ValueError, match="secret") as raised:
        fail()

    place = telemetry.place_of(raised.value)
    assert place.startswith("test_telemetry.py:")
    assert place.endswith(" fail")
    assert "secret" not in place
    assert telemetry.place_of(ValueError()) == "unknown place"


def test_totals_leave_out_what_had_nothing() -> None:
    assert telemetry.totals({"b": 2, "a": 1, "c": 0}) == {"a": 1, "b": 2}
