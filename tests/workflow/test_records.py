"""DeleteRecords in other arrangements than the list's: a step for each table, one table in several stores."""

from dataclasses import replace
from typing import Any

from handlers.core.stores import RecordStore, to_json
from statemachine.deletion import DELETE_RECORDS
from statemachine.functions import function_specs
from statemachine.step import FunctionOptions, StepKind, Value
from statemachine.workflow import Workflow
from tests.machine import Machine
from tests.world import CUSTOMER, RECORD_STORES, USER, World

ORDERS, VISITS = RECORD_STORES
DELETE_VISITS = replace(
    DELETE_RECORDS,
    name="DeleteVisits",
    kind=StepKind.RETRIABLE,
    function=FunctionOptions(environment={"RECORD_STORES": Value("visit_stores")}),
)


def machine_of(world: World, *stores: RecordStore) -> Machine:
    """DeleteRecords with these stores, and a step of its own for the visits."""
    machine = Machine(world, Workflow(steps=(DELETE_RECORDS, DELETE_VISITS)))
    machine.values["record_stores"] = to_json(stores)
    machine.values["visit_stores"] = to_json((VISITS,))
    return machine


def counts(world: World, request: str) -> dict[str, Any]:
    steps = world.record(request)["steps"]
    return {name: step["deleted"] for name, step in steps.items() if step.get("deleted")}


def test_each_table_may_have_a_step_of_its_own_with_the_same_handler(world: World) -> None:
    world.sign_up()
    world.sign_up("anna", "10011")
    neighbour = world.data("anna", "10011")
    machine = machine_of(world, ORDERS)
    request = machine.dispatched()

    execution = machine.execute(request)

    assert execution.error is None
    assert [state for state in execution.states if state in {"DeleteRecords", "DeleteVisits"}] == [
        "DeleteRecords",
        "DeleteVisits",
    ]
    assert world.record(request)["status"] == "COMPLETED"
    assert counts(world, request) == {"DeleteRecords": {"orders": 3}, "DeleteVisits": {"visits": 2}}
    assert world.data("anna", "10011") == neighbour
    assert {"delete-records", "delete-visits"} <= {spec.role for spec in function_specs(machine.plan)}


def test_one_table_may_be_in_several_stores_each_with_a_part_of_the_keys(world: World) -> None:
    for order in ("draft#1", "sent#1", "sent#2", "drafted", "kept#1"):
        world.put_order(USER, order)
    drafts = replace(ORDERS, name="drafts", sort_prefix="draft#")
    sent = replace(ORDERS, name="sent", sort_prefix="sent#")
    machine = machine_of(world, drafts, sent)
    request = machine.dispatched()

    execution = machine.execute(request)

    assert execution.error is None
    assert counts(world, request) == {"DeleteRecords": {"drafts": 1, "sent": 2}}
    assert sorted(item["sk"] for item in world.items("orders")) == ["drafted", "kept#1"]


def test_an_index_beside_the_tables_own_key_takes_the_rest_of_a_users_items(world: World) -> None:
    world.make_table("notes", owner="S", at="N", index={"by-customer": ("customer", "N")})
    for owner, at, customer in ((USER, 1, CUSTOMER), ("team", 2, CUSTOMER), ("team", 3, "10011"), ("anna", 4, "10011")):
        item = {"owner": {"S": owner}, "at": {"N": str(at)}, "customer": {"N": customer}}
        world.dynamodb.put_item(TableName="notes", Item=item)
    own = RecordStore(
        name="own", table="notes", partition_key="owner", partition="{user_id}", sort_key="at", sort_type="N"
    )
    shared = replace(
        own,
        name="shared",
        partition=None,
        index="by-customer",
        index_key="customer",
        index_type="N",
        index_value="{customer_id}",
    )
    machine = machine_of(world, own, shared)
    request = machine.dispatched()

    execution = machine.execute(request)

    assert execution.error is None
    assert world.record(request)["status"] == "COMPLETED"
    assert counts(world, request) == {"DeleteRecords": {"own": 1, "shared": 1}}
    assert sorted(item["at"] for item in world.items("notes")) == [3, 4]


def test_a_store_that_is_not_as_configured_fails_the_request_before_anything_is_deleted(world: World) -> None:
    world.sign_up()
    data = world.data()
    machine = machine_of(world, replace(ORDERS, partition_key="user"))
    request = machine.dispatched()

    machine.execute(request)

    record = world.record(request)
    assert (record["status"], record["last_error"]["error"]) == ("FAILED", "StoreUnfit")
    assert "pivot_at" not in record
    assert world.data() == data
