"""One environment, with every kind of store and every rail, that the tests deploy."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pulumi

from handlers.core.stores import FileStore, RecordStore
from infra.account_deletion import AccountDeletion, AccountDeletionArgs
from infra.packaging import ROOT, Build, code_files
from infra.platform import Network, Platform
from infra.settings import Settings
from statemachine import deletion

ORDERS = RecordStore(
    name="orders", table="acme-orders", partition_key="pk", partition="CUSTOMER#{customer_id}", sort_key="sk"
)
PROFILES = RecordStore(
    name="profiles",
    table="arn:aws:dynamodb:eu-west-1:123456789012:table/acme-profiles",
    partition_key="user",
    partition="{user_id}",
)
UPLOADS = FileStore(name="uploads", bucket="acme-uploads", prefix="users/{user_id}/")
POOL = "eu-west-1_AbCdEfGhI"
KEY = "arn:aws:kms:eu-west-1:123456789012:key/11111111-1111-1111-1111-111111111111"
RAILS: dict[str, Any] = {
    "permissions_boundary": "arn:aws:iam::123456789012:policy/boundary",
    "role_path": "/service/",
    "tags": {"team": "accounts"},
    "kms_key_arn": KEY,
    "log_retention": timedelta(days=30),
    "page_topics": ("arn:aws:sns:eu-west-1:123456789012:pages",),
    "ticket_topics": ("arn:aws:sns:eu-west-1:123456789012:tickets",),
    "network": Network(subnet_ids=("subnet-1", "subnet-2"), security_group_ids=("sg-1",)),
}


def build() -> Build:
    """Our own code as it is, and a layer that nobody reads: its digest is part of a name in the golden file."""
    return Build(layer=Path(ROOT, ".build", "layer.zip"), layer_digest="0123456789ab" + "0" * 52, code=code_files(ROOT))


def settings(rails: Mapping[str, Any] | None = None, **changes: Any) -> Settings:
    """The sample's settings; `rails` are fields of its platform."""
    fields: dict[str, Any] = {
        "environment": "prod",
        "platform": Platform(name_prefix="acme", **(rails or {})),
        "identifiers": ("customer_id",),
        "record_stores": (ORDERS, PROFILES),
        "file_stores": (UPLOADS,),
        "user_pool_id": POOL,
    }
    return Settings(**{**fields, **changes})


def arguments(**changes: Any) -> AccountDeletionArgs:
    """The sample's arguments."""
    chosen = changes.pop("settings", None) or settings()
    fields: dict[str, Any] = {
        "settings": chosen,
        "workflow": deletion.workflow(identity=chosen.user_pool_id is not None),
        "build": build(),
    }
    return AccountDeletionArgs(**{**fields, **changes})


def deploy(args: AccountDeletionArgs | None = None, opts: pulumi.ResourceOptions | None = None) -> AccountDeletion:
    """The program under test."""
    return AccountDeletion("deletion", args or arguments(), opts)
