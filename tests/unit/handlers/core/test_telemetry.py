"""Logs and metrics have no place for personal data."""

import json

import pytest

from handlers.core import telemetry
from handlers.core.telemetry import LogFieldError
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


def test_a_metric_has_its_name_value_and_dimensions(capsys: pytest.CaptureFixture[str]) -> None:
    telemetry.count("Completed", 2, step="DeleteFiles")

    line = json.loads(capsys.readouterr().out)
    assert line["Completed"] == [2.0]
    assert line["step"] == "DeleteFiles"
    (metric,) = line["_aws"]["CloudWatchMetrics"]
    assert metric["Namespace"] == "AccountDeletion"


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
