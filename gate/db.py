"""What is merely noted in the database waits by itself; whoever asks for something does not.

On one machine there is one writer at a time, and the disk may be busy with what people upload.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import structlog

from common.streams import closing

_notes = ThreadPoolExecutor(1, thread_name_prefix="gate-notes")
_due: set[str] = set()
_lock = threading.Lock()
log = structlog.get_logger(__name__)


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
