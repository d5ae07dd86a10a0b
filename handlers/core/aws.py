"""Clients of AWS services, and their errors turned into ours.

One client per service and process, made at the first use and not at import: the state machine builder imports the
handlers without credentials or a Region. A client's timeouts stay far below a Lambda's, because botocore's defaults
(60 s, https://docs.aws.amazon.com/botocore/latest/reference/config.html) outlast a lease.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from threading import Lock
from typing import Any, TypeVar

import boto3.session
import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from handlers.core.errors import AccessDenied, AwsFailure, StoreMissing, StoreRefused, StoreUnavailable, Throttled
from handlers.core.s3_listing import SET_ASIDE_AT, Parsers, set_aside

CONNECT_SECONDS = 2
READ_SECONDS = 7
TRIES = 3
"""Calls in all that botocore makes for one of ours (standard mode, with jittered backoff)."""
LONGEST_PAUSE_SECONDS = 2 ** (TRIES - 2) + 5
"""Before the last try, after throttling and if the service asks for more (botocore.retries.standard,
ExponentialBackoff)."""

_CONFLICT_TRIES = 6
_BACKOFF_BASE_SECONDS = 0.05

_THROTTLED = frozenset(
    {
        "EC2ThrottledException",
        "ExecutionLimitExceeded",
        "KMSThrottlingException",
        "KmsThrottlingException",
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "ReplicatedWriteConflictException",
        "RequestLimitExceeded",
        "ServiceQuotaExceededException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingError",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
_UNAVAILABLE = frozenset(
    {
        "500",
        "503",
        "CodeArtifactUserPendingException",
        "ConflictException",
        "DependencyTimeoutException",
        "DurableExecutionAlreadyStartedException",
        "EC2UnexpectedException",
        "EFSIOException",
        "EFSMountConnectivityException",
        "EFSMountTimeoutException",
        "ENILimitReachedException",
        "ENINotReadyException",
        "IdempotentParameterMismatchException",
        "InternalError",
        "InternalErrorException",
        "InternalFailure",
        "InternalServerError",
        "InternalServerException",
        "InternalServiceError",
        "ItemCollectionSizeLimitExceededException",
        "KMSInternalException",
        "KeyUnavailableException",
        "OperationAborted",
        "RecursiveInvocationException",
        "RequestTimeout",
        "ResourceConflictException",
        "ResourceNotReadyException",
        "S3FilesMountConnectivityException",
        "S3FilesMountTimeoutException",
        "ServiceException",
        "ServiceUnavailable",
        "SnapStartException",
        "SnapStartNotReadyException",
        "SnapStartRegenerationFailureException",
        "SnapStartTimeoutException",
        "StateMachineDeleting",
        "SubnetIPAddressLimitReachedException",
        "TransactionCanceledException",
        "TransactionConflictException",
        "TransactionInProgressException",
    }
)
_DENIED = frozenset(
    {
        "403",
        "AccessDenied",
        "AccessDeniedException",
        "AllAccessDisabled",
        "EC2AccessDeniedException",
        "EFSMountFailureException",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "InvalidSecurityGroupIDException",
        "InvalidSubnetIDException",
        "KMSAccessDeniedException",
        "KmsAccessDeniedException",
        "NotAuthorizedException",
        "S3FilesMountFailureException",
        "UnrecognizedClientException",
    }
)
_MISSING = frozenset(
    {
        "404",
        "NoSuchBucket",
        "NoSuchKey",
        "NoSuchObjectLockConfiguration",
        "NoSuchUpload",
        "NoSuchVersion",
        "NotFoundException",
        "ExecutionDoesNotExist",
        "KMSNotFoundException",
        "ParameterNotFound",
        "ParameterVersionNotFound",
        "ObjectLockConfigurationNotFoundError",
        "ReplicationConfigurationNotFoundError",
        "ResourceNotFoundException",
        "StateMachineDoesNotExist",
        "TableNotFoundException",
        "UserNotFoundException",
    }
)

_REFUSED = frozenset(
    {
        "CodeArtifactUserDeletedException",
        "CodeArtifactUserFailedException",
        "ConditionalCheckFailedException",
        "DecryptionFailure",
        "DisabledException",
        "DryRunOperationException",
        "ExecutionAlreadyExists",
        "InvalidArn",
        "InvalidExecutionInput",
        "InvalidGrantTokenException",
        "InvalidKeyId",
        "InvalidKeyUsageException",
        "InvalidName",
        "InvalidParameterException",
        "InvalidParameterValueException",
        "InvalidRequestContentException",
        "InvalidRequestException",
        "InvalidRuntimeException",
        "InvalidZipFileException",
        "KMSDisabledException",
        "KMSInvalidStateException",
        "KmsInvalidStateException",
        "MethodNotAllowed",
        "ModeNotSupportedException",
        "NoPublishedVersionException",
        "OperationNotEnabledException",
        "RequestTooLargeException",
        "RuntimeAliasDeletedException",
        "RuntimeVersionDeletedException",
        "SerializedRequestEntityTooLargeException",
        "UnsupportedMediaTypeException",
        "ValidationException",
    }
)

_Answer = TypeVar("_Answer")
HasTime = Callable[[], bool]
_has_time: ContextVar[HasTime | None] = ContextVar("has_time", default=None)
_making = Lock()


class TimeIsUp(Exception):  # noqa: N818 (it is an answer, not a mistake)
    """The caller's time is over: a call, or its next try, was not sent. An earlier try may have had its effect."""


@contextmanager
def only_while(has_time: HasTime) -> Iterator[None]:
    """Within the block, and in this thread, send a call and each further try of it only if this says so.

    A call of the block then outlasts its time by one try and one pause at most, however many tries it has.

    Raises:
        TimeIsUp: from the call that was not sent.
    """
    token = _has_time.set(has_time)
    try:
        yield
    finally:
        _has_time.reset(token)


def _send_in_time_only(**_: object) -> None:
    has_time = _has_time.get()
    if has_time is not None and not has_time():
        raise TimeIsUp


def prepared() -> botocore.session.Session:
    """A session of botocore with a fast parser of S3's listings, whose clients obey `only_while`."""
    made = botocore.session.get_session()
    made.register_component("response_parser_factory", Parsers())
    made.register(SET_ASIDE_AT, set_aside)
    # botocore tells of each try, and gives the caller what is raised there. First: in tests another handler of this
    # event is the service.
    made.get_component("event_emitter").register_first("before-send", _send_in_time_only)
    return made


@cache
def session() -> boto3.session.Session:
    """The process's session."""
    return boto3.session.Session(botocore_session=prepared())


@cache
def client(service: str, *, region: str | None = None, read_seconds: float = READ_SECONDS, tries: int = TRIES) -> Any:
    """The process's client of a service, with bounded timeouts and tries; for another Region if one is given."""
    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=read_seconds,
        # botocore's look at each key of each DeleteObjects call costs a third of a deletion's CPU.
        parameter_validation=service != "s3",
        retries={"mode": "standard", "total_max_attempts": tries},
    )
    # Clients may be used by several threads at once, but a session makes one at a time (https://docs.aws.amazon.com/
    # boto3/latest/guide/session.html#multithreading-or-multiprocessing-with-sessions).
    with _making:
        make: Callable[..., Any] = session().client
        return make(service, region_name=region, config=config)


def error_code(error: ClientError) -> str:
    """The service's code of an error, or "Unknown"."""
    return str(error.response.get("Error", {}).get("Code", "Unknown"))


def translate(operation: str, error: ClientError | BotoCoreError | ResponseParserError) -> AwsFailure:
    """Our error for a foreign one: the code crosses, the message (which may hold a key or a user name) does not."""
    if not isinstance(error, ClientError):
        return StoreUnavailable(operation, type(error).__name__)
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400))
    return failure(operation, error_code(error), status=status)


def failure(operation: str, code: str, *, status: int = 400) -> AwsFailure:
    """Our error for an AWS error code; for an unnamed one the HTTP status tells whom the service blames."""
    for codes, ours in (
        (_THROTTLED, Throttled),
        (_UNAVAILABLE, StoreUnavailable),
        (_DENIED, AccessDenied),
        (_MISSING, StoreMissing),
        (_REFUSED, StoreRefused),
    ):
        if code in codes:
            return ours(operation, code)
    return StoreUnavailable(operation, code) if status >= 500 else StoreRefused(operation, code)


@contextmanager
def our_errors(operation: str) -> Iterator[None]:
    """Turn what botocore raises inside the block into ours, without the foreign message and traceback."""
    try:
        yield
    except (ClientError, BotoCoreError, ResponseParserError) as error:
        raise translate(operation, error) from None


def through_conflicts(call: Callable[[], _Answer], *, is_conflict: Callable[[ClientError], bool]) -> _Answer:
    """Repeat a call while another transaction holds its item, with jittered backoff.

    botocore does not retry TransactionConflictException (https://docs.aws.amazon.com/amazondynamodb/latest/
    developerguide/transaction-apis.html#transaction-conflict-handling), and it never means a lost condition.
    """
    for attempt in range(1, _CONFLICT_TRIES):
        try:
            return call()
        except ClientError as error:
            if not is_conflict(error):
                raise
        back_off(attempt)
    return call()


def back_off(attempt: int) -> None:
    """Sleep before call number attempt + 1: full jitter, twice as long each time.

    https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/
    """
    time.sleep(random.uniform(0, _BACKOFF_BASE_SECONDS * 2**attempt))  # noqa: S311 (jitter, not a secret)


def cancellation_codes(error: ClientError) -> tuple[str, ...]:
    """The reason of each action of a cancelled transaction, in its order; "None" where it was not the cause."""
    return tuple(str(reason.get("Code", "None")) for reason in cancellation_reasons(error))


def cancellation_reasons(error: ClientError) -> Sequence[Mapping[str, Any]]:
    """The reason of each action of a cancelled transaction, in its order; the old item is under "Item"."""
    response: Mapping[str, Any] = error.response
    reasons: Sequence[Mapping[str, Any]] = response.get("CancellationReasons", ())
    return reasons
