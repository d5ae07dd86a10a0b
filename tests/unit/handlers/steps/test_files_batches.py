"""DeleteFiles with several batches and calls side by side. Pages and batches are small here, so that there are many."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import botocore.exceptions
import botocore.session
import pytest
from botocore.parsers import ResponseParserError

from handlers.core.errors import AccessDenied, OwnershipLost, StoreUnavailable, Superseded
from handlers.core.s3_listing import Parsers
from handlers.steps._deleting import CALLS, Window
from handlers.steps._files import AHEAD, Entry, Kind, Page, batches
from handlers.steps.delete_files import PROVE_AGAIN
from tests.unit.handlers.steps.bucket import Bucket, ok
from tests.wire import Act, Call, Crash, connection_lost, raises, refused
from tests.world import BUCKET, USER, Context, World

pytestmark = pytest.mark.long

PREFIX = f"users/{USER}/"
STEP = "DeleteFiles"
SIZE, BATCH = 5, 20
ENTRIES = 23
"""Of users that there are many of: two batches."""
LOST: Mapping[str, object] = {"fence": 99}
"""What every transition that takes a request from its worker changes."""
SECONDS = 20.0
"""How long one thread waits for another before the test fails."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handlers.steps._files.PAGE", SIZE)
    monkeypatch.setattr("handlers.steps._files.BATCH", BATCH)
    monkeypatch.setattr("handlers.steps._deleting.PAGE", SIZE)


def fill(bucket: Bucket, entries: int, *, keys: int, markers: bool = True, modified: int = 1_000_000) -> None:
    for number in range(entries):
        bucket.put(f"{PREFIX}{number % keys:04}", marker=markers and number % 3 == 0, modified=modified + number)


def meanwhile(bucket: Bucket, operation: str, act: Callable[[Call], object]) -> None:
    """Do something within each call of an operation, before the bucket answers."""
    answer = bucket.world.wire.answers[operation]

    def both(call: Call) -> Any:
        act(call)
        return answer(call)

    bucket.world.wire.answers[operation] = both


@pytest.mark.parametrize("keys", [1, 2, 7, 30, 130])
@pytest.mark.parametrize("markers", [False, True])
def test_many_batches_leave_nothing_and_each_entry_is_listed_and_deleted_once(
    world: World, bucket: Bucket, request_id: str, keys: int, markers: bool
) -> None:
    fill(bucket, 130, keys=keys, markers=markers)

    answer = world.run(STEP, request_id)

    assert answer["done"]
    assert bucket.entries == []
    assert world.deleted(request_id, STEP) == {"photos": 130}
    sent = [one for batch in bucket.batches for one in batch]
    assert len(sent) == len(set(sent)) == 130
    assert max(map(len, bucket.batches)) == SIZE
    assert len(world.wire.of("ListObjectVersions")) == 130 // SIZE + 1


def test_one_write_of_the_record_stands_for_a_whole_batch(world: World, bucket: Bucket, request_id: str) -> None:
    fill(bucket, 130, keys=130)
    before = len(world.wire.of("UpdateItem"))

    world.run(STEP, request_id)

    writes = world.wire.of("UpdateItem")[before:]
    begin, *batches, finish = [call.params["ExpressionAttributeValues"] for call in writes]
    sizes = [int(values[":batch"]["M"]["size"]["N"]) for values in batches]
    assert ":batch" not in begin
    assert ":batch" not in finish
    assert sum(sizes) == 130
    assert len(sizes) == 130 // BATCH + 1


def test_the_next_batch_is_listed_while_one_is_being_deleted(world: World, bucket: Bucket, request_id: str) -> None:
    fill(bucket, 60, keys=60)
    listed, seen = threading.Event(), []
    # The page after a batch is fetched in any case.
    behind = f"{PREFIX}{BATCH + SIZE - 1:04}"

    def look(call: Call) -> None:
        if call.params.get("KeyMarker", "") >= behind:
            listed.set()

    meanwhile(bucket, "ListObjectVersions", look)
    meanwhile(bucket, "DeleteObjects", lambda _: seen.append(listed.wait(SECONDS)))

    world.run(STEP, request_id)

    assert all(seen)
    assert bucket.entries == []


def test_several_calls_delete_side_by_side(world: World, bucket: Bucket, request_id: str) -> None:
    fill(bucket, BATCH, keys=BATCH)
    together = threading.Barrier(BATCH // SIZE)
    meanwhile(bucket, "DeleteObjects", lambda _: together.wait(SECONDS))

    answer = world.run(STEP, request_id)

    assert answer["done"]
    assert len(bucket.batches) == BATCH // SIZE


def test_at_most_two_batches_are_in_memory(world: World, bucket: Bucket, request_id: str) -> None:
    fill(bucket, 300, keys=300)
    held: list[int] = []
    pages: list[Call] = []
    meanwhile(bucket, "ListObjectVersions", pages.append)
    meanwhile(bucket, "DeleteObjects", lambda _: held.append(len(pages) * SIZE - (300 - len(bucket.entries))))

    world.run(STEP, request_id)

    assert max(held) <= 2 * BATCH + (AHEAD + 1) * SIZE


@pytest.mark.parametrize("keys", [1, 9, 130])
def test_the_entry_that_the_listing_goes_on_after_is_never_in_the_batch_that_goes(keys: int) -> None:
    listed = [
        Entry(key=f"{number * keys // 130:04}", id=f"v{number}", kind=Kind.VERSION, modified=1) for number in range(130)
    ]
    seen: list[tuple[Entry, ...]] = []

    def listing() -> Iterator[Page]:
        for start in range(0, 130, SIZE):
            seen.append(tuple(listed[start : start + SIZE]))
            yield Page(partial(tuple, seen[-1]), {"KeyMarker": "more"} if start + SIZE < 130 else None)

    found = [(seen[-1][-1], batch.entries) for batch in batches("photos", listing())]

    assert [entry for _, entries in found for entry in entries] == listed
    assert not any(last in entries for last, entries in found if last is not listed[-1])


@pytest.mark.invariant("I5")
@pytest.mark.parametrize("keys", [1, 4, 23])
@pytest.mark.parametrize("when", ["before", "after", "answer lost"])
def test_a_death_at_any_call_of_several_batches_leaves_exact_counts(
    world: World, bucket: Bucket, request_id: str, keys: int, when: str
) -> None:
    del request_id
    number, happened = 0, True
    while happened:
        number += 1
        user = f"user-{number}"
        world.make_user(user)
        request = world.claimed(user=user)
        for entry in range(ENTRIES):
            bucket.put(f"users/{user}/{entry % keys:04}", marker=entry % 3 == 0)
        if when == "before":
            world.wire.at(number, raises(Crash()))
        else:
            world.wire.after(number, Crash if when == "after" else connection_lost)

        with contextlib.suppress(Crash):
            world.run(STEP, request)
        happened = not world.wire.pending()
        world.wire.calm()
        world.run_until_done(STEP, request)

        assert bucket.entries == [], f"{when} call {number}"
        assert world.deleted(request, STEP) == {"photos": ENTRIES}, f"{when} call {number}"
    assert number > 15


@pytest.mark.parametrize("keys", [1, 4, 23])
def test_wherever_time_runs_short_in_several_batches_the_counts_stay_exact(
    world: World, bucket: Bucket, keys: int
) -> None:
    for looks in range(22):
        user = f"user-{looks}"
        world.make_user(user)
        request = world.claimed(user=user)
        for entry in range(ENTRIES):
            bucket.put(f"users/{user}/{entry % keys:04}", marker=entry % 3 == 0)

        answer = world.run(STEP, request, context=Context(looks=looks))
        world.run_until_done(STEP, request)

        assert bucket.entries == []
        assert world.deleted(request, STEP) == {"photos": ENTRIES}
    assert answer["done"]


def test_what_is_in_flight_when_time_runs_short_is_awaited_and_the_rest_of_the_batch_is_left_recorded(
    world: World, bucket: Bucket, request_id: str
) -> None:
    fill(bucket, BATCH, keys=BATCH)

    answer = world.run(STEP, request_id, context=Context(looks=11))

    assert answer == {"done": False, "wait": 0}
    gone = SIZE * len(bucket.batches)
    assert 0 < gone < BATCH
    assert len(bucket.entries) == BATCH - gone
    assert world.record(request_id)["steps"][STEP]["batch"]["size"] == BATCH
    assert world.deleted(request_id, STEP) == {}


def test_after_an_error_no_call_is_in_flight_and_no_thread_is_left(
    world: World, bucket: Bucket, request_id: str
) -> None:
    fill(bucket, 60, keys=60)
    threads = threading.active_count()
    world.wire.before("DeleteObjects", refused("AccessDenied", status=403))

    with pytest.raises(AccessDenied):
        world.run(STEP, request_id)

    assert threading.active_count() == threads
    assert len(bucket.entries) == 60 - sum(map(len, bucket.batches))


def test_what_was_deleted_while_the_status_write_failed_is_found_by_looking(
    world: World, bucket: Bucket, request_id: str
) -> None:
    fill(bucket, 50, keys=50)
    meanwhile(
        bucket, "DeleteObjects", lambda _: world.wire.before("UpdateItem", refused("InternalServerError"), times=9)
    )
    with pytest.raises(StoreUnavailable):
        world.run(STEP, request_id)
    left = len(bucket.entries)
    world.wire._before.clear()  # noqa: SLF001
    world.wire.answers["DeleteObjects"] = bucket._delete_objects  # noqa: SLF001

    world.run_until_done(STEP, request_id)

    assert left < 50
    assert bucket.entries == []
    assert world.deleted(request_id, STEP) == {"photos": 50}


@pytest.mark.parametrize("most", [1, 3])
def test_calls_become_as_small_as_the_bucket_takes_them(
    world: World, bucket: Bucket, request_id: str, most: int
) -> None:
    fill(bucket, 60, keys=60)
    answer = world.wire.answers["DeleteObjects"]

    def small_ones(call: Call) -> Any:
        too_many = len(call.params["Delete"]["Objects"]) > most
        return refused("SlowDown", status=503)(call) if too_many else answer(call)

    world.wire.answers["DeleteObjects"] = small_ones

    done = world.run(STEP, request_id)

    assert done["done"]
    assert bucket.entries == []
    assert world.deleted(request_id, STEP) == {"photos": 60}
    assert world.sleeps


@pytest.fixture
def slow(world: World, bucket: Bucket) -> list[int]:
    """The bucket takes one entry at a time, and its time for each; how many it has taken is the list's length."""
    answer, taken = world.wire.answers["DeleteObjects"], []

    def one_at_a_time(call: Call) -> Any:
        if len(call.params["Delete"]["Objects"]) > 1:
            return refused("SlowDown", status=503)(call)
        world.now += PROVE_AGAIN
        taken.append(world.now)
        return answer(call)

    world.wire.answers["DeleteObjects"] = one_at_a_time
    return taken


@pytest.mark.invariant("I2")
@pytest.mark.parametrize("lost", [{"status": "HELD"}, {"owner": "another"}, {}])
def test_a_batch_that_takes_long_stops_soon_after_the_fence_is_lost(
    world: World, bucket: Bucket, request_id: str, slow: list[int], lost: Mapping[str, object]
) -> None:
    fill(bucket, BATCH, keys=BATCH)
    meanwhile(bucket, "DeleteObjects", lambda _: world.change(request_id, **LOST, **lost) if len(slow) == 4 else None)

    with pytest.raises((OwnershipLost, Superseded)):
        world.run(STEP, request_id)

    assert len(slow) == 5


def test_a_batch_that_takes_long_renews_the_lease_and_counts_once(
    world: World, bucket: Bucket, request_id: str, slow: list[int]
) -> None:
    fill(bucket, BATCH, keys=BATCH)
    leases: list[int] = []
    meanwhile(bucket, "DeleteObjects", lambda _: leases.append(world.record(request_id)["due_at"] - world.now))

    world.run_until_done(STEP, request_id)

    assert min(leases) >= 900 * 2 // 3 - PROVE_AGAIN
    assert len(slow) == BATCH
    assert world.deleted(request_id, STEP) == {"photos": BATCH}


def test_the_window_halves_after_a_refusal_and_grows_back_slowly() -> None:
    window = Window()
    assert (window.keys, window.calls) == (CALLS * SIZE, CALLS) or window.keys > CALLS * SIZE

    window.shrink(12)
    assert (window.keys, window.calls, window.refusals) == (6, 1, 1)
    for _ in range(20):
        window.shrink(2)
    assert (window.keys, window.calls) == (1, 1)
    window.grow()
    assert (window.keys, window.refusals) == (CALLS * SIZE, 0)


@pytest.mark.parametrize("code", ["SlowDown", "Throttling"])
def test_a_listing_that_is_throttled_is_repeated_while_there_is_time(
    world: World, bucket: Bucket, request_id: str, code: str
) -> None:
    fill(bucket, 50, keys=50)
    world.wire.before("ListObjectVersions", refused(code, status=503), times=40)

    first = world.run(STEP, request_id, context=Context(looks=20))
    world.run_until_done(STEP, request_id)

    assert first == {"done": False, "wait": 0}
    assert world.record(request_id)["failures"] == 0
    assert world.deleted(request_id, STEP) == {"photos": 50}


FAILURES: Mapping[str, Act] = {
    "SlowDown": refused("SlowDown", status=503),
    "InternalError": refused("InternalError", status=500),
    "ServiceUnavailable": refused("ServiceUnavailable", status=503),
    "timeout": raises(botocore.exceptions.ReadTimeoutError(endpoint_url="https://slow")),
    "unreadable": raises(ResponseParserError()),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("operation", ["ListMultipartUploads", "ListObjectVersions", "DeleteObjects"])
def test_a_call_that_fails_is_repeated_while_there_is_time(
    world: World, bucket: Bucket, request_id: str, operation: str, failure: str
) -> None:
    fill(bucket, 50, keys=50)
    world.wire.before(operation, FAILURES[failure], times=7)

    answer = world.run(STEP, request_id)

    assert answer["done"]
    assert len(world.sleeps) >= (1 if operation == "DeleteObjects" else 7)
    assert world.deleted(request_id, STEP) == {"photos": 50}


@pytest.mark.parametrize("operation", ["ListMultipartUploads", "ListObjectVersions", "DeleteObjects"])
def test_a_call_that_fails_until_time_runs_short_is_left_to_the_next_invocation(
    world: World, bucket: Bucket, request_id: str, operation: str
) -> None:
    fill(bucket, 50, keys=50)
    world.wire.before(operation, refused("InternalError", status=500), times=50)

    first = world.run(STEP, request_id, context=Context(looks=25))
    world.wire._before.clear()  # noqa: SLF001
    world.run_until_done(STEP, request_id)

    assert first == {"done": False, "wait": 0}
    assert world.record(request_id)["failures"] == 0
    assert world.deleted(request_id, STEP) == {"photos": 50}


def test_no_page_is_fetched_once_time_runs_short(world: World, bucket: Bucket, request_id: str) -> None:
    # One batch: while it is listed, nothing else looks at the clock.
    fill(bucket, BATCH - SIZE, keys=BATCH - SIZE)
    context = Context()

    def run_short(_: Call) -> None:
        context.looks = 0

    meanwhile(bucket, "ListObjectVersions", run_short)

    answer = world.run(STEP, request_id, context=context)

    assert answer == {"done": False, "wait": 0}
    assert len(world.wire.of("ListObjectVersions")) == 1


def test_a_listing_that_cannot_be_read_is_never_taken_for_an_empty_one(
    world: World, bucket: Bucket, request_id: str
) -> None:
    fill(bucket, 1, keys=1)
    body = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
    s3: Any = botocore.session.get_session().get_service_model("s3")
    shape = s3.operation_model("ListObjectVersions").output_shape
    response = {"status_code": 200, "headers": {}, "body": body, "context": {}}
    listing = Parsers().create_parser("rest-xml").parse(response, shape)
    world.wire.before("ListObjectVersions", lambda _: ok(**{**listing, "ResponseMetadata": {"HTTPStatusCode": 200}}))

    with pytest.raises(StoreUnavailable) as raised:
        world.run(STEP, request_id)

    assert str(raised.value) == "ListObjectVersions answered ResponseParserError"


def test_older_versions_of_a_key_are_no_survivors_where_the_version_that_ended_the_batch_is_gone(
    world: World, bucket: Bucket, request_id: str
) -> None:
    fill(bucket, 4 * BATCH, keys=1, markers=False)
    world.wire.before("DeleteObjects", raises(Crash()), times=CALLS)
    with pytest.raises(Crash):
        world.run(STEP, request_id)
    world.wire._before.clear()  # noqa: SLF001
    recorded = world.record(request_id)["steps"][STEP]["batch"]
    bucket._remove({(f"{PREFIX}0000", recorded["next_id"])})  # noqa: SLF001
    before = len(world.wire.of("UpdateItem"))

    world.run_until_done(STEP, request_id)

    values = [call.params["ExpressionAttributeValues"] for call in world.wire.of("UpdateItem")[before:]]
    sizes = [int(one[":batch"]["M"]["size"]["N"]) for one in values if "size" in one.get(":batch", {}).get("M", {})]
    assert recorded["kind"] == "version"
    assert sizes[0] == recorded["size"]
    assert max(sizes) < BATCH + SIZE
    assert bucket.entries == []
    assert world.deleted(request_id, STEP) == {"photos": 4 * BATCH - 1}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("operation", ["DeleteObject", "AbortMultipartUpload", "ListParts"])
def test_what_goes_by_itself_is_repeated_too_when_it_fails(
    world: World, bucket: Bucket, request_id: str, operation: str, failure: str
) -> None:
    bucket.put(f"{PREFIX}\x01")
    world.begin_upload(f"{PREFIX}film")
    del world.wire.answers["ListMultipartUploads"]
    world.wire.before(operation, FAILURES[failure], times=3)

    answer = world.run(STEP, request_id)

    assert answer["done"]
    assert (bucket.entries, world.uploads(PREFIX)) == ([], [])
    assert world.deleted(request_id, STEP) == {"photos": 1, "photos.uploads": 1}
    assert world.sleeps


def test_pages_that_are_shorter_than_asked_are_not_taken_for_the_end(
    world: World, bucket: Bucket, request_id: str
) -> None:
    fill(bucket, 60, keys=7)
    answer = world.wire.answers["ListObjectVersions"]

    def short(call: Call) -> Any:
        short_call = Call(call.operation, {**call.params, "MaxKeys": 2}, call.wire)
        return answer(short_call)

    world.wire.answers["ListObjectVersions"] = short

    done = world.run(STEP, request_id)

    assert done["done"]
    assert len(world.wire.of("ListObjectVersions")) == 60 // 2 + 1
    assert bucket.entries == []
    assert world.deleted(request_id, STEP) == {"photos": 60}


def test_an_entry_that_is_listed_on_both_sides_of_a_page_s_edge_counts_once(
    world: World, bucket: Bucket, request_id: str
) -> None:
    fill(bucket, 60, keys=60, markers=False)
    answer = world.wire.answers["ListObjectVersions"]
    pages: list[Any] = []

    def overlapping(call: Call) -> Any:
        status, page = answer(call)
        repeated = pages[-1]["Versions"][-1:] if "KeyMarker" in call.params else []
        pages.append(page)
        return status, {**page, "Versions": [*repeated, *page["Versions"]]}

    world.wire.answers["ListObjectVersions"] = overlapping

    world.run(STEP, request_id)

    assert bucket.entries == []
    assert world.deleted(request_id, STEP) == {"photos": 60}


def test_an_error_that_names_no_key_of_its_call_sends_all_of_them_again(
    world: World, bucket: Bucket, request_id: str
) -> None:
    fill(bucket, 3, keys=3)
    mangled = {"Key": f"{PREFIX}mangled", "VersionId": "v0", "Code": "InternalError"}
    world.wire.before("DeleteObjects", lambda _: ok(Errors=[mangled]))

    world.run(STEP, request_id)

    assert len({one for batch in bucket.batches for one in batch}) == 3
    assert len(bucket.batches) > 1
    assert world.deleted(request_id, STEP) == {"photos": 3}


def test_the_verification_lists_every_page_of_every_kind(world: World, bucket: Bucket, request_id: str) -> None:
    fill(bucket, 53, keys=9)
    uploads = [world.begin_upload(f"{PREFIX}{number}") for number in range(2)]
    del world.wire.answers["ListMultipartUploads"]

    event = {"deletion_request_id": request_id, "owner": "me", "step": STEP, "verify": True}
    answer = world.run(STEP, event=event)

    assert answer == {"remaining": {"photos": 53, "photos.uploads": 2}}
    assert len(world.uploads(PREFIX)) == len(uploads)
    assert {call.params["Bucket"] for call in world.wire.of("ListObjectVersions")} == {BUCKET}
