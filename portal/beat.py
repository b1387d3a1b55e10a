"""Celery's clock, inside the worker: memory only, and one for all workers by Lease."""

import threading
from typing import Any

from celery.beat import Scheduler, Service
from django.db import DatabaseError, close_old_connections

from portal.celery import app
from runtime import leases

LEASE_S = 90.0
LONGEST_S = 30.0


class LeasedScheduler(Scheduler):
    """Sends what is due only while this process holds the lease ``beat``."""

    _held: leases.Held | None = None

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        if self._lead():
            super().apply_entry(entry, producer)

    def _lead(self) -> bool:
        try:
            close_old_connections()
            if self._held is not None and self._held.renew():
                return True
            self._held = leases.acquire("beat", ttl_s=LEASE_S)
        except DatabaseError:
            self._held = None
        finally:
            close_old_connections()
        return self._held is not None

    def close(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.release()
        super().close()


def start() -> threading.Thread:
    """Run the clock in a thread of this process; it ends with the process."""
    service = Service(app, max_interval=LONGEST_S, scheduler_cls=LeasedScheduler)
    thread = threading.Thread(target=service.start, name="beat", daemon=True)
    thread.start()
    return thread
