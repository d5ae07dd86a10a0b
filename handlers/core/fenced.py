"""Deletes DynamoDB items in fenced transactions whose size adapts, and waits where DynamoDB asks for patience.

A transaction is refused whole if it is too large, if one of its items is in another transaction or if its partition
lacks capacity. None of these is a lost fence: the batch halves, down to one, and grows back. As long as the invocation
has time, a busy table costs only that time.

The transactions of a request come one after the other. They all write the request's item, which holds the fence, and
two at once would refuse each other (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/
transaction-apis.html#transaction-conflict-handling); a condition check instead of the write conflicts just as well.
Nothing is lost by it: a partition takes about 1,000 write units a second, and one transaction of 99 deletes uses 198
or more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from handlers.core.checkpoint import Checkpoint
from handlers.core.errors import StoreRefused, Throttled
from handlers.core.patience import OutOfTime, pause
from handlers.core.request_table import ItemsChanged, TransactionRefused

MAX_DELETES = 99
"""100 actions a transaction, less the progress update (https://docs.aws.amazon.com/amazondynamodb/latest/
developerguide/Constraints.html)."""
STEADY = 8
"""Transactions of a size that went through before a larger one is tried, after one that was too large: items of one
user are often of one size."""
_INVALID = frozenset({"ValidationError", "ValidationException"})


@dataclass(slots=True)
class FencedDeletes:
    """Deletes of one store; it remembers which size went through."""

    checkpoint: Checkpoint
    store: str
    """Under which name the deletes count."""
    size: int = MAX_DELETES
    _refusals: int = 0
    """Busy answers since a transaction went through."""
    _steady: int = 0
    """Transactions until a larger one is tried."""

    def delete(self, deletes: Sequence[Mapping[str, Any]]) -> None:
        """Delete them all; one whose condition fails is left out, and does not count.

        Args:
            deletes: Delete actions, any number.

        Raises:
            OutOfTime: before all were deleted.
            Superseded, OwnershipLost: the fence is lost.
            StoreRefused: a single delete is invalid.
        """
        waiting = list(deletes)
        while waiting:
            if not self.checkpoint.has_time():
                raise OutOfTime
            batch = waiting[: self.size]
            try:
                self.checkpoint.delete_items(self.store, batch)
            except ItemsChanged as changed:
                waiting[: len(batch)] = [one for place, one in enumerate(batch) if place not in changed.places]
            except (TransactionRefused, Throttled) as refused:
                self._shrink(refused, len(batch))
            else:
                del waiting[: len(batch)]
                self._grow()

    def _shrink(self, refused: TransactionRefused | Throttled, tried: int) -> None:
        self.size = max(1, tried // 2)
        if refused.code not in _INVALID:
            self._refusals += 1
            pause(self._refusals)
        elif tried == 1:
            raise StoreRefused(refused.operation, refused.code) from None
        else:
            self._steady = STEADY

    def _grow(self) -> None:
        self._refusals = 0
        if self._steady:
            self._steady -= 1
        else:
            self.size = min(MAX_DELETES, self.size * 2)
