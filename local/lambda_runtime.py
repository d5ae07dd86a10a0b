"""The program inside a Lambda worker on the emulator: the Lambda Runtime API loop for Python handlers.

Started by the `bootstrap` that packages.py puts into each function, as `python -I -S`, with the layers' directories
as arguments: a handler sees the standard library, its own package and its layers, nothing of this machine's
site-packages, so a dependency that was forgotten in the package fails here as it would on AWS. (There the runtime's
own boto3 would be found as well.)

Why not awslambdaric: it has a compiled part (no wheels for every platform, a C++ build elsewhere), and the part that is
needed is this page. What it reports is kept: the exception's class name, its message, and the stack trace without
the frames of the runtime.

Only the standard library, nothing of this repository: the file is copied into the package.
"""

from __future__ import annotations

import http.client
import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

Handler = Callable[[Any, "Context"], Any]


_EMULATORS_OWN = (
    "AUTH",
    "BIND_HOST",
    "DOCKER_HOST",
    "GATEWAY_PORT",
    "IOT_MTLS_ENABLED",
    "SFN_WAIT_SCALE",
    "SFTP_ENABLED",
)
"""Workers inherit the emulator's environment; what is in it for the emulator only is none of a handler's business."""


class Context:
    """What a handler gets as its second argument: the attributes of AWS' Python runtime."""

    def __init__(self, headers: http.client.HTTPMessage) -> None:
        self.aws_request_id = headers["Lambda-Runtime-Aws-Request-Id"]
        self.invoked_function_arn = headers["Lambda-Runtime-Invoked-Function-Arn"]
        self.function_name = os.environ["AWS_LAMBDA_FUNCTION_NAME"]
        self.function_version = os.environ["AWS_LAMBDA_FUNCTION_VERSION"]
        self.memory_limit_in_mb = os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]
        self.log_group_name = os.environ.get("AWS_LAMBDA_LOG_GROUP_NAME", f"/aws/lambda/{self.function_name}")
        self.log_stream_name = os.environ["AWS_LAMBDA_LOG_STREAM_NAME"]
        self.identity = None
        self.client_context = None
        self._deadline_ms = int(headers["Lambda-Runtime-Deadline-Ms"])

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until this invocation is killed."""
        return max(0, self._deadline_ms - int(time.time() * 1000))


class InitError(Exception):
    """The handler could not be loaded; `kind` is AWS' name for it."""

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(message)


def main(layers: list[str]) -> None:
    """Load the handler, then answer invocations until the emulator ends this process."""
    for name in [name for name in os.environ if name in _EMULATORS_OWN or name.startswith("MINISTACK_")]:
        del os.environ[name]
    sys.path[:0] = [os.environ["LAMBDA_TASK_ROOT"], *(f"{layer}/python" for layer in layers)]
    try:
        handler = load(os.environ["_HANDLER"])
    except InitError as error:
        # AWS is told by init/error; the emulator loses the type on that way, and keeps it in an invocation's answer.
        handler = _failing(error)
    while True:
        _serve_one(handler)


def load(name: str) -> Handler:
    """The function that `package.module.function` names. Raises InitError with AWS' own error types."""
    module_name, _, function = name.replace("/", ".").rpartition(".")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise InitError("Runtime.ImportModuleError", f"Unable to import module '{module_name}': {error}") from error
    except SyntaxError as error:
        raise InitError("Runtime.UserCodeSyntaxError", f"Syntax error in module '{module_name}': {error}") from error
    except Exception as error:
        raise InitError(type(error).__name__, str(error)) from error
    try:
        found: Handler = getattr(module, function)
    except AttributeError as error:
        raise InitError("Runtime.HandlerNotFound", f"Handler '{function}' missing on module '{module_name}'") from error
    return found


def answer(handler: Handler, event: Any, context: Any) -> tuple[str, bytes]:
    """Run it: ("response", its JSON) or ("error", {errorType, errorMessage, requestId, stackTrace})."""
    try:
        result = handler(event, context)
    except Exception as error:  # noqa: BLE001 whatever it raises is what is reported
        return "error", _report(error, context.aws_request_id)
    try:
        return "response", json.dumps(result).encode()
    except (TypeError, ValueError) as error:
        marshal = InitError("Runtime.MarshalError", f"Unable to marshal response: {error}")
        return "error", _report(marshal, context.aws_request_id)


def _serve_one(handler: Handler) -> None:
    status, headers, body = _call("GET", "next")
    if status != http.client.OK:
        sys.exit(0)  # the emulator has given this environment up
    context, began = Context(headers), time.monotonic()
    kind, payload = answer(handler, json.loads(body), context)
    # The emulator waits 50 ms for a first line of a silent handler, and 5 ms after one.
    print(f"[local] {context.function_name} took {(time.monotonic() - began) * 1000:.1f} ms", flush=True)
    _call("POST", f"{context.aws_request_id}/{kind}", payload)


def _call(method: str, path: str, body: bytes | None = None) -> tuple[int, http.client.HTTPMessage, bytes]:
    # A connection for each call: on one that is kept, the emulator's answer of two small writes waits 40 ms for an
    # acknowledgement that the waiting side delays.
    api = http.client.HTTPConnection(os.environ["AWS_LAMBDA_RUNTIME_API"])
    try:
        api.request(method, f"/2018-06-01/runtime/invocation/{path}", body)
        answered = api.getresponse()
        return answered.status, answered.headers, answered.read()
    finally:
        api.close()


def _report(error: Exception, request_id: str) -> bytes:
    kind = error.kind if isinstance(error, InitError) else type(error).__name__
    # The first frame is `answer` above: a handler's author looks for their own.
    frames = traceback.format_tb(error.__traceback__)[1:]
    print(f"[ERROR] {kind}: {error}\n{''.join(frames)}", end="\n", flush=True)
    report = {"errorMessage": str(error), "errorType": kind, "requestId": request_id, "stackTrace": frames}
    return json.dumps(report).encode()


def _failing(error: InitError) -> Handler:
    def handler(_event: Any, _context: Any) -> Any:
        raise error

    return handler


if __name__ == "__main__":
    main(sys.argv[1:])
