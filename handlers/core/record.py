"""The request record as a typed value: what one consistent read of it says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from handlers.core.person import Identity, Person
from handlers.core.states import Status, StepStatus

_deserialize = TypeDeserializer().deserialize
_serialize = TypeSerializer().serialize


def from_item(item: Mapping[str, Any]) -> dict[str, Any]:
    """A DynamoDB item as plain values: numbers are ints (the table holds no others)."""
    return {name: _plain(_deserialize(value)) for name, value in item.items()}


def to_value(value: object) -> dict[str, Any]:
    """A plain value in DynamoDB's typed form."""
    return dict(_serialize(value))


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value)
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One step's part of the record."""

    status: StepStatus | None
    """None: it never began, or was reopened."""
    deleted: Mapping[str, int]
    """Store -> how many were deleted, over all attempts."""
    batch: Mapping[str, Any]
    """Bounds and size of the batch that may be under way; empty if none is."""
    begun_at: int
    first_begun_at: int
    invocations: int
    rounds: int
    undo_begun_at: int

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "StepRecord":
        """From the step's map, which may be empty."""
        return cls(
            status=StepStatus(fields["status"]) if "status" in fields else None,
            deleted=fields.get("deleted", {}),
            batch=fields.get("batch", {}),
            begun_at=fields.get("begun_at", 0),
            first_begun_at=fields.get("first_begun_at", 0),
            invocations=fields.get("invocations", 0),
            rounds=fields.get("rounds", 0),
            undo_begun_at=fields.get("undo_begun_at", 0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A request. Times are epoch seconds; 0 or empty where an attribute is absent."""

    deletion_request_id: str
    status: Status
    attempt: int
    attempt_base: int
    claimed: int
    failures: int
    owner: str
    fence: int
    seq: int
    due_at: int
    undoing: int
    subject: str
    person: Person | None
    """None once the request ended and its personal data was removed."""
    steps: Mapping[str, StepRecord] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Every attribute, for recognising one's own write."""

    @classmethod
    def of(cls, item: Mapping[str, Any]) -> "Record":
        """From a whole DynamoDB item in typed form."""
        fields = from_item(item)
        return cls(
            deletion_request_id=fields["deletion_request_id"],
            status=Status(fields["status"]),
            attempt=fields["attempt"],
            attempt_base=fields["attempt_base"],
            claimed=fields["claimed"],
            failures=fields["failures"],
            owner=fields.get("owner", ""),
            fence=fields["fence"],
            seq=fields.get("seq", 0),
            due_at=fields.get("due_at", 0),
            undoing=fields.get("undoing", 0),
            subject=fields["subject"],
            person=_person(fields),
            steps={name: StepRecord.of(step) for name, step in fields.get("steps", {}).items()},
            attributes=fields,
        )

    def step(self, name: str) -> StepRecord:
        """The step's record; an empty one if it never began."""
        return self.steps.get(name, StepRecord.of({}))

    def is_owned_by(self, owner: str) -> bool:
        """Whether this execution holds the request."""
        return self.status is Status.PROCESSING and self.owner == owner


def _person(fields: Mapping[str, Any]) -> Person | None:
    if "user_id" not in fields:
        return None
    identity = fields.get("identity")
    return Person(
        user_id=fields["user_id"],
        identifiers=fields.get("identifiers", {}),
        identity=Identity.of(identity) if identity else None,
        request_id=fields["deletion_request_id"],
    )
