"""Every write to the request table, as data. Nothing else in the project writes it.

The state machine builder renders the transitions with ``runs_in=GRAPH`` into the definition (direct
``dynamodb:updateItem`` tasks); handlers/core/request_table.py runs the others. One source for both.

The notation is that of handlers/core/transition.py.
"""

from handlers.core.states import Status, StepKind
from handlers.core.transition import AnyOf, Clause, Condition, Guard, RunsIn, Transition

# -- clauses that repeat have one name

PROCESSING = Clause("#status = :PROCESSING", "whoever left PROCESSING is finished with this attempt")
OWNED = Clause("#owner = :me", "only the execution that claimed the request goes on with it")
FENCED = Clause("#fence = :fence", "an older invocation is fenced out by whoever began later")
RUNNING = Clause("#steps.#step.#status = :RUNNING", "a step that is DONE or being undone writes nothing more")
DUE = Clause("#due_at <= :now", "nobody starts before somebody must look")
STARTABLE = Clause("#status IN (:SCHEDULED, :RETRYABLE)", "only what waits can be started")
SAME_ATTEMPT = Clause("#attempt = :attempt", "two starters that read the same attempt start one execution")
SAME_BASE = Clause("#attempt_base = :attempt_base", "a late copy must not spend the budget that a redrive renewed")
NO_PIVOT = Clause("attribute_not_exists(#pivot_at)", "after the pivot there is no way back")
GUARD_IS_OURS = Clause("#active_request = :id", "the guard belongs to the open request")
NO_OPEN_REQUEST = Clause("attribute_not_exists(#active_request)", "one open request per user")
PERSON_HELD = Clause("attribute_exists(#held_at)", "only a request of a held person begins as HELD")
PERSON_FREE = Clause("attribute_not_exists(#held_at)", "nothing of a held person goes on before the person is released")

_LEAVE = "#fence = #fence + :n1"
_EXPIRES = "#expires_at = :expires_at"
_PERSONAL = ("#user_id", "#identifiers", "#identity")

_NEW = Clause("attribute_not_exists(#pk)", "a repeated request must not reset the one under way")
ACCEPT = Transition(
    name="accept",
    moves=((None, Status.SCHEDULED),),
    runs_in=RunsIn.LAMBDA,
    condition=(_NEW,),
    mine={"subject": "subject"},
    guard=Guard(condition=(NO_OPEN_REQUEST, PERSON_FREE), set=("#active_request = :id",)),
)
ACCEPT_HELD = Transition(
    name="accept held",
    moves=((None, Status.HELD),),
    runs_in=RunsIn.LAMBDA,
    condition=(_NEW,),
    mine={"subject": "subject"},
    guard=Guard(condition=(NO_OPEN_REQUEST, PERSON_HELD), set=("#active_request = :id",)),
)

_SAME_HOLDS = AnyOf(
    (
        (Clause("attribute_not_exists(#fence)", "nobody ever held or released this person"),),
        (Clause("#fence = :fence", "a late copy must not undo a later hold or release"),),
    )
)
GUARD_HOLD = Guard(condition=(_SAME_HOLDS, PERSON_FREE), set=("#held_at = :now", "#fence = :fence_after"))
"""Hold a person: written to the guard alone, before any request exists."""
GUARD_RELEASE = Guard(condition=(_SAME_HOLDS, PERSON_HELD), set=("#fence = :fence_after",), remove=("#held_at",))
"""Release a person."""

DISPATCH = Transition(
    name="dispatch",
    moves=((Status.SCHEDULED, Status.SCHEDULED), (Status.RETRYABLE, Status.RETRYABLE)),
    runs_in=RunsIn.LAMBDA,
    condition=(STARTABLE, DUE, SAME_ATTEMPT, SAME_BASE),
    set=("#attempt = #attempt + :n1", "#due_at = :due_at"),
)

EXHAUST = Transition(
    name="exhaust",
    moves=((Status.SCHEDULED, Status.FAILED), (Status.RETRYABLE, Status.FAILED)),
    runs_in=RunsIn.LAMBDA,
    condition=(STARTABLE, DUE, SAME_ATTEMPT, SAME_BASE),
    set=("#status = :FAILED", "#last_error = :error"),
    remove=("#due_at",),
    mine={"status": ":FAILED", "attempt": "attempt", "last_error": "error"},
)

CLAIM = Transition(
    name="claim",
    moves=(
        (Status.SCHEDULED, Status.PROCESSING),
        (Status.RETRYABLE, Status.PROCESSING),
        (Status.PROCESSING, Status.PROCESSING),
    ),
    runs_in=RunsIn.GRAPH,
    condition=(
        AnyOf(
            (
                (
                    STARTABLE,
                    Clause("#attempt = :attempt", "an execution of an earlier dispatch comes too late"),
                    Clause("#claimed < :attempt", "an attempt that already ended must not rise again"),
                    Clause("#grace_ends_at <= :now", "within the grace period nothing is deleted, whoever starts it"),
                ),
                (
                    PROCESSING,
                    Clause("#owner = :me", "a claim whose response was lost is still mine"),
                ),
            )
        ),
    ),
    set=(
        "#status = :PROCESSING",
        "#owner = :me",
        "#claimed = :attempt",
        _LEAVE,
        "#seq = :n0",
        "#due_at = :due_at",
        "#definition = :definition",
    ),
    each_set=("#steps.{} = if_not_exists(#steps.{}, :empty)",),
)

_BEGIN_CONDITION: Condition = (
    PROCESSING,
    OWNED,
    Clause("#undoing <> #attempt", "once compensation began in this attempt, no step may begin in it"),
    AnyOf(
        (
            (Clause("attribute_not_exists(#steps.#step.#status)", "a step that never began may begin"),),
            (Clause("#steps.#step.#status <> :DONE", "a DONE step deletes nothing more"),),
        )
    ),
    AnyOf(
        (
            (Clause("attribute_not_exists(#steps.#step.#undo_begun_at)", "nothing is being undone"),),
            (Clause("#steps.#step.#undo_begun_at <= :undo_dead", "the undo's Lambda must be dead by now"),),
        )
    ),
)
_BEGIN_SET = (
    "#fence = #fence + :n1",
    "#seq = :n0",
    "#due_at = :due_at",
    "#steps.#step.#status = :RUNNING",
    "#steps.#step.#begun_at = :now",
    "#steps.#step.#first_begun_at = if_not_exists(#steps.#step.#first_begun_at, :now)",
    "#steps.#step.#invocations = if_not_exists(#steps.#step.#invocations, :n0) + :n1",
    "#steps.#step.#deleted = if_not_exists(#steps.#step.#deleted, :empty)",
)
_SAME_STATUS = ((Status.PROCESSING, Status.PROCESSING),)


def _begin(name: str, *also: str, remove: tuple[str, ...] = ()) -> Transition:
    return Transition(
        name=name,
        moves=_SAME_STATUS,
        runs_in=RunsIn.LAMBDA,
        condition=_BEGIN_CONDITION,
        set=(*_BEGIN_SET, *also),
        remove=remove,
    )


_PIVOT = "#pivot_at = if_not_exists(#pivot_at, :now)"
BEGIN_COMPENSATABLE = _begin("begin compensatable step", "#touched_at = if_not_exists(#touched_at, :now)")
BEGIN_FORWARD = _begin("begin forward step", _PIVOT)
BEGIN_ERASING = _begin("begin erasing step", _PIVOT, remove=("#steps.#verify.#status",))
BEGIN_VERIFY = _begin("begin verification")


def begin(kind: StepKind, *, erases: bool) -> Transition:
    """The begin that fits a step: each kind leaves its own mark for the way back."""
    if kind is StepKind.COMPENSATABLE:
        return BEGIN_COMPENSATABLE
    return BEGIN_ERASING if erases else BEGIN_FORWARD


PROGRESS = Transition(
    name="progress",
    moves=_SAME_STATUS,
    runs_in=RunsIn.LAMBDA,
    condition=(
        FENCED,
        Clause("#seq = :seq_before", "a copy of an older progress that lands late must not set the counts back"),
        RUNNING,
    ),
    set=(
        "#seq = :seq",
        "#due_at = :due_at",
        "#steps.#step.#deleted = :deleted",
        "#steps.#step.#batch = :batch",
    ),
    # The counts tell a repeated progress from another one after an answer that never came.
    mine={"fence": "fence", "seq": "seq", "steps.#step.deleted": "deleted"},
)

NOTE_LINKS = Transition(
    name="note links",
    moves=_SAME_STATUS,
    runs_in=RunsIn.LAMBDA,
    condition=PROGRESS.condition,
    set=(*PROGRESS.set, "#identity.#linked = :linked"),
    mine={**PROGRESS.mine, "identity.linked": "linked"},
)

FINISH = Transition(
    name="finish",
    moves=_SAME_STATUS,
    runs_in=RunsIn.LAMBDA,
    condition=(FENCED, RUNNING),
    set=(
        "#steps.#step.#status = :DONE",
        "#steps.#step.#deleted = :deleted",
        "#steps.#step.#done_at = :now",
        "#fence = :fence_after",
        "#seq = :n0",
        "#due_at = :due_at",
    ),
    remove=("#steps.#step.#batch",),
    mine={"fence": "fence_after", "steps.#step.status": ":DONE"},
)

REOPEN = Transition(
    name="reopen",
    moves=_SAME_STATUS,
    runs_in=RunsIn.LAMBDA,
    condition=(PROCESSING, FENCED),
    set=("#steps.#step.#rounds = :rounds", "#fence = :fence_after", "#seq = :n0", "#due_at = :due_at"),
    remove=("#steps.#step.#status",),
    each_remove=("#steps.{}.#status",),
    mine={"fence": "fence_after", "steps.#step.rounds": "rounds"},
)

COMPLETE = Transition(
    name="complete",
    moves=((Status.PROCESSING, Status.COMPLETED),),
    runs_in=RunsIn.LAMBDA,
    condition=(PROCESSING, OWNED),
    each_condition=("#steps.{}.#status = :DONE",),
    set=(
        "#status = :COMPLETED",
        "#completed_at = :now",
        "#completed_by = :me",
        "#receipt = :receipt",
        _EXPIRES,
        _LEAVE,
    ),
    remove=(*_PERSONAL, "#owner", "#due_at"),
    each_remove=("#steps.{}.#batch",),
    mine={"completed_by": "me"},
    guard=Guard(
        condition=(GUARD_IS_OURS,),
        set=("#completed_request = :id", "#completed_at = :now"),
        remove=("#active_request",),
    ),
)


def _mark(name: str, to: Status, *also: str, remove: tuple[str, ...] = ()) -> Transition:
    return Transition(
        name=name,
        moves=((Status.PROCESSING, to),),
        runs_in=RunsIn.GRAPH,
        condition=(PROCESSING, OWNED),
        set=(f"#status = :{to}", _LEAVE, *also),
        remove=("#owner", *remove),
    )


_ERROR = "#last_error = :error"
MARK_RETRYABLE = _mark("mark retryable", Status.RETRYABLE, "#failures = #failures + :n1", "#due_at = :due_at", _ERROR)
MARK_FAILED = _mark("mark failed", Status.FAILED, _ERROR, remove=("#due_at",))
MARK_HELD = _mark("mark held", Status.HELD, _ERROR, remove=("#due_at",))
REQUEUE = _mark("requeue", Status.RETRYABLE, "#due_at = :due_at")
POSTPONE = _mark("postpone", Status.RETRYABLE, "#attempt_base = #attempt", "#due_at = :due_at")

MARK_CANCELLED = Transition(
    name="mark cancelled",
    moves=((Status.PROCESSING, Status.CANCELLED),),
    runs_in=RunsIn.LAMBDA,
    condition=(
        PROCESSING,
        OWNED,
        Clause("#cancel_requested = :yes", "nobody cancels what nobody asked to cancel"),
        NO_PIVOT,
    ),
    set=("#status = :CANCELLED", "#cancelled_at = :now", "#cancelled_by = :me", _EXPIRES, _LEAVE),
    remove=(*_PERSONAL, "#owner", "#due_at"),
    mine={"cancelled_by": "me"},
    guard=Guard(condition=(GUARD_IS_OURS,), remove=("#active_request",)),
)

UNDO_BEGIN = Transition(
    name="begin undo",
    moves=_SAME_STATUS,
    runs_in=RunsIn.GRAPH,
    condition=(PROCESSING, OWNED, NO_PIVOT),
    set=(
        "#undoing = :attempt",
        "#steps.#step.#status = :UNDOING",
        _LEAVE,
        "#due_at = :due_at",
    ),
)

UNDO_CALL = Transition(
    name="call undo",
    moves=_SAME_STATUS,
    runs_in=RunsIn.LAMBDA,
    condition=(
        PROCESSING,
        OWNED,
        Clause("#undoing = #attempt", "an undo of an earlier attempt is over"),
        Clause("#steps.#step.#status = :UNDOING", "only what is being undone is undone"),
        AnyOf(
            (
                (Clause("attribute_not_exists(#steps.#step.#begun_at)", "the step never began"),),
                (Clause("#steps.#step.#begun_at <= :step_dead", "the step's Lambda must be dead by now"),),
            )
        ),
    ),
    set=("#steps.#step.#undo_begun_at = :now", "#due_at = :due_at"),
)

UNDO_DONE = Transition(
    name="finish undo",
    moves=_SAME_STATUS,
    runs_in=RunsIn.GRAPH,
    condition=(FENCED,),
    set=("#steps.#step.#status = :UNDONE", "#steps.#step.#undone_at = :now"),
    # What a batch of the undone step recorded is no longer so.
    remove=("#steps.#step.#batch",),
)

RECOVER = Transition(
    name="recover",
    moves=((Status.PROCESSING, Status.RETRYABLE),),
    runs_in=RunsIn.LAMBDA,
    condition=(
        PROCESSING,
        Clause("#owner = :owner", "the execution that was looked at must still be the owner"),
        FENCED,
    ),
    set=("#status = :RETRYABLE", "#failures = :failures", "#due_at = :due_at", "#fence = :fence_after", _ERROR),
    remove=("#owner",),
    mine={"fence": "fence_after", "status": ":RETRYABLE"},
)

_IDLE = Clause(
    "#status IN (:SCHEDULED, :RETRYABLE, :HELD, :FAILED)", "a running execution is never cancelled under way"
)
_CANCELLABLE = (
    (Status.SCHEDULED, Status.CANCELLED),
    (Status.RETRYABLE, Status.CANCELLED),
    (Status.HELD, Status.CANCELLED),
    (Status.FAILED, Status.CANCELLED),
)
CANCEL = Transition(
    name="cancel",
    moves=_CANCELLABLE,
    runs_in=RunsIn.LAMBDA,
    condition=(
        _IDLE,
        NO_PIVOT,
        Clause("attribute_not_exists(#touched_at)", "what a step touched must be undone first"),
    ),
    set=("#status = :CANCELLED", "#cancelled_at = :now", _EXPIRES, _LEAVE),
    remove=(*_PERSONAL, "#due_at"),
    mine={"status": ":CANCELLED"},
    guard=Guard(condition=(GUARD_IS_OURS,), remove=("#active_request",)),
)
CANCEL_TOUCHED = Transition(
    name="cancel touched",
    moves=tuple((before, Status.RETRYABLE) for before, _ in _CANCELLABLE),
    runs_in=RunsIn.LAMBDA,
    condition=(_IDLE, NO_PIVOT, Clause("attribute_exists(#touched_at)", "there is something to undo")),
    # The undo has a budget of its own: with the deletion's failures, the first that it met would be the last.
    set=(
        "#status = :RETRYABLE",
        "#cancel_requested = :yes",
        "#failures = :n0",
        "#attempt_base = #attempt",
        "#due_at = :now",
    ),
)

_HOLDABLE = Clause("#status IN (:SCHEDULED, :RETRYABLE, :PROCESSING, :HELD)", "what has ended cannot be held")
# From HELD: the hold gets another end, or none.
_HELD_FROM = tuple(
    (before, Status.HELD) for before in (Status.SCHEDULED, Status.RETRYABLE, Status.PROCESSING, Status.HELD)
)
HOLD = Transition(
    name="hold",
    moves=_HELD_FROM,
    runs_in=RunsIn.LAMBDA,
    condition=(_HOLDABLE, FENCED),
    set=("#status = :HELD", "#fence = :fence_after"),
    remove=("#owner", "#due_at"),
    # The end tells this hold from another one's of the same fence.
    mine={"fence": "fence_after", "status": ":HELD", "due_at": None},
)
HOLD_UNTIL = Transition(
    name="hold until",
    moves=_HELD_FROM,
    runs_in=RunsIn.LAMBDA,
    condition=(_HOLDABLE, FENCED),
    set=("#status = :HELD", "#fence = :fence_after", "#due_at = :due_at"),
    remove=("#owner",),
    mine={"fence": "fence_after", "status": ":HELD", "due_at": "due_at"},
)

_LOCK_SET = ("#status = :HELD", "#fence = :fence_after", _ERROR)
HOLD_LOCKED = Transition(
    name="hold locked",
    moves=((Status.PROCESSING, Status.HELD),),
    runs_in=RunsIn.LAMBDA,
    condition=(PROCESSING, FENCED),
    set=_LOCK_SET,
    remove=("#owner", "#due_at"),
    mine={"fence": "fence_after", "status": ":HELD"},
)
HOLD_LOCKED_UNTIL = Transition(
    name="hold locked until",
    moves=((Status.PROCESSING, Status.HELD),),
    runs_in=RunsIn.LAMBDA,
    condition=(PROCESSING, FENCED),
    set=(*_LOCK_SET, "#due_at = :due_at"),
    remove=("#owner",),
    mine={"fence": "fence_after", "status": ":HELD"},
)

RELEASE = Transition(
    name="release",
    moves=((Status.HELD, Status.SCHEDULED), (Status.HELD, Status.RETRYABLE)),
    runs_in=RunsIn.LAMBDA,
    condition=(Clause("#status = :HELD", "only what is held is released"), FENCED),
    set=("#status = :status", "#due_at = :due_at"),
    mine={"fence": "fence", "status": "status"},
    guard=Guard(condition=(PERSON_FREE,)),
)

REDRIVE = Transition(
    name="redrive",
    moves=((Status.FAILED, Status.RETRYABLE),),
    runs_in=RunsIn.LAMBDA,
    condition=(Clause("#status = :FAILED", "only what failed is redriven"), SAME_ATTEMPT),
    set=(
        "#status = :RETRYABLE",
        "#failures = :n0",
        "#attempt_base = :attempt",
        "#due_at = :now",
        "#redriven_at = :now",
    ),
    mine={"status": ":RETRYABLE", "attempt": "attempt"},
    guard=Guard(condition=(PERSON_FREE,)),
)

DEFER = Transition(
    name="defer",
    # Whatever has a due_at, even in a state that nobody knows, must not hold up the others.
    moves=tuple((status, status) for status in Status),
    runs_in=RunsIn.LAMBDA,
    condition=(Clause("#due_at = :due_before", "whoever looked after the request meanwhile has set another time"),),
    set=("#due_at = :due_at",),
    mine={"due_at": "due_at"},
)

ALL: tuple[Transition, ...] = (
    ACCEPT, ACCEPT_HELD, DISPATCH, EXHAUST, CLAIM, BEGIN_COMPENSATABLE, BEGIN_FORWARD, BEGIN_ERASING, BEGIN_VERIFY,
    PROGRESS, NOTE_LINKS, FINISH, REOPEN, COMPLETE, MARK_RETRYABLE, MARK_FAILED, MARK_HELD, MARK_CANCELLED, REQUEUE,
    POSTPONE, UNDO_BEGIN, UNDO_CALL, UNDO_DONE, RECOVER, CANCEL, CANCEL_TOUCHED, HOLD, HOLD_UNTIL, HOLD_LOCKED,
    HOLD_LOCKED_UNTIL, RELEASE, REDRIVE, DEFER,
)  # fmt: skip
"""All of them, in the order of a request's life."""
