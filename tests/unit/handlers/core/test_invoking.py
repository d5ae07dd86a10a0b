"""Functions that ask other functions: answers, errors and calls that fail are told apart."""

import json
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest

from handlers.core import aws
from handlers.core.errors import StoreUnavailable
from handlers.core.invoking import FunctionRaised, ask_steps, caller, invoke
from tests.wire import Act, Call, invoked, refused
from tests.world import OWNER, USER, World, function_arn

REQUEST = f"del_{'1' * 26}"
FUNCTIONS = {step: function_arn(step) for step in ("DeleteFiles", "DeleteIdentity", "DeleteRecords")}
LONGEST = timedelta(minutes=5)


def ask(functions: dict[str, str]) -> Any:
    return ask_steps("verify", functions, deletion_request_id=REQUEST, owner=OWNER, longest=LONGEST)


@pytest.mark.parametrize(
    ("payload", "error", "message"),
    [
        ({"errorType": "StoreMissing", "errorMessage": "Query answered 404"}, "StoreMissing", "Query answered 404"),
        ({"errorMessage": "2026-01-01 Task timed out after 3.00 seconds"}, "Unknown", "2026-01-01 Task timed out"),
    ],
)
def test_a_function_that_raised_is_told_apart_from_its_answer(
    world: World, payload: dict[str, object], error: str, message: str
) -> None:
    world.wire.before("Invoke", invoked(payload, FunctionError="Unhandled"))
    world.wire.before("Invoke", invoked(payload))
    client = caller(LONGEST, tries=1)

    with pytest.raises(FunctionRaised) as raised:
        invoke(client, FUNCTIONS["DeleteFiles"], {})

    assert (raised.value.error, raised.value.message.startswith(message)) == (error, True)
    assert invoke(client, FUNCTIONS["DeleteFiles"], {}) == payload


@pytest.mark.invariant("I8")
def test_the_text_of_a_function_s_error_shows_its_class_alone(world: World) -> None:
    secret = {"errorType": "KeyError", "errorMessage": f"secret of {USER}"}
    world.wire.before("Invoke", invoked(secret, FunctionError="Unhandled"))

    with pytest.raises(FunctionRaised) as raised:
        invoke(caller(LONGEST, tries=1), FUNCTIONS["DeleteFiles"], {})

    assert str(raised.value) == "KeyError"


def test_the_steps_are_asked_at_once_each_under_its_own_name(world: World) -> None:
    together = Barrier(len(FUNCTIONS), timeout=10)

    def answer(call: Call) -> Any:
        together.wait()
        return invoked(json.loads(call.params["Payload"]))(call)

    world.wire.before("Invoke", answer, times=3)

    outcomes = ask(FUNCTIONS)

    event = {"deletion_request_id": REQUEST, "owner": OWNER, "verify": True}
    assert list(outcomes) == list(FUNCTIONS)
    assert {step: outcome.result() for step, outcome in outcomes.items()} == {
        step: {**event, "step": step} for step in FUNCTIONS
    }
    called = {json.loads(call.params["Payload"])["step"]: call.params["FunctionName"] for call in world.wire.calls}
    assert called == FUNCTIONS


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (invoked({"errorType": "AccessDenied"}, FunctionError="Unhandled"), FunctionRaised),
        (refused("ServiceException", status=500), StoreUnavailable),
    ],
)
def test_a_step_that_cannot_answer_hides_no_other_s_answer(world: World, act: Act, error: type[Exception]) -> None:
    def answer(call: Call) -> Any:
        is_broken = call.params["FunctionName"] == FUNCTIONS["DeleteIdentity"]
        return act(call) if is_broken else invoked({"remaining": {}})(call)

    world.wire.before("Invoke", answer, times=9)

    outcomes = ask(FUNCTIONS)

    failed = {step: type(outcome.exception()) for step, outcome in outcomes.items() if outcome.exception()}
    assert failed == {"DeleteIdentity": error}
    assert [outcomes[step].result() for step in FUNCTIONS if step not in failed] == [{"remaining": {}}] * 2


def test_all_steps_share_a_client_that_calls_once_and_waits_longer_than_a_function_may_take(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def noted(service: str, **options: Any) -> Any:
        made.append(options)
        return client(service, **options)

    client = aws.client
    world.wire.before("Invoke", invoked({"remaining": {}}), times=3)

    with monkeypatch.context() as patched:
        patched.setattr(aws, "client", noted)
        ask(FUNCTIONS)

    assert made == [{"read_seconds": LONGEST.total_seconds() + 10, "tries": 1}]


def test_nobody_is_asked_where_no_step_has_a_question(world: World) -> None:
    assert ask({}) == {}
    assert world.wire.calls == []
