"""How a kind of row joins the engine: one reconciler per kind, listeners for transitions.

A reconciler's ``step`` runs with no open transaction and may call drivers. What it returns is
applied by the engine in one guarded UPDATE (``runtime.engine``); transition listeners run in
that same transaction, so timelines, usage intervals and quota releases are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from django.db import models

from runtime.models import Reconcilable
from runtime.protocol import Observation, Phase


@dataclass(frozen=True)
class Outcome:
    """What a step found. ``requeue_s`` None: stable, come back only when something changes.

    ``updates`` are further columns of the row (status columns of its own only, never intent).
    ``gone`` True: everything outside is removed; the engine sets ``deleted_at``. ``beside`` writes
    rows of the kind's own, in the same transaction, once the token has held.
    """

    phase: Phase
    reason: str = ""
    message: str = ""
    external_ref: Mapping[str, Any] | None = None
    requeue_s: float | None = None
    updates: Mapping[str, Any] = field(default_factory=dict)
    gone: bool = False
    timeline: tuple[tuple[str, str], ...] = ()  # (step word, message) noted by this pass
    beside: Callable[[], None] | None = None


class Reconciler(Protocol):
    """One kind of row. ``kind`` is the model's KIND."""

    kind: str
    model: type[Reconcilable]

    def step(self, row: Any, observation: Observation | None) -> Outcome:
        """Compare intent with what was observed and act once. Idempotent, short (< 45 s)."""


@dataclass(frozen=True)
class Transition:
    """A status change that was applied: ``row`` carries the new values (intent may be newer)."""

    row: Any
    before: Phase
    after: Phase
    reason_before: str
    outcome: Outcome
    gone: bool
    seen: Any = None  # the row as the step knew it: the launch and size this is about


Listener = Callable[[Transition], None]

_reconcilers: dict[str, Reconciler] = {}
_listeners: list[Listener] = []


def register(reconciler: Reconciler) -> None:
    """Called in ``apps.ready()`` of the app that owns the kind."""
    _reconcilers[reconciler.kind] = reconciler


def unregister(kind: str) -> None:
    """Forget a kind; for tests that have one of their own."""
    del _reconcilers[kind]


def reconciler_for(kind: str) -> Reconciler:
    return _reconcilers[kind]


def registered() -> Mapping[str, Reconciler]:
    return dict(_reconcilers)


def table_of(model: type[Reconcilable]) -> type[Reconcilable]:
    """Return the model whose table holds intent and status of ``model``'s rows.

    Kinds that share a table are children of one model, and ``kind`` is a column of that.
    """
    shared = (m for m in model._meta.get_parent_list() if issubclass(m, Reconcilable))  # noqa: SLF001
    return next(shared, model)


def rows_of(kind: str) -> models.QuerySet[Any]:
    """Return the rows of ``kind`` as the engine writes them: intent and status, one table."""
    model = _reconcilers[kind].model
    rows: models.QuerySet[Any] = table_of(model)._default_manager.all()  # noqa: SLF001
    return rows if table_of(model) is model else rows.filter(kind=kind)


def tables() -> list[tuple[models.QuerySet[Any], str]]:
    """Return the rows of each table and their kind; "" where each row says its own."""
    kinds: dict[type[Reconcilable], list[str]] = {}
    for kind, reconciler in _reconcilers.items():
        kinds.setdefault(table_of(reconciler.model), []).append(kind)
    found: list[tuple[models.QuerySet[Any], str]] = []
    for model, own in kinds.items():
        rows: models.QuerySet[Any] = model._default_manager.all()  # noqa: SLF001
        shared = _reconcilers[own[0]].model is not model
        found.append((rows.filter(kind__in=own), "") if shared else (rows, own[0]))
    return found


def on_transition(listener: Listener) -> None:
    """Listener runs inside the apply transaction, after every applied pass that changed
    phase or reason, removed the row or noted something on the timeline. It must be quick and
    touch the database only.
    """
    if listener not in _listeners:
        _listeners.append(listener)


def listeners() -> tuple[Listener, ...]:
    return tuple(_listeners)


def topics_of(reconciler: Reconciler, row: Any) -> list[str]:
    """Who hears of changes of ``row``; a reconciler may add topics by ``topics(row)``."""
    own = [f"{row.KIND}:{row.uid}"]
    more = getattr(reconciler, "topics", None)
    return own + list(more(row)) if more else own
