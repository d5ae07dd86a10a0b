"""Where a stack stands: which account and Region, under which names and rails. Every component is given one."""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.naming import Kind, Naming
from infra.platform import Platform


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Plain strings only, so that every name and ARN that is made of them is known in a preview."""

    platform: Platform
    """The company's rails."""
    naming: Naming
    """Gives out the physical names; knows the environment and the Region."""
    partition: str
    """`aws`, `aws-cn`, `aws-us-gov`, ...: the first part of every ARN."""
    account: str
    """The account's 12 digits."""
    protects_data: bool
    """Whether tables and keys are protected against deletion, and backed up."""

    @classmethod
    def look_up(cls, parent: pulumi.Resource, platform: Platform, *, environment: str, protects_data: bool) -> "Site":
        """The account and Region of the provider that the parent's children use.

        Without `parent` the invokes would go to the default provider, and ARNs would be those of another account.
        """
        options = pulumi.InvokeOptions(parent=parent)
        return cls(
            platform=platform,
            naming=Naming(
                prefix=platform.name_prefix, environment=environment, region=aws.get_region(opts=options).region
            ),
            partition=aws.get_partition(opts=options).partition,
            account=aws.get_caller_identity(opts=options).account_id,
            protects_data=protects_data,
        )

    @property
    def region(self) -> str:
        """The Region's name."""
        return self.naming.region

    @property
    def tags(self) -> Mapping[str, str]:
        """The tags of every resource; the company's win over ours."""
        ours = {"application": "account-deletion", "environment": self.naming.environment}
        return {**ours, **self.platform.tags}

    def name(self, kind: Kind, role: str) -> str:
        """The physical name of a role, see naming.py."""
        return self.naming.name(kind, role)

    def arn(self, service: str, resource: str) -> str:
        """The ARN of a resource in this account and Region."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"

    def role_arn(self, name: str) -> str:
        """The ARN of a role, which has a path and no Region."""
        return f"arn:{self.partition}:iam::{self.account}:role{self.platform.role_path}{name}"
