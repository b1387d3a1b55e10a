"""Short looks into the database from asyncio; nothing is held while a stream runs.

Whoever asks for something waits for looks only. What is merely noted (``later``) waits by itself:
on one machine there is one writer at a time, and the disk may be busy with what people upload.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import structlog
from django.db import close_old_connections, connections
from django.utils import translation

T = TypeVar("T")
THREADS = 8
_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="gate-db")
_notes = ThreadPoolExecutor(1, thread_name_prefix="gate-notes")
_due: set[str] = set()
_lock = threading.Lock()
log = structlog.get_logger(__name__)


async def look(question: Callable[[], T]) -> T:
    """Run ``question`` in a thread, in our language, and give its connection back at once."""
    language = translation.get_language()
    return await asyncio.get_running_loop().run_in_executor(_pool, closing, question, language)


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


def later(key: str, note: Callable[[], object]) -> None:
    """Write ``note`` soon, without being waited for; what is waiting under ``key`` is enough."""
    with _lock:
        if key in _due:
            return
        _due.add(key)
    _notes.submit(_note, key, note)


def _note(key: str, note: Callable[[], object]) -> None:
    try:
        closing(note, None)
    except Exception as error:  # noqa: BLE001 - the next use notes it again
        log.warning("gate.not_noted", key=key, error=repr(error))
    finally:
        with _lock:
            _due.discard(key)
