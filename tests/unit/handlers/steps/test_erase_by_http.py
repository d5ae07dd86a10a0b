"""EraseByHttp against a real server on this machine: each answer, each broken connection, and what is sent.

The request table and the secrets are moto's. Whole executions are in tests/workflow/test_erase_by_http.py; nothing of
it runs on the emulator, as the default list has no such step.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from datetime import timedelta
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from sfnx.testing import Failure

from handlers.core.errors import SettingsError
from handlers.core.person import Person
from handlers.steps.erase_by_http import LONGEST_PAUSE, ErasureSettings
from tests.erasure_machine import ROLE, STEP, TOKEN, Erasure, deployed
from tests.erasure_service import PATH, Raw, Service, serving
from tests.wire import Crash, raises
from tests.world import CUSTOMER, OTHER, USER, World

pytestmark = pytest.mark.exhaustive

DAY, HOUR = 86_400, 3600
PLACE = "/jobs/7?part=1"


@pytest.fixture
def service() -> Iterator[Service]:
    with serving() as service:
        yield service


@pytest.fixture
def erasure(world: World, service: Service) -> Erasure:
    return deployed(world, service)


@pytest.fixture
def under_way(erasure: Erasure) -> tuple[Erasure, str]:
    """An erasure that the service accepted and told where to ask about; with its request."""
    request = erasure.claimed()
    erasure.service.say(202, Location=PLACE)
    erasure.run(request)
    return erasure, request


# -- what is sent


def test_the_user_s_names_go_in_the_body_and_the_secret_and_the_key_in_headers(world: World, service: Service) -> None:
    body = json.dumps({"user": "{user_id}", "account": "crm/{customer_id}", "why": "deleted account"})
    erasure = deployed(world, service, BODY=body)
    request = erasure.claimed()

    erasure.run(request)

    (seen,) = service.seen
    assert (seen.method, seen.path) == ("POST", PATH)
    assert seen.body == {"user": USER, "account": f"crm/{CUSTOMER}", "why": "deleted account"}
    assert seen.headers["Authorization"] == f"Bearer {TOKEN}"
    assert seen.headers["Idempotency-Key"] == f"{request}-{STEP}"
    assert seen.headers["Content-Type"] == "application/json"


@pytest.mark.invariant("I5")
def test_a_crash_between_the_answer_and_its_record_is_one_erasure(erasure: Erasure) -> None:
    request = erasure.claimed()
    erasure.service.say(202, Location=PLACE)
    erasure.world.wire.before("UpdateItem", lambda _: None, times=2)
    erasure.world.wire.before("UpdateItem", raises(Crash()))

    with pytest.raises(Crash):
        erasure.run(request)
    erasure.run(request)

    assert erasure.service.asked() == [f"POST {PATH}", f"POST {PATH}"]
    assert len(erasure.service.keys()) == 1
    assert erasure.step(request)["deleted"] == {"erasure": 1}


@pytest.mark.invariant("I6")
def test_a_second_delivery_of_a_step_that_is_done_asks_nobody(erasure: Erasure) -> None:
    request = erasure.claimed()
    answers = [erasure.run(request), erasure.run(request)]

    assert answers == [{"done": True, "wait": 0}] * 2
    assert erasure.service.asked() == [f"POST {PATH}"]


def test_each_request_is_another_erasure(erasure: Erasure) -> None:
    erasure.run(erasure.claimed())
    erasure.world.make_user("bert")
    second = erasure.world.accept("bert", "7")
    erasure.world.dispatch(second)
    erasure.world.claim(second, steps=(STEP,))

    erasure.run(second)

    assert len(erasure.service.keys()) == 2


@pytest.mark.invariant("I1", "I2")
def test_a_worker_that_lost_the_request_asks_for_nothing(erasure: Erasure) -> None:
    request = erasure.claimed()
    world = erasure.world
    world.wire.before("UpdateItem", lambda _: None)
    world.wire.before("UpdateItem", lambda _: world.change(request, status="HELD", owner=None, fence=9))

    with pytest.raises(Failure) as raised:
        erasure.run(request)

    assert raised.value.error == "OwnershipLost"
    assert erasure.service.seen == []


# -- each answer

ANSWERS: Mapping[int, str] = {
    **dict.fromkeys((201, 203, 205, 206, 300, 301, 302, 303, 304, 307, 308), "StoreRefused"),
    **dict.fromkeys((400, 402, 405, 406, 407, 411, 412, 413, 415, 422, 423, 451), "StoreRefused"),
    **dict.fromkeys((401, 403), "AccessDenied"),
    **dict.fromkeys((408, 409, 425, 500, 501, 502, 503, 504, 599), "StoreUnavailable"),
    429: "Throttled",
}
"""Status -> our error, asking for the erasure and asking how it stands; without a Retry-After that can be read."""


@pytest.mark.parametrize("status", [200, 204])
def test_what_is_erased_counts_once(erasure: Erasure, status: int) -> None:
    request = erasure.claimed()
    erasure.service.say(status)

    answer = erasure.run(request)

    assert answer == {"done": True, "wait": 0}
    assert erasure.step(request)["status"] == "DONE"
    assert erasure.step(request)["deleted"] == {"erasure": 1}


@pytest.mark.parametrize("status", [404, 410])
def test_whoever_the_service_does_not_know_is_done_and_counts_for_nothing(erasure: Erasure, status: int) -> None:
    request = erasure.claimed()
    erasure.service.say(status)

    answer = erasure.run(request)

    assert answer == {"done": True, "wait": 0}
    assert erasure.step(request)["deleted"] == {}


@pytest.mark.parametrize("status", [200, 204, 404, 410])
def test_an_accepted_erasure_is_done_when_its_place_says_so_or_is_gone(
    under_way: tuple[Erasure, str], status: int
) -> None:
    erasure, request = under_way
    erasure.service.say(status)

    answer = erasure.run(request)

    assert answer == {"done": True, "wait": 0}
    assert erasure.service.asked() == [f"POST {PATH}", f"GET {PLACE}"]
    assert erasure.step(request)["deleted"] == {"erasure": 1}
    assert "batch" not in erasure.step(request)


def failures(erasure: Erasure, request: str, **headers: str) -> dict[int, tuple[str, str]]:
    """Status -> our error and its message, for each status of ANSWERS."""
    found = {}
    for status in ANSWERS:
        erasure.service.otherwise = (status, headers)
        with pytest.raises(Failure) as raised:
            erasure.run(request)
        found[status] = (raised.value.error, str(raised.value.cause))
    return found


def test_every_other_answer_is_an_error_that_names_the_status_alone(erasure: Erasure) -> None:
    request = erasure.claimed()

    found = failures(erasure, request, Location="/ann", **{"Retry-After": "soon"})

    assert found == {status: (error, f"POST ENDPOINT answered {status}") for status, error in ANSWERS.items()}
    assert erasure.step(request)["status"] == "RUNNING"
    assert len(erasure.service.keys()) == 1


def test_every_other_answer_to_how_it_stands_is_an_error_and_the_place_is_kept(under_way: tuple[Erasure, str]) -> None:
    erasure, request = under_way
    before = erasure.step(request)["batch"]

    found = failures(erasure, request)

    assert found == {status: (error, f"GET ENDPOINT answered {status}") for status, error in ANSWERS.items()}
    assert erasure.step(request)["batch"] == before


def test_no_redirect_is_followed(erasure: Erasure) -> None:
    request = erasure.claimed()
    with serving() as other:
        erasure.service.say(307, Location=other.url)
        with pytest.raises(Failure, match="307"):
            erasure.run(request)

        assert other.seen == []


# -- broken connections


def slam(request: BaseHTTPRequestHandler) -> None:
    """The connection is closed without an answer."""
    request.close_connection = True


def gabble(request: BaseHTTPRequestHandler) -> None:
    """What comes is no HTTP."""
    request.wfile.write(b"secret of ann\r\n\r\n")
    request.close_connection = True


def flood(request: BaseHTTPRequestHandler) -> None:
    """More headers than anybody sends."""
    request.send_response(200)
    for number in range(200):
        request.send_header(f"X-{number}", "ann")
    request.end_headers()


@pytest.mark.parametrize("act", [slam, gabble, flood])
def test_a_connection_that_breaks_is_unavailable_and_asked_again(erasure: Erasure, act: Raw) -> None:
    request = erasure.claimed()
    erasure.service.answers.append(act)

    with pytest.raises(Failure) as raised:
        erasure.run(request)

    assert raised.value.error == "StoreUnavailable"
    assert raised.value.cause == "POST ENDPOINT answered ProtocolError"
    assert erasure.run(request)["done"]
    assert len(erasure.service.keys()) == 1


def test_a_service_that_does_not_answer_in_time_is_unavailable_and_asked_again(world: World, service: Service) -> None:
    erasure = deployed(world, service, TIMEOUT="0.3")
    request = erasure.claimed()
    service.answers.append(lambda _: service.over.wait(3))

    with pytest.raises(Failure) as raised:
        erasure.run(request)

    assert raised.value.error == "StoreUnavailable"
    assert raised.value.cause == "POST ENDPOINT answered ReadTimeoutError"
    assert erasure.run(request)["done"]
    assert len(service.keys()) == 1


def test_a_port_that_nobody_listens_on_is_unavailable(erasure: Erasure) -> None:
    with serving() as gone:
        erasure.machine.values["erasure_endpoint"] = gone.url
    request = erasure.claimed()

    with pytest.raises(Failure) as raised:
        erasure.run(request)

    assert raised.value.error == "StoreUnavailable"
    assert raised.value.cause == "POST ENDPOINT answered NewConnectionError"


def test_a_body_without_end_is_not_read(erasure: Erasure) -> None:
    request = erasure.claimed()

    def pour(connection: BaseHTTPRequestHandler) -> None:
        """60 MB, unless nobody listens any more."""
        connection.send_response(200)
        connection.end_headers()
        try:
            for _ in range(2_000):
                connection.wfile.write(b"ann" * 10_000)
        except OSError:
            erasure.service.over.set()
        connection.close_connection = True

    erasure.service.answers.append(pour)

    assert erasure.run(request)["done"]
    assert erasure.service.over.wait(10)


# -- when to come again


RETRY_AFTER: Mapping[str, Mapping[str, object]] = {
    "0": {"done": False, "wait": 5},
    "10": {"done": False, "wait": 10},
    "59": {"done": False, "wait": 59},
    "60": {"done": False, "wait": 0, "postpone": 60},
    str(HOUR): {"done": False, "wait": 0, "postpone": HOUR},
    str(14 * DAY): {"done": False, "wait": 0, "postpone": DAY},
    "9" * 40: {"done": False, "wait": 0, "postpone": DAY},
    "Sun, 06 Nov 1994 08:49:37 GMT": {"done": False, "wait": 5},
}


@pytest.mark.parametrize("status", [202, 429, 503])
def test_retry_after_is_kept_by_a_pause_or_by_postponing(erasure: Erasure, status: int) -> None:
    request = erasure.claimed()
    found = {}
    for retry_after in RETRY_AFTER:
        erasure.service.say(status, Retry_After=retry_after)
        found[retry_after] = erasure.run(request)

    assert found == RETRY_AFTER


def test_retry_after_may_be_a_date(erasure: Erasure) -> None:
    request = erasure.claimed()
    erasure.service.say(202, Retry_After=formatdate(erasure.world.now + 2 * HOUR, usegmt=True))

    assert erasure.run(request) == {"done": False, "wait": 0, "postpone": 2 * HOUR}


@pytest.mark.parametrize("headers", [{}, *({"Retry-After": text} for text in ("soon", "-9", "1.5", "9" * 5000))])
def test_without_a_retry_after_that_can_be_read_looks_grow_rare(erasure: Erasure, headers: Mapping[str, str]) -> None:
    request = erasure.claimed()
    erasure.service.otherwise = (202, headers)
    waits = []
    for _ in range(16):
        answer = erasure.run(request)
        waits.append(answer.get("postpone") or answer["wait"])
        erasure.world.now += waits[-1]

    assert waits == [5, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240, 20480, 6 * HOUR, 6 * HOUR]


def test_the_lease_covers_a_pause(erasure: Erasure) -> None:
    request = erasure.claimed()
    erasure.service.say(202, Retry_After=str(LONGEST_PAUSE.seconds))

    erasure.run(request)

    assert erasure.world.record(request)["due_at"] == erasure.world.now + LONGEST_PAUSE.seconds + 900


def test_a_service_that_is_busy_is_asked_for_the_erasure_again(erasure: Erasure) -> None:
    request = erasure.claimed()
    erasure.service.say(429, Retry_After="10")
    erasure.run(request)

    answer = erasure.run(request)

    assert answer["done"]
    assert erasure.service.asked() == [f"POST {PATH}", f"POST {PATH}"]
    assert len(erasure.service.keys()) == 1


def test_a_service_that_is_busy_while_the_erasure_is_under_way_is_asked_at_the_same_place(
    under_way: tuple[Erasure, str],
) -> None:
    erasure, request = under_way
    erasure.service.say(503, Retry_After="10")
    erasure.run(request)

    erasure.run(request)

    assert erasure.service.asked() == [f"POST {PATH}", f"GET {PLACE}", f"GET {PLACE}"]


# -- where to ask


@pytest.mark.parametrize(
    ("location", "path"),
    [
        (PLACE, PLACE),
        ("jobs/7", "/jobs/7"),
        ("{origin}/jobs/7#part", "/jobs/7"),
        ("", PATH),
        ("{origin}", PATH),
        ("https://privacy.example.com/jobs/7", PATH),
        ("//privacy.example.com/jobs/7", PATH),
        ("http://127.0.0.1:1/jobs/7", PATH),
        ("http://[::1/jobs/7", PATH),
        ("/jobs/" + "7" * 1100, PATH),
        (f"/jobs/{USER}", PATH),
        ("/jobs/%61nn/7", PATH),
        (f"/jobs?account={CUSTOMER}", PATH),
    ],
)
def test_only_a_place_of_the_same_origin_that_shows_no_name_is_asked_else_the_endpoint_itself(
    erasure: Erasure, location: str, path: str
) -> None:
    request = erasure.claimed()
    erasure.service.say(202, Location=location.format(origin=erasure.service.url.removesuffix(PATH)))
    erasure.run(request)

    erasure.run(request)

    assert erasure.service.asked() == [f"POST {PATH}", f"GET {path}"]
    assert erasure.service.seen[1].headers["Authorization"] == f"Bearer {TOKEN}"


def test_a_place_that_moves_is_followed_from_where_it_was(under_way: tuple[Erasure, str]) -> None:
    erasure, request = under_way
    erasure.service.say(202, Location="8")
    erasure.run(request)

    erasure.run(request)

    assert erasure.service.asked()[1:] == [f"GET {PLACE}", "GET /jobs/8"]


def test_a_place_that_begins_like_a_host_stays_on_the_endpoint_s_origin(erasure: Erasure) -> None:
    request = erasure.claimed()
    origin = erasure.service.url.removesuffix(PATH)
    erasure.service.say(202, Location=f"{origin}//127.0.0.1:1/jobs")
    erasure.run(request)

    erasure.run(request)

    assert len(erasure.service.seen) == 2


def test_no_place_is_kept_that_shows_a_name_of_the_user_pool(erasure: Erasure) -> None:
    sub = erasure.world.make_user()
    request = erasure.claimed()
    erasure.service.say(202, Location=f"/jobs/{sub}")

    erasure.run(request)

    assert erasure.step(request)["batch"] == {"asked_at": erasure.world.now, "place": ""}


# -- the secret


def test_a_secret_is_read_once_and_again_after_five_minutes(under_way: tuple[Erasure, str]) -> None:
    erasure, request = under_way
    erasure.service.otherwise = (202, {})
    wire = erasure.world.wire
    erasure.world.now += 300 - erasure.world.now % 300
    reads = []
    for later in (0, 299, 1):
        erasure.world.now += later
        before = len(wire.of("GetSecretValue"))
        erasure.run(request)
        reads.append(len(wire.of("GetSecretValue")) - before)

    assert reads == [1, 0, 1]


def test_a_secret_that_was_changed_is_read_again_after_it_was_refused(under_way: tuple[Erasure, str]) -> None:
    erasure, request = under_way
    arn = erasure.machine.values["erasure_secret_arn"]
    erasure.world.client("secretsmanager").put_secret_value(SecretId=arn, SecretString="new-token")
    erasure.service.say(401)

    answer = erasure.run(request)

    assert answer["done"]
    assert [one.headers["Authorization"] for one in erasure.service.seen[1:]] == [f"Bearer {TOKEN}", "Bearer new-token"]


def test_a_secret_that_stays_refused_is_tried_twice(erasure: Erasure) -> None:
    request = erasure.claimed()
    erasure.service.otherwise = (401, {})

    with pytest.raises(Failure) as raised:
        erasure.run(request)

    assert raised.value.error == "AccessDenied"
    assert len(erasure.service.seen) == 2


def test_a_secret_may_be_a_secure_string_of_parameter_store(erasure: Erasure) -> None:
    erasure.world.client("ssm").put_parameter(Name="/erasure/token", Value="from-ssm", Type="SecureString")
    erasure.machine.values["erasure_secret_arn"] = "/erasure/token"

    erasure.run(erasure.claimed())

    assert erasure.service.seen[0].headers["Authorization"] == "Bearer from-ssm"
    (call,) = erasure.world.wire.of("GetParameter")
    assert call.params["WithDecryption"] is True


def test_a_secret_of_bytes_is_refused(erasure: Erasure) -> None:
    arn = erasure.machine.values["erasure_secret_arn"]
    erasure.world.client("secretsmanager").put_secret_value(SecretId=arn, SecretBinary=b"token")

    with pytest.raises(Failure, match="ERASURE_SECRET holds no token"):
        erasure.run(erasure.claimed())

    assert erasure.service.seen == []


@pytest.mark.parametrize("token", ["two\nlines", "tökén", " "])
def test_a_secret_that_fits_into_no_header_is_refused_without_its_value(erasure: Erasure, token: str) -> None:
    arn = erasure.machine.values["erasure_secret_arn"]
    erasure.world.client("secretsmanager").put_secret_value(SecretId=arn, SecretString=token)

    with pytest.raises(Failure) as raised:
        erasure.run(erasure.claimed())

    assert raised.value.error == "SettingsError"
    assert raised.value.cause == "ERASURE_SECRET holds no token of printable ASCII characters"
    assert erasure.service.seen == []


# -- verification


@pytest.mark.parametrize(("status", "left"), [(200, {}), (204, {}), (202, {"erasure": 1})])
def test_the_verification_asks_by_the_same_key_whether_the_erasure_is_under_way(
    erasure: Erasure, status: int, left: Mapping[str, int]
) -> None:
    request = erasure.claimed()
    erasure.run(request)
    record = erasure.world.record(request)
    erasure.service.say(status)

    answer = erasure.run(request, verify=True)

    assert answer == {"remaining": left}
    assert erasure.service.asked() == [f"POST {PATH}", f"GET {PATH}"]
    assert len({one.headers["Idempotency-Key"] for one in erasure.service.seen}) == 1
    assert erasure.world.record(request) == record


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (404, "StoreMissing"),
        (410, "StoreMissing"),
        (422, "StoreRefused"),
        (429, "Throttled"),
        (500, "StoreUnavailable"),
    ],
)
def test_a_verification_without_a_word_of_the_service_is_none(erasure: Erasure, status: int, error: str) -> None:
    request = erasure.claimed()
    erasure.service.otherwise = (status, {})

    with pytest.raises(Failure) as raised:
        erasure.run(request, verify=True)

    assert (raised.value.error, raised.value.cause) == (error, f"GET ENDPOINT answered {status}")


def test_an_erasure_that_the_verification_reopened_counts_once(erasure: Erasure) -> None:
    request = erasure.claimed()
    erasure.run(request)
    erasure.world.change(request, **{f"steps__{STEP}__status": None})

    erasure.run(request)

    assert erasure.step(request)["deleted"] == {"erasure": 1}
    assert len(erasure.service.keys()) == 1


# -- before the first step


@pytest.mark.parametrize("status", [200, 202, 204])
def test_an_endpoint_that_says_how_a_new_key_stands_is_fit(erasure: Erasure, status: int) -> None:
    request = erasure.claimed()
    erasure.service.say(status)

    assert erasure.run(request, preflight=True) == {"problems": []}
    assert erasure.service.asked() == [f"GET {PATH}"]


@pytest.mark.parametrize(
    ("status", "mend"),
    [
        (401, "correct the secret"),
        (403, "correct the secret"),
        (404, "correct ENDPOINT; it must answer 200 or 202"),
        (405, "correct ENDPOINT; it must answer 200 or 202"),
        (308, "correct ENDPOINT; it must answer 200 or 202"),
    ],
)
def test_an_endpoint_that_could_not_be_believed_is_named_with_the_mend(
    erasure: Erasure, status: int, mend: str
) -> None:
    request = erasure.claimed()
    erasure.service.otherwise = (status, {})

    answer = erasure.run(request, preflight=True)

    assert answer == {"problems": [f"store erasure: GET ENDPOINT answered {status}; {mend}"]}


def test_a_secret_that_cannot_be_read_is_named_with_the_mend(erasure: Erasure) -> None:
    request = erasure.claimed()
    erasure.world.client("secretsmanager").delete_secret(
        SecretId=erasure.machine.values["erasure_secret_arn"], ForceDeleteWithoutRecovery=True
    )

    (problem,) = erasure.run(request, preflight=True)["problems"]

    assert problem.startswith(
        "store erasure: its secret cannot be read (GetSecretValue answered ResourceNotFoundException)"
    )


def test_an_endpoint_that_fails_for_now_is_no_problem_of_its_settings(erasure: Erasure) -> None:
    request = erasure.claimed()
    erasure.service.otherwise = (502, {})

    with pytest.raises(Failure) as raised:
        erasure.run(request, preflight=True)

    assert raised.value.error == "StoreUnavailable"


# -- settings

FIT: dict[str, Any] = {"body": {"user": "{user_id}"}, "erasure_secret": "/token", "timeout": LONGEST_PAUSE}


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://privacy.example.com",
        "https://privacy.example.com:8443/erasures?tenant=7",
        "http://localhost:8080/erasures",
        "http://127.0.0.1/erasures",
        "http://[::1]:80/",
    ],
)
def test_an_endpoint_is_an_https_address_or_one_on_this_machine(endpoint: str) -> None:
    assert ErasureSettings(endpoint=endpoint, **FIT).endpoint == endpoint


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "privacy.example.com/erasures",
        "http://privacy.example.com/erasures",
        "http://127.0.0.1.example.com/",
        "ftp://localhost/",
        "https:///erasures",
        "https://user:word@privacy.example.com/",
        "https://privacy.example.com/#part",
        "https://privacy.example.com:port/",
        "https://[::1/",
    ],
)
def test_any_other_endpoint_is_refused_without_its_value(endpoint: str) -> None:
    with pytest.raises(SettingsError) as raised:
        ErasureSettings(endpoint=endpoint, **FIT)

    assert str(raised.value).startswith("ENDPOINT is no https address")


@pytest.mark.parametrize("body", [{}, {"user": "everybody"}, {"user": "{user_id"}])
def test_a_body_that_names_nobody_is_refused(body: Mapping[str, str]) -> None:
    with pytest.raises(SettingsError, match="BODY names nobody"):
        ErasureSettings(endpoint="https://privacy.example.com", **{**FIT, "body": body})


@pytest.mark.parametrize("seconds", [0, -1, 61])
def test_a_timeout_that_outlasts_the_function_is_refused(seconds: int) -> None:
    with pytest.raises(SettingsError, match="TIMEOUT"):
        ErasureSettings(endpoint="https://privacy.example.com", **{**FIT, "timeout": timedelta(seconds=seconds)})


# -- personal data


@pytest.mark.invariant("I8")
@pytest.mark.parametrize("status", [200, 202, 404, 422, 429, 500])
def test_neither_names_nor_secret_nor_address_is_logged_or_in_an_error(
    erasure: Erasure, status: int, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """At DEBUG, which an account can switch on for all functions; botocore's own lines are AWS's affair."""
    caplog.set_level(logging.DEBUG)
    request = erasure.claimed()
    erasure.service.otherwise = (status, {"Location": f"/jobs/{USER}"})
    caplog.clear()
    erasure.world.lines()
    said = ""
    for more in ({}, {"verify": True}, {"preflight": True}):
        try:
            said += json.dumps(erasure.run(request, **more))
        except Failure as failure:
            said += f"{failure.error} {failure.cause}"

    lines = [record.getMessage() for record in caplog.records if not record.name.startswith(("boto", "asyncio"))]
    said += json.dumps(erasure.world.lines()) + json.dumps(lines) + "".join(capfd.readouterr())
    for secret in (USER, CUSTOMER, TOKEN, "jobs", "erasures"):
        assert secret not in said.replace(request, ""), secret


def test_a_person_without_a_request_shows_nothing() -> None:
    assert USER not in repr(Person(user_id=USER, request_id="del_1"))


def test_the_step_is_run_by_its_own_function_and_owner(erasure: Erasure) -> None:
    request = erasure.claimed()

    with pytest.raises(Failure) as raised:
        erasure.machine.invoke(ROLE, {"deletion_request_id": request, "owner": OTHER, "step": STEP})

    assert raised.value.error == "OwnershipLost"
    assert erasure.service.seen == []
