"""aws:lambda/*: what says who may call a function, by which name, and what happens when that fails."""

from __future__ import annotations

import time

from botocore.exceptions import ClientError

from local.resources.base import (
    Json,
    Made,
    RefusedValueError,
    ResourceType,
    World,
    changed,
    first,
    quietly,
    shape,
    taken,
)
from local.resources.functions import invoke_arn

# -- alias ------------------------------------------------------------------------------------------------------------


def _alias_settings(inputs: Json) -> Json:
    routing = shape("routingConfig", first(inputs.get("routingConfig")) or {}, "additionalVersionWeights")
    return {
        "FunctionName": inputs["functionName"],
        "Name": inputs["name"],
        "FunctionVersion": inputs["functionVersion"],
        "Description": inputs.get("description", ""),
        "RoutingConfig": routing,
    }


def _alias_outputs(world: World, answer: Json) -> Json:
    return {"arn": answer["AliasArn"], "invokeArn": invoke_arn(world, answer["AliasArn"])}


def _create_alias(world: World, inputs: Json) -> Made:
    answer = world.client("lambda").create_alias(**_alias_settings(inputs))
    return Made(answer["AliasArn"], _alias_outputs(world, answer))


def _update_alias(world: World, _arn: str, _old: Json, new: Json) -> Json:
    return _alias_outputs(world, world.client("lambda").update_alias(**_alias_settings(new)))


def _delete_alias(world: World, _arn: str, outputs: Json) -> None:
    quietly(world.client("lambda").delete_alias, FunctionName=outputs["functionName"], Name=outputs["name"])


# -- permission -------------------------------------------------------------------------------------------------------


def _create_permission(world: World, inputs: Json) -> Made:
    world.client("lambda").add_permission(
        FunctionName=inputs["function"],
        StatementId=inputs["statementId"],
        Action=inputs["action"],
        Principal=inputs["principal"],
        **taken(
            inputs, "sourceArn", "sourceAccount", "qualifier", "functionUrlAuthType", principalOrgId="PrincipalOrgID"
        ),
    )
    return Made(inputs["statementId"], {})


def _delete_permission(world: World, statement: str, outputs: Json) -> None:
    where = {"FunctionName": outputs["function"], "StatementId": statement, **taken(outputs, "qualifier")}
    quietly(world.client("lambda").remove_permission, **where)


# -- asynchronous invocation ------------------------------------------------------------------------------------------


def _put_invoke_config(world: World, inputs: Json) -> None:
    destinations = shape("destinationConfig", first(inputs.get("destinationConfig")) or {}, "onFailure", "onSuccess")
    world.client("lambda").put_function_event_invoke_config(
        FunctionName=inputs["functionName"],
        **taken(inputs, "qualifier", "maximumEventAgeInSeconds", "maximumRetryAttempts"),
        DestinationConfig={
            name: shape(f"destinationConfig.{name}", first(value), "destination")
            for name, value in destinations.items()
        },
    )


def _create_invoke_config(world: World, inputs: Json) -> Made:
    _put_invoke_config(world, inputs)
    qualifier = inputs.get("qualifier")
    return Made(f"{inputs['functionName']}:{qualifier}" if qualifier else inputs["functionName"], {})


def _update_invoke_config(world: World, _id: str, _old: Json, new: Json) -> Json:
    _put_invoke_config(world, new)
    return {}


def _delete_invoke_config(world: World, _id: str, outputs: Json) -> None:
    where = {"FunctionName": outputs["functionName"], **taken(outputs, "qualifier")}
    quietly(world.client("lambda").delete_function_event_invoke_config, **where)


# -- event source -----------------------------------------------------------------------------------------------------


def _source_settings(inputs: Json) -> Json:
    filters = shape("filterCriteria", first(inputs.get("filterCriteria")) or {}, "filters").get("Filters", [])
    scaling = shape("scalingConfig", first(inputs.get("scalingConfig")) or {}, "maximumConcurrency")
    return {
        "FunctionName": inputs["functionName"],
        "Enabled": inputs.get("enabled", True),
        **taken(inputs, "batchSize", "maximumBatchingWindowInSeconds", "functionResponseTypes"),
        **(
            {"FilterCriteria": {"Filters": [shape("filterCriteria.filters", one, "pattern") for one in filters]}}
            if filters
            else {}
        ),
        **({"ScalingConfig": scaling} if scaling else {}),
    }


def _source_outputs(answer: Json) -> Json:
    return {
        "uuid": answer["UUID"],
        "functionArn": answer["FunctionArn"],
        "state": answer["State"],
        **taken(answer, EventSourceMappingArn="arn"),
    }


def _create_source(world: World, inputs: Json) -> Made:
    answer = world.client("lambda").create_event_source_mapping(
        EventSourceArn=inputs["eventSourceArn"],
        Tags=inputs.get("tags") or {},
        **taken(inputs, "startingPosition"),
        **_source_settings(inputs),
    )
    return Made(answer["UUID"], _source_outputs(answer))


def _update_source(world: World, uuid: str, old: Json, new: Json) -> Json:
    if changed(old, new, "tags"):
        raise RefusedValueError("tags", new.get("tags"), "tags of an event source mapping cannot be changed here")
    return _source_outputs(world.client("lambda").update_event_source_mapping(UUID=uuid, **_source_settings(new)))


def _delete_source(world: World, uuid: str, _outputs: Json) -> None:
    client = world.client("lambda")
    quietly(client.delete_event_source_mapping, UUID=uuid)
    ends = time.monotonic() + 10
    while time.monotonic() < ends:  # deleted in the background, and the queue may be deleted next
        try:
            client.get_event_source_mapping(UUID=uuid)
        except ClientError:
            return
        time.sleep(0.02)


ALIAS = ResourceType(
    pulumi_type="aws:lambda/alias:Alias",
    honoured=frozenset({"name", "functionName", "functionVersion", "description"}),
    not_honoured={"routingConfig": "stored; the emulator sends everything to functionVersion"},
    replaces=frozenset({"name", "functionName"}),
    named_by="name",
    create=_create_alias,
    update=_update_alias,
    delete=_delete_alias,
)

PERMISSION = ResourceType(
    pulumi_type="aws:lambda/permission:Permission",
    honoured=frozenset({"function", "action", "principal", "statementId", "qualifier"}),
    not_honoured={
        "sourceArn": "stored and described; whoever calls is let in",
        "sourceAccount": "stored and described; whoever calls is let in",
        "principalOrgId": "stored and described; whoever calls is let in",
        "functionUrlAuthType": "stored; there are no function URLs",
    },
    named_by="statementId",
    create=_create_permission,
    update=None,
    delete=_delete_permission,
)

EVENT_INVOKE_CONFIG = ResourceType(
    pulumi_type="aws:lambda/functionEventInvokeConfig:FunctionEventInvokeConfig",
    honoured=frozenset({"functionName", "destinationConfig", "maximumRetryAttempts"}),
    not_honoured={
        "qualifier": "stored and described; only the unqualified function's settings have an effect",
        "maximumEventAgeInSeconds": "stored and described; an event never grows too old",
    },
    replaces=frozenset({"functionName", "qualifier"}),
    create=_create_invoke_config,
    update=_update_invoke_config,
    delete=_delete_invoke_config,
)

EVENT_SOURCE_MAPPING = ResourceType(
    pulumi_type="aws:lambda/eventSourceMapping:EventSourceMapping",
    honoured=frozenset(
        {
            "eventSourceArn",
            "functionName",
            "enabled",
            "batchSize",
            "functionResponseTypes",
            "filterCriteria",
            "tags",
            "startingPosition",
        }
    ),
    not_honoured={
        "maximumBatchingWindowInSeconds": "stored; a batch is what is there at each look",
        "scalingConfig": "stored; one batch at a time",
    },
    replaces=frozenset({"eventSourceArn", "startingPosition"}),
    create=_create_source,
    update=_update_source,
    delete=_delete_source,
)

TYPES = (ALIAS, PERMISSION, EVENT_INVOKE_CONFIG, EVENT_SOURCE_MAPPING)
