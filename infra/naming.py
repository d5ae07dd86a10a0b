"""The physical name of everything, by one rule: `<prefix>-<environment>-<role>`.

Names of account-wide services (IAM) also carry the Region, so two environments, and two Regions of one account,
never meet. A name that a service would refuse for its length is cut and ends in a hash of the whole name: stable from
run to run, and still disjoint from the names of other environments and Regions.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from infra.errors import ConfigurationError, refuse

_HASH_CHARACTERS: Final = 8
_PREFIX: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_ENVIRONMENT: Final = re.compile(r"[a-z][a-z0-9]*")
_REGION: Final = re.compile(r"[a-z]{2,}(-[a-z]+)+-[0-9]+")
MAX_PREFIX: Final = 24
"""Characters of a prefix: leaves room for the environment, the Region and a role in 64 characters."""
MAX_ENVIRONMENT: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What one service takes as a name."""

    service: str
    """The service's own word for the thing, for messages."""
    limit: int
    """The longest name, in characters, without `lead`."""
    characters: str
    """A character class (inside of `[...]`) of what a name may hold."""
    account_wide: bool = False
    """Whether the name is one for all Regions of the account (then it carries the Region)."""
    lead: str = ""
    """What the service wants before the name (`alias/`), counted in the service's limit, not in ours."""


# Limits as the services document them: each `limit` is the service's own minus the length of `lead`.
ROLE = Kind(service="IAM role", limit=64, characters=r"\w+=,.@-", account_wide=True)
FUNCTION = Kind(service="Lambda function", limit=64, characters=r"a-zA-Z0-9_-")
LAYER = Kind(service="Lambda layer", limit=140, characters=r"a-zA-Z0-9_-")
FUNCTION_LOG_GROUP = Kind(
    service="log group", limit=512 - len("/aws/lambda/"), characters=r"a-zA-Z0-9_./#-", lead="/aws/lambda/"
)
MACHINE_LOG_GROUP = Kind(
    # Groups elsewhere share one account-wide resource policy of 5,120 characters, which fills up.
    service="log group",
    limit=512 - len("/aws/vendedlogs/states/"),
    characters=r"a-zA-Z0-9_./#-",
    lead="/aws/vendedlogs/states/",
)
QUEUE = Kind(service="SQS queue", limit=80, characters=r"a-zA-Z0-9_-")
SCHEDULE_GROUP = Kind(service="schedule group", limit=64, characters=r"0-9a-zA-Z_.-")
SCHEDULE = Kind(service="schedule", limit=64, characters=r"0-9a-zA-Z_.-")
RULE = Kind(service="EventBridge rule", limit=64, characters=r"a-zA-Z0-9_.-")
TABLE = Kind(service="DynamoDB table", limit=255, characters=r"a-zA-Z0-9_.-")
MACHINE = Kind(service="state machine", limit=80, characters=r"0-9A-Za-z_-")
KEY_ALIAS = Kind(service="KMS alias", limit=256 - len("alias/"), characters=r"a-zA-Z0-9/_-", lead="alias/")
ALARM = Kind(service="CloudWatch alarm", limit=255, characters=r"a-zA-Z0-9_.-")
DASHBOARD = Kind(service="CloudWatch dashboard", limit=255, characters=r"a-zA-Z0-9_-", account_wide=True)
QUERY = Kind(service="Logs Insights query", limit=255, characters=r"a-zA-Z0-9_-")

KINDS: Final = (
    ROLE,
    FUNCTION,
    LAYER,
    FUNCTION_LOG_GROUP,
    MACHINE_LOG_GROUP,
    QUEUE,
    SCHEDULE_GROUP,
    SCHEDULE,
    RULE,
    TABLE,
    MACHINE,
    KEY_ALIAS,
    ALARM,
    DASHBOARD,
    QUERY,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """Gives out physical names for one prefix, environment and Region."""

    prefix: str
    """The team's or product's part; lower case words joined by hyphens."""
    environment: str
    """One lower case word, so that no environment's names can begin like another's."""
    region: str
    """The Region that the component's provider works in."""

    def __post_init__(self) -> None:
        problems = name_part_problems(self.prefix, self.environment)
        if not _REGION.fullmatch(self.region):
            problems.append(f"region {self.region!r}: not the name of an AWS Region")
        refuse(problems)

    def name(self, kind: Kind, role: str) -> str:
        """The physical name of `role`, e.g. `name(QUEUE, "schedule-dlq")` -> `acme-dev-schedule-dlq`."""
        if not re.fullmatch(f"[{kind.characters}]+", role, re.ASCII):
            message = f"{role!r} cannot be part of the name of a {kind.service}: it may hold [{kind.characters}] only"
            raise ConfigurationError((message,))
        parts = [self.prefix, self.environment, *([self.region] if kind.account_wide else []), role]
        return kind.lead + _cut("-".join(parts), kind.limit)


def name_part_problems(prefix: str, environment: str) -> list[str]:
    """What is wrong with a prefix and an environment as parts of names; empty when nothing is."""
    problems = []
    if not _PREFIX.fullmatch(prefix) or len(prefix) > MAX_PREFIX:
        problems.append(
            f"name prefix {prefix!r}: use lower case words joined by single hyphens, at most {MAX_PREFIX} characters"
        )
    if not _ENVIRONMENT.fullmatch(environment) or len(environment) > MAX_ENVIRONMENT:
        problems.append(
            f"environment {environment!r}: use lower case letters and digits, at most {MAX_ENVIRONMENT} characters"
        )
    return problems


def _cut(whole: str, limit: int) -> str:
    if len(whole) <= limit:
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:_HASH_CHARACTERS]
    return f"{whole[: limit - _HASH_CHARACTERS - 1].rstrip('-')}-{digest}"
