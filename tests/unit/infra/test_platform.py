"""The rails refuse what AWS would refuse, all at once and before a resource exists."""

from datetime import timedelta

import pytest

from infra.errors import ConfigurationError
from infra.platform import Network, Platform


def test_prefix_alone_makes_a_platform() -> None:
    assert Platform(name_prefix="acme").log_retention == timedelta(days=90)


def test_every_wrong_rail_is_named_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Platform(
            name_prefix="Acme_",
            log_retention=timedelta(days=2),
            role_path="service",
            permissions_boundary="boundary",
            kms_key_arn="alias/company",
            page_topics=("pages",),
            ticket_topics=("tickets",),
            tags={"aws:owner": "us"},
        )

    assert caught.value.problems == (
        "name prefix 'Acme_': use lower case words joined by single hyphens, at most 24 characters",
        "log_retention of 2 days: CloudWatch Logs takes 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, "
        "1096, 1827, 2192, 2557, 2922, 3288, 3653",
        "role_path 'service': begin and end it with a slash, e.g. /service/",
        "permissions_boundary 'boundary': not an ARN",
        "kms_key_arn 'alias/company': not an ARN",
        "page_topics 'pages': not an ARN",
        "ticket_topics 'tickets': not an ARN",
        "tags: 'aws:owner' cannot be a tag (keys of 1 to 128 characters, values up to 256, not beginning with aws:)",
    )


def test_network_without_subnets_or_groups_is_refused() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Network(subnet_ids=(), security_group_ids=())

    assert caught.value.problems == (
        "network.subnet_ids: name at least one subnet",
        "network.security_group_ids: name at least one security group",
    )
