"""Error classes: the tree, their messages, and that they survive being copied."""

import pickle
from collections.abc import Iterator

import pytest

from handlers.core import errors
from handlers.core.errors import (
    AwsFailure,
    DeletionError,
    EffectPending,
    ExecutionStillRuns,
    Held,
    InvalidEvent,
    NotPossible,
    OwnershipLost,
    PatienceSpent,
    Permanent,
    PersonHeld,
    QuietEnd,
    RequestUnknown,
    RetentionLocked,
    Retryable,
    SettingsError,
    StepMayStillRun,
    StoreUnfit,
    Superseded,
    UndoInFlight,
    Unexpected,
)

POLICIES = (QuietEnd, Retryable, Permanent, Held)


def below(error: type[DeletionError]) -> Iterator[type[DeletionError]]:
    for one in error.__subclasses__():
        if one.__module__ == errors.__name__:
            yield one
            yield from below(one)


LEAVES = sorted(
    {one for one in below(DeletionError) if one not in {*POLICIES, AwsFailure}}, key=lambda one: one.__name__
)


def example(error: type[DeletionError]) -> DeletionError:
    facts: dict[type[DeletionError], tuple[object, ...]] = {
        EffectPending: ("del_1", "Step", "Operation"),
        ExecutionStillRuns: ("del_1",),
        InvalidEvent: ("field", "rule"),
        NotPossible: ("hold", "del_1", "COMPLETED"),
        PersonHeld: ("release", "del_1", "HELD"),
        RequestUnknown: (),
        RetentionLocked: ("del_1", "Step", 3),
        SettingsError: (("A is missing", "B is wrong"),),
        StoreUnfit: (("store files: MFA delete is on; turn it off",),),
        Unexpected: ("ValueError", "a.py:1 f"),
    }
    two = (OwnershipLost, PatienceSpent, StepMayStillRun, Superseded, UndoInFlight)
    given = ("del_1", "Step") if error in two else ("Operation", "Code")
    return error(*facts.get(error, given))


@pytest.mark.parametrize("error", LEAVES)
def test_an_error_has_one_policy_a_docstring_and_a_message_of_its_own(error: type[DeletionError]) -> None:
    assert sum(issubclass(error, policy) for policy in POLICIES) == 1
    assert error.__doc__
    assert str(example(error))


@pytest.mark.parametrize("error", LEAVES)
def test_the_tree_at_the_top_of_the_module_names_it(error: type[DeletionError]) -> None:
    assert f"── {error.__name__}" in (errors.__doc__ or "")


@pytest.mark.parametrize("error", [one for one in LEAVES if issubclass(one, AwsFailure)])
def test_an_aws_failure_survives_pickling(error: type[DeletionError]) -> None:
    copy = pickle.loads(pickle.dumps(example(error)))

    assert (type(copy), str(copy)) == (error, "Operation answered Code")
