"""The demo's own stores: two tables, a versioned bucket and a user pool, with real data of a few users.

They belong to "the team", so they are made here and not by the stack; Pulumi.local.yaml names them. `Stores.listing`
is the demo's own look at everything in them, page by page and without any code of the handlers: it is what the verdict
stands on.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from local.emulator import Emulator

ORDERS, VISITS, BUCKET, POOL = "acme-local-orders", "acme-local-visits", "acme-local-files", "acme-local-users"
STORES = ("orders", "visits", "files", "files.uploads", "identity")
"""What a request's record calls them."""

NOBODY = ""
"""Whose everything is that belongs to no user of the demo."""

_AT_ONCE = 8
_VERSIONS = ("Versions", "DeleteMarkers")
_WRITES = 25
"""Items of one BatchWriteItem at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A made-up user and how much there is of them."""

    user_id: str
    customer_id: str
    """The second name, which one of the tables knows the user by."""
    orders: int
    visits: int
    files: int
    """Files, of which every fourth was written twice."""
    clean_ups: int
    """How often all files were deleted without naming a version: each time leaves a delete marker on each file."""

    def expected(self) -> dict[str, int]:
        """Store -> how many there are after `Stores.fill`."""
        versions = self.files + len(range(0, self.files, 4)) + self.files * self.clean_ups
        return {"orders": self.orders, "visits": self.visits, "files": versions, "files.uploads": 1, "identity": 1}


@dataclass(frozen=True, slots=True)
class Listing:
    """All that was in the stores at one time: user -> store -> its entries, each as a text that holds all of it."""

    entries: Mapping[str, Mapping[str, Sequence[str]]]

    def counts(self, user_id: str) -> dict[str, int]:
        """Store -> how many entries are the user's."""
        return {store: len(self.entries.get(user_id, {}).get(store, ())) for store in STORES}

    def digest(self, user_id: str) -> str:
        """SHA-256 over all that is the user's, to the last attribute and version id."""
        own = {store: sorted(self.entries.get(user_id, {}).get(store, ())) for store in STORES}
        return hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()

    def changes(self, later: Listing, user_id: str, *, but_for: str = "") -> list[str]:
        """Each store in which anything of the user's differs, with the counts if they do.

        but_for: an attribute of entries that may differ.
        """
        found = []
        for store in STORES:
            was, then = (_without(but_for, one.entries.get(user_id, {}).get(store, ())) for one in (self, later))
            if was != then:
                found.append(store if len(was) == len(then) else f"{store} {len(was)} to {len(then)}")
        return found


class Stores:
    """The stores on one emulator."""

    def __init__(self, emulator: Emulator) -> None:
        self._dynamodb = emulator.client("dynamodb")
        self._s3 = emulator.client("s3")
        self._cognito = emulator.client("cognito-idp")
        self._region = emulator.region
        self.pool_id = ""
        """Known once `make` has run."""

    def make(self) -> None:
        """Make the tables, the bucket and the pool, all empty."""
        self._make_table(ORDERS, pk="S", sk="S")
        self._make_table(VISITS, user="S", at="N")
        self._s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": self._region})
        self._s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        self.pool_id = self._cognito.create_user_pool(PoolName=POOL)["UserPool"]["Id"]

    def fill(self, users: Iterable[User]) -> None:
        """Give each user what `User.expected` says."""
        with ThreadPoolExecutor(_AT_ONCE, "fill") as threads:
            for user in users:
                self._fill_tables(user, threads)
                self._fill_bucket(user, threads)
                self._cognito.admin_create_user(
                    UserPoolId=self.pool_id,
                    Username=user.user_id,
                    UserAttributes=[{"Name": "email", "Value": f"{user.user_id}@example.com"}],
                    MessageAction="SUPPRESS",
                )

    def listing(self, users: Iterable[User]) -> Listing:
        """Read everything that is in any store now."""
        by_customer = {f"CUSTOMER#{user.customer_id}": user.user_id for user in users}
        known = set(by_customer.values())
        found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))

        def note(store: str, owner: str | None, entry: Mapping[str, Any]) -> None:
            found[owner if owner in known else NOBODY][store].append(json.dumps(entry, sort_keys=True, default=str))

        for item in self._pages("dynamodb", "scan", "Items", TableName=ORDERS, ConsistentRead=True):
            note("orders", by_customer.get(item["pk"]["S"]), item)
        for item in self._pages("dynamodb", "scan", "Items", TableName=VISITS, ConsistentRead=True):
            note("visits", item["user"]["S"], item)
        for version in self._pages("s3", "list_object_versions", *_VERSIONS, Bucket=BUCKET):
            note("files", _owner_of_key(version["Key"]), version)
        for upload in self._pages("s3", "list_multipart_uploads", "Uploads", Bucket=BUCKET):
            note("files.uploads", _owner_of_key(upload["Key"]), upload)
        for person in self._pages("cognito", "list_users", "Users", UserPoolId=self.pool_id):
            note("identity", person["Username"], person)
        return Listing(found)

    def can_sign_in(self, user: User) -> bool:
        """Whether the user pool lets the user in."""
        found = self._cognito.admin_get_user(UserPoolId=self.pool_id, Username=user.user_id)
        return bool(found["Enabled"])

    def is_partly_empty(self, user: User) -> bool:
        """Whether the first file of the user is gone and another is not; one short call."""
        page = self._s3.list_object_versions(Bucket=BUCKET, Prefix=f"users/{user.user_id}/", MaxKeys=1)
        keys = [version["Key"] for field in _VERSIONS for version in page.get(field, ())]
        return bool(keys) and min(_keys(user)) not in keys

    def versions_left(self, user: User) -> int:
        """How many versions and delete markers the bucket shows of the user now: faster than a whole listing."""
        request = {"Bucket": BUCKET, "Prefix": f"users/{user.user_id}/"}
        return sum(1 for _ in self._pages("s3", "list_object_versions", *_VERSIONS, **request))

    def _make_table(self, name: str, **keys: str) -> None:
        """keys: attribute=type, the partition key first."""
        self._dynamodb.create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": kind} for key, kind in keys.items()],
            KeySchema=[
                {"AttributeName": key, "KeyType": role} for key, role in zip(keys, ("HASH", "RANGE"), strict=True)
            ],
        )

    def _fill_tables(self, user: User, threads: ThreadPoolExecutor) -> None:
        orders = [
            {"pk": {"S": f"CUSTOMER#{user.customer_id}"}, "sk": {"S": f"ORDER#{n:05}"}, "total": {"N": str(n * 7)}}
            for n in range(user.orders)
        ]
        visits = [
            {"user": {"S": user.user_id}, "at": {"N": str(1_700_000_000 + n * 60)}, "page": {"S": f"/catalogue/{n}"}}
            for n in range(user.visits)
        ]
        calls = [(ORDERS, part) for part in _parts(orders)] + [(VISITS, part) for part in _parts(visits)]
        _each(threads, lambda call: self._write(*call), calls)

    def _write(self, table: str, items: Sequence[Mapping[str, Any]]) -> None:
        self._dynamodb.batch_write_item(RequestItems={table: [{"PutRequest": {"Item": item}} for item in items]})

    def _fill_bucket(self, user: User, threads: ThreadPoolExecutor) -> None:
        keys = _keys(user)
        for written in (keys, keys[::4]):
            _each(threads, lambda key: self._s3.put_object(Bucket=BUCKET, Key=key, Body=key.encode()), written)
        for _ in range(user.clean_ups):
            self._s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": key} for key in keys], "Quiet": True})
        film = f"users/{user.user_id}/film.mov"
        upload = self._s3.create_multipart_upload(Bucket=BUCKET, Key=film)["UploadId"]
        self._s3.upload_part(Bucket=BUCKET, Key=film, UploadId=upload, PartNumber=1, Body=b"the first minute")

    def _pages(self, service: str, operation: str, *fields: str, **request: Any) -> Iterator[Mapping[str, Any]]:
        client = {"dynamodb": self._dynamodb, "s3": self._s3, "cognito": self._cognito}[service]
        for page in client.get_paginator(operation).paginate(**request):
            for field in fields:
                yield from page.get(field, ())


def _keys(user: User) -> list[str]:
    return [f"users/{user.user_id}/album {n % 7}/photo+{n:04}.jpg" for n in range(user.files)]


def _without(attribute: str, entries: Sequence[str]) -> list[str]:
    """The entries in order, without that attribute."""
    found = [{name: value for name, value in json.loads(entry).items() if name != attribute} for entry in entries]
    return sorted(json.dumps(entry, sort_keys=True) for entry in found)


def _owner_of_key(key: str) -> str | None:
    parts = key.split("/")
    return parts[1] if parts[0] == "users" and len(parts) > 2 else None


def _parts(items: Sequence[Mapping[str, Any]]) -> list[Sequence[Mapping[str, Any]]]:
    return [items[start : start + _WRITES] for start in range(0, len(items), _WRITES)]


def _each(threads: ThreadPoolExecutor, call: Callable[[Any], object], values: Iterable[Any]) -> None:
    for _ in threads.map(call, values):
        pass
