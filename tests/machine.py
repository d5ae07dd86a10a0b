"""Runs the rendered state machine with the real handlers over moto, in this process, without time passing.

`Machine.execute` is one execution: the graph by sfnx, direct DynamoDB tasks by boto3, Lambda tasks by the handler that
the function's specification names, with the environment that infra gives it. Crashes are injected from outside:
`before` and `after` see each call of the graph and may raise.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from threading import RLock
from typing import Any

from botocore.exceptions import ClientError
from sfnx.testing import Call, Execution, Failure, run

from handlers.core import settings
from handlers.core.stores import to_json
from statemachine import asl
from statemachine.frame import role_of
from statemachine.functions import FunctionSpec, function_specs
from statemachine.plan import Plan
from statemachine.step import Value
from tests import wire
from tests import world as worlds
from tests.world import Context, World

Hook = Callable[[Call, int], None]


class Killed(BaseException):
    """The execution is aborted at this point, as by StopExecution or a crash of the service."""


def nothing(call: Call, number: int) -> None:
    """No fault."""


def at(state: str, error: BaseException, *, number: int = 1) -> Hook:
    """Raise at the n-th call of a state."""

    def hook(call: Call, count: int) -> None:
        if call.state == state and count == number:
            raise error

    return hook


@dataclass
class Machine:
    """One deployment of a plan in a world."""

    world: World
    plan: Plan
    settle: int = 0
    """Seconds."""
    context: Context = field(default_factory=Context)
    invocations: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    """Role and event of each Lambda invocation, in order."""

    def __post_init__(self) -> None:
        self.specs = {spec.role: spec for spec in function_specs(self.plan)}
        self.arns = {role: worlds.function_arn(role) for role in self.specs}
        deployment = asl.Deployment(request_table=worlds.TABLE, functions=self.arns)
        self.definition = asl.to_json(asl.render(self.plan, deployment))
        self.values = self._values()
        self._lock = RLock()
        self.world.wire.before("Invoke", self._answer, times=1000)

    def arn(self, request: str, attempt: int) -> str:
        """ARN of an execution."""
        return f"arn:aws:states:{worlds.REGION}:{worlds.ACCOUNT}:execution:deletion:{request}-{attempt}"

    def execute(
        self, request: str, attempt: int | None = None, *, before: Hook = nothing, after: Hook = nothing
    ) -> Execution:
        """Run one execution to its end; by default the one of the request's last dispatch."""
        attempt = attempt or int(self.world.record(request)["attempt"])
        text = self.definition.replace("$states.context.Execution.Id", f"'{self.arn(request, attempt)}'")
        counted: dict[str, int] = {}

        def task(call: Call) -> object:
            number = counted[call.state] = counted.get(call.state, 0) + 1
            before(call, number)
            answer = self._call(call)
            after(call, number)
            return answer

        clock = {"millis": lambda: self.world.now * 1000}
        event = {"deletion_request_id": request, "attempt": attempt}
        return run(json.loads(text), event, task, functions=clock, on_wait=self._wait)

    def accept(self, user: str, customer: str, **fields: object) -> str:
        """Ask for a deletion through the function; the request's id."""
        event = {"user_id": user, "identifiers": {"customer_id": customer}, **fields}
        return str(self.invoke("request-deletion", event)["deletion_request_id"])

    def dispatched(self, user: str = worlds.USER, customer: str = worlds.CUSTOMER) -> str:
        """A request whose first execution may claim it; its id."""
        request = self.world.accept(user, customer)
        self.world.dispatch(request)
        return request

    def retry(self, request: str) -> Execution:
        """Let a RETRYABLE request's time come, dispatch it again and run its execution."""
        self.world.now = int(self.world.record(request)["due_at"])
        self.world.dispatch(request)
        return self.execute(request)

    def _wait(self, wait: Any) -> None:
        self.world.now += wait.seconds

    def _call(self, call: Call) -> object:
        arguments: Any = call.arguments
        if call.resource.endswith(":lambda:invoke"):
            role = next(role for role, arn in self.arns.items() if arn == arguments["FunctionName"])
            return {"StatusCode": 200, "Payload": self.invoke(role, arguments["Payload"])}
        client = self.world.dynamodb
        operation = client.get_item if call.resource.endswith(":getItem") else client.update_item
        try:
            answer = operation(**arguments)
        except ClientError as error:
            raise Failure(f"DynamoDB.{error.response['Error']['Code']}") from error
        return {name: value for name, value in answer.items() if name != "ResponseMetadata"}

    def invoke(self, role: str, event: Mapping[str, Any]) -> Any:
        """Invoke a function as Lambda does: own environment, JSON in and out, only class and message of an error."""
        with self._environment(self.specs[role]), wire.acting_as(role):
            self.invocations.append((role, event))
            module, _, name = self.specs[role].handler.rpartition(".")
            handler = getattr(import_module(module), name)
            try:
                return json.loads(json.dumps(handler(json.loads(json.dumps(event)), self.context)))
            except Exception as error:
                raise Failure(type(error).__name__, str(error)) from error

    def _answer(self, call: wire.Call) -> Any:
        """Lambda's Invoke, called by a handler from several threads; they share this process' environment."""
        role = call.params["FunctionName"].split(":")[6]
        try:
            with self._lock:
                payload = self.invoke(role, json.loads(call.params["Payload"]))
        except Failure as failure:
            body = {"errorType": failure.error, "errorMessage": failure.cause}
            return wire.invoked(body, FunctionError="Unhandled")(call)
        return wire.invoked(payload)(call)

    @contextmanager
    def _environment(self, spec: FunctionSpec) -> Iterator[None]:
        before = dict(os.environ)
        os.environ.update(self.variables(spec))
        settings.load.cache_clear()
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)
            settings.load.cache_clear()

    def variables(self, spec: FunctionSpec) -> dict[str, str]:
        found = {}
        for name, value in spec.environment.items():
            if not isinstance(value, Value):
                found[name] = value
            elif value.name in self.values:
                found[name] = self.values[value.name]
            else:
                assert value.optional, f"{spec.role}: no value {value.name}"
        return found

    def _values(self) -> dict[str, str]:
        erasing = {step.name: self.arns[role_of(step)] for step in self.plan.steps if step.erases}
        checked = {step.name: self.arns[role_of(step)] for step in self.plan.checked_steps}
        return {
            "request_table": worlds.TABLE,
            "metrics_namespace": "AccountDeletion/acme-test",
            "erasing_functions": json.dumps(erasing),
            "checked_functions": json.dumps(checked),
            "record_stores": to_json(worlds.RECORD_STORES),
            "file_stores": to_json(worlds.FILE_STORES),
            "user_pool_id": self.world.pool,
            "settle": str(self.settle),
            "state_machine_arn": self.world.machine,
            "due_index": "due",
            **self._request_values(),
        }

    def _request_values(self) -> dict[str, str]:
        day = 86_400
        return {
            "realm": "test",
            "hmac_key_id": self.world.key,
            "identifiers": '["customer_id"]',
            "grace_default": str(30 * day),
            "grace_minimum": "0",
            "grace_maximum": str(35 * day),
            "erase_within": str(45 * day),
            "schedule_group": "deletions",
            "schedule_role_arn": f"arn:aws:iam::{worlds.ACCOUNT}:role/schedule",
            "dispatch_arn": self.arns["dispatch"],
            "schedule_dead_letters_arn": f"arn:aws:sqs:{worlds.REGION}:{worlds.ACCOUNT}:schedule-dead-letters",
        }
