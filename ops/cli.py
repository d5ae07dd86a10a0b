"""The commands of the command line: each finds its stack, does one thing and answers."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Annotated, TextIO, TypeVar

import typer
from rich.console import Console
from rich.progress import Progress

from handlers.core import clock
from handlers.core.events import ID_RULE, is_request_id
from handlers.core.states import Status
from ops import asking, bulk, letters, moments, operating, plan, reading, timeline, verifying, views
from ops import stuck as stuck_requests
from ops.calls import invoke
from ops.command import application, command
from ops.operating import Outcome, operate
from ops.output import Answer, Exit, OpsError, tell
from ops.reading import Wanted
from ops.stack import Stack
from statemachine import frame

app = application("Looks after account deletions: reads their state, and asks the deployed functions to act.")

_Found = TypeVar("_Found")


def _request_id(value: str | None) -> str | None:
    if value is not None and not is_request_id(value):
        raise typer.BadParameter(ID_RULE)
    return value


Id = Annotated[str, typer.Argument(metavar="ID", callback=_request_id, help="the request's id")]
OptionalId = Annotated[str | None, typer.Argument(metavar="[ID]", callback=_request_id, help="the request's id")]
Limit = Annotated[int, typer.Option(min=1, help="how many at most")]
Rate = Annotated[int, typer.Option(min=1, max=100, help="how many a second at most")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="do not ask; needed where nobody can be asked")]
GraceDays = Annotated[float | None, typer.Option(min=0, help="instead of the stack's own grace period")]
QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="whose failures it keeps (see `queues`)")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="say what would be done, and do nothing")]
Person = Annotated[bool, typer.Option("--person", help="all of a person's requests: the ID's, or on standard input")]


# -- reading


@command(app, "list")
def list_requests(
    stack: Stack,
    *,
    state: Annotated[list[Status] | None, typer.Option(help="in this state; may be repeated")] = None,
    overdue: Annotated[bool, typer.Option("--overdue", help="somebody should have looked at it by now")] = False,
    late: Annotated[bool, typer.Option("--late", help="misses, or will miss, its promised end")] = False,
    stuck: Annotated[bool, typer.Option("--stuck", help="PROCESSING without a sign of life")] = False,
    error: Annotated[str | None, typer.Option(help="its last error is of this class")] = None,
    limit: Limit = 100,
) -> Answer:
    """List requests of which all that is asked for holds, without personal data.

    Reads the whole table, or as much of it as the limit needs.
    """
    now, worst_case = clock.now(), _worst_case(stack)
    wanted = Wanted(
        states=frozenset(map(str, state or ())),
        overdue=overdue,
        late=late,
        stuck=stuck,
        error=error,
        worst_case=worst_case,
    )
    found, more = _first(reading.scan(stack.request_table, wanted, now), limit)
    return views.listed(found, now, worst_case, more=more)


@command(app, "show")
def show_request(stack: Stack, request: Id) -> Answer:
    """Show one request: where it stands, what happened when, its steps, its execution."""
    found = reading.read(stack.request_table, request, steps=True)
    return views.request(
        found,
        clock.now(),
        _worst_case(stack),
        execution=timeline.last_execution(stack.state_machine_arn, found),
        schedule=timeline.schedule(stack.variable(frame.REQUEST, "SCHEDULE_GROUP"), found),
    )


@command(app, "stuck")
def list_stuck(stack: Stack, *, limit: Limit = 100) -> Answer:
    """List requests that are PROCESSING past their lease, or overdue although the sweeper runs every minute."""
    found, more = _first(stuck_requests.find(stack, clock.now()), limit)
    return views.stuck(found, more=more)


@command(app, "queues")
def list_queues(stack: Stack) -> Answer:
    """List the dead-letter queues and how many messages wait in each."""
    return views.queues(letters.queues(stack))


@command(app, "letters")
def list_letters(stack: Stack, queue: QueueName, *, limit: Limit = 100) -> Answer:
    """List what waits in a dead-letter queue: what each message is about, never its text. Everything stays in it."""
    found, more = _first(letters.letters(stack, queue, limit=limit + 1), limit)
    return views.letters(found, more=more)


@command(app, "verify")
def verify_request(stack: Stack, request: Id) -> Answer:
    """List what the stores hold of a request's user now, by each step's own function. Deletes nothing."""
    found = verifying.listing(stack, request)
    for one in found:
        if one.problem:
            tell(f"{one.step}: {one.problem}")
    return views.left(request, found)


@command(app, "plan")
def plan_deletion(stack: Stack, *, grace_days: GraceDays = None) -> Answer:
    """Count what a deletion would take, and say when and by which request. Whose data: on standard input.

    Changes nothing. Reads in this process, with your own rights: those of the steps' functions to list and query, and
    kms:GenerateMac with the stack's key and dynamodb:GetItem, to find what the person has open.
    """
    made = plan.make(stack, asking.person().event(grace_days=grace_days))
    for step, problem in made.unread.items():
        tell(f"{step}: {problem}")
    return views.plan(made)


# -- asking the functions to act


@command(app, "request")
def ask_for_deletion(stack: Stack, *, grace_days: GraceDays = None, yes: Yes = False) -> Answer:
    """Ask for the deletion of one user. Whose data: on standard input, never in arguments."""
    named = asking.person()
    asking.confirm("An account will be deleted when its grace period ends. Go on?", yes=yes)
    return views.accepted(invoke(stack.function(frame.REQUEST), named.event(grace_days=grace_days)))


@command(app, "cancel")
def cancel_request(stack: Stack, request: Id, *, yes: Yes = False) -> Answer:
    """Cancel a request that has not begun to erase; what it has touched is undone first."""
    asking.confirm(f"{request} will be cancelled, and the account stays. Go on?", yes=yes)
    return views.operated(operate(stack, "cancel", deletion_request_id=request))


@command(app, "hold")
def hold_request(
    stack: Stack,
    request: OptionalId = None,
    *,
    person: Person = False,
    until: Annotated[str | None, typer.Option(help="a date, or a time with an offset")] = None,
    lasts: Annotated[str | None, typer.Option(help="a span like 12h or 30d")] = None,
) -> Answer:
    """Hold a request, or a person: nothing more is deleted until the hold ends or is released."""
    span = moments.hold_span(until, lasts, clock.now())
    if person and span is not None:
        raise OpsError(Exit.USAGE, "a hold on a person has no end; hold a request, or release the person")
    seconds = None if span is None else int(span.total_seconds())
    return views.operated(_on_request_or_person(stack, "hold", request, person=person, lasts_seconds=seconds))


@command(app, "release")
def release_request(stack: Stack, request: OptionalId = None, *, person: Person = False, yes: Yes = False) -> Answer:
    """Release what is held: the deletion goes on where it was, never before its grace period ends."""
    also = " All holds of the person end, also one that their open request had of its own." if person else ""
    asking.confirm(f"What is released goes on being deleted.{also} Go on?", yes=yes)
    return views.operated(_on_request_or_person(stack, "release", request, person=person))


@command(app, "redrive")
def redrive(
    stack: Stack,
    request: OptionalId = None,
    *,
    queue: Annotated[str | None, typer.Option(help="the messages of this dead-letter queue (see `queues`)")] = None,
    error: Annotated[str | None, typer.Option(help="all FAILED requests whose last error is of this class")] = None,
    all_failed: Annotated[bool, typer.Option("--all-failed", help="all FAILED requests")] = False,
    limit: Limit = 1000,
    rate: Rate = 5,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> Answer:
    """Try again: one FAILED request, all of some kind, or the messages of a dead-letter queue."""
    if sum((request is not None, queue is not None, error is not None, all_failed)) != 1:
        raise OpsError(Exit.USAGE, "give one of ID, --queue, --error and --all-failed")
    if queue is not None:
        if not dry_run:
            asking.confirm(f"The messages of {queue} will be handled again. Go on?", yes=yes)
        return views.messages(letters.redrive(stack, queue, rate=rate, limit=limit, dry_run=dry_run), dry_run=dry_run)
    ids, more = ([request], False) if request is not None else _first(_failed(stack, error), limit)
    if dry_run:
        outcomes = operating.would_redrive_all(stack, ids, on_outcome=_tell_problem)
    else:
        if ids:
            asking.confirm(f"{len(ids)} deletions will be tried again. Go on?", yes=yes)
        outcomes = operating.redrive_all(stack, ids, rate=rate, on_outcome=_tell_problem)
    return views.redriven(outcomes, dry_run=dry_run, more=more)


@command(app, "discard")
def discard_letter(
    stack: Stack,
    queue: QueueName,
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="the message's id (see `letters`)")],
    *,
    yes: Yes = False,
) -> Answer:
    """Delete a message of a dead-letter queue without handling it. No request is lost by it: the sweeper finds each."""
    asking.confirm(f"The message {message} will be deleted from {queue} for good. Go on?", yes=yes)
    letters.discard(stack, queue, message)
    return views.pairs({"discarded": message}, Exit.OK)


@command(app, "sweep")
def sweep_now(stack: Stack, *, yes: Yes = False) -> Answer:
    """Have the sweeper run once now: it starts, recovers or releases whatever is due."""
    asking.confirm("Deletions that are due will be started. Go on?", yes=yes)
    return views.swept(invoke(stack.function(frame.SWEEP), {}))


@command(app, "bulk")
def request_many(
    stack: Stack,
    file: Annotated[str, typer.Argument(metavar="FILE", help="CSV with a header, or JSON Lines; - is standard input")],
    *,
    run: Annotated[str | None, typer.Option(help="the run's name, to go on with it; default: by the content")] = None,
    results: Annotated[Path | None, typer.Option(dir_okay=False, help="what became of each line")] = None,
    rate: Rate = 10,
    yes: Yes = False,
) -> Answer:
    """Ask for the deletion of many users. Run it again to go on where it stopped: no line becomes two requests."""
    name = _run_name(file, run)
    path = results or Path(f"{name if file == '-' else file}.results.jsonl")
    asking.confirm(f"The accounts of {file} will be deleted when their grace periods end. Go on?", yes=yes)
    with bulk.Results(path, name) as written, _opened(file) as opened, _progress() as progress:
        bar = progress.add_task("lines", total=None if file == "-" else bulk.size(Path(file)))
        counts = bulk.ask_all(
            stack.function(frame.REQUEST),
            bulk.lines(opened),
            written,
            run=name,
            # The same number under a name that somebody gave may be another user's line.
            skip_accepted=run is None,
            rate=rate,
            on_result=lambda _: progress.advance(bar),
        )
    code = Exit.INCOMPLETE if counts["failed"] else Exit.REFUSED if counts["refused"] else Exit.OK
    outcomes = {outcome.replace(" ", "_"): counts[outcome] for outcome in bulk.OUTCOMES}
    return views.pairs({"run": name, "results": str(path), **outcomes}, code)


# -- what the commands share


def _worst_case(stack: Stack) -> int:
    """Seconds that one attempt may take, as the sweeper reckons when it warns of promises that will be missed."""
    return int(stack.variable(frame.SWEEP, "ATTEMPT_WORST_CASE"))


def _on_request_or_person(
    stack: Stack, operation: str, request: str | None, *, person: bool, **fields: object
) -> Mapping[str, object]:
    """Operate on a request, or on a person: the one whose request it is, or the one on standard input."""
    if request is None and not person:
        raise OpsError(Exit.USAGE, "give the request's ID, or --person")
    whose = {"deletion_request_id": request} if request else {"user_id": asking.person().user_id}
    answer = operate(stack, f"{operation}_person" if person else operation, **whose, **fields)
    if note := views.note_of(answer):
        tell(note)
    return answer


def _first(found: Iterable[_Found], limit: int) -> tuple[list[_Found], bool]:
    """The first ones, and whether there are more; if so, the operator is told."""
    beginning = list(islice(found, limit + 1))
    more = len(beginning) > limit
    if more:
        tell(f"there are more than {limit}; give a higher --limit")
    return beginning[:limit], more


def _failed(stack: Stack, error: str | None) -> Iterator[str]:
    wanted = Wanted(states=frozenset({str(Status.FAILED)}), error=error)
    return (request.id for request in reading.scan(stack.request_table, wanted, clock.now()))


def _tell_problem(outcome: Outcome) -> None:
    if outcome.problem:
        tell(f"{outcome.deletion_request_id}: {outcome.problem}")


def _run_name(file: str, run: str | None) -> str:
    if run is not None:
        if not bulk.is_run_name(run):
            raise OpsError(Exit.USAGE, f"--run: {bulk.RUN_RULE}")
        return run
    if file == "-":
        raise OpsError(Exit.USAGE, "give --run NAME: what comes from standard input has no name to go on with")
    with _opened(file):
        return bulk.run_name(Path(file))


def _opened(file: str) -> "nullcontext[TextIO] | TextIO":
    if file == "-":
        return nullcontext(sys.stdin)
    try:
        return Path(file).open(encoding="utf-8-sig", newline="")
    except OSError as error:
        raise OpsError(Exit.USAGE, f"{file}: {error.strerror}") from None


def _progress() -> Progress:
    return Progress(console=Console(file=sys.stderr), disable=not sys.stderr.isatty())
