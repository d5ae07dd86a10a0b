"""A bucket held in memory, for what moto cannot do: S3's own paging, refused keys, a death in the middle of a batch."""

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import count
from threading import Lock
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote_plus

from tests.wire import Call, Crash, refused
from tests.world import World


class Bucket:
    """S3's own order and paging, in memory: keys ascending, within a key the newest first, 1,000 a page."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._lock = Lock()
        self._numbers = count()
        self.entries: list[dict[str, Any]] = []
        self.batches: list[list[tuple[str, str]]] = []
        self.singles: list[tuple[str, str]] = []
        self.refuse: dict[tuple[str, str], list[str]] = {}
        """(key, version id) -> the codes that its next deletes are refused with."""
        self.locked: dict[tuple[str, str], Mapping[str, Any]] = {}
        """(key, version id) -> its "Retention" or "LegalHold"; its deletes are denied."""
        self.object_lock = ""
        """"Enabled", or no configuration of Object Lock at all."""
        self.crash_in_batch: int | None = None
        """How many of the next batch are deleted before the process dies."""
        for operation, act in {
            "ListObjectVersions": self._list,
            "DeleteObjects": self._delete_objects,
            "DeleteObject": self._delete_object,
            "ListMultipartUploads": lambda _: ok(IsTruncated=False),
            "GetObjectLockConfiguration": self._lock_configuration,
            "GetObjectRetention": lambda call: self._lock_of(call, "Retention"),
            "GetObjectLegalHold": lambda call: self._lock_of(call, "LegalHold"),
        }.items():
            world.wire.answers[operation] = act

    def put(self, key: str, *, marker: bool = False, modified: int = 1_000_000) -> str:
        """One more version; its id."""
        version = f"v{next(self._numbers)}"
        entry = {"Key": key, "VersionId": version, "LastModified": datetime.fromtimestamp(modified, UTC)}
        self.entries.insert(0, {**entry, "marker": marker})
        return version

    def keys(self) -> set[str]:
        """What is left."""
        return {entry["Key"] for entry in self.entries}

    def _list(self, call: Call) -> Any:
        assert "EncodingType" not in call.params
        ordered = sorted(self.entries, key=lambda entry: entry["Key"])
        wanted = [entry for entry in ordered if entry["Key"].startswith(call.params["Prefix"])]
        start = 0
        if "KeyMarker" in call.params:
            marker = (call.params["KeyMarker"], call.params["VersionIdMarker"])
            start = next(i for i, entry in enumerate(wanted) if (entry["Key"], entry["VersionId"]) == marker) + 1
        page, more = wanted[start : start + call.params["MaxKeys"]], len(wanted) > start + call.params["MaxKeys"]
        shown = [{**entry, "Key": quote_plus(entry["Key"])} for entry in page]
        return ok(
            EncodingType="url",
            Versions=[entry for entry in shown if not entry["marker"]],
            DeleteMarkers=[entry for entry in shown if entry["marker"]],
            IsTruncated=more,
            **({"NextKeyMarker": shown[-1]["Key"], "NextVersionIdMarker": shown[-1]["VersionId"]} if more else {}),
        )

    def _delete_objects(self, call: Call) -> Any:
        wanted = [(entry["Key"], entry["VersionId"]) for entry in call.params["Delete"]["Objects"]]
        self.batches.append(wanted)
        if self.crash_in_batch is not None:
            self._remove(set(wanted[: self.crash_in_batch]))
            self.crash_in_batch = None
            raise Crash
        codes = {one: self.refuse[one].pop(0) for one in wanted if self.refuse.get(one)}
        codes |= {one: "AccessDenied" for one in wanted if one in self.locked}
        self._remove(set(wanted) - set(codes))
        return ok(Errors=[{"Key": key, "VersionId": id_, "Code": code} for (key, id_), code in codes.items()])

    def _delete_object(self, call: Call) -> Any:
        one = (call.params["Key"], call.params["VersionId"])
        self.singles.append(one)
        if one in self.locked:
            return refused("AccessDenied", status=403)(call)
        self._remove({one})
        return ok()

    def _lock_configuration(self, call: Call) -> Any:
        if not self.object_lock:
            return refused("ObjectLockConfigurationNotFoundError", status=404)(call)
        return ok(ObjectLockConfiguration={"ObjectLockEnabled": self.object_lock})

    def _lock_of(self, call: Call, field: str) -> Any:
        lock = self.locked.get((call.params["Key"], call.params["VersionId"]), {})
        if field not in lock:
            return refused("NoSuchObjectLockConfiguration", status=404)(call)
        return ok(**{field: lock[field]})

    def _remove(self, gone: set[tuple[str, str]]) -> None:
        with self._lock:
            self.entries = [entry for entry in self.entries if (entry["Key"], entry["VersionId"]) not in gone]


def ok(**fields: Any) -> Any:
    """S3 answers with this, without doing anything."""
    return SimpleNamespace(status_code=200, headers={}), {"ResponseMetadata": {"HTTPStatusCode": 200}, **fields}
