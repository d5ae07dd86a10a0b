"""Checks the stores that a stack's settings name, before anything is deployed: `python -m infra.preflight dev`.

It runs what every request runs before its first step (handlers/steps/check_stores.py), with the caller's own AWS
credentials; only reading. Exits with 0 if every store is fit, 1 if one is not, 2 if the settings are wrong, and 3 if a
step's stores could not be checked.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from handlers.core import settings as function_settings
from handlers.core.errors import DeletionError
from handlers.core.person import Person
from infra.errors import DeployError
from infra.settings import Settings, read_settings
from infra.stack_config import ConfigError, stack_config
from statemachine import deletion
from statemachine.step import Step, Value

ROOT: Final = Path(__file__).resolve().parents[1]
SETTINGS: Final = "account-deletion:settings"
REGION: Final = "aws:region"
NOBODY: Final = "0"
"""Stands for every name of the user: digits, because a key may be a number. Nothing of anybody is read."""

FIT, UNFIT, WRONG, UNCHECKED = 0, 1, 2, 3


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each problem; the exit code says what was found."""
    parser = argparse.ArgumentParser(prog="python -m infra.preflight", description="Check a stack's stores.")
    parser.add_argument("stack", help="the stack's name: dev reads Pulumi.dev.yaml")
    stack = parser.parse_args(argv).stack
    try:
        config = stack_config(ROOT, stack)
        settings = read_settings(stack, json.loads(config.get(SETTINGS, "{}")))
    except (ConfigError, DeployError) as error:
        print(error, file=sys.stderr)
        return WRONG
    if REGION in config:
        os.environ.setdefault("AWS_DEFAULT_REGION", config[REGION])
    return check(settings)


def check(settings: Settings) -> int:
    """Check the stores of every step of the list; prints what is found."""
    person = Person(user_id=NOBODY, identifiers=dict.fromkeys(settings.identifiers, NOBODY))
    worst = FIT
    for step in deletion.workflow(identity=settings.user_pool_id is not None).checked_steps:
        worst = max(worst, _check_step(step, settings, person))
    return worst


def _check_step(step: Step, settings: Settings, person: Person) -> int:
    environment, missing = _environment(step, settings)
    if missing:
        print(f"{step.name}: not checked; {', '.join(missing)} is known to the deployment only")
        return UNCHECKED
    try:
        with function_settings.acting_as(environment):
            problems = step.preflight(person)
    except DeletionError as error:
        print(f"{step.name}: not checked; {error}")
        return UNCHECKED
    print("\n".join(f"{step.name}: {problem}" for problem in problems) or f"{step.name}: fit")
    return UNFIT if problems else FIT


def _environment(step: Step, settings: Settings) -> tuple[dict[str, str], list[str]]:
    known = settings.store_values()
    asked = {name: value.name for name, value in step.function.environment.items() if isinstance(value, Value)}
    given = {name: value for name, value in step.function.environment.items() if isinstance(value, str)}
    found = {name: known[value] for name, value in asked.items() if value in known}
    return {**given, **found}, sorted(value for value in asked.values() if value not in known)


if __name__ == "__main__":
    sys.exit(main())
