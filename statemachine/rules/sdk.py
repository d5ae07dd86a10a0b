"""What the AWS SDK integrations call, from botocore's models: loaded only when a definition needs them."""

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from botocore.model import ServiceModel, StructureShape
    from botocore.session import Session

_LEADING_CAPITALS = re.compile(r"^[A-Z]{2,}(?=[A-Z][a-z]|$|[^A-Za-z])")

# Services that the integrations, which follow the AWS SDK for Java, name otherwise than botocore.
_RENAMED = {
    "applicationdiscovery": "discovery",
    "cloudwatchlogs": "logs",
    "cognitoidentityprovider": "cognito-idp",
    "costandusagereport": "cur",
    "costexplorer": "ce",
    "databasemigration": "dms",
    "directory": "ds",
    "directoryservice": "ds",
    "directoryservicedata": "ds-data",
    "elasticloadbalancing": "elb",
    "elasticloadbalancingv2": "elbv2",
    "elasticsearch": "es",
    "eventbridge": "events",
    "iotdataplane": "iot-data",
    "iotjobsdataplane": "iot-jobs-data",
    "lexmodelbuilding": "lex-models",
    "lexmodelsv2": "lexv2-models",
    "lexruntimev2": "lexv2-runtime",
    "marketplacemetering": "meteringmarketplace",
    "migrationhub": "mgh",
    "pinpointsmsvoice": "sms-voice",
    "serverlessapplicationrepository": "serverlessrepo",
    "sfn": "stepfunctions",
    "simpledb": "sdb",
}

# Services that AWS has closed, and botocore dropped: a definition that names one may be as old as it is right.
RETIRED = frozenset(
    {"alexaforbusiness", "codestar", "elastictranscoder", "gamesparks", "honeycode", "iotanalytics", "iotevents"}
    | {"iotfleethub", "iotthingsgraph", "lookoutequipment", "lookoutmetrics", "lookoutvision", "macie", "mobile"}
    | {"nimble", "opsworks", "opsworkscm", "panorama", "privatenetworks", "qldb", "qldbsession", "robomaker"}
    | {"simspaceweaver", "sms", "worklink"}
)


@cache
def _session() -> "Session":
    # Half a second that most definitions need not wait for.
    import botocore.session

    return botocore.session.Session()


@cache
def services() -> Mapping[str, str]:
    """Services as an integration names them, with botocore's names."""
    renamed = set(_RENAMED.values())
    own = {name.replace("-", ""): name for name in _session().get_available_services() if name not in renamed}
    return {**own, **_RENAMED}


def correct_service(name: str) -> str:
    """What the integration calls a service that botocore or an ARN names so; empty if nothing is near."""
    plain = name.lower().replace("-", "")
    if plain in services():
        return plain
    for java, boto in _RENAMED.items():
        if boto.replace("-", "") == plain:
            return java
    return ""


@cache
def _model(boto_name: str) -> "ServiceModel":
    return _session().get_service_model(boto_name)


@cache
def actions(boto_name: str) -> Mapping[str, str]:
    """A service's actions as ARNs spell them, with the API's names."""
    return {name[0].lower() + name[1:]: name for name in _model(boto_name).operation_names}


@cache
def parameters(boto_name: str, action: str) -> tuple[frozenset[str], frozenset[str]]:
    """The API's parameters of an action, and those of them that it needs; both with the API's capitals."""
    operation = _model(boto_name).operation_model(actions(boto_name)[action])
    shape: StructureShape | None = operation.input_shape
    if shape is None:
        return frozenset(), frozenset()
    # Idempotency tokens are filled in for the caller by some integrations and not by others.
    free = {name for name, member in shape.members.items() if member.metadata.get("idempotencyToken")}
    return frozenset(shape.members), frozenset(shape.required_members) - free


@cache
def enumerations(boto_name: str, action: str) -> Mapping[str, frozenset[str]]:
    """Those parameters of an action whose values are a fixed set of names."""
    shape: StructureShape | None = _model(boto_name).operation_model(actions(boto_name)[action]).input_shape
    found = {name: getattr(member, "enum", None) for name, member in (shape.members.items() if shape else ())}
    return {name: frozenset(values) for name, values in found.items() if values}


def pascal(name: str) -> str:
    """An API parameter as an optimized integration spells it."""
    return name[:1].upper() + name[1:]


def java(name: str) -> str:
    """An API parameter as an SDK integration spells it: DBClusterIdentifier is DbClusterIdentifier there."""
    return _LEADING_CAPITALS.sub(lambda match: match.group().capitalize(), pascal(name))
