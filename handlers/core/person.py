"""Whose data a request is about. Never logged, never an input or output of the state machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from handlers.core.errors import SettingsError
from handlers.core.templates import USER_ID, Template


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One profile of the user in a Cognito user pool, as it was when the request was accepted."""

    sub: str = field(repr=False)
    """The immutable id; a user name may be taken again, a sub never."""
    username: str = field(repr=False)
    """The user name, the only way to reach a user of an external provider."""
    enabled: bool
    """Whether sign-in was enabled: a compensation enables nobody who was disabled before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity(Profile):
    """The profile that the user signs in to, with those of external providers that are linked to it."""

    linked: tuple[Profile, ...] = ()
    """At most five (https://docs.aws.amazon.com/cognito-user-identity-pools/latest/APIReference/
    API_AdminLinkProviderForUser.html); each outlives the profile that it is linked to."""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "Identity":
        """From the record's map; one that was written before links were recorded has none."""
        linked = tuple(Profile(**profile) for profile in fields.get("linked", ()))
        return cls(**{**fields, "linked": linked})

    def profiles(self) -> tuple[Profile, ...]:
        """The main profile and then those linked to it: while it lives, calls by their names reach it."""
        return (self, *self.linked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """The user as the stores know them; its repr shows no personal data."""

    user_id: str = field(repr=False)
    identifiers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Declared identifier -> its value."""
    identity: Identity | None = field(default=None, repr=False)
    """None where no user pool is configured or the pool did not know the user."""
    request_id: str = ""
    """The deletion request that this is about, which services outside know an erasure by; empty outside of one."""

    def names(self) -> dict[str, str]:
        """What a template's placeholders stand for."""
        return {**self.identifiers, USER_ID: self.user_id}

    def fill(self, template: str) -> str:
        """A store's key or prefix for this user.

        Raises:
            SettingsError: the template names an identifier that the request does not carry.
        """
        try:
            return Template(template).fill(self.names())
        except KeyError:
            raise SettingsError((f"{template!r} names an identifier that this request lacks",)) from None
