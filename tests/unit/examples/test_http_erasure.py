"""The example renders and deploys with its own values and times."""

from datetime import timedelta
from typing import Any

import pytest
import yaml

from examples import http_erasure
from handlers.core.checkpoint import RESERVE
from handlers.steps import erase_by_http
from infra.packaging import ROOT
from infra.settings import read_settings
from statemachine import asl, deletion, rules
from statemachine.functions import function_specs
from statemachine.step import Value
from statemachine.workflow import example_deployment
from tests.infra import samples
from tests.infra.world import refusal, run

STEP, ROLE = "EraseAtVendor", "erase-at-vendor"


@pytest.mark.parametrize("identity", [True, False])
def test_the_example_is_the_list_with_one_more_step_and_keeps_every_rule(*, identity: bool) -> None:
    workflow = http_erasure.workflow(identity=identity)

    definition = asl.render(workflow, example_deployment(workflow))

    names = [step.name for step in workflow.steps]
    assert [name for name in names if name != STEP] == [step.name for step in deletion.steps(identity=identity)]
    assert names.index(STEP) == len(names) - (2 if identity else 1)
    assert STEP in definition["States"]
    assert rules.validate(definition) == ()


def test_the_step_is_not_in_the_list_of_those_who_did_not_ask_for_it() -> None:
    assert erase_by_http.handler not in [step.handler for step in deletion.steps(identity=True)]


def test_the_step_s_function_gets_its_secret_and_nothing_else() -> None:
    specs = {spec.role: spec for spec in function_specs(http_erasure.workflow(identity=True))}
    own = [one for one in specs[ROLE].allow if "dynamodb" not in str(one.actions)]

    values = {value.name for value in specs[ROLE].environment.values() if isinstance(value, Value)}

    assert [(one.actions, one.on) for one in own] == [("secretsmanager:GetSecretValue", Value("erasure_secret_arn"))]
    assert values - {"request_table", "metrics_namespace"} == set(http_erasure.VALUES)


def test_the_step_s_pauses_and_tries_fit_into_what_it_declares() -> None:
    step = http_erasure.ERASE_AT_VENDOR
    own_try = timedelta(seconds=float(str(step.function.environment["TIMEOUT"])))

    assert step.wait >= erase_by_http.LONGEST_PAUSE
    assert step.timeout >= 2 * own_try + RESERVE


def settings_of(path: str) -> dict[str, Any]:
    """What a file gives as the program's settings."""
    return dict(yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))["config"]["account-deletion:settings"])


@pytest.mark.exhaustive
def test_the_example_deploys_with_its_values_and_its_times() -> None:
    own = {**settings_of("Pulumi.dev.yaml"), **settings_of("examples/http_erasure.yaml")}
    workflow = http_erasure.workflow(identity=True)

    world = run(
        lambda: samples.deploy(
            samples.arguments(settings=read_settings("dev", own), workflow=workflow, values=http_erasure.VALUES)
        ),
        preview=True,
        environment="dev",
    )

    (function,) = [one for one in world.of("Function") if one.physical_name.endswith(ROLE)]
    variables = function.inputs["environment"]["variables"]
    assert variables["ENDPOINT"] == http_erasure.VALUES["erasure_endpoint"]
    assert variables["ERASURE_SECRET"] == http_erasure.VALUES["erasure_secret_arn"]


@pytest.mark.exhaustive
def test_the_fourteen_days_are_refused_where_the_promise_leaves_no_room_for_them() -> None:
    workflow = http_erasure.workflow(identity=True)

    message, asked = refusal(lambda: samples.arguments(workflow=workflow, values=http_erasure.VALUES))

    assert "erase_within of 45 days" in message
    assert asked == ()
