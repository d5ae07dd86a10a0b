"""How the command line finds a deployment."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infra.functions import LIVE as LIVE_OF_INFRA
from ops.output import Exit
from ops.stack import APPLICATION, LIVE
from tests.unit.ops.terminal import Terminal
from tests.wire import Act, Call, answered
from tests.world import ACCOUNT, REGION

pytestmark = pytest.mark.exhaustive


def tagged(*bases: str) -> Act:
    """GetResources of stacks with these first parts of names, in two pages, with queues and functions."""
    roles = ("request-deletion", "verify-erasure", "sweep", "operate")
    arns = [f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{base}-{role}" for base in bases for role in roles]
    arns += [f"arn:aws:sqs:{REGION}:{ACCOUNT}:{base}-{role}-dlq" for base in bases for role in ("dispatch", "recover")]

    def act(call: Call) -> Any:
        page = 1 if call.params.get("PaginationToken") else 0
        found = [{"ResourceARN": arn} for arn in (arns[3:] if page else arns[:3])]
        return answered(ResourceTagMappingList=found, PaginationToken="" if page else "more")(call)

    return act


@pytest.fixture
def untold(ops: Terminal, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Nobody has said where the outputs are."""
    monkeypatch.delenv("ACCOUNT_DELETION_OUTPUTS")
    return ops


def test_a_stack_is_found_by_the_tags_of_its_resources(untold: Terminal) -> None:
    wire = untold.world.wire
    wire.answers["GetResources"] = tagged("acme-test")
    ran = untold.run("queues", "--environment", "test")
    filters = wire.of("GetResources")[0].params["TagFilters"]
    assert ran.code == Exit.OK, ran.err
    assert [queue["name"] for queue in ran.data["queues"]] == ["dispatch", "recover"]
    assert filters == [
        {"Key": "application", "Values": [APPLICATION]},
        {"Key": "environment", "Values": ["test"]},
    ]


def test_the_functions_that_tags_show_are_called_at_their_alias(untold: Terminal) -> None:
    wire = untold.world.wire
    wire.answers["GetResources"] = tagged("acme-test")
    wire.answers["GetFunctionConfiguration"] = answered(
        Environment={"Variables": {"REQUEST_TABLE": "deletions", "ATTEMPT_WORST_CASE": "1"}}
    )
    ran = untold.run("list")
    asked = {call.params["FunctionName"] for call in wire.of("GetFunctionConfiguration")}
    assert ran.code == Exit.OK, ran.err
    assert asked == {
        f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:acme-test-{role}:live" for role in ("request-deletion", "sweep")
    }
    assert LIVE == LIVE_OF_INFRA


@pytest.mark.parametrize(
    ("bases", "told"),
    [
        ((), f"no stack is tagged {APPLICATION} in this account and Region"),
        (("acme-dev", "acme-test"), "2 stacks are here: acme-dev, acme-test; give --environment NAME"),
    ],
)
def test_no_stack_and_more_than_one_are_told_with_what_to_give(
    untold: Terminal, bases: tuple[str, ...], told: str
) -> None:
    untold.world.wire.answers["GetResources"] = tagged(*bases)
    ran = untold.run("list")
    assert (ran.code, ran.out) == (Exit.USAGE, "")
    assert told in ran.err


@pytest.mark.parametrize("content", ["", "{}", "[]", json.dumps({"function_arns": {}})])
def test_a_file_without_the_outputs_is_refused_with_the_mend(ops: Terminal, content: str) -> None:
    Path("outputs.json").write_text(content, encoding="utf-8")
    ran = ops.run("list", "--outputs", "outputs.json")
    assert (ran.code, ran.out) == (Exit.USAGE, "")
    assert "pulumi stack output --json" in ran.err


def test_a_stack_of_an_older_version_lacks_a_function_and_says_what_to_run(ops: Terminal) -> None:
    outputs = ops.outputs
    del outputs["function_arns"]["operate"]
    Path("outputs.json").write_text(json.dumps(outputs), encoding="utf-8")
    ran = ops.run("cancel", ops.world.accept(), "--yes", "--outputs", "outputs.json")
    assert ran.code == Exit.USAGE
    assert "the stack has no function operate; run `pulumi up`" in ran.err


def test_a_function_of_another_version_lacks_a_variable_and_says_so(ops: Terminal) -> None:
    ops.world.wire.answers["GetFunctionConfiguration"] = answered(Environment={"Variables": {"OLD": "1"}})
    ran = ops.run("list")
    assert (ran.code, ran.out) == (Exit.USAGE, "")
    assert ran.err == "ops: the function sweep has no variable ATTEMPT_WORST_CASE: use the version that is deployed\n"


def test_an_environment_that_the_operator_may_not_decrypt_is_named(ops: Terminal) -> None:
    ops.world.wire.answers["GetFunctionConfiguration"] = answered(
        Environment={"Error": {"ErrorCode": "AccessDeniedException", "Message": "secret"}}
    )
    ran = ops.run("list")
    assert ran.code == Exit.AWS
    assert ran.err == "ops: the environment of sweep cannot be decrypted: AccessDeniedException\n"


@pytest.mark.parametrize("missing", ["credentials", "region"])
def test_missing_aws_settings_are_told_with_the_mend(missing: str) -> None:
    environment = {"PATH": "/usr/bin", "HOME": "/nowhere", "AWS_EC2_METADATA_DISABLED": "true"}
    if missing == "credentials":
        environment["AWS_DEFAULT_REGION"] = REGION
    ran = subprocess.run(
        [sys.executable, "-m", "ops", "queues"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=Path(__file__).resolve().parents[3],
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (Exit.AWS, "")
    assert "AWS_PROFILE" in ran.stderr
    assert "Traceback" not in ran.stderr
