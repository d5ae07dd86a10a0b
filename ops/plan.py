"""What a deletion would take, before anybody asks for it: counts by the steps' own code, and when it would happen.

The steps' `remaining` runs in this process, with the settings of the deployed functions and with the operator's own
rights. A store that cannot be read is named; the others are counted all the same.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

from handlers.core import aws, clock, settings
from handlers.core.errors import DeletionError, InvalidEvent
from handlers.core.frame import Remaining, resolve
from handlers.core.person import Identity, Person
from handlers.core.settings import StepSettings
from handlers.core.stores import FileStore, file_stores
from handlers.core.templates import NAME_RULE, is_name
from handlers.request import RequestSettings, identity_of
from ops.asking import Named
from ops.output import Exit, OpsError
from ops.stack import Stack
from statemachine import frame

Weights = Counter[tuple[str, str]]
"""(bucket, prefix) -> bytes of all its versions."""
IDENTITY = "identity"
"""Stands for the user pool among what could not be read."""
_POOL = "USER_POOL_ID"
"""The setting of a step whose store is the pool."""
_LISTED = "before-parse.s3.ListObjectVersions"


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
    """What would go, and when. Times are epoch seconds."""

    contents: tuple[Content, ...]
    unread: Mapping[str, str]
    """Step whose stores could not be read, or IDENTITY -> why: our own message, without personal data."""
    grace_ends_at: int
    erase_by: int
    identity: str
    """What the user pool knows: recorded, not found, not read, or no pool."""


def make(stack: Stack, named: Named, grace: timedelta | None) -> Plan:
    """Count what is the user's now.

    Args:
        stack: the deployment.
        named: whose data.
        grace: instead of the deployment's own grace period.

    Raises:
        OpsError: the request function would refuse it, for the same reason.
        AwsFailure: the deployment cannot be read.
    """
    with stack.acting_as(stack.function(frame.REQUEST)):
        own = settings.load(RequestSettings)
        try:
            _require_names(own, named)
            grace_ends_at, erase_by = _times(own, grace)
            identity, unread = _identity(own, named)
        except InvalidEvent as invalid:
            raise OpsError(Exit.REFUSED, str(invalid)) from None
    person = Person(user_id=named.user_id, identifiers=named.identifiers, identity=identity)
    contents: list[Content] = []
    for step, function in stack.erasing_functions.items():
        if IDENTITY in unread and _POOL in stack.variables_of(function):
            # Its stores know the user by what the pool did not tell.
            continue
        try:
            contents += _count(stack, step, function, person)
        except DeletionError as error:
            unread[step] = _told(error)
    return Plan(
        contents=tuple(contents),
        unread=unread,
        grace_ends_at=grace_ends_at,
        erase_by=erase_by,
        identity="not read" if IDENTITY in unread else _identity_word(own, identity),
    )


def _identity_word(own: RequestSettings, identity: Identity | None) -> str:
    if own.user_pool_id is None:
        return "no pool"
    return "recorded" if identity else "not found"


def _identity(own: RequestSettings, named: Named) -> tuple[Identity | None, dict[str, str]]:
    """What the pool knows of the user, and why it could not be asked, by IDENTITY."""
    try:
        return identity_of(own.user_pool_id, named.user_id), {}
    except InvalidEvent:
        raise
    except DeletionError as error:
        return None, {IDENTITY: _told(error)}


def _told(error: DeletionError) -> str:
    return f"{type(error).__name__}: {error}"


def _require_names(own: RequestSettings, named: Named) -> None:
    if set(named.identifiers) != set(own.identifiers):
        names = ", ".join(sorted(own.identifiers)) or "none"
        raise InvalidEvent("identifiers", f"an object with exactly the declared ones: {names}")
    for field, name in {"user_id": named.user_id, **named.identifiers}.items():
        if not is_name(name):
            raise InvalidEvent(field, NAME_RULE)


def _times(own: RequestSettings, grace: timedelta | None) -> tuple[int, int]:
    wait = own.grace_default if grace is None else grace
    if not own.grace_minimum <= wait <= own.grace_maximum:
        day = timedelta(days=1)
        raise InvalidEvent("grace_days", f"from {own.grace_minimum / day:g} to {own.grace_maximum / day:g}")
    now = clock.now()
    return now + int(wait.total_seconds()), now + int(own.erase_within.total_seconds())


def _count(stack: Stack, step: str, function: str, person: Person) -> Iterator[Content]:
    stores = file_stores(stack.variables_of(function).get("FILE_STORES", "[]"))
    with stack.acting_as(function), _weighing(stores) as weights:
        remaining: Remaining = resolve("STEP_VERIFY", settings.load(StepSettings).step_verify)
        counts = remaining(person)
    places = {store.name: (store.bucket, person.fill(store.prefix)) for store in stores}
    for store, count in counts.items():
        place = places.get(store)
        # A listing that was never seen weighs nothing that we know of.
        weight = weights.get(place) if place else None
        yield Content(step=step, store=store, count=count, bytes=weight)


@contextmanager
def _weighing(stores: Sequence[FileStore]) -> Iterator[Weights]:
    """Sum up what passes by in answers of ListObjectVersions, so that nothing is listed twice for its size."""
    weights: Weights = Counter()

    def weigh(response_dict: Mapping[str, Any], **_: object) -> None:
        if response_dict["status_code"] == HTTPStatus.OK:
            place, size = _weight(response_dict["body"])
            weights[place] += size

    watched = [aws.client("s3", region=region) for region in {store.region for store in stores}]
    for client in watched:
        client.meta.events.register(_LISTED, weigh)
    try:
        yield weights
    finally:
        for client in watched:
            client.meta.events.unregister(_LISTED, weigh)


def _weight(listing: bytes) -> tuple[tuple[str, str], int]:
    """(bucket, prefix) and bytes of one page. Before it is parsed: the deletion's own parser passes sizes by."""
    root = ElementTree.fromstring(listing)  # noqa: S314 (botocore parses the same answers of AWS with it)
    namespace = root.tag.removesuffix("ListVersionsResult")
    prefix = root.findtext(f"{namespace}Prefix", "")
    if root.findtext(f"{namespace}EncodingType") == "url":
        prefix = unquote(prefix)
    sizes = (int(size.text or 0) for size in root.iter(f"{namespace}Size"))
    return (root.findtext(f"{namespace}Name", ""), prefix), sum(sizes)
