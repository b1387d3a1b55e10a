"""One answer of the store, read into a file; and what must be true of such an answer."""

from __future__ import annotations

import asyncio
from typing import Any

from dataplane.copy.checksums import Update
from dataplane.copy.engine import Engine
from dataplane.copy.head import Head, number_of
from dataplane.copy.http1 import Connection
from dataplane.copy.lanes import Lane
from dataplane.copy.problems import Code, Trouble
from dataplane.copy.sinks import FileSink, Place
from dataplane.copy.stores.base import Item, Reading

_GOOD = frozenset({200, 206})


def check_head(store: Reading, item: Item, head: Head, start: int, end: int) -> None:
    """Raise unless the answer is these bytes of exactly this state of the object."""
    fields = head.fields
    state = store.state_of(head)
    if item.etag and state and state != item.etag:
        raise Trouble(Code.CHANGED, "The object changed while it was copied.")
    length = fields.get("content-length", "")
    span = fields.get("content-range", "")
    whole = start == 0 and end == item.size
    if not whole and store.names_ranges and span.partition("/")[0] != f"bytes {start}-{end - 1}":
        raise NoRanges
    if number_of(length) not in {None, end - start}:
        raise Trouble(
            Code.LENGTH, f"The store sends {length} bytes, and {end - start} were asked for."
        )


class NoRanges(Trouble):
    """The store sends whole objects only."""

    def __init__(self) -> None:
        super().__init__(Code.IO, "The store does not send parts of objects.")


class Fetch:
    """Reads bytes ``start`` to ``end`` of an object into the same place of a file."""

    def __init__(self, engine: Engine, item: Item, fd: int, start: int, end: int) -> None:
        self._engine = engine
        self._item = item
        self._fd = fd
        self._start = start
        self._end = end
        self.head: Head | None = None
        self.sink: FileSink | None = None
        self._lane: Lane | None = None

    def into(self, line: Connection, head: Head) -> tuple[dict[str, Update], dict[str, int], Any]:
        """Say what is computed on the way: functions, values so far, a hasher or None."""
        raise NotImplementedError

    async def run(self) -> None:
        calls, item = self._engine.calls, self._item
        whole = self._start == 0 and self._end == item.size
        end = None if whole else self._end
        if owed := self._engine.hands.bucket.take(0):  # by bodies too short to be held back
            await asyncio.sleep(owed)
        with self._engine.hands.lane(self._end - self._start) as self._lane:
            await calls.once(
                lambda: calls.store.get_question(item, self._start, end),
                accept=self._accept,
                lane=self._lane,
            )

    def _accept(self, line: Connection, head: Head) -> FileSink | None:
        """Run where the body is read: in the lane, if there is one."""
        if head.status not in _GOOD:
            return None
        check_head(self._engine.calls.store, self._item, head, self._start, self._end)
        self.head = head
        updates, crcs, hashing = self.into(line, head)
        hands = self._engine.hands
        scratch = hands.scratch if self._lane is None else self._lane.scratch
        self.sink = FileSink(
            hands,
            line,
            scratch,
            Place(self._fd, self._start, self._end - self._start),
            updates=updates,
            crcs=crcs,
            hashing=hashing,
        )
        return self.sink
