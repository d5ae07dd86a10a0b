"""Deletes the user's items in the configured DynamoDB tables.

Done when: a fresh listing of every store finds nothing: a consistent query of the table, or a query of the index with
each item that it names read consistently from the table.
Safe to repeat because: each batch is one transaction with the progress write, so a worker without the fence deletes
nothing. Each delete asks that the item is there, and in a store with an index that it still carries the user's value:
an item that was given to somebody else meanwhile stays, and the counts are exact, whatever is lost on the way.
Leaves open: indexes are emptied by DynamoDB itself, later than the table; an index may be late by more than INDEX_DELAY
with an item just written (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html); backups and
point-in-time recovery keep deleted items as long as they are configured to (https://docs.aws.amazon.com/amazondynamodb/
latest/developerguide/PointInTimeRecovery.html); streams keep them for 24 hours; the replicas of a global table follow
within about a second, and a write in another Region at the same time wins if it is the later one
(https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/V2globaltables_HowItWorks.html).
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from handlers.core import settings
from handlers.core.checkpoint import Again, Checkpoint, Done
from handlers.core.errors import StoreUnfit, Throttled
from handlers.core.fenced import FencedDeletes
from handlers.core.frame import step_handler
from handlers.core.patience import OutOfTime, patiently
from handlers.core.person import Person
from handlers.core.stores import RecordStore
from handlers.steps._record_checks import store_problems
from handlers.steps._records import Key, UserItems, ahead

INDEX_DELAY = timedelta(seconds=3)
"""Wait before an index that shows nothing is asked again: it follows its table "within a fraction of a second, under
normal conditions" (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSettings:
    """What the step needs besides the frame's settings."""

    record_stores: tuple[RecordStore, ...]
    """The tables that hold the user's items."""


@step_handler(StoreUnfit)
def handler(checkpoint: Checkpoint) -> Done | Again:
    """Empty one store after the other."""
    try:
        for store in _stores():
            _empty(store, checkpoint)
    except OutOfTime:
        return Again()
    return Done()


def remaining(person: Person) -> Mapping[str, int]:
    """How many items each store still has, listed afresh."""
    stores = _stores()
    left = {store.name: _count(store, person) for store in stores}
    late = [store for store in stores if store.index is not None]
    if late and not any(left.values()):
        time.sleep(INDEX_DELAY.total_seconds())
        left |= {store.name: _count(store, person) for store in late}
    return left


def preflight(person: Person) -> Sequence[str]:
    """What is wrong with the tables and indexes as they are now, and with the step's rights to read them.

    That it may delete is not tried: nothing is written before the first step.
    """
    return [problem for store in _stores() for problem in store_problems(store, person)]


def _stores() -> tuple[RecordStore, ...]:
    own: RecordSettings = settings.load(RecordSettings)
    return own.record_stores


def _count(store: RecordStore, person: Person) -> int:
    return sum(len(page) for page in UserItems(store=store, person=person).pages())


def _empty(store: RecordStore, checkpoint: Checkpoint) -> None:
    reading = partial(patiently, has_time=checkpoint.has_time, refused=(Throttled,))
    items = UserItems(store=store, person=checkpoint.person, reading=reading)
    deletes = FencedDeletes(checkpoint, store.name)
    while _pass_through(items, deletes):
        pass


def _pass_through(items: UserItems, deletes: FencedDeletes) -> bool:
    """Delete what one listing from front to end finds; whether it found anything."""
    found, waiting = False, list[Key]()

    def delete() -> None:
        deletes.delete([items.delete_of(key) for key in waiting])
        waiting.clear()

    with ahead(items.pages()) as pages:
        for page in pages:
            found = found or bool(page)
            waiting += page
            # A page of large items holds two of them, a transaction many.
            if len(waiting) >= deletes.size:
                delete()
        delete()
    return found
