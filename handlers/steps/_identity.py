"""Finds the recorded user in a Cognito user pool, by an identity that nobody can take again.

A ``sub`` is such an identity, a user name is not. AWS takes a sub as the user name of local users only
(https://docs.aws.amazon.com/cognito-user-identity-pools/latest/APIReference/API_AdminGetUser.html); a user of an
external provider is reached by user name, after a look showed that the name still belongs to the recorded sub.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from handlers.core import aws
from handlers.core.person import Identity

NOT_FOUND = "UserNotFoundException"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """What a step on the user pool needs besides the frame's settings."""

    user_pool_id: str
    """The Cognito user pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolUser:
    """A user as the pool shows it now."""

    address: str = field(repr=False)
    """What to give as Username: the sub where the pool takes it, else the user name."""
    sub: str = field(repr=False)
    username: str = field(repr=False)
    enabled: bool


def find(pool: str, identity: Identity) -> PoolUser | None:
    """The user with the recorded sub; None if neither a look nor a search finds one.

    The search is eventually consistent, so it never says more than "perhaps": a user that only it shows is returned
    under the name that it shows.
    """
    for address in (identity.sub, identity.username):
        user = look(pool, address)
        if user is not None and user.sub == identity.sub:
            return user
    return search(pool, identity.sub)


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


def search(pool: str, sub: str) -> PoolUser | None:
    """The user that a search by sub shows, also one of an external provider; None if there is none."""
    request = {"UserPoolId": pool, "Filter": f'sub = "{_quoted(sub)}"'}
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


def _user(address: str, fields: Mapping[str, Any], attributes: list[Mapping[str, str]]) -> PoolUser:
    values = {attribute["Name"]: attribute.get("Value", "") for attribute in attributes}
    return PoolUser(
        address=address,
        sub=values.get("sub", ""),
        username=fields["Username"],
        enabled=bool(fields.get("Enabled", True)),
    )


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
