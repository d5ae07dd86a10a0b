"""What handlers.core.aws.client gives out, with a service held in memory behind it."""

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import botocore.loaders
from botocore import xform_name
from botocore.exceptions import ClientError, ParamValidationError
from botocore.model import OperationModel, ServiceModel
from botocore.validate import ParamValidator

CHECKS = 50
"""How many calls of one operation with the same parameters are checked."""

Params = Mapping[str, Any]
Answer = Mapping[str, Any]
Effect = Callable[[Params], Answer]
"""Carries an operation out with these parameters."""
Around = Callable[[str, Params, Effect], Answer]
"""Takes an operation, its parameters and what carries it out; gives its answer, or raises."""


@dataclass(slots=True)
class Listing:
    """The last listing of one place that began at the front."""

    began: int
    """The service's moment."""
    shown: int = 0
    ended: bool = False


class Service:
    """A service: each operation that it knows is a method of the client's name for it."""

    name: str

    def __init__(self) -> None:
        self.lock = threading.RLock()
        """One call at a time; a test may take it to look or to write."""
        self.moment = 0
        """Counts calls and writes."""
        self.listings: dict[Hashable, Listing] = {}
        """Place -> its last listing from the front."""

    def note_listing(self, place: Hashable, *, front: bool, shown: int, ended: bool) -> None:
        """One page of a listing was answered."""
        if front or place not in self.listings:
            self.listings[place] = Listing(self.moment)
        self.listings[place].shown += shown
        self.listings[place].ended = ended


class Client:
    """A client of a service in memory; it checks parameters as botocore does."""

    def __init__(self, service: Service, around: Around | None = None) -> None:
        self._service = service
        self._around = around

    @property
    def meta(self) -> Any:
        """The part of a client's meta that tells the operations."""
        return _meta(self._service.name)

    def __getattr__(self, name: str) -> Callable[..., Answer]:
        model = _operations(self._service.name).get(name)
        act = getattr(self._service, name, None)
        if model is None or act is None:
            raise AttributeError(f"the fake {self._service.name} does not know {name}: add it, with its conformance")

        def effect(params: Params) -> Answer:
            with self._service.lock:
                self._service.moment += 1
                answer: Answer = act(**params)
                return answer

        def call(**params: Any) -> Answer:
            _check(model, params)
            return self._around(model.name, params, effect) if self._around else effect(params)

        return call


def refusal(operation: str, code: str, *, status: int = 400, **fields: Any) -> ClientError:
    """An error as botocore raises it; the message holds personal data, as real ones may."""
    answer = {
        "Error": {"Code": code, "Message": "secret of user-a1b2"},
        "ResponseMetadata": {"HTTPStatusCode": status},
        **fields,
    }
    return ClientError(answer, operation)  # type: ignore[arg-type]  # the fields are botocore's own for that error


@cache
def _meta(service: str) -> Any:
    model = ServiceModel(botocore.loaders.Loader().load_service_model(service, "service-2"), service)
    return SimpleNamespace(
        service_model=model, method_to_api_mapping={xform_name(name): name for name in model.operation_names}
    )


@cache
def _operations(service: str) -> Mapping[str, OperationModel]:
    meta = _meta(service)
    return {name: meta.service_model.operation_model(api) for name, api in meta.method_to_api_mapping.items()}


_checked: Counter[tuple[str, frozenset[str]]] = Counter()


def _check(model: OperationModel, params: Params) -> None:
    # botocore's look takes longer than all the rest, and calls with the same parameters have the same shape.
    known = (model.name, frozenset(params))
    _checked[known] += 1
    if _checked[known] > CHECKS:
        return
    assert model.input_shape is not None
    report = ParamValidator().validate(params, model.input_shape)
    if report.has_errors():
        raise ParamValidationError(report=report.generate_report())
