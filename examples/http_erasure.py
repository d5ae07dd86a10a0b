"""The list with one more step: a service of the team's own is asked by HTTP to erase the user, for fourteen days.

To use it, give `workflow` and VALUES to AccountDeletionArgs in __main__.py, or copy ERASE_AT_VENDOR into the list in
statemachine/deletion.py; http_erasure.yaml has the times that fit. Whatever speaks another protocol than
handlers/steps/erase_by_http.py is reached through a small service that speaks both.
"""

import json
from collections.abc import Mapping
from datetime import timedelta

from handlers.steps import erase_by_http
from statemachine import deletion
from statemachine.step import Allow, FunctionOptions, Step, StepKind, Value
from statemachine.workflow import Workflow

ERASE_AT_VENDOR = Step(
    name="EraseAtVendor",
    handler=erase_by_http.handler,
    verify=erase_by_http.remaining,
    preflight=erase_by_http.preflight,
    kind=StepKind.RETRIABLE,
    timeout=timedelta(minutes=1),
    wait=erase_by_http.LONGEST_PAUSE,
    patience=timedelta(days=14),
    turns=8,
    allow=(Allow("secretsmanager:GetSecretValue", on=Value("erasure_secret_arn")),),
    function=FunctionOptions(
        environment={
            "ENDPOINT": Value("erasure_endpoint"),
            "BODY": json.dumps({"user_id": "{user_id}"}),
            "ERASURE_SECRET": Value("erasure_secret_arn"),
            "TIMEOUT": "10",
        },
    ),
)

VALUES: Mapping[str, str] = {
    "erasure_endpoint": "https://privacy.example.com/erasures",
    "erasure_secret_arn": "arn:aws:secretsmanager:eu-west-1:123456789012:secret:erasure-a1b2c3",
}
"""For AccountDeletionArgs(values=...): what only a deployment knows. Both may be Outputs of other stacks."""


def steps(*, identity: bool) -> tuple[Step, ...]:
    """The list, with the vendor asked before the user disappears from the pool."""
    listed = deletion.steps(identity=identity)
    before = len(listed) - 1 if identity else len(listed)
    return (*listed[:before], ERASE_AT_VENDOR, *listed[before:])


def workflow(*, identity: bool) -> Workflow:
    """The checked workflow.

    Raises:
        WorkflowError: the list breaks a rule.
    """
    return Workflow(steps=steps(identity=identity))
