"""Finds the recorded profiles of a user in a Cognito user pool, by an identity that nobody can take again.

A ``sub`` is such an identity, a user name is not. AWS takes a sub as the user name of local users only
(https://docs.aws.amazon.com/cognito-user-identity-pools/latest/APIReference/API_AdminGetUser.html); a user of an
external provider is reached by user name, after a look showed that the name still belongs to the recorded sub.

A profile of an external provider that is linked to a user keeps a sub of its own, which only ListUsers shows: as long
as the link lives, a call by its name reaches the user that it is linked to (https://github.com/aws/aws-sdk-net/issues/
1883, https://github.com/aws/aws-sdk-go/issues/4218). It outlives that user and must be deleted after it
(https://github.com/aws-amplify/amplify-js/issues/6121). Once the user is gone no list says which profiles were linked
to it: ListUsers has no filter for that (https://docs.aws.amazon.com/cognito-user-identity-pools/latest/APIReference/
API_ListUsers.html). So a step that sees a link which the record does not know writes it down first.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from botocore.exceptions import ClientError

from handlers.core import aws
from handlers.core.checkpoint import Checkpoint
from handlers.core.person import Identity, Profile

NOT_FOUND = "UserNotFoundException"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """What a step on the user pool needs besides the frame's settings."""

    user_pool_id: str
    """The Cognito user pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolUser:
    """A user as the pool shows it now."""

    address: str | None = field(repr=False)
    """What to give as Username: the sub where the pool takes it, else the user name. None: that name reaches somebody
    else now, so no call may be made; the search is behind, or the user is linked to another."""
    sub: str = field(repr=False)
    username: str = field(repr=False)
    enabled: bool
    links: tuple[str, ...] = field(repr=False)
    """The user names that the profiles linked to it have."""


def find(pool: str, profile: Profile) -> PoolUser | None:
    """The user with the recorded sub; None if neither a look nor a search finds one.

    The search is eventually consistent, so it never says more than "perhaps": a user that only it shows may be acted on
    by name only as long as a look by that name shows nobody.
    """
    is_taken = False
    for address in (profile.sub, profile.username):
        user = look(pool, address)
        if user is not None and user.sub == profile.sub:
            return user
        is_taken = is_taken or user is not None
    shown = search(pool, profile.sub)
    return replace(shown, address=None) if shown is not None and is_taken else shown


def linked(pool: str, user: PoolUser) -> tuple[Profile, ...]:
    """The profiles of external providers that are linked to a user, as far as the search shows them."""
    found = (_search_name(pool, name) for name in user.links)
    return tuple(
        Profile(sub=one.sub, username=one.username, enabled=one.enabled)
        for one in found
        # A user of an external provider has its own provider among its identities.
        if one is not None and one.sub != user.sub
    )


def linked_since(pool: str, identity: Identity, user: PoolUser | None) -> tuple[Profile, ...]:
    """The profiles that are linked to the recorded user now and that the record does not know; none if it is gone."""
    known = {profile.sub for profile in identity.profiles()}
    return tuple(one for one in linked(pool, user) if one.sub not in known) if user is not None else ()


def with_links(checkpoint: Checkpoint, pool: str, identity: Identity, user: PoolUser | None) -> Identity:
    """The recorded identity with what was linked to its user since; the record knows it too before this returns.

    Raises:
        Superseded, OwnershipLost: nothing may be done.
    """
    late = linked_since(pool, identity, user)
    if not late:
        return identity
    whole = replace(identity, linked=(*identity.linked, *late))
    checkpoint.note_links(whole)
    return whole


def recorded(pool: str, user: PoolUser) -> Identity:
    """What a request remembers of a user."""
    return Identity(sub=user.sub, username=user.username, enabled=user.enabled, linked=linked(pool, user))


def look(pool: str, address: str) -> PoolUser | None:
    """The user at an address now; None if there is none."""
    with aws.our_errors("AdminGetUser"):
        try:
            answer = aws.client("cognito-idp").admin_get_user(UserPoolId=pool, Username=address)
        except ClientError as error:
            if aws.error_code(error) != NOT_FOUND:
                raise
            return None
    return _user(address, answer, answer["UserAttributes"])


def search(pool: str, value: str, *, by: str = "sub") -> PoolUser | None:
    """The user that a search by sub or username shows, also one of an external provider; None if there is none."""
    request = {"UserPoolId": pool, "Filter": f'{by} = "{_quoted(value)}"'}
    while True:
        with aws.our_errors("ListUsers"):
            answer = aws.client("cognito-idp").list_users(**request)
        for found in answer["Users"]:
            return _user(found["Username"], found, found["Attributes"])
        if "PaginationToken" not in answer:
            return None
        request["PaginationToken"] = answer["PaginationToken"]


def call(operation: str, pool: str, address: str) -> bool:
    """One admin call on a user, e.g. ``admin_disable_user``; False if the user is not there."""
    name = "".join(word.capitalize() for word in operation.split("_"))
    with aws.our_errors(name):
        try:
            getattr(aws.client("cognito-idp"), operation)(UserPoolId=pool, Username=address)
        except ClientError as error:
            if aws.error_code(error) != NOT_FOUND:
                raise
            return False
    return True


def _search_name(pool: str, name: str) -> PoolUser | None:
    # A pool that does not tell cases apart keeps names in lower case, and the search does tell them apart.
    found = (search(pool, spelling, by="username") for spelling in dict.fromkeys((name, name.lower())))
    return next((user for user in found if user is not None), None)


def _user(address: str, fields: Mapping[str, Any], attributes: list[Mapping[str, str]]) -> PoolUser:
    values = {attribute["Name"]: attribute.get("Value", "") for attribute in attributes}
    return PoolUser(
        address=address,
        sub=values.get("sub", ""),
        username=fields["Username"],
        enabled=bool(fields.get("Enabled", True)),
        links=tuple(f"{one['providerName']}_{one['userId']}" for one in json.loads(values.get("identities") or "[]")),
    )


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
