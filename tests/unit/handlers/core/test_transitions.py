"""Every transition keeps the protocol; the cases are discovered from transitions.ALL."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from handlers.core import aws, transitions
from handlers.core.errors import Throttled
from handlers.core.record import to_value
from handlers.core.request_table import ConditionFailed, RequestTable, guard_key, request_key
from handlers.core.states import VERIFY_STEP, Status
from handlers.core.transition import PARAMETERS, AnyOf, Clause, Guard, RunsIn, Transition, render
from handlers.core.transitions import ACCEPT, ACCEPT_HELD, ALL, GUARD_HOLD, GUARD_RELEASE
from tests.wire import cancelled, refused
from tests.world import OTHER, OWNER, TABLE, World

pytestmark = pytest.mark.exhaustive

REQUEST = "del_" + "0" * 26
SUBJECT = "k1_" + "0" * 64
STEP, REOPENED = "DeleteFiles", "DeleteRecords"
FENCE, ATTEMPT, LATER = 7, 3, 2**31
ACCEPTS = frozenset({ACCEPT.name, ACCEPT_HELD.name})
IN_PLACE = {"fence", "invocations"}
"""What may count up when the same writer writes again."""

NEEDS: Mapping[str, Mapping[str, Any]] = {
    "progress": {"steps": {STEP: {"status": "RUNNING"}}},
    "note links": {
        "identity": {"sub": "s", "username": "user-a1b2", "enabled": True, "linked": []},
        "steps": {STEP: {"status": "RUNNING"}},
    },
    "finish step": {"steps": {STEP: {"status": "RUNNING"}}},
    "finish": {"steps": {STEP: {"status": "RUNNING"}}},
    "complete": {"steps": {STEP: {"status": "DONE", "batch": {"size": 1}}}},
    "mark cancelled": {"cancel_requested": True},
    "call undo": {"undoing": ATTEMPT, "steps": {STEP: {"status": "UNDOING", "begun_at": 1}}},
    "finish undo": {"undoing": ATTEMPT, "steps": {STEP: {"status": "UNDOING"}}},
    "cancel touched": {"touched_at": 1},
}
"""What a record must be like beyond its status, for the transitions that ask for more."""

Move = tuple[Status | None, Status]
MOVES = [pytest.param(one, move, id=f"{one.name}: {move[0]} to {move[1]}") for one in ALL for move in one.moves]
NOT_MOVES = [
    pytest.param(one, status, id=f"{one.name} in {status}")
    for one in ALL
    for status in Status
    if status not in {before for before, _ in one.moves}
    # Cancelling what is cancelled is the same wish, whoever had it first.
    and (one.name, status) != ("cancel", Status.CANCELLED)
]
EACH = [pytest.param(one, id=one.name) for one in ALL]
BY_LAMBDA = [pytest.param(one, id=one.name) for one in ALL if one.runs_in is RunsIn.LAMBDA]


def each_of(transition: Transition) -> tuple[str, ...]:
    if transition.name == "reopen":
        return (REOPENED,)
    has_each = transition.each_condition or transition.each_set or transition.each_remove
    return (STEP,) if has_each else ()


def text_of(transition: Transition) -> str:
    return render(transition, step=STEP, each=each_of(transition)).condition


OWNED = [pytest.param(one, id=one.name) for one in ALL if "#owner = " in text_of(one)]
FENCED = [pytest.param(one, id=one.name) for one in ALL if "#fence = :fence" in text_of(one)]


def put(
    world: World,
    transition: Transition,
    status: Status | None,
    *,
    guard: str | None = REQUEST,
    held: bool | None = None,
    **also: Any,
) -> None:
    """A record from which the transition may start (None: there is none yet), and its guard."""
    item = {"active_request": {"S": guard}} if guard and (status or guard != REQUEST) else {}
    is_held = transition.name == ACCEPT_HELD.name if held is None else held
    hold = {"held_at": {"N": "1"}} if is_held else {}
    world.dynamodb.put_item(TableName=TABLE, Item={**guard_key(SUBJECT), **item, **hold})
    if status is None:
        return
    running = status is Status.PROCESSING
    record: dict[str, Any] = {
        "deletion_request_id": REQUEST,
        "user_id": "ann",
        "identifiers": {},
        "subject": SUBJECT,
        "status": str(status),
        "grace_ends_at": world.now - 1,
        "due_at": world.now - 1,
        "attempt": ATTEMPT,
        "attempt_base": 1,
        "claimed": ATTEMPT if running else ATTEMPT - 1,
        "failures": 0,
        "fence": FENCE,
        "seq": 4,
        "undoing": 0,
        "cancel_requested": False,
        **({"owner": OWNER} if running else {}),
        **NEEDS.get(transition.name, {}),
        **also,
    }
    steps = {STEP: {}, VERIFY_STEP: {"status": "DONE"}, REOPENED: {"status": "DONE"}, **record.get("steps", {})}
    whole = {name: to_value(value) for name, value in {**record, "steps": steps}.items() if value is not None}
    world.dynamodb.put_item(TableName=TABLE, Item={**request_key(REQUEST), **whole})


def values_of(world: World, to: Status, **other: object) -> dict[str, object]:
    return {
        "attempt": ATTEMPT,
        "attempt_base": 1,
        "batch": {"size": 2},
        "definition": "d2",
        "deleted": {"photos": 2},
        "due_at": world.now + 900,
        "due_before": world.now - 1,
        "error": {"error": "X"},
        "expires_at": world.now + 90 * 86_400,
        "failures": 1,
        "fence": FENCE,
        "fence_after": FENCE + 1,
        "id": REQUEST,
        "linked": [{"sub": "t", "username": "Google_1", "enabled": True}],
        "me": OWNER,
        "now": world.now,
        "owner": OWNER,
        "receipt": "r",
        "rounds": 1,
        "seq": 5,
        "seq_before": 4,
        "status": str(to),
        "step_dead": world.now - 60,
        "subject": SUBJECT,
        "undo_dead": world.now - 60,
        **other,
    }


def write(world: World, transition: Transition, values: Mapping[str, object]) -> None:
    """Run a transition as its own carrier does; ConditionFailed if it is refused."""
    table, each = RequestTable(TABLE), each_of(transition)
    if transition.guard is not None:
        new: dict[str, object] | None = (
            {"deletion_request_id": REQUEST, "subject": SUBJECT, "status": str(transition.moves[0][1])}
            if transition.name in ACCEPTS
            else None
        )
        whole = new and {**new, **dict.fromkeys(("attempt", "attempt_base", "claimed", "failures", "fence"), 0)}
        table.update_with_guard(transition, REQUEST, SUBJECT, values, each=each, put=whole)
    elif transition.runs_in is RunsIn.LAMBDA:
        table.update(transition, REQUEST, values, step=STEP, each=each)
    else:
        try:
            world.write(transition, REQUEST, values, step=STEP, each=each)
        except ClientError as error:
            if aws.error_code(error) != "ConditionalCheckFailedException":
                raise
            raise ConditionFailed(None) from None


def without(counters: set[str], value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without(counters, inner) for name, inner in value.items() if name not in counters}
    return value


def state(world: World) -> tuple[Any, Any]:
    return world.record(REQUEST), world.guard(SUBJECT)


@pytest.mark.parametrize(("transition", "move"), MOVES)
def test_a_transition_makes_its_moves(world: World, transition: Transition, move: Move) -> None:
    put(world, transition, move[0])

    write(world, transition, values_of(world, move[1]))

    assert world.record(REQUEST)["status"] == str(move[1])


@pytest.mark.parametrize(("transition", "move"), MOVES)
def test_twice_by_the_same_writer_changes_nothing_but_the_fence(
    world: World, transition: Transition, move: Move
) -> None:
    put(world, transition, move[0])
    write(world, transition, values_of(world, move[1]))
    before = state(world)

    # In the graph, and for a dispatch, a refused repetition is looked at (InspectRequest) and never believed lost.
    try:
        write(world, transition, values_of(world, move[1]))
    except ConditionFailed:
        assert not transition.mine
        assert state(world) == before

    assert without(IN_PLACE, state(world)[0]) == without(IN_PLACE, before[0])
    assert state(world)[1] == before[1]


@pytest.mark.parametrize(("transition", "status"), NOT_MOVES)
def test_a_status_that_is_not_in_the_moves_is_refused(world: World, transition: Transition, status: Status) -> None:
    # Whoever left PROCESSING took the fence along: some conditions look at nothing else.
    looks_at_status = "#status" in text_of(transition).replace(".#status", "")
    also: dict[str, Any] = {} if looks_at_status else {"fence": FENCE + 1}
    put(world, transition, status, **also)
    # Somebody else made it what the transition would have made it.
    if transition.mine.get("status") in {f":{status}", "status"} or transition.name in ACCEPTS:
        world.change(REQUEST, fence=FENCE + 5, attempt=ATTEMPT + 1, subject="k1_other")
    before = state(world)

    with pytest.raises(ConditionFailed):
        write(world, transition, values_of(world, transition.moves[0][1]))

    assert state(world) == before


@pytest.mark.invariant("I5")
@pytest.mark.parametrize("transition", OWNED)
def test_a_foreign_owner_is_refused(world: World, transition: Transition) -> None:
    put(world, transition, Status.PROCESSING, owner=OTHER)
    before = state(world)

    with pytest.raises(ConditionFailed):
        write(world, transition, values_of(world, transition.moves[0][1]))

    assert state(world) == before


@pytest.mark.invariant("I5")
@pytest.mark.parametrize("transition", FENCED)
@pytest.mark.parametrize("behind", [1, 2])
def test_an_old_fence_is_refused(world: World, transition: Transition, behind: int) -> None:
    put(world, transition, transition.moves[0][0], fence=FENCE + behind)
    before = state(world)

    with pytest.raises(ConditionFailed):
        write(world, transition, values_of(world, transition.moves[0][1]))

    assert state(world) == before


@pytest.mark.invariant("I1")
@pytest.mark.parametrize(
    "transition", [one for one in ALL if any(before == Status.PROCESSING != after for before, after in one.moves)]
)
def test_whoever_leaves_processing_takes_the_fence_along(world: World, transition: Transition) -> None:
    put(world, transition, Status.PROCESSING)
    after = next(after for before, after in transition.moves if before is Status.PROCESSING)

    write(world, transition, values_of(world, after))

    record = world.record(REQUEST)
    assert record["fence"] == FENCE + 1
    assert "owner" not in record


@pytest.mark.parametrize("transition", BY_LAMBDA)
def test_a_lost_answer_counts_once(world: World, transition: Transition) -> None:
    before, after = transition.moves[0]
    put(world, transition, before)
    world.wire.lose_answer("TransactWriteItems" if transition.guard else "UpdateItem")
    if transition.name == "dispatch":
        # It decides by the record that comes back: see handlers/dispatch.py.
        with pytest.raises(ConditionFailed) as failed:
            write(world, transition, values_of(world, after))
        assert failed.value.record is not None
        assert failed.value.record.attempt == ATTEMPT + 1
    else:
        write(world, transition, values_of(world, after))
    lost = without(IN_PLACE, state(world)[0])

    world.dynamodb.delete_item(TableName=TABLE, Key=request_key(REQUEST))
    world.dynamodb.delete_item(TableName=TABLE, Key=guard_key(SUBJECT))
    put(world, transition, before)
    write(world, transition, values_of(world, after))

    assert lost == without(IN_PLACE, state(world)[0])


@pytest.mark.parametrize("transition", BY_LAMBDA)
def test_throttling_and_conflicts_are_never_read_as_a_lost_condition(world: World, transition: Transition) -> None:
    put(world, transition, transition.moves[0][0])
    values = values_of(world, transition.moves[0][1])
    operation = "TransactWriteItems" if transition.guard else "UpdateItem"
    before = state(world)
    world.wire.before(operation, refused("ThrottlingException"))
    with pytest.raises(Throttled):
        write(world, transition, values)
    assert state(world) == before
    conflict = cancelled("None", "TransactionConflict") if transition.guard else refused("TransactionConflictException")
    world.wire.before(operation, conflict, times=3)

    write(world, transition, values)

    assert len(world.wire.of(operation)) == 5


# -- as data


def clauses(part: Any) -> list[Clause]:
    if isinstance(part, Clause):
        return [part]
    if isinstance(part, AnyOf):
        return [clause for alternative in part.alternatives for one in alternative for clause in clauses(one)]
    return [clause for one in part for clause in clauses(one)]


@pytest.mark.parametrize("transition", EACH)
def test_every_clause_says_what_goes_wrong_without_it(transition: Transition) -> None:
    every = clauses(transition.condition) + (clauses(transition.guard.condition) if transition.guard else [])

    assert every
    assert all(len(clause.reason.split()) > 3 for clause in every)


@pytest.mark.parametrize("transition", EACH)
def test_expressions_name_attributes_by_alias_and_only_known_parameters(transition: Transition) -> None:
    rendered = render(transition, step=STEP, each=each_of(transition))

    assert rendered.parameters <= PARAMETERS.keys()
    assert set(rendered.constants).isdisjoint(f":{name}" for name in rendered.parameters)
    assert all(name.startswith("#") for name in rendered.names)


def test_each_transition_has_a_name_of_its_own_and_is_in_the_list() -> None:
    every = {id(value): value for value in vars(transitions).values() if isinstance(value, Transition)}

    assert {one.name for one in every.values()} == {one.name for one in ALL}
    assert len({one.name for one in ALL}) == len(ALL) == len(every)


# -- each clause by itself


Part = Clause | AnyOf
OFFENCES: Mapping[str, Mapping[str, Any]] = {
    "#due_at = :due_before": {"due_at": 1},
    "#active_request = :id": {"guard": "del_other"},
    "#attempt = :attempt": {"attempt": ATTEMPT + 1},
    "#attempt_base = :attempt_base": {"attempt_base": 2},
    "#cancel_requested = :yes": {"cancel_requested": False},
    "#claimed < :attempt": {"claimed": ATTEMPT},
    "#due_at <= :now": {"due_at": LATER},
    "#fence = :fence": {"fence": FENCE + 1},
    "#grace_ends_at <= :now": {"grace_ends_at": LATER},
    "#owner = :me": {"owner": OTHER},
    "#owner = :owner": {"owner": OTHER},
    "#seq = :seq_before": {"seq": 5},
    "#steps.#step.#status = :RUNNING": {"steps": {STEP: {"status": "DONE"}}},
    "#steps.#step.#status = :UNDOING": {"steps": {STEP: {"status": "DONE", "begun_at": 1}}},
    "#undoing <> #attempt": {"undoing": ATTEMPT},
    "#undoing = #attempt": {"undoing": ATTEMPT - 1},
    "attribute_exists(#held_at)": {"held": False},
    "attribute_exists(#touched_at)": {"touched_at": None},
    "attribute_not_exists(#active_request)": {"guard": "del_other"},
    "attribute_not_exists(#held_at)": {"held": True},
    "attribute_not_exists(#pivot_at)": {"pivot_at": 1},
    "attribute_not_exists(#pk)": {"status": Status.SCHEDULED, "subject": "k1_other", "guard": None},
    "attribute_not_exists(#touched_at)": {"touched_at": 1},
    # of an AnyOf, by its first clause
    "attribute_not_exists(#steps.#step.#begun_at)": {"steps": {STEP: {"status": "UNDOING", "begun_at": LATER}}},
    "attribute_not_exists(#steps.#step.#status)": {"steps": {STEP: {"status": "DONE"}}},
    "attribute_not_exists(#steps.#step.#undo_begun_at)": {"steps": {STEP: {"undo_begun_at": LATER}}},
}
"""Clause -> what to change in a record (and its guard) so that this clause alone refuses it."""


def without_part(condition: tuple[Part, ...]) -> Iterator[tuple[str, tuple[Part, ...]]]:
    """(a part's text, the condition without it) for each part; an AnyOf of single clauses is one part."""
    for index, part in enumerate(condition):
        before, after = condition[:index], condition[index + 1 :]
        if len(condition) == 1:
            # DynamoDB takes neither an empty condition nor an empty map of values.
            anything = "#pk <> :id" if ":id" in str(part) else "attribute_exists(#pk)"
            before = (Clause(anything, "there is always something"),)
        if isinstance(part, Clause):
            yield part.text, (*before, *after)
        elif all(len(alternative) == 1 for alternative in part.alternatives):
            yield part.alternatives[0][0].text, (*before, *after)
        else:
            for number, alternative in enumerate(part.alternatives):
                for text, rest in without_part(alternative):
                    others = (*part.alternatives[:number], rest, *part.alternatives[number + 1 :])
                    yield text, (*before, AnyOf(others), *after)  # type: ignore[arg-type]


def weakened() -> Iterator[Any]:
    for one in ALL:
        for text, rest in without_part(one.condition):
            yield pytest.param(one, replace(one, condition=rest), text, id=f"{one.name}: {text}")
        for text, rest in without_part(one.guard.condition if one.guard else ()):
            guard = replace(one.guard, condition=rest)  # type: ignore[type-var]
            yield pytest.param(one, replace(one, guard=guard), text, id=f"{one.name}, guard: {text}")


def offence_of(transition: Transition, text: str) -> Mapping[str, Any]:
    if not text.startswith("#status"):
        return OFFENCES[text]
    start = {before for before, _ in transition.moves}
    return {"status": next(one for one in (Status.FAILED, Status.HELD, Status.COMPLETED) if one not in start)}


@pytest.mark.parametrize(("transition", "weaker", "text"), list(weakened()))
def test_every_clause_refuses_what_no_other_does(
    world: World, transition: Transition, weaker: Transition, text: str
) -> None:
    offence = dict(offence_of(transition, text))
    guard, held = offence.pop("guard", REQUEST), offence.pop("held", None)
    # A claim that was written before is repeated under PROCESSING; its other clauses are about what waits.
    from_processing = transition.name == "claim" and text in {"#owner = :me", "#status = :PROCESSING"}
    status = offence.pop("status", None) or (Status.PROCESSING if from_processing else transition.moves[0][0])
    owner = {"owner": OWNER} if text == "#status = :PROCESSING" else {}
    put(world, transition, status, guard=guard, held=held, **{**owner, **offence})
    before = state(world)
    values = values_of(world, transition.moves[0][1])

    with pytest.raises(ConditionFailed):
        write(world, transition, values)
    assert state(world) == before

    write(world, weaker, values)
    assert state(world) != before


GUARDS = {"hold a person": GUARD_HOLD, "release a person": GUARD_RELEASE}
GUARD_OFFENCES: Mapping[str, Mapping[str, Any]] = {
    "attribute_exists(#held_at)": {"held_at": None},
    "attribute_not_exists(#fence)": {"fence": FENCE + 1},
    "attribute_not_exists(#held_at)": {"held_at": 1},
}
"""As OFFENCES, for what is written to a guard alone."""


@pytest.mark.parametrize(
    ("guard", "weaker", "text"),
    [
        pytest.param(guard, replace(guard, condition=rest), text, id=f"{name}: {text}")
        for name, guard in GUARDS.items()
        for text, rest in without_part(guard.condition)
    ],
)
def test_every_clause_of_a_guard_refuses_what_no_other_does(
    world: World, guard: Guard, weaker: Guard, text: str
) -> None:
    item = {"fence": FENCE, "held_at": 1 if guard is GUARD_RELEASE else None, **GUARD_OFFENCES[text]}
    typed = {name: to_value(value) for name, value in item.items() if value is not None}
    world.dynamodb.put_item(TableName=TABLE, Item={**guard_key(SUBJECT), **typed})
    before = world.guard(SUBJECT)
    values = {"fence": FENCE, "fence_after": FENCE + 2, "now": world.now}

    with pytest.raises(ConditionFailed):
        RequestTable(TABLE).update_guard(guard, SUBJECT, values)
    assert world.guard(SUBJECT) == before

    RequestTable(TABLE).update_guard(weaker, SUBJECT, values)
    assert world.guard(SUBJECT) != before


@pytest.mark.parametrize(
    ("transition", "steps"),
    [
        (one, steps)
        for one in ALL
        if one.name.startswith("begin ") and one.name != "begin undo"
        for steps in ({}, {"status": "RUNNING"}, {"status": "UNDONE", "undo_begun_at": 1})
    ]
    + [(transitions.UNDO_CALL, {"status": "UNDOING"}), (transitions.UNDO_CALL, {"status": "UNDOING", "begun_at": 1})],
    ids=lambda one: getattr(one, "name", None),
)
def test_a_step_that_is_not_done_and_whose_other_lambda_is_dead_begins(
    world: World, transition: Transition, steps: dict[str, Any]
) -> None:
    put(world, transition, Status.PROCESSING, steps={STEP: steps})

    write(world, transition, values_of(world, Status.PROCESSING))


def test_a_late_copy_of_a_progress_does_not_set_the_counts_back(world: World) -> None:
    put(world, transitions.PROGRESS, Status.PROCESSING)
    first = values_of(world, Status.PROCESSING)
    write(world, transitions.PROGRESS, first)
    write(world, transitions.PROGRESS, {**first, "seq_before": 5, "seq": 6, "deleted": {"photos": 9}})

    with pytest.raises(ConditionFailed):
        write(world, transitions.PROGRESS, first)

    assert world.record(REQUEST)["steps"][STEP]["deleted"] == {"photos": 9}


def test_other_links_under_the_same_number_are_not_taken_for_mine(world: World) -> None:
    put(world, transitions.NOTE_LINKS, Status.PROCESSING)
    first = values_of(world, Status.PROCESSING)
    write(world, transitions.NOTE_LINKS, first)

    with pytest.raises(ConditionFailed):
        write(world, transitions.NOTE_LINKS, {**first, "linked": []})

    assert world.record(REQUEST)["identity"]["linked"] == first["linked"]


def test_another_progress_under_the_same_number_is_not_taken_for_mine(world: World) -> None:
    put(world, transitions.PROGRESS, Status.PROCESSING)
    first = values_of(world, Status.PROCESSING)
    write(world, transitions.PROGRESS, first)

    with pytest.raises(ConditionFailed):
        write(world, transitions.PROGRESS, {**first, "deleted": {"photos": 1}})
