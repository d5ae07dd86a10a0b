"""DeleteFiles under Object Lock: what is locked stays and holds the request, everything else goes first.

Checked over S3's wire format, against a bucket held in memory (`Bucket`), as are denials without a lock and clocks that
differ. Both modes of retention and a legal hold are checked on the emulator's Object Lock too, in whole requests
(tests/emulator/test_files.py).
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from handlers.core.errors import AccessDenied, RetentionLocked
from handlers.core.stores import FileStore, to_json
from handlers.steps._locks import ASKED, CLOCKS
from tests.unit.handlers.steps.bucket import Bucket, ok
from tests.wire import refused
from tests.world import BUCKET, USER, World

pytestmark = pytest.mark.exhaustive

PREFIX = f"users/{USER}/"
STEP = "DeleteFiles"


def until(seconds: int, mode: str = "GOVERNANCE") -> Mapping[str, Any]:
    return {"Retention": {"Mode": mode, "RetainUntilDate": datetime.fromtimestamp(seconds, UTC)}}


HOLD: Mapping[str, Any] = {"LegalHold": {"Status": "ON"}}


def lock(bucket: Bucket, key: str, how: Mapping[str, Any], *, modified: int = 1_000_000) -> tuple[str, str]:
    """One more version, under lock."""
    bucket.object_lock = "Enabled"
    one = (f"{PREFIX}{key}", bucket.put(f"{PREFIX}{key}", modified=modified))
    bucket.locked[one] = how
    return one


@pytest.mark.parametrize("mode", ["GOVERNANCE", "COMPLIANCE"])
def test_everything_that_is_not_locked_goes_first_and_the_request_is_held_until_the_last_retention_ends(
    world: World, bucket: Bucket, request_id: str, mode: str
) -> None:
    kept = {lock(bucket, f"{number}", until(world.now + 1000 * (4 - number), mode)) for number in (1, 2, 3)}
    for number in range(2500):
        bucket.put(f"{PREFIX}{number % 700}", marker=number % 4 == 0)

    with pytest.raises(RetentionLocked) as raised:
        world.run(STEP, request_id)

    record = world.record(request_id)
    assert {(entry["Key"], entry["VersionId"]) for entry in bucket.entries} == kept
    assert (raised.value.locked, raised.value.until) == (3, world.now + 3000)
    assert (record["status"], record["due_at"]) == ("HELD", world.now + 3000)
    assert {name: record["last_error"][name] for name in ("error", "locked", "step")} == {
        "error": "RetentionLocked",
        "locked": 3,
        "step": STEP,
    }
    assert world.deleted(request_id, STEP) == {"photos": 2500}
    assert record["steps"][STEP]["batch"] == {}
    assert PREFIX not in str(raised.value)


def test_a_legal_hold_has_no_end(world: World, bucket: Bucket, request_id: str) -> None:
    lock(bucket, "1", until(world.now + 1000))
    lock(bucket, "2", {**until(world.now + 2000), **HOLD})

    with pytest.raises(RetentionLocked) as raised:
        world.run(STEP, request_id)

    assert (raised.value.locked, raised.value.until) == (2, None)
    assert "due_at" not in world.record(request_id)


def test_a_version_whose_retention_is_past_goes(world: World, bucket: Bucket, request_id: str) -> None:
    locked = lock(bucket, "1", until(world.now + 1000))
    with pytest.raises(RetentionLocked):
        world.run(STEP, request_id)
    world.now += 1001
    del bucket.locked[locked]
    world.change(request_id, status="PROCESSING", owner="arn:aws:states:eu-west-1:123456789012:execution:deletion:one")

    answer = world.run(STEP, request_id)

    assert answer["done"]
    assert bucket.entries == []
    assert world.deleted(request_id, STEP) == {"photos": 1}


def test_other_stores_are_emptied_before_the_request_is_held(world: World, bucket: Bucket, request_id: str) -> None:
    stores = [FileStore(name=name, bucket=BUCKET, prefix=f"{name}/{{user_id}}/") for name in ("archive", "photos")]
    world.more_environment = {"FILE_STORES": to_json(stores)}
    bucket.object_lock = "Enabled"
    locked = (f"archive/{USER}/1", bucket.put(f"archive/{USER}/1"))
    bucket.locked[locked] = until(world.now + 500)
    bucket.put(f"photos/{USER}/1")

    with pytest.raises(RetentionLocked) as raised:
        world.run(STEP, request_id)

    assert bucket.keys() == {f"archive/{USER}/1"}
    assert (raised.value.locked, raised.value.until) == (1, world.now + 500)
    assert world.deleted(request_id, STEP)["photos"] == 1


@pytest.mark.parametrize("batch", [60, 8000])
def test_the_newest_of_many_locked_versions_are_asked_and_all_are_counted(
    world: World, bucket: Bucket, request_id: str, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handlers.steps._files.PAGE", 30)
    monkeypatch.setattr("handlers.steps._files.BATCH", batch)
    for number in range(3 * ASKED):
        # Key by key older and newer in turn; what was written later is retained for longer.
        age = number * 7 % (3 * ASKED)
        lock(bucket, f"{number:04}", until(world.now + 1000 + age), modified=1_000_000 + age)

    with pytest.raises(RetentionLocked) as raised:
        world.run(STEP, request_id)

    assert (raised.value.locked, raised.value.until) == (3 * ASKED, world.now + 1000 + 3 * ASKED - 1)
    asked = {call.params["VersionId"] for call in world.wire.of("GetObjectRetention")}
    newest = sorted(bucket.entries, key=lambda entry: entry["LastModified"])[-ASKED:]
    assert asked >= {entry["VersionId"] for entry in newest}
    assert len(world.wire.of("GetObjectRetention")) <= ASKED + 1


def test_a_missing_permission_is_told_after_the_first_batch(
    world: World, bucket: Bucket, request_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handlers.steps._files.PAGE", 10)
    monkeypatch.setattr("handlers.steps._files.BATCH", 10)
    for number in range(100):
        lock(bucket, f"{number:04}", {})

    with pytest.raises(AccessDenied):
        world.run(STEP, request_id)

    assert len(bucket.batches) == 1


def test_a_locked_key_that_goes_by_itself_is_held_like_any_other(world: World, bucket: Bucket, request_id: str) -> None:
    lock(bucket, "\x01", until(world.now + 10))

    with pytest.raises(RetentionLocked) as raised:
        world.run(STEP, request_id)

    assert (raised.value.locked, raised.value.until) == (1, world.now + 10)


@pytest.mark.parametrize("object_lock", ["", "Enabled"])
@pytest.mark.parametrize("marker", [False, True])
def test_a_version_that_nothing_locks_is_denied_for_want_of_a_permission(
    world: World, bucket: Bucket, request_id: str, object_lock: str, marker: bool
) -> None:
    key = f"{PREFIX}1"
    bucket.locked[key, bucket.put(key, marker=marker)] = {}
    bucket.object_lock = object_lock

    with pytest.raises(AccessDenied) as raised:
        world.run(STEP, request_id)

    assert str(raised.value) == "DeleteObjects answered AccessDenied"
    assert bucket.keys() == {key}
    assert world.record(request_id)["status"] == "PROCESSING"


def test_a_retention_that_ended_before_is_no_reason_for_a_denial(world: World, bucket: Bucket, request_id: str) -> None:
    lock(bucket, "1", until(world.now - CLOCKS))

    with pytest.raises(AccessDenied):
        world.run(STEP, request_id)


@pytest.mark.parametrize("ended", [0, 1, CLOCKS - 1])
def test_a_retention_that_ended_by_our_clock_alone_is_looked_at_again_a_minute_later(
    world: World, bucket: Bucket, request_id: str, ended: int
) -> None:
    lock(bucket, "1", until(world.now - ended))

    with pytest.raises(RetentionLocked) as raised:
        world.run(STEP, request_id)

    assert (raised.value.locked, raised.value.until) == (1, world.now + 60)


@pytest.mark.parametrize("operation", ["GetObjectLockConfiguration", "GetObjectRetention", "GetObjectLegalHold"])
def test_who_may_not_ask_for_locks_is_told_which_permission_is_missing(
    world: World, bucket: Bucket, request_id: str, operation: str
) -> None:
    lock(bucket, "1", until(world.now + 1000))
    world.wire.before(operation, refused("AccessDenied", status=403))

    with pytest.raises(AccessDenied) as raised:
        world.run(STEP, request_id)

    assert str(raised.value) == f"{operation} answered AccessDenied"


def test_a_version_that_vanishes_while_it_is_asked_is_no_error(world: World, bucket: Bucket, request_id: str) -> None:
    locked = lock(bucket, "1", until(world.now + 1000))

    def vanish(call: Any) -> Any:
        bucket.entries.clear()
        bucket.locked.pop(locked)
        return refused("NoSuchVersion", status=404)(call)

    world.wire.before("GetObjectLegalHold", vanish)

    answer = world.run_until_done(STEP, request_id)

    assert answer["done"]


def test_a_bucket_with_a_lock_that_is_not_enabled_locks_nothing(world: World, bucket: Bucket, request_id: str) -> None:
    lock(bucket, "1", until(world.now + 1000))
    world.wire.before("GetObjectLockConfiguration", lambda _: ok(ObjectLockConfiguration={}))

    with pytest.raises(AccessDenied):
        world.run(STEP, request_id)
