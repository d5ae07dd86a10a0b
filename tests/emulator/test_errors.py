"""Each of our error classes, raised in a real Lambda, is caught by its name in a real execution."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_type_hints

import pulumi
import pytest

from handlers.core import errors
from handlers.core.errors import DeletionError
from local.emulator import ROOT, Emulator
from local.resources.registry import Resources
from local.waiting import wait_until

ROLE = "arn:aws:iam::123456789012:role/anybody"
FACTS = {str: "a fact", int: 3, int | None: None, tuple[str, ...]: ("a problem", "another")}
APP = """
from typing import get_type_hints
from handlers.core import errors

FACTS = {str: "a fact", int: 3, int | None: None, tuple[str, ...]: ("a problem", "another")}

def handler(event, context):
    kind = getattr(errors, event["error"])
    raise kind(*[FACTS[hint] for name, hint in get_type_hints(kind.__init__).items() if name != "return"])
"""


def below(kind: type[DeletionError]) -> Iterator[type[DeletionError]]:
    for each in kind.__subclasses__():
        yield each
        yield from below(each)


RAISED = sorted({kind.__name__ for kind in below(DeletionError) if not kind.__subclasses__()})
"""Every class of the module that has none below it: those above are policies, and nobody raises them."""


def test_the_classes_are_those_that_the_module_draws() -> None:
    drawn = str(errors.__doc__)
    assert [name for name in RAISED if f"─ {name}" not in drawn] == []
    assert len(RAISED) >= 15


def machine(function: str) -> dict[str, Any]:
    """Calls the function; each class has a catcher and an end of its own, and the last one takes what has none."""
    ends = {
        name: {"Type": "Pass", "Output": {"caught": name, "cause": "{% $states.input.cause %}"}, "End": True}
        for name in (*RAISED, "States.ALL")
    }
    caught = {"cause": "{% $states.errorOutput.Cause %}"}
    return {
        "QueryLanguage": "JSONata",
        "StartAt": "Raise",
        "States": {
            "Raise": {
                "Type": "Task",
                "Resource": "arn:aws:states:::lambda:invoke",
                "Arguments": {"FunctionName": function, "Payload": "{% $states.input %}"},
                "Catch": [{"ErrorEquals": [name], "Next": name, "Output": caught} for name in ends],
                "Next": "Raised",
            },
            "Raised": {"Type": "Pass", "Output": {"caught": "nothing"}, "End": True},
            **ends,
        },
    }


@pytest.fixture(scope="module")
def caught() -> dict[str, dict[str, str]]:
    """Class name -> the output of its execution."""
    files = {name: pulumi.FileAsset(str(ROOT / name)) for name in ("handlers/__init__.py", "handlers/core/errors.py")}
    files["handlers/core/__init__.py"] = pulumi.FileAsset(str(ROOT / "handlers/core/__init__.py"))
    with Emulator.start(permissions=False) as emulator:
        function = {
            "name": "raise",
            "role": ROLE,
            "runtime": "python3.13",
            "handler": "app.handler",
            "code": pulumi.AssetArchive({**files, "app.py": pulumi.StringAsset(APP)}),
        }
        _, made = Resources(emulator).create("aws:lambda/function:Function", function)
        states = emulator.client("stepfunctions")
        arn = states.create_state_machine(name="raise", definition=json.dumps(machine(made["arn"])), roleArn=ROLE)[
            "stateMachineArn"
        ]

        def output(name: str) -> dict[str, str]:
            execution = states.start_execution(stateMachineArn=arn, name=name, input=json.dumps({"error": name}))
            ended = wait_until(
                lambda: states.describe_execution(executionArn=execution["executionArn"]),
                lambda answer: answer["status"] != "RUNNING",
                limit=60,
            )
            result: dict[str, str] = json.loads(ended.get("output", "{}"))
            return result

        with ThreadPoolExecutor(4) as threads:
            return dict(zip(RAISED, threads.map(output, RAISED), strict=True))


@pytest.mark.parametrize("name", RAISED)
def test_a_class_that_crosses_lambda_is_caught_by_its_name_with_its_own_message(
    caught: dict[str, dict[str, str]], name: str
) -> None:
    kind = getattr(errors, name)
    facts = [FACTS[hint] for field, hint in get_type_hints(kind.__init__).items() if field != "return"]
    cause = json.loads(caught[name].get("cause", "{}"))
    assert caught[name]["caught"] == name, caught[name]
    assert (cause["errorType"], cause["errorMessage"]) == (name, str(kind(*facts)))
