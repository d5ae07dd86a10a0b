"""Finds a deployed stack: by what `pulumi stack output --json` printed, or by the tags of its resources.

Only functions and dead-letter queues are looked for. Everything else (table, state machine, stores, times) is read from
the functions' own environment, so the command line looks where the deployment looks.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from handlers.core import aws, settings
from ops.output import Exit, OpsError
from statemachine import frame

APPLICATION = "account-deletion"
"""The tag `application` of everything that the stack makes."""
LIVE = "live"
"""The alias of every function."""
FUNCTION_TYPE, QUEUE_TYPE = "lambda:function", "sqs"

_MEND = "run `pulumi up`, then `pulumi stack output --json > FILE`, and give --outputs FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One deployment."""

    functions: Mapping[str, str]
    """Role -> ARN of the function's alias."""
    queues: Mapping[str, str]
    """Whose failures -> URL of the dead-letter queue."""
    _variables: dict[str, Mapping[str, str]] = field(default_factory=dict, repr=False)

    def function(self, role: str) -> str:
        """ARN of a function's alias.

        Raises:
            OpsError: the deployment has none.
        """
        if role not in self.functions:
            raise OpsError(Exit.USAGE, f"the stack has no function {role}; {_MEND}")
        return self.functions[role]

    def variable(self, role: str, name: str) -> str:
        """A variable of a function of the frame, as it is deployed.

        Raises:
            OpsError: it has none of this name: another version of this project is deployed.
            AwsFailure: it cannot be read.
        """
        variables = self.variables_of(self.function(role))
        if name not in variables:
            raise OpsError(Exit.USAGE, f"the function {role} has no variable {name}: use the version that is deployed")
        return variables[name]

    def variables_of(self, function_arn: str) -> Mapping[str, str]:
        """The environment of a function, as it is deployed.

        Raises:
            OpsError: the caller may not decrypt it.
            AwsFailure: it cannot be read.
        """
        if function_arn not in self._variables:
            self._variables[function_arn] = _read_variables(function_arn)
        return self._variables[function_arn]

    @property
    def request_table(self) -> str:
        """Name of the table of the requests."""
        return self.variable(frame.REQUEST, "REQUEST_TABLE")

    @property
    def state_machine_arn(self) -> str:
        """Whose executions are the attempts."""
        return self.variable(frame.DISPATCH, "STATE_MACHINE_ARN")

    @property
    def erasing_functions(self) -> Mapping[str, str]:
        """Erasing step -> ARN of its function, as the verification knows them."""
        functions: Mapping[str, str] = json.loads(self.variable(frame.VERIFY, "ERASING_FUNCTIONS"))
        return functions

    @contextmanager
    def acting_as(self, function_arn: str) -> Iterator[None]:
        """For as long as the block takes, this process has the function's settings, and the operator's own rights."""
        own = {name: value for name, value in self.variables_of(function_arn).items() if not name.startswith("AWS_")}
        with settings.acting_as(own):
            yield


def find(outputs: Path | None, environment: str | None) -> Stack:
    """The stack that an outputs file names; else the one that the tags of this account and Region show.

    Raises:
        OpsError: there is none, or more than one; the message says what to give.
    """
    return _from_outputs(outputs) if outputs is not None else _by_tags(environment)


def _from_outputs(path: Path) -> Stack:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Stack(functions=dict(found["function_arns"]), queues=dict(found["dead_letter_queue_urls"]))
    except OSError as error:
        raise OpsError(Exit.USAGE, f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise OpsError(Exit.USAGE, f"{path} does not hold the outputs of a stack of this version; {_MEND}") from None


def _by_tags(environment: str | None) -> Stack:
    arns = list(_tagged(environment))
    ending = f"-{frame.REQUEST}"
    bases = [name.removesuffix(ending) for name in map(_name, arns) if name.endswith(ending)]
    if len(bases) != 1:
        raise OpsError(Exit.USAGE, _not_one(bases, environment))
    named = {arn: _name(arn).removeprefix(f"{bases[0]}-") for arn in arns if _name(arn).startswith(f"{bases[0]}-")}
    return Stack(
        functions={role: f"{arn}:{LIVE}" for arn, role in named.items() if ":lambda:" in arn},
        queues={role.removesuffix("-dlq"): _queue_url(arn) for arn, role in named.items() if ":sqs:" in arn},
    )


def _tagged(environment: str | None) -> Iterator[str]:
    tags = {"application": APPLICATION, **({"environment": environment} if environment else {})}
    pages = aws.client("resourcegroupstaggingapi").get_paginator("get_resources")
    with aws.our_errors("GetResources"):
        for page in pages.paginate(
            TagFilters=[{"Key": key, "Values": [value]} for key, value in tags.items()],
            ResourceTypeFilters=[FUNCTION_TYPE, QUEUE_TYPE],
        ):
            yield from (resource["ResourceARN"] for resource in page["ResourceTagMappingList"])


def _not_one(bases: list[str], environment: str | None) -> str:
    where = f" of environment {environment}" if environment else ""
    if not bases:
        return f"no stack{where} is tagged {APPLICATION} in this account and Region; {_MEND}"
    return f"{len(bases)} stacks{where} are here: {', '.join(sorted(bases))}; give --environment NAME or --outputs FILE"


def function_name(function_arn: str) -> str:
    """The name in a function's ARN, also where it ends in an alias."""
    return function_arn.split(":")[6]


def _name(arn: str) -> str:
    return arn.rpartition(":")[2]


def _queue_url(arn: str) -> str:
    account, name = arn.split(":")[4:6]
    with aws.our_errors("GetQueueUrl"):
        answer = aws.client("sqs").get_queue_url(QueueName=name, QueueOwnerAWSAccountId=account)
    return str(answer["QueueUrl"])


def _read_variables(function_arn: str) -> Mapping[str, str]:
    with aws.our_errors("GetFunctionConfiguration"):
        answer: Mapping[str, Any] = aws.client("lambda").get_function_configuration(FunctionName=function_arn)
    environment: Mapping[str, Any] = answer.get("Environment", {})
    if "Error" in environment:
        code = environment["Error"].get("ErrorCode", "Unknown")
        raise OpsError(Exit.AWS, f"the environment of {function_name(function_arn)} cannot be decrypted: {code}")
    return {str(name): str(value) for name, value in environment.get("Variables", {}).items()}
