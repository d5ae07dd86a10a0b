"""What the demo does from outside: as an application, as the scheduler, as an operator, and as a machine that crashes.

It asks for deletions, sends due events, looks at records and executions, operates on requests, and takes away what a
deletion needs: a schedule, an execution, a permission, the process of a Lambda function.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from handlers.core.record import Record
from handlers.core.request_table import request_key
from infra.naming import FUNCTION, ROLE, Naming
from infra.settings import Settings
from local.demo_stores import User
from local.emulator import Emulator
from statemachine.frame import CANCEL_REQUEST, DISPATCH, OPERATE, SWEEP, role_of
from statemachine.step import Step

_PROC = Path("/proc")


class DemoError(Exception):
    """The demo cannot go on; the message says why. Not the verdict: that is a list of findings."""


@dataclass(frozen=True, slots=True)
class Names:
    """Physical names of the deployed parts that the stack does not export."""

    settings: Settings
    region: str

    def function(self, role: str) -> str:
        """A function's name."""
        return self._naming().name(FUNCTION, role)

    def role(self, role: str) -> str:
        """The name of a function's IAM role, and of the role's policy."""
        return self._naming().name(ROLE, role)

    def _naming(self) -> Naming:
        platform = self.settings.platform
        return Naming(prefix=platform.name_prefix, environment=self.settings.environment, region=self.region)


class Requests:
    """The deployed stack, seen from outside."""

    def __init__(self, emulator: Emulator, outputs: Mapping[str, Any], names: Names) -> None:
        self._emulator = emulator
        self._outputs = outputs
        self._names = names

    def accept(self, user: User, *, grace_days: int = 0) -> str:
        """What the application does when the button is pressed; the request's id.

        Without a grace period no schedule is made: the request Lambda makes none for what is due within two minutes.
        """
        event = {"user_id": user.user_id, "identifiers": {"customer_id": user.customer_id}, "grace_days": grace_days}
        return str(self._invoke(self._outputs["request_function_arn"], event)["deletion_request_id"])

    def due(self, request_id: str) -> Mapping[str, Any]:
        """The due event: what the schedule sends when the grace period ends, and to whom."""
        return self._call(DISPATCH, {"deletion_request_id": request_id})

    def sweep(self) -> Mapping[str, Any]:
        """One run of the sweeper, as its schedule calls it: outcome -> how many."""
        return self._call(SWEEP, {})

    def cancel(self, request_id: str) -> Mapping[str, Any]:
        """What the application does when the user keeps the account."""
        return self._call(CANCEL_REQUEST, {"deletion_request_id": request_id})

    def operate(self, operation: str, request_id: str) -> Mapping[str, Any]:
        """What an operator does to a request."""
        return self._call(OPERATE, {"operation": operation, "deletion_request_id": request_id})

    def delete_schedule(self, request_id: str) -> None:
        """Lose the schedule that was made for the request."""
        group = self._outputs["schedule_group_name"]
        self._emulator.client("scheduler").delete_schedule(GroupName=group, Name=request_id)

    def set_back(self, request_id: str, path: str, by: timedelta) -> None:
        """As if a time in the record had been that much earlier: nobody waits for it here."""
        names = {f"#n{index}": part for index, part in enumerate(path.split("."))}
        place = ".".join(names)
        self._emulator.client("dynamodb").update_item(
            TableName=self._outputs["request_table_name"],
            Key=request_key(request_id),
            UpdateExpression=f"SET {place} = {place} - :by",
            ExpressionAttributeNames=names,
            ExpressionAttributeValues={":by": {"N": str(int(by.total_seconds()))}},
        )

    def stop_execution(self, arn: str) -> None:
        """End an execution, whatever it does."""
        self._emulator.client("stepfunctions").stop_execution(executionArn=arn)

    @contextmanager
    def without_permission(self, step: Step, action: str) -> Iterator[None]:
        """For as long as the block takes, the step's role may not do that."""
        iam, name = self._emulator.client("iam"), self._names.role(role_of(step))
        policy = iam.get_role_policy(RoleName=name, PolicyName=name)["PolicyDocument"]
        iam.put_role_policy(RoleName=name, PolicyName=name, PolicyDocument=json.dumps(_denying(policy, action)))
        try:
            yield
        finally:
            iam.put_role_policy(RoleName=name, PolicyName=name, PolicyDocument=json.dumps(policy))

    def item(self, request_id: str) -> Mapping[str, Any]:
        """The request's item as it stands now."""
        answer = self._emulator.client("dynamodb").get_item(
            TableName=self._outputs["request_table_name"],
            Key=request_key(request_id),
            ConsistentRead=True,
        )
        item: Mapping[str, Any] = answer["Item"]
        return item

    def record(self, request_id: str) -> Record:
        """The same, as a typed value."""
        return Record.of(self.item(request_id))

    def executions(self, request_id: str) -> list[str]:
        """Names of all executions that were ever started for the request."""
        return self._executions(request_id)

    def running(self, request_id: str) -> list[str]:
        """Names of its executions that have not ended."""
        return self._executions(request_id, statusFilter="RUNNING")

    @contextmanager
    def frozen(self, step: Step) -> Iterator[list[int]]:
        """The processes that run the step's function, stopped for as long as the block takes."""
        processes = self._processes(self._names.function(role_of(step)))
        try:
            _signal(processes, signal.SIGSTOP)
            yield processes
        finally:
            _signal(processes, signal.SIGCONT)

    def kill_if(self, step: Step, holds: Callable[[], object]) -> list[int]:
        """Stop the step's processes, look whether it holds, and then end them at once; else let them go on.

        What was killed; empty when nothing was.
        """
        with self.frozen(step) as processes:
            if not processes or not holds():
                return []
            _signal(processes, signal.SIGKILL)
            return processes

    def kill(self, role: str) -> list[int]:
        """End the processes of a function at once, whatever they do; which they were."""
        processes = self._processes(self._names.function(role))
        _signal(processes, signal.SIGKILL)
        return processes

    def scale_waits(self, factor: float) -> None:
        """From now on waits of the state machine take this part of their time."""
        self._emulator.scale_waits(factor)

    def _executions(self, request_id: str, **chosen: str) -> list[str]:
        pages = self._emulator.client("stepfunctions").get_paginator("list_executions")
        found = (
            execution["name"]
            for page in pages.paginate(stateMachineArn=self._outputs["state_machine_arn"], **chosen)
            for execution in page["executions"]
        )
        return sorted(name for name in found if name.startswith(request_id))

    def _call(self, role: str, event: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._invoke(f"{self._names.function(role)}:live", event)

    def _invoke(self, function: str, event: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = self._emulator.client("lambda").invoke(FunctionName=function, Payload=json.dumps(event).encode())
        payload: Mapping[str, Any] = json.loads(answer["Payload"].read())
        if "FunctionError" in answer:
            raise DemoError(f"{function.rpartition(':function:')[2]} failed: {payload.get('errorType')}")
        return payload

    def _processes(self, function: str) -> list[int]:
        """Lambda workers are in the emulator's process group, and know in their environment whose they are."""
        mark = f"AWS_LAMBDA_FUNCTION_NAME={function}"
        return [pid for pid, environment in _environments(self._emulator.address.pid) if mark in environment]


def _denying(policy: Mapping[str, Any], action: str) -> Mapping[str, Any]:
    denied = {"Effect": "Deny", "Action": action, "Resource": "*"}
    return {**policy, "Statement": [*policy["Statement"], denied]}


def _environments(group: int) -> Iterator[tuple[int, list[str]]]:
    if (_PROC / "self" / "environ").exists():
        for directory in _PROC.glob("[0-9]*"):
            # Processes come and go meanwhile, and those of others cannot be read.
            with suppress(OSError):
                if os.getpgid(int(directory.name)) == group:
                    yield int(directory.name), (directory / "environ").read_text(errors="replace").split("\0")
        return
    # macOS has no /proc; its ps shows the environment behind the command.
    command = ["ps", "-A", "-E", "-ww", "-o", "pid=,command="]
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        pid, *words = line.split()
        with suppress(ProcessLookupError):
            if os.getpgid(int(pid)) == group:
                yield int(pid), words


def _signal(processes: list[int], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)
