"""What each function's code really calls, against what its role allows: neither less nor more.

Every AWS call of whole executions and of the rarer ways is recorded, pagination and retries included, and turned into
the IAM actions and resources that it needs; IAM's names are not the API's.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from sfnx.testing import Failure

from handlers.core.stores import RecordStore, to_json
from statemachine.deletion import workflow
from statemachine.frame import role_of
from statemachine.step import Value
from tests.machine import Killed, Machine, at
from tests.wire import Call, answered, refused
from tests.world import ACCOUNT, BUCKET, RECORD_STORES, REGION, TABLE, USER, World, function_arn

pytestmark = pytest.mark.exhaustive

OWN_ROOM = RecordStore(
    name="room", table="messages", partition_key="room", partition="{user_id}", sort_key="at", sort_type="N"
)
MESSAGES = replace(
    OWN_ROOM, name="messages", partition=None, index="by-author", index_key="author", index_value="{user_id}"
)
Need = tuple[str, str]
"""IAM action and resource."""

_PASSED = {"iam:PassRole": "CreateSchedule hands the scheduler its role; IAM asks for it, no call shows it"}
IMPLIED: Mapping[str, Mapping[str, str]] = {
    "request-deletion": _PASSED,
    "operate": _PASSED,
}
"""Allowed and never seen as a call, each with its reason."""


def table(name: str) -> str:
    return f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{name}"


def _dynamodb(action: str) -> Callable[[Call], Iterator[Need]]:
    def needs(call: Call) -> Iterator[Need]:
        yield f"dynamodb:{action}", table(call.params["TableName"])

    return needs


def _query(call: Call) -> Iterator[Need]:
    index = f"/index/{call.params['IndexName']}" if "IndexName" in call.params else ""
    yield "dynamodb:Query", f"{table(call.params['TableName'])}{index}"


def _batch_get(call: Call) -> Iterator[Need]:
    for name in call.params["RequestItems"]:
        yield "dynamodb:BatchGetItem", table(name)


def _transaction(call: Call) -> Iterator[Need]:
    for item in call.params["TransactItems"]:
        for action, request in item.items():
            yield f"dynamodb:{action}Item", table(request["TableName"])


def _bucket(action: str) -> Callable[[Call], Iterator[Need]]:
    def needs(call: Call) -> Iterator[Need]:
        yield f"s3:{action}", f"arn:aws:s3:::{call.params['Bucket']}"

    return needs


def _object(action: str) -> Callable[[Call], Iterator[Need]]:
    def needs(call: Call) -> Iterator[Need]:
        yield f"s3:{action}", f"arn:aws:s3:::{call.params['Bucket']}/{call.params['Key']}"

    return needs


def _delete_object(call: Call) -> Iterator[Need]:
    action = "DeleteObjectVersion" if "VersionId" in call.params else "DeleteObject"
    yield f"s3:{action}", f"arn:aws:s3:::{call.params['Bucket']}/{call.params['Key']}"


def _delete_objects(call: Call) -> Iterator[Need]:
    for entry in call.params["Delete"]["Objects"]:
        action = "DeleteObjectVersion" if "VersionId" in entry else "DeleteObject"
        yield f"s3:{action}", f"arn:aws:s3:::{call.params['Bucket']}/{entry['Key']}"
        if "ETag" in entry:
            yield "s3:GetObject", f"arn:aws:s3:::{call.params['Bucket']}/{entry['Key']}"


def _pool(call: Call) -> Iterator[Need]:
    yield (
        f"cognito-idp:{call.operation}",
        f"arn:aws:cognito-idp:{REGION}:{ACCOUNT}:userpool/{call.params['UserPoolId']}",
    )


def _schedule(call: Call) -> Iterator[Need]:
    group, name = call.params["GroupName"], call.params["Name"]
    yield f"scheduler:{call.operation}", f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule/{group}/{name}"


NEEDS: Mapping[str, Callable[[Call], Iterator[Need]]] = {
    "GetItem": _dynamodb("GetItem"),
    "Query": _query,
    "BatchGetItem": _batch_get,
    "DescribeTable": _dynamodb("DescribeTable"),
    "DescribeExecution": lambda call: iter([("states:DescribeExecution", call.params["executionArn"])]),
    "UpdateItem": _dynamodb("UpdateItem"),
    "TransactWriteItems": _transaction,
    "ListObjectVersions": _bucket("ListBucketVersions"),
    "ListMultipartUploads": _bucket("ListBucketMultipartUploads"),
    "GetObjectLockConfiguration": _bucket("GetBucketObjectLockConfiguration"),
    "GetBucketVersioning": _bucket("GetBucketVersioning"),
    "GetBucketReplication": _bucket("GetReplicationConfiguration"),
    "GetObjectLegalHold": _object("GetObjectLegalHold"),
    "GetObjectRetention": _object("GetObjectRetention"),
    "ListParts": _object("ListMultipartUploadParts"),
    "AbortMultipartUpload": _object("AbortMultipartUpload"),
    "DeleteObject": _delete_object,
    "DeleteObjects": _delete_objects,
    "AdminGetUser": _pool,
    "AdminDisableUser": _pool,
    "AdminEnableUser": _pool,
    "AdminDeleteUser": _pool,
    "AdminUserGlobalSignOut": _pool,
    "ListUsers": _pool,
    "GenerateMac": lambda call: iter([("kms:GenerateMac", call.params["KeyId"])]),
    "CreateSchedule": _schedule,
    "DeleteSchedule": _schedule,
    "StartExecution": lambda call: iter([("states:StartExecution", call.params["stateMachineArn"])]),
    "Invoke": lambda call: iter([("lambda:InvokeFunction", call.params["FunctionName"])]),
}
"""API operation -> the permissions that it needs (https://docs.aws.amazon.com/service-authorization/latest/reference/
reference_policies_actions-resources-contextkeys.html)."""


def resources(machine: Machine, on: str | Value) -> list[str]:
    """What a permission is about, as infra resolves it."""
    world = machine.world
    pool = f"arn:aws:cognito-idp:{REGION}:{ACCOUNT}:userpool/{world.pool}"
    known = {
        "request_table_arn": [table(TABLE)],
        "record_table_arns": [table("orders"), table("visits"), table("messages")],
        "record_index_arns": [f"{table('messages')}/index/by-author"],
        "record_indexed_table_arns": [table("messages")],
        "file_bucket_arns": [f"arn:aws:s3:::{BUCKET}"],
        "file_object_arns": [f"arn:aws:s3:::{BUCKET}/users/"],
        "user_pool_arn": [pool],
        "hmac_key_arn": [world.key],
        "schedule_arns": [f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule/deletions/"],
        "schedule_role_arn": [f"arn:aws:iam::{ACCOUNT}:role/schedule"],
        "state_machine_arn": [world.machine],
        "execution_arns": [f"arn:aws:states:{REGION}:{ACCOUNT}:execution:deletion:"],
        "due_index_arn": [f"{table(TABLE)}/index/due"],
        "checked_function_arns": [machine.arns[role_of(step)] for step in machine.plan.checked_steps],
        "erasing_function_arns": [function_arn(role) for role in ("delete-records", "delete-files", "delete-identity")],
    }
    return [on] if isinstance(on, str) else known[on.name]


def covers(known: str, resource: str) -> bool:
    """Whether a permission's resource, or the known part of its pattern, is this one or holds it."""
    return resource == known or (known.endswith(("/", ":")) and resource.startswith(known))


@pytest.fixture
def recorded(world: World) -> Machine:
    """A machine after every way that makes another kind of call."""
    world.make_table("messages", room="S", at="N", index={"by-author": ("author", "S")})
    machine = Machine(world, workflow(identity=True), settle=60)
    machine.values["record_stores"] = to_json((*RECORD_STORES, OWN_ROOM, MESSAGES))
    ordinary(machine)
    undone(machine, "bob", "1002")
    undone(machine, "bert", "1012", vanishes=True)
    vanished(machine)
    locked(machine)
    unnatural_keys(machine)
    accepted_twice(machine)
    swept(machine)
    operated(machine)
    cancelled_by_the_application(machine)
    return machine


def ordinary(machine: Machine) -> None:
    machine.world.sign_up()
    message = {"room": {"S": "all"}, "at": {"N": "1"}, "author": {"S": USER}}
    machine.world.dynamodb.put_item(TableName="messages", Item=message)
    request = machine.accept(USER, "1001", grace_days=0)
    machine.invoke("dispatch", {"deletion_request_id": request})
    assert machine.execute(request, 1).states[-1] == "Deleted"


def undone(machine: Machine, user: str, customer: str, *, vanishes: bool = False) -> None:
    world = machine.world
    world.sign_up(user, customer)
    request = machine.accept(user, customer, grace_days=0)
    machine.invoke("dispatch", {"deletion_request_id": request})
    with pytest.raises(Killed):
        machine.execute(request, before=at("DeleteRecords", Killed()))
    if vanishes:
        world.cognito.admin_delete_user(UserPoolId=world.pool, Username=user)
    world.change(request, status="RETRYABLE", owner=None, due_at=world.now, cancel_requested=True)
    world.now += 120
    machine.invoke("dispatch", {"deletion_request_id": request})
    assert machine.execute(request).states[-1] == "Cancelled"


def vanished(machine: Machine) -> None:
    machine.world.sign_up("gus", "1007")
    request = machine.accept("gus", "1007", grace_days=0)
    machine.world.cognito.admin_delete_user(UserPoolId=machine.world.pool, Username="gus")
    machine.invoke("dispatch", {"deletion_request_id": request})
    assert machine.execute(request).states[-1] == "Deleted"


def locked(machine: Machine) -> None:
    world = machine.world
    world.sign_up("cleo", "1003")
    request = machine.accept("cleo", "1003", grace_days=0)
    machine.invoke("dispatch", {"deletion_request_id": request})
    denied: list[Mapping[str, Any]] = [{"Key": "users/cleo/c.jpg", "Code": "AccessDenied"}]
    lock = {"ObjectLockConfiguration": {"ObjectLockEnabled": "Enabled"}}
    world.wire.before("GetObjectLockConfiguration", answered(**lock))
    world.wire.before("DeleteObjects", lambda call: answered_with_errors(call, denied))
    machine.execute(request)


def answered_with_errors(call: Call, errors: list[Mapping[str, Any]]) -> Any:
    first = call.params["Delete"]["Objects"][0]
    return answered(Errors=[{**errors[0], "Key": first["Key"], "VersionId": first["VersionId"]}])(call)


def unnatural_keys(machine: Machine) -> None:
    world = machine.world
    world.sign_up("dora", "1004")
    world.put_file("users/dora/\x01.jpg")
    request = machine.accept("dora", "1004", grace_days=0)
    machine.invoke("dispatch", {"deletion_request_id": request})
    machine.execute(request)


def accepted_twice(machine: Machine) -> None:
    world = machine.world
    world.sign_up("emma", "1005")
    first = machine.accept("emma", "1005")
    assert machine.accept("emma", "1005") == first
    world.wire.before("ListUsers", refused("TooManyRequestsException"))
    with pytest.raises(Failure):
        machine.accept("finn", "1006")


def operated(machine: Machine) -> None:
    """A person who is held and released, a hold that ends by itself, a redrive, and a cancellation."""
    world = machine.world
    request = machine.accept("jo", "1010", grace_days=10)
    machine.invoke("operate", {"operation": "hold_person", "user_id": "jo"})
    machine.invoke("operate", {"operation": "release_person", "user_id": "jo"})
    assert world.record(request)["status"] == "SCHEDULED"
    machine.invoke("operate", {"operation": "hold", "deletion_request_id": request, "lasts_seconds": 60})
    world.now += 61
    assert machine.invoke("sweep", {})["released"] == 1
    world.change(request, status="FAILED", attempt=1, claimed=1, grace_ends_at=world.now)
    redrive = {"operation": "redrive", "deletion_request_id": request}
    assert machine.invoke("operate", redrive)["dispatched"]
    machine.invoke("operate", {"operation": "cancel", "deletion_request_id": request})
    assert world.record(request)["status"] == "CANCELLED"


def cancelled_by_the_application(machine: Machine) -> None:
    world = machine.world
    request = machine.accept("kim", "1011", grace_days=10)
    machine.invoke("cancel-request", {"deletion_request_id": request})
    assert world.record(request)["status"] == "CANCELLED"
    touched = machine.accept("kim", "1011", grace_days=0)
    world.change(touched, touched_at=world.now)
    machine.invoke("cancel-request", {"deletion_request_id": touched})
    assert world.record(touched)["cancel_requested"]


def swept(machine: Machine) -> None:
    """One request that is due, one whose owner is dead, found by the sweeper and by an event."""
    world = machine.world
    machine.accept("hal", "1008", grace_days=0)
    request = machine.accept("ida", "1009", grace_days=0)
    machine.invoke("dispatch", {"deletion_request_id": request})
    with pytest.raises(Killed):
        machine.execute(request, before=at("DeleteRecords", Killed()))
    owner = world.record(request)["owner"]
    world.wire.before("DescribeExecution", answered(status="RUNNING"))
    with pytest.raises(Failure, match="ExecutionStillRuns"):
        machine.invoke("recover", {"detail": {"executionArn": owner, "name": f"{request}-1"}})
    world.wire.before("DescribeExecution", answered(status="ABORTED"), times=2)
    world.now += 901
    assert machine.invoke("sweep", {})["dispatched"] > 0
    assert world.record(request)["status"] == "RETRYABLE"
    world.change(request, status="PROCESSING", owner=owner, failures=0)
    assert machine.invoke("recover", {"detail": {"executionArn": owner, "name": f"{request}-1"}})["recovered"]


@pytest.fixture
def needed(recorded: Machine) -> Mapping[str, set[Need]]:
    """Role -> what its calls need. A thread of a function's own says so by the function that runs meanwhile."""
    found: dict[str, set[Need]] = {role: set() for role in recorded.specs}
    for call in recorded.world.wire.calls:
        if role := call.function:
            found[role].update(NEEDS[call.operation](call))
    return found


def test_each_role_allows_every_call_of_its_function_and_nothing_else(
    recorded: Machine, needed: Mapping[str, set[Need]]
) -> None:
    wrong = []
    for role, spec in recorded.specs.items():
        allowed = [
            (action, resource)
            for one in spec.allow
            for action in one.action_names()
            for resource in resources(recorded, one.on)
        ]
        for action, resource in sorted(needed[role]):
            if not any(action == other and covers(known, resource) for other, known in allowed):
                wrong.append(f"{role} calls {action} on {resource}, its role does not allow it")
        for action, known in allowed:
            used = any(action == other and covers(known, resource) for other, resource in needed[role])
            if not used and action not in IMPLIED.get(role, {}):
                wrong.append(f"{role} allows {action} on {known}, its code never calls it")
    assert wrong == []


def test_what_is_implied_is_allowed_and_not_seen(recorded: Machine, needed: Mapping[str, set[Need]]) -> None:
    for role, actions in IMPLIED.items():
        allowed = {action for one in recorded.specs[role].allow for action in one.action_names()}
        seen = {action for action, _ in needed[role]}
        assert set(actions) <= allowed
        assert not set(actions) & seen
