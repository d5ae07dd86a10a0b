"""The runbook is complete, and its numbers and names are those of the code; tests/emulator types its commands."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from fnmatch import fnmatch
from typing import Any

import pytest

from handlers.core.errors import DeletionError, Held, Permanent, QuietEnd
from handlers.core.states import Status
from handlers.core.transition import Transition
from handlers.core.transitions import CANCEL, HOLD, REDRIVE, RELEASE
from handlers.dispatch import LONGEST_VISIBILITY
from handlers.recover import UNKNOWN
from handlers.steps.delete_files import PROVE_AGAIN
from handlers.sweep import DEFERRED
from infra.alarm_list import SECTIONS, Alarm, Expression
from infra.events import ENDED_BADLY, SWEEP_EVERY
from infra.queries import QUERIES
from infra.queues import RETENTION
from local.emulator import ROOT
from ops.cli import app
from ops.output import Exit
from statemachine.frame import CANCEL as CANCEL_ROLE
from statemachine.frame import CHECK, COMPLETE, HANDLERS, LOOK_AGAIN, VERIFY
from statemachine.functions import Asynchronous
from statemachine.plan import LAMBDA_RETRY
from tests.infra.test_alarms import ALARMS, WORKFLOW
from tests.runbook import EXAMPLE, RUNBOOK, commands, rows, sections, under

WORDS = {2: "two", 3: "three", 4: "four", 5: "five", 10: "ten"}
NO_ERROR = "None"
"""What Claim's `error` holds before there is one; no state that writes is reached with it."""
OPERATIONS = {"cancel": CANCEL, "hold": HOLD, "release": RELEASE, "redrive": REDRIVE}


def test_the_alarms_of_the_runbook_are_exactly_those_that_can_ring() -> None:
    assert tuple(under("Alarms")) == SECTIONS
    assert {alarm.section for alarm in ALARMS.values()} == set(SECTIONS)


def test_every_alarm_has_a_command() -> None:
    assert [heading for heading in under("Alarms") if not commands(sections()[heading])] == []


def test_every_state_leads_to_a_command_for_it() -> None:
    headings = {heading.lower().replace(" ", "-"): heading for heading in sections()}
    leads = {
        state: [(f"ops {word}", headings[link]) for word, link in re.findall(r"\[`(\w+)`\]\(#([\w-]+)\)", possible)]
        for state, _, possible in rows(sections()["States"])
    }
    assert [state for state, found in leads.items() if not found] == []
    typed = {heading: "\n".join(commands(text)) for heading, text in sections().items()}
    assert [(word, heading) for found in leads.values() for word, heading in found if word not in typed[heading]] == []


def test_a_command_names_nothing_of_one_stack_but_what_the_beginning_calls_an_example() -> None:
    beginning = sections()["Before you need it"]
    examples = set(re.findall(r"`([^`]+)`", beginning[beginning.index("These are examples") :]))
    lines = [line.split() for text in sections().values() for line in commands(text)]
    arguments = {word for line in lines if line[0] == ".venv/bin/python" for word in line[3:] if word[0] != "-"}
    names = {str(command.name) for command in app.registered_commands}
    named = arguments - names - set(Status) - {"DispatchesExhausted"}
    assert EXAMPLE in named
    assert named <= examples


def test_every_state_is_in_the_table_of_states() -> None:
    assert sorted(cells[0] for cells in rows(sections()["States"])) == sorted(Status)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_table_of_states_offers_an_operation_exactly_where_it_is_possible(operation: str) -> None:
    offered = {state for state, _, possible in rows(sections()["States"]) if f"`{operation}`" in possible}
    assert offered == froms(OPERATIONS[operation])


def froms(transition: Transition) -> set[Status | None]:
    return {before for before, _ in transition.moves}


# -- errors


def errors_of_the_table() -> list[str]:
    """What the first column names; a name may end in a star."""
    return [name for cells in rows(sections()["failed"]) for name in cells[0].split(", ")]


def is_explained(error: str) -> bool:
    return any(fnmatch(error, name) for name in errors_of_the_table())


def raised_in_the_graph() -> set[type[DeletionError]]:
    """What the functions that the graph calls declare, but for what is written to no record as an error of FAILED."""
    steps = [step.handler for step in WORKFLOW.steps]
    undos = [step.compensation.handler for step in WORKFLOW.steps if step.compensation]
    frame = [HANDLERS[role] for role in (CHECK, VERIFY, COMPLETE, CANCEL_ROLE)]
    raised = {error for handler in (*steps, *undos, *frame) for error in handler.raises}
    return {error for error in raised if not issubclass(error, QuietEnd | Held)}


def named_in_the_graph() -> set[str]:
    """The graph's own names for what went wrong."""
    text = (ROOT / "statemachine" / "golden" / "deletion.asl.json").read_text(encoding="utf-8")
    names = {str(found["name"]) for found in objects(json.loads(text)) if found.keys() == {"step", "name"}}
    return {name for name in names if not name.startswith("{%")} - {NO_ERROR}


def objects(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from objects(child)


def test_every_error_that_a_failed_request_can_have_is_explained() -> None:
    written_elsewhere = {"DispatchesExhausted", *ENDED_BADLY, UNKNOWN}
    possible = {error.__name__ for error in raised_in_the_graph()} | named_in_the_graph() | written_elsewhere
    assert [error for error in sorted({*possible, *LAMBDA_RETRY.names}) if not is_explained(error)] == []
    assert {"AccessDenied", "PatienceSpent", "StoreUnfit", "TurnsSpent", "UndoInFlight"} <= possible


def test_every_permanent_error_is_in_the_section_of_failed_requests() -> None:
    text = sections()["failed"]
    assert [error.__name__ for error in below(Permanent) if not re.search(rf"\b{error.__name__}\b", text)] == []


def below(error: type[DeletionError]) -> Iterator[type[DeletionError]]:
    for one in error.__subclasses__():
        # Tests make subclasses of their own.
        if one.__module__.startswith("handlers."):
            yield one
            yield from below(one)


def test_no_row_is_about_an_error_that_cannot_be() -> None:
    graph = {error.__name__ for error in raised_in_the_graph()} | named_in_the_graph()
    services = {*LAMBDA_RETRY.names, "Runtime.ExitError", *ENDED_BADLY, UNKNOWN}
    known = {*graph, *services, "DispatchesExhausted"}
    assert [name for name in errors_of_the_table() if not any(fnmatch(one, name) for one in known)] == []


# -- numbers and names


def alarm(section: str) -> Alarm:
    return next(one for one in ALARMS.values() if one.section == section)


def bad_executions() -> tuple[int, int]:
    """One in how many, and how many at least."""
    ratio = alarm("failure-ratio")
    assert isinstance(ratio.watches, Expression)
    assert ratio.period == timedelta(hours=1)
    at_least = re.search(r"bad >= (\d+)", ratio.watches.text)
    assert at_least
    return round(100 / ratio.threshold), int(at_least[1])


def an_hour(section: str) -> int:
    """How many periods of an hour must be bad."""
    found = alarm(section)
    assert found.periods * found.period == timedelta(hours=1)
    return found.points


def minutes(duration: timedelta) -> str:
    return WORDS[round(duration.total_seconds() / 60)]


def test_the_numbers_of_the_runbook_are_those_of_the_code() -> None:
    one_in, at_least = bad_executions()
    silent = alarm("sweeper-silent")
    refused, running = alarm("start-failed"), alarm("still-running")
    tries = [min(2**tried * WORKFLOW.dispatch_visibility, LONGEST_VISIBILITY) for tried in range(4)]
    first, second, *later = (minutes(wait) for wait in tries)
    said = {
        "sweeper-silent": f"no run for {minutes(silent.points * silent.period)} minutes",
        "start-failed": f"in {WORDS[refused.points]} of {WORDS[refused.periods]} periods of {minutes(refused.period)}"
        " minutes",
        "still-running": f"{WORDS[int(running.threshold)]} of the {WORDS[Asynchronous().retries + 1]} deliveries",
        "failure-ratio": f"One execution in {WORDS[one_in]} of an hour ended badly, and {WORDS[at_least]} at least",
        "function-errors": f"{WORDS[an_hour('function-errors')]} periods of an hour",
        "stuck-processing": f"looked at again every {minutes(LOOK_AGAIN)} minutes",
        "dead-letters": f"its function failed {WORDS[Asynchronous().retries + 1]} times",
        "not-handled": f"comes due again within {minutes(LONGEST_VISIBILITY)} minutes",
        "Legal hold": f"again every {PROVE_AGAIN} seconds",
        "Ask for a deletion": f"exits with {Exit.INCOMPLETE.value}",
        "See what is left of a user": f"exits with {Exit.REFUSED.value}",
    }
    text = {heading: " ".join(section.split()) for heading, section in sections().items()}
    assert [(heading, phrase) for heading, phrase in said.items() if phrase not in text[heading]] == []
    assert set(re.findall(r"(\w+) attempts (?:in a row|ended|met)", text["failed"])) == {WORDS[WORKFLOW.max_failures]}
    assert f"after {first} minutes, then after {second}, then every {later[0]} minutes" in text["start-failed"]
    assert len(set(later)) == 1
    assert (SWEEP_EVERY, "within a minute" in text["start-failed"]) == (timedelta(minutes=1), True)
    assert (running.period, "within a quarter of an hour" in text["still-running"]) == (timedelta(minutes=15), True)
    assert ALARMS["start-failed"].resolves is ("over by itself" in text["start-failed"])
    assert ALARMS["execution-failed"].pages is ("It pages too" in text["failed"])
    assert (DEFERRED, "a quarter of an hour" in text["not-handled"]) == (timedelta(minutes=15), True)
    assert f"SQS deletes after {RETENTION.days} days" in text["dead-letters"]
    assert (SWEEP_EVERY, "within a minute" in text["schedule-not-created"]) == (timedelta(minutes=1), True)
    assert "`start_rate` a second" in text["oldest-overdue"]
    assert hasattr(WORKFLOW, "start_rate")


def test_every_saved_query_and_log_line_that_the_runbook_names_exists() -> None:
    text = " ".join(RUNBOOK.read_text(encoding="utf-8").split())
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "handlers").rglob("*.py"))
    queries = set(re.findall(r"saved query `([^`]+)`", text))
    lines = set(re.findall(r"log line `([^`]+)`", text))
    assert {"failures-by-function-and-error", "requests-that-need-a-person"} <= queries
    assert queries <= {query.role for query in QUERIES}
    assert {"not handled", "not scheduled", "stores checked"} <= lines
    assert [line for line in lines if f'telemetry.log("{line}"' not in sources] == []


def test_every_link_within_the_runbook_leads_to_a_heading() -> None:
    links = set(re.findall(r"\]\(#([^)]+)\)", RUNBOOK.read_text(encoding="utf-8")))
    assert links
    assert links <= {heading.lower().replace(" ", "-") for heading in sections()}


def test_a_command_in_a_list_is_found_like_any_other() -> None:
    found = commands("1. Look:\n\n   ```sh\n   one\n   two\n   ```\n\n```sh\nthree\n```\n\n```text\nnone\n```\n")
    assert found == ["one", "two", "three"]
