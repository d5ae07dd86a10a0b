"""Starts, finds and stops the AWS emulator: one process, no Docker, nothing outside this repository.

The emulator (`ministack`) lives in its own virtual environment because it pins botocore exactly. It is told apart
from any other process by a token that it repeats in its health answer, so a port or a process id that somebody else
took over in the meantime is never mistaken for ours.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import boto3
from botocore.config import Config

ROOT = Path(__file__).resolve().parent.parent
"""The repository's root; every path is taken from here, never from the current directory."""
HOME = ROOT / ".local"
"""Where all that a local run leaves behind is kept; `rm -r .local` forgets it."""
STATE = HOME / "state.json"
"""The emulator that `up` left running, for `down` and `status`."""

ACCOUNT = "123456789012"
"""A 12-digit access key is an account of its own to the emulator."""
REGION = "eu-central-1"

PYTHON_VARIABLE = "ACCOUNT_DELETION_EMULATOR_PYTHON"
READY_WITHIN = 60.0
"""Seconds; it takes less than one, but a machine under load may need many times that."""
STOPS_WITHIN = 10.0
START_TRIES = 5
"""A free port can be taken by somebody else before the emulator binds it."""


class EmulatorError(RuntimeError):
    """The emulator cannot be found, started or stopped; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where one emulator runs and how it is recognised: what `.local/state.json` holds."""

    endpoint: str
    """http://127.0.0.1:<port>, without a slash at the end."""
    pid: int
    """The process, which also leads a process group of its own (its Lambda workers are in it)."""
    token: str
    """What the emulator repeats in its health answer."""
    workdir: str
    """Its private TMPDIR and HOME, with emulator.log."""
    account: str = ACCOUNT
    region: str = REGION


class Emulator:
    """A running emulator and the boto3 clients that talk to it.

    As a context manager it is stopped, and its directory removed, at the end:

        with Emulator.start() as emulator:
            emulator.client("sqs").list_queues()
    """

    def __init__(self, address: Address, *, started_here: bool = False) -> None:
        self.address = address
        # Our own child keeps its process id until we have looked at its end, so it may be stopped unseen.
        self._started_here = started_here
        self._session = boto3.Session(
            aws_access_key_id=address.account,
            aws_secret_access_key=_SECRET_KEY,
            region_name=address.region,
        )
        self._clients: dict[str, Any] = {}
        # boto3 clients may be shared between threads, the making of clients may not; Pulumi registers in threads.
        self._making = threading.Lock()

    @classmethod
    def start(cls, *, skip_waits: bool = False, permissions: bool = True, workdir: Path | None = None) -> Emulator:
        """Start one on a free port and wait until it answers.

        skip_waits: Wait states, and the intervals of Retry, take no time.
        permissions: a function may do what its role's policies allow, and nothing else; the state machine's own role
            is not looked at, and our own clients may do everything.
        workdir: its directory; by default a new one under `.local/`.
        Raises EmulatorError with the end of its log when it does not come up.
        """
        python = emulator_python()
        for attempt in range(START_TRIES):
            try:
                directory = workdir or HOME / f"run-{secrets.token_hex(4)}"
                return cls(_launch(python, directory, _Options(skip_waits, permissions)), started_here=True)
            except _PortTakenError:
                if attempt == START_TRIES - 1:
                    raise
        raise AssertionError("not reached")

    @property
    def endpoint(self) -> str:
        """What goes into AWS_ENDPOINT_URL."""
        return self.address.endpoint

    @property
    def account(self) -> str:
        """The account that every resource belongs to."""
        return self.address.account

    @property
    def region(self) -> str:
        """The Region that every resource is in."""
        return self.address.region

    def session(self) -> boto3.Session:
        """A boto3 session with the local credentials; its clients still need `endpoint_url`."""
        return self._session

    def client(self, service: str) -> Any:
        """The one client of that service (boto3's name for it), with explicit timeouts."""
        with self._making:
            if service not in self._clients:
                self._clients[service] = self._session.client(  # type: ignore[call-overload]
                    service, endpoint_url=self.endpoint, config=_CLIENT
                )
            return self._clients[service]

    def environment(self) -> dict[str, str]:
        """What another program on this machine needs to reach this emulator with any AWS SDK."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.account,
            "AWS_SECRET_ACCESS_KEY": _SECRET_KEY,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
        }

    def reset(self) -> None:
        """Forget every resource of every account, and stop the Lambda workers."""
        _post(f"{self.endpoint}/_ministack/reset", None)

    def scale_waits(self, factor: float) -> None:
        """From now on a Wait state, or an interval of Retry, of one second takes `factor` seconds; 0 skips it."""
        _post(f"{self.endpoint}/_ministack/config", {"stepfunctions._SFN_WAIT_SCALE": factor})

    def alive(self) -> bool:
        """Whether this very emulator still answers."""
        return _health(self.endpoint) == self.address.token

    def stop(self) -> None:
        """End it and its Lambda workers, and remove its directory. Nothing happens when it is gone already.

        Raises EmulatorError when the address answers with somebody else's token: that process is not ours to end.
        """
        answer = _health(self.endpoint)
        if self._started_here or answer == self.address.token:
            _end_group(self.address.pid)
            self._started_here = False
        elif answer is not None:
            raise EmulatorError(f"{self.endpoint} is no longer this emulator; process {self.address.pid} is left alone")
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        shutil.rmtree(self.address.workdir, ignore_errors=True)

    def log(self, lines: int = 30) -> str:
        """The end of the emulator's own log."""
        return _tail(Path(self.address.workdir), lines)

    def __enter__(self) -> Emulator:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


def remember(emulator: Emulator, state: Path = STATE) -> None:
    """Write down where it runs, so that another process can find it."""
    state.parent.mkdir(parents=True, exist_ok=True)
    state.write_text(json.dumps(asdict(emulator.address), indent=2) + "\n", encoding="utf-8")


def recall(state: Path = STATE) -> Emulator | None:
    """The emulator that was remembered, if it still runs; a note about one that is gone is removed."""
    try:
        emulator = Emulator(Address(**json.loads(state.read_text(encoding="utf-8"))))
    except FileNotFoundError:
        return None
    if emulator.alive():
        return emulator
    forget(state)
    return None


def forget(state: Path = STATE) -> None:
    """Remove the note."""
    state.unlink(missing_ok=True)


def emulator_python() -> Path:
    """The interpreter of the emulator's own virtual environment. Raises EmulatorError when there is none."""
    named = os.environ.get(PYTHON_VARIABLE)
    python = Path(named) if named else ROOT / ".venv-emulator" / "bin" / "python"
    if not python.exists():
        raise EmulatorError(
            f"{python} does not exist: make the emulator's environment with `python -m venv .venv-emulator && "
            f".venv-emulator/bin/pip install -r local/requirements.txt`, or name one in {PYTHON_VARIABLE}"
        )
    return python


class _PortTakenError(EmulatorError):
    """Somebody else was faster; try another port."""


_SECRET_KEY = "local"  # noqa: S105 of nothing

_CLIENT = Config(
    connect_timeout=5,
    read_timeout=120,  # an invocation takes as long as its function does
    max_pool_connections=32,
    retries={"total_max_attempts": 2, "mode": "standard"},
    s3={"addressing_style": "path"},
)


@dataclass(frozen=True, slots=True)
class _Options:
    skip_waits: bool
    permissions: bool


def _launch(python: Path, workdir: Path, options: _Options) -> Address:
    workdir.mkdir(parents=True, exist_ok=True)
    port, token = _free_port(), secrets.token_hex(8)
    endpoint = f"http://127.0.0.1:{port}"
    with (workdir / "emulator.log").open("wb") as log:
        process = subprocess.Popen(
            [str(python), "-m", "ministack"],
            env=_environment(port, token, workdir, options),
            cwd=workdir,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait(lambda: _health(endpoint) == token or process.poll() is not None, READY_WITHIN)
        if process.poll() is not None:
            said = _tail(workdir, 15)
            kind = _PortTakenError if "already in use" in said else EmulatorError
            raise kind(f"the emulator ended with code {process.returncode}:\n{said}")
        if _health(endpoint) != token:
            raise EmulatorError(f"the emulator did not answer within {READY_WITHIN} s:\n{_tail(workdir, 15)}")
    except BaseException:
        _end_group(process.pid)
        process.poll()
        shutil.rmtree(workdir, ignore_errors=True)
        raise
    _reap(process)
    return Address(endpoint=endpoint, pid=process.pid, token=token, workdir=str(workdir))


def _environment(port: int, token: str, workdir: Path, options: _Options) -> dict[str, str]:
    """A clean one: Lambda workers inherit it, and nothing of whoever starts this may reach them."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "TMPDIR": str(workdir),
        "HOME": str(workdir),
        "GATEWAY_PORT": str(port),
        "BIND_HOST": "127.0.0.1",
        "MINISTACK_HOST": "127.0.0.1",
        "MINISTACK_REGION": REGION,
        "MINISTACK_ACCOUNT_ID": ACCOUNT,
        "MINISTACK_EDITION": token,  # repeated by the health answer, and read by nothing else
        "SFN_WAIT_SCALE": "0" if options.skip_waits else "1",
        "AUTH": "true" if options.permissions else "false",
        "AWS_SECRET_ACCESS_KEY": _SECRET_KEY,  # with AUTH, signatures are checked
        # Functions are given this one, over whatever their own environment says.
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        # It would open port 8883 on every interface, and clean up containers of other emulators on this machine.
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "DOCKER_HOST": f"unix://{workdir}/no-docker.sock",
    }


def _health(endpoint: str) -> str | None:
    """The token of whatever emulator answers there; None when nothing does, "" when it is no emulator."""
    try:
        with urllib.request.urlopen(f"{endpoint}/_ministack/health", timeout=2) as answer:  # noqa: S310 our own URL
            return str(json.load(answer).get("edition", ""))
    except urllib.error.HTTPError:
        return ""
    except (OSError, ValueError):
        return None


def _post(url: str, body: dict[str, float] | None) -> None:
    request = urllib.request.Request(  # noqa: S310 our own URL
        url,
        data=json.dumps(body).encode() if body else b"",
        method="POST",
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        answer.read()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _end_group(pid: int) -> None:
    """SIGTERM, then SIGKILL, to the group that we made for it: its Lambda workers go with it."""
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(pid, signal_number)
        if _wait(lambda: not _group_lives(pid), STOPS_WITHIN):
            return
    raise EmulatorError(f"process group {pid} does not end")


def _group_lives(pid: int) -> bool:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # our own child stays a zombie, and its group alive, until somebody looks
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _reap(process: subprocess.Popen[bytes]) -> None:
    """Popen warns when it is collected while its child runs; this child is meant to outlive the object."""
    process.returncode = 0


def _wait(condition: Callable[[], bool], limit: float) -> bool:
    """Ask again until it holds or `limit` seconds have passed; the last answer."""
    ends = time.monotonic() + limit
    while not condition():
        if time.monotonic() > ends:
            return False
        time.sleep(0.02)
    return True


def _tail(workdir: Path, lines: int) -> str:
    with suppress(FileNotFoundError):
        text = (workdir / "emulator.log").read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])
    return ""
