"""What every command has in common: how it finds the stack, how it answers, and how it ends."""

import inspect
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import botocore.exceptions
import typer
from botocore.exceptions import BotoCoreError

from handlers.core import telemetry
from handlers.core.errors import AwsFailure, DeletionError
from ops.output import EXITS, Answer, Exit, OpsError, show, tell, told
from ops.stack import find

Command = Callable[..., Answer]

_MEND = "set credentials (AWS_PROFILE), the Region (AWS_DEFAULT_REGION) and the network as for any AWS tool"
"""For what goes wrong before any service answers."""
_Outputs = Annotated[
    Path | None,
    typer.Option(
        envvar="ACCOUNT_DELETION_OUTPUTS", dir_okay=False, help="what `pulumi stack output --json` printed, as a file"
    ),
]
_Environment = Annotated[
    str | None,
    typer.Option(
        envvar="ACCOUNT_DELETION_ENVIRONMENT", help="find the stack by its tags; needed where there are several"
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="print one JSON object on standard output")]


def application(about: str) -> typer.Typer:
    """A command line without commands. Its help ends with the exit codes."""
    codes = "\n\n".join(f"{code.value}: {meaning}" for code, meaning in EXITS.items())
    return typer.Typer(
        help=about,
        epilog=f"Exit codes\n\n{codes}",
        no_args_is_help=True,
        # A foreign traceback, or the values in it, could hold a user's name.
        pretty_exceptions_enable=False,
    )


def command(app: typer.Typer, name: str) -> Callable[[Command], Command]:
    """Make a function of a Stack and its own options a command with --outputs, --environment and --json."""

    def decorate(function: Command) -> Command:
        def run(*, outputs: Path | None, environment: str | None, as_json: bool, **options: Any) -> None:
            code = _guarded(lambda: _answer(function, outputs, environment, options), as_json=as_json)
            if code is not Exit.OK:
                raise typer.Exit(code)

        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (*own, *_common())]
        run.__doc__ = function.__doc__
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        app.command(name)(run)
        return function

    return decorate


def _common() -> list[inspect.Parameter]:
    kind = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter("outputs", kind, default=None, annotation=_Outputs),
        inspect.Parameter("environment", kind, default=None, annotation=_Environment),
        inspect.Parameter("as_json", kind, default=False, annotation=_Json),
    ]


def _answer(function: Command, outputs: Path | None, environment: str | None, options: dict[str, Any]) -> Answer:
    # Standard output is for the answer; what code of the handlers logs in this process is a message.
    with redirect_stdout(sys.stderr):
        return function(find(outputs, environment), **options)


def _guarded(work: Callable[[], Answer], *, as_json: bool) -> Exit:
    """Do it and show the answer; the exit code. No foreign message is printed: it could hold a user's name."""
    try:
        answer = work()
    except OpsError as error:
        tell(str(error))
        return error.code
    except BotoCoreError as error:
        tell(f"{type(error).__name__}: {_MEND}")
        return Exit.AWS
    except DeletionError as error:
        is_ours_to_set = isinstance(error, AwsFailure) and hasattr(botocore.exceptions, error.code)
        tell(f"{told(error)}{f': {_MEND}' if is_ours_to_set else ''}")
        return Exit.AWS
    except Exception as error:  # noqa: BLE001 (masking everything else is this function's purpose)
        tell(f"{type(error).__name__} at {telemetry.place_of(error)}")
        return Exit.MISTAKE
    show(answer, as_json=as_json)
    return answer.code
