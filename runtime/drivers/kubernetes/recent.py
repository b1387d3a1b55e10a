"""The newest events about some objects, within bounds of memory and time.

An API server lists by name and knows no order by time: who wants the newest has to read them all.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable
from dataclasses import dataclass

from runtime.drivers.kubernetes.client import KubeClient, Object
from runtime.drivers.kubernetes.waiting import event_time


@dataclass(frozen=True)
class Recent:
    """The newest of what was read, newest first."""

    rows: tuple[Object, ...]
    more: bool = False  # there are others besides these
    unread: bool = False  # not all could be read in time: newer ones may be among the rest


def recent_events(
    client: KubeClient, namespace: str, names: Iterable[str], *, most: int, seconds: float
) -> Recent:
    """Read the events of objects so called, each for its share of the time and one page at least.

    Of what is read no more is held than a page and the newest so far.
    """
    kept: list[Object] = []
    read, unread = 0, False
    left, end = list(names), time.monotonic() + seconds
    while left:
        begun = time.monotonic()
        until = begun + (end - begun) / len(left)
        about = f"involvedObject.name={left.pop(0)}"
        for rows, said in client.pages("v1", "events", namespace, fields=about):
            read += len(rows)
            kept = heapq.nlargest(most, [*kept, *rows], key=event_time)
            if said.get("continue") and time.monotonic() >= until:
                unread = True
                break
    return Recent(tuple(kept), more=unread or read > len(kept), unread=unread)
