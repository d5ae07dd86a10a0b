"""Deletes DynamoDB items in fenced transactions whose size adapts.

A transaction is refused whole if it is too large, if one of its items is in another transaction or if its partition
lacks capacity. None of these is a lost fence: the batch halves, down to one, and grows back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from handlers.core import aws
from handlers.core.checkpoint import Checkpoint
from handlers.core.errors import AwsFailure, StoreRefused, StoreUnavailable, Throttled
from handlers.core.request_table import TransactionRefused

MAX_DELETES = 99
"""100 actions a transaction, less the progress update (https://docs.aws.amazon.com/amazondynamodb/latest/
developerguide/Constraints.html)."""
TRIES = 6
"""Refusals in a row, of a single delete, before the store's error is raised."""

_THROTTLED = frozenset({"ThrottlingError", "ProvisionedThroughputExceeded"})
_INVALID = frozenset({"ValidationError", "ValidationException"})


@dataclass(slots=True)
class FencedDeletes:
    """Deletes of one store; it remembers which size went through."""

    checkpoint: Checkpoint
    store: str
    """Under which name the deletes count."""
    size: int = MAX_DELETES
    _refusals: int = 0

    def delete(self, deletes: Sequence[Mapping[str, Any]]) -> bool:
        """Delete them all; False if time ran short first.

        Args:
            deletes: ``{"TableName": ..., "Key": {...}}`` each, any number.

        Raises:
            Superseded, OwnershipLost: the fence is lost.
            Throttled, StoreUnavailable, StoreRefused: a single delete is still refused.
        """
        waiting = list(deletes)
        while waiting:
            if not self.checkpoint.has_time():
                return False
            batch = waiting[: self.size]
            try:
                self.checkpoint.delete_items(self.store, batch)
            except (TransactionRefused, Throttled) as refused:
                self._shrink(refused, len(batch))
                continue
            del waiting[: len(batch)]
            self._refusals = 0
            self.size = min(MAX_DELETES, self.size * 2)
        return True

    def _shrink(self, refused: TransactionRefused | Throttled, tried: int) -> None:
        is_invalid = refused.code in _INVALID
        if tried == 1:
            self._refusals += 1
            if is_invalid or self._refusals == TRIES:
                raise _ours(refused) from None
        self.size = max(1, tried // 2)
        if not is_invalid:
            aws.back_off(max(1, self._refusals))


def _ours(refused: TransactionRefused | Throttled) -> AwsFailure:
    if isinstance(refused, Throttled):
        return refused
    if refused.code in _INVALID:
        return StoreRefused(refused.operation, refused.code)
    if refused.code in _THROTTLED:
        return Throttled(refused.operation, refused.code)
    return StoreUnavailable(refused.operation, refused.code)
