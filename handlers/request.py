"""Accepts a request to delete a user's account: one record, one guard, one schedule.

Safe to repeat because: the record and the user's guard are written in one transaction that refuses a second open
request of the same user, and with an idempotency key the request's id follows from the key. A schedule that could not
be made fails nothing: the record's due_at is what the sweeper goes by. A request of a person who is held is accepted as
HELD, in the same kind of transaction: a hold that comes at the same moment meets either the hold's guard or this
request's.
Leaves open: what must happen when several applications disagree about a user's name; user_id is the one that the
templates of the stores are filled with.
"""

import hashlib
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from handlers import schedules
from handlers.core import clock, metrics, settings, telemetry
from handlers.core.checkpoint import LambdaContext
from handlers.core.errors import InvalidEvent, StoreUnavailable
from handlers.core.events import as_object
from handlers.core.frame import AWS_ERRORS, lambda_handler
from handlers.core.person import Identity, Person
from handlers.core.record import Record
from handlers.core.request_table import ConditionFailed, RequestTable
from handlers.core.states import DUE_SHARDS, Origin, Status
from handlers.core.subjects import SubjectSettings, mac, subject_of
from handlers.core.templates import NAME_RULE, is_name
from handlers.core.transitions import ACCEPT, ACCEPT_HELD
from handlers.schedules import ScheduleSettings
from handlers.steps._identity import look, recorded, search

FIELDS = ("grace_days", "idempotency_key", "identifiers", "origin", "requested_at", "user_id")
SKEW = timedelta(minutes=10)
"""How far in the future a caller's clock may be."""
TRIES = 3
"""Attempts to accept, while another request of the same user just ends, or the user is just held or released."""

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ID_LENGTH = 26
_DAY = timedelta(days=1)
_OPEN = frozenset(Status) - {Status.COMPLETED, Status.CANCELLED}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSettings:
    """What accepting needs, besides the settings of subjects and of schedules."""

    request_table: str
    """The request table's name."""
    identifiers: tuple[str, ...]
    """The names besides user_id that every request carries."""
    user_pool_id: str | None = None
    """The Cognito user pool; None: there is no identity to look up."""
    grace_default: timedelta
    """From the request until the deletion begins, unless the request says otherwise."""
    grace_minimum: timedelta
    """The shortest; also counted from now, for a request of an earlier day."""
    grace_maximum: timedelta
    """The longest."""
    erase_within: timedelta
    """The legal or promised end, counted from the request."""
    attempt_worst_case: timedelta
    """How long one attempt may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The caller's event, checked; its repr shows no personal data."""

    user_id: str
    identifiers: Mapping[str, str]
    idempotency_key: str | None
    requested_at: int
    origin: Origin
    grace: timedelta

    def __repr__(self) -> str:
        return "Wish()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """When a request is carried out, in epoch seconds."""

    grace_ends_at: int
    """Nothing is deleted before it."""
    erase_by: int
    """The promised end."""

    @classmethod
    def of(cls, record: Record) -> "Times":
        """Those of a request that was accepted."""
        return cls(grace_ends_at=record.attributes["grace_ends_at"], erase_by=record.attributes["erase_by"])


@lambda_handler(*AWS_ERRORS)
def handler(event: Any, _context: LambdaContext) -> Mapping[str, object]:
    """Accept a request, or answer with the one that is open already. Times are epoch seconds."""
    own = settings.load(RequestSettings)
    wish = parse(event, own)
    subject = subject_of(settings.load(SubjectSettings), wish.user_id)
    request_id = request_id_of(wish)
    table = RequestTable(own.request_table)
    record = existing(table, request_id, subject)
    if record is None:
        record = _accept(table, request_id, subject, _new_record(own, wish, request_id, subject))
    else:
        telemetry.count(metrics.DUPLICATES_IGNORED)
    times = Times.of(record)
    if record.status is Status.SCHEDULED:
        schedules.create(settings.load(ScheduleSettings), record.deletion_request_id, times.grace_ends_at)
    telemetry.log("accepted", deletion_request_id=record.deletion_request_id, outcome=str(record.status))
    return {
        "deletion_request_id": record.deletion_request_id,
        "status": str(record.status),
        **asdict(times),
        "identity": identity_word(own, record.person),
    }


def identity_word(own: RequestSettings, person: Person | None) -> str:
    """What a request knows of the user's Cognito identity; an ended one keeps nothing of its person."""
    if own.user_pool_id is None:
        return "no pool"
    if person is None:
        return "removed"
    return "recorded" if person.identity else "not found"


def existing(table: RequestTable, request_id: str, subject: str) -> Record | None:
    """The request that this one repeats, or the one that is open for the user; neither is checked or looked up again.

    Reads only.

    Raises:
        AwsFailure: the table cannot be read.
        InvalidEvent: the idempotency key was used for another user.
    """
    repeated = table.read(request_id)
    if repeated is not None:
        if repeated.subject != subject:
            raise InvalidEvent("idempotency_key", "was used for another user")
        return repeated
    active = table.read_guard(subject).get("active_request")
    record = table.read(active) if active else None
    return record if record is not None and record.status in _OPEN else None


def _accept(table: RequestTable, request_id: str, subject: str, new: Mapping[str, object]) -> Record:
    is_held = False
    for _ in range(TRIES):
        open_request = request_id
        transition, put = (ACCEPT_HELD, _held(new)) if is_held else (ACCEPT, new)
        try:
            table.update_with_guard(transition, request_id, subject, {"id": request_id, "subject": subject}, put=put)
            telemetry.count(metrics.ACCEPTED)
            if is_held:
                telemetry.count(metrics.HELD_BY_OPERATOR)
        except ConditionFailed as failed:
            if failed.record is not None:
                raise InvalidEvent("idempotency_key", "was used for another user") from None
            guard = failed.guard or {}
            is_held = "held_at" in guard
            open_request = guard.get("active_request", "")
        record = table.read(open_request) if open_request else None
        # The open request may have ended since; a repeated request is answered however it stands.
        if record is not None and (record.status in _OPEN or open_request == request_id):
            return record
    raise StoreUnavailable("TransactWriteItems", "ConditionalCheckFailed")


def _held(new: Mapping[str, object]) -> Mapping[str, object]:
    """The same record for a person who is held: nobody looks at it before the person is released."""
    return {**{name: value for name, value in new.items() if name != "due_at"}, "status": str(Status.HELD)}


def _new_record(own: RequestSettings, wish: Wish, request_id: str, subject: str) -> dict[str, object]:
    now = clock.now()
    times = times_of(own, wish, now)
    identity = identity_of(own.user_pool_id, wish.user_id)
    if own.user_pool_id and identity is None:
        telemetry.log("identity not found", deletion_request_id=request_id)
        telemetry.count(metrics.IDENTITY_NOT_FOUND)
    return {
        "deletion_request_id": request_id,
        "user_id": wish.user_id,
        "identifiers": dict(wish.identifiers),
        **({"identity": asdict(identity)} if identity else {}),
        "subject": subject,
        "requested_at": wish.requested_at,
        "accepted_at": now,
        "erase_by": times.erase_by,
        "origin": str(wish.origin),
        "status": str(Status.SCHEDULED),
        "grace_ends_at": times.grace_ends_at,
        "due_at": times.grace_ends_at,
        "due_shard": hashlib.sha256(request_id.encode()).digest()[0] % DUE_SHARDS,
        **dict.fromkeys(("attempt", "attempt_base", "claimed", "failures", "fence", "seq", "undoing"), 0),
        "cancel_requested": False,
        "steps": {},
    }


def times_of(own: RequestSettings, wish: Wish, now: int) -> Times:
    """Those of a new request that is accepted now.

    Raises:
        InvalidEvent: the promised end could be missed.
    """
    grace_ends_at = max(now + _seconds(own.grace_minimum), wish.requested_at + _seconds(wish.grace))
    erase_by = wish.requested_at + _seconds(own.erase_within)
    if grace_ends_at + _seconds(own.attempt_worst_case) >= erase_by:
        raise InvalidEvent("requested_at", "with this grace period the deletion could end after erase_by")
    return Times(grace_ends_at=grace_ends_at, erase_by=erase_by)


def identity_of(pool: str | None, user_id: str) -> Identity | None:
    """The pool's user with this sub or exactly this user name.

    Raises:
        InvalidEvent: it is an alias (an e-mail address, a phone number), which could be somebody else's tomorrow.
    """
    if not pool:
        return None
    found = search(pool, user_id) or look(pool, user_id)
    if found is None:
        return None
    if user_id not in (found.sub, found.username):
        raise InvalidEvent("user_id", "is an alias in the user pool; give the user's sub or user name")
    return recorded(pool, found)


# -- the id


def request_id_of(wish: Wish) -> str:
    """The id that follows from the idempotency key; without one a new id.

    Raises:
        AwsFailure: KMS could not be asked.
    """
    if wish.idempotency_key is None:
        return f"del_{_ulid()}"
    digest = mac(settings.load(SubjectSettings), "deletion_request_id", wish.idempotency_key)
    # 26 characters of 5 bits each.
    return f"del_{_crockford(int.from_bytes(digest[:17], 'big') >> 6)}"


def _ulid() -> str:
    """48 bits of milliseconds, 80 random bits (https://github.com/ulid/spec)."""
    return _crockford(time.time_ns() // 1_000_000 << 80 | secrets.randbits(80))


def _crockford(number: int) -> str:
    digits = []
    for _ in range(_ID_LENGTH):
        number, digit = divmod(number, len(_CROCKFORD))
        digits.append(_CROCKFORD[digit])
    return "".join(reversed(digits))


# -- the event


def parse(event: object, own: RequestSettings) -> Wish:
    """Check every field before any call.

    Raises:
        InvalidEvent: names the field and the rule, never the value.
    """
    fields = as_object(event)
    if not fields.keys() <= set(FIELDS):
        raise InvalidEvent("event", f"no fields but {', '.join(FIELDS)}")
    user_id = fields.get("user_id")
    if not isinstance(user_id, str) or not is_name(user_id):
        raise InvalidEvent("user_id", NAME_RULE)
    return Wish(
        user_id=user_id,
        identifiers=_identifiers(fields.get("identifiers", {}), own.identifiers),
        idempotency_key=_key(fields.get("idempotency_key")),
        requested_at=_requested_at(fields.get("requested_at")),
        origin=_origin(fields.get("origin", Origin.SELF_SERVICE)),
        grace=_grace(fields.get("grace_days"), own),
    )


def _identifiers(value: object, declared: tuple[str, ...]) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or set(value) != set(declared):
        names = ", ".join(sorted(declared)) or "none"
        raise InvalidEvent("identifiers", f"an object with exactly the declared ones: {names}")
    for name in declared:
        if not is_name(value[name]):
            raise InvalidEvent(f"identifiers.{name}", NAME_RULE)
    return dict(value)


def _key(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not 1 <= len(value) <= 255:
        raise InvalidEvent("idempotency_key", "1 to 255 characters")
    return value


def _requested_at(value: object) -> int:
    if value is None:
        return clock.now()
    rule = f"an ISO 8601 time with an offset, at most {SKEW.seconds // 60} minutes in the future"
    try:
        requested_at = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        requested_at = None
    if requested_at is None or requested_at.tzinfo is None:
        raise InvalidEvent("requested_at", rule)
    if requested_at.timestamp() > clock.now() + SKEW.total_seconds():
        raise InvalidEvent("requested_at", rule)
    return int(requested_at.timestamp())


def _origin(value: object) -> Origin:
    if not isinstance(value, str) or value not in set(Origin):
        raise InvalidEvent("origin", f"one of {', '.join(Origin)}")
    return Origin(value)


def _grace(value: object, own: RequestSettings) -> timedelta:
    if value is None:
        return own.grace_default
    least, most = own.grace_minimum / _DAY, own.grace_maximum / _DAY
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise InvalidEvent("grace_days", f"a number of days from {least:g} to {most:g}")
    return timedelta(days=value)


def _seconds(duration: timedelta) -> int:
    return int(duration.total_seconds())
