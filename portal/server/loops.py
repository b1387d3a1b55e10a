"""A thread of the worker that does the same every so often, in one process only where it must."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import structlog
from django.db import DatabaseError, close_old_connections, connection

from runtime import leases

if TYPE_CHECKING:
    from collections.abc import Callable

log = structlog.get_logger(__name__)

CHECK_S = 5.0
DUTY_LEASE_S = 15.0
TOLD_EVERY_S = 20.0  # a write for each turn of each duty would be most of what the worker writes
SILENT_S = 600.0


class Loop:
    """Calls ``act`` every ``every_s`` in a thread, in one process only when ``lease`` is set.

    ``first_s``: how long after its start for the first time.
    """

    def __init__(
        self,
        name: str,
        act: Callable[[], object],
        every_s: float,
        *,
        leased: bool = False,
        first_s: float = 0.0,
    ) -> None:
        self.name = name
        self._act = act
        self._every_s = every_s
        self._leased = leased
        self._first_s = first_s
        self._held: leases.Held | None = None
        self._renewed = 0.0
        self._told = float("-inf")
        self._turned = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_silent(self) -> bool:
        """Its thread is gone, or has been in one turn for longer than any turn takes."""
        # it sleeps between two turns, and before the first
        longest = SILENT_S + max(self._every_s, self._first_s)
        return not self._thread.is_alive() or time.monotonic() - self._turned > longest

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def _run(self) -> None:
        self._stop.wait(self._first_s)
        while not self._stop.is_set():
            pause = self._every_s
            self._turned = time.monotonic()
            try:
                close_old_connections()
                if self._lead():
                    self._tell()
                    self._act()
                else:
                    pause = CHECK_S
            except DatabaseError as error:
                log.warning("worker.database", duty=self.name, error=repr(error))
                pause = max(pause, 2.0)
            except Exception:
                log.exception("worker.duty_failed", duty=self.name)
                pause = max(pause, 2.0)
            finally:
                close_old_connections()  # a duty that sleeps keeps none from those that work
            self._stop.wait(pause)
        self._leave()

    def _lead(self) -> bool:
        if not self._leased:
            return True
        at = time.monotonic()
        if self._held is not None and at - self._renewed < DUTY_LEASE_S / 3:
            return True
        self._renewed = at
        if self._held is not None and self._held.renew():
            return True
        self._held = leases.acquire(f"duty:{self.name}", ttl_s=DUTY_LEASE_S)
        return self._held is not None

    def _tell(self) -> None:
        """Say that a turn begins, for readiness and the system page."""
        at = time.monotonic()
        if self._held is not None and at - self._told > TOLD_EVERY_S:
            self._told = at
            self._held.turned(self._every_s)

    def _leave(self) -> None:
        try:
            if self._held is not None:
                self._held.release()
        except DatabaseError as error:
            log.warning("worker.leave_failed", duty=self.name, error=repr(error))
        finally:
            connection.close()
