"""Short looks into the database from asyncio; nothing is held while a stream runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import close_old_connections, connections
from django.utils import translation

T = TypeVar("T")
THREADS = 8
_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="look")


async def look(question: Callable[[], T], pool: ThreadPoolExecutor = _pool) -> T:
    """Run ``question`` in a thread, in our language, and give its connection back at once."""
    language = translation.get_language()
    return await asyncio.get_running_loop().run_in_executor(pool, closing, question, language)


def closing(question: Callable[[], T], language: str | None) -> T:
    """Run it in this thread, in this language, and keep no connection."""
    close_old_connections()
    try:
        with translation.override(language):
            return question()
    finally:
        for connection in connections.all(initialized_only=True):
            if not connection.in_atomic_block:
                connection.close()
