"""What stands behind the command line in unit tests: the functions run in this process, their configuration is read."""

import json
from dataclasses import dataclass
from typing import Any

from typer.testing import CliRunner

from ops.cli import app
from statemachine.deletion import workflow
from tests.machine import Machine
from tests.wire import Act, Call, answered
from tests.world import CUSTOMER, USER, World

PERSON = json.dumps({"user_id": USER, "identifiers": {"customer_id": CUSTOMER}})
DAY = 86_400


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The JSON object on standard output."""
        assert self.out, self.err
        return json.loads(self.out)


class Terminal:
    """A shell in which AWS is a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.machine = Machine(world, workflow(identity=True))
        world.wire.answers["GetFunctionConfiguration"] = self._configuration
        sqs = world.client("sqs")
        self.queues = {
            name: str(sqs.create_queue(QueueName=f"acme-test-{name}-dlq")["QueueUrl"])
            for name in ("dispatch", "recover", "schedule")
        }

    @property
    def outputs(self) -> dict[str, Any]:
        """What `pulumi stack output --json` prints."""
        return {"function_arns": self.machine.arns, "dead_letter_queue_urls": self.queues}

    def run(self, *words: str, stdin: str | None = None) -> Ran:
        """Run a command with --json."""
        return self.say(*words, "--json", stdin=stdin)

    def say(self, *words: str, stdin: str | None = None) -> Ran:
        """Run a command as a person does."""
        result = CliRunner().invoke(app, words, input=stdin, catch_exceptions=False)
        return Ran(result.exit_code, result.stdout, result.stderr)

    def open_request(self) -> str:
        """A request in its grace period; its id."""
        return self.world.accept(grace_days=1)

    def held_request(self) -> str:
        """The same, held by an operator; its id."""
        request = self.open_request()
        self.run("hold", request)
        return request

    def next_invocation(self, act: Act) -> None:
        """Do something instead of the next invocation of a function."""
        self.world.wire._before.insert(0, ("Invoke", act))  # noqa: SLF001

    def _configuration(self, call: Call) -> Any:
        role = call.params["FunctionName"].split(":")[6]
        variables = {**self.machine.variables(self.machine.specs[role]), "AWS_LAMBDA_EXEC_WRAPPER": "/elsewhere"}
        return answered(FunctionName=role, Environment={"Variables": variables})(call)
