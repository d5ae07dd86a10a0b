"""Whether a store's bucket is as a deletion needs it: asked before anything is touched."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from handlers.core.errors import AccessDenied, AwsFailure, Permanent, StoreMissing
from handlers.core.stores import FileStore
from handlers.steps._bucket import Bucket

_PERMISSIONS: Final[Mapping[str, str]] = {
    "GetBucketReplication": "s3:GetReplicationConfiguration",
    "GetBucketVersioning": "s3:GetBucketVersioning",
    "ListMultipartUploads": "s3:ListBucketMultipartUploads",
    "ListObjectVersions": "s3:ListBucketVersions",
}
"""Operation -> what it needs: IAM's names are not the API's (https://docs.aws.amazon.com/service-authorization/latest/
reference/list_amazons3.html)."""


Place = tuple[str, str]
"""A bucket and the beginning of the keys that are listed or copied there; it holds the user's identifier."""


def problems(store: FileStore, prefix: str, places: Collection[Place]) -> list[str]:
    """What is wrong, each with the mend.

    Args:
        store: whose bucket.
        prefix: of the user's keys.
        places: of all configured stores, where each of them lists this user's keys.

    Raises:
        Retryable: S3 does not answer for the moment.
    """
    bucket = Bucket.of(store)
    found: list[str] = []
    for check in (_versioning, _replication, _versions, _uploads):
        try:
            # Whatever reaches an accepted replica may stay there.
            found += check(bucket, prefix, {*places, *((accepted, "") for accepted in store.replicas)})
        except StoreMissing:
            return ["its bucket does not exist; correct bucket or region"]
        except Permanent as error:
            found.append(_said(error))
    return found


def _versioning(bucket: Bucket, _prefix: str, _known: Collection[Place]) -> Iterator[str]:
    if bucket.call("get_bucket_versioning").get("MFADelete") == "Enabled":
        yield "MFA delete is on, so no function can delete a version; switch it off"


def _replication(bucket: Bucket, prefix: str, known: Collection[Place]) -> Iterator[str]:
    for destination in sorted({copy[0] for copy in _copies(bucket, prefix) if not _is_listed(copy, known)}):
        yield (
            f"it is replicated to {destination}, where deletes by version id do not arrive; add a store of that bucket "
            "whose prefix covers the same keys, or name it in replicas with a reason"
        )


def _is_listed(copy: Place, known: Collection[Place]) -> bool:
    """Replicas keep their keys (https://docs.aws.amazon.com/AmazonS3/latest/userguide/replication.html)."""
    return any(copy[0] == bucket and copy[1].startswith(prefix) for bucket, prefix in known)


def _copies(bucket: Bucket, prefix: str) -> set[Place]:
    try:
        configuration = bucket.call("get_bucket_replication")["ReplicationConfiguration"]
    except StoreMissing as missing:
        if missing.code != "ReplicationConfigurationNotFoundError":
            raise
        return set()
    # A rule that is off now may have made replicas before.
    rules = [(rule, _replicated(rule)) for rule in configuration["Rules"]]
    return {
        (str(rule["Destination"]["Bucket"]).rpartition(":")[2], max(prefix, replicated, key=len))
        for rule, replicated in rules
        if prefix.startswith(replicated) or replicated.startswith(prefix)
    }


def _replicated(rule: Mapping[str, Any]) -> str:
    of = rule.get("Filter", {})
    return str(of.get("Prefix") or of.get("And", {}).get("Prefix") or rule.get("Prefix") or "")


def _versions(bucket: Bucket, prefix: str, _known: Collection[Place]) -> Iterator[str]:
    bucket.call("list_object_versions", Prefix=prefix, MaxKeys=1)
    yield from ()


def _uploads(bucket: Bucket, prefix: str, _known: Collection[Place]) -> Iterator[str]:
    bucket.call("list_multipart_uploads", Prefix=prefix, MaxUploads=1)
    yield from ()


def _said(error: Permanent) -> str:
    if isinstance(error, AccessDenied):
        return f"{error}; allow {_PERMISSIONS[error.operation]}, or correct owner"
    if isinstance(error, AwsFailure):
        return f"{error}; correct bucket, region or owner"
    raise error
