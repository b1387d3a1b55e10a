"""Who waits for loads. Apps above register; they are called when a load ended, began or went.

Called inside the transaction of the change: a callback marks rows due and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from uuid import UUID

Callback = Callable[[Collection[UUID]], None]  # uids of loads

_callbacks: list[Callback] = []


def register(callback: Callback) -> None:
    if callback not in _callbacks:
        _callbacks.append(callback)


def tell(uids: Collection[UUID]) -> None:
    for callback in _callbacks:
        callback(uids)
