"""What can be wrong before a resource exists, said to whoever deploys. Standard library only.

    DeployError
    ├── ConfigurationError   the settings: every problem at once, each with field, rule, value and mend
    └── BuildError           .build is missing, stale or would not run: ends with what mends it

None of them is an error of a handler (handlers/core/errors.py): no Retry or Catch ever names one.
"""


class DeployError(Exception):
    """The program refuses to go on; `__main__` shows the message without a stack trace."""


class ConfigurationError(DeployError):
    """The settings cannot be deployed; all problems are named together, one a line."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(("the settings cannot be deployed:", *(f"  - {problem}" for problem in problems))))

    def __reduce__(self) -> tuple[type["ConfigurationError"], tuple[tuple[str, ...]]]:
        return type(self), (self.problems,)


class BuildError(DeployError):
    """The packages in .build are missing, older than their sources, or would fail in Lambda."""

    def __init__(self, problem: str, mend: str) -> None:
        self.problem = problem
        self.mend = mend
        super().__init__(f"{problem}; {mend}")

    def __reduce__(self) -> tuple[type["BuildError"], tuple[str, str]]:
        return type(self), (self.problem, self.mend)


def refuse(problems: list[str]) -> None:
    """Raise ConfigurationError with all problems found, or return when there is none."""
    if problems:
        raise ConfigurationError(tuple(problems))
