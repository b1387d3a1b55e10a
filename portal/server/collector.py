"""Keeps what lasts out of the collector's way, in a process that knows a whole cluster.

What the watch knows of 2,000 pods is looked through by each full collection, which holds up all
threads: 0.1 to 0.3 s were measured, every ten seconds of a storm. So what has outlived one full
collection is not looked at again, until all of it is, a few times a day: among it is what became
garbage since, and refers to itself.
"""

from __future__ import annotations

import gc
from typing import Any

THAW_S = 6 * 3600.0
_OLDEST = 2


def set_apart() -> None:
    """Begin: everything that was loaded so far, and whatever outlives a full collection."""
    if _after not in gc.callbacks:
        gc.callbacks.append(_after)
    gc.collect()


def thaw() -> None:
    """Look through everything once, what was loaded too."""
    gc.unfreeze()
    gc.collect()


def _after(phase: str, info: dict[str, Any]) -> None:
    if phase == "stop" and info["generation"] == _OLDEST:
        gc.freeze()
