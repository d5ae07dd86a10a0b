"""Permissions as data: exact, with a reason where they cannot be, and short enough for one role."""

import asyncio
import json

import pulumi
import pytest

from infra.errors import ConfigurationError
from infra.iam import Statement, length_problems, policy_text

TABLE = "arn:aws:dynamodb:eu-west-1:123456789012:table/orders"


def test_policy_is_plain_text_in_one_order_whatever_the_order_given() -> None:
    one = Statement(actions=("s3:GetObject", "s3:DeleteObject"), resources=("arn:b", "arn:a"))
    other = Statement(actions=("s3:DeleteObject", "s3:GetObject"), resources=("arn:a", "arn:b"))

    assert policy_text([one]) == policy_text([other])
    assert policy_text([one]) == (
        '{"Statement":[{"Action":["s3:DeleteObject","s3:GetObject"],"Effect":"Allow","Resource":["arn:a","arn:b"]}],'
        '"Version":"2012-10-17"}'
    )


def test_condition_is_part_of_the_policy() -> None:
    condition = {"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}}
    statement = Statement(actions=("iam:PassRole",), resources=("arn:role",), condition=condition)

    assert json.loads(str(policy_text([statement])))["Statement"][0]["Condition"] == condition


@pytest.mark.parametrize(
    ("actions", "resources", "message"),
    [
        (("s3:*",), ("arn:a",), "a permission needs exact actions and resources, not ('s3:*',) on ('arn:a',)"),
        (("*",), ("arn:a",), "a permission needs exact actions and resources, not ('*',) on ('arn:a',)"),
        ((), ("arn:a",), "a permission needs exact actions and resources, not () on ('arn:a',)"),
        (("s3:GetObject",), (), "a permission needs exact actions and resources, not ('s3:GetObject',) on ()"),
        (("s3:GetObject",), ("*",), "s3:GetObject: give the reason for the resource * (and only for it)"),
    ],
)
def test_wide_permission_is_refused(actions: tuple[str, ...], resources: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Statement(actions=actions, resources=resources)

    assert caught.value.problems == (message,)


def test_reason_without_a_star_is_refused() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Statement(actions=("s3:GetObject",), resources=("arn:a",), any_resource_because="no other resource")

    assert caught.value.problems == ("s3:GetObject: give the reason for the resource * (and only for it)",)


def test_policy_that_does_not_fit_into_a_role_is_refused_also_with_unknown_resources() -> None:
    def tables(number: int) -> Statement:
        known = tuple(f"{TABLE}-{index:04d}" for index in range(number))
        return Statement(actions=("dynamodb:Query",), resources=(*known, pulumi.Output.from_input("arn:later")))

    async def problems(number: int) -> list[str]:
        return length_problems("purge", [tables(number)])

    # An Output needs an event loop to belong to.
    assert asyncio.run(problems(160)) == []
    assert asyncio.run(problems(180)) == [
        "role purge: its policy has 11101 characters, IAM takes 10240; "
        "split the step into two with half of the stores each"
    ]
