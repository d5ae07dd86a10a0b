"""What the tests of lost, killed and disturbed requests share: where to stop an execution, and what must hold after it.

`Faults.asleep_before` deploys a copy of the definition in which an execution waits before one state, so each state is
reached for certain. `Faults.holds` looks at a request that is over, with all that was there before it, and asserts I1
to I8.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from handlers.core.record import Record
from handlers.core.states import VERIFY_STEP, Status
from local.demo_stores import NOBODY, Listing, Stores, User
from local.emulator import Emulator
from local.waiting import wait_until
from statemachine import asl
from statemachine.deletion import SUSPEND_IDENTITY, steps, workflow
from statemachine.frame import role_of
from statemachine.functions import function_specs
from statemachine.rendering import is_done_name, wait_name
from statemachine.step import Step
from statemachine.tasks import literal
from tests.emulator.stack import LIMIT, Stack, deploy_stack
from tests.emulator.test_deletion import NOTHING, deleted
from tests.emulator.test_recovery import stop_the_clock, sweep
from tests.faults.tap import Tap, TappedResources

HOUR = 3_600
ENDED = frozenset({Status.COMPLETED, Status.CANCELLED, Status.FAILED})
MODIFIED = "UserLastModifiedDate"
"""What a suspension and its undo change of a pool user for good."""
LATE = (
    *((role_of(step), step.name) for step in steps(identity=True)),
    ("undo-suspend-identity", "SuspendIdentity"),
    ("verify-erasure", VERIFY_STEP),
    ("complete-deletion", "CompleteDeletion"),
    ("cancel-deletion", "CancelDeletion"),
)
"""Functions that a late worker may still run, and the step that it names."""
LONG_AGO = 2 * int(SUSPEND_IDENTITY.timeout.total_seconds())
"""Seconds after which the suspension's Lambda must be dead, so that its undo may begin."""
_PERSONAL_FORMS = ("@example.com", "users/", "CUSTOMER#")
_WAITS = "WaitsForTheTestBefore"


WORKFLOW = workflow(identity=True)
SETTLE_WAIT = wait_name(SUSPEND_IDENTITY)
"""Where a deletion waits until issued tokens have expired; on the way only where a stack settles."""
_SIGNED_OUT = "steps.SuspendIdentity.batch.signed_out_at"


def every_state() -> Mapping[str, Mapping[str, Any]]:
    """All states of the rendered definition."""
    functions = {spec.role: f"arn:aws:lambda:x:0:function:{spec.role}:live" for spec in function_specs(WORKFLOW)}
    machine = asl.render(WORKFLOW, asl.Deployment(request_table="deletions", functions=functions))
    states: Mapping[str, Mapping[str, Any]] = machine["States"]
    return states


def happy_path(*, tasks_only: bool = False) -> tuple[str, ...]:
    """The states that a request passes when nothing goes wrong, as the rendered definition has them.

    tasks_only: without the choices, at which the record is as the state before left it.
    """
    states = every_state()
    path: list[str] = []
    name: str | None = "Claim"
    while name:
        state = states[name]
        if state["Type"] != "Choice" or not tasks_only:
            path.append(name)
        # Route's rules are for what went wrong; of any other choice the first rule goes on.
        ways = [state] if name == "Route" else [*state.get("Choices", ()), state]
        name = ways[0].get("Next") or ways[0].get("Default")
    return tuple(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """A new user, and the world before the request."""

    user: User
    sub: str
    everything: Listing
    """All that was in the stores, the user's and everybody else's."""
    since: int
    """Epoch milliseconds: log lines before are of other tests."""

    def secrets(self) -> tuple[str, ...]:
        """What may appear nowhere."""
        return (self.user.user_id, self.user.customer_id, self.sub)


class Faults:
    """A deployed stack whose functions, executions and events can be disturbed; its sweeper has no clock."""

    def __init__(self, stack: Stack, tap: Tap) -> None:
        self.stack = stack
        self.tap = tap
        states = stack.client("stepfunctions")
        self._activity = str(states.create_activity(name=f"gate-{stack.settings.environment}")["activityArn"])
        self._machine = str(stack.done.outputs["state_machine_arn"])
        self._deployed = str(states.describe_state_machine(stateMachineArn=self._machine)["definition"])

    # -- worlds

    def new_user(self, **sizes: int) -> Before:
        """A user of a test's own."""
        user = self.stack.sign_up(**sizes)
        return Before(
            user=user,
            sub=self.stack.sub(user),
            everything=self.stack.stores.listing([user]),
            since=int(time.time() * 1000),
        )

    def now(self, before: Before) -> Listing:
        """All that is in the stores now."""
        return self.stack.stores.listing([before.user])

    # -- executions that wait

    @contextmanager
    def asleep_before(
        self, state: str, start: Callable[[], object], *, then: str | None = None, graph: str | None = None
    ) -> Iterator[None]:
        """Start an execution that waits before that state for as long as the block takes, then goes on.

        then: a state before which it waits once more, for a block of `still_asleep`.
        graph: another definition than the one that is deployed.
        """
        self._deploy(_waiting_before([state, then] if then else [state], graph or self._deployed, self._activity))
        try:
            start()
            token = self._token()
        finally:
            # Whatever is started from now on does not wait.
            self._deploy(self._deployed)
        with self._awake_after(token):
            yield

    @contextmanager
    def still_asleep(self) -> Iterator[None]:
        """The second wait of an execution that waits twice."""
        with self._awake_after(self._token()):
            yield

    def lacking(self, step: Step) -> str:
        """The definition as it was before that step was put into the list."""
        machine = json.loads(self._deployed)
        del machine["States"][step.name]
        following = machine["States"].pop(is_done_name(step))["Choices"][0]["Next"]
        for way in _ways(machine):
            way.update({field: following for field in ("Next", "Default") if way.get(field) == step.name})
        # The lists of its own steps, by which it knows what is of a later graph.
        return json.dumps(machine).replace(f", {literal(step.name)}", "")

    @contextmanager
    def _awake_after(self, token: str) -> Iterator[None]:
        try:
            yield
        finally:
            self.stack.client("stepfunctions").send_task_success(taskToken=token, output="{}")

    def _token(self) -> str:
        return str(wait_until(self._waiting, limit=LIMIT))

    def _waiting(self) -> object:
        answer = self.stack.client("stepfunctions").get_activity_task(activityArn=self._activity)
        return answer.get("taskToken")

    def _deploy(self, text: str) -> None:
        self.stack.client("stepfunctions").update_state_machine(stateMachineArn=self._machine, definition=text)

    # -- what happens to an execution or a request

    def stop(self, request: str, attempt: int = 1) -> None:
        """End an execution as an operator might."""
        self.stack.client("stepfunctions").stop_execution(executionArn=self.stack.execution_arn(request, attempt))

    def status_event(self, request: str, attempt: int, status: str = "ABORTED") -> Mapping[str, Any]:
        """What EventBridge says of an execution that ended."""
        name = f"{request}-{attempt}"
        detail = {"executionArn": self.stack.execution_arn(request, attempt), "name": name, "status": status}
        return {"source": "aws.states", "detail-type": "Step Functions Execution Status Change", "detail": detail}

    def operate(self, operation: str, request: str) -> str:
        """What an operator asks for: the status afterwards, or the name of the error."""
        answer = self.stack.invoke("operate", {"operation": operation, "deletion_request_id": request})
        return str(answer.get("errorType", answer.get("status")))

    def suspended_and_held(self, before: Before) -> str:
        """A request of a user whose suspension is done, and of whom nothing is erased; its id."""
        request = str(self.stack.ask(before.user)["deletion_request_id"])
        with self.asleep_before("DeleteRecords", lambda: self.stack.requests.due(request)):
            assert self.operate("hold", request) == "HELD"
        self.quiet(request)
        assert self.stack.requests.record(request).step("SuspendIdentity").status == "DONE"
        assert not self.stack.stores.can_sign_in(before.user)
        return request

    def suspended_long_ago(self, request: str) -> None:
        """The suspension's Lambda must be dead, so an undo of it may begin."""
        self.stack.set_back(request, "steps.SuspendIdentity.begun_at", LONG_AGO)

    def tokens_expire(self, request: str) -> None:
        """The settle time passes."""
        self.stack.set_back(request, _SIGNED_OUT, HOUR)

    def becomes_due(self, request: str) -> Mapping[str, Any]:
        """An hour passes, and the sweeper runs."""
        self.stack.set_back(request, "due_at", HOUR)
        return sweep(self.stack)

    def ended(self, request: str, attempt: int = 1) -> Record:
        """The record once that attempt is over, and none runs."""
        return wait_until(
            lambda: self.stack.requests.record(request),
            lambda record: record.status in ENDED and record.attempt >= attempt,
            limit=LIMIT,
            every=0.1,
        )

    def quiet(self, request: str) -> None:
        """Wait until no execution of the request runs."""
        wait_until(lambda: self.stack.requests.running(request), lambda running: not running, limit=LIMIT)

    # -- what must hold

    def holds(self, before: Before, request: str, *, attempts: int, failures: int) -> None:
        """I1 to I8 of a request that ended, or is held."""
        self.quiet(request)
        record = self.stack.requests.record(request)
        assert (record.attempt, record.failures) == (attempts, failures), record
        self._others_keep_everything(before)
        self._the_user_has_what_the_status_says(before, record)
        self._one_execution_ended_it(record)
        self._nothing_personal_is_to_be_seen(before, record)
        self._whoever_wakes_up_changes_nothing(before, record)

    def _others_keep_everything(self, before: Before) -> None:
        assert before.everything.changes(self.now(before), NOBODY) == []

    def _the_user_has_what_the_status_says(self, before: Before, record: Record) -> None:
        now, user = self.now(before), before.user.user_id
        if record.status is Status.COMPLETED:
            assert now.counts(user) == NOTHING
            assert deleted(self.stack, record.deletion_request_id) == before.user.expected()
            last = max(step.begun_at for name, step in record.steps.items() if name != VERIFY_STEP)
            assert record.step(VERIFY_STEP).begun_at >= last
            assert {step.status for step in record.steps.values()} == {"DONE"}
        elif record.status in ENDED and "pivot_at" not in record.attributes:
            # Also the sign-in: it is part of what is listed.
            assert before.everything.changes(now, user, but_for=MODIFIED) == []
            assert deleted(self.stack, record.deletion_request_id) == {}

    def _one_execution_ended_it(self, record: Record) -> None:
        request = record.deletion_request_id
        executions = self.stack.requests.executions(request)
        attempts = [int(name.rpartition("-")[2]) for name in executions]
        last_states = {attempt: self.stack.states(request, attempt)[-1:] for attempt in attempts}
        enders = [attempt for attempt, last in last_states.items() if last in (["Deleted"], ["Cancelled"])]
        assert len(enders) <= 1, last_states
        assert set(enders) <= {record.claimed}
        assert len(attempts) <= record.attempt <= record.attempt_base + WORKFLOW.max_dispatches
        assert record.owner == ""
        if record.status is Status.COMPLETED:
            assert record.attributes["completed_by"] == self.stack.execution_arn(request, record.claimed)
        guard = self.stack.guard(record.subject)
        is_open = record.status not in {Status.COMPLETED, Status.CANCELLED}
        assert guard.get("active_request") == ({"S": request} if is_open else None)
        assert guard.get("completed_request") == ({"S": request} if record.status is Status.COMPLETED else None)

    def _nothing_personal_is_to_be_seen(self, before: Before, record: Record) -> None:
        seen = [*self._executions_as_seen(record), *self._log_lines(before.since), *self._dead_letters()]
        if record.status in {Status.COMPLETED, Status.CANCELLED}:
            seen += [json.dumps(self.stack.item(record.deletion_request_id))]
        found = [text for text in seen for secret in before.secrets() if _shows(secret, text)]
        assert found == []
        assert [text for text in seen for form in _PERSONAL_FORMS if form in text] == []

    def _executions_as_seen(self, record: Record) -> Iterator[str]:
        for name in self.stack.requests.executions(record.deletion_request_id):
            attempt = int(name.rpartition("-")[2])
            yield json.dumps(self.stack.execution(record.deletion_request_id, attempt), default=str)
            yield json.dumps(self.stack.history(record.deletion_request_id, attempt), default=str)

    def _log_lines(self, since: int) -> Iterator[str]:
        logs = self.stack.client("logs")
        for group in logs.describe_log_groups(logGroupNamePrefix="/aws/lambda/")["logGroups"]:
            pages = logs.get_paginator("filter_log_events").paginate(
                logGroupName=group["logGroupName"], startTime=since
            )
            yield from (event["message"] for page in pages for event in page["events"])

    def _dead_letters(self) -> Iterator[str]:
        for queue in self.stack.done.outputs["dead_letter_queue_urls"].values():
            answer = self.stack.client("sqs").receive_message(
                QueueUrl=queue, MaxNumberOfMessages=10, VisibilityTimeout=0, MessageAttributeNames=["All"]
            )
            yield from (json.dumps(message) for message in answer.get("Messages", ()))

    def _whoever_wakes_up_changes_nothing(self, before: Before, record: Record) -> None:
        """The user registers again under the same names; then every worker, event and starter comes once more."""
        request, user = record.deletion_request_id, before.user
        if record.status is Status.COMPLETED:
            self.stack.stores.fill([user])
        item, there = self.stack.item(request), self.now(before)
        for name in self.stack.requests.executions(request):
            attempt = int(name.rpartition("-")[2])
            for role, step in LATE:
                event = {"deletion_request_id": request, "owner": self.stack.execution_arn(request, attempt)}
                self.stack.invoke(role, {**event, "step": step})
            self.stack.invoke("recover", self.status_event(request, attempt))
        self.stack.requests.due(request)
        sweep(self.stack)
        assert self.stack.item(request) == item
        assert there.changes(self.now(before), user.user_id) == []
        self._others_keep_everything(before)


@contextmanager
def faulty_stack() -> Iterator[Faults]:
    """An emulator of its own, where nothing waits, with a tap between the functions and their services."""
    with Emulator.start(skip_waits=True) as emulator:
        stores = Stores(emulator)
        stores.make()
        tap = Tap(emulator)
        try:
            stack = deploy_stack(emulator, stores, resources=TappedResources(emulator, tap))
            stop_the_clock(stack)
            yield Faults(stack, tap)
        finally:
            tap.close()


def settling(faults: Faults) -> Faults:
    """Another stack beside that one, whose deletions wait for an hour until issued tokens have expired."""
    stack = deploy_stack(faults.stack.emulator, faults.stack.stores, "settles", settle="1 hour")
    stop_the_clock(stack)
    return Faults(stack, faults.tap)


def _waiting_before(states: Sequence[str], definition: str, activity: str) -> str:
    machine = json.loads(definition)
    for state in states:
        assert state in machine["States"], f"no state is called {state}"
        waits = f"{_WAITS}{state}"
        for way in _ways(machine):
            way.update({field: waits for field in ("Next", "Default", "StartAt") if way.get(field) == state})
        machine["States"][waits] = {
            "Type": "Task",
            "Resource": activity,
            "Output": "{% $states.input %}",
            "Next": state,
        }
    return json.dumps(machine)


def _ways(machine: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield machine
    for state in machine["States"].values():
        yield state
        yield from state.get("Choices", ())
        yield from state.get("Catch", ())


def _shows(secret: str, text: str) -> bool:
    """Whether it is there as a word: six digits alone are also in times and other numbers."""
    return re.search(rf"(?<![\w.]){re.escape(secret)}(?![\w.])", text) is not None
