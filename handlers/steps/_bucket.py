"""One bucket as its store names it: its Region, its owner and who pays go with every call."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from handlers.core import aws
from handlers.core.stores import FileStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Where a store's files are, and how to ask for them."""

    name: str
    region: str | None
    """None: the function's own."""
    owner: str | None
    """The account that must own the bucket (https://docs.aws.amazon.com/AmazonS3/latest/userguide/
    bucket-owner-condition.html); None: whoever does."""
    requester_pays: bool

    @classmethod
    def of(cls, store: FileStore) -> "Bucket":
        """The store's bucket."""
        return cls(name=store.bucket, region=store.region, owner=store.owner, requester_pays=store.requester_pays)

    def call(self, operation: str, **request: Any) -> Mapping[str, Any]:
        """S3's answer to an operation on this bucket.

        Args:
            operation: by boto3's name, e.g. ``list_parts``.
            request: the operation's parameters, without the bucket's own.

        Raises:
            AwsFailure: as handlers.core.aws says.
        """
        client = aws.client("s3", region=self.region)
        name = client.meta.method_to_api_mapping[operation]
        members = client.meta.service_model.operation_model(name).input_shape.members
        own = {"Bucket": self.name, "ExpectedBucketOwner": self.owner, "RequestPayer": self._payer()}
        taken = {field: value for field, value in own.items() if field in members and value is not None}
        with aws.our_errors(name):
            answer: Mapping[str, Any] = getattr(client, operation)(**taken, **request)
        return answer

    def _payer(self) -> str | None:
        return "requester" if self.requester_pays else None
