"""Workflow: a Plan that was checked. One that breaks a rule cannot be made."""

from dataclasses import dataclass

from statemachine import asl, frame, rules
from statemachine.checks import Finding, WorkflowError, findings
from statemachine.plan import Plan

_EXAMPLE_ARN = "arn:aws:lambda:eu-central-1:123456789012:function:{}:live"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow(Plan):
    """The steps and the frame around them, ready to be rendered.

    Raises:
        WorkflowError: every rule that the steps, the numbers or the rendered definition break.
    """

    def __post_init__(self) -> None:
        """Check everything at once."""
        found = findings(self) or _definition_findings(self)
        if found:
            raise WorkflowError(found)


def example_deployment(plan: Plan) -> asl.Deployment:
    """A deployment with names for documentation: the committed definition is rendered with it."""
    roles = [*frame.HANDLERS, *map(frame.role_of, plan.steps), *map(frame.undo_role_of, plan.steps)]
    return asl.Deployment(request_table="deletions", functions={role: _EXAMPLE_ARN.format(role) for role in roles})


def _definition_findings(plan: Plan) -> tuple[Finding, ...]:
    definition = asl.render(plan, example_deployment(plan))
    return tuple(
        Finding(finding.code, finding.place, finding.problem, finding.mend) for finding in rules.validate(definition)
    )
