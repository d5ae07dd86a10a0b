"""What differs from one deployment to the next, and what is refused before anything is made."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pulumi
import pytest

from handlers.core.stores import RecordStore
from infra.account_deletion import AccountDeletionArgs
from infra.packaging import ROOT
from infra.platform import Platform
from statemachine.deletion import DELETE_RECORDS
from statemachine.functions import function_specs
from statemachine.step import Allow, FunctionOptions, Value
from statemachine.workflow import Workflow
from tests.infra import golden, samples
from tests.infra.world import World, document, refusal, run

pytestmark = pytest.mark.long

SEARCH = "arn:aws:es:eu-west-1:123456789012:domain/search"
NO_STORES: dict[str, Any] = {"record_stores": (), "file_stores": (), "user_pool_id": None}


def deployed(environment: str, region: str) -> World:
    settings = samples.settings(environment=environment, record_stores=(samples.ORDERS,), user_pool_id=None)
    return run(lambda: samples.deploy(samples.arguments(settings=settings)), region=region, environment=environment)


def test_two_environments_and_two_regions_of_one_account_share_no_name() -> None:
    account_wide = {"aws:iam/role:Role", "aws:iam/rolePolicy:RolePolicy"}
    names: list[tuple[str, ...]] = []
    for environment in ("dev", "prod"):
        for region in ("eu-west-1", "us-east-1"):
            world = deployed(environment, region)
            names += {
                (one.type, one.physical_name, "" if one.type in account_wide else region)
                for one in world.aws
                if one.physical_name not in ("", "live")
            }

    assert len(names) == len(set(names))


LIMITS = {
    "Alias": 256,
    "Dashboard": 255,
    "MetricAlarm": 255,
    "QueryDefinition": 255,
    "EventRule": 64,
    "Function": 64,
    "LayerVersion": 140,
    "LogGroup": 512,
    "Queue": 80,
    "Role": 64,
    "RolePolicy": 128,
    "Schedule": 64,
    "ScheduleGroup": 64,
    "StateMachine": 80,
    "Table": 255,
}
"""Type -> the longest name that its service takes."""


def test_longest_names_keep_every_services_limit_and_stay_apart() -> None:
    platform = Platform(name_prefix="a" * 24)
    settings = samples.settings(
        platform=platform, environment="e" * 12, record_stores=(samples.ORDERS,), user_pool_id=None
    )
    world = run(lambda: samples.deploy(samples.arguments(settings=settings)), region="ap-southeast-2")
    names = [(one.type.rpartition(":")[2], one.physical_name) for one in world.aws if one.physical_name != "live"]
    longest = {kind: max(len(name) for other, name in names if other == kind) for kind, name in names if name}

    assert {kind: length for kind, length in longest.items() if length > LIMITS[kind]} == {}
    assert longest["Role"] == LIMITS["Role"]
    assert len({one for one in names if one[1]}) == len([one for one in names if one[1]])


def test_stack_without_a_user_pool_knows_nothing_of_cognito() -> None:
    world = run(lambda: samples.deploy(samples.arguments(settings=samples.settings(user_pool_id=None))))
    names = {one.physical_name for one in world.of("Function")}

    assert names == {
        "acme-prod-cancel-deletion",
        "acme-prod-cancel-request",
        "acme-prod-check-stores",
        "acme-prod-complete-deletion",
        "acme-prod-delete-files",
        "acme-prod-delete-records",
        "acme-prod-dispatch",
        "acme-prod-operate",
        "acme-prod-recover",
        "acme-prod-request-deletion",
        "acme-prod-sweep",
        "acme-prod-verify-erasure",
    }
    assert [
        one.name for one in world.aws if "cognito" in json.dumps(one.inputs) or "USER_POOL" in str(one.inputs)
    ] == []
    assert (
        json.loads(world.one("StateMachine").inputs["definition"])["States"]["CheckStores"]["Next"] == "DeleteRecords"
    )


def test_stores_of_the_team_are_named_and_never_made() -> None:
    world = golden.sample_world()
    made = {(one.type.rpartition(":")[2], one.physical_name) for one in world.aws}
    named = {samples.ORDERS.table, "acme-profiles", samples.UPLOADS.bucket, samples.POOL}

    assert {name for _, name in made} & named == set()
    assert {kind for kind, _ in made} & {"Bucket", "BucketV2", "UserPool", "User"} == set()
    assert [name for kind, name in made if kind == "Table"] == ["acme-prod-deletions"]


def rights_of_delete_records(*record_stores: RecordStore) -> set[tuple[str, str]]:
    """Action and resource of each right that the step's function has on tables other than the requests'."""
    settings = samples.settings(record_stores=record_stores)
    world = run(lambda: samples.deploy(samples.arguments(settings=settings)))
    (policy,) = [one for one in world.of("RolePolicy") if one.name == "deletion-delete-records-access-policy"]
    return {
        (action, resource)
        for statement in document(policy)["Statement"]
        for action in statement["Action"]
        for resource in statement["Resource"]
        if action.startswith("dynamodb:") and not resource.endswith("/acme-prod-deletions")
    }


def test_store_with_an_index_adds_the_index_and_the_reading_of_items_and_nothing_else() -> None:
    orders, notes = ("arn:aws:dynamodb:eu-west-1:123456789012:table/acme-" + name for name in ("orders", "notes"))
    by_author = RecordStore(
        name="notes",
        table="acme-notes",
        partition_key="id",
        index="by-author",
        index_key="author",
        index_value="{user_id}",
    )
    usual = {"dynamodb:DeleteItem", "dynamodb:DescribeTable", "dynamodb:Query"}

    assert rights_of_delete_records(samples.ORDERS) == {(action, orders) for action in usual}
    assert rights_of_delete_records(samples.ORDERS, by_author) == {
        *((action, table) for action in usual for table in (orders, notes)),
        ("dynamodb:Query", f"{notes}/index/by-author"),
        ("dynamodb:BatchGetItem", notes),
    }


def search_step(**changes: Any) -> Any:
    """A step that a team would add, with what only its deployment knows."""
    options = FunctionOptions(environment={"ENDPOINT": Value("search_endpoint")})
    return replace(
        DELETE_RECORDS,
        name="PurgeSearch",
        allow=(Allow("es:ESHttpDelete", on=Value("search_arns")),),
        function=options,
        **changes,
    )


def with_search(values: dict[str, Any], **changes: Any) -> AccountDeletionArgs:
    return samples.arguments(
        settings=samples.settings(**{**NO_STORES, **changes.pop("settings", {})}),
        workflow=Workflow(steps=(search_step(),)),
        values=values,
        **changes,
    )


def test_values_of_the_team_reach_environment_and_role_also_as_outputs() -> None:
    def program() -> None:
        arns = [pulumi.Output.from_input(f"{SEARCH}/a"), f"{SEARCH}/b"]
        samples.deploy(
            with_search({"search_arns": arns, "search_endpoint": pulumi.Output.from_input("https://search")})
        )

    world = run(program)

    assert (
        world.one("Function", "purge-search-function").inputs["environment"]["variables"]["ENDPOINT"]
        == "https://search"
    )
    assert document(world.one("RolePolicy", "purge-search-access-policy"))["Statement"][-1] == {
        "Effect": "Allow",
        "Action": ["es:ESHttpDelete"],
        "Resource": [f"{SEARCH}/b", f"{SEARCH}/a"],
    }


def test_function_with_network_runs_in_the_platforms_subnets() -> None:
    step = replace(DELETE_RECORDS, function=replace(DELETE_RECORDS.function, network=True))
    settings = samples.settings(samples.RAILS, file_stores=(), user_pool_id=None)
    world = run(lambda: samples.deploy(samples.arguments(settings=settings, workflow=Workflow(steps=(step,)))))
    placed = {one.name: one.inputs["vpcConfig"] for one in world.of("Function") if "vpcConfig" in one.inputs}
    statements = document(world.one("RolePolicy", "delete-records-access-policy"))["Statement"]

    assert placed == {
        "deletion-delete-records-function": {"subnetIds": ["subnet-1", "subnet-2"], "securityGroupIds": ["sg-1"]}
    }
    assert [statement["Action"] for statement in statements if statement["Resource"] == ["*"]] == [
        [
            "ec2:AssignPrivateIpAddresses",
            "ec2:CreateNetworkInterface",
            "ec2:DeleteNetworkInterface",
            "ec2:DescribeNetworkInterfaces",
            "ec2:DescribeSubnets",
            "ec2:UnassignPrivateIpAddresses",
        ]
    ]


def test_outputs_are_what_a_user_needs() -> None:
    resolved: list[dict[str, Any]] = []

    def program() -> None:
        pulumi.Output.from_input(samples.deploy().outputs()).apply(resolved.append)

    run(program)

    assert resolved == [
        {
            "request_function_arn": "arn:aws:lambda:eu-west-1:123456789012:function:acme-prod-request-deletion:live",
            "state_machine_arn": "arn:aws:states:eu-west-1:123456789012:stateMachine:acme-prod-workflow",
            "request_table_name": "acme-prod-deletions",
            "schedule_group_name": "acme-prod-deletions",
            "subject_key_arn": "arn:aws:kms:eu-west-1:123456789012:key/00000000-1111-2222-3333-444444444444",
            "function_arns": {
                spec.role: f"arn:aws:lambda:eu-west-1:123456789012:function:acme-prod-{spec.role}:live"
                for spec in function_specs(samples.arguments().workflow)
            },
            "dead_letter_queue_urls": {
                "dispatch": "https://queue/deletion-dispatch-dlq-queue",
                "recover": "https://queue/deletion-recover-dlq-queue",
                "schedule": "https://queue/deletion-schedules-dlq-queue",
                "status": "https://queue/deletion-recovery-dlq-queue",
                "sweep": "https://queue/deletion-sweep-dlq-queue",
            },
            "dashboard_name": "acme-prod-eu-west-1-overview",
        }
    ]


def elsewhere(account: str = "123456789012", region: str = "eu-west-1") -> RecordStore:
    return replace(samples.ORDERS, table=f"arn:aws:dynamodb:{region}:{account}:table/acme-orders")


def many_tables(number: int) -> tuple[RecordStore, ...]:
    return tuple(
        replace(samples.ORDERS, name=f"orders-{index}", table=f"acme-orders-of-a-long-name-{index:03d}")
        for index in range(number)
    )


def stores(**changes: Any) -> Callable[[], AccountDeletionArgs]:
    return lambda: samples.arguments(settings=samples.settings(**changes))


KNOWN = (
    "checked_function_arns, checked_functions, dispatch_arn, due_index, due_index_arn, erase_within, "
    "erasing_function_arns, erasing_functions, execution_arns, file_bucket_arns, file_object_arns, file_stores, "
    "grace_default, grace_maximum, grace_minimum, hmac_key_arn, hmac_key_id, identifiers, metrics_namespace, realm, "
    "record_stores, record_table_arns, request_table, request_table_arn, schedule_arns, schedule_dead_letters_arn, "
    "schedule_group, schedule_role_arn, search_endpont, settle, state_machine_arn"
)
REFUSED: dict[str, tuple[Callable[[], AccountDeletionArgs], tuple[str, ...]]] = {
    "a table in another account": (
        stores(record_stores=(elsewhere(account="999999999999"),)),
        (
            "record store orders: table is in 999999999999/eu-west-1, the stack in 123456789012/eu-west-1: a "
            "transaction spans one account and Region; run a stack of this project there",
        ),
    ),
    "a table and a pool in another Region": (
        stores(record_stores=(elsewhere(region="us-east-1"),), user_pool_id="us-east-1_AbCdEfGhI"),
        (
            "record store orders: table is in 123456789012/us-east-1, the stack in 123456789012/eu-west-1: a "
            "transaction spans one account and Region; run a stack of this project there",
            "user_pool_id 'us-east-1_AbCdEfGhI': the pool is in us-east-1, the stack in eu-west-1; run a stack of this "
            "project there",
        ),
    ),
    "more tables than a function's variables and policy hold": (
        stores(record_stores=many_tables(150)),
        (
            "function delete-records: its variables have 22232 bytes, Lambda takes 4096; split the step into two with "
            "half of the stores each",
            "role delete-records: its policy has 12331 characters, IAM takes 10240; split the step into two with half "
            "of the stores each",
        ),
    ),
    "names that stand for nothing and names that nobody uses": (
        lambda: with_search({"search_endpont": "https://search"}),
        (
            f"function purge-search: nothing is called search_endpoint; give it in values, or use one of {KNOWN}",
            f"function purge-search: nothing is called search_arns; give it in values, or use one of {KNOWN}",
            "values: search_endpont is used by no step; remove it or correct its name",
        ),
    ),
    "a list where a text belongs, and a name of the stack's own": (
        lambda: with_search({"search_arns": SEARCH, "search_endpoint": [SEARCH], "realm": "mine"}),
        (
            "values: realm is provided by the stack itself; choose another name",
            "function purge-search: search_endpoint is a list; a variable of its environment takes a text",
        ),
    ),
    "stores that no step deletes from": (
        lambda: samples.arguments(
            workflow=Workflow(steps=(search_step(),)),
            values={"search_arns": SEARCH, "search_endpoint": "https://search"},
        ),
        (
            "user_pool_id is set, but no step deletes the identity; add the identity steps or remove the pool",
            "record_stores are set, but no step deletes records; add DeleteRecords or remove the stores",
            "file_stores are set, but no step deletes files; add DeleteFiles or remove the stores",
        ),
    ),
    "a grace period that leaves no time for an attempt": (
        stores(grace_maximum=timedelta(days=45)),
        (
            "erase_within of 45 days: grace_maximum of 45 days and one attempt of up to WORST do not fit into it; "
            "shorten grace_maximum or promise more",
        ),
    ),
    "a network that the platform does not have": (
        lambda: samples.arguments(
            workflow=Workflow(steps=(replace(DELETE_RECORDS, function=FunctionOptions(network=True)),))
        ),
        ("function delete-records: network=True, but the platform has no network; set platform.network",),
    ),
    "a step that is called like a part of the frame": (
        lambda: samples.arguments(workflow=Workflow(steps=(replace(DELETE_RECORDS, name="Schedule"),))),
        ("two functions or parts are called schedule; rename the step",),
    ),
    "a step that is called like the queue of the status events": (
        lambda: samples.arguments(workflow=Workflow(steps=(replace(DELETE_RECORDS, name="Status"),))),
        ("two functions or parts are called status; rename the step",),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_mistake_is_refused_before_anything_is_made(case: str) -> None:
    make, problems = REFUSED[case]
    message, asked_for = refusal(lambda: samples.deploy(make()))

    worst = samples.arguments().workflow.worst_case
    spelt = f"{int(worst.total_seconds())} seconds"
    assert message == "\n".join(
        ("the settings cannot be deployed:", *(f"  - {problem.replace('WORST', spelt)}" for problem in problems))
    )
    assert asked_for == ()


def test_identity_steps_without_a_user_pool_are_refused() -> None:
    args = AccountDeletionArgs(
        settings=samples.settings(user_pool_id=None), workflow=samples.arguments().workflow, build=samples.build()
    )
    message, asked_for = refusal(lambda: samples.deploy(args))

    assert message.splitlines()[1:] == [
        "  - function suspend-identity needs a user pool; set user_pool_id, or leave the identity steps out",
        "  - function delete-identity needs a user pool; set user_pool_id, or leave the identity steps out",
        "  - function undo-suspend-identity needs a user pool; set user_pool_id, or leave the identity steps out",
    ]
    assert asked_for == ()


def test_same_program_asks_for_the_same_in_every_process() -> None:
    script = (
        "import json\n"
        "from tests.infra.golden import sample_world\n"
        "asked = {one.urn: one.inputs for one in sample_world().resources}\n"
        "print(json.dumps(asked, sort_keys=True))\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }

    assert len(outputs) == 1
    assert len(next(iter(outputs))) > 10_000
