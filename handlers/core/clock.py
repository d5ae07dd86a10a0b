"""The wall clock. It decides only when somebody looks; fences decide who may act."""

import time


def now() -> int:
    """Epoch seconds."""
    return int(time.time())
