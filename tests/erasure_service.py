"""A real HTTP server on this machine that stands for the service which erases a user, and answers as a test says."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATH = "/erasures"
Raw = Callable[[BaseHTTPRequestHandler], object]
"""Does with the connection what no proper answer does."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass
class Service:
    """Notes each request, and answers the next one of `answers`, or else `otherwise`."""

    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    answers: list[tuple[int, Mapping[str, str]] | Raw] = field(default_factory=list)
    otherwise: tuple[int, Mapping[str, str]] = (200, {})
    over: threading.Event = field(default_factory=threading.Event)
    """Set when the test is over, so that no answer that is held back outlives it."""

    def say(self, status: int, **headers: str) -> None:
        """Queue an answer; RETRY_AFTER="5" is the header Retry-After."""
        self.answers.append((status, {name.replace("_", "-"): value for name, value in headers.items()}))

    def asked(self) -> list[str]:
        """Method and path of each request."""
        return [f"{one.method} {one.path}" for one in self.seen]

    def keys(self) -> set[str]:
        """The idempotency keys of all POSTs: so many erasures were begun."""
        return {one.headers["Idempotency-Key"] for one in self.seen if one.method == "POST"}

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Note a request and answer it."""
        text = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        self.seen.append(
            Seen(str(request.command), request.path, dict(request.headers), json.loads(text) if text else None)
        )
        answer = self.answers.pop(0) if self.answers else self.otherwise
        if callable(answer):
            answer(request)
            return
        status, headers = answer
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        if status != 204:
            request.wfile.write(b'{"user": "secret of ann"}')


@contextmanager
def serving() -> Iterator[Service]:
    """A service that listens on a free port until the block ends."""
    service = Service()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            service.answer(self)

        def do_POST(self) -> None:
            service.answer(self)

        def log_message(self, *_: object) -> None:
            """Nothing: a test's output is for its failures."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service.url = f"http://127.0.0.1:{server.server_port}{PATH}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield service
    finally:
        service.over.set()
        server.shutdown()
        thread.join()
        server.server_close()
