"""The tiny inputs that cross the wire, parsed: an event of the wrong shape is rejected before any effect."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from handlers.core.errors import InvalidEvent

ID_RULE = "`del_` and 26 of 0-9A-Z without I, L, O, U"
_REQUEST_ID = re.compile(r"del_[0-9A-HJKMNP-TV-Z]{26}")
_MAX_OWNER = 2048
_STEP = re.compile(r"[A-Za-z][A-Za-z0-9]{0,59}")


def is_request_id(value: object) -> bool:
    """Whether a value has the shape of a request id (ID_RULE)."""
    return isinstance(value, str) and _REQUEST_ID.fullmatch(value) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInput:
    """What the state machine gives to each Lambda task, and nothing else."""

    deletion_request_id: str
    owner: str
    """ARN of the execution."""
    step: str
    verify: bool
    """Only list what is left; asked by the verification, never by the state machine."""
    preflight: bool = False
    """Only check the stores' configuration; asked by the check before the first step."""

    @classmethod
    def of(cls, event: object) -> "TaskInput":
        """Parse an event.

        Raises:
            InvalidEvent: names the field and the rule, never the value.
        """
        fields = as_object(event)
        owner, step = fields.get("owner"), fields.get("step")
        if not isinstance(owner, str) or not 0 < len(owner) <= _MAX_OWNER:
            raise InvalidEvent("owner", "the ARN of the execution")
        if not isinstance(step, str) or not _STEP.fullmatch(step):
            raise InvalidEvent("step", "the name of the step")
        return cls(
            deletion_request_id=request_id_of(fields),
            owner=owner,
            step=step,
            verify=_flag(fields, "verify"),
            preflight=_flag(fields, "preflight"),
        )


def _flag(fields: Mapping[str, object], name: str) -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise InvalidEvent(name, "true or false")
    return value


def as_object(event: object) -> Mapping[str, object]:
    """The event as a JSON object.

    Raises:
        InvalidEvent: it is none.
    """
    if not isinstance(event, Mapping):
        raise InvalidEvent("event", "a JSON object")
    return event


def request_id_of(fields: Mapping[str, object]) -> str:
    """The event's request id.

    Raises:
        InvalidEvent: it is missing or has another shape.
    """
    value = fields.get("deletion_request_id")
    if not isinstance(value, str) or not is_request_id(value):
        raise InvalidEvent("deletion_request_id", ID_RULE)
    return value
