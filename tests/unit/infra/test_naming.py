"""Physical names: the rule, each service's limit, and that environments and Regions never meet."""

import itertools

import pytest

from infra.errors import ConfigurationError
from infra.naming import FUNCTION, KEY_ALIAS, KINDS, MACHINE_LOG_GROUP, QUEUE, ROLE, Kind, Naming

IRELAND = Naming(prefix="acme", environment="dev", region="eu-west-1")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (QUEUE, "acme-dev-schedule-dlq"),
        (ROLE, "acme-dev-eu-west-1-schedule-dlq"),
        (KEY_ALIAS, "alias/acme-dev-schedule-dlq"),
        (MACHINE_LOG_GROUP, "/aws/vendedlogs/states/acme-dev-schedule-dlq"),
    ],
    ids=lambda value: value.service if isinstance(value, Kind) else "",
)
def test_name_is_prefix_environment_role_with_the_region_where_names_are_account_wide(
    kind: Kind, expected: str
) -> None:
    assert IRELAND.name(kind, "schedule-dlq") == expected


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.service)
def test_longest_name_fits_the_limit_and_two_long_names_stay_apart(kind: Kind) -> None:
    longest = Naming(prefix="a" * 24, environment="e" * 12, region="us-gov-east-1")
    one, other = (longest.name(kind, "x" * 600 + end) for end in "12")

    assert one != other
    assert len(one) == len(other) == kind.limit + len(kind.lead)
    assert one == longest.name(kind, "x" * 600 + "1")


def test_cut_name_is_stable() -> None:
    assert IRELAND.name(FUNCTION, "a" * 80) == "acme-dev-" + "a" * 46 + "-8f6b1d9c"


def test_cut_never_leaves_two_hyphens_before_the_hash() -> None:
    assert "--" not in IRELAND.name(FUNCTION, "a" * 45 + "-" + "b" * 80)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.service)
@pytest.mark.parametrize("role", ["dispatch", "x" * 600])
def test_two_environments_and_two_regions_never_share_a_name_in_one_account(kind: Kind, role: str) -> None:
    places = itertools.product(("dev", "devx", "prod"), ("eu-west-1", "us-east-1"))
    names = {
        # Where a name is regional, the Region itself keeps two of them apart.
        (naming.name(kind, role), "" if kind.account_wide else naming.region)
        for naming in (Naming(prefix="acme", environment=env, region=region) for env, region in places)
    }

    assert len(names) == 6


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.service)
def test_role_that_the_service_refuses_is_refused(kind: Kind) -> None:
    with pytest.raises(ConfigurationError) as caught:
        IRELAND.name(kind, "dispätch")

    assert str(caught.value) == (
        "the settings cannot be deployed:\n"
        f"  - 'dispätch' cannot be part of the name of a {kind.service}: it may hold [{kind.characters}] only"
    )


def test_every_wrong_part_is_named_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Naming(prefix="Acme", environment="dev-1", region="Ireland")

    assert str(caught.value) == (
        "the settings cannot be deployed:\n"
        "  - name prefix 'Acme': use lower case words joined by single hyphens, at most 24 characters\n"
        "  - environment 'dev-1': use lower case letters and digits, at most 12 characters\n"
        "  - region 'Ireland': not the name of an AWS Region"
    )
