"""aws:cloudwatch/* that belongs to CloudWatch metrics"""

from __future__ import annotations

from local.resources.base import (
    Json,
    Made,
    ResourceType,
    World,
    document,
    pairs,
    quietly,
    shape,
    tag_changes,
    taken,
)

_METRIC_RENAMED = {
    "dimensions": "Dimensions",
    "metricName": "MetricName",
    "namespace": "Namespace",
    "period": "Period",
    "stat": "Stat",
    "unit": "Unit",
}


def _arn(world: World, name: str) -> str:
    return f"arn:aws:cloudwatch:{world.region}:{world.account}:alarm:{name}"


def _dimensions(value: Json | None) -> list[Json]:
    return pairs(value, "Name")


def _metric_query(query: Json) -> Json:
    fields = shape("metricQueries", query, "id", "expression", "label", "returnData", "period", "accountId", "metric")
    if "Metric" not in fields:
        return fields
    metric = shape("metricQueries.metric", fields["Metric"], **_METRIC_RENAMED)
    del fields["Metric"]
    fields["MetricStat"] = {
        "Metric": {
            **{name: metric[name] for name in ("Namespace", "MetricName") if name in metric},
            "Dimensions": _dimensions(metric.get("Dimensions")),
        },
        **{name: metric[name] for name in ("Period", "Stat", "Unit") if name in metric},
    }
    return fields


def _settings(inputs: Json) -> Json:
    queries = [_metric_query(query) for query in inputs.get("metricQueries", [])]
    return {
        "AlarmName": inputs["name"],
        "ActionsEnabled": inputs.get("actionsEnabled", True),
        "AlarmActions": inputs.get("alarmActions", []),
        "OKActions": inputs.get("okActions", []),
        "InsufficientDataActions": inputs.get("insufficientDataActions", []),
        **({"Metrics": queries} if queries else {"Dimensions": _dimensions(inputs.get("dimensions"))}),
        **taken(
            inputs,
            "alarmDescription",
            "comparisonOperator",
            "evaluationPeriods",
            "threshold",
            "metricName",
            "namespace",
            "period",
            "statistic",
            "extendedStatistic",
            "unit",
            "datapointsToAlarm",
            "treatMissingData",
            "thresholdMetricId",
            evaluateLowSampleCountPercentiles="EvaluateLowSampleCountPercentile",
        ),
    }


def _create_alarm(world: World, inputs: Json) -> Made:
    world.client("cloudwatch").put_metric_alarm(**_settings(inputs), Tags=pairs(inputs.get("tags")))
    return Made(inputs["name"], {"arn": _arn(world, inputs["name"])})


def _update_alarm(world: World, name: str, old: Json, new: Json) -> Json:
    client, arn = world.client("cloudwatch"), _arn(world, name)
    client.put_metric_alarm(**_settings(new))
    added, removed = tag_changes(old, new)
    if added:
        client.tag_resource(ResourceARN=arn, Tags=pairs(added))
    if removed:
        client.untag_resource(ResourceARN=arn, TagKeys=removed)
    return {"arn": arn}


def _delete_alarm(world: World, name: str, _outputs: Json) -> None:
    world.client("cloudwatch").delete_alarms(AlarmNames=[name])


def _put_dashboard(world: World, inputs: Json) -> Json:
    name = inputs["dashboardName"]
    world.client("cloudwatch").put_dashboard(DashboardName=name, DashboardBody=document(inputs["dashboardBody"]))
    return {"dashboardArn": f"arn:aws:cloudwatch::{world.account}:dashboard/{name}"}


def _create_dashboard(world: World, inputs: Json) -> Made:
    return Made(inputs["dashboardName"], _put_dashboard(world, inputs))


def _update_dashboard(world: World, _id: str, _old: Json, new: Json) -> Json:
    return _put_dashboard(world, new)


def _delete_dashboard(world: World, name: str, _outputs: Json) -> None:
    quietly(
        world.client("cloudwatch").delete_dashboards,
        absent=("ResourceNotFound", "DashboardNotFoundError"),
        DashboardNames=[name],
    )


METRIC_ALARM = ResourceType(
    pulumi_type="aws:cloudwatch/metricAlarm:MetricAlarm",
    honoured=frozenset(
        {
            "name",
            "alarmDescription",
            "comparisonOperator",
            "evaluationPeriods",
            "threshold",
            "metricName",
            "namespace",
            "period",
            "statistic",
            "extendedStatistic",
            "unit",
            "dimensions",
            "actionsEnabled",
            "alarmActions",
            "insufficientDataActions",
            "tags",
        }
    ),
    not_honoured={
        "okActions": "stored and described; an alarm never goes back to OK",
        "treatMissingData": "stored and described; only published data counts",
        "datapointsToAlarm": "stored and described; one point over the threshold is an alarm",
        "metricQueries": "accepted and forgotten; metric math is not evaluated",
        "thresholdMetricId": "stored and described; metric math is not evaluated",
        "evaluateLowSampleCountPercentiles": "stored and described",
    },
    replaces=frozenset({"name"}),
    named_by="name",
    create=_create_alarm,
    update=_update_alarm,
    delete=_delete_alarm,
)

DASHBOARD = ResourceType(
    pulumi_type="aws:cloudwatch/dashboard:Dashboard",
    honoured=frozenset({"dashboardName", "dashboardBody"}),
    replaces=frozenset({"dashboardName"}),
    named_by="dashboardName",
    create=_create_dashboard,
    update=_update_dashboard,
    delete=_delete_dashboard,
)

TYPES = (METRIC_ALARM, DASHBOARD)
