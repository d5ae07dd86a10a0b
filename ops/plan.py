"""What a deletion would take, before anybody asks for it: counts by the steps' own code, and when it would happen.

The event is read by the request function's own code, so what that would refuse is refused here, in the same words. The
steps' `remaining` runs in this process, with the settings of the deployed functions and with the operator's own
rights. A store that cannot be read is named; the others are counted all the same.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import unquote
from xml.etree import ElementTree

from handlers.core import aws, clock, settings
from handlers.core.errors import DeletionError, InvalidEvent
from handlers.core.frame import Remaining, resolve
from handlers.core.person import Person
from handlers.core.record import Record
from handlers.core.request_table import RequestTable
from handlers.core.s3_listing import SET_ASIDE_AT
from handlers.core.settings import StepSettings
from handlers.core.states import Status
from handlers.core.stores import FileStore, file_stores
from handlers.core.subjects import SubjectSettings, subject_of
from handlers.request import (
    RequestSettings,
    Times,
    Wish,
    existing,
    identity_of,
    identity_word,
    parse,
    request_id_of,
    times_of,
)
from ops.calls import FunctionFailed
from ops.output import told
from ops.stack import Stack
from statemachine import frame

Weights = Counter[tuple[str, str]]
"""(bucket, prefix) -> bytes of all its versions."""
IDENTITY, REQUEST = "identity", "request"
"""Stand for the user pool and for the request table among what could not be read."""
NOT_READ = "not read"
_POOL = "USER_POOL_ID"
"""The setting of a step whose store is the pool."""

_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What one store holds of the user."""

    step: str
    store: str
    count: int
    bytes: int | None
    """Of all versions of its files; None where the listing tells no sizes (items, uploads, users)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What would go, when, and by which request."""

    deletion_request_id: str | None
    """The request that the person has open, or that the idempotency key stands for; None: it would be a new one."""
    status: str
    """What a request would be answered: the status of that one, or how a new one would begin; or NOT_READ."""
    is_person_held: bool | None
    """Whether an operator holds the person; None: it could not be read."""
    contents: tuple[Content, ...]
    unread: Mapping[str, str]
    """Step whose stores could not be read, IDENTITY or REQUEST -> why: our own message, without personal data."""
    times: Times
    """Those of that request, or of a new one."""
    identity: str
    """What that request knows, or the user pool does: recorded, not found, removed or no pool; or NOT_READ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the request table knows of the person."""

    record: Record | None
    """The request that a new one would be answered with."""
    is_person_held: bool


def make(stack: Stack, event: Mapping[str, object]) -> Plan:
    """Count what is the user's now.

    Args:
        stack: the deployment.
        event: what the request function would be asked.

    Raises:
        OpsError: the request function would refuse it, for the same reason.
        AwsFailure: the deployment cannot be read.
    """
    unread: dict[str, str] = {}
    request = stack.function(frame.REQUEST)
    try:
        with stack.acting_as(request):
            own = settings.load(RequestSettings)
            wish = parse(event, own)
            standing = _tolerant(unread, REQUEST, lambda: _standing(own, wish))
            record = standing.record if standing else None
            times = Times.of(record) if record else times_of(own, wish, clock.now())
            person = record.person if record else _person(own, wish, unread)
    except InvalidEvent as invalid:
        raise FunctionFailed(request, type(invalid).__name__, str(invalid)) from None
    contents = tuple(_contents(stack, person, unread)) if person else ()
    return Plan(
        deletion_request_id=record.deletion_request_id if record else None,
        status=_status(standing),
        is_person_held=standing.is_person_held if standing else None,
        contents=contents,
        unread=unread,
        times=times,
        identity=NOT_READ if IDENTITY in unread else identity_word(own, person),
    )


def _standing(own: RequestSettings, wish: Wish) -> Standing:
    table = RequestTable(own.request_table)
    subject = subject_of(settings.load(SubjectSettings), wish.user_id)
    return Standing(
        record=existing(table, request_id_of(wish), subject),
        is_person_held="held_at" in table.read_guard(subject),
    )


def _status(standing: Standing | None) -> str:
    if standing is None:
        return NOT_READ
    if standing.record:
        return str(standing.record.status)
    return str(Status.HELD if standing.is_person_held else Status.SCHEDULED)


def _person(own: RequestSettings, wish: Wish, unread: dict[str, str]) -> Person:
    """Whose data a new request would be about; without an identity, too, where the pool cannot be read."""
    identity = _tolerant(unread, IDENTITY, lambda: identity_of(own.user_pool_id, wish.user_id))
    return Person(user_id=wish.user_id, identifiers=wish.identifiers, identity=identity)


def _contents(stack: Stack, person: Person, unread: dict[str, str]) -> Iterator[Content]:
    for step, function in stack.erasing_functions.items():
        if IDENTITY in unread and _POOL in stack.variables_of(function):
            # Its stores know the user by what the pool did not tell.
            continue
        try:
            yield from _count(stack, step, function, person)
        except DeletionError as error:
            unread[step] = told(error)


def _tolerant(unread: dict[str, str], what: str, read: Callable[[], _Read]) -> _Read | None:
    """What was read; None if it cannot be, which is then noted. A refusal stays one."""
    try:
        return read()
    except InvalidEvent:
        raise
    except DeletionError as error:
        unread[what] = told(error)
        return None


def _count(stack: Stack, step: str, function: str, person: Person) -> list[Content]:
    stores = file_stores(stack.variables_of(function).get("FILE_STORES", "[]"))
    with stack.acting_as(function), _weighing(stores) as weights:
        remaining: Remaining = resolve("STEP_VERIFY", settings.load(StepSettings).step_verify)
        counts = remaining(person)
    places = {store.name: (store.bucket, person.fill(store.prefix)) for store in stores}
    # A listing that was never seen weighs nothing that we know of.
    known = {store: weights.get(place) for store, place in places.items()}
    return [Content(step=step, store=store, count=n, bytes=known.get(store)) for store, n in counts.items()]


@contextmanager
def _weighing(stores: Sequence[FileStore]) -> Iterator[Weights]:
    """Sum up what passes by in answers of ListObjectVersions, so that nothing is listed twice for its size."""
    weights: Weights = Counter()

    def weigh(response_dict: Mapping[str, Any], **_: object) -> None:
        if response_dict["status_code"] != HTTPStatus.OK:
            return
        try:
            place, size = _weight(response_dict["body"])
        except ElementTree.ParseError:
            # Botocore takes a torn answer for a failure of the server, and asks again.
            return
        weights[place] += size

    watched = [aws.client("s3", region=region) for region in {store.region for store in stores}]
    for client in watched:
        # First, as the handlers' parser then takes the listing out of the answer.
        client.meta.events.register_first(SET_ASIDE_AT, weigh)
    try:
        yield weights
    finally:
        for client in watched:
            client.meta.events.unregister(SET_ASIDE_AT, weigh)


def _weight(listing: bytes) -> tuple[tuple[str, str], int]:
    """(bucket, prefix) and bytes of one page. Before it is parsed: the deletion's own parser passes sizes by."""
    root = ElementTree.fromstring(listing)  # noqa: S314 (botocore parses the same answers of AWS with it)
    namespace = root.tag.removesuffix("ListVersionsResult")
    prefix = root.findtext(f"{namespace}Prefix", "")
    if root.findtext(f"{namespace}EncodingType") == "url":
        prefix = unquote(prefix)
    sizes = (int(size.text or 0) for size in root.iter(f"{namespace}Size"))
    return (root.findtext(f"{namespace}Name", ""), prefix), sum(sizes)
