"""How a user and an idempotency key become names that tell nothing: HMACs by a KMS key that never leaves KMS."""

import json
from dataclasses import dataclass

from handlers.core import aws


# Without slots: settings classes with two parents cannot have slots in both.
@dataclass(frozen=True, kw_only=True)
class SubjectSettings:
    """What whoever turns a user id into a subject needs."""

    realm: str
    """Separates the ids and subjects of one environment from another's."""
    hmac_key_id: str
    """The KMS HMAC key that ids and subjects are made with; it never leaves KMS."""


def subject_of(own: SubjectSettings, user_id: str) -> str:
    """The name of the user's guard.

    Raises:
        AwsFailure: KMS could not be asked.
    """
    return f"k1_{mac(own, 'subject', user_id).hex()}"


def mac(own: SubjectSettings, purpose: str, value: str) -> bytes:
    """HMAC over (purpose, realm, value): no one of them can pass for another.

    Raises:
        AwsFailure: KMS could not be asked.
    """
    message = json.dumps([purpose, own.realm, value], separators=(",", ":")).encode()
    with aws.our_errors("GenerateMac"):
        answer = aws.client("kms").generate_mac(KeyId=own.hmac_key_id, Message=message, MacAlgorithm="HMAC_SHA_256")
    return bytes(answer["Mac"])
