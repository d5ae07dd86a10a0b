"""Removes each protection of the protocol in turn, and sees that some test notices.

    python -m tests.mutants [NAME ...]

Each mutant is one edit of one file in a copy of the project; the fast tests that could notice it run there until the
first failure. Prints which test failed for each; exits with 1 if a mutant survives.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("handlers", "statemachine", "examples", "infra", "local", "tests", "docs", "README.md", "pyproject.toml")
TRANSITIONS = "handlers/core/transitions.py"
CLAUSES = ("tests/unit/handlers/core/test_protections.py",)
STEPS = ("tests/unit/handlers/steps",)
WORKFLOW = ("tests/workflow/test_deletion.py",)
HOLDS = (
    "tests/unit/handlers/test_request.py::test_a_hold_in_the_same_moment_meets_the_request_or_is_met_by_it",
    "tests/unit/handlers/test_operations.py::test_nothing_of_a_held_person_is_released_or_redriven",
    "tests/unit/handlers/test_operations.py::test_a_late_copy_of_a_release_does_not_lift_a_later_hold",
)
CANCELS = (
    "tests/unit/handlers/test_operations.py::test_a_cancellation_whose_request_passes_the_pivot_meanwhile_is_refused",
    "tests/unit/handlers/test_operations.py::test_a_touched_request_is_undone_before_it_is_cancelled_with_a_fresh_budget",
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One protection removed."""

    name: str
    file: str
    old: str
    new: str
    tests: Sequence[str]


MUTANTS = (
    Mutant(
        "accept: person is free",
        TRANSITIONS,
        "guard=Guard(condition=(NO_OPEN_REQUEST, PERSON_FREE)",
        "guard=Guard(condition=(NO_OPEN_REQUEST,)",
        HOLDS,
    ),
    Mutant(
        "release: person is free",
        TRANSITIONS,
        '"status": "status"},\n    guard=Guard(condition=(PERSON_FREE,)),',
        '"status": "status"},\n    guard=Guard(condition=(NO_PIVOT,)),',
        HOLDS,
    ),
    Mutant(
        "release of a person: fence",
        TRANSITIONS,
        "GUARD_RELEASE = Guard(condition=(_SAME_HOLDS, PERSON_HELD)",
        "GUARD_RELEASE = Guard(condition=(PERSON_HELD,)",
        HOLDS,
    ),
    Mutant(
        "claim: status",
        TRANSITIONS,
        '                (\n                    STARTABLE,\n                    Clause("#attempt = :attempt"',
        '                (\n                    Clause("#attempt = :attempt"',
        CLAUSES,
    ),
    Mutant(
        "claim: attempt = mine",
        TRANSITIONS,
        '                    Clause("#attempt = :attempt", "an execution of an earlier dispatch comes too late"),\n',
        "",
        CLAUSES,
    ),
    Mutant(
        "claim: claimed < mine",
        TRANSITIONS,
        '                    Clause("#claimed < :attempt", "an attempt that already ended must not rise again"),\n',
        "",
        CLAUSES,
    ),
    Mutant(
        "claim: grace",
        TRANSITIONS,
        '                    Clause("#grace_ends_at <= :now", "within the grace period nothing is deleted, whoever '
        'starts it"),\n',
        "",
        CLAUSES,
    ),
    Mutant(
        "claim: PROCESSING of mine",
        TRANSITIONS,
        '                (\n                    PROCESSING,\n                    Clause("#owner = :me", "a claim whose',
        '                (\n                    Clause("#owner = :me", "a claim whose',
        CLAUSES,
    ),
    Mutant(
        "claim: owner = me",
        TRANSITIONS,
        '                    Clause("#owner = :me", "a claim whose response was lost is still mine"),\n',
        "",
        CLAUSES,
    ),
    Mutant(
        "progress: fence",
        TRANSITIONS,
        '    condition=(\n        FENCED,\n        Clause("#seq',
        '    condition=(\n        Clause("#seq',
        CLAUSES,
    ),
    Mutant(
        "progress: seq",
        TRANSITIONS,
        '        Clause("#seq = :seq_before", "a copy of an older progress that lands late must not set the counts '
        'back"),\n',
        "",
        CLAUSES,
    ),
    Mutant(
        "delete transaction: fence",
        "handlers/core/request_table.py",
        '            _transact([update, *({"Delete": dict(delete)} for delete in deletes)])',
        '            _transact([*({"Delete": dict(delete)} for delete in deletes)])',
        STEPS,
    ),
    Mutant(
        "delete by an index: still the user's",
        "handlers/steps/_records.py",
        '"ConditionExpression": "#found = :value"',
        '"ConditionExpression": "#found = :value OR attribute_exists(#found)"',
        STEPS,
    ),
    Mutant(
        "delete by an index: read from the table",
        "handlers/steps/_records.py",
        "if _is_same(item.get(attribute), value):",
        "if item:",
        STEPS,
    ),
    Mutant(
        "begin: fence bump",
        TRANSITIONS,
        '_BEGIN_SET = (\n    "#fence = #fence + :n1",\n',
        "_BEGIN_SET = (\n",
        CLAUSES,
    ),
    Mutant(
        "finish: fence bump",
        TRANSITIONS,
        '        "#steps.#step.#done_at = :now",\n        "#fence = :fence_after",\n',
        '        "#steps.#step.#done_at = :now",\n',
        CLAUSES,
    ),
    Mutant(
        "leaving PROCESSING: fence bump",
        TRANSITIONS,
        'set=(f"#status = :{to}", _LEAVE, *also),',
        'set=(f"#status = :{to}", *also),',
        (*CLAUSES, *WORKFLOW),
    ),
    Mutant(
        "reopen: fence bump",
        TRANSITIONS,
        'set=("#steps.#step.#rounds = :rounds", "#fence = :fence_after", ',
        'set=("#steps.#step.#rounds = :rounds", ',
        CLAUSES,
    ),
    Mutant(
        "hold: fence bump",
        TRANSITIONS,
        'set=("#status = :HELD", "#fence = :fence_after"),',
        'set=("#status = :HELD",),',
        CLAUSES,
    ),
    Mutant(
        "cancel: no pivot",
        TRANSITIONS,
        "        _IDLE,\n        NO_PIVOT,\n",
        "        _IDLE,\n",
        CANCELS,
    ),
    Mutant(
        "cancel touched: no pivot",
        TRANSITIONS,
        "condition=(_IDLE, NO_PIVOT, Clause(",
        "condition=(_IDLE, Clause(",
        CANCELS,
    ),
    Mutant(
        "cancel touched: failures of its own",
        TRANSITIONS,
        '        "#cancel_requested = :yes",\n        "#failures = :n0",\n',
        '        "#cancel_requested = :yes",\n',
        CANCELS,
    ),
    Mutant(
        "begin: undoing",
        TRANSITIONS,
        '    Clause("#undoing <> #attempt", "once compensation began in this attempt, no step may begin in it"),\n',
        "",
        CLAUSES,
    ),
    Mutant(
        "DeleteObjects: version id",
        "handlers/steps/_deleting.py",
        '"VersionId": entry.id}',
        '"VersionId": "null"}',
        STEPS,
    ),
    Mutant(
        "verification before completion: graph",
        "statemachine/asl_steps.py",
        "r.plan.steps[index + 1].name if index + 1 < len(r.plan.steps) else VERIFY_STEP",
        'r.plan.steps[index + 1].name if index + 1 < len(r.plan.steps) else "CompleteDeletion"',
        WORKFLOW,
    ),
    Mutant(
        "verification before completion: record",
        "handlers/steps/complete_deletion.py",
        "steps = (*own.deployed_steps, VERIFY_STEP)",
        "steps = own.deployed_steps",
        ("tests/unit/handlers/steps/test_frame_steps.py",),
    ),
    Mutant(
        "guard item",
        TRANSITIONS,
        "guard=Guard(condition=(NO_OPEN_REQUEST, PERSON_FREE)",
        "guard=Guard(condition=(PERSON_FREE,)",
        CLAUSES,
    ),
    Mutant(
        "Superseded taken for OwnershipLost",
        "handlers/core/checkpoint.py",
        "if record is not None and record.is_owned_by(self.task.owner):",
        "if record is None:",
        CLAUSES,
    ),
)


def main(names: Sequence[str]) -> int:
    """Run the named mutants, or all; 1 if one survives."""
    survivors = []
    for mutant in MUTANTS:
        if names and mutant.name not in names:
            continue
        failed = first_failure(mutant)
        print(f"{mutant.name}: {failed or 'SURVIVED'}", flush=True)
        if not failed:
            survivors.append(mutant.name)
    return 1 if survivors else 0


def first_failure(mutant: Mutant) -> str:
    """The first test that notices; empty if none does."""
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, copy / name)
        edited = copy / mutant.file
        text = edited.read_text(encoding="utf-8")
        edited.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        return _run(copy, mutant.tests)


def _run(copy: Path, tests: Sequence[str]) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-n", "2", "--no-header", "-p", "no:cacheprovider", *tests],
        cwd=copy,
        capture_output=True,
        text=True,
        check=False,
    )
    # A file that cannot be collected notices nothing.
    failures = [line for line in ran.stdout.splitlines() if line.startswith("FAILED")]
    if ran.returncode and not failures:
        raise ValueError(ran.stdout + ran.stderr)
    return failures[0].split(" - ")[0] if failures else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
