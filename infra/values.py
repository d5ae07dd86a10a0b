"""What the step list calls by name (`Value`) and only a deployment knows.

Functions name the state machine, the machine names functions, the scheduler's role names one of them: as every name is
explicit, all of that is plain text, and no resource has to exist before another can be described.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pulumi

from infra.errors import refuse
from infra.iam import Statement
from infra.platform import Text
from statemachine.functions import FunctionSpec
from statemachine.step import Allow, Value

Resolved = Text | Sequence[Text]
"""A text, or a list of ARNs."""

_STORES: Final = {
    "user_pool_id": "user_pool_id is set, but no step deletes the identity; add the identity steps or remove the pool",
    "record_stores": "record_stores are set, but no step deletes records; add DeleteRecords or remove the stores",
    "file_stores": "file_stores are set, but no step deletes files; add DeleteFiles or remove the stores",
}
"""A store of the settings -> what is wrong when no step asks for it: its data would stay for ever."""
_POOL: Final = frozenset({"user_pool_id", "user_pool_arn"})
"""What a deployment without a user pool lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedFunction:
    """A function whose Values have become what they stand for."""

    spec: FunctionSpec
    """The function as the workflow describes it."""
    environment: Mapping[str, Text]
    """Its variables."""
    statements: tuple[Statement, ...]
    """What its `allow` permits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """Everything that a Value may stand for."""

    own: Mapping[str, Resolved]
    """What this deployment knows."""
    team: Mapping[str, Resolved]
    """AccountDeletionArgs.values: the team's own stores and endpoints."""
    configured: frozenset[str] = frozenset()
    """Names of the stores that the settings name: each must be asked for by a step."""

    def resolve(self, specs: Sequence[FunctionSpec]) -> tuple[ResolvedFunction, ...]:
        """All functions with their Values resolved.

        Raises:
            ConfigurationError: a name that stands for nothing, one of the team's that nobody uses, a configured store
                that no step deletes from.
        """
        refuse(self.problems(specs))
        return tuple(
            ResolvedFunction(
                spec=spec,
                environment=self._environment(spec),
                statements=tuple(statement for allow in spec.allow if (statement := self._statement(allow))),
            )
            for spec in specs
        )

    def problems(self, specs: Sequence[FunctionSpec]) -> list[str]:
        """What is wrong with the names, all together."""
        known = {**self.own, **self.team}
        shadowed = sorted(set(self.own) & set(self.team))
        problems = [f"values: {name} is provided by the stack itself; choose another name" for name in shadowed]
        asked: set[str] = set()
        for spec in specs:
            for value, lists in _asked(spec):
                if not value.optional:
                    asked.add(value.name)
                problems += _value_problems(spec.role, value, known, takes_lists=lists)
        mentioned = {value.name for spec in specs for value, _ in _asked(spec)}
        unused = sorted(set(self.team) - mentioned)
        problems += [f"values: {name} is used by no step; remove it or correct its name" for name in unused]
        problems += [text for store, text in _STORES.items() if store in self.configured and store not in asked]
        return list(dict.fromkeys(problems))

    def _environment(self, spec: FunctionSpec) -> dict[str, Text]:
        resolved = {name: self._of(value) for name, value in sorted(spec.environment.items())}
        # What is no text is absent: problems() refused lists.
        return {name: text for name, text in resolved.items() if isinstance(text, str | pulumi.Output)}

    def _statement(self, allow: Allow) -> Statement | None:
        """The permission, or None when it is about something that this deployment does not have."""
        on = self._of(allow.on)
        resources = (on,) if isinstance(on, str | pulumi.Output) else tuple(on or ())
        if not resources:
            return None
        because = (allow.reason or None) if resources == ("*",) else None
        return Statement(
            actions=allow.action_names(),
            resources=resources,
            condition={kind: dict(keys) for kind, keys in allow.condition.items()} or None,
            any_resource_because=because,
        )

    def _of(self, value: str | Value) -> Resolved | None:
        if isinstance(value, str):
            return value
        return self.team.get(value.name, self.own.get(value.name))


def _asked(spec: FunctionSpec) -> list[tuple[Value, bool]]:
    """Each Value of a function, and whether a list may stand for it."""
    texts = [(value, False) for value in spec.environment.values() if isinstance(value, Value)]
    return texts + [(allow.on, True) for allow in spec.allow if isinstance(allow.on, Value)]


def _value_problems(role: str, value: Value, known: Mapping[str, Resolved], *, takes_lists: bool) -> list[str]:
    if value.name not in known:
        if value.optional:
            return []
        if value.name in _POOL:
            return [f"function {role} needs a user pool; set user_pool_id, or leave the identity steps out"]
        names = ", ".join(sorted(known))
        return [f"function {role}: nothing is called {value.name}; give it in values, or use one of {names}"]
    is_text = isinstance(known[value.name], str | pulumi.Output)
    if not is_text and not takes_lists:
        return [f"function {role}: {value.name} is a list; a variable of its environment takes a text"]
    return []
