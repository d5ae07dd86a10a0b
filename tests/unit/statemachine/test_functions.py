"""What each Lambda function is told and allowed, read from the specifications that infra builds."""

from dataclasses import fields
from importlib import import_module

import pytest

from handlers.cancel import CancelRequestSettings
from handlers.core.keeping import KeepSettings
from handlers.core.settings import StepSettings, UndoSettings
from handlers.core.subjects import SubjectSettings
from handlers.dispatch import DispatchSettings
from handlers.operate import OperateSettings
from handlers.recover import RecoverSettings
from handlers.request import RequestSettings
from handlers.schedules import GroupSettings, ScheduleSettings
from handlers.steps.cancel_deletion import CancelSettings
from handlers.steps.check_stores import CheckSettings
from handlers.steps.complete_deletion import CompleteSettings
from handlers.steps.delete_files import FileSettings
from handlers.steps.delete_records import RecordSettings
from handlers.steps.verify_erasure import VerifySettings
from handlers.sweep import SweepSettings
from statemachine.deletion import workflow
from statemachine.functions import function_specs

SPECS = {spec.role: spec for spec in function_specs(workflow(identity=True))}
SETTINGS: dict[str, tuple[type, ...]] = {
    "request-deletion": (RequestSettings, SubjectSettings, ScheduleSettings),
    "cancel-request": (CancelRequestSettings, DispatchSettings, GroupSettings, KeepSettings),
    "operate": (OperateSettings, DispatchSettings, SubjectSettings, ScheduleSettings, KeepSettings),
    "dispatch": (DispatchSettings,),
    "sweep": (SweepSettings, DispatchSettings, RecoverSettings),
    "recover": (RecoverSettings,),
    "suspend-identity": (StepSettings,),
    "undo-suspend-identity": (UndoSettings,),
    "delete-records": (StepSettings, RecordSettings),
    "delete-files": (StepSettings, FileSettings),
    "delete-identity": (StepSettings,),
    "check-stores": (CheckSettings,),
    "verify-erasure": (VerifySettings,),
    "complete-deletion": (CompleteSettings, KeepSettings),
    "cancel-deletion": (CancelSettings, KeepSettings),
}


def test_every_function_is_listed_here() -> None:
    assert set(SPECS) == set(SETTINGS)


@pytest.mark.parametrize("role", SETTINGS)
def test_a_function_is_told_everything_that_its_settings_read(role: str) -> None:
    wanted = {field.name.upper() for settings in SETTINGS[role] for field in fields(settings)}
    assert wanted <= set(SPECS[role].environment)


@pytest.mark.parametrize("role", SPECS)
def test_a_function_s_handler_can_be_found_by_its_path(role: str) -> None:
    module, _, name = SPECS[role].handler.rpartition(".")
    assert callable(getattr(import_module(module), name))


def test_only_the_pool_and_the_time_that_requests_are_kept_may_be_without_a_value() -> None:
    optional = {
        (role, name)
        for role, spec in SPECS.items()
        for name, value in spec.environment.items()
        if not isinstance(value, str) and value.optional
    }
    ending = {(role, "KEEP_REQUESTS") for role in ("operate", "cancel-request", "complete-deletion", "cancel-deletion")}
    assert optional == {("request-deletion", "USER_POOL_ID"), *ending}


def test_without_a_user_pool_no_function_but_the_request_s_asks_for_one() -> None:
    specs = function_specs(workflow(identity=False))
    asking = {
        spec.role
        for spec in specs
        for value in (*spec.environment.values(), *(one.on for one in spec.allow))
        if not isinstance(value, str) and value.name.startswith("user_pool")
    }
    assert asking == {"request-deletion"}
