"""The base of every Celery task: sent after commit, bounded, and lost without harm."""

import time
from typing import Any

import structlog
from celery import Task
from django.db import connection, transaction

log = structlog.get_logger(__name__)

_REST_S = 5.0  # after the broker failed, nobody waits for it again for so long
_rest_until = 0.0


class CommittedTask(Task):
    """``delay`` sends when the transaction commits; sending from inside one is refused.

    A task tells a worker to look, it carries no truth; so a broker that is down or hangs costs
    at most two seconds once, and the sweep of the database does the rest.
    """

    abstract = True
    ignore_result = True

    def delay(self, *args: Any, **kwargs: Any) -> None:
        transaction.on_commit(lambda: self._send(args, kwargs), robust=True)

    def apply_async(self, *args: Any, **kwargs: Any) -> Any:
        if connection.in_atomic_block:
            message = f"{self.name} was to be sent before the commit; use delay()."
            raise RuntimeError(message)
        return super().apply_async(*args, **kwargs)

    def _send(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        global _rest_until  # noqa: PLW0603 - one rest per process is the point
        if time.monotonic() < _rest_until:
            return
        try:
            super().apply_async(args, kwargs, retry=False)
        except Exception as error:  # noqa: BLE001 - see the class
            _rest_until = time.monotonic() + _REST_S
            log.warning("task.not_sent", task=self.name, error=repr(error))
