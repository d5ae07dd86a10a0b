"""A step's durable checkpoint: begin, progress, finish.

A step's author sees only a Checkpoint that has begun: begin runs before the handler's first line, finish after its
last, and neither can be left out or called twice. What the author must do is one thing: call `progress`, which proves
the fence, before each batch of effects, or let `delete_items` do both in one transaction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from typing import Any, Protocol

from handlers.core import clock, metrics, telemetry
from handlers.core.errors import (
    DeletionError,
    Held,
    OwnershipLost,
    PatienceSpent,
    RequestUnknown,
    Superseded,
    UndoInFlight,
)
from handlers.core.events import TaskInput
from handlers.core.person import Identity, Person
from handlers.core.record import Record, StepRecord
from handlers.core.request_table import ConditionFailed, RequestTable
from handlers.core.states import StepStatus
from handlers.core.transition import Transition
from handlers.core.transitions import FINISH, HOLD_LOCKED, HOLD_LOCKED_UNTIL, NOTE_LINKS, PROGRESS, REOPEN

RESERVE = timedelta(seconds=30)
"""Kept back at the end of an invocation: one call at its slowest, all of aws.TRIES with their backoff."""


class LambdaContext(Protocol):
    """The part of Lambda's context object that is used."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until this invocation is killed."""


@dataclass(frozen=True, slots=True)
class Done:
    """A handler's answer: the store is empty, the step is finished."""


@dataclass(frozen=True, slots=True)
class Again:
    """A handler's answer: call me again, there is more to do."""

    wait: timedelta = timedelta(0)
    """How long to wait before; at most what the step declares as its `wait`."""


SHORTEST_POSTPONE = timedelta(minutes=1)
LONGEST_POSTPONE = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Postpone:
    """A handler's answer: a processor needs hours or days; the request waits in the table, a new attempt asks again.

    No function, execution or failure is used up meanwhile. All postponing of a step ends with its `patience`.
    """

    after: timedelta
    """When to ask again: SHORTEST_POSTPONE at least, LONGEST_POSTPONE at most; what is outside is moved to the edge."""

    @property
    def bounded(self) -> timedelta:
        """`after` within its limits."""
        return min(max(self.after, SHORTEST_POSTPONE), LONGEST_POSTPONE)


class StepDone(Exception):  # noqa: N818 (it is an answer, not a mistake)
    """The step was DONE before; its recorded result is the answer."""


@dataclass(slots=True, kw_only=True)
class Checkpoint:
    """One invocation's hold on one step of one request."""

    table: RequestTable
    task: TaskInput
    lease: timedelta
    context: LambdaContext
    person: Person
    fence: int
    due_at: int
    deleted: dict[str, int]
    """Store -> how many were deleted, over all attempts; change it by `add`."""
    batch: Mapping[str, Any]
    """The batch that the last invocation recorded and may not have finished; empty if there is none."""
    rounds: int
    """How often the verification reopened steps."""
    known_steps: frozenset[str]
    """The steps that the record has a place for: those of the graphs that claimed it."""
    patient_since: int
    """Epoch seconds from which the step's patience counts: its first begin, or the last redrive after that."""
    seq: int = 0
    _saved: dict[str, int] = field(default_factory=dict)

    def has_time(self, reserve: timedelta = RESERVE) -> bool:
        """Whether another batch fits before this invocation is killed."""
        return self.context.get_remaining_time_in_millis() > reserve.total_seconds() * 1000

    def add(self, store: str, number: int) -> None:
        """Count what was deleted; the next `progress` or the finish makes it durable."""
        self.deleted[store] = self.deleted.get(store, 0) + number

    def forget_batch(self) -> None:
        """What became of the recorded batch is counted; the next write makes both durable at once."""
        self.batch = {}

    def progress(self, batch: Mapping[str, Any] | None = None, *, pause: timedelta = timedelta(0)) -> None:
        """Prove the fence, record the counts and the batch about to be deleted, and renew the lease.

        Args:
            batch: bounds and size of the batch, never a list of keys; what a later invocation needs to tell whether
                the batch was deleted. None: no batch is under way.
            pause: how long this worker will be silent on purpose; the lease covers it.

        Raises:
            Superseded, OwnershipLost: nothing may be deleted.
        """
        self._write(PROGRESS, self._next_values(batch or {}, pause))

    def note_links(self, identity: Identity) -> None:
        """Prove the fence and record the profiles that are linked to the user by now; the batch stays recorded.

        Whoever looks later, and after the user is gone, knows them from the record alone.

        Args:
            identity: the recorded one with more in `linked`, at the end: batches know profiles by their place.

        Raises:
            Superseded, OwnershipLost: nothing was recorded, and nothing may be deleted.
        """
        linked = [asdict(profile) for profile in identity.linked]
        self._write(NOTE_LINKS, {**self._next_values(self.batch, timedelta(0)), "linked": linked})
        self.person = replace(self.person, identity=identity)

    def delete_items(self, store: str, deletes: Sequence[Mapping[str, Any]]) -> None:
        """Delete DynamoDB items in one transaction with the progress: a worker without the fence deletes nothing.

        Args:
            store: under which name they count.
            deletes: up to 99 Delete actions; a condition in each that the item is there keeps the count exact.

        Raises:
            Superseded, OwnershipLost: nothing was deleted.
            ItemsChanged: nothing was deleted; it names the deletes whose condition failed.
            TransactionRefused: nothing was deleted; fewer at once may go.
        """
        self.add(store, len(deletes))
        values = self._next_values({}, timedelta(0))
        try:
            self.table.update_and_delete(PROGRESS, self.task.deletion_request_id, values, deletes, step=self.task.step)
        except ConditionFailed as failed:
            raise self._lost(failed.record) from None
        except BaseException:
            self.add(store, -len(deletes))
            raise
        self._advance(values)

    def _write(self, transition: Transition, values: Mapping[str, Any]) -> None:
        try:
            self.table.update(transition, self.task.deletion_request_id, values, step=self.task.step)
        except ConditionFailed as failed:
            raise self._lost(failed.record) from None
        self._advance(values)

    def _next_values(self, batch: Mapping[str, Any], pause: timedelta) -> dict[str, Any]:
        return {
            "fence": self.fence,
            "seq_before": self.seq,
            "seq": self.seq + 1,
            "due_at": self._renewed(pause),
            "deleted": dict(self.deleted),
            "batch": dict(batch),
        }

    def _renewed(self, pause: timedelta) -> int:
        # Each change of due_at is written twice (table and index): the lease is renewed once a third of it is gone.
        now, lease = clock.now(), _seconds(self.lease)
        if not pause and self.due_at - now > lease * 2 // 3:
            return self.due_at
        return now + _seconds(pause) + lease

    def _advance(self, values: Mapping[str, Any]) -> None:
        self.seq = values["seq"]
        self.due_at = values["due_at"]
        self.batch = values["batch"]
        self._saved = values["deleted"]

    def _lost(self, record: Record | None) -> DeletionError:
        if record is not None and record.is_owned_by(self.task.owner):
            return Superseded(self.task.deletion_request_id, self.task.step)
        return OwnershipLost(self.task.deletion_request_id, self.task.step)


@dataclass(slots=True, kw_only=True)
class FrameCheckpoint(Checkpoint):
    """The frame's side of a checkpoint: what surrounds a handler."""

    @classmethod
    def begin(
        cls,
        transition: Transition,
        task: TaskInput,
        context: LambdaContext,
        *,
        table: RequestTable,
        lease: timedelta,
        undo_timeout: timedelta = timedelta(0),
    ) -> "FrameCheckpoint":
        """Take a new fence for this invocation.

        Raises:
            StepDone: nothing is left to do.
            OwnershipLost, UndoInFlight, RequestUnknown: as their classes say.
        """
        now = clock.now()
        values = {
            "me": task.owner,
            "now": now,
            "due_at": now + _seconds(lease),
            "undo_dead": now - _seconds(undo_timeout),
        }
        try:
            record = table.update(transition, task.deletion_request_id, values, step=task.step)
        except ConditionFailed as failed:
            raise _why_not_begun(failed.record, task) from None
        if record.person is None:
            raise OwnershipLost(task.deletion_request_id, task.step)
        step = record.step(task.step)
        return cls(
            table=table,
            task=task,
            lease=lease,
            context=context,
            person=record.person,
            fence=record.fence,
            due_at=record.due_at,
            deleted=dict(step.deleted),
            batch=step.batch,
            rounds=step.rounds,
            known_steps=frozenset(record.steps),
            patient_since=max(step.first_begun_at, record.attributes.get("redriven_at", 0)),
            _saved=dict(step.deleted),
        )

    def finish(self) -> None:
        """The step is DONE with its counts.

        Raises:
            Superseded, OwnershipLost: another invocation goes on.
        """
        values = {**self._closing_values(), "deleted": self.deleted}
        _measure(self.task.step, self._close(FINISH, values).step(self.task.step))

    def save(self, pause: timedelta) -> None:
        """Make counts durable before this invocation ends unfinished."""
        # The handler may have renewed the lease for this pause a moment ago.
        is_covered = self.due_at >= clock.now() + _seconds(pause) + _seconds(self.lease) // 2
        if (pause and not is_covered) or self.deleted != self._saved:
            self.progress(self.batch, pause=pause)

    def require_patience(self, after: timedelta, patience: timedelta) -> None:
        """Refuse to postpone beyond what the step grants.

        Raises:
            PatienceSpent: the next look would come after its end.
        """
        if clock.now() + _seconds(after) > self.patient_since + _seconds(patience):
            raise PatienceSpent(self.task.deletion_request_id, self.task.step)

    def hold(self, reason: Held) -> None:
        """The request is HELD, until the end of the lock if that is known.

        Raises:
            Superseded, OwnershipLost: another invocation goes on.
        """
        self.save(timedelta(0))
        error = {
            "step": self.task.step,
            "error": type(reason).__name__,
            "at": clock.now(),
            "locked": reason.locked,
        }
        transition = HOLD_LOCKED if reason.until is None else HOLD_LOCKED_UNTIL
        values = {"fence": self.fence, "fence_after": self.fence + 1, "error": error, "due_at": reason.until}
        self._close(transition, values)

    def reopen(self, steps: Sequence[str]) -> None:
        """The verification found leftovers: these steps are DONE no longer.

        Raises:
            Superseded, OwnershipLost: another invocation goes on.
        """
        known = [step for step in steps if step in self.known_steps]
        self.rounds += 1
        self._close(REOPEN, {**self._closing_values(), "rounds": self.rounds}, each=known)

    def _close(self, transition: Transition, values: Mapping[str, object], each: Sequence[str] = ()) -> Record:
        try:
            return self.table.update(transition, self.task.deletion_request_id, values, step=self.task.step, each=each)
        except ConditionFailed as failed:
            raise self._lost(failed.record) from None

    def _closing_values(self) -> dict[str, object]:
        now = clock.now()
        return {
            "fence": self.fence,
            "fence_after": self.fence + 1,
            "now": now,
            "due_at": now + _seconds(self.lease),
        }


def _measure(step: str, record: StepRecord) -> None:
    """Count a step that is DONE by what its record says, so that invocations that were killed count too."""
    telemetry.count(metrics.STEP_DURATION, clock.now() - record.first_begun_at, step=step)
    telemetry.count(metrics.STEP_RETRIES, record.invocations - 1, step=step)
    telemetry.count(metrics.ITEMS_DELETED, sum(record.deleted.values()), step=step)


def _why_not_begun(record: Record | None, task: TaskInput) -> Exception:
    if record is None:
        return RequestUnknown()
    if not record.is_owned_by(task.owner) or record.undoing == record.attempt:
        return OwnershipLost(task.deletion_request_id, task.step)
    if record.step(task.step).status is StepStatus.DONE:
        return StepDone()
    return UndoInFlight(task.deletion_request_id, task.step)


def _seconds(duration: timedelta) -> int:
    return int(duration.total_seconds())
