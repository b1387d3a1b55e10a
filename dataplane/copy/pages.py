"""The listing of a store, page by page in its order; where it can be told, pages ahead of it.

Pages come one after the other: each names the token of the next. What an earlier run copied
tells where pages are likely to end, so some are asked for before the one before them came, by
the key it should end with. Such a page is taken only when it begins with the very key that the
page before it ended with, and both are sorted: then nothing lies between them, whatever else
the store makes of the question. Else it is dropped, and the token is what counts.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from itertools import islice
from operator import lt

from dataplane.copy.engine import Engine
from dataplane.copy.http1 import now
from dataplane.copy.journal import Journal
from dataplane.copy.problems import Code, Final, Stop, Trouble
from dataplane.copy.stores.base import NoStore, Page

OBJECTS_MOST = 50_000_000
EMPTY_PAGES_MOST = 1000
AHEAD = 3  # pages that are on their way at once
LOST_MOST = 2 * AHEAD  # questions in vain, and one more for each eight that were not
_PAGE = 1000  # what stores give, until one shows how much it gives

# The last two of so many keys that come after a key, as an earlier run saw them; None where it
# did not see more than these.
Guess = Callable[[str, int], tuple[str, str] | None]


def no_guess(_key: str, _count: int) -> None:
    return None


def guess_of(journal: Journal, base: str) -> Guess:
    """Guess by what was copied; ``base``: what keys have before the path."""

    def guess(key: str, count: int) -> tuple[str, str] | None:
        return journal.ends(key.removeprefix(base), count)

    return guess


def no_listing(trouble: Trouble) -> Stop:
    """Return what it means that a store could not be listed: nothing can be copied."""
    if trouble.code is Code.DENIED:
        return Stop(Final.DENIED, "The credential may not list this bucket.")
    if trouble.code is Code.GONE:
        return Stop(Final.NO_BUCKET, "There is no such bucket, or no store at the endpoint.")
    if isinstance(trouble, NoStore):
        return Stop(Final.UNREACHABLE, trouble.message)
    return Stop(Final.UNREACHABLE, f"The bucket can't be listed: {trouble.message}")


class Bounds:
    """Ends a listing that never would: a server may lie about where it goes on."""

    def __init__(self) -> None:
        self._tokens: set[int] = set()
        self._firsts: set[int] = set()
        self._empty = 0
        self._objects = 0

    def check(self, page: Page) -> None:
        self._objects += len(page.items) + len(page.bad) + page.folders
        self._empty = 0 if page.items or page.bad or page.folders else self._empty + 1
        token = hash(page.token)
        first = hash(page.items[0].key) if page.items else None
        again = (page.token and token in self._tokens) or first in self._firsts
        if again or self._empty > EMPTY_PAGES_MOST:
            text = "The store's listing never ends: it comes again to what it has listed."
            raise Stop(Final.ENDLESS_LISTING, text)
        if self._objects > OBJECTS_MOST:
            text = "The store lists more objects than one load may have: load its folders."
            raise Stop(Final.ENDLESS_LISTING, text)
        self._tokens.add(token)
        if first is not None:
            self._firsts.add(first)


@dataclass
class _Asked:
    """A page on its way. ``ends``: the last two keys that it should have."""

    coming: asyncio.Task[Page | None]
    token: str
    ends: tuple[str, str] | None
    begins: str = ""  # a page asked for ahead: the key that it must begin with


class Pages:
    """Lists one prefix, once."""

    def __init__(self, engine: Engine, prefix: str, guess: Guess = no_guess) -> None:
        self._engine = engine
        self._prefix = prefix
        self._guess = guess if engine.calls.store.tells_later else no_guess
        self._bounds = Bounds()
        self._asked: deque[_Asked] = deque()
        self._most = min(AHEAD, engine.plan.concurrency or AHEAD)
        self._size = _PAGE
        self._last = ""  # of the page before; "" where it proves nothing
        self._kept = self._lost = 0

    async def all(self) -> AsyncIterator[Page]:
        """Yield the pages; while one is looked at, others are on their way."""
        self._ask("", self._guess("", self._size))
        token = ""
        try:
            while self._asked:
                asked = self._asked.popleft()
                page = self._fitting(asked, await asked.coming)
                if page is None:
                    self._lost += 1
                    self._drop()
                    self._ask(token, self._after_last())
                    continue
                self._bounds.check(page)
                token = page.token
                await self._go_on(asked, page)
                yield page
        finally:
            await asyncio.gather(*self._drop(), return_exceptions=True)

    # --- asking -----------------------------------------------------------------------------

    def _ask(self, token: str, ends: tuple[str, str] | None) -> None:
        self._asked.append(_Asked(asyncio.create_task(self._answer(token)), token, ends))

    async def _answer(self, token: str) -> Page:
        engine = self._engine
        calls, store = engine.calls, engine.calls.store
        try:
            return await calls.tried(lambda: store.listed(calls, self._prefix, token))
        except Trouble as trouble:
            missed = store.missed(self._prefix, token, trouble)
            if missed is None:
                raise calls.client.stop(no_listing(trouble)) from None
            engine.gaps = True
            return missed

    async def _ahead(self, before: str, last: str) -> Page | None:
        """Ask for what comes after a key; None where the store does not understand that."""
        calls = self._engine.calls
        try:
            return await calls.tried(lambda: calls.store.later(calls, self._prefix, before, last))
        except Trouble:
            return None

    def _ask_ahead(self) -> None:
        """Ask for as many pages as may be on their way, while their ends can be told."""
        hopeless = self._lost > LOST_MOST + self._kept // 8
        if hopeless or self._engine.calls.client.not_before > now():
            return
        while self._asked and len(self._asked) < self._most:
            ends = self._asked[-1].ends
            if ends is None:
                return
            coming = asyncio.create_task(self._ahead(*ends))
            self._asked.append(_Asked(coming, "", self._guess(ends[1], self._size - 1), ends[1]))

    def _after_last(self) -> tuple[str, str] | None:
        return self._guess(self._last, self._size) if self._last else None

    def _drop(self) -> list[asyncio.Task[Page | None]]:
        """Drop what was asked for."""
        dropped = []
        while self._asked:
            task = self._asked.pop().coming
            task.add_done_callback(lambda task: task.cancelled() or task.exception())
            task.cancel()
            dropped.append(task)
        self._lost += len(dropped)
        return dropped

    # --- reading ----------------------------------------------------------------------------

    def _fitting(self, asked: _Asked, page: Page | None) -> Page | None:
        """Return the page; None where it was asked for ahead and does not fit."""
        if page is None or not asked.begins:
            return page
        first = page.items[0].key if page.items else ""
        if not first == asked.begins == self._last or not _sorted(page):
            return None
        self._kept += 1
        return page._replace(items=page.items[1:])

    async def _go_on(self, asked: _Asked, page: Page) -> None:
        """See to it that the page after this one is asked for, and nothing in vain."""
        last = page.items[-1].key if page.items else self._last
        self._last = last if _sorted(page) else ""
        if not page.token:
            self._drop()
            return
        if not asked.begins:
            self._size = len(page.items) + len(page.bad)
        if asked.ends is None or asked.ends[1] != self._last:
            self._drop()
        if not self._asked:
            self._ask(page.token, self._after_last())
        self._ask_ahead()
        await asyncio.sleep(0)


def _sorted(page: Page) -> bool:
    """Whether all of it could be read and stands in the order of UTF-8."""
    keys = [item.key for item in page.items]
    return not page.bad and all(map(lt, keys, islice(keys, 1, None)))
