"""The request table and the key that turns user ids into subjects: all the data that this stack owns."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import pulumi
import pulumi_aws as aws

from infra.naming import KEY_ALIAS, TABLE, Naming
from infra.site import Site

DUE_INDEX: Final = "due"
"""Sparse: only requests that somebody must look at have due_shard and due_at."""
KEY_DELETION_WINDOW: Final = timedelta(days=30)
"""The longest that KMS waits: without the key no tombstone can be found again."""
TABLE_ROLE: Final = "deletions"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStoreArgs:
    """What varies between environments comes with the site."""

    site: Site
    """Account, Region, names, rails, and whether data is protected."""


class RequestStore(pulumi.ComponentResource):
    """The table `deletions` (requests and tombstones) and the KMS HMAC key of the subjects.

    Replacing the table loses every request and every tombstone; replacing the key makes the tombstones unfindable.
    Outside dev both are protected, the table is backed up, and AWS itself refuses to delete it. A request that ended
    under a setting keep_requests carries `expires_at` and is deleted after it; all else stays.
    """

    table_name: str
    """The table's name."""
    table_arn: str
    """The table's ARN, known before the table exists."""
    index_arn: str
    """ARN of the index `due`."""
    key_arn: pulumi.Output[str]
    """ARN of the HMAC key: KMS draws its id, so it is not known before the key exists."""
    table: aws.dynamodb.Table
    """What must exist before anything names the table's ARN."""

    def __init__(self, name: str, args: RequestStoreArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("account-deletion:storage:RequestStore", name, None, opts)
        site = args.site
        self.table_name = table_name(site.naming)
        self.table_arn = table_arn(site)
        self.index_arn = index_arn(site)
        self.table = self._make_table(name, site)
        key = aws.kms.Key(
            f"{name}-subject-key",
            description="account deletion: HMAC of user ids; without it no tombstone is found again",
            key_usage="GENERATE_VERIFY_MAC",
            customer_master_key_spec="HMAC_256",
            deletion_window_in_days=KEY_DELETION_WINDOW.days,
            tags=site.tags,
            opts=pulumi.ResourceOptions(parent=self, protect=site.protects_data),
        )
        aws.kms.Alias(
            f"{name}-subject-key-alias",
            name=site.name(KEY_ALIAS, "subject"),
            target_key_id=key.key_id,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.key_arn = key.arn
        self.register_outputs({"table_name": self.table_name, "table_arn": self.table_arn, "key_arn": self.key_arn})

    def _make_table(self, name: str, site: Site) -> aws.dynamodb.Table:
        platform_key = site.platform.kms_key_arn
        encryption = aws.dynamodb.TableServerSideEncryptionArgs(enabled=True, kms_key_arn=platform_key)
        return aws.dynamodb.Table(
            f"{name}-table",
            name=self.table_name,
            billing_mode="PAY_PER_REQUEST",
            hash_key="pk",
            attributes=[
                aws.dynamodb.TableAttributeArgs(name="pk", type="S"),
                aws.dynamodb.TableAttributeArgs(name="due_shard", type="N"),
                aws.dynamodb.TableAttributeArgs(name="due_at", type="N"),
            ],
            global_secondary_indexes=[
                aws.dynamodb.TableGlobalSecondaryIndexArgs(
                    name=DUE_INDEX,
                    # hash_key and range_key of an index are deprecated in pulumi-aws 7.
                    key_schemas=[
                        aws.dynamodb.TableGlobalSecondaryIndexKeySchemaArgs(
                            attribute_name="due_shard", key_type="HASH"
                        ),
                        aws.dynamodb.TableGlobalSecondaryIndexKeySchemaArgs(attribute_name="due_at", key_type="RANGE"),
                    ],
                    projection_type="KEYS_ONLY",
                )
            ],
            ttl=aws.dynamodb.TableTtlArgs(enabled=True, attribute_name="expires_at"),
            # None is the key that DynamoDB owns.
            server_side_encryption=encryption if platform_key is not None else None,
            point_in_time_recovery=aws.dynamodb.TablePointInTimeRecoveryArgs(enabled=site.protects_data),
            deletion_protection_enabled=site.protects_data,
            tags=site.tags,
            opts=pulumi.ResourceOptions(parent=self, protect=site.protects_data),
        )


def table_name(naming: Naming) -> str:
    """The request table's name."""
    return naming.name(TABLE, TABLE_ROLE)


def index_arn(site: Site) -> str:
    """ARN of the index `due`."""
    return f"{table_arn(site)}/index/{DUE_INDEX}"


def table_arn(site: Site) -> str:
    """The request table's ARN."""
    return site.arn("dynamodb", f"table/{table_name(site.naming)}")
