"""The words of the request record: one name for one thing, in code, table, graph, log and runbook."""

from enum import StrEnum


class Status(StrEnum):
    """Where a request stands as a whole (not where one of its steps stands: that is StepStatus)."""

    SCHEDULED = "SCHEDULED"
    PROCESSING = "PROCESSING"
    RETRYABLE = "RETRYABLE"
    HELD = "HELD"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"


STARTABLE = frozenset({Status.SCHEDULED, Status.RETRYABLE})
"""What waits for its next attempt."""


class StepStatus(StrEnum):
    """Where one step of a request stands; a step that never began has an empty map and no status."""

    RUNNING = "RUNNING"
    DONE = "DONE"
    UNDOING = "UNDOING"
    UNDONE = "UNDONE"


class Origin(StrEnum):
    """By which way a deletion was asked for."""

    SELF_SERVICE = "self_service"
    DATA_SUBJECT = "data_subject"
    OPERATOR = "operator"
    INACTIVITY = "inactivity"


VERIFY_STEP = "VerifyErasure"
"""The verifier's own name in the record's steps; begin of a step that erases takes it out of DONE."""

REQUEST_PREFIX = "REQUEST#"
GUARD_PREFIX = "USER#"

DUE_SHARDS = 16
"""Partitions of the index `due`."""


class StepKind(StrEnum):
    """What a step means for the way back (https://learn.microsoft.com/azure/architecture/patterns/saga)."""

    COMPENSATABLE = "compensatable"
    """Before the pivot; its compensation undoes it."""
    PIVOT = "pivot"
    """The first step that cannot be undone; from here on the request only goes forward."""
    RETRIABLE = "retriable"
    """After the pivot; repeated until it succeeds."""
