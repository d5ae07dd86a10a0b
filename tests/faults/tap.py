"""A proxy between the deployed functions and the emulator: holds one of their AWS calls, and loses it.

A function that is held in a call is exactly there, so a test may end its process before an effect or after it. The
handlers know nothing of this: boto3 reads the endpoint and the name of the application from the environment
(https://docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from local.emulator import Emulator
from local.resources.registry import Resources

FUNCTION = "aws:lambda/function:Function"
SERVICES = ("COGNITO_IDENTITY_PROVIDER", "DYNAMODB", "LAMBDA", "S3", "SFN")
_CALLER = re.compile(r"\bapp/(\S+)")
_HOP_BY_HOP = frozenset({"connection", "content-length", "date", "keep-alive", "server", "transfer-encoding"})
_UPSTREAM_SECONDS = 120


class Moment(Enum):
    """When a call is caught."""

    BEFORE = "before"
    """It has no effect yet."""
    AFTER = "after"
    """It had its effect, and the function has no answer yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trap:
    """Waits for one call, which is lost: the function never gets an answer, and botocore repeats the call if it can."""

    function: str
    """Name of the function that makes it."""
    operation: str
    """As AWS spells it."""
    moment: Moment
    caught: threading.Event = field(default_factory=threading.Event)
    """The call came."""
    opened: threading.Event = field(default_factory=threading.Event)
    """The connection may be closed; until then the function stands still in its call."""

    def wait(self, limit: float) -> None:
        """Wait until the call came."""
        assert self.caught.wait(limit), f"{self.function} did not call {self.operation} within {limit} s"


class Tap:
    """The proxy; runs until `close`."""

    def __init__(self, emulator: Emulator) -> None:
        self._upstream = str(urlsplit(emulator.endpoint).netloc)
        self._traps: list[Trap] = []
        self._lock = threading.Lock()
        tap = self

        class Handler(_Handler):
            def answer(self) -> None:
                tap._answer(self)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening; calls under way are left to end."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @contextmanager
    def losing(self, function: str, operation: str, moment: Moment, *, held: bool = True) -> Iterator[Trap]:
        """The function's next call of that kind in this block is lost, before its effect or with its answer.

        held: the function stands still in it until the block ends.
        """
        trap = Trap(function=function, operation=operation, moment=moment)
        if not held:
            trap.opened.set()
        with self._lock:
            self._traps.append(trap)
        try:
            yield trap
        finally:
            with self._lock:
                self._traps = [one for one in self._traps if one is not trap]
            trap.opened.set()

    def _answer(self, call: _Handler) -> None:
        trap = self._sprung(call.caller(), call.operation())
        if trap is None:
            # Whoever called may have been killed meanwhile.
            with suppress(BrokenPipeError, ConnectionResetError):
                call.give(*self._forward(call))
            return
        if trap.moment is Moment.AFTER:
            self._forward(call)
        trap.caught.set()
        trap.opened.wait()
        call.close_connection = True

    def _sprung(self, caller: str, operation: str) -> Trap | None:
        with self._lock:
            for trap in self._traps:
                if (trap.function, trap.operation) == (caller, operation):
                    self._traps.remove(trap)
                    return trap
        return None

    def _forward(self, call: _Handler) -> tuple[int, list[tuple[str, str]], bytes]:
        upstream = HTTPConnection(self._upstream, timeout=_UPSTREAM_SECONDS)
        try:
            # With the Host that was signed.
            upstream.putrequest(call.command, call.path, skip_host=True, skip_accept_encoding=True)
            for name, value in call.headers.items():
                upstream.putheader(name, value)
            upstream.endheaders(call.body)
            answer = upstream.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            upstream.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    body = b""

    def answer(self) -> None:
        raise NotImplementedError

    def caller(self) -> str:
        """Name of the function that calls."""
        found = _CALLER.search(self.headers.get("User-Agent", ""))
        return found[1] if found else ""

    def operation(self) -> str:
        """What is called; the path of a call that no test asks for."""
        target = self.headers.get("X-Amz-Target")
        if target:
            return target.rpartition(".")[2]
        url = urlsplit(self.path)
        if url.path.endswith("/invocations"):
            return "Invoke"
        return "DeleteObjects" if (self.command, url.query) == ("POST", "delete") else url.path

    def give(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (its name in the base class)
        """Say nothing."""

    def _take(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.answer()

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _take  # noqa: N815 (names of the base class)


class TappedResources(Resources):
    """Makes functions that reach AWS through a tap, under their own name."""

    def __init__(self, emulator: Emulator, tap: Tap) -> None:
        super().__init__(emulator)
        self._tap = tap

    def create(self, token: str, inputs: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Make a resource; into a function's environment goes where it finds AWS."""
        return super().create(token, self._tapped(inputs) if token == FUNCTION else inputs)

    def _tapped(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        own = dict(inputs.get("environment") or {}).get("variables") or {}
        found = {f"AWS_ENDPOINT_URL_{service}": self._tap.endpoint for service in SERVICES}
        variables = {**own, **found, "AWS_SDK_UA_APP_ID": str(inputs["name"])}
        return {**inputs, "environment": {"variables": variables}}
