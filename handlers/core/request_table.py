"""Reads the request table, and runs the transitions that belong to Lambdas."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from handlers.core import aws
from handlers.core.record import Record, from_item, to_value
from handlers.core.states import GUARD_PREFIX, REQUEST_PREFIX
from handlers.core.transition import Guard, Rendered, Transition, render, render_guard

_CONDITION_FAILED = "ConditionalCheckFailed"
_BUSY = frozenset(
    {"ItemCollectionSizeLimitExceeded", "ProvisionedThroughputExceeded", "ThrottlingError", "TransactionConflict"}
)
_INVALID = frozenset({"ValidationError"})
"""Reason of a cancelled transaction that fewer actions may mend, such as its size
(https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html)."""


class ConditionFailed(Exception):  # noqa: N818 (it is an answer, not a mistake)
    """A transition's condition did not hold, and the write was not an earlier one of the same writer."""

    def __init__(self, record: Record | None, guard: Mapping[str, Any] | None = None) -> None:
        self.record = record
        """The record as it was; None if there is none."""
        self.guard = guard
        """The guard item that refused; None if it did not."""
        super().__init__("condition failed")


class TransactionRefused(Exception):  # noqa: N818 (it is an answer, not a mistake)
    """A transaction did not go through for a reason that is not its condition; a smaller one may."""

    def __init__(self, operation: str, code: str) -> None:
        self.operation = operation
        self.code = code
        super().__init__(code)


class ItemsChanged(Exception):  # noqa: N818 (it is an answer, not a mistake)
    """The transition may still run, but some of the items beside it are no longer what the deletes ask for."""

    def __init__(self, places: frozenset[int]) -> None:
        self.places = places
        """Which of the deletes were refused, counted from 0."""
        super().__init__("items changed")


@dataclass(frozen=True, slots=True)
class RequestTable:
    """The table `deletions`: one item a request, one guard item a user."""

    name: str

    def read(self, deletion_request_id: str) -> Record | None:
        """The record by a consistent read; None if there is none."""
        with aws.our_errors("GetItem"):
            answer = aws.client("dynamodb").get_item(
                TableName=self.name, Key=request_key(deletion_request_id), ConsistentRead=True
            )
        return Record.of(answer["Item"]) if "Item" in answer else None

    def read_guard(self, subject: str) -> Mapping[str, Any]:
        """The user's guard item by a consistent read; empty if there is none."""
        with aws.our_errors("GetItem"):
            answer = aws.client("dynamodb").get_item(TableName=self.name, Key=guard_key(subject), ConsistentRead=True)
        return from_item(answer.get("Item", {}))

    def update(
        self,
        transition: Transition,
        deletion_request_id: str,
        values: Mapping[str, object],
        *,
        step: str | None = None,
        each: Iterable[str] = (),
    ) -> Record:
        """Run a transition that changes the request alone; the record as it is afterwards.

        Raises:
            ConditionFailed: with the record that refused it.
        """
        rendered = render(transition, step=step, each=each)
        request = {
            **expressions(self.name, request_key(deletion_request_id), rendered, values),
            "ReturnValues": "ALL_NEW",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        is_written, item = _update_item(request)
        return Record.of(item) if is_written else _own_or_failed(transition, values, step, item)

    def update_unread(self, transition: Transition, deletion_request_id: str, values: Mapping[str, object]) -> None:
        """Run a transition on a record that may not be readable; nothing of it comes back.

        Raises:
            ConditionFailed: without a record.
        """
        request = expressions(self.name, request_key(deletion_request_id), render(transition), values)
        with aws.our_errors("UpdateItem"):
            try:
                aws.client("dynamodb").update_item(**request)
            except ClientError as error:
                if aws.error_code(error) != "ConditionalCheckFailedException":
                    raise
                raise ConditionFailed(None) from None

    def update_with_guard(
        self,
        transition: Transition,
        deletion_request_id: str,
        subject: str,
        values: Mapping[str, object],
        *,
        each: Iterable[str] = (),
        known: Iterable[str] = (),
        put: Mapping[str, object] | None = None,
    ) -> None:
        """Run a transition that changes the request and the user's guard together.

        Args:
            transition: one that has a guard.
            deletion_request_id: the request.
            subject: the guard's user.
            values: parameters of both sides.
            each: step names for the ``each_*`` expressions.
            known: further step names for what is removed of each.
            put: the whole new record, for the transition that makes it.

        Raises:
            ConditionFailed: with the record or the guard that refused it.
        """
        if transition.guard is None:
            raise TypeError(f"{transition.name} has no guard")
        request = _request_side(self.name, transition, deletion_request_id, values, (each, known), put)
        guard = _guard_side(self.name, transition.guard, subject, values)
        try:
            aws.through_conflicts(lambda: _transact([request, guard]), is_conflict=_is_busy)
        except ClientError as error:
            reasons = _failed_conditions(error)
            if reasons[0].get("Code") == _CONDITION_FAILED:
                _own_or_failed(transition, values, None, reasons[0].get("Item"))
                return
            raise ConditionFailed(None, from_item(reasons[1].get("Item", {}))) from None

    def update_guard(self, guard: Guard, subject: str, values: Mapping[str, object]) -> Mapping[str, Any]:
        """Write to a user's guard alone; the guard as it is afterwards.

        Raises:
            ConditionFailed: with the guard that refused it.
        """
        request = {
            **expressions(self.name, guard_key(subject), render_guard(guard), values),
            "ReturnValues": "ALL_NEW",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        is_written, item = _update_item(request)
        if not is_written:
            raise ConditionFailed(None, from_item(item))
        return from_item(item)

    def update_and_delete(
        self,
        transition: Transition,
        deletion_request_id: str,
        values: Mapping[str, object],
        deletes: Sequence[Mapping[str, Any]],
        *,
        step: str,
    ) -> None:
        """Run a transition together with deletes of items: they happen only if the transition does.

        Args:
            transition: a fenced one.
            deletion_request_id: the request.
            values: the transition's parameters.
            deletes: up to 99 Delete actions, each with or without a condition of its own.
            step: the step at hand.

        Raises:
            ConditionFailed: the fence is lost; nothing was deleted.
            ItemsChanged: only conditions of the deletes failed; nothing was deleted.
            TransactionRefused: too large, throttled or in conflict; nothing was deleted.
        """
        rendered = render(transition, step=step)
        update = {
            "Update": {
                **expressions(self.name, request_key(deletion_request_id), rendered, values),
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
        }
        try:
            _transact([update, *({"Delete": dict(delete)} for delete in deletes)])
        except ClientError as error:
            if changed := _changed_items(error):
                raise ItemsChanged(changed) from None
            if _is_busy(error) or _is_invalid(error):
                raise TransactionRefused(_TRANSACT, _reason(error)) from None
            _own_or_failed(transition, values, step, _failed_conditions(error)[0].get("Item"))


def request_key(deletion_request_id: str) -> dict[str, Any]:
    """The key of a request's item."""
    return {"pk": {"S": f"{REQUEST_PREFIX}{deletion_request_id}"}}


def guard_key(subject: str) -> dict[str, Any]:
    """The key of a user's guard item."""
    return {"pk": {"S": f"{GUARD_PREFIX}{subject}"}}


def expressions(table: str, key: Mapping[str, Any], rendered: Rendered, values: Mapping[str, object]) -> dict[str, Any]:
    """The request of a write, as UpdateItem and the actions of a transaction take it.

    Raises:
        KeyError: a parameter of the transition is missing.
    """
    given = {f":{name}": to_value(values[name]) for name in sorted(rendered.parameters)}
    # DynamoDB refuses an expression, or a map of values, that is empty.
    optional = {
        "UpdateExpression": rendered.update,
        "ExpressionAttributeValues": {**rendered.constants, **given},
    }
    return {
        "TableName": table,
        "Key": dict(key),
        "ConditionExpression": rendered.condition,
        "ExpressionAttributeNames": dict(rendered.names),
        **{name: value for name, value in optional.items() if value},
    }


def is_mine(
    transition: Transition, values: Mapping[str, object], step: str | None, attributes: Mapping[str, Any]
) -> bool:
    """Whether the record shows that this very write was applied before (its response was lost)."""
    return bool(transition.mine) and all(
        _at(attributes, path.replace("#step", step or "")) == _expected(expected, values)
        for path, expected in transition.mine.items()
    )


def _expected(expected: str | None, values: Mapping[str, object]) -> object:
    if expected is None:
        return None
    return expected.removeprefix(":") if expected.startswith(":") else values[expected]


def _at(attributes: Mapping[str, Any], path: str) -> object:
    found: Any = attributes
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _own_or_failed(
    transition: Transition, values: Mapping[str, object], step: str | None, item: Mapping[str, Any] | None
) -> Record:
    record = Record.of(item) if item else None
    if record is not None and is_mine(transition, values, step, record.attributes):
        return record
    raise ConditionFailed(record) from None


def _request_side(
    table: str,
    transition: Transition,
    deletion_request_id: str,
    values: Mapping[str, object],
    steps: tuple[Iterable[str], Iterable[str]],
    put: Mapping[str, object] | None,
) -> dict[str, Any]:
    each, known = steps
    rendered = render(transition, each=each, known=known)
    key = request_key(deletion_request_id)
    if put is None:
        write = {"Update": expressions(table, key, rendered, values)}
    else:
        item = {**key, **{name: to_value(value) for name, value in put.items()}}
        write = {
            "Put": {
                "TableName": table,
                "Item": item,
                "ConditionExpression": rendered.condition,
                "ExpressionAttributeNames": dict(rendered.names),
            }
        }
    for action in write.values():
        action["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    return write


def _guard_side(table: str, guard: Guard, subject: str, values: Mapping[str, object]) -> dict[str, Any]:
    write = expressions(table, guard_key(subject), render_guard(guard), values)
    action = "Update" if guard.set or guard.remove else "ConditionCheck"
    return {action: {**write, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}}


def _update_item(request: Mapping[str, Any]) -> tuple[bool, Mapping[str, Any]]:
    """Whether the condition held, and the item as it is then, or as it was when it refused the write."""
    with aws.our_errors("UpdateItem"):
        try:
            answer = aws.through_conflicts(
                lambda: aws.client("dynamodb").update_item(**request),
                is_conflict=lambda error: aws.error_code(error) == "TransactionConflictException",
            )
        except ClientError as error:
            if aws.error_code(error) != "ConditionalCheckFailedException":
                raise
            refused: Mapping[str, Any] = error.response
            return False, refused.get("Item", {})
    return True, answer["Attributes"]


_TRANSACT = "TransactWriteItems"


def _transact(actions: Sequence[Mapping[str, Any]]) -> None:
    try:
        aws.client("dynamodb").transact_write_items(TransactItems=list(actions))
    except BotoCoreError as error:
        raise aws.translate(_TRANSACT, error) from None


def _changed_items(error: ClientError) -> frozenset[int]:
    """The deletes whose own condition failed; none if the transition's failed, whatever else did."""
    transition, *deletes = aws.cancellation_codes(error) or ("None",)
    if transition == _CONDITION_FAILED:
        return frozenset()
    return frozenset(place for place, code in enumerate(deletes) if code == _CONDITION_FAILED)


def _is_busy(error: ClientError) -> bool:
    """Whether a transaction went under to others' traffic; a lost condition never is."""
    if aws.error_code(error) == "TransactionInProgressException":
        return True
    codes = set(aws.cancellation_codes(error))
    return _CONDITION_FAILED not in codes and bool(codes & _BUSY)


def _is_invalid(error: ClientError) -> bool:
    """Whether a transaction as a whole was refused, which may be for its size; a lost condition never is."""
    codes = set(aws.cancellation_codes(error))
    return aws.error_code(error) == "ValidationException" or (_CONDITION_FAILED not in codes and bool(codes & _INVALID))


def _reason(error: ClientError) -> str:
    named = [code for code in aws.cancellation_codes(error) if code in _BUSY | _INVALID]
    return named[0] if named else aws.error_code(error)


def _failed_conditions(error: ClientError) -> Sequence[Mapping[str, Any]]:
    """The reasons of a transaction that a condition refused; any other failure is raised as ours."""
    if _CONDITION_FAILED in aws.cancellation_codes(error):
        return aws.cancellation_reasons(error)
    raise aws.translate(_TRANSACT, error) from None
