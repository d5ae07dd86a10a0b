"""The settings of an environment: read from a plain mapping, every mistake named at once with its mend."""

import ast
import inspect
from dataclasses import fields
from datetime import timedelta
from itertools import pairwise
from typing import Any, get_type_hints

import pytest

from handlers.core.stores import FileStore, RecordStore
from infra import settings as module
from infra.errors import ConfigurationError
from infra.platform import Network, Platform
from infra.settings import Settings, read_settings

LEAST: dict[str, Any] = {"platform": {"name_prefix": "acme"}}
EVERYTHING: dict[str, Any] = {
    "platform": {
        "name_prefix": "acme",
        "permissions_boundary": "arn:aws:iam::123456789012:policy/boundary",
        "role_path": "/service/",
        "tags": {"team": "accounts"},
        "kms_key_arn": "arn:aws:kms:eu-west-1:123456789012:key/1",
        "log_retention": "30 days",
        "network": {"subnet_ids": ["subnet-1"], "security_group_ids": ["sg-1"]},
    },
    "realm": "customers",
    "identifiers": ["customer_id"],
    "record_stores": [
        {
            "name": "orders",
            "table": "acme-orders",
            "partition_key": "pk",
            "partition": "CUSTOMER#{customer_id}",
            "partition_type": "S",
            "sort_key": "sk",
            "sort_prefix": "ORDER#",
        },
        {
            "name": "messages",
            "table": "acme-messages",
            "partition_key": "room",
            "partition_type": "B",
            "sort_key": "at",
            "sort_type": "N",
            "index": "by-author",
            "index_key": "author",
            "index_type": "N",
            "index_value": "{customer_id}",
        },
    ],
    "file_stores": [
        {
            "name": "uploads",
            "bucket": "acme-uploads",
            "prefix": "users/{user_id}/",
            "region": "us-east-1",
            "requester_pays": True,
            "owner": "210987654321",
            "replicas": {"acme-archive": "erased by its own lifecycle rule within 30 days"},
        }
    ],
    "user_pool_id": "eu-west-1_AbCdEfGhI",
    "grace_default": "14 days",
    "grace_minimum": "1 hour",
    "grace_maximum": "20 days",
    "erase_within": "40 days",
    "settle": "90 seconds",
    "keep_requests": "400 days",
    "protect_data": False,
}


def problems_of(mapping: object, environment: str = "prod") -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        read_settings(environment, mapping)  # type: ignore[arg-type]
    return caught.value.problems


def test_everything_can_be_said_in_the_file() -> None:
    assert read_settings("prod", EVERYTHING) == Settings(
        environment="prod",
        platform=Platform(
            name_prefix="acme",
            permissions_boundary="arn:aws:iam::123456789012:policy/boundary",
            role_path="/service/",
            tags={"team": "accounts"},
            kms_key_arn="arn:aws:kms:eu-west-1:123456789012:key/1",
            log_retention=timedelta(days=30),
            network=Network(subnet_ids=("subnet-1",), security_group_ids=("sg-1",)),
        ),
        realm="customers",
        identifiers=("customer_id",),
        record_stores=(
            RecordStore(
                name="orders",
                table="acme-orders",
                partition_key="pk",
                partition="CUSTOMER#{customer_id}",
                sort_key="sk",
                sort_prefix="ORDER#",
            ),
            RecordStore(
                name="messages",
                table="acme-messages",
                partition_key="room",
                partition_type="B",
                sort_key="at",
                sort_type="N",
                index="by-author",
                index_key="author",
                index_type="N",
                index_value="{customer_id}",
            ),
        ),
        file_stores=(
            FileStore(
                name="uploads",
                bucket="acme-uploads",
                prefix="users/{user_id}/",
                region="us-east-1",
                requester_pays=True,
                owner="210987654321",
                replicas={"acme-archive": "erased by its own lifecycle rule within 30 days"},
            ),
        ),
        user_pool_id="eu-west-1_AbCdEfGhI",
        grace_default=timedelta(days=14),
        grace_minimum=timedelta(hours=1),
        grace_maximum=timedelta(days=20),
        erase_within=timedelta(days=40),
        settle=timedelta(seconds=90),
        keep_requests=timedelta(days=400),
        protect_data=False,
    )


@pytest.mark.parametrize("kind", [Settings, Platform, Network, RecordStore, FileStore])
def test_every_setting_can_be_read_and_is_described(kind: type[Any]) -> None:
    readable = {*module._READERS, *module._PARTS, *module._LISTS}  # noqa: SLF001 - what it can read is the question
    names = [one.name for one in fields(kind)]

    assert [name for name, hint in get_type_hints(kind).items() if hint not in readable] == []
    assert [name for name in names if name not in described_in(kind)] == []


def described_in(kind: type[Any]) -> set[str]:
    """Fields with a docstring under them."""
    (body,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(body, ast.ClassDef)
    return {
        ast.unparse(one.target)
        for one, text in pairwise(body.body)
        if isinstance(one, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }


def test_prefix_is_enough_and_the_realm_follows_the_environment() -> None:
    read = read_settings("prod", LEAST)

    assert (read.realm, read.protect_data, read.grace_default) == ("prod", True, timedelta(days=30))


@pytest.mark.parametrize(
    ("mapping", "problems"),
    [
        (
            "text",
            (
                "settings: a mapping with platform, realm, identifiers, record_stores, file_stores, user_pool_id, "
                "grace_default, grace_minimum, grace_maximum, erase_within, settle, keep_requests, protect_data",
            ),
        ),
        ({}, ("platform is missing",)),
        (
            {
                "platform": {"name_prefix": 7, "log_retention": "2 days", "network": {"subnet_ids": []}},
                "identifiers": "customer_id",
                "record_stores": [{"name": "orders"}],
                "file_stores": {"name": "uploads"},
                "grace_default": 30,
                "grace_minimum": "a week",
                "protect_data": "false",
                "environment": "dev",
                "platfrom": {},
            },
            (
                "environment: no such setting; there are platform, realm, identifiers, record_stores, file_stores, "
                "user_pool_id, grace_default, grace_minimum, grace_maximum, erase_within, settle, keep_requests, "
                "protect_data",
                "platfrom: no such setting; there are platform, realm, identifiers, record_stores, file_stores, "
                "user_pool_id, grace_default, grace_minimum, grace_maximum, erase_within, settle, keep_requests, "
                "protect_data",
                "platform.name_prefix: a text",
                "platform.network.security_group_ids is missing",
                "identifiers: a list of texts",
                "record_stores[0].table is missing",
                "record_stores[0].partition_key is missing",
                "file_stores: a list",
                "grace_default: a number and a unit, such as 30 days, 1 hour or 90 seconds",
                "grace_minimum: a number and a unit, such as 30 days, 1 hour or 90 seconds",
                "protect_data: true or false",
            ),
        ),
        (
            {"platform": {"name_prefix": "acme", "log_retention": "2 days"}},
            (
                "log_retention of 2 days: CloudWatch Logs takes 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, "
                "545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653",
            ),
        ),
        (
            {
                **LEAST,
                "realm": "a/b",
                "identifiers": ["user_id", "Customer", "email", "email"],
                "user_pool_id": "pool",
                "grace_default": "40 days",
                "settle": "2 hours",
                "record_stores": [
                    {"name": "orders", "table": "x", "partition_key": "pk", "partition": "USER#{user}"},
                    {
                        "name": "orders",
                        "table": "arn:aws:dynamodb:eu-west-1:123456789012:table/a",
                        "partition_key": "pk",
                        "partition": "all",
                    },
                    {"name": "mails", "table": "mails", "partition_key": "pk"},
                    {"name": "messages", "table": "messages", "partition_key": "pk", "index": "by-author"},
                ],
                "file_stores": [{"name": "uploads", "bucket": "Acme", "prefix": "users/{user_id}"}],
            },
            (
                "realm 'a/b': use up to 63 letters, digits and _ . -",
                "identifiers 'user_id': use a lower case word with digits and _, other than user_id",
                "identifiers 'Customer': use a lower case word with digits and _, other than user_id",
                "identifiers: 'email' is there twice",
                "record_stores: 'orders' is there twice",
                "record store orders: table 'x' is no table name; 3 to 255 of a-zA-Z0-9_.-",
                "record store orders: partition: 'USER#{user}' uses {user}, which is not declared; declare it in "
                "identifiers or use one of Customer, email, user_id",
                "record store orders: partition: 'all' would match every user; put {user_id} or a declared identifier "
                "into it",
                "record store mails: partition is missing; write the template of its value, or name an index that "
                "finds the items",
                "record store messages: index needs index_key and index_value; name the index's partition key and its "
                "value",
                "file store uploads: bucket 'Acme' is no bucket name; 3 to 63 of a-z0-9.-",
                "file store uploads: prefix: 'users/{user_id}': nothing ends {user_id}, so one user's place could "
                "begin like another's; write {user_id}/ or {user_id}#",
                "user_pool_id 'pool': a pool's id looks like eu-west-1_AbCdEfGhI",
                "grace_default of 40 days: keep it between grace_minimum (0 seconds) and grace_maximum (35 days)",
                "settle of 2 hours: at most 1 hour, the longest wait in the graph",
            ),
        ),
    ],
    ids=["no mapping", "nothing", "wrong shapes", "wrong part", "wrong values"],
)
def test_every_mistake_is_named_at_once(mapping: object, problems: tuple[str, ...]) -> None:
    assert problems_of(mapping) == problems


def test_environment_comes_from_the_stack_and_is_checked_like_the_rest() -> None:
    assert problems_of(LEAST, environment="Prod-2") == (
        "environment 'Prod-2': use lower case letters and digits, at most 12 characters",
    )


def test_value_of_a_wrong_setting_is_never_shown() -> None:
    assert "hunter2" not in str(problems_of({"platform": {"name_prefix": ["hunter2"]}, "settle": "hunter2"}))


@pytest.mark.parametrize("duration", [timedelta(seconds=-1), timedelta(milliseconds=1500)])
def test_duration_that_a_variable_cannot_carry_is_refused(duration: timedelta) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Settings(environment="prod", platform=Platform(name_prefix="acme"), settle=duration)

    assert caught.value.problems == (f"settle of {duration}: use whole seconds, not below 0",)


@pytest.mark.parametrize(
    ("kept", "problem"),
    [
        (
            "90 days",
            "keep_requests of 90 days: use whole seconds, at least 91 days: so long an execution's name cannot be used "
            "again; or leave it out",
        ),
        ("for ever", "keep_requests: a number and a unit, such as 400 days"),
    ],
)
def test_a_request_that_goes_before_its_execution_s_name_is_free_is_refused(kept: str, problem: str) -> None:
    assert problems_of({**LEAST, "keep_requests": kept}) == (problem,)


@pytest.mark.parametrize("days", [91, 400])
def test_ended_requests_are_kept_as_long_as_the_file_says(days: int) -> None:
    assert read_settings("prod", {**LEAST, "keep_requests": f"{days} days"}).keep_requests == timedelta(days=days)


def test_store_in_another_place_passes_until_the_place_is_known() -> None:
    arn = "arn:aws:dynamodb:us-east-1:999999999999:table/orders"
    store = {"name": "orders", "table": arn, "partition_key": "pk", "partition": "{user_id}"}
    settings = read_settings("prod", {**LEAST, "record_stores": [store]})

    assert settings.place_problems("999999999999", "us-east-1") == []
    assert settings.place_problems("123456789012", "eu-west-1") == [
        "record store orders: table is in 999999999999/us-east-1, the stack in 123456789012/eu-west-1: a transaction "
        "spans one account and Region; run a stack of this project there"
    ]


@pytest.mark.parametrize(("worst", "fits"), [(timedelta(days=10), False), (timedelta(days=9, hours=23), True)])
def test_promise_holds_the_longest_grace_and_one_attempt(worst: timedelta, *, fits: bool) -> None:
    settings = read_settings("prod", LEAST)

    assert settings.attempt_problems(worst) == (
        []
        if fits
        else [
            "erase_within of 45 days: grace_maximum of 35 days and one attempt of up to 10 days do not fit into it; "
            "shorten grace_maximum or promise more"
        ]
    )
