"""A deployed stack on an emulator of its own, and what the tests do with it: users, requests, executions, sights."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from handlers.core.record import Record
from handlers.core.request_table import expressions, guard_key, request_key
from handlers.core.states import Status
from handlers.core.transition import Transition, render
from infra.naming import ROLE, Naming
from infra.settings import Settings, read_settings
from infra.stack_config import stack_config
from local.demo_requests import Names, Requests
from local.demo_stores import Stores, User
from local.deploy import Deployment, deploy
from local.emulator import ROOT, Emulator
from local.resources.registry import Resources
from local.waiting import wait_until

OPEN = frozenset({Status.SCHEDULED, Status.PROCESSING})
LIMIT = 60.0
"""Seconds for one deletion; it takes one, but a machine under load needs many more."""
SETTINGS = "account-deletion:settings"


@dataclass
class Stack:
    """What was deployed, with the stores of the demo beside it."""

    emulator: Emulator
    stores: Stores
    settings: Settings
    done: Deployment
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.names = Names(self.settings, self.emulator.region)
        self.requests = Requests(self.emulator, self.done.outputs, self.names)

    def client(self, service: str) -> Any:
        return self.emulator.client(service)

    # -- people

    def sign_up(self, **sizes: int) -> User:
        """A new user with a little of everything."""
        number = next(self._numbers)
        size = {"orders": 3, "visits": 2, "files": 5, "clean_ups": 1, **sizes}
        user = User(user_id=f"user-{self.settings.environment}{number:03}", customer_id=f"8{number:05}", **size)
        self.stores.fill([user])
        return user

    def counts(self, user: User) -> dict[str, int]:
        return self.stores.listing([user]).counts(user.user_id)

    def digest(self, user: User) -> str:
        return self.stores.listing([user]).digest(user.user_id)

    def pool_user(self, user: User) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.client("cognito-idp").admin_get_user(
            UserPoolId=self.stores.pool_id, Username=user.user_id
        )
        return found

    def sub(self, user: User) -> str:
        """The identity that nobody can take again."""
        return next(str(one["Value"]) for one in self.pool_user(user)["UserAttributes"] if one["Name"] == "sub")

    # -- requests

    def ask(self, user: User, **fields: object) -> Mapping[str, Any]:
        """The request Lambda's answer."""
        event = {"user_id": user.user_id, "identifiers": {"customer_id": user.customer_id}, "grace_days": 0, **fields}
        return self.invoke("request-deletion", event)

    def started(self, user: User) -> str:
        """A request whose due event came; its id."""
        request = str(self.ask(user)["deletion_request_id"])
        self.requests.due(request)
        return request

    def ended(self, request: str) -> Record:
        """The record once the attempt that was dispatched last is over."""
        return wait_until(
            lambda: self.requests.record(request),
            lambda record: record.status not in OPEN and record.claimed == record.attempt,
            limit=LIMIT,
        )

    def item(self, request: str) -> Mapping[str, Any]:
        return self.requests.item(request)

    def guard(self, subject: str) -> Mapping[str, Any]:
        answer = self.client("dynamodb").get_item(
            TableName=self.done.outputs["request_table_name"], Key=guard_key(subject), ConsistentRead=True
        )
        item: Mapping[str, Any] = answer["Item"]
        return item

    def write(self, transition: Transition, request: str, **values: object) -> None:
        """Make a transition that no function of the stack makes yet: an operator's, or recovery's."""
        call = expressions(self.done.outputs["request_table_name"], request_key(request), render(transition), values)
        self.client("dynamodb").update_item(**call)

    def set_back(self, request: str, path: str, seconds: int) -> None:
        """As if a time in the record had been that much earlier: nobody waits for a real minute here."""
        names = {f"#n{index}": part for index, part in enumerate(path.split("."))}
        place = ".".join(names)
        self.client("dynamodb").update_item(
            TableName=self.done.outputs["request_table_name"],
            Key=request_key(request),
            UpdateExpression=f"SET {place} = {place} - :seconds",
            ExpressionAttributeNames=names,
            ExpressionAttributeValues={":seconds": {"N": str(seconds)}},
        )

    # -- functions and executions

    def invoke(self, role: str, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """A function's answer, or its error: {errorType, errorMessage}."""
        answer = self.client("lambda").invoke(
            FunctionName=f"{self.names.function(role)}:live", Payload=json.dumps(event).encode()
        )
        payload: Mapping[str, Any] = json.loads(answer["Payload"].read())
        return payload

    def execution_arn(self, request: str, attempt: int = 1) -> str:
        machine = str(self.done.outputs["state_machine_arn"])
        return f"{machine.replace(':stateMachine:', ':execution:')}:{request}-{attempt}"

    def execution(self, request: str, attempt: int = 1) -> Mapping[str, Any]:
        """What Step Functions says of an execution that is over."""
        described: Mapping[str, Any] = wait_until(
            lambda: self.client("stepfunctions").describe_execution(executionArn=self.execution_arn(request, attempt)),
            lambda answer: answer["status"] != "RUNNING",
            limit=LIMIT,
        )
        return described

    def history(self, request: str, attempt: int = 1) -> list[Mapping[str, Any]]:
        """Every event of an execution that is over, with the data that it carries."""
        self.execution(request, attempt)
        pages = self.client("stepfunctions").get_paginator("get_execution_history")
        found = pages.paginate(executionArn=self.execution_arn(request, attempt), includeExecutionData=True)
        return [event for page in found for event in page["events"]]

    def states(self, request: str, attempt: int = 1) -> list[str]:
        """The states that an execution entered, in order."""
        return [
            event["stateEnteredEventDetails"]["name"]
            for event in self.history(request, attempt)
            if "stateEnteredEventDetails" in event
        ]

    def log_lines(self) -> list[str]:
        """Every line that any function logged."""
        logs, lines = self.client("logs"), []
        for page in logs.get_paginator("describe_log_groups").paginate(logGroupNamePrefix="/aws/lambda/"):
            for group in page["logGroups"]:
                pages = logs.get_paginator("filter_log_events").paginate(logGroupName=group["logGroupName"])
                lines += [event["message"] for found in pages for event in found["events"]]
        return lines

    @contextmanager
    def slow_waits(self) -> Iterator[None]:
        """For as long as the block takes, waits take a twentieth of their time, and not none at all."""
        self.emulator.scale_waits(0.05)
        try:
            yield
        finally:
            self.emulator.scale_waits(0)

    # -- permissions

    @contextmanager
    def policy(self, role: str, document: str | None) -> Iterator[None]:
        """For as long as the block takes, a function's role has another policy, or none."""
        iam, naming = self.client("iam"), self._naming()
        name = naming.name(ROLE, role)
        before = iam.get_role_policy(RoleName=name, PolicyName=name)["PolicyDocument"]
        if document is None:
            iam.delete_role_policy(RoleName=name, PolicyName=name)
        else:
            iam.put_role_policy(RoleName=name, PolicyName=name, PolicyDocument=document)
        try:
            yield
        finally:
            iam.put_role_policy(RoleName=name, PolicyName=name, PolicyDocument=json.dumps(before))

    def policy_without(self, role: str, action: str) -> str:
        """A function's own policy, as if one action had been forgotten."""
        name = self._naming().name(ROLE, role)
        document = self.client("iam").get_role_policy(RoleName=name, PolicyName=name)["PolicyDocument"]
        for statement in document["Statement"]:
            statement["Action"] = [one for one in statement["Action"] if one != action]
        document["Statement"] = [statement for statement in document["Statement"] if statement["Action"]]
        return json.dumps(document)

    def _naming(self) -> Naming:
        platform, environment = self.settings.platform, self.settings.environment
        return Naming(prefix=platform.name_prefix, environment=environment, region=self.emulator.region)


def make_lockable_bucket(emulator: Emulator, name: str) -> None:
    """A bucket whose objects can be locked."""
    emulator.client("s3").create_bucket(
        Bucket=name,
        ObjectLockEnabledForBucket=True,
        CreateBucketConfiguration={"LocationConstraint": emulator.region},
    )


def deploy_stack(
    emulator: Emulator,
    stores: Stores,
    environment: str = "local",
    *,
    resources: Resources | None = None,
    **changed: object,
) -> Stack:
    """The program, with the settings of Pulumi.local.yaml and these changes to them; None leaves a setting out."""
    config = stack_config(ROOT, "local")
    merged = {**json.loads(config[SETTINGS]), "user_pool_id": stores.pool_id, "settle": "0 seconds", **changed}
    mapping = {name: value for name, value in merged.items() if value is not None}
    config[SETTINGS] = json.dumps(mapping)
    done = deploy(ROOT / "__main__.py", resources or Resources(emulator), config=config, stack=environment)
    return Stack(emulator, stores, read_settings(environment, mapping), done)


@contextmanager
def fresh_stack() -> Iterator[Stack]:
    """An emulator of its own, where Retry does not wait, with the stores and the stack."""
    with Emulator.start(skip_waits=True) as emulator:
        stores = Stores(emulator)
        stores.make()
        yield deploy_stack(emulator, stores)
