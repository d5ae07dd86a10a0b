"""How the answers look: the same facts as one JSON object and as text for a person."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from rich.text import Text

from handlers.core.states import Status
from handlers.redrive import Due, Letter, Parsed, RedriveReport, StatusEvent, Unparsable
from ops import operating, timeline
from ops.letters import Queue
from ops.operating import Outcome
from ops.output import Answer, Exit, facts, iso, stacked, table
from ops.plan import NOT_READ, Plan
from ops.reading import Request
from ops.stuck import Stuck
from ops.timeline import Execution
from ops.verifying import Left

_LIST = ("deletion_request_id", "status", "due_at", "erase_by", "error", "notes")
_STUCK = ("deletion_request_id", "status", "overdue_seconds", "error", "execution", "link")
_STEPS = ("step", "status", "invocations", "rounds", "deleted")
_TIMES = ("requested_at", "accepted_at", "grace_ends_at", "completed_at", "cancelled_at", "expires_at")
_LETTERS = ("message_id", "sent_at", "about", "deletion_request_id", "error_code")
_OPERATED = ("operation", "deletion_request_id", "status", "dispatched")
_NO_OPEN_REQUEST = (
    "no open request was found for exactly this user_id. It must be the user_id that your application asks with,"
    " letter by letter; the user pool's sub or user name may be another one"
)

Fields = Mapping[str, object]


def listed(requests: Sequence[Request], now: int, worst_case: int, *, more: bool) -> Answer:
    """Requests, one a line."""
    rows = [request.row(now, worst_case) for request in requests]
    return Answer(data={"requests": rows, "more": more}, text=table(rows, _LIST, nothing="no such request"))


def request(found: Request, now: int, worst_case: int, *, execution: Execution | None, schedule: str | None) -> Answer:
    """One request with all that is known of it."""
    error: Fields | None = found.fields.get("last_error")
    steps = [_step(name, fields) for name, fields in found.fields["steps"].items()]
    moments = [{"at": iso(moment.at), "what": moment.what} for moment in timeline.moments(found)]
    head: dict[str, object] = {
        **found.row(now, worst_case),
        **{name: iso(found.time(name)) for name in _TIMES},
        "hold_ends_at": iso(found.time("due_at")) if found.status == Status.HELD else None,
        "cancel_requested": bool(found.fields.get("cancel_requested")),
        "schedule": schedule,
        "last_error": {**error, "at": iso(int(str(error["at"])))} if error else None,
    }
    described = _execution(execution)
    return Answer(
        data={**head, "execution": described, "steps": steps, "timeline": moments},
        text=stacked(
            facts(head),
            facts(described or {"execution": "none was started"}),
            table(steps, _STEPS, nothing="no step began"),
            table(moments, ("at", "what"), nothing=""),
        ),
    )


def stuck(found: Sequence[Stuck], *, more: bool) -> Answer:
    """Stuck requests with the executions that hold them."""
    rows = [
        {
            "deletion_request_id": one.request.id,
            "status": one.request.status,
            "overdue_seconds": one.overdue_by,
            "error": one.request.error,
            "execution": _execution(one.execution),
        }
        for one in found
    ]
    executions = [one.execution for one in found]
    lines = [
        {**row, "execution": execution and execution.status, "link": execution and execution.link}
        for row, execution in zip(rows, executions, strict=True)
    ]
    return Answer(data={"requests": rows, "more": more}, text=table(lines, _STUCK, nothing="nothing is stuck"))


def queues(found: Sequence[Queue]) -> Answer:
    """Dead-letter queues."""
    rows = [asdict(queue) for queue in found]
    return Answer(data={"queues": rows}, text=table(rows, ("name", "messages", "in_flight"), nothing="no queues"))


def left(deletion_request_id: str, found: Sequence[Left]) -> Answer:
    """What the stores hold of a request's user."""
    is_unread = any(one.stores is None for one in found)
    code = Exit.INCOMPLETE if is_unread else Exit.REFUSED if any(one.stores for one in found) else Exit.OK
    lines = [{"step": one.step, "stores": "not read" if one.stores is None else one.stores or "empty"} for one in found]
    return Answer(
        data={
            "deletion_request_id": deletion_request_id,
            "clean": code is Exit.OK,
            "steps": [asdict(one) for one in found],
        },
        text=table(lines, ("step", "stores"), nothing="no step erases anything"),
        code=code,
    )


def plan(made: Plan) -> Answer:
    """What a deletion would take."""
    head: dict[str, object] = {
        "deletion_request_id": made.deletion_request_id,
        "status": made.status,
        "person_held": made.is_person_held,
        "grace_ends_at": iso(made.times.grace_ends_at),
        "erase_by": iso(made.times.erase_by),
        "identity": made.identity,
    }
    rows = [asdict(content) for content in made.contents]
    columns = ("step", "store", "count", "bytes")
    return Answer(
        data={**head, "stores": rows, "unread": dict(made.unread)},
        text=stacked(facts(_told(made, head)), table(rows, columns, nothing="nothing would be erased")),
        code=Exit.INCOMPLETE if made.unread else Exit.OK,
    )


def _told(made: Plan, head: Fields) -> Fields:
    """For a person, to whom a request without an id would look like one that exists."""
    is_new = made.deletion_request_id is None and made.status != NOT_READ
    return {**head, "deletion_request_id": "a new one"} if is_new else head


def accepted(answer: Fields) -> Answer:
    """What the request function answered."""
    times = {name: iso(int(str(answer[name]))) for name in ("grace_ends_at", "erase_by")}
    return Answer(data={**answer, **times}, text=facts({**answer, **times}))


def operated(answer: Fields) -> Answer:
    """What the function `operate` answered."""
    data = {name: answer[name] for name in _OPERATED}
    return Answer(data={**data, "note": note_of(answer)}, text=facts(data))


def note_of(answer: Fields) -> str | None:
    """What an answer of `operate` does not show: a person without an open request looks like a misspelt one."""
    return _NO_OPEN_REQUEST if answer["deletion_request_id"] is None else None


def redriven(outcomes: Sequence[Outcome], *, dry_run: bool, more: bool) -> Answer:
    """What became of FAILED requests."""
    columns = ("deletion_request_id", "status", "problem")
    rows = [{name: getattr(outcome, name) for name in columns} for outcome in outcomes]
    return Answer(
        data={"dry_run": dry_run, "requests": rows, "more": more},
        text=table(rows, columns, nothing="no such request is FAILED"),
        code=operating.exit_of(outcomes),
    )


def messages(report: RedriveReport, *, dry_run: bool) -> Answer:
    """What became of a queue's messages."""
    data = {"dry_run": dry_run, "handled": report.handled, "left": dict(report.left)}
    return Answer(data=data, text=facts(data), code=Exit.INCOMPLETE if report.left else Exit.OK)


def letters(found: Sequence[Letter], *, more: bool) -> Answer:
    """Messages of a dead-letter queue, one a line."""
    rows: list[dict[str, object]] = [
        {
            "message_id": one.message_id,
            "sent_at": iso(one.sent_at),
            "about": _about(one.parsed),
            "deletion_request_id": one.deletion_request_id,
            "error_code": one.error_code or None,
        }
        for one in found
    ]
    return Answer(data={"letters": rows, "more": more}, text=table(rows, _LETTERS, nothing="no messages"))


def _about(parsed: Parsed) -> str:
    if isinstance(parsed, Unparsable):
        return parsed.reason
    return {Due: "a start", StatusEvent: "the end of an execution"}.get(type(parsed), "a run of the sweeper")


def swept(outcomes: Mapping[str, int]) -> Answer:
    """What a run of the sweeper came to: outcome -> how many requests."""
    told = facts(outcomes) if outcomes else Text("nothing was due")
    return Answer(data={"outcomes": dict(outcomes)}, text=told)


def pairs(data: Fields, code: Exit) -> Answer:
    """Names and values."""
    return Answer(data=data, text=facts(data), code=code)


def _execution(execution: Execution | None) -> dict[str, object] | None:
    if execution is None:
        return None
    return {
        "arn": execution.arn,
        "link": execution.link,
        "status": execution.status,
        "started_at": iso(execution.started_at),
        "stopped_at": iso(execution.stopped_at),
        "error": execution.error,
        "cause": execution.cause,
    }


def _step(name: str, fields: Fields) -> dict[str, object]:
    times = {key: iso(int(str(value))) for key, value in fields.items() if key.endswith("_at")}
    return {"step": name, "status": None, "invocations": 0, "deleted": {}, **fields, **times}
