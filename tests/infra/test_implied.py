"""What a deployed role allows beyond its function's own permissions is short, and each has its reason."""

import json
from pathlib import Path

from statemachine.deletion import workflow
from statemachine.functions import function_specs
from statemachine.step import Value

ROLES = json.loads((Path(__file__).parent / "data" / "roles.json").read_text(encoding="utf-8"))
IMPLIED = {
    "logs:CreateLogStream": "Lambda's runtime writes the function's log; no call of the handler shows it",
    "logs:PutLogEvents": "Lambda's runtime writes the function's log; no call of the handler shows it",
    "sqs:SendMessage": "Lambda puts an event that it could not deliver into the queue, as the function's role",
}


def actions_of(role: str) -> set[str]:
    """The actions of the deployed role that ends like this."""
    (found,) = (body for name, body in ROLES.items() if name.endswith(f"-1-{role}"))
    return {action for statement in found["may"] for action in statement["actions"]}


def test_a_deployed_role_allows_its_function_s_own_actions_and_what_is_implied() -> None:
    for spec in function_specs(workflow(identity=True)):
        own = {action for allow in spec.allow for action in allow.action_names()}
        # What is optional is left out where the deployment has nothing that it is for.
        needed = {
            action
            for allow in spec.allow
            if not (isinstance(allow.on, Value) and allow.on.optional)
            for action in allow.action_names()
        }
        assert needed <= actions_of(spec.role), spec.role
        assert actions_of(spec.role) - own <= set(IMPLIED), spec.role


def test_only_functions_with_dead_letters_send_to_a_queue() -> None:
    for spec in function_specs(workflow(identity=True)):
        assert ("sqs:SendMessage" in actions_of(spec.role)) == (spec.asynchronous is not None), spec.role
