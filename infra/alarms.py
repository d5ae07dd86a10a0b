"""The alarms of an environment, as CloudWatch has them."""

from datetime import timedelta

import pulumi
import pulumi_aws as aws

from infra.alarm_list import Alarm, AlarmsArgs, Expression, Signal, alarms_of
from infra.naming import ALARM
from infra.site import Site


class Alarms(pulumi.ComponentResource):
    """Every alarm, to the platform's page_topics or ticket_topics; without topics they only show on the dashboard.

    CloudWatch cannot publish to a topic that is encrypted with alias/aws/sns, whose key policy cannot be changed: the
    alarm rings and nobody hears it (https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/
    Notify_Users_Alarm_Changes.html). The alarm about a silent sweeper rings at the very first deploy until the
    sweeper's first run, a minute or two. Nothing here holds data; a replacement loses the alarm's history.
    """

    def __init__(self, name: str, args: AlarmsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("account-deletion:alarms:Alarms", name, None, opts)
        for alarm in alarms_of(args):
            self._make(name, args.site, alarm)
        self.register_outputs({})

    def _make(self, name: str, site: Site, alarm: Alarm) -> None:
        topics = list(site.platform.page_topics if alarm.pages else site.platform.ticket_topics)
        signal = alarm.watches if isinstance(alarm.watches, Signal) else None
        aws.cloudwatch.MetricAlarm(
            f"{name}-{alarm.role}",
            name=site.name(ALARM, alarm.role),
            alarm_description=alarm.description,
            namespace=signal.namespace if signal else None,
            metric_name=signal.name if signal else None,
            dimensions=dict(signal.dimensions) if signal and signal.dimensions else None,
            statistic=signal.statistic if signal else None,
            period=int(alarm.period.total_seconds()) if signal else None,
            metric_queries=_queries(alarm.watches, alarm.period) if isinstance(alarm.watches, Expression) else None,
            comparison_operator="LessThanThreshold" if alarm.below else "GreaterThanOrEqualToThreshold",
            threshold=alarm.threshold,
            evaluation_periods=alarm.periods,
            datapoints_to_alarm=alarm.points,
            treat_missing_data=str(alarm.missing),
            alarm_actions=topics,
            ok_actions=topics if alarm.resolves else [],
            tags=site.tags,
            opts=pulumi.ResourceOptions(parent=self),
        )


def _queries(expression: Expression, period: timedelta) -> list[aws.cloudwatch.MetricAlarmMetricQueryArgs]:
    steps = {**expression.steps, "result": expression.text}
    return [
        *(
            aws.cloudwatch.MetricAlarmMetricQueryArgs(
                id=name,
                metric=aws.cloudwatch.MetricAlarmMetricQueryMetricArgs(
                    namespace=signal.namespace,
                    metric_name=signal.name,
                    dimensions=dict(signal.dimensions),
                    stat=signal.statistic,
                    period=int(period.total_seconds()),
                ),
            )
            for name, signal in sorted(expression.signals.items())
        ),
        *(
            aws.cloudwatch.MetricAlarmMetricQueryArgs(id=name, expression=text, return_data=name == "result")
            for name, text in steps.items()
        ),
    ]
