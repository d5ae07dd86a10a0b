"""The Pulumi program: reads the stack's configuration, makes AccountDeletion, exports what a user needs."""

import pulumi

from infra.account_deletion import AccountDeletion, AccountDeletionArgs
from infra.errors import DeployError
from infra.packaging import load_build
from infra.settings import read_settings
from statemachine import deletion
from statemachine.checks import WorkflowError


def main() -> None:
    """Nothing below this function reads pulumi.Config."""
    settings = read_settings(pulumi.get_stack(), pulumi.Config().get_object("settings") or {})
    args = AccountDeletionArgs(
        settings=settings,
        workflow=deletion.workflow(identity=settings.user_pool_id is not None),
        build=load_build(),
    )
    for name, value in AccountDeletion("account-deletion", args).outputs().items():
        pulumi.export(name, value)


try:
    main()
except (DeployError, WorkflowError) as error:
    # A refusal is for whoever deploys: its message, without our stack trace.
    raise pulumi.RunError(str(error)) from None
