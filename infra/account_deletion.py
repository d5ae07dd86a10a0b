"""AccountDeletion: the one component that a team makes; everything else is its child.

AccountDeletion("deletion", AccountDeletionArgs(settings=..., workflow=..., build=...))
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import pulumi

from handlers.core.stores import FileStore
from infra import events, functions, schedule, storage, workflow
from infra.alarm_list import AlarmsArgs, alarms_of, metrics_namespace
from infra.alarms import Alarms
from infra.dashboard import Dashboard, DashboardArgs
from infra.errors import refuse
from infra.events import Recovery, RecoveryArgs
from infra.functions import Function, FunctionArgs, Layer, LayerArgs
from infra.packaging import Build
from infra.platform import Text
from infra.queries import Queries, QueriesArgs
from infra.schedule import Schedules, SchedulesArgs
from infra.settings import Settings
from infra.site import Site
from infra.storage import RequestStore, RequestStoreArgs
from infra.values import Resolved, ResolvedFunction, Values
from infra.workflow import StateMachine, StateMachineArgs
from statemachine import asl, frame
from statemachine.functions import FunctionSpec, function_specs
from statemachine.rendering import Deployment
from statemachine.workflow import Workflow

_KEY_ID_SHAPE: Final = "00000000-0000-0000-0000-000000000000"
_POLICY_WILDCARDS: Final = "{*?$"
"""Where the known part of a key prefix ends: at a placeholder, or at what a policy would read as a wildcard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountDeletionArgs:
    """One environment of the account deletion."""

    settings: Settings
    """Names, stores, times and rails: what differs between environments."""
    workflow: Workflow
    """The list of steps, already checked. Another list is another definition: an update in place."""
    build: Build
    """The packages for Lambda (infra.packaging.load_build)."""
    values: Mapping[str, Resolved] = field(default_factory=dict)
    """What the team's own steps call by name (`Value`): a text or a list of ARNs, also as Outputs of other stacks."""

    def __post_init__(self) -> None:
        specs = function_specs(self.workflow)
        refuse(
            [
                *self.settings.attempt_problems(self.workflow.longest),
                *_network_problems(self.settings, specs),
                *_role_problems(specs),
            ]
        )


class AccountDeletion(pulumi.ComponentResource):
    """Deletes the accounts of one environment: table, key, functions, state machine, schedules.

    The stores that hold the users' data (tables, buckets, user pool) belong to the team: they are named in roles and
    variables, and never made, changed or destroyed here. Renaming the component or its environment replaces
    everything; outside dev the table, the key and the schedule group are protected against it.
    """

    request_function_arn: str
    """What an application invokes to have an account deleted."""
    state_machine_arn: str
    """Whose executions are the attempts."""
    request_table_name: str
    """Where the requests and tombstones are."""
    schedule_group_name: str
    """Where the schedules of the grace periods are."""
    subject_key_arn: pulumi.Output[str]
    """The key that turns user ids into subjects: whoever looks up a tombstone needs it."""
    function_arns: dict[str, str]
    """Role -> ARN of each function's alias: what an operator's command line goes by."""
    dead_letter_queue_urls: dict[str, pulumi.Output[str]]
    """Whose failures -> the queue that keeps them for redrive."""
    dashboard_name: str
    """Where to look first."""

    def __init__(self, name: str, args: AccountDeletionArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("account-deletion:index:AccountDeletion", name, None, opts)
        settings = args.settings
        site = Site.look_up(
            self, settings.platform, environment=settings.environment, protects_data=settings.protect_data
        )
        refuse(settings.place_problems(site.account, site.region))
        # KMS draws the key's id: until then an ARN of the same length stands for it, so that everything is checked
        # before the first resource.
        planned = _resolve(site, args, site.arn("kms", f"key/{_KEY_ID_SHAPE}"))
        refuse([problem for function in planned for problem in functions.size_problems(site, function)])

        store = RequestStore(f"{name}-store", RequestStoreArgs(site=site), pulumi.ResourceOptions(parent=self))
        made = self._make_functions(name, args, site, _resolve(site, args, store.key_arn))
        machine = self._make_machine(name, args, site, store, made)
        schedules = Schedules(
            f"{name}-schedules",
            SchedulesArgs(site=site, target_arns=(made[frame.DISPATCH].alias_arn, made[frame.SWEEP].alias_arn)),
            pulumi.ResourceOptions(parent=self),
        )

        recovery = Recovery(
            f"{name}-recovery",
            RecoveryArgs(
                site=site,
                machine_arn=machine.arn,
                recover=made[frame.RECOVER],
                sweep=made[frame.SWEEP],
                schedules=schedules,
            ),
            pulumi.ResourceOptions(parent=self),
        )

        self.dashboard_name = self._make_watch(name, args, site)
        self.request_function_arn = made[frame.REQUEST].alias_arn
        self.state_machine_arn = machine.arn
        self.request_table_name = store.table_name
        self.schedule_group_name = schedules.group_name
        self.subject_key_arn = store.key_arn
        self.function_arns = {role: function.alias_arn for role, function in made.items()}
        self.dead_letter_queue_urls = {
            schedule.ROLE: schedules.dead_letters.url,
            events.STATUS_ROLE: recovery.dead_letters.url,
        } | {role: function.dead_letters.url for role, function in made.items() if function.dead_letters}
        self.register_outputs(self.outputs())

    def outputs(self) -> dict[str, pulumi.Input[object]]:
        """What a stack exports, by name."""
        return {
            "request_function_arn": self.request_function_arn,
            "state_machine_arn": self.state_machine_arn,
            "request_table_name": self.request_table_name,
            "schedule_group_name": self.schedule_group_name,
            "subject_key_arn": self.subject_key_arn,
            "function_arns": self.function_arns,
            "dead_letter_queue_urls": self.dead_letter_queue_urls,
            "dashboard_name": self.dashboard_name,
        }

    def _make_functions(
        self, name: str, args: AccountDeletionArgs, site: Site, resolved: Sequence[ResolvedFunction]
    ) -> dict[str, Function]:
        layer = Layer(f"{name}-layer", LayerArgs(site=site, build=args.build), pulumi.ResourceOptions(parent=self))
        return {
            function.spec.role: Function(
                f"{name}-{function.spec.role}",
                FunctionArgs(site=site, function=function, build=args.build, layer_arn=layer.arn),
                pulumi.ResourceOptions(parent=self),
            )
            for function in resolved
        }

    def _make_machine(
        self, name: str, args: AccountDeletionArgs, site: Site, store: RequestStore, made: Mapping[str, Function]
    ) -> StateMachine:
        definition = definition_text(site, args.workflow)
        called = {role: function for role, function in made.items() if f'"{function.alias_arn}"' in definition}
        return StateMachine(
            f"{name}-{workflow.ROLE}",
            StateMachineArgs(
                site=site,
                definition=definition,
                table_arn=store.table_arn,
                function_arns=tuple(function.alias_arn for function in called.values()),
                depends_on=(store.table, *(function.alias for function in called.values())),
            ),
            pulumi.ResourceOptions(parent=self),
        )

    def _make_watch(self, name: str, args: AccountDeletionArgs, site: Site) -> str:
        """Alarms, dashboard and queries; the dashboard's name."""
        watched = AlarmsArgs(site=site, settings=args.settings, workflow=args.workflow)
        Alarms(f"{name}-alarms", watched, pulumi.ResourceOptions(parent=self))
        roles = tuple(spec.role for spec in function_specs(args.workflow))
        Queries(f"{name}-queries", QueriesArgs(site=site, roles=roles), pulumi.ResourceOptions(parent=self))
        shown = DashboardArgs(site=site, workflow=args.workflow, alarms=alarms_of(watched))
        return Dashboard(f"{name}-dashboard", shown, pulumi.ResourceOptions(parent=self)).name


def definition_text(site: Site, plan: Workflow) -> str:
    """The definition of the state machine, as plain text."""
    deployment = Deployment(
        request_table=storage.table_name(site.naming),
        functions={spec.role: functions.alias_arn(site, spec.role) for spec in function_specs(plan)},
        partition=site.partition,
    )
    return asl.to_json(asl.render(plan, deployment))


def own_values(site: Site, settings: Settings, plan: Workflow, key_arn: Text) -> dict[str, Resolved]:
    """What a Value may stand for without the team's own."""
    erasing = {step.name: functions.alias_arn(site, frame.role_of(step)) for step in plan.steps if step.erases}
    checked = {step.name: functions.alias_arn(site, frame.role_of(step)) for step in plan.checked_steps}
    return {
        "request_table": storage.table_name(site.naming),
        "request_table_arn": storage.table_arn(site),
        "hmac_key_id": key_arn,
        "hmac_key_arn": key_arn,
        "realm": settings.realm,
        "metrics_namespace": metrics_namespace(site),
        "identifiers": json.dumps(settings.identifiers),
        **_store_values(site, settings),
        **({"keep_requests": _seconds(settings.keep_requests)} if settings.keep_requests is not None else {}),
        "grace_default": _seconds(settings.grace_default),
        "grace_minimum": _seconds(settings.grace_minimum),
        "grace_maximum": _seconds(settings.grace_maximum),
        "erase_within": _seconds(settings.erase_within),
        "schedule_group": schedule.group_name(site),
        "schedule_arns": schedule.schedule_arns(site),
        "schedule_role_arn": schedule.role_arn(site),
        "schedule_dead_letters_arn": schedule.dead_letters_arn(site),
        "dispatch_arn": functions.alias_arn(site, frame.DISPATCH),
        "state_machine_arn": workflow.machine_arn(site),
        "execution_arns": workflow.execution_arns(site),
        "due_index": storage.DUE_INDEX,
        "due_index_arn": storage.index_arn(site),
        "erasing_functions": json.dumps(erasing, sort_keys=True),
        "erasing_function_arns": sorted(erasing.values()),
        "checked_functions": json.dumps(checked, sort_keys=True),
        "checked_function_arns": sorted(checked.values()),
    }


def _store_values(site: Site, settings: Settings) -> dict[str, Resolved]:
    tables = {site.arn("dynamodb", f"table/{store.table_name}") for store in settings.record_stores}
    buckets = {f"arn:{site.partition}:s3:::{store.bucket}" for store in settings.file_stores}
    values: dict[str, Resolved] = {
        **settings.store_values(),
        "record_table_arns": sorted(tables),
        **_index_values(site, settings),
        "file_bucket_arns": sorted(buckets),
        "file_object_arns": sorted({_object_arn(site, store) for store in settings.file_stores}),
    }
    if settings.user_pool_id is not None:
        values["user_pool_arn"] = site.arn("cognito-idp", f"userpool/{settings.user_pool_id}")
    return values


def _index_values(site: Site, settings: Settings) -> dict[str, Resolved]:
    """Nothing where no store has an index: then no role gets the right to read one."""
    indexed = [store for store in settings.record_stores if store.index is not None]
    if not indexed:
        return {}
    tables = {site.arn("dynamodb", f"table/{store.table_name}") for store in indexed}
    indexes = {site.arn("dynamodb", f"table/{store.table_name}/index/{store.index}") for store in indexed}
    return {"record_index_arns": sorted(indexes), "record_indexed_table_arns": sorted(tables)}


def _object_arn(site: Site, store: FileStore) -> str:
    """All keys that the store's template can mean, and no more than a policy can tell apart."""
    ends = (store.prefix.find(character) for character in _POLICY_WILDCARDS)
    known = store.prefix[: min(end for end in ends if end >= 0)]
    return f"arn:{site.partition}:s3:::{store.bucket}/{known}*"


def _resolve(site: Site, args: AccountDeletionArgs, key_arn: Text) -> tuple[ResolvedFunction, ...]:
    settings = args.settings
    stores = {
        "record_stores": settings.record_stores,
        "file_stores": settings.file_stores,
        "user_pool_id": settings.user_pool_id,
    }
    values = Values(
        own=own_values(site, settings, args.workflow, key_arn),
        team=args.values,
        configured=frozenset(name for name, value in stores.items() if value),
    )
    return values.resolve(function_specs(args.workflow))


def _network_problems(settings: Settings, specs: Sequence[FunctionSpec]) -> list[str]:
    if settings.platform.network is not None:
        return []
    return [
        f"function {spec.role}: network=True, but the platform has no network; set platform.network"
        for spec in specs
        if spec.network
    ]


def _role_problems(specs: Sequence[FunctionSpec]) -> list[str]:
    """Two steps, or a step and a part of the frame, that would get the same physical names."""
    taken = [*(spec.role for spec in specs), schedule.ROLE, workflow.ROLE, events.STATUS_ROLE]
    twice = sorted({role for role in taken if taken.count(role) > 1})
    return [f"two functions or parts are called {role}; rename the step" for role in twice]


def _seconds(duration: timedelta) -> str:
    return str(int(duration.total_seconds()))
