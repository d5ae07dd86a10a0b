"""Why S3 denies a delete: it has one code for a lock and for a missing permission, so it is asked."""

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from handlers.core import clock
from handlers.core.errors import AccessDenied, StoreMissing, StoreRefused
from handlers.steps._bucket import Bucket
from handlers.steps._files import Entry, Kind

ASKED = 50
"""How many denied versions are asked for their locks, the newest, as their retention ends last where a bucket gives all
the same; the others count as locked alike. So the time that is found may be too early: then the request is tried again
at that time, and held again."""
CLOCKS = 600
"""Seconds by which S3's clock and ours may differ."""
_LOOK_AGAIN = 60
"""Seconds to wait for a retention that has ended by our clock alone."""

_NO_LOCK = frozenset({"NoSuchObjectLockConfiguration", "ObjectLockConfigurationNotFoundError"})
_GONE = frozenset({"NoSuchKey", "NoSuchVersion"})


@dataclass(slots=True, kw_only=True)
class Locks:
    """The versions of one place that were denied because they are locked."""

    bucket: Bucket
    since: int
    """Epoch seconds at which the deleting began: a retention that had ended CLOCKS before denies nothing."""
    number: int = 0
    """How many."""
    _until: int = 0
    _endless: bool = False
    _first: Entry | None = None
    _newest: list[Entry] = field(default_factory=list)

    @property
    def until(self) -> int | None:
        """Epoch seconds at which the last known retention ends; None with a legal hold, which has no end."""
        return None if self._endless else self._until

    def add(self, denied: Sequence[Entry]) -> None:
        """Count these. One is asked at once: a missing permission is told before the rest of the place is tried.

        Raises:
            AccessDenied: no lock explains the denial, so a permission is missing.
        """
        self.number += len(denied)
        self._newest = heapq.nlargest(ASKED, (*self._newest, *denied), key=_modified)
        if denied and self._first is None:
            self._first = self._newest[0]
            self._require_object_lock()
            self._ask(self._first)

    def ask(self) -> None:
        """Ask the newest of all what locks them.

        Raises:
            AccessDenied: as `add`.
        """
        for entry in self._newest:
            if entry != self._first:
                self._ask(entry)

    def _require_object_lock(self) -> None:
        try:
            answer = self.bucket.call("get_object_lock_configuration")
        except StoreMissing as missing:
            if missing.code not in _NO_LOCK:
                raise
            raise AccessDenied("DeleteObjects", "AccessDenied") from None
        if answer.get("ObjectLockConfiguration", {}).get("ObjectLockEnabled") != "Enabled":
            raise AccessDenied("DeleteObjects", "AccessDenied")

    def _ask(self, entry: Entry) -> None:
        if entry.kind is Kind.MARKER:
            # Delete markers cannot be locked (https://docs.aws.amazon.com/AmazonS3/latest/userguide/
            # object-lock-managing.html#object-lock-managing-delete-markers).
            raise AccessDenied("DeleteObjects", "AccessDenied")
        try:
            held, retained = self._legal_hold(entry), self._retained_until(entry)
        except StoreMissing as missing:
            if missing.code not in _GONE:
                raise
            self.number -= 1
            return
        if not held and retained <= self.since - CLOCKS:
            raise AccessDenied("DeleteObjects", "AccessDenied")
        now = clock.now()
        self._endless |= held
        self._until = max(self._until, retained if retained > now else now + _LOOK_AGAIN)

    def _legal_hold(self, entry: Entry) -> bool:
        hold = self._lock("get_object_legal_hold", "LegalHold", entry)
        return hold.get("Status") == "ON"

    def _retained_until(self, entry: Entry) -> int:
        retention = self._lock("get_object_retention", "Retention", entry)
        return math.ceil(retention["RetainUntilDate"].timestamp()) if "RetainUntilDate" in retention else 0

    def _lock(self, operation: str, member: str, entry: Entry) -> Mapping[str, Any]:
        try:
            answer = self.bucket.call(operation, Key=entry.key, VersionId=entry.id)
        except (StoreMissing, StoreRefused) as error:
            if error.code not in _NO_LOCK:
                raise
            return {}
        lock: Mapping[str, Any] = answer.get(member, {})
        return lock


def _modified(entry: Entry) -> int:
    return entry.modified
