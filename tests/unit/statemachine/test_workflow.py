"""What a Workflow refuses at construction, and what it says."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from handlers.core.errors import AccessDenied, Permanent, RetentionLocked, Retryable, Superseded, Throttled
from statemachine.checks import WorkflowError
from statemachine.deletion import steps, workflow
from statemachine.plan import Plan, step_retries, taken_by, undo_retries
from statemachine.step import (
    DEFAULT_CATCH,
    DEFAULT_RETRY,
    Allow,
    Catch,
    Compensation,
    FunctionOptions,
    Outcome,
    Retry,
    StepKind,
    Value,
    file_of,
    path_of,
)
from statemachine.workflow import Workflow
from tests.unit.statemachine.samples import compensatable, handler, locking, remaining, step, undo


def refused(**fields: Any) -> list[str]:
    with pytest.raises(WorkflowError) as caught:
        Workflow(**fields)
    return str(caught.value).splitlines()


def test_the_list_is_accepted_with_and_without_identity_steps() -> None:
    assert [len(workflow(identity=identity).steps) for identity in (True, False)] == [4, 2]


def test_a_correct_sample_is_accepted() -> None:
    assert Workflow(steps=(compensatable(), step())).worst_case < timedelta(days=10)


SECONDS = timedelta(seconds=1)
TWO_PIVOTS = (step(), step("DropCache"))
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no step": ({"steps": ()}, "W01 steps: there is none; give at least one Step"),
    "name": (
        {"steps": (step("purge-index"),)},
        "W02 purge-index: no CamelCase identifier of 1 to 40 characters; e.g. PurgeSearchIndex",
    ),
    "long name": (
        {"steps": (step("P" * 41),)},
        f"W02 {'P' * 41}: no CamelCase identifier of 1 to 40 characters; e.g. PurgeSearchIndex",
    ),
    "same name": (
        {"steps": (step(), step(kind=StepKind.RETRIABLE))},
        "W03 PurgeSearchIndex: 2 steps have this name; a name is a key in the record; use each once",
    ),
    "frame's name": (
        {"steps": (step("Route"),)},
        "W03 Route: the frame has a state of this name; choose another",
    ),
    "same state": (
        {"steps": (compensatable("Freeze"), compensatable("Pause"), step())},
        "W03 Samples: two states would have this name; rename the step or its module",
    ),
    "another step's state": (
        {"steps": (compensatable(), step("SuspendAccessUndone"))},
        "W03 SuspendAccessUndone: another step brings a state of this name along; choose another",
    ),
    "a list": (
        {"steps": [step()]},
        "W01 steps: a list; give a tuple: a workflow never changes",
    ),
    "error by its name": (
        {"steps": (step(retry=(Retry(on=("Throttled",)),)),)},  # type: ignore[arg-type]
        "W09 PurgeSearchIndex: a Retry names 'Throttled'; name a class of handlers.core.errors",
    ),
    "seconds as a number": (
        {"steps": (step(timeout=300),)},
        "W08 PurgeSearchIndex: timeout is no timedelta; e.g. timeout=timedelta(minutes=5)",
    ),
    "Lambda's own variable": (
        {"steps": (step(function=FunctionOptions(environment={"LAMBDA_TASK_ROOT": "x"})),)},
        "W11 PurgeSearchIndex: environment LAMBDA_TASK_ROOT; A-Z, 0-9 and _, not beginning with AWS_ or LAMBDA_",
    ),
    "compensatable after pivot": (
        {"steps": (step(), compensatable())},
        "W04 SuspendAccess: compensatable after the pivot; move it before the pivot",
    ),
    "two pivots": (
        {"steps": TWO_PIVOTS},
        "W04 DropCache: a second pivot; make it StepKind.RETRIABLE",
    ),
    "no pivot": (
        {"steps": (step(kind=StepKind.RETRIABLE),)},
        "W04 PurgeSearchIndex: retriable before any pivot; make the first such step StepKind.PIVOT",
    ),
    "no compensation": (
        {"steps": (compensatable(compensation=None),)},
        "W05 SuspendAccess: compensatable without a compensation; give compensation=Compensation(...)",
    ),
    "compensation behind pivot": (
        {"steps": (step(compensation=Compensation(handler=undo)),)},
        "W05 PurgeSearchIndex: pivot with a compensation; make it StepKind.COMPENSATABLE or drop it",
    ),
    "erasing compensatable": (
        {"steps": (compensatable(erases=True, verify=remaining),)},
        "W05 SuspendAccess: what is erased cannot be compensated; set erases=False or another kind",
    ),
    "no verify": (
        {"steps": (step(verify=None),)},
        "W06 PurgeSearchIndex: erases and has no verify; give verify=<module>.remaining, or erases=False",
    ),
    "verify of nothing": (
        {"steps": (step(erases=False),)},
        "W06 PurgeSearchIndex: erases nothing and has a verify; drop one of the two",
    ),
    "bare function": (
        {"steps": (step(handler=lambda event, context: {}),)},
        "W07 PurgeSearchIndex: its handler declares no errors; decorate the function with @step_handler(...)",
    ),
    "nameless verify": (
        {"steps": (step(verify=lambda person: {}),)},
        "W07 PurgeSearchIndex: verify is no module-level function; Lambda finds it by module and name",
    ),
    "nameless preflight": (
        {"steps": (step(preflight=lambda person: ()),)},
        "W07 PurgeSearchIndex: preflight is no module-level function; Lambda finds it by module and name",
    ),
    "Lambda timeout": (
        {"steps": (step(timeout=timedelta(minutes=16)),)},
        "W08 PurgeSearchIndex: timeout 960 s; between 35 s and 900 s",
    ),
    "fraction": (
        {"steps": (step(timeout=timedelta(seconds=40.5)),)},
        "W08 PurgeSearchIndex: timeout 0:00:40.500000 is no whole number of seconds; round it up",
    ),
    "wait": (
        {"steps": (step(wait=timedelta(hours=2)),)},
        "W08 PurgeSearchIndex: wait 7200 s; between 0 s and 3600 s",
    ),
    "patience": (
        {"steps": (step(patience=timedelta(days=91)),)},
        "W08 PurgeSearchIndex: patience 7862400 s; between 0 s and 7776000 s",
    ),
    "turns": ({"steps": (step(turns=0),)}, "W08 PurgeSearchIndex: turns 0; between 1 and 200"),
    "empty retry": (
        {"steps": (step(retry=(Retry(on=()), *DEFAULT_RETRY)),)},
        "W09 PurgeSearchIndex: a Retry names no error; name at least one class",
    ),
    "two retriers": (
        {"steps": (step(retry=(*DEFAULT_RETRY, Retry(on=(Superseded,)))),)},
        "W09 PurgeSearchIndex: two retriers for Superseded; the first wins; keep one",
    ),
    "foreign error in retry": (
        {"steps": (step(retry=(*DEFAULT_RETRY, Retry(on=(RetentionLocked,)))),)},
        "W09 PurgeSearchIndex: its handler never raises RetentionLocked; it declares AccessDenied, InvalidEvent, "
        "OwnershipLost, PatienceSpent, RequestUnknown, SettingsError, StoreMissing, StoreRefused, StoreUnavailable, "
        "Superseded, Throttled, UndoInFlight, Unexpected",
    ),
    "max_delay": (
        {"steps": (step(retry=(Retry(on=(Retryable,), interval=5 * SECONDS, max_delay=5 * SECONDS),)),)},
        "W09 PurgeSearchIndex: Retry.max_delay 5 s is not above its interval 5 s; raise it, or None for no limit",
    ),
    "backoff": (
        {"steps": (step(retry=(Retry(on=(Retryable,), backoff=0.5),)),)},
        "W09 PurgeSearchIndex: Retry.backoff 0.5 is below 1; use 1.0 for even waits",
    ),
    "unhandled permanent": (
        {"steps": (step(handler=locking, catch=DEFAULT_CATCH[:1] + DEFAULT_CATCH[2:]),)},
        "W10 PurgeSearchIndex: no policy for RetentionLocked; name it in a Catch, or a Retryable in a Retry",
    ),
    "unhandled retryable": (
        {"steps": (step(retry=(Retry(on=(Throttled,)), Retry(on=(Superseded,)))),)},
        "W10 PurgeSearchIndex: no policy for StoreUnavailable; name it in a Catch, or a Retryable in a Retry",
    ),
    "two catchers": (
        {"steps": (step(catch=(*DEFAULT_CATCH, Catch(on=(Permanent,), to=Outcome.HELD))),)},
        "W10 PurgeSearchIndex: two catchers for Permanent; the first wins; keep one",
    ),
    "variable": (
        {"steps": (step(function=FunctionOptions(environment={"aws": "x"})),)},
        "W11 PurgeSearchIndex: environment aws; A-Z, 0-9 and _, not beginning with AWS_ or LAMBDA_",
    ),
    "frame's variable": (
        {"steps": (step(function=FunctionOptions(environment={"LEASE": "x"})),)},
        "W11 PurgeSearchIndex: environment LEASE is set by the frame; choose another name",
    ),
    "wildcard action": (
        {"steps": (step(allow=(Allow("s3:*", on=Value("bucket")),)),)},
        "W12 PurgeSearchIndex: allow s3:*; one exact action, e.g. s3:DeleteObjectVersion",
    ),
    "wildcard resource": (
        {"steps": (step(allow=(Allow("s3:ListBucket", on="*"),)),)},
        "W12 PurgeSearchIndex: allow on *; an ARN or a Value; '*' only with a reason",
    ),
    "lease": (
        {"steps": (step(),), "lease": timedelta(minutes=5)},
        "W13 PurgeSearchIndex: lease 300 s is shorter than its longest silence 390 s; "
        "set Workflow.lease to 400 s or more",
    ),
    "machine timeout": (
        {"steps": (step(turns=1),), "timeout": timedelta(hours=4)},
        "W14 Workflow.timeout: 14400 s is shorter than the worst case of one attempt, 55472 s; "
        "raise it, or lower turns, timeouts or retries",
    ),
    "verify timeout": (
        {"steps": (step(timeout=timedelta(minutes=12)),), "lease": timedelta(hours=1)},
        "W15 Workflow.verify_timeout: 720 s does not outlast the longest listing of a step, 750 s; "
        "raise it, or lower the step's timeout",
    ),
    "dispatches": (
        {"steps": (step(),), "max_dispatches": 5},
        "W08 Workflow: max_dispatches 5; between 6 and 1000",
    ),
}


@pytest.mark.parametrize(("fields", "line"), REFUSED.values(), ids=list(REFUSED))
def test_a_mistake_is_refused_with_its_place_and_mend(fields: dict[str, Any], line: str) -> None:
    assert line in refused(**fields)


def test_all_mistakes_are_told_at_once() -> None:
    lines = refused(steps=(step("purge", turns=0), step(verify=None, kind=StepKind.RETRIABLE)), rounds=0)
    assert [line.split()[0] for line in lines] == ["W02", "W08", "W08", "W06"]


def test_an_error_goes_to_the_retrier_that_names_its_nearest_ancestor() -> None:
    own = (Retry(on=(Retryable,)), Retry(on=(AccessDenied,), attempts=9))
    accepted = Workflow(steps=(step(retry=own, turns=5),))
    taken = taken_by(accepted.steps[0].handler, own)
    assert AccessDenied in taken[1]
    assert AccessDenied not in taken[0]
    assert Throttled in taken[0]


def test_a_workflow_cannot_be_changed_into_a_wrong_one() -> None:
    with pytest.raises(WorkflowError):
        replace(workflow(identity=True), lease=timedelta(seconds=1))


def test_a_pause_adds_a_wait_and_a_second_turn_to_the_happy_path() -> None:
    plain, pausing = Plan(steps=(step(),)), Plan(steps=(step(wait=timedelta(minutes=5)),))
    assert (plain.happy_path_transitions, pausing.happy_path_transitions) == (10, 13)


def test_the_happy_path_of_the_list_takes_at_most_twenty_transitions() -> None:
    assert workflow(identity=True).happy_path_transitions <= 20


def test_waits_for_a_dead_lambda_outlast_its_timeout_by_ten_seconds() -> None:
    suspend = steps(identity=True)[0]
    assert suspend.compensation is not None
    for retry, timeout in (
        (step_retries(suspend)[0], suspend.compensation.timeout),
        (undo_retries(suspend)[0], suspend.timeout),
    ):
        assert not retry.jitter
        assert retry.longest() >= timeout + timedelta(seconds=10)


def test_the_handler_is_the_function_itself() -> None:
    assert path_of(handler) == "tests.unit.statemachine.samples.handler"
    assert file_of(handler).endswith("tests/unit/statemachine/samples.py")
