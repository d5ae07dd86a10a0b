"""Reads the request table without the people in it: no name of a user is asked for, let alone shown."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from handlers.core import aws
from handlers.core.record import from_item
from handlers.core.request_table import request_key
from handlers.core.states import REQUEST_PREFIX, Status
from ops.output import Exit, OpsError, iso
from statemachine import frame

ATTRIBUTES = (
    "accepted_at",
    "attempt",
    "attempt_base",
    "cancel_requested",
    "cancelled_at",
    "claimed",
    "completed_at",
    "due_at",
    "erase_by",
    "expires_at",
    "failures",
    "grace_ends_at",
    "last_error",
    "origin",
    "owner",
    "pivot_at",
    "pk",
    "requested_at",
    "status",
    "touched_at",
)
"""What a request is read by: nothing in it is a user's."""
STEP_FIELDS = (
    "begun_at",
    "deleted",
    "done_at",
    "first_begun_at",
    "invocations",
    "rounds",
    "status",
    "undo_begun_at",
    "undone_at",
)
"""What is kept of a step's map. Never its batch, whose bounds are keys of the user's files."""
ENDED = frozenset({Status.COMPLETED, Status.CANCELLED})

_CHUNK = 100
"""Keys of one BatchGetItem at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What an operator sees of a request. Times are epoch seconds; 0 where an attribute is absent."""

    fields: Mapping[str, Any] = field(repr=False)
    """The attributes that were read, by name."""

    @property
    def id(self) -> str:
        """The deletion_request_id."""
        return str(self.fields["pk"]).removeprefix(REQUEST_PREFIX)

    @property
    def status(self) -> str:
        """A Status, or what a later version of this program calls one."""
        return str(self.fields["status"])

    @property
    def error(self) -> str | None:
        """Class of the last error."""
        last: Mapping[str, Any] = self.fields.get("last_error", {})
        return last.get("error")

    def time(self, name: str) -> int:
        """One of the record's times."""
        # An end that is set to NULL is none, like one that is absent.
        return int(self.fields.get(name) or 0)

    def is_overdue(self, now: int) -> bool:
        """Whether somebody should have looked at it by now."""
        return 0 < self.time("due_at") <= now

    def is_stuck(self, now: int) -> bool:
        """Whether an execution holds it without a sign of life: past its lease, or put off by the sweeper since.

        A lease that ends within LOOK_AGAIN counts too: a healthy worker has mostly renewed it long before.
        """
        return self.status == Status.PROCESSING and self.is_overdue(now + int(frame.LOOK_AGAIN.total_seconds()))

    def is_late(self, now: int, worst_case: int) -> bool:
        """Whether its promised end has passed, or will have passed when its next attempt has taken its time."""
        return self.status not in ENDED and max(now, self.time("due_at")) + worst_case > self.time("erase_by")

    def row(self, now: int, worst_case: int) -> dict[str, object]:
        """One line of a list."""
        notes = {
            "late": self.is_late(now, worst_case),
            "stuck": self.is_stuck(now),
            "overdue": self.is_overdue(now),
        }
        return {
            "deletion_request_id": self.id,
            "status": self.status,
            "origin": self.fields.get("origin"),
            "due_at": iso(self.time("due_at")),
            "erase_by": iso(self.time("erase_by")),
            "attempt": self.fields.get("attempt"),
            "failures": self.fields.get("failures"),
            "error": self.error,
            "notes": [note for note, holds in notes.items() if holds],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which requests; what is not said is not asked."""

    states: frozenset[str] = frozenset()
    error: str | None = None
    overdue: bool = False
    late: bool = False
    stuck: bool = False
    worst_case: int = 0
    """Seconds that one attempt may take."""

    def holds(self, request: Request, now: int) -> bool:
        """Whether the request is one of them."""
        asked = (
            (bool(self.states), request.status in self.states),
            (self.error is not None, request.error == self.error),
            (self.overdue, request.is_overdue(now)),
            (self.late, request.is_late(now, self.worst_case)),
            (self.stuck, request.is_stuck(now)),
        )
        return all(answer for is_asked, answer in asked if is_asked)


def scan(table: str, wanted: Wanted, now: int) -> Iterator[Request]:
    """The wanted requests of the whole table, page by page, in no order.

    Raises:
        AwsFailure: the table cannot be read.
    """
    request = _scan_request(table, wanted)
    while True:
        with aws.our_errors("Scan"):
            answer = aws.client("dynamodb").scan(**request)
        found = (Request(fields=from_item(item)) for item in answer["Items"])
        yield from (one for one in found if wanted.holds(one, now))
        if "LastEvaluatedKey" not in answer:
            return
        request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]


def read(table: str, deletion_request_id: str, *, steps: bool = False) -> Request:
    """One request by a consistent read.

    Args:
        table: the request table's name.
        deletion_request_id: which.
        steps: read the steps too; only STEP_FIELDS are kept of them.

    Raises:
        OpsError: there is none.
        AwsFailure: the table cannot be read.
    """
    projection = _projection((*ATTRIBUTES, "steps") if steps else ATTRIBUTES)
    with aws.our_errors("GetItem"):
        answer = aws.client("dynamodb").get_item(
            TableName=table, Key=request_key(deletion_request_id), ConsistentRead=True, **projection
        )
    if "Item" not in answer:
        raise OpsError(Exit.NOT_FOUND, f"no request is called {deletion_request_id}")
    fields = from_item(answer["Item"])
    if steps:
        fields["steps"] = {
            name: {key: step[key] for key in STEP_FIELDS if key in step} for name, step in fields["steps"].items()
        }
    return Request(fields=fields)


def read_all(table: str, deletion_request_ids: Iterable[str]) -> list[Request]:
    """Several requests by consistent reads, in the order asked for; those that are gone are left out."""
    ids = list(deletion_request_ids)
    found: dict[str, Request] = {}
    for start in range(0, len(ids), _CHUNK):
        keys = [request_key(one) for one in ids[start : start + _CHUNK]]
        found |= {request.id: request for request in _batch(table, keys)}
    return [found[one] for one in ids if one in found]


def _batch(table: str, keys: list[dict[str, Any]]) -> Iterator[Request]:
    wanted: Mapping[str, Any] = {table: {"Keys": keys, "ConsistentRead": True, **_projection(ATTRIBUTES)}}
    attempt = 0
    while wanted:
        with aws.our_errors("BatchGetItem"):
            answer = aws.client("dynamodb").batch_get_item(RequestItems=wanted)
        yield from (Request(fields=from_item(item)) for item in answer["Responses"].get(table, ()))
        wanted = answer.get("UnprocessedKeys") or {}
        if wanted:
            attempt += 1
            aws.back_off(min(attempt, 6))


def _scan_request(table: str, wanted: Wanted) -> dict[str, Any]:
    request = {"TableName": table, **_projection(ATTRIBUTES)}
    conditions, values = ["begins_with(#pk, :prefix)"], {":prefix": {"S": REQUEST_PREFIX}}
    if wanted.states:
        values |= {f":s{number}": {"S": status} for number, status in enumerate(sorted(wanted.states))}
        conditions.append(f"#status IN ({', '.join(name for name in values if name.startswith(':s'))})")
    if wanted.error is not None:
        values[":error"] = {"S": wanted.error}
        request["ExpressionAttributeNames"]["#error"] = "error"
        conditions.append("#last_error.#error = :error")
    return {**request, "FilterExpression": " AND ".join(conditions), "ExpressionAttributeValues": values}


def _projection(attributes: Iterable[str]) -> dict[str, Any]:
    names = {f"#{name}": name for name in attributes}
    return {"ProjectionExpression": ", ".join(names), "ExpressionAttributeNames": names}
