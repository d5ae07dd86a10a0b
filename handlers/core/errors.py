"""Every error that a handler may raise. The bottom of the dependency chain: standard library only.

The parent class is the policy, the name is what an operator reads in the console:

    DeletionError
    ├── QuietEnd            the execution ends quietly, nothing is written
    │   └── OwnershipLost
    ├── Retryable           retried; once Retry is exhausted the request becomes RETRYABLE
    │   ├── Superseded
    │   ├── UndoInFlight
    │   ├── StepMayStillRun
    │   ├── Throttled
    │   ├── StoreUnavailable
    │   ├── EffectPending
    │   ├── ExecutionStillRuns
    │   └── Unexpected
    ├── Permanent           never retried; the step's compensation path, then FAILED
    │   ├── AccessDenied
    │   ├── StoreMissing
    │   ├── StoreRefused
    │   ├── RequestUnknown
    │   ├── InvalidEvent
    │   ├── NotPossible
    │   │   └── PersonHeld
    │   ├── StoreUnfit
    │   ├── PatienceSpent
    │   └── SettingsError
    └── Held                never retried; the request becomes HELD
        └── RetentionLocked

Only the class name and the message cross the Lambda boundary (https://docs.aws.amazon.com/lambda/latest/dg/
python-exceptions.html), so each class writes its own message from facts that are no personal data.
"""

from collections.abc import Iterator


class DeletionError(Exception):
    """The root of the errors that a handler declares."""


def below(error: type[DeletionError]) -> Iterator[type[DeletionError]]:
    """Every class under an error, at any depth."""
    for one in error.__subclasses__():
        yield one
        yield from below(one)


class QuietEnd(DeletionError):
    """The worker has no business here any more: the execution ends without a write."""


class Retryable(DeletionError):
    """The same call may succeed later."""


class Permanent(DeletionError):
    """The same call will fail again until somebody changes something."""


class Held(DeletionError):
    """The data may not be deleted yet; the request waits as HELD."""

    locked: int = 0
    """How many objects are kept."""
    until: int | None = None
    """Epoch seconds at which the last of them may go; None if nobody knows."""


FAMILIES: tuple[type[DeletionError], ...] = (QuietEnd, Retryable, Permanent, Held)
"""The policies; every error belongs to one of them."""


class OwnershipLost(QuietEnd):
    """Another execution, a hold or an ending took the request. Nothing to do for an operator."""

    def __init__(self, request_id: str, step: str) -> None:
        super().__init__(f"{step} of {request_id}: the request has another owner now, this execution ends")


class Superseded(Retryable):
    """A later invocation of the same execution took the fence; the step begins again."""

    def __init__(self, request_id: str, step: str) -> None:
        super().__init__(f"{step} of {request_id}: a later invocation of this step holds the fence, begin again")


class UndoInFlight(Retryable):
    """The step's compensation may still be running; wait until its Lambda must be dead."""

    def __init__(self, request_id: str, step: str) -> None:
        super().__init__(f"{step} of {request_id}: its compensation may still run, begin again later")


class StepMayStillRun(Retryable):
    """The step itself may still be running; its compensation waits until the step's Lambda must be dead."""

    def __init__(self, request_id: str, step: str) -> None:
        super().__init__(f"{step} of {request_id}: it may still run, undo it later")


class EffectPending(Retryable):
    """A store accepted the call but still shows the data; look again later."""

    def __init__(self, request_id: str, step: str, operation: str) -> None:
        super().__init__(f"{step} of {request_id}: {operation} was accepted, its effect is not visible yet")


class ExecutionStillRuns(Retryable):
    """A status-change event came before DescribeExecution knew of it; Lambda calls again."""

    def __init__(self, request_id: str) -> None:
        super().__init__(f"the execution of {request_id} still reads as running, look again")


class AwsFailure(DeletionError):
    """Common form of the errors that stand for an AWS error code."""

    def __init__(self, operation: str, code: str) -> None:
        self.operation = operation
        self.code = code
        super().__init__(f"{operation} answered {code}")

    def __reduce__(self) -> tuple[type["AwsFailure"], tuple[str, str]]:
        return type(self), (self.operation, self.code)


class Throttled(AwsFailure, Retryable):
    """A service asked for fewer calls. Retried with jittered backoff."""


class StoreUnavailable(AwsFailure, Retryable):
    """A service failed, timed out or was in conflict with another call; the call is safe to repeat."""


class AccessDenied(AwsFailure, Permanent):
    """The function's role, a bucket policy or a key policy refuses the call. Mend the permission, then redrive."""


class StoreMissing(AwsFailure, Permanent):
    """A configured table, bucket, pool or function does not exist. Mend the settings, then redrive."""


class StoreRefused(AwsFailure, Permanent):
    """A service calls the request invalid: a mistake in the settings or in the step's code."""


class Unexpected(Retryable):
    """A mistake in a handler's code: its class and place; a foreign message could hold personal data."""

    def __init__(self, name: str, place: str) -> None:
        super().__init__(f"{name} at {place}")


class RetentionLocked(Held):
    """Object Lock or a legal hold keeps objects. The request waits as HELD until the lock ends or it is released."""

    def __init__(self, request_id: str, step: str, locked: int, until: int | None = None) -> None:
        self.locked = locked
        self.until = until
        super().__init__(f"{step} of {request_id}: {locked} objects are under retention or a legal hold")


class RequestUnknown(Permanent):
    """No request has this id (or it has none): the event is rejected before any effect."""

    def __init__(self) -> None:
        super().__init__("no deletion request has the id of this event")


class InvalidEvent(Permanent):
    """The event does not have the documented shape; the message names the field and the rule, never the value."""

    def __init__(self, field: str, rule: str) -> None:
        self.field = field
        self.rule = rule
        super().__init__(f"{field}: {rule}")


class NotPossible(Permanent):
    """An operation does not fit the state that the request is in; the operator looks and decides anew."""

    def __init__(self, operation: str, request_id: str, state: str) -> None:
        self.operation = operation
        self.request_id = request_id
        self.state = state
        super().__init__(f"{operation} of {request_id} is not possible: it is {state}, or changed since it was read")

    def __reduce__(self) -> tuple[type["NotPossible"], tuple[str, str, str]]:
        return type(self), (self.operation, self.request_id, self.state)


class PersonHeld(NotPossible):
    """The request's person is held: nothing of theirs is released or redriven. Release the person first."""

    def __init__(self, operation: str, request_id: str, state: str) -> None:
        super().__init__(operation, request_id, state)
        self.args = (f"{operation} of {request_id} is not possible: its person is held; release the person first",)


class StoreUnfit(Permanent):
    """A store's configuration would make the deletion incomplete; the message names each store and the mend."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


class PatienceSpent(Permanent):
    """A processor that asks for more time has had all that its step grants. Ask the processor, then redrive."""

    def __init__(self, request_id: str, step: str) -> None:
        super().__init__(f"{step} of {request_id}: it is still not done after all the time that the step grants")


class SettingsError(Permanent):
    """The function's environment is incomplete or wrong; every missing or wrong variable is named at once."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))
