"""The kinds of task that the state machine has, as Amazon States Language (JSONata)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from handlers.core.transition import PARAMETERS, Transition, render
from statemachine.plan import CONTROL_TIMEOUT, ServiceRetry
from statemachine.step import Retry

State = dict[str, Any]

EXECUTION = "$states.context.Execution.Id"
NOW = "$floor($millis() / 1000)"
"""State.EnteredTime is not evaluated again at a retry, this is."""
CONDITION_FAILED = "DynamoDB.ConditionalCheckFailedException"
DATA_LIMIT = "States.DataLimitExceeded"
ALL = "States.ALL"


def jsonata(expression: str) -> str:
    """An expression as the language takes it."""
    return "{% " + expression + " %}"


def literal(text: str) -> str:
    """A text inside an expression; step and status names need no escaping."""
    return f"'{text}'"


def retrier(retry: Retry, names: Sequence[str]) -> State:
    """One entry of Retry."""
    rendered: State = {
        "ErrorEquals": list(names),
        "IntervalSeconds": int(retry.interval.total_seconds()),
        "MaxAttempts": retry.attempts,
        "BackoffRate": retry.backoff,
        "JitterStrategy": "FULL" if retry.jitter else "NONE",
    }
    if retry.max_delay is not None:
        rendered["MaxDelaySeconds"] = int(retry.max_delay.total_seconds())
    return rendered


def service_retrier(service: ServiceRetry) -> State:
    """One entry of Retry for names of the service."""
    return retrier(service.retry, service.names)


def never(names: Sequence[str]) -> list[State]:
    """The retrier that comes first: these are not retried, not even by the one for everything."""
    return [{"ErrorEquals": list(names), "MaxAttempts": 0}] if names else []


def catcher(names: Sequence[str], to: str, **assign: object) -> State:
    """One entry of Catch; the error's cause (a stack trace) goes no further."""
    caught: State = {"ErrorEquals": list(names), "Next": to, "Output": {}}
    if assign:
        caught["Assign"] = assign
    return caught


def error_of(place: str, name: str | None = None) -> Mapping[str, str]:
    """What the record's last_error is made of: the place and the error class, never a message."""
    return {"step": place, "name": name or jsonata("$states.errorOutput.Error")}


def update_task(
    transition: Transition,
    *,
    partition: str,
    table: str,
    expressions: Mapping[str, str | Mapping[str, object]],
    step: str | None = None,
    each: Iterable[str] = (),
) -> State:
    """A direct UpdateItem that makes a transition.

    Args:
        transition: which one.
        partition: AWS partition of the integration's ARN.
        table: the request table's name.
        expressions: parameter -> JSONata expression of its text, or a whole typed value.
        step: the step at hand.
        each: step names for the transition's ``each_*`` expressions.
    """
    rendered = render(transition, step=step, each=each)
    given = {f":{name}": _typed(name, expressions[name]) for name in sorted(rendered.parameters)}
    return {
        "Type": "Task",
        "Resource": f"arn:{partition}:states:::dynamodb:updateItem",
        "Arguments": {
            "TableName": table,
            "Key": _request_key(),
            "ConditionExpression": rendered.condition,
            "UpdateExpression": rendered.update,
            "ExpressionAttributeNames": dict(rendered.names),
            "ExpressionAttributeValues": {**rendered.constants, **given},
        },
        "TimeoutSeconds": int(CONTROL_TIMEOUT.total_seconds()),
    }


def read_task(attributes: Sequence[str], *, partition: str, table: str) -> State:
    """A consistent, projected GetItem: no state of the machine ever sees whose data it is about."""
    names = {f"#{name}": name for name in attributes}
    return {
        "Type": "Task",
        "Resource": f"arn:{partition}:states:::dynamodb:getItem",
        "Arguments": {
            "TableName": table,
            "Key": _request_key(),
            "ConsistentRead": True,
            "ProjectionExpression": ", ".join(names),
            "ExpressionAttributeNames": names,
        },
        "TimeoutSeconds": int(CONTROL_TIMEOUT.total_seconds()),
    }


def invoke_task(function: str, step: str, *, partition: str, timeout_seconds: int) -> State:
    """An invocation of a Lambda function with the tiny input that each of ours takes."""
    return {
        "Type": "Task",
        "Resource": f"arn:{partition}:states:::lambda:invoke",
        "Arguments": {
            "FunctionName": function,
            "Payload": {"deletion_request_id": jsonata("$id"), "owner": jsonata(EXECUTION), "step": step},
        },
        "TimeoutSeconds": timeout_seconds,
    }


def choice(rules: Sequence[State], default: str, comment: str) -> State:
    """A Choice; its conditions must be total, because a Choice has no Catch."""
    return {"Type": "Choice", "Comment": comment, "Choices": list(rules), "Default": default}


def rule(condition: str, to: str, **assign: object) -> State:
    """One rule of a Choice."""
    chosen: State = {"Condition": jsonata(condition), "Next": to}
    if assign:
        chosen["Assign"] = assign
    return chosen


def _typed(name: str, expression: str | Mapping[str, object]) -> object:
    if isinstance(expression, Mapping):
        return expression
    text = f"$string({expression})" if PARAMETERS[name] == "N" else expression
    return {PARAMETERS[name]: jsonata(text)}


def _request_key() -> State:
    return {"pk": {"S": jsonata("'REQUEST#' & $id")}}
