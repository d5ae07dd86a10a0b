"""Every Lambda function of a deployment as a value: handler, timeout, environment and permissions.

infra builds what stands here and adds nothing of its own, so what a function may do and what it is told can be read
and tested without Pulumi.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from statemachine.frame import (
    CANCEL,
    CANCEL_REQUEST,
    CHECK,
    COMPLETE,
    DISPATCH,
    HANDLERS,
    OPERATE,
    RECOVER,
    REQUEST,
    SWEEP,
    VERIFY,
    role_of,
    undo_role_of,
)
from statemachine.plan import Plan
from statemachine.step import Allow, Compensation, Step, Value, path_of

_TABLE_ENVIRONMENT: Mapping[str, str | Value] = {"REQUEST_TABLE": Value("request_table")}
_TABLE = Value("request_table_arn")
_KEEP: Mapping[str, str | Value] = {"KEEP_REQUESTS": Value("keep_requests", optional=True)}
_GROUP: Mapping[str, str | Value] = {"SCHEDULE_GROUP": Value("schedule_group")}
_SCHEDULES: Mapping[str, str | Value] = {
    **_GROUP,
    "SCHEDULE_ROLE_ARN": Value("schedule_role_arn"),
    "SCHEDULE_TARGET_ARN": Value("dispatch_arn"),
    "SCHEDULE_DEAD_LETTERS_ARN": Value("schedule_dead_letters_arn"),
}
_SUBJECTS: Mapping[str, str | Value] = {"REALM": Value("realm"), "HMAC_KEY_ID": Value("hmac_key_id")}
_MAKE_SUBJECT = Allow("kms:GenerateMac", on=Value("hmac_key_arn"))
_READ_AND_UPDATE = Allow(("dynamodb:GetItem", "dynamodb:UpdateItem"), on=_TABLE)
_DELETE_SCHEDULE = Allow("scheduler:DeleteSchedule", on=Value("schedule_arns"))
_MAKE_SCHEDULE = (
    Allow("scheduler:CreateSchedule", on=Value("schedule_arns")),
    Allow(
        "iam:PassRole",
        on=Value("schedule_role_arn"),
        condition={"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}},
        reason="CreateSchedule hands this role to the scheduler",
    ),
)
_START = Allow("states:StartExecution", on=Value("state_machine_arn"))
_TELEMETRY: Mapping[str, str | Value] = {"POWERTOOLS_METRICS_NAMESPACE": Value("metrics_namespace")}
CHECK_MARGIN = timedelta(seconds=20)
"""By how much the check of all stores outlasts the check of one step's: the call, its answer, and a start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asynchronous:
    """How Lambda delivers an event whose sender does not wait."""

    retries: int = 2
    """Further calls after the first, 0 to 2."""
    max_age: timedelta = timedelta(hours=6)
    """How long an event is worth delivering, 60 s to 6 h."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSpec:
    """One Lambda function."""

    role: str
    """What it is for, in kebab case; the last part of its physical name and of its IAM role's."""
    handler: str
    """Dotted path of the handler, as Lambda takes it."""
    timeout: timedelta
    memory: int = 256
    """MB."""
    environment: Mapping[str, str | Value] = field(default_factory=dict)
    allow: tuple[Allow, ...] = ()
    network: bool = False
    asynchronous: Asynchronous | None = None
    """How its events are delivered if somebody invokes it without waiting; then it has a dead-letter queue."""


def function_specs(plan: Plan) -> tuple[FunctionSpec, ...]:
    """All functions of a deployment of this plan."""
    steps = [_step(step, plan) for step in plan.steps]
    undos = [_undo(step, step.compensation, plan) for step in plan.steps if step.compensation]
    check = (_check(plan),) if plan.checked_steps else ()
    frame = (*check, _verify(plan), _complete(plan), _cancel())
    callers = (_request(plan), _cancel_request(plan), _operate(plan))
    specs = (*callers, _dispatch(plan), _sweep(plan), _recover(plan), *steps, *undos, *frame)
    return tuple(replace(spec, environment={**spec.environment, **_TELEMETRY}) for spec in specs)


def _seconds(duration: timedelta) -> str:
    return str(int(duration.total_seconds()))


def _step(step: Step, plan: Plan) -> FunctionSpec:
    undo = step.compensation
    own: dict[str, str | Value] = {
        "LEASE": _seconds(plan.lease),
        "STEP": step.name,
        "STEP_KIND": str(step.kind),
        "STEP_ERASES": "true" if step.erases else "false",
        "STEP_TIMEOUT": _seconds(step.timeout),
        "UNDO_TIMEOUT": _seconds(undo.timeout) if undo else "0",
        "STEP_VERIFY": path_of(step.verify) if step.verify else "",
        "STEP_PREFLIGHT": path_of(step.preflight) if step.preflight else "",
        "PATIENCE": _seconds(step.patience),
    }
    is_asked = step.erases or step.preflight is not None
    actions = ("dynamodb:UpdateItem", "dynamodb:GetItem") if is_asked else ("dynamodb:UpdateItem",)
    return FunctionSpec(
        role=role_of(step),
        handler=path_of(step.handler),
        timeout=step.timeout,
        memory=step.function.memory,
        environment={**step.function.environment, **_TABLE_ENVIRONMENT, **own},
        allow=(Allow(actions, on=_TABLE), *step.allow),
        network=step.function.network,
    )


def _undo(step: Step, undo: Compensation, plan: Plan) -> FunctionSpec:
    return FunctionSpec(
        role=undo_role_of(step),
        handler=path_of(undo.handler),
        timeout=undo.timeout,
        memory=undo.function.memory,
        environment={
            **undo.function.environment,
            **_TABLE_ENVIRONMENT,
            "LEASE": _seconds(plan.lease),
            "STEP_TIMEOUT": _seconds(step.timeout),
        },
        allow=(Allow("dynamodb:UpdateItem", on=_TABLE), *undo.allow),
        network=undo.function.network,
    )


def _check(plan: Plan) -> FunctionSpec:
    return FunctionSpec(
        role=CHECK,
        handler=path_of(HANDLERS[CHECK]),
        timeout=plan.frame_timeout,
        environment={
            "CHECKED_FUNCTIONS": Value("checked_functions"),
            "LONGEST_CHECK": _seconds(plan.frame_timeout - CHECK_MARGIN),
        },
        allow=(Allow("lambda:InvokeFunction", on=Value("checked_function_arns")),),
    )


def _verify(plan: Plan) -> FunctionSpec:
    longest = max((step.timeout for step in plan.steps if step.erases), default=timedelta(0))
    return FunctionSpec(
        role=VERIFY,
        handler=path_of(HANDLERS[VERIFY]),
        timeout=plan.verify_timeout,
        environment={
            **_TABLE_ENVIRONMENT,
            "LEASE": _seconds(plan.lease),
            "ERASING_FUNCTIONS": Value("erasing_functions"),
            "LONGEST_LISTING": _seconds(longest),
        },
        allow=(
            Allow("dynamodb:UpdateItem", on=_TABLE),
            Allow("lambda:InvokeFunction", on=Value("erasing_function_arns")),
        ),
    )


def _complete(plan: Plan) -> FunctionSpec:
    return FunctionSpec(
        role=COMPLETE,
        handler=path_of(HANDLERS[COMPLETE]),
        timeout=plan.frame_timeout,
        environment={
            **_TABLE_ENVIRONMENT,
            **_KEEP,
            "DEPLOYED_STEPS": json.dumps([step.name for step in plan.steps]),
        },
        allow=(_READ_AND_UPDATE,),
    )


def _cancel() -> FunctionSpec:
    return FunctionSpec(
        role=CANCEL,
        handler=path_of(HANDLERS[CANCEL]),
        timeout=timedelta(seconds=60),
        environment={**_TABLE_ENVIRONMENT, **_KEEP},
        allow=(_READ_AND_UPDATE,),
    )


def _request(plan: Plan) -> FunctionSpec:
    return FunctionSpec(
        role=REQUEST,
        handler=path_of(HANDLERS[REQUEST]),
        timeout=timedelta(seconds=60),
        environment={
            **_TABLE_ENVIRONMENT,
            **_SUBJECTS,
            "IDENTIFIERS": Value("identifiers"),
            "USER_POOL_ID": Value("user_pool_id", optional=True),
            "GRACE_DEFAULT": Value("grace_default"),
            "GRACE_MINIMUM": Value("grace_minimum"),
            "GRACE_MAXIMUM": Value("grace_maximum"),
            "ERASE_WITHIN": Value("erase_within"),
            "ATTEMPT_WORST_CASE": _seconds(plan.longest),
            **_SCHEDULES,
        },
        allow=(
            Allow(("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"), on=_TABLE),
            _MAKE_SUBJECT,
            Allow(("cognito-idp:AdminGetUser", "cognito-idp:ListUsers"), on=Value("user_pool_arn", optional=True)),
            *_MAKE_SCHEDULE,
        ),
    )


def _cancel_request(plan: Plan) -> FunctionSpec:
    return FunctionSpec(
        role=CANCEL_REQUEST,
        handler=path_of(HANDLERS[CANCEL_REQUEST]),
        timeout=timedelta(seconds=60),
        environment={**_dispatch_environment(plan), **_GROUP, **_KEEP},
        allow=(
            _READ_AND_UPDATE,
            _DELETE_SCHEDULE,
            _START,
        ),
    )


def _operate(plan: Plan) -> FunctionSpec:
    return FunctionSpec(
        role=OPERATE,
        handler=path_of(HANDLERS[OPERATE]),
        timeout=timedelta(seconds=60),
        environment={**_dispatch_environment(plan), **_SUBJECTS, **_SCHEDULES, **_KEEP},
        allow=(
            Allow(("dynamodb:ConditionCheckItem", "dynamodb:GetItem", "dynamodb:UpdateItem"), on=_TABLE),
            _DELETE_SCHEDULE,
            _MAKE_SUBJECT,
            *_MAKE_SCHEDULE,
            _START,
        ),
    )


def _dispatch(plan: Plan) -> FunctionSpec:
    return FunctionSpec(
        role=DISPATCH,
        handler=path_of(HANDLERS[DISPATCH]),
        timeout=timedelta(seconds=60),
        environment=_dispatch_environment(plan),
        allow=(
            _READ_AND_UPDATE,
            _START,
        ),
        asynchronous=Asynchronous(),
    )


def _dispatch_environment(plan: Plan) -> Mapping[str, str | Value]:
    return {
        **_TABLE_ENVIRONMENT,
        "STATE_MACHINE_ARN": Value("state_machine_arn"),
        "DISPATCH_VISIBILITY": _seconds(plan.dispatch_visibility),
        "MAX_DISPATCHES": str(plan.max_dispatches),
    }


def _recover_environment(plan: Plan) -> Mapping[str, str | Value]:
    return {
        **_TABLE_ENVIRONMENT,
        "BACKOFF": _seconds(plan.backoff),
        "BACKOFF_LIMIT": _seconds(plan.backoff_limit),
    }


def _recover(plan: Plan) -> FunctionSpec:
    return FunctionSpec(
        role=RECOVER,
        handler=path_of(HANDLERS[RECOVER]),
        timeout=timedelta(seconds=60),
        environment={**_dispatch_environment(plan), **_recover_environment(plan)},
        allow=(
            _READ_AND_UPDATE,
            Allow("states:DescribeExecution", on=Value("execution_arns")),
            Allow("states:StartExecution", on=Value("state_machine_arn")),
        ),
        asynchronous=Asynchronous(),
    )


def _sweep(plan: Plan) -> FunctionSpec:
    return FunctionSpec(
        role=SWEEP,
        handler=path_of(HANDLERS[SWEEP]),
        # The next run comes a minute later; what this one leaves is still due then.
        timeout=timedelta(seconds=58),
        memory=512,
        environment={
            **_dispatch_environment(plan),
            **_recover_environment(plan),
            "DUE_INDEX": Value("due_index"),
            "SWEEP_LIMIT": str(plan.sweep_limit),
            "START_RATE": str(plan.start_rate),
            "DESCRIBE_RATE": str(plan.describe_rate),
            "ATTEMPT_WORST_CASE": _seconds(plan.worst_case),
        },
        allow=(
            # ConditionCheckItem: a hold that ends is not released while its person is held.
            Allow(("dynamodb:ConditionCheckItem", "dynamodb:GetItem", "dynamodb:UpdateItem"), on=_TABLE),
            Allow("dynamodb:Query", on=Value("due_index_arn")),
            _START,
            Allow("states:DescribeExecution", on=Value("execution_arns")),
        ),
        # A run that did not come about is made up for by the next one.
        asynchronous=Asynchronous(retries=0, max_age=timedelta(seconds=60)),
    )
