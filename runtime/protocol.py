"""The verbs of a driver and what it answers. Knows no ORM, no HTTP and no tenant model.

What it is asked to run is in ``runtime.spec``.

Contracts (every driver passes ``tests/contract/test_driver_contract.py``):

* every verb is idempotent and keyed by the workload's ``uid``;
* "already exists" and "already gone" are success;
* no verb waits for readiness: progress is seen by ``observe`` and ``watch``;
* a missing thing is an observation, not an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from runtime.spec import WorkloadSpec


class Desired(StrEnum):
    """What the user wants of a workload."""

    RUNNING = "running"
    STOPPED = "stopped"
    ABSENT = "absent"


class Phase(StrEnum):
    """What a workload is, derived from intent and observation only."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    DELETING = "deleting"
    DELETED = "deleted"
    UNKNOWN = "unknown"


class Seen(StrEnum):
    """The state of the outside thing as a driver sees it."""

    MISSING = "missing"  # nothing there
    CREATED = "created"  # accepted, no process yet
    STARTING = "starting"  # process or pod exists, does not answer yet
    READY = "ready"  # answers its readiness probe
    STOPPING = "stopping"  # asked to end, not gone yet
    EXITED = "exited"  # ended; exit_code tells how


@dataclass(frozen=True)
class ReplicaSeen:
    """One replica of several; its fields mean what they mean in ``Observation``.

    Of what serves, the number only tells one from another now: they come and go.
    """

    index: int
    role: str = "main"
    seen: Seen = Seen.MISSING
    exit_code: int | None = None
    reason: str = ""
    node: str = ""
    pod: str = ""  # on a cluster: what its streams are asked of
    started_at: float | None = None
    ended_at: float | None = None
    restarts: int = 0  # how often it began anew in this launch, whatever ended it
    address: str = ""  # host:port of one that serves, while it answers its probe


def replicas_told(replicas: Iterable[ReplicaSeen]) -> list[dict[str, object]]:
    """Return them as JSON, for a table or a wire."""
    return [{**vars(one), "seen": str(one.seen)} for one in replicas]


def replicas_read(rows: Iterable[Mapping[str, Any]]) -> tuple[ReplicaSeen, ...]:
    """Return what ``replicas_told`` made, of this release or another."""
    known = ReplicaSeen.__dataclass_fields__
    return tuple(
        ReplicaSeen(**{**{k: v for k, v in row.items() if k in known}, "seen": Seen(row["seen"])})
        for row in rows
    )


# Each replica's own story is told, and what follows for the whole stands in the other fields.
NOT_IN_GIST = frozenset(("version", "detail", "installation", "replicas"))


@dataclass(frozen=True)
class Observation:
    """What a driver saw of one uid.

    ``version`` grows with each change of this uid on its cluster (fencing: a lower one never
    overwrites a higher).  What serves is READY as soon as one replica is, and also where none is
    wanted: then it has no address.  ``address`` is ``host:port`` once the thing listens *and* the
    listener was checked to be the workload's own.
    """

    uid: str
    seen: Seen
    launch: int = 0
    version: int = 0
    kind: str = ""
    address: str = ""
    exit_code: int | None = None
    reason: str = ""  # machine word: oom, exit, killed, start-failed …
    message: str = ""
    started_at: float | None = None  # Unix seconds
    ready_at: float | None = None
    ended_at: float | None = None
    detail: Mapping[str, object] = field(default_factory=dict)  # pid, gpus, usage …
    installation: str = ""  # whose it is; "" where it was made before there were marks
    # Of a group, by number, and of what serves; a lone one has none.
    replicas: tuple[ReplicaSeen, ...] = ()

    @property
    def gist(self) -> tuple[object, ...]:
        """Return what a row's phase and reason follow from, and where requests may be sent."""
        own = (value for name, value in vars(self).items() if name not in NOT_IN_GIST)
        return (*own, *(one.address for one in self.replicas))


def observation_read(item: Mapping[str, Any]) -> Observation:
    """Return what a table or a wire tells of one, of this release or another."""
    known = {name: item[name] for name in Observation.__dataclass_fields__ if name in item}
    replicas = replicas_read(item.get("replicas", ()))
    return Observation(**{**known, "seen": Seen(item["seen"]), "replicas": replicas})


@dataclass(frozen=True)
class Device:
    """One GPU as the machine reports it. Memory in MiB, utilisation 0-100, None = unknown."""

    uuid: str
    index: int
    name: str
    memory_mib: int
    memory_used_mib: int | None = None
    utilisation: int | None = None
    healthy: bool = True
    simulated: bool = False  # a test or a demonstration says that it is there


# What a driver says whether it enforces it (``Health.isolation``).
ISOLATION = (
    "users",
    "proc",
    "tmp",
    "shm",  # shared memory of a workload's own, bounded, gone when it ended
    "memory",
    "cpu",
    "pids",
    "gpu",
    "read_only_volumes",  # a volume that is mounted to be read can't be written
    "memory_secrets",  # secret files never lie on a disk
)


@dataclass(frozen=True)
class Health:
    """Answer of ``probe``: reachable, what it can hold, what it can enforce."""

    reachable: bool
    version: str = ""
    cpu_milli: int = 0
    memory_mib: int = 0
    devices: tuple[Device, ...] = ()
    isolation: Mapping[str, bool] = field(default_factory=dict)  # every word of ISOLATION
    message: str = ""
    # Of training, that are there (``runtime.training.OPERATORS``); None: it did not say.
    operators: tuple[str, ...] | None = ()


class DriverError(Exception):
    """Base; ``reason`` is a ``runtime.reasons.Reason`` value, the text is for people."""

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.put_back: tuple[str, ...] = ()  # of several things those that were before it


class InvalidSpec(DriverError):  # noqa: N818 - named as the answer it is
    """The user must change the spec; never retried."""


class Denied(DriverError):  # noqa: N818 - named as the answer it is
    """Quota or admission of the cluster refused; shown as it is."""


class NoCapacity(DriverError):  # noqa: N818 - named as the answer it is
    """Nothing is free now; wait."""


class Unreachable(DriverError):  # noqa: N818 - named as the answer it is
    """The cluster does not answer: back off, do not change the phase."""


class NotYet(DriverError):  # noqa: N818 - named as the answer it is
    """Under way; call again after ``retry_in`` seconds."""

    def __init__(self, message: str = "", *, retry_in: float = 1.0) -> None:
        super().__init__(message)
        self.retry_in = retry_in


class Driver(Protocol):
    """The verbs every driver has."""

    def ensure(self, spec: WorkloadSpec) -> Mapping[str, object]:
        """Make it exist; return ``external_ref`` (JSON) to find it again. Returns soon."""

    def observe(self, uids: Iterable[str]) -> Mapping[str, Observation]:
        """Look at many; every uid asked for is in the answer. No side effects."""

    def stop(self, uid: str, *, grace_s: float) -> None:
        """Ask it to end; keeps what must survive (environment, home). NotYet while ending."""

    def remove(self, uid: str) -> None:
        """Remove all traces but volumes. NotYet while ending."""

    def list_owned(self) -> Iterable[Observation]:
        """Everything under our name, for orphan collection; ``installation`` says whose it is."""

    def probe(self) -> Health:
        """Cheap: reachable, capacity, what isolation can be enforced."""
