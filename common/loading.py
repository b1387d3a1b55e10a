"""Loading a program with Python's collector waiting.

While a process imports Django and all of Berth, the collector walks again and again through what
stays for ever: a fifth of what its start computes, and a worker that follows one that was killed is
waited for. What was loaded is not looked at later either.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        if collects:
            gc.enable()
