"""How a kind of row joins the engine: one reconciler per kind, listeners for transitions.

A reconciler's ``step`` runs with no open transaction and may call drivers. What it returns is
applied by the engine in one guarded UPDATE (``runtime.engine``); transition listeners run in
that same transaction, so timelines, usage intervals and quota releases are exact.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Protocol

from django.db import models

from runtime.models import Reconcilable
from runtime.protocol import Observation, Phase
from runtime.routers.base import RouteEntry
from runtime.spec import Resources, WorkloadSpec


@dataclass(frozen=True)
class Outcome:
    """What a step found. ``requeue_s`` None: stable, come back only when something changes.

    ``updates`` are further columns of the row (status columns of its own only, never intent).
    ``gone`` True: everything outside is removed; the engine sets ``deleted_at``. ``beside`` writes
    rows of the kind's own, in the same transaction, once the token has held. ``held``: since when
    each replica has its place (None: the driver did not tell), where their number changed within
    the launch or is known for the first time.
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
    held: Sequence[datetime | None] = ()


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
    phase, reason or size, removed the row or noted something on the timeline. It must be quick and
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


class WorkloadKind:
    """Subclasses set ``kind`` and ``model`` and say what to run."""

    kind: str = ""
    observes: ClassVar[bool] = True
    # What is only in an observation's detail waits for the next step: pages read it themselves.
    reads_detail: ClassVar[bool] = False
    # Each replica's own news is acted on too, and looked at once more when all have ended.
    reads_replicas: ClassVar[bool] = False
    # A row whose generation is still the same is not read once more for the listeners: what
    # services change without a new generation, these need not hear of in this pass.
    keeps_what_it_read: ClassVar[bool] = False
    model: type[Reconcilable]
    related: ClassVar[tuple[str, ...]] = ("project", "owner")
    start_timeout_s: ClassVar[float] = 600.0
    stop_grace_s: ClassVar[float] = 10.0
    purpose: ClassVar[str] = "train"  # by which rules queues let it in: build, train, inference
    # How often a quiet row is looked at when nothing watches its cluster, and when one does.
    poll_s: ClassVar[float] = 30.0
    watched_poll_s: ClassVar[float] = 600.0

    def spec_of(self, row: Any) -> WorkloadSpec:
        """Return what to run. May write (mint a client): it must be the same for one launch."""
        raise NotImplementedError

    def replicas_of(self, row: Any) -> int:  # noqa: ARG002 - for the kinds that have groups
        """Return how many take its ``resources`` each; they are let in together or not at all."""
        return 1

    def more_of(self, row: Any) -> Resources | None:
        """Return what others of it take beside those, all together."""
        del row
        return None

    def waits_for(self, row: Any) -> tuple[str, str] | None:
        """Return (reason, sentence) of what must be there before it asks for a place.

        Whoever makes it be there hints the row; it is only looked at now and then otherwise.
        """
        del row
        return None

    def notice_lead_s(self, row: Any) -> float:
        """Return for how long a page of it should tell why it ends before its program is asked."""
        del row
        return 0.0

    def secrets_of(self, row: Any) -> str:
        """Return a word that changes when secrets were taken away from what runs.

        One that was only replaced does not change it: that counts from the next start.
        """
        del row
        return ""

    def image_bytes(self, row: Any) -> int | None:
        """Return what a node fetches of the row's image, None when that is not known."""
        del row
        return None

    def before_stop(self, row: Any) -> None:
        """Revoke what the workload could still use. Runs again after a crash."""

    def route_of(self, row: Any, observation: Observation) -> RouteEntry | None:
        """Return where people reach it, None when nobody does."""
        del row, observation
        return None

    def routes_of(self, row: Any, observation: Observation) -> Sequence[RouteEntry]:
        """Return every way to it, where there are several."""
        entry = self.route_of(row, observation)
        return () if entry is None else (entry,)

    def on_ready(self, row: Any, observation: Observation) -> None:
        """It runs and can be reached; runs again after a crash."""

    def after_remove(self, row: Any) -> None:
        """Everything outside is gone, the row is about to go."""

    def stop_reason(self, row: Any) -> str:
        """Return the word for why it was stopped (a Reason)."""
        del row
        return ""

    def updates(self, row: Any, observation: Observation, phase: Phase) -> Mapping[str, Any]:
        """Return status columns of the subclass's own to set with this phase."""
        del row, observation, phase
        return {}

    def beside(self, row: Any, observation: Observation) -> Callable[[], None] | None:
        """Return what writes down what was seen of this launch in rows of the kind's own.

        None: they say so already. Asked of kinds that read replicas (``Outcome.beside``).
        """
        del row, observation
        return None

    def next_due_s(self, row: Any) -> float | None:
        """Return seconds until the row must be looked at for its own reasons (time limit)."""
        del row
        return None

    def topics(self, row: Any) -> list[str]:
        return [f"project:{row.project.uid}", f"user:{row.owner.uid}"]
