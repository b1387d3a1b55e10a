"""Thin Celery entry points of the engine: they carry an id, look at the row, and end.

Payloads of older or newer versions are answered with a line in the log (rolling upgrade): the
row itself says what is to be done.
"""

from typing import Any

import structlog
from celery import shared_task

from common.tasks import CommittedTask
from runtime import bus, engine, reconcilers

log = structlog.get_logger(__name__)


def wake(kind: str, pk: int) -> None:
    """Send a wake-up now; never raises. On one machine straight to the worker's ear."""
    if bus.send([bus.ENGINE_TOPIC], {"kind": kind, "pk": pk}):
        return
    reconcile_one.delay(kind, pk)


@shared_task(base=CommittedTask, name="runtime.reconcile_one")
def reconcile_one(*args: Any, **kwargs: Any) -> None:
    """Look at one row. Accepts anything: what is not understood is left to the sweep."""
    kind = kwargs.get("kind", args[0] if args else None)
    pk = kwargs.get("pk", args[1] if len(args) > 1 else None)
    if not isinstance(kind, str) or not isinstance(pk, int) or kind not in _kinds():
        log.warning("task.payload_ignored", task="runtime.reconcile_one", kind=str(kind)[:40])
        return
    engine.reconcile_one(kind, pk)


def _kinds() -> set[str]:
    return set(reconcilers.registered())


@shared_task(base=CommittedTask, name="runtime.due_scheduler")
def sweep(*_args: Any, **_kwargs: Any) -> None:
    """One pass over due rows; the worker's own loop does this without any message."""
    from runtime.due_scheduler import sweep_once

    sweep_once()


@shared_task(base=CommittedTask, name="runtime.collect_orphans")
def collect_orphans(*_args: Any, **_kwargs: Any) -> None:
    from runtime.orphans import collect_orphans as collect

    collect()
