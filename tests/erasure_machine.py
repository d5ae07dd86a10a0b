"""A world with the example of the HTTP erasure step deployed, and the service that it asks."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from examples import http_erasure
from statemachine.workflow import Workflow
from tests.erasure_service import Service
from tests.machine import Machine
from tests.world import OTHER, OWNER, STEPS, World

STEP, ROLE = "EraseAtVendor", "erase-at-vendor"
TOKEN = "token-of-the-service"


@dataclass
class Erasure:
    """The deployment and what surrounds it."""

    world: World
    machine: Machine
    service: Service

    def claimed(self) -> str:
        """A request that an execution has claimed; its id."""
        request = self.world.accept()
        self.world.dispatch(request)
        self.world.claim(request, steps=(*STEPS, STEP))
        return request

    def run(self, request: str, **more: object) -> Any:
        """Invoke the step once, as the graph does."""
        owner = OTHER if more else OWNER
        event = {"deletion_request_id": request, "owner": owner, "step": STEP, **more}
        return self.machine.invoke(ROLE, event)

    def step(self, request: str) -> dict[str, Any]:
        """The step's part of the record."""
        return dict(self.world.record(request)["steps"][STEP])


def deployed(world: World, service: Service, **environment: str) -> Erasure:
    """The example in a world, with other variables for its step where a test needs them."""
    machine = Machine(world, _workflow(tuple(environment.items())))
    secret = world.client("secretsmanager").create_secret(Name="erasure", SecretString=f"{TOKEN}\n")
    machine.values |= {"erasure_endpoint": service.url, "erasure_secret_arn": secret["ARN"]}
    return Erasure(world, machine, service)


@cache
def _workflow(variables: tuple[tuple[str, str], ...]) -> Workflow:
    """The example; checked once a process, which takes longer than most tests."""
    steps = http_erasure.steps(identity=True)
    mine = next(step for step in steps if step.name == STEP)
    environment = {**mine.function.environment, **dict(variables)}
    changed = replace(mine, function=replace(mine.function, environment=environment))
    return Workflow(steps=tuple(changed if step is mine else step for step in steps))
