"""What the engine needs from the layers above it, handed in by their apps at start-up.

``runtime`` knows no cluster table and no queue; it asks ``cluster_provider()`` and ``admission()``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from runtime.capabilities.clusters import NodeChanges
from runtime.protocol import Driver
from runtime.routers.base import Router
from runtime.spec import Resources

WAITS = "waits"  # what is beyond a budget is not let in until there is room


@dataclass(frozen=True)
class AdmissionRequest:
    """One workload that asks for a place. Asking again with the same ``uid`` keeps the place."""

    cluster_key: str
    uid: str
    kind: str
    project_uid: str
    owner_uid: str
    resources: Resources  # of one replica
    replicas: int = 1
    more: Resources | None = None  # what others of it take beside these
    launch: int = 0
    queue: str = ""  # "": the project's own
    priority: str = ""  # "": that of its purpose
    purpose: str = ""  # build, train, inference; "": nothing that has rules of its own
    time_limit_minutes: int | None = None
    since: datetime | None = None  # within a guarantee it stands in line as of then (a ticket)
    over_budget: str = ""  # its GPU-hours are spent: "borrows" only, or WAITS

    @property
    def total(self) -> Resources:
        """What all replicas take together; none of them starts without the others."""
        alike = self.resources.times(self.replicas)
        return alike.plus(self.more) if self.more else alike


@dataclass(frozen=True)
class Granted:
    """It may start; ``devices`` are the UUIDs of the GPUs that are its own until released."""

    devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Waiting:
    """It must wait; ``position`` 1 is the next one for what it lacks."""

    position: int
    ahead: int
    reason: str  # a runtime.reasons.Reason value
    message: str
    lacking: tuple[str, ...] = ()  # cpu, memory, gpu, gpu:<flavor>
    turn: tuple[datetime, datetime] | None = None  # between which times it is expected


@dataclass(frozen=True)
class Reclaim:
    """Its devices are owed to another: it has until then to end, and waits in line again."""

    at: datetime
    until: datetime
    beneficiary: str  # the uid of the work that gets them


class ClusterProvider(Protocol):
    """Where work can run."""

    def keys(self) -> Sequence[str]:
        """Return the keys of all clusters."""

    def driver_for(self, cluster_key: str) -> Driver: ...

    def was_old(self, cluster_key: str, since: float) -> bool:
        """Whether what its driver said since then (monotonic) may rest on an older row."""

    def router(self) -> Router: ...

    def nodes_store(self, cluster_key: str, changes: NodeChanges) -> None:
        """Keep what a watch saw of a cluster's nodes."""


_provided: list[ClusterProvider] = []


def provide(places_: ClusterProvider) -> None:
    """Called once by the app that owns clusters."""
    _provided[:] = [places_]


def cluster_provider() -> ClusterProvider:
    if not _provided:
        message = "No app has provided clusters (clusters.apps.ready)."
        raise RuntimeError(message)
    return _provided[0]


class Admission(Protocol):
    """Who lets work in."""

    def admit(self, request: AdmissionRequest) -> Granted | Waiting: ...

    def reclaim_of(self, uid: str) -> Reclaim | None:
        """Return what is asked back of a workload. It is, until a newer launch of it asks."""

    def release(self, uid: str) -> None:
        """Give back the place of a workload that is gone. Missing is success."""


_admission: list[Admission] = []


def provide_admission(admission_: Admission) -> None:
    """Called once by the app that owns queues."""
    _admission[:] = [admission_]


def admission() -> Admission:
    if not _admission:
        message = "No app has provided queues (queues.apps.ready)."
        raise RuntimeError(message)
    return _admission[0]


# On a cluster each project has a place (a namespace) of its own; the app that owns projects
# answers whether it is made.
TenantReady = Callable[[str, str], str | None]
_tenants: list[TenantReady] = []


def provide_tenants(check: TenantReady) -> None:
    """Called once by the app that owns projects."""
    _tenants[:] = [check]


def tenant_ready(cluster_key: str, project_uid: str) -> str | None:
    """Return None when work of the project may be made there, else why it must wait.

    Only asked for clusters whose driver ``SupportsTenants``. Asking wants the place to be made.
    """
    return _tenants[0](cluster_key, project_uid) if _tenants else None
