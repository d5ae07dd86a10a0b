"""Asks a service by HTTP to erase the user: one of the team's own, or the one that speaks to a vendor.

What the service answers, at ENDPOINT and with the same Idempotency-Key and bearer token each time:

- POST, the user's names in a JSON body. 200 or 204: erased. 202: it takes longer; Location (of the same origin) says
  where to ask how it stands, Retry-After when. 404 or 410: it knows nobody by these names. A key that it has seen
  starts nothing new: it answers how that erasure stands.
- GET of that Location: answers as the POST does. Without a Location that can be used, ENDPOINT itself is asked.
- GET of ENDPOINT: 200 or 204: nothing is under way under this key, also if it never saw it. 202: something is. Never
  404: a wrong address would look like an erased user.
- 429 or 503 with Retry-After, to the step: it asks again then. The verification does not wait for it: there both are
  errors, as without Retry-After, and the graph's Retry repeats it. Redirects are never followed, bodies never read.

Done when: the service says that the user is erased or unknown, and says so again to the verification.
Safe to repeat because: the key follows from the request and the step, so a repeated POST is one erasure (https://
datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/).
Leaves open: whether the service did what it says cannot be seen from here; a service that answers 2xx for what it has
not done is believed.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import parsedate_to_datetime
from functools import cache, lru_cache
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

import urllib3

from handlers.core import aws, clock, settings
from handlers.core.checkpoint import SHORTEST_POSTPONE, Again, Checkpoint, Done, Postpone
from handlers.core.errors import (
    AccessDenied,
    AwsFailure,
    Retryable,
    SettingsError,
    StoreMissing,
    StoreRefused,
    StoreUnavailable,
    Throttled,
)
from handlers.core.frame import step_handler
from handlers.core.person import Person
from handlers.core.settings import StepSettings
from handlers.core.templates import Template

STORE = "erasure"
"""Under which name an erasure counts: 1 if the service had something to erase."""
LONGEST_PAUSE = SHORTEST_POSTPONE - timedelta(seconds=1)
"""What the step needs as its `wait`: whoever must wait longer is postponed."""
LONGEST_TIMEOUT = timedelta(seconds=60)

_FIRST_LOOK = timedelta(seconds=5)
_LAST_LOOK = timedelta(hours=6)
_MAX_SECONDS = 10**9
"""Of a Retry-After: beyond what anybody waits, within what a timedelta holds."""
_SECRET_SECONDS = 300
"""How long a secret is kept in the process."""
_MAX_PLACE = 1024
"""Characters of a Location that is kept."""
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_PORTS: Mapping[str, int] = {"http": 80, "https": 443}

_ERASED = frozenset({200, 204})
_ACCEPTED = 202
_UNKNOWN = frozenset({404, 410})
_WAITS = frozenset({429, 503})
"""Answers whose Retry-After is an appointment and no failure
(https://www.rfc-editor.org/rfc/rfc9110#name-retry-after, https://www.rfc-editor.org/rfc/rfc6585#section-4)."""
_UNAUTHORIZED = 401
_FAILURES: tuple[tuple[frozenset[int], type[AwsFailure]], ...] = (
    (frozenset({_UNAUTHORIZED, 403}), AccessDenied),
    (_UNKNOWN, StoreMissing),
    (frozenset({429}), Throttled),
    # A request that timed out, one whose first copy is still worked on, one that came too early.
    (frozenset({408, 409, 425}), StoreUnavailable),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureSettings:
    """What the step needs besides the frame's settings.

    Raises:
        SettingsError: names the variable and the rule, never a value.
    """

    endpoint: str
    """The service's address: https, or http on this machine."""
    body: Mapping[str, str]
    """Field of the JSON body -> template of its value, e.g. {"user_id": "{user_id}"}."""
    erasure_secret: str = field(repr=False)
    """Where the bearer token is: name of a Parameter Store SecureString, or ARN of a Secrets Manager secret. The step
    allows ssm:GetParameter or secretsmanager:GetSecretValue on it, and kms:Decrypt on a key of your own."""
    timeout: timedelta
    """How long the service may take for its answer, at most LONGEST_TIMEOUT."""

    def __post_init__(self) -> None:
        """Check everything at once."""
        problems = []
        if not _is_address(self.endpoint):
            problems.append("ENDPOINT is no https address (http only on this machine) without user name and fragment")
        if not _names_somebody(self.body):
            problems.append("BODY names nobody; write {user_id} or a declared identifier into one of its templates")
        if not timedelta(0) < self.timeout <= LONGEST_TIMEOUT:
            problems.append(f"TIMEOUT is not above 0 and at most {LONGEST_TIMEOUT.seconds} seconds")
        if problems:
            raise SettingsError(tuple(problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What is looked at of an answer; its body is not."""

    status: int
    location: str = field(repr=False)
    """Empty if there is none."""
    wait: timedelta | None
    """Until when to wait, by Retry-After; None if it says nothing that can be read."""

    @property
    def is_pending(self) -> bool:
        """Whether the service asks to come again."""
        return self.status == _ACCEPTED or (self.status in _WAITS and self.wait is not None)


@step_handler()
def handler(checkpoint: Checkpoint) -> Done | Again | Postpone:
    """Ask for the erasure, or how it stands, and come again when the service says."""
    own, person = settings.load(ErasureSettings), checkpoint.person
    asked_at = checkpoint.batch.get("asked_at", clock.now())
    place = checkpoint.batch.get("place")
    if place is None:
        checkpoint.progress({"asked_at": asked_at})
        reply = _send(own, person, "POST")
    else:
        reply = _send(own, person, "GET", place)
    if reply.is_pending:
        if reply.status == _ACCEPTED:
            place = _place(own, person, place or "", reply.location) or place or ""
        return _come_again(checkpoint, reply, asked_at, place)
    # A wrong address answers 404 too: whoever was asked at ENDPOINT itself must know its own erasures.
    is_gone = reply.status in _UNKNOWN and place != ""
    if reply.status not in _ERASED and not is_gone:
        raise _failure("POST" if place is None else "GET", reply.status)
    # A service that knows nobody had nothing to erase; a place that is gone was that of an accepted erasure.
    if (place is not None or reply.status in _ERASED) and not checkpoint.deleted.get(STORE):
        checkpoint.add(STORE, 1)
    return Done()


def remaining(person: Person) -> Mapping[str, int]:
    """1 while the service says that the erasure is under way, else 0."""
    reply = _send(settings.load(ErasureSettings), person, "GET")
    if reply.status == _ACCEPTED:
        return {STORE: 1}
    if reply.status not in _ERASED:
        raise _failure("GET", reply.status)
    return {STORE: 0}


def preflight(person: Person) -> Sequence[str]:
    """Whether the secret can be read and opens the endpoint; asks how the erasure stands, which changes nothing."""
    own = settings.load(ErasureSettings)
    try:
        reply = _send(own, person, "GET")
    except (AccessDenied, StoreMissing, StoreRefused) as unreadable:
        mend = "correct ERASURE_SECRET, or allow the step's role to read it"
        return (f"store {STORE}: its secret cannot be read ({unreadable}); {mend}",)
    if reply.status in _ERASED or reply.is_pending:
        return ()
    failure = _failure("GET", reply.status)
    if isinstance(failure, Retryable):
        raise failure
    mend = "correct the secret" if isinstance(failure, AccessDenied) else "correct ENDPOINT; it must answer 200 or 202"
    return (f"store {STORE}: {failure}; {mend}",)


# -- waiting


def _come_again(checkpoint: Checkpoint, reply: Reply, asked_at: int, place: str | None) -> Again | Postpone:
    """Wait as long as the service says, and no less than the erasure already took: looks grow rare by themselves."""
    age = timedelta(seconds=clock.now() - asked_at)
    wait = max(reply.wait or timedelta(0), min(max(age, _FIRST_LOOK), _LAST_LOOK))
    is_short = wait <= LONGEST_PAUSE
    state: dict[str, object] = {"asked_at": asked_at}
    if place is not None:
        state["place"] = place
    checkpoint.progress(state, pause=wait if is_short else timedelta(0))
    return Again(wait=wait) if is_short else Postpone(after=wait)


def _retry_after(text: str | None) -> timedelta | None:
    """Seconds or a date; None for anything else. A time that is past is no wait."""
    if text is None:
        return None
    try:
        is_number = text.isascii() and text.isdigit()
        seconds = int(text) if is_number else parsedate_to_datetime(text).timestamp() - clock.now()
    except ValueError:
        return None
    return timedelta(seconds=min(seconds, _MAX_SECONDS))


# -- one request and its answer


def _send(own: ErasureSettings, person: Person, method: str, place: str = "") -> Reply:
    reply = _exchange(own, person, method, place)
    if reply.status == _UNAUTHORIZED:
        # The secret may have been changed since it was read.
        _secret.cache_clear()
        reply = _exchange(own, person, method, place)
    return reply


def _exchange(own: ErasureSettings, person: Person, method: str, place: str) -> Reply:
    headers = {
        "Accept": "application/json",
        "Authorization": f"Bearer {_secret(own.erasure_secret, clock.now() // _SECRET_SECONDS)}",
        "Idempotency-Key": f"{person.request_id}-{settings.load(StepSettings).step}",
    }
    fields = {name: person.fill(template) for name, template in own.body.items()} if method == "POST" else None
    try:
        answer = _http().request(
            method,
            _address(own, place),
            json=fields,
            headers=headers,
            timeout=urllib3.Timeout(total=own.timeout.total_seconds()),
            retries=False,
            preload_content=False,
        )
    except urllib3.exceptions.HTTPError as error:
        raise StoreUnavailable(f"{method} ENDPOINT", type(error).__name__) from None
    answer.close()
    return Reply(
        status=answer.status,
        location=answer.headers.get("Location", ""),
        wait=_retry_after(answer.headers.get("Retry-After")),
    )


def _failure(method: str, status: int) -> AwsFailure:
    error = next((error for statuses, error in _FAILURES if status in statuses), None)
    if error is None:
        error = StoreUnavailable if status >= 500 else StoreRefused
    return error(f"{method} ENDPOINT", str(status))


@cache
def _http() -> urllib3.PoolManager:
    # At DEBUG, which an account can switch on for all functions, urllib3 logs each address it calls.
    logging.getLogger("urllib3").setLevel(logging.INFO)
    return urllib3.PoolManager()


@lru_cache(maxsize=1)
def _secret(name: str, _window: int) -> str:
    """The bearer token; read again in each window of time."""
    if ":secretsmanager:" in name:
        with aws.our_errors("GetSecretValue"):
            text = aws.client("secretsmanager").get_secret_value(SecretId=name).get("SecretString", "")
    else:
        with aws.our_errors("GetParameter"):
            text = aws.client("ssm").get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"]
    token = str(text).strip()
    if not token or not token.isascii() or not token.isprintable():
        raise SettingsError(("ERASURE_SECRET holds no token of printable ASCII characters",))
    return token


# -- addresses


def _address(own: ErasureSettings, place: str) -> str:
    # Put together by hand: urljoin would take a path that begins with // for another host.
    url = urlsplit(own.endpoint)
    return f"{url.scheme}://{url.netloc}{place}" if place else own.endpoint


def _place(own: ErasureSettings, person: Person, asked: str, location: str) -> str | None:
    """Where the service wants to be asked, as a path, said at the place that was asked; None for what is not kept.

    Another origin would be given the secret, and a text that shows the user must not lie beside the counts.
    """
    try:
        url = urlsplit(urljoin(_address(own, asked), location))
        is_ours = bool(location) and _origin(url) == _origin(urlsplit(own.endpoint))
    except ValueError:
        return None
    place = f"{url.path}?{url.query}" if url.query else url.path
    names = [*person.names().values(), *_pool_names(person)]
    if not is_ours or len(place) > _MAX_PLACE or any(name in unquote(place) for name in names):
        return None
    return place


def _pool_names(person: Person) -> Sequence[str]:
    profiles = person.identity.profiles() if person.identity else ()
    return [name for profile in profiles for name in (profile.sub, profile.username)]


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    return url.scheme, url.hostname, url.port or _PORTS.get(url.scheme)


def _is_address(text: str) -> bool:
    try:
        url = urlsplit(text)
        scheme, host, port = _origin(url)
    except ValueError:
        return False
    is_safe = scheme == "https" or (scheme == "http" and host in _LOOPBACK)
    return is_safe and bool(host) and bool(port) and url.username is None and not url.fragment


def _names_somebody(body: Mapping[str, str]) -> bool:
    try:
        return any(Template(template).placeholders() for template in body.values())
    except ValueError:
        return False
