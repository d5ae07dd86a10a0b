"""What holds for every resource and every component, found by looking at all that a program registers.

A resource type that is new here has to be sorted into the tables below: that is the moment to think about its tags,
its key and its protection.
"""

import json
import re
from typing import Any

import pulumi
import pulumi_aws as aws
import pytest

from handlers.core.aws import CONNECT_SECONDS, LONGEST_PAUSE_SECONDS, READ_SECONDS, TRIES
from handlers.sweep import RESERVE
from infra.packaging import ROOT
from statemachine import deletion
from tests.infra import golden, samples
from tests.infra.world import ACCOUNT, UNKNOWN, Registered, World, document, run

UNTAGGED = {
    "aws:cloudwatch/dashboard:Dashboard",
    "aws:cloudwatch/eventTarget:EventTarget",
    "aws:cloudwatch/queryDefinition:QueryDefinition",
    "aws:iam/rolePolicy:RolePolicy",
    "aws:kms/alias:Alias",
    "aws:lambda/alias:Alias",
    "aws:lambda/functionEventInvokeConfig:FunctionEventInvokeConfig",
    "aws:lambda/layerVersion:LayerVersion",
    "aws:lambda/permission:Permission",
    "aws:scheduler/schedule:Schedule",
    "aws:sqs/queuePolicy:QueuePolicy",
}
"""Types without a `tags` property."""
UNNAMED = {
    "aws:cloudwatch/eventTarget:EventTarget": "belongs to a rule",
    "aws:kms/key:Key": "KMS draws the id; the alias is its name",
    "aws:lambda/functionEventInvokeConfig:FunctionEventInvokeConfig": "belongs to an alias",
    "aws:lambda/permission:Permission": "belongs to an alias",
    "aws:sqs/queuePolicy:QueuePolicy": "belongs to a queue",
}
"""Types without a physical name, each with the reason."""
FIXED_NAMES = {"aws:lambda/alias:Alias": "live"}
"""Types whose name is unique within another resource only."""
DATA = {"aws:dynamodb/table:Table", "aws:kms/key:Key", "aws:scheduler/scheduleGroup:ScheduleGroup"}
"""What would be lost for ever, or takes data with it."""
KEY_PROPERTY = {
    "aws:cloudwatch/logGroup:LogGroup": "kmsKeyId",
    "aws:dynamodb/table:Table": "serverSideEncryption",
    "aws:lambda/function:Function": "kmsKeyArn",
    "aws:scheduler/schedule:Schedule": "kmsKeyArn",
    "aws:sfn/stateMachine:StateMachine": "encryptionConfiguration",
    "aws:sqs/queue:Queue": "kmsMasterKeyId",
}
"""Types that can be encrypted with the company's key -> where."""


@pytest.fixture(scope="module")
def preview() -> World:
    return run(samples.deploy, preview=True)


@pytest.fixture(scope="module")
def update() -> World:
    return golden.sample_world()


@pytest.fixture(scope="module")
def railed() -> World:
    """With every rail set."""
    return run(lambda: samples.deploy(samples.arguments(settings=samples.settings(samples.RAILS))))


def properties_of(kind: str) -> set[str]:
    """The properties that a resource class takes, in Python's spelling."""
    module, _, name = kind.removeprefix("aws:").partition(":")
    package = {"lambda": "lambda_"}.get(module.split("/")[0], module.split("/")[0])
    args = getattr(getattr(aws, package), f"{name}Args")
    return {key for key, value in vars(args).items() if isinstance(value, property)}


@pytest.mark.exhaustive
def test_nothing_is_registered_outside_the_root_component(update: World) -> None:
    root, *others = update.resources
    urns = {one.urn for one in update.components}

    assert root.type == "account-deletion:index:AccountDeletion"
    assert [one.name for one in others if one.parent not in urns] == []


def test_component_tokens_name_package_module_and_class(update: World) -> None:
    assert {one.type for one in update.components} == {
        "account-deletion:alarms:Alarms",
        "account-deletion:dashboard:Dashboard",
        "account-deletion:events:Recovery",
        "account-deletion:functions:Function",
        "account-deletion:functions:Layer",
        "account-deletion:iam:Role",
        "account-deletion:index:AccountDeletion",
        "account-deletion:queries:Queries",
        "account-deletion:queues:DeadLetterQueue",
        "account-deletion:schedule:Schedules",
        "account-deletion:storage:RequestStore",
        "account-deletion:workflow:StateMachine",
    }


def test_every_name_begins_with_its_parents(update: World) -> None:
    names = {one.urn: one.name for one in update.resources}

    wrong = [one.name for one in update.resources if not one.name.startswith(names.get(one.parent, "deletion"))]
    assert wrong == []


def test_every_physical_name_is_explicit_known_and_begins_with_prefix_and_environment(preview: World) -> None:
    wrong = []
    for one in preview.aws:
        if one.type in FIXED_NAMES:
            expected: str | None = f"^{FIXED_NAMES[one.type]}$"
        else:
            expected = None if one.type in UNNAMED else r"^(alias/|/aws/[a-z/]+/)?acme-prod-"
        if expected and not re.search(expected, one.physical_name):
            wrong.append((one.name, one.physical_name))
    assert wrong == []


def test_physical_names_are_unique_within_their_type(update: World) -> None:
    names = [(one.type, one.physical_name) for one in update.aws if one.physical_name and one.type not in FIXED_NAMES]

    assert len(names) == len(set(names))


@pytest.mark.exhaustive
def test_every_resource_that_can_have_tags_has_them(railed: World) -> None:
    expected = {"application": "account-deletion", "environment": "prod", "team": "accounts"}

    assert {one.type for one in railed.aws if "tags" not in properties_of(one.type)} == UNTAGGED
    assert [one.name for one in railed.aws if one.type not in UNTAGGED and one.inputs["tags"] != expected] == []


def test_data_is_protected_and_nothing_else(update: World) -> None:
    # `protect` is inherited by children, so a component is never protected.
    assert {one.type for one in update.resources if one.protect} == DATA
    assert {one.type for one in update.resources if not one.protect} & DATA == set()


def test_table_is_backed_up_and_refuses_deletion_where_data_is_protected(update: World) -> None:
    table = update.one("Table").inputs

    assert (table["pointInTimeRecovery"], table["deletionProtectionEnabled"]) == ({"enabled": True}, True)


def test_nothing_is_protected_where_data_may_be_lost() -> None:
    args = samples.arguments(settings=samples.settings(environment="dev", protect_data=False))
    world = run(lambda: samples.deploy(args))
    table = world.one("Table").inputs

    assert [one.name for one in world.resources if one.protect] == []
    assert (table["pointInTimeRecovery"], table["deletionProtectionEnabled"]) == ({"enabled": False}, False)


def test_company_key_reaches_everything_that_takes_one(railed: World) -> None:
    takes_key = {
        one.type for one in railed.aws for key in properties_of(one.type) if "kms" in key or "encryption" in key
    }

    assert takes_key == set(KEY_PROPERTY)
    assert [
        one.name
        for one in railed.aws
        if one.type in KEY_PROPERTY and samples.KEY not in json.dumps(one.inputs.get(KEY_PROPERTY[one.type]))
    ] == []


def test_role_that_works_on_encrypted_things_may_use_the_company_key(railed: World) -> None:
    allowed = {
        policy.name
        for policy in railed.of("RolePolicy")
        for statement in document(policy)["Statement"]
        if samples.KEY in statement["Resource"]
    }

    assert allowed == {policy.name for policy in railed.of("RolePolicy")}


def test_boundary_and_path_reach_every_role(railed: World) -> None:
    rails = {(one.inputs["permissionsBoundary"], one.inputs["path"]) for one in railed.of("Role")}

    assert rails == {("arn:aws:iam::123456789012:policy/boundary", "/service/")}


def test_arn_of_a_role_with_a_path_is_the_one_that_create_schedule_is_told(railed: World) -> None:
    (function,) = (one for one in railed.of("Function") if one.name.endswith("request-deletion-function"))

    assert function.inputs["environment"]["variables"]["SCHEDULE_ROLE_ARN"] == (
        "arn:aws:iam::123456789012:role/service/acme-prod-eu-west-1-schedule"
    )


def test_retention_reaches_every_log_group(railed: World) -> None:
    assert {one.inputs["retentionInDays"] for one in railed.of("LogGroup")} == {30}


def test_topics_reach_every_alarm(railed: World) -> None:
    topics = {tuple(one.inputs["alarmActions"]) for one in railed.of("MetricAlarm")}

    assert topics == {samples.RAILS["page_topics"], samples.RAILS["ticket_topics"]}


@pytest.mark.exhaustive
def test_every_resource_carries_the_provider_of_the_component() -> None:
    def program() -> None:
        provider = aws.Provider("other-account", region="eu-west-1")
        samples.deploy(opts=pulumi.ResourceOptions(provider=provider))

    def name_of(provider: str) -> str:
        return provider.split("::")[-2]  # <urn>::<name>::<id>

    world = run(program)

    assert [one.name for one in world.aws if name_of(one.provider) != "other-account"] == []
    assert sorted((token.rpartition(":")[2], name_of(provider)) for token, provider in world.invokes) == [
        ("getCallerIdentity", "other-account"),
        ("getPartition", "other-account"),
        ("getRegion", "other-account"),
    ]


def test_program_warns_of_nothing(update: World, preview: World) -> None:
    # Python's own warnings are errors under our pytest; these are Pulumi's.
    assert (update.warnings, preview.warnings) == ((), ())


def test_names_arns_and_definition_are_known_in_a_preview(preview: World) -> None:
    machine = preview.one("StateMachine").inputs

    assert UNKNOWN not in machine["definition"]
    assert unknown_paths(preview) == {
        # Each of them is a reference to another resource, drawn by AWS or there for the order.
        ("Alias", "functionVersion"),
        ("Alias", "targetKeyId"),
        ("Function", "environment.variables.HMAC_KEY_ID"),
        ("Function", "layers"),
        ("Function", "role"),
        ("QueuePolicy", "queueUrl"),
        ("RolePolicy", "policy"),
        ("StateMachine", "loggingConfiguration.logDestination"),
        ("StateMachine", "roleArn"),
    }


def test_only_who_turns_user_ids_into_subjects_has_an_unknown_policy_in_a_first_preview(preview: World) -> None:
    # KMS draws the id of the key that they may use.
    unknown = {one.name for one in preview.of("RolePolicy") if UNKNOWN in json.dumps(one.inputs["policy"])}

    assert unknown == {"deletion-operate-access-policy", "deletion-request-deletion-access-policy"}


def unknown_paths(world: World) -> set[tuple[str, str]]:
    return {
        (one.type.rpartition(":")[2], path)
        for one in world.aws
        for path, value in leaves(one.inputs)
        if isinstance(value, str) and UNKNOWN in value
    }


def leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [leaf for key, inner in value.items() for leaf in leaves(inner, f"{path}.{key}" if path else key)]
    if isinstance(value, list):
        return [leaf for inner in value for leaf in leaves(inner, path)]
    return [(path, value)]


def test_no_value_of_the_step_list_is_left_in_the_definition(update: World) -> None:
    assert "Value(" not in update.one("StateMachine").inputs["definition"]


def test_all_arns_belong_to_the_stacks_account_and_region(update: World) -> None:
    text = json.dumps([one.inputs for one in update.aws])
    arns = set(re.findall(r"arn:aws:[a-z-]+:[a-z0-9-]*:[0-9]*:", text))

    assert {arn for arn in arns if not re.search(rf":(eu-west-1|):({ACCOUNT}|):$", arn)} == set()


def log_group_of(function: Registered) -> str:
    return str(function.inputs["loggingConfig"]["logGroup"])


def test_log_group_policy_and_dead_letters_exist_before_their_function(update: World) -> None:
    before = {one.urn: one for one in update.aws}
    for function in update.of("Function"):
        kinds = sorted(before[urn].type.rpartition(":")[2] for urn in function.depends_on if urn in before)
        queues = ["Queue"] if "deadLetterConfig" in function.inputs else []

        assert {"LogGroup", "RolePolicy", *queues} <= set(kinds)
        assert log_group_of(function) == f"/aws/lambda/{function.physical_name}"


def test_aliases_table_and_policy_exist_before_the_state_machine(update: World) -> None:
    machine = update.one("StateMachine")
    definition = machine.inputs["definition"]
    depends_on = {one.urn for one in update.aws if one.urn in machine.depends_on}
    called = {
        one.urn
        for one in update.of("Alias")
        if one.type.startswith("aws:lambda") and f':function:{one.inputs["functionName"]}:live"' in definition
    }

    assert called
    assert {*called, update.one("Table").urn, update.one("RolePolicy", "workflow-access-policy").urn} <= depends_on


def test_state_machine_is_standard_and_logs_no_data(update: World) -> None:
    machine = update.one("StateMachine").inputs

    assert machine["type"] == "STANDARD"
    assert machine["loggingConfiguration"] == {
        "level": "ALL",
        "includeExecutionData": False,
        "logDestination": "arn:aws:logs:eu-west-1:123456789012:log-group:/aws/vendedlogs/states/acme-prod-workflow:*",
    }


def test_dead_letters_are_kept_as_long_as_sqs_can_and_go_over_tls(update: World) -> None:
    queues = update.of("Queue")

    assert sorted(one.physical_name for one in queues) == [
        "acme-prod-dispatch-dlq",
        "acme-prod-recover-dlq",
        "acme-prod-schedule-dlq",
        "acme-prod-status-dlq",
        "acme-prod-sweep-dlq",
    ]
    assert {one.inputs["messageRetentionSeconds"] for one in queues} == {14 * 86_400}
    assert [document(one)["Statement"][0]["Condition"] for one in update.of("QueuePolicy")] == [
        {"Bool": {"aws:SecureTransport": "false"}}
    ] * len(queues)


def test_functions_run_the_pinned_runtime_from_one_layer_and_our_own_files(update: World) -> None:
    functions = update.of("Function")

    assert {(one.inputs["runtime"], *one.inputs["architectures"]) for one in functions} == {("python3.13", "arm64")}
    assert len({tuple(one.inputs["layers"]) for one in functions}) == 1
    assert len({json.dumps(one.inputs["code"], sort_keys=True) for one in functions}) == 1
    assert all(name.startswith("handlers/") for name in functions[0].inputs["code"]["assets"])
    assert {one.inputs["publish"] for one in functions} == {True}


def test_function_outlasts_one_call_with_all_its_tries_and_the_pauses_between(update: World) -> None:
    call = TRIES * (CONNECT_SECONDS + READ_SECONDS) + (TRIES - 1) * LONGEST_PAUSE_SECONDS

    assert [one.name for one in update.of("Function") if one.inputs["timeout"] <= call] == []


def test_sweeper_has_the_time_for_as_many_starts_and_looks_as_the_architecture_says(update: World) -> None:
    text = " ".join((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split())
    plan = deletion.workflow(identity=True)
    work = int(update.one("Function", "-sweep-function").inputs["timeout"] - RESERVE.total_seconds())
    looks = work * plan.describe_rate
    try_and_pause = CONNECT_SECONDS + READ_SECONDS + LONGEST_PAUSE_SECONDS

    assert plan.sweep_limit / plan.start_rate <= work
    assert f"has {work} s for work, and looks after {plan.sweep_limit:,} requests at {plan.start_rate} starts" in text
    assert f"{plan.describe_rate} looks a second: {looks} a run, {-(-10_000 // looks)} runs" in text
    assert f"{plan.start_rate - plan.describe_rate} a second are left for requests that wait behind them" in text
    assert f"In its last {RESERVE.seconds} s it begins nothing more" in text
    assert f"a try and the pause behind it take {try_and_pause} s at most" in text


@pytest.mark.parametrize(
    ("role", "retries", "max_age"), [("dispatch", 2, 6 * 3_600), ("recover", 2, 6 * 3_600), ("sweep", 0, 60)]
)
def test_asynchronous_function_has_dead_letters_and_its_settings_belong_to_the_alias(
    update: World, role: str, retries: int, max_age: int
) -> None:
    function = update.one("Function", f"-{role}-function")

    assert function.inputs["deadLetterConfig"] == {
        "targetArn": f"arn:aws:sqs:eu-west-1:123456789012:acme-prod-{role}-dlq"
    }
    assert update.one("FunctionEventInvokeConfig", f"-{role}-events").inputs == {
        "functionName": f"acme-prod-{role}",
        "qualifier": "live",
        "maximumRetryAttempts": retries,
        "maximumEventAgeInSeconds": max_age,
    }


def test_only_asynchronous_functions_have_dead_letters_and_settings_of_their_events(update: World) -> None:
    with_dead_letters = {one.physical_name for one in update.of("Function") if "deadLetterConfig" in one.inputs}

    assert with_dead_letters == {"acme-prod-dispatch", "acme-prod-recover", "acme-prod-sweep"}
    assert {one.inputs["functionName"] for one in update.of("FunctionEventInvokeConfig")} == with_dead_letters
