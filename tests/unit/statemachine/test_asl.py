"""The rendered definition, against what the real service does and an emulator hides."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from handlers.core import errors
from handlers.core.transition import RunsIn
from handlers.core.transitions import ALL
from statemachine import asl
from statemachine.checks import FRAME_STATES
from statemachine.deletion import workflow
from statemachine.plan import LAMBDA_TRANSIENT
from statemachine.rendering import state_names
from statemachine.step import Catch, Outcome, StepKind
from statemachine.workflow import Workflow, example_deployment
from tests.unit.statemachine.samples import compensatable, preflight, step

PLAN = workflow(identity=True)
DEFINITION = asl.render(PLAN, example_deployment(PLAN))
STATES: dict[str, dict[str, Any]] = DEFINITION["States"]
LAMBDA_TASKS = [name for name, state in STATES.items() if state.get("Resource", "").endswith("lambda:invoke")]
TABLE_TASKS = [name for name, state in STATES.items() if ":dynamodb:" in state.get("Resource", "")]


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)
    elif isinstance(value, str):
        yield value


@pytest.mark.invariant("I8")
@pytest.mark.parametrize("name", LAMBDA_TASKS)
def test_a_lambda_task_gives_id_owner_and_step_and_nothing_else(name: str) -> None:
    payload = STATES[name]["Arguments"]["Payload"]
    assert sorted(payload) == ["deletion_request_id", "owner", "step"]
    assert payload["owner"] == "{% $states.context.Execution.Id %}"


@pytest.mark.invariant("I8")
def test_no_state_reads_whose_data_it_is() -> None:
    reads = [STATES[name] for name in TABLE_TASKS if STATES[name]["Resource"].endswith("getItem")]
    projected = {name for state in reads for name in state["Arguments"]["ExpressionAttributeNames"].values()}
    returned = {STATES[name]["Arguments"].get("ReturnValues", "NONE") for name in TABLE_TASKS}
    assert len(reads) == 2
    assert all(state["Arguments"]["ConsistentRead"] for state in reads)
    assert projected == {"cancel_requested", "failures", "pivot_at", "last_error", "status", "owner", "claimed"}
    assert returned == {"NONE", "UPDATED_OLD"}


@pytest.mark.invariant("I8")
def test_no_result_and_no_cause_of_an_error_goes_further() -> None:
    tasks = [STATES[name] for name in (*LAMBDA_TASKS, *TABLE_TASKS)]
    catchers = [catcher for task in tasks for catcher in task["Catch"]]
    assert all("Output" in task for task in tasks)
    assert all(catcher["Output"] == {} for catcher in catchers)
    assert not any("errorOutput.Cause" in text for text in texts(DEFINITION))


@pytest.mark.parametrize("name", LAMBDA_TASKS)
def test_every_transient_lambda_error_is_retried_then_caught(name: str) -> None:
    state = STATES[name]
    retried = [error for retrier in state["Retry"] if retrier["MaxAttempts"] for error in retrier["ErrorEquals"]]
    assert set(LAMBDA_TRANSIENT) <= set(retried)
    assert state["Catch"][-1]["ErrorEquals"] == ["States.ALL"]


@pytest.mark.parametrize("name", [*LAMBDA_TASKS, *TABLE_TASKS])
def test_data_limit_exceeded_is_caught_by_its_name_before_all(name: str) -> None:
    """States.ALL does not match it (https://docs.aws.amazon.com/step-functions/latest/dg/
    concepts-error-handling.html)."""
    caught = [catcher["ErrorEquals"] for catcher in STATES[name]["Catch"]]
    assert caught[-2:] == [["States.DataLimitExceeded"], ["States.ALL"]]


@pytest.mark.parametrize("name", LAMBDA_TASKS)
def test_what_must_not_be_retried_stands_in_the_first_retrier(name: str) -> None:
    """Retry compares strings and knows no base classes, and States.ALL would retry everything else."""
    first, *others = STATES[name]["Retry"]
    never = set(first["ErrorEquals"])
    final = {
        error.__name__
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, errors.Permanent | errors.QuietEnd | errors.Held)
    }
    assert first["MaxAttempts"] == 0
    assert never <= final
    assert {"AccessDenied", "SettingsError"} <= never
    assert not never & {error for retrier in others for error in retrier["ErrorEquals"]}


@pytest.mark.parametrize("name", [name for name in TABLE_TASKS if STATES[name]["Resource"].endswith("updateItem")])
def test_a_lost_condition_is_never_retried_and_never_an_error(name: str) -> None:
    condition = "DynamoDB.ConditionalCheckFailedException"
    state = STATES[name]
    assert state["Retry"][0] == {"ErrorEquals": [condition], "MaxAttempts": 0}
    assert state["Catch"][0]["ErrorEquals"] == [condition]
    assert state["Catch"][0]["Next"] == "InspectRequest"
    assert "ReturnValuesOnConditionCheckFailure" not in state["Arguments"]


def test_every_graph_transition_but_the_postponement_is_rendered() -> None:
    """No step of the list is a processor that needs days."""
    conditions = {STATES[name]["Arguments"].get("UpdateExpression", "") for name in TABLE_TASKS}
    missing = [
        one.name for one in ALL if one.runs_in is RunsIn.GRAPH and not any(one.set[0] in text for text in conditions)
    ]
    assert missing == []


def test_numbers_go_to_dynamodb_as_text() -> None:
    for name in TABLE_TASKS:
        values = STATES[name]["Arguments"].get("ExpressionAttributeValues", {})
        for number in (value["N"] for value in values.values() if "N" in value):
            assert number.isdigit() or number.startswith("{% $string(")


def test_time_is_read_at_each_try() -> None:
    """State.EnteredTime stays what it was when a Retry evaluates the arguments again."""
    assert not any("EnteredTime" in text for text in texts(DEFINITION))


def test_waits_for_time_to_pass_have_no_jitter() -> None:
    """FULL jitter draws from 0: it has no lower bound."""
    waiting = {"UndoInFlight", "StepMayStillRun"}
    found = [
        retrier
        for state in STATES.values()
        for retrier in state.get("Retry", ())
        if waiting & set(retrier["ErrorEquals"])
    ]
    assert {name for retrier in found for name in retrier["ErrorEquals"] if retrier["BackoffRate"] == 1.0} == waiting
    own = [retrier for retrier in found if retrier["BackoffRate"] == 1.0]
    assert {retrier["JitterStrategy"] for retrier in own} == {"NONE"}


def test_no_wait_in_the_graph_is_longer_than_an_hour() -> None:
    waits = {name: state["Seconds"] for name, state in STATES.items() if state["Type"] == "Wait"}
    assert waits == {"WaitSuspendIdentity": "{% $min([$states.input.wait, 3600]) %}"}


def test_a_task_outlasts_its_lambda_by_thirty_seconds() -> None:
    for one in PLAN.steps:
        assert STATES[one.name]["TimeoutSeconds"] == one.timeout.total_seconds() + 30


def test_the_digest_tells_one_graph_from_another() -> None:
    def digest(plan: Workflow) -> str:
        definition = asl.render(plan, example_deployment(plan))
        value = definition["States"]["Claim"]["Arguments"]["ExpressionAttributeValues"][":definition"]["S"]
        return str(value)

    assert re.fullmatch(r"[0-9a-f]{16}", digest(PLAN))
    assert digest(PLAN) != digest(replace(PLAN, max_failures=6))
    assert digest(PLAN) == digest(workflow(identity=True))


def test_each_name_of_the_frame_is_reserved() -> None:
    patient = step("AskVendor", kind=StepKind.RETRIABLE, patience=timedelta(days=14), preflight=preflight)
    plan = Workflow(steps=(*PLAN.steps, patient), timeout=timedelta(days=30))
    own = {name for one in plan.steps for name in state_names(one)}
    assert set(asl.render(plan, example_deployment(plan))["States"]) - own == FRAME_STATES


def test_without_identity_nothing_of_the_pool_is_left() -> None:
    plan = workflow(identity=False)
    definition = asl.render(plan, example_deployment(plan))
    assert "Identity" not in json.dumps(definition)
    assert not any("Undo" in name for name in definition["States"])


def test_a_step_may_be_undone_before_a_retry_too() -> None:
    both = frozenset({Outcome.FAILED, Outcome.RETRYABLE})
    suspend = compensatable()
    assert suspend.compensation is not None
    suspend = replace(suspend, compensation=replace(suspend.compensation, on=both))
    plan = Workflow(steps=(suspend, step()))
    states = asl.render(plan, example_deployment(plan))["States"]
    assert [catcher["Next"] for catcher in states["SuspendAccess"]["Catch"][-2:]] == ["UndoSuspendAccess"] * 2
    assert [catcher["Next"] for catcher in states["PurgeSearchIndex"]["Catch"][-2:]] == ["UndoSuspendAccess"] * 2


def test_each_way_back_undoes_what_asked_for_it_in_reverse_order() -> None:
    both = frozenset({Outcome.FAILED, Outcome.RETRYABLE})
    first, second = compensatable("Freeze"), compensatable("SuspendIdentity")
    assert first.compensation is not None
    identity = PLAN.steps[0]
    first = replace(first, compensation=replace(first.compensation, on=both))
    plan = Workflow(steps=(first, identity, step()))
    states = asl.render(plan, example_deployment(plan))["States"]
    assert states["Route"]["Choices"][0]["Next"] == "UndoSuspendIdentity"
    assert states["SuspendIdentityUndone"]["Next"] == "UndoFreeze"
    assert states["PurgeSearchIndex"]["Catch"][-1]["Next"] == "UndoFreeze"
    assert states["FreezeUndone"]["Next"] == "AfterUndo"
    assert second.name == identity.name


def test_a_catch_sends_an_error_where_the_step_says() -> None:
    own = Catch(on=(errors.StoreMissing,), to=Outcome.HELD)
    plan = Workflow(steps=(step(catch=(own, *PLAN.steps[1].catch)),))
    first = asl.render(plan, example_deployment(plan))["States"]["PurgeSearchIndex"]["Catch"][0]
    assert (first["ErrorEquals"], first["Next"]) == (["StoreMissing"], "MarkHeld")
