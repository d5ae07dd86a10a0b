"""A small world on moto: request table, two user tables, a versioned bucket, a user pool, and a wire to disturb.

Crashes, lost answers and foreign errors are injected around the clients, by operation and number of the call, so the
handlers have no test hooks (`Wire`). Seeding goes by a session of its own, which the wire does not see.
"""

import hmac
import io
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from threading import RLock
from types import SimpleNamespace
from typing import Any

import boto3
import botocore.session
import moto.cognitoidp.models
from botocore import xform_name
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from joserfc import jwk
from moto.core.botocore_stubber import BotocoreStubber
from moto.core.serialize import XFormedAttributePicker
from moto.utilities.utils import load_resource

from handlers.core import aws, settings, telemetry
from handlers.core.checkpoint import LambdaContext
from handlers.core.record import from_item, to_value
from handlers.core.request_table import expressions, guard_key, request_key
from handlers.core.states import VERIFY_STEP, StepKind
from handlers.core.stores import FileStore, RecordStore, to_json
from handlers.core.transition import Transition, render
from handlers.core.transitions import CLAIM, DISPATCH
from tests.wire import Call, Wire, answered, invoked

ACCOUNT = "123456789012"
REGION = "eu-west-1"
TABLE = "deletions"
BUCKET = "photos-bucket"
OWNER = f"arn:aws:states:{REGION}:{ACCOUNT}:execution:deletion:one"
OTHER = f"arn:aws:states:{REGION}:{ACCOUNT}:execution:deletion:two"
USER, CUSTOMER = "ann", "1001"

RECORD_STORES = (
    RecordStore(name="orders", table="orders", partition_key="pk", partition="USER#{user_id}", sort_key="sk"),
    RecordStore(
        name="visits",
        table="visits",
        partition_key="customer",
        partition="{customer_id}",
        partition_type="N",
        sort_key="at",
        sort_type="N",
    ),
)
FILE_STORES = (FileStore(name="photos", bucket=BUCKET, prefix="users/{user_id}/"),)
STEPS = ("SuspendIdentity", "DeleteRecords", "DeleteFiles", "DeleteIdentity")
EVERYTHING = {"orders": 3, "visits": 2, "photos": 5, "photos.uploads": 1, "identity": 1}
"""What `World.sign_up` makes, by store."""

RECOVERY = {"BACKOFF": "60", "BACKOFF_LIMIT": "3600"}

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": REGION,
    "AWS_EC2_METADATA_DISABLED": "true",
    "POWERTOOLS_LOG_LEVEL": "INFO",
    "POWERTOOLS_METRICS_NAMESPACE": "AccountDeletion/acme-test",
}


_current: list[Wire] = []
_lock = RLock()
_send = BotocoreStubber.__call__


def _one_at_a_time(
    self: BotocoreStubber, event_name: str, request: AWSPreparedRequest, **kwargs: Any
) -> AWSResponse | None:
    # moto's transactions copy the tables and put them back: calls of several threads must not interleave inside.
    with _lock:
        return _send(self, event_name, request, **kwargs)


BotocoreStubber.__call__ = _one_at_a_time  # type: ignore[method-assign]


def _pick(self: XFormedAttributePicker, context: Any) -> Any:
    # Of a dict only two keys can hold what is asked for. moto goes through all its aliases first, again for each
    # attribute of each item: a fifth of the time of these tests.
    if type(context.obj) is dict and not self.response_transformers:
        item: dict[str, Any] = context.obj
        return item[context.key] if context.key in item else item.get(xform_name(context.key))
    return _pick_slowly(self, context)


_pick_slowly = XFormedAttributePicker.__call__
XFormedAttributePicker.__call__ = _pick  # type: ignore[method-assign, assignment]
# Each user pool imports one and the same RSA key, which takes longer than most tests.
_key = cache(lambda: jwk.RSAKey.import_key(load_resource("cognitoidp/resources/jwks-private.json")))
_user_pools: Any = moto.cognitoidp.models
_user_pools.jwk = SimpleNamespace(RSAKey=SimpleNamespace(import_key=lambda _: _key()))


def _new_session(base: botocore.session.Session | None) -> boto3.session.Session:
    return boto3.session.Session("testing", "testing", region_name=REGION, botocore_session=base)


_session: list[Any] = []
_clients: dict[tuple[str, str | None, float], Any] = {}


def _hooked_client(service: str, *, region_name: str | None, config: Any) -> Any:
    """What the handlers get from their session: a client whose calls the wire sees, made once a process.

    aws.client asks for one at a time.
    """
    if not _session:
        _session.append(_new_session(aws.prepared()))
        events = _session[0].events
        events.register("provide-client-params", lambda **args: _current[-1]._note_params(**args))  # noqa: SLF001
        events.register("before-call", lambda **args: _current[-1]._before_call(**args))  # noqa: SLF001
        events.register_first("before-send", lambda **args: _current[-1]._before_send(**args))  # noqa: SLF001
    key = (service, region_name, config.read_timeout)
    if key not in _clients:
        _clients[key] = _session[0].client(service, region_name=region_name, config=config)
    return _clients[key]


@dataclass
class Context:
    """Lambda's context: time runs out after so many looks at it; no test may loop for ever."""

    looks: int = 2000

    def get_remaining_time_in_millis(self) -> int:
        """Plenty, then nothing."""
        self.looks -= 1
        return 300_000 if self.looks >= 0 else 0


class World:
    """Everything that a request touches."""

    def __init__(self, monkeypatch: Any) -> None:
        self._patch = monkeypatch
        for name, value in ENVIRONMENT.items():
            monkeypatch.setenv(name, value)
        self.wire = Wire()
        _current.append(self.wire)
        aws.client.cache_clear()
        monkeypatch.setattr(aws, "session", lambda: SimpleNamespace(client=_hooked_client))
        self.sleeps: list[float] = []
        self.now = int(time.time())
        monkeypatch.setattr(time, "sleep", self.sleeps.append)
        monkeypatch.setattr("handlers.core.clock.now", lambda: self.now)
        self.dynamodb = self.client("dynamodb")
        self.s3 = self.client("s3")
        self.cognito = self.client("cognito-idp")
        self._make()
        self.wire.name_of = self._name_of
        self.log = io.StringIO()
        telemetry.log("a world")
        for handler in logging.getLogger("account-deletion").handlers:
            handler.setStream(self.log)  # type: ignore[attr-defined]

    def lines(self) -> list[dict[str, Any]]:
        """The log lines since the last look."""
        lines = [json.loads(line) for line in self.log.getvalue().splitlines()]
        self.log.seek(0)
        self.log.truncate()
        return lines

    def _generate_mac(self, call: Call) -> Any:
        # moto makes an RSA key for each HMAC key, which takes longer than most tests.
        mac = hmac.new(self.key.encode(), call.params["Message"], "sha256").digest()
        return answered(Mac=mac)(call)

    def _name_of(self, address: str) -> str:
        # AWS takes the sub of a local user as Username, moto does not. Names of external users are Provider_id.
        for user in self.cognito.list_users(UserPoolId=self.pool)["Users"]:
            is_sub = any(one["Name"] == "sub" and one["Value"] == address for one in user["Attributes"])
            if is_sub and "_" not in user["Username"]:
                return str(user["Username"])
        return address

    def close(self) -> None:
        """Forget what the process remembers of this world."""
        _current.remove(self.wire)
        settings.load.cache_clear()
        aws.client.cache_clear()

    def client(self, service: str) -> Any:
        """A client that the wire does not see."""
        if service not in _seeding_clients:
            _seeding_clients[service] = _new_session(None).client(service)  # type: ignore[call-overload]  # whichever is asked for
        return _seeding_clients[service]

    def _make(self) -> None:
        self._make_request_table()
        self.make_table("orders", pk="S", sk="S")
        self.make_table("visits", customer="N", at="N")
        self.make_bucket(BUCKET)
        self.pool = self.cognito.create_user_pool(PoolName="users")["UserPool"]["Id"]
        self.key = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/00000000-0000-0000-0000-000000000000"
        self.wire.answers["GenerateMac"] = self._generate_mac
        self.client("scheduler").create_schedule_group(Name="deletions")
        self.machine = self.client("stepfunctions").create_state_machine(
            name="deletion",
            definition='{"StartAt": "End", "States": {"End": {"Type": "Succeed"}}}',
            roleArn=f"arn:aws:iam::{ACCOUNT}:role/machine",
        )["stateMachineArn"]

    def _make_request_table(self) -> None:
        keys = {"pk": "S", "due_shard": "N", "due_at": "N"}
        self.dynamodb.create_table(
            TableName=TABLE,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": kind} for key, kind in keys.items()],
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            GlobalSecondaryIndexes=[
                {
                    "IndexName": "due",
                    "KeySchema": [
                        {"AttributeName": "due_shard", "KeyType": "HASH"},
                        {"AttributeName": "due_at", "KeyType": "RANGE"},
                    ],
                    "Projection": {"ProjectionType": "KEYS_ONLY"},
                }
            ],
        )

    def make_table(self, name: str, *, index: Mapping[str, tuple[str, str]] | None = None, **keys: str) -> None:
        """A table with these keys: attribute=type, the partition key first; index: name -> attribute, type."""
        indexes = [
            {
                "IndexName": one,
                "KeySchema": [{"AttributeName": key, "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
            for one, (key, _) in (index or {}).items()
        ]
        kinds = {**keys, **dict((index or {}).values())}
        self.dynamodb.create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": kind} for key, kind in kinds.items()],
            KeySchema=[
                {"AttributeName": key, "KeyType": role} for key, role in zip(keys, ("HASH", "RANGE"), strict=False)
            ],
            **({"GlobalSecondaryIndexes": indexes} if indexes else {}),
        )

    def dynamodb_bulk(self, table: str, items: Sequence[Mapping[str, object]]) -> None:
        """Put many items."""
        for start in range(0, len(items), 25):
            puts = [
                {"PutRequest": {"Item": {name: to_value(value) for name, value in item.items()}}}
                for item in items[start : start + 25]
            ]
            self.dynamodb.batch_write_item(RequestItems={table: puts})

    def make_bucket(self, name: str, *, versioning: str = "Enabled", lock: bool = False) -> None:
        """A bucket; versioning "" leaves it off."""
        place = {"LocationConstraint": REGION}
        self.s3.create_bucket(Bucket=name, CreateBucketConfiguration=place, ObjectLockEnabledForBucket=lock)
        if versioning:
            self.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": versioning})

    # -- people

    def sign_up(self, user: str = USER, customer: str = CUSTOMER) -> str:
        """A user with EVERYTHING; the sub."""
        for number in range(EVERYTHING["orders"]):
            self.put_order(user, f"order#{number}")
        for number in range(EVERYTHING["visits"]):
            self.dynamodb.put_item(TableName="visits", Item={"customer": {"N": customer}, "at": {"N": str(number)}})
        for _ in range(3):
            self.put_file(f"users/{user}/a b+c.jpg")
        self.s3.delete_object(Bucket=BUCKET, Key=f"users/{user}/a b+c.jpg")
        self.put_file(f"users/{user}/b%2F.jpg")
        self.begin_upload(f"users/{user}/d e+f%20.mov")
        return self.make_user(user)

    def begin_upload(self, key: str) -> str:
        """An unfinished upload; its id."""
        return str(self.s3.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"])

    def put_order(self, user: str, order: str) -> None:
        """One more item of a user."""
        self.dynamodb.put_item(
            TableName="orders", Item={"pk": {"S": f"USER#{user}"}, "sk": {"S": order}, "text": {"S": "x" * 50}}
        )

    def put_file(self, key: str, bucket: str = BUCKET) -> str:
        """One more version; its id."""
        return str(self.s3.put_object(Bucket=bucket, Key=key, Body=b"x").get("VersionId", "null"))

    def make_user(self, name: str = USER) -> str:
        """A user in the pool; the sub."""
        user = self.cognito.admin_create_user(UserPoolId=self.pool, Username=name)["User"]
        return next(str(one["Value"]) for one in user["Attributes"] if one["Name"] == "sub")

    def pool_user(self, name: str = USER) -> Mapping[str, Any] | None:
        """The pool's user of this name now."""
        try:
            return dict(self.cognito.admin_get_user(UserPoolId=self.pool, Username=name))
        except self.cognito.exceptions.UserNotFoundException:
            return None

    def items(self, table: str) -> list[Mapping[str, Any]]:
        """All items of a user table."""
        return [from_item(item) for item in self.dynamodb.scan(TableName=table)["Items"]]

    def versions(self, prefix: str = "", bucket: str = BUCKET) -> list[tuple[str, str]]:
        """(key, version id) of all versions and markers under a prefix."""
        pages = self.s3.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix)
        return [
            (entry["Key"], entry["VersionId"])
            for page in pages
            for entry in (*page.get("Versions", ()), *page.get("DeleteMarkers", ()))
        ]

    def uploads(self, prefix: str = "") -> list[str]:
        """Ids of all unfinished uploads under a prefix."""
        answer = self.s3.list_multipart_uploads(Bucket=BUCKET, Prefix=prefix)
        return [one["UploadId"] for one in answer.get("Uploads", ())]

    def data(self, user: str = USER, customer: str = CUSTOMER) -> Mapping[str, object]:
        """All that the stores hold of a user, to compare before and after."""
        pool_user = self.pool_user(user)
        return {
            "orders": [item for item in self.items("orders") if item["pk"] == f"USER#{user}"],
            "visits": [item for item in self.items("visits") if item["customer"] == int(customer)],
            "photos": self.versions(f"users/{user}/"),
            "uploads": self.uploads(f"users/{user}/"),
            "identity": (pool_user or {}).get("UserAttributes"),
        }

    # -- requests

    def accept(self, user: str = USER, customer: str = CUSTOMER, **fields: object) -> str:
        """A request that is due at once; its id."""
        event = {"user_id": user, "identifiers": {"customer_id": customer}, "grace_days": 0, **fields}
        return str(self.run("Request", event=event)["deletion_request_id"])

    def claimed(self, user: str = USER, customer: str = CUSTOMER, *, owner: str = OWNER) -> str:
        """A request that an execution has claimed; its id."""
        request = self.accept(user, customer)
        self.dispatch(request)
        self.claim(request, owner=owner)
        return request

    def dispatch(self, request: str) -> None:
        """Count an attempt, as a dispatch does."""
        record = self.record(request)
        self.write(
            DISPATCH,
            request,
            {
                "now": self.now,
                "attempt": record["attempt"],
                "attempt_base": record["attempt_base"],
                "due_at": self.now + 300,
            },
        )

    def claim(
        self, request: str, *, owner: str = OWNER, attempt: int | None = None, steps: Sequence[str] = STEPS
    ) -> None:
        """What the graph's first state does."""
        values = {
            "me": owner,
            "now": self.now,
            "due_at": self.now + 900,
            "attempt": attempt or self.record(request)["attempt"],
            "definition": "d1",
        }
        self.write(CLAIM, request, values, each=(*steps, VERIFY_STEP))

    def write(
        self,
        transition: Transition,
        request: str,
        values: Mapping[str, object],
        *,
        step: str | None = None,
        each: Sequence[str] = (),
    ) -> None:
        """Run a transition as the graph does: one UpdateItem with the rendered expressions."""
        rendered = render(transition, step=step, each=each)
        self.dynamodb.update_item(**expressions(TABLE, request_key(request), rendered, values))

    def change(self, request: str, **attributes: object) -> None:
        """Set attributes by force; None removes one, and "a__b" is a path."""
        for path, value in attributes.items():
            parts = path.split("__")
            names = {f"#n{index}": part for index, part in enumerate(parts)}
            place = ".".join(names)
            values = {} if value is None else {"ExpressionAttributeValues": {":v": to_value(value)}}
            self.dynamodb.update_item(
                TableName=TABLE,
                Key=request_key(request),
                UpdateExpression=f"REMOVE {place}" if value is None else f"SET {place} = :v",
                ExpressionAttributeNames=names,
                **values,
            )

    def record(self, request: str) -> dict[str, Any]:
        """The request's item."""
        return self._item(request_key(request))

    def guard(self, subject: str) -> dict[str, Any]:
        """The user's guard item."""
        return self._item(guard_key(subject))

    def _item(self, key: Mapping[str, Any]) -> dict[str, Any]:
        return from_item(self.dynamodb.get_item(TableName=TABLE, Key=key, ConsistentRead=True).get("Item", {}))

    def deleted(self, request: str, step: str) -> Mapping[str, int]:
        """The step's recorded counts, without the stores that had nothing."""
        counts: Mapping[str, int] = self.record(request)["steps"][step].get("deleted", {})
        return {store: number for store, number in counts.items() if number}

    # -- functions

    def run(
        self,
        function: str,
        request: str = "",
        *,
        owner: str = OWNER,
        context: LambdaContext | None = None,
        event: Mapping[str, object] | None = None,
    ) -> Mapping[str, Any]:
        """Invoke a function once, in its own environment."""
        if event is None:
            event = {"deletion_request_id": request, "owner": owner, "step": function}
        with self.environment(function) as handler:
            return handler(event, context or Context())  # type: ignore[no-any-return]

    def run_until_done(self, step: str, request: str, *, owner: str = OWNER, limit: int = 20) -> Mapping[str, Any]:
        """Invoke a step as the graph does, until it is done."""
        for _ in range(limit):
            answer = self.run(step, request, owner=owner)
            if answer["done"]:
                return answer
        raise AssertionError(f"{step} is not done after {limit} invocations: {self.record(request)['steps'][step]}")

    @contextmanager
    def environment(self, function: str) -> Iterator[Any]:
        """The process environment of one function; gives its handler."""
        with _lock:
            before = dict(os.environ)
            handler, own = self.functions()[function]
            os.environ.update(own)
            settings.load.cache_clear()
        try:
            yield handler
        finally:
            with _lock:
                os.environ.clear()
                os.environ.update(before)
                settings.load.cache_clear()

    def functions(self) -> Mapping[str, tuple[Any, Mapping[str, str]]]:
        """Function -> its handler and its environment."""
        from handlers import cancel, dispatch, operate, recover, request, sweep
        from handlers.steps import cancel_deletion, complete_deletion, restore_identity, verify_erasure

        table = {"REQUEST_TABLE": TABLE, "LEASE": "900"}
        return {
            **{name: self._step(name) for name in STEPS},
            "RestoreIdentity": (
                restore_identity.handler,
                {**table, "STEP_TIMEOUT": "60", "USER_POOL_ID": self.pool},
            ),
            VERIFY_STEP: (
                verify_erasure.handler,
                {
                    **table,
                    "ERASING_FUNCTIONS": json.dumps({name: function_arn(name) for name in STEPS[1:]}),
                    "LONGEST_LISTING": "600",
                },
            ),
            "CompleteDeletion": (
                complete_deletion.handler,
                {**table, "DEPLOYED_STEPS": json.dumps(STEPS), **self.more_environment},
            ),
            "CancelDeletion": (cancel_deletion.handler, {**table, **self.more_environment}),
            "Request": (request.handler, self._request_environment()),
            "CancelRequest": (
                cancel.handler,
                {**table, **self._dispatch_environment(), "SCHEDULE_GROUP": "deletions", **self.more_environment},
            ),
            "Operate": (
                operate.handler,
                {**self._request_environment(), **self._dispatch_environment(), **self.more_environment},
            ),
            "Dispatch": (dispatch.handler, {**table, **self._dispatch_environment(), **self.more_environment}),
            "Recover": (recover.handler, {**table, **self._dispatch_environment(), **RECOVERY}),
            "Sweep": (
                sweep.handler,
                {
                    **table,
                    **self._dispatch_environment(),
                    **RECOVERY,
                    "DUE_INDEX": "due",
                    "SWEEP_LIMIT": "100",
                    "START_RATE": "100",
                    "DESCRIBE_RATE": "100",
                    "ATTEMPT_WORST_CASE": "86400",
                    **self.more_environment,
                },
            ),
        }

    def _dispatch_environment(self) -> Mapping[str, str]:
        return {"STATE_MACHINE_ARN": self.machine, "DISPATCH_VISIBILITY": "300", "MAX_DISPATCHES": "3"}

    def _step(self, name: str) -> tuple[Any, Mapping[str, str]]:
        from handlers.steps import delete_files, delete_identity, delete_records, suspend_identity

        module, kind, erases = {
            "SuspendIdentity": (suspend_identity, StepKind.COMPENSATABLE, False),
            "DeleteRecords": (delete_records, StepKind.PIVOT, True),
            "DeleteFiles": (delete_files, StepKind.RETRIABLE, True),
            "DeleteIdentity": (delete_identity, StepKind.RETRIABLE, True),
        }[name]
        return module.handler, {
            "REQUEST_TABLE": TABLE,
            "LEASE": "900",
            "STEP": name,
            "STEP_KIND": str(kind),
            "STEP_ERASES": str(erases).lower(),
            "STEP_TIMEOUT": "300",
            "UNDO_TIMEOUT": "60" if kind is StepKind.COMPENSATABLE else "0",
            "STEP_VERIFY": f"{module.__name__}.remaining" if erases else "",
            "STEP_PREFLIGHT": f"{module.__name__}.preflight" if hasattr(module, "preflight") else "",
            "PATIENCE": "0",
            "RECORD_STORES": to_json(RECORD_STORES),
            "FILE_STORES": to_json(FILE_STORES),
            "USER_POOL_ID": self.pool,
            "SETTLE": "0",
            **self.more_environment,
        }

    more_environment: Mapping[str, str] = {}
    """Set by a test: what differs for the steps."""

    def _request_environment(self) -> Mapping[str, str]:
        return {
            "REQUEST_TABLE": TABLE,
            "REALM": "test",
            "HMAC_KEY_ID": self.key,
            "IDENTIFIERS": '["customer_id"]',
            "USER_POOL_ID": self.pool,
            "GRACE_DEFAULT": str(30 * 86400),
            "GRACE_MINIMUM": "0",
            "GRACE_MAXIMUM": str(40 * 86400),
            "ERASE_WITHIN": str(45 * 86400),
            "ATTEMPT_WORST_CASE": "86400",
            "SCHEDULE_GROUP": "deletions",
            "SCHEDULE_ROLE_ARN": f"arn:aws:iam::{ACCOUNT}:role/schedule",
            "SCHEDULE_TARGET_ARN": function_arn("Dispatch"),
            "SCHEDULE_DEAD_LETTERS_ARN": f"arn:aws:sqs:{REGION}:{ACCOUNT}:schedule-dead-letters",
        }

    def lambdas(self, call: Call) -> Any:
        """Answer Lambda's Invoke by running the function here; give it to `Wire.before("Invoke", ...)`."""
        name = call.params["FunctionName"].split(":")[6]
        event = json.loads(call.params["Payload"])
        with _lock:
            try:
                payload: Mapping[str, Any] = self.run(name, event=event)
            except Exception as error:  # noqa: BLE001 (what Lambda's runtime does)
                payload = {"errorType": type(error).__name__, "errorMessage": str(error)}
                return invoked(payload, FunctionError="Unhandled")(call)
        return invoked(payload)(call)


def function_arn(name: str) -> str:
    """The alias that others call."""
    return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}:live"


_seeding_clients: dict[str, Any] = {}
