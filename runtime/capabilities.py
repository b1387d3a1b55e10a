"""What a driver may be able to do besides the verbs that every driver has.

Asked by ``isinstance``, never by name. The contracts are those of ``runtime.protocol``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, runtime_checkable

from runtime.protocol import Backing, Denied, NotYet, Observation, Placement, WorkloadSpec
from runtime.use_sources import DeviceUse, Holder, UseSource


@dataclass(frozen=True)
class KubeUser:
    """What one member may do with kubectl in one project's namespace."""

    user: str  # user uid
    viewer: bool  # may look at the project's workloads
    pods: tuple[str, ...] = ()  # may exec into, read logs of and forward ports of these
    grants: tuple[str, ...] = ()  # uids of what tokens are bound to; one that is gone ends them


@dataclass(frozen=True)
class TenantSpec:
    """One project on one cluster: a namespace with everything that keeps it to itself.

    ``registries`` gives registry host → (user, password) when the driver really writes;
    ``kube_users`` are members who hold a kubeconfig, with the pods that are their own.
    """

    uid: str  # of the row that stands for it
    project: str  # project uid
    slug: str
    namespace: str
    generation: int
    registries: Callable[[], Mapping[str, tuple[str, str]]] = dict
    registries_version: str = ""  # changes whenever ``registries`` would answer otherwise
    kube_users: tuple[KubeUser, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    closed: tuple[str, ...] = ()  # ranges that are public and nobody's business: the nodes'
    # Of all that it is made from; seen again in ``detail["mark"]``. Another one there is another
    # maker's: a worker that was late, and wrote what was wanted before.
    mark: str = ""
    revoked: tuple[str, ...] = ()  # grants that the row knew and wants no more


@dataclass(frozen=True)
class KubeToken:
    """A short-lived credential for kubectl. ``expires_at`` in Unix seconds."""

    token: str
    expires_at: float


@dataclass(frozen=True)
class NodeFacts:
    """One node as the cluster reports it. Units: milli-CPU, MiB, whole devices."""

    name: str
    ready: bool
    schedulable: bool = True
    cpu_milli: int = 0
    memory_mib: int = 0
    accelerators: Mapping[str, int] = field(default_factory=dict)  # resource name → allocatable
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    version: str = ""
    message: str = ""
    since: str = ""  # when it stopped being ready, as the cluster says it
    addresses: tuple[str, ...] = ()  # where the node itself listens
    # resource name → devices that pods hold which are not this portal's; None: not known
    held: Mapping[str, int] | None = None


@dataclass(frozen=True)
class NodeChanges:
    """``full``: ``seen`` is every node there is. Otherwise only what changed, and who left."""

    seen: tuple[NodeFacts, ...] = ()
    gone: tuple[str, ...] = ()
    full: bool = False


@dataclass(frozen=True)
class Measured:
    """What a volume takes on its storage; ``whole`` False: at least so much."""

    bytes: int
    whole: bool = True
    seconds: float = 0.0  # that it took to find out


class Names(Protocol):
    """What the driver calls the things of a cluster. The same words always give the same names."""

    def namespace(self, prefix: str, slug: str, project_uid: str, /) -> str: ...

    def workload(self, name: str, uid: str, /) -> str: ...

    def pod(self, workload: str, /) -> str: ...

    def claim(self, volume_uid: str, /) -> str: ...

    def queue_object(self, prefix: str, word: str, /) -> str: ...


@dataclass(frozen=True)
class Traits:
    """What a driver's clusters are like. Asked instead of the driver's name.

    ``runs_images``: pods of images, on nodes whose queue is the cluster's own. Without it: one
    machine, which runs processes in environments and where the portal's own queue decides.
    """

    runs_images: bool = False
    has_tenants: bool = False  # each project gets a namespace of its own (``SupportsTenants``)
    names: Names | None = None  # of what ``runs_images`` makes


@runtime_checkable
class SupportsWatch(Protocol):
    def watch(self, *, stop: Callable[[], bool]) -> Iterator[list[Observation] | None]:
        """Yield a full list first, then changes; an empty list is a heartbeat (≤ 30 s).

        None before the full list: it is long, and more of it came.
        """


@runtime_checkable
class SupportsNotice(Protocol):
    def tell(self, uid: str, notice: Mapping[str, str]) -> None:
        """Write why it is about to end where its program can read it (``BERTH_NOTICE_FILE``)."""


@runtime_checkable
class SupportsNodes(Protocol):
    def node_changes(self) -> NodeChanges | None:
        """What ``watch`` saw of nodes since the last call; None: nothing. Same process only."""


@runtime_checkable
class SupportsTenants(Protocol):
    """A cluster where each project gets a place of its own before anything runs in it.

    What becomes of it is seen by ``watch`` and ``observe`` under ``TenantSpec.uid`` with kind
    ``place``: READY when it is as it should be; ``detail["drift"]`` names objects (``Kind/name``)
    that somebody changed or removed by hand since the last ``ensure_tenant``.
    """

    def ensure_tenant(self, spec: TenantSpec) -> tuple[str, ...]:
        """Make it as it should be; return what had to be written or removed (``Kind/name``).

        An error on the way says so of what was done before (``written``).
        """

    def remove_tenant(self, uid: str, namespace: str) -> None:
        """Remove it with all that is in it. NotYet while ending."""


@dataclass(frozen=True)
class QueueShare:
    """What a part of the tree has of one kind of device."""

    guaranteed: int = 0
    most: int | None = None  # guaranteed and borrowed together; None: no ceiling
    lends: int | None = None  # of what is guaranteed and not used; None: all of it


@dataclass(frozen=True)
class QueuePart:
    """An organisation, or a project: that one has a namespace."""

    key: str
    name: str
    parent: str = ""  # key; "": the root, or one that is not among the parts
    namespace: str = ""
    weight: Decimal = Decimal(1)
    shares: Mapping[str, QueueShare] = field(default_factory=dict)  # by kind of device


@dataclass(frozen=True)
class QueueKind:
    """The devices of one kind on nodes with the same labels, as far as they can be given out.

    A kind on nodes whose labels differ is several of these. ``beside``: what those nodes have
    besides, cpu (milli), memory (MiB) and the rest counted; each device brings its part of it.
    """

    name: str
    resource: str
    labels: Mapping[str, str]
    devices: int
    variant: str = ""  # tells those of one kind apart
    levels: tuple[str, ...] = ()  # labels that say what stands together, the widest first
    open: bool = True  # work without devices may run on some of its nodes too
    beside: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class QueueTree:
    """How one cluster is shared. ``plain``: what nodes without devices have, as ``beside``.

    Where a kind has levels, all of them and the plain nodes have some.
    """

    parts: tuple[QueuePart, ...] = ()
    kinds: tuple[QueueKind, ...] = ()  # the first is tried first
    plain: Mapping[str, int] = field(default_factory=dict)
    plain_levels: tuple[str, ...] = ()
    priorities: Mapping[str, int] = field(default_factory=dict)  # name → value


@runtime_checkable
class SupportsQueues(Protocol):
    """A cluster whose queues Berth writes. Every verb may be repeated.

    Denied where the part of the cluster that lets work in is not there or does not answer.
    """

    def ensure_queues(self, tree: QueueTree) -> tuple[str, ...]:
        """Make them as they should be; return what had to be written or removed (``Kind/name``).

        What shrinks is written before what grows, so that no more is promised on the way.
        """

    def remove_queues(self) -> None:
        """Remove all that ``ensure_queues`` made. NotYet while work still stands in them."""

    def waiting_in(self, namespace: str) -> tuple[str, ...]:
        """Return the names of what waits in the queue of a namespace, in the order of its turns.

        As far as the cluster tells it: who is not among them has an unknown place.
        """


@runtime_checkable
class SupportsStanding(Protocol):
    """Where the cluster itself keeps the line, and what was said first of who stands in it."""

    def stand(self, uid: str, *, priority: str, waits: bool) -> bool:
        """Let a workload stand in its line as is said now; nothing that runs is ended by it.

        ``waits``: it is not let in until told otherwise; what was let in goes on. False: it does
        not stand in the line yet, ask again. Missing is success.
        """


@runtime_checkable
class SupportsKubeTokens(Protocol):
    def kube_token(self, *, namespace: str, user: str, grant: str, seconds: int) -> KubeToken:
        """Return a token for kubectl that ends with the grant.

        NotYet until the place has it, Settling while its rights are not known everywhere.
        """


class Settling(NotYet):
    """All of it is made, a moment ago; there is nothing to do but to ask again."""


@runtime_checkable
class SupportsServing(Protocol):
    """Runs what serves (``WorkloadSpec.serve``), by a number of replicas that changes."""

    def scale(self, spec: WorkloadSpec) -> None:
        """Let this launch have ``spec.serve.replicas`` of them, 0 too; those that are there stay.

        A replica that ended by itself and is not begun anew by the driver is made again.  Nothing
        is done where there is no such launch, or it was stopped.  NotYet: call again.
        """


@runtime_checkable
class SupportsVolumes(Protocol):
    def ensure_volume(
        self, volume_uid: str, *, project: str, owner: str, backing: Backing | None = None
    ) -> None:
        """Make it exist with this size; an ``owner`` "" shares it among the project's members.

        NotYet while it is being made, Growing while it is made larger, CannotGrow when that is
        refused.
        """

    def remove_volume(self, volume_uid: str) -> None: ...

    def volume_usage(self, volume_uid: str) -> int | None:
        """Bytes used, None = unknown."""


class Held(NotYet):
    """What was told to end should be gone by now and is not; the message says what keeps it."""


class Growing(NotYet):
    """A volume that is there and can be used, but is not yet as large as was asked."""


class CannotGrow(Denied):
    """A volume that is there and can be used, and stays as large as it is."""

    def __init__(self, message: str, *, size_mib: int) -> None:
        super().__init__(message)
        self.size_mib = size_mib


@runtime_checkable
class SupportsGrowth(Protocol):
    """Where some volumes can't be made larger later. Without it all of them can."""

    def can_grow(self, backing: Backing) -> bool:
        """Tell what is known beforehand; what is not counts as yes."""


@runtime_checkable
class SupportsMeasuring(Protocol):
    """Sizes that a program beside the data finds out, which takes its time."""

    def measure_volume(self, volume_uid: str, placement: Placement) -> Measured | None:
        """Begin, or look how far it is: NotYet while under way. None: it can't be told now.

        ``placement``: where the program may run, if not beside what has the volume.
        """

    def end_measuring(self, volume_uid: str) -> None:
        """Let go of the volume. Missing is success."""


@runtime_checkable
class SupportsSnapshots(Protocol):
    """Copies of a volume at one moment. Every verb may be repeated; NotYet while under way."""

    def can_snapshot(self, backing: Backing) -> bool: ...

    def ensure_snapshot(self, snapshot_uid: str, *, volume_uid: str, backing: Backing) -> int:
        """Make it once; return its size in bytes (0: unknown)."""

    def restore_snapshot(self, snapshot_uid: str, *, volume_uid: str, backing: Backing) -> None:
        """Put its contents in place of the volume's. Nothing may use the volume meanwhile."""

    def remove_snapshot(self, snapshot_uid: str, *, volume_uid: str, backing: Backing) -> None: ...


@runtime_checkable
class SupportsAdoption(Protocol):
    """What was made before there were marks of installations can be given ours."""

    def adopt(self, uid: str) -> None:
        """Mark it. What is missing, or another's, is left."""


@runtime_checkable
class SupportsSecretRefresh(Protocol):
    """Secrets of what runs can be made anew without a start: what was taken away is gone there.

    The environment of a process stays as it was; files and the cluster's Secret do not.
    """

    def refresh_secrets(self, spec: WorkloadSpec) -> None:
        """Write ``secret_env`` and ``secret_files`` of this launch again. Missing is success."""


@runtime_checkable
class SupportsMoves(Protocol):
    """Handing a volume to another project with its files, where what it lies on allows that."""

    def can_move(self, backing: Backing) -> bool: ...

    def move_volume(self, volume_uid: str, *, project: str, owner: str, backing: Backing) -> None:
        """Give it to ``project``; nothing uses it meanwhile. May be repeated; NotYet under way."""


@runtime_checkable
class SupportsLogs(Protocol):
    def read_log(
        self, uid: str, *, offset: int = 0, limit: int = 65536, replica: int = 0
    ) -> tuple[bytes, int]:
        """Return (bytes, next offset); an offset past the end gives no bytes.

        ``replica``: whose, by its number; one that is not there has written nothing.
        """


class EventLines(NamedTuple):
    """Whole lines of what a program told; others may stand between."""

    data: bytes
    cursor: str  # from where to go on; its form is the driver's own
    more: bool = False  # there is more to read now
    again: bool = False  # what comes next may have been read before
    read: int = 0  # bytes that were fetched for it

    @classmethod
    def of_file(cls, data: bytes, offset: int, *, limit: int, is_over: bool) -> EventLines:
        """Return whole lines of what was read from ``offset`` on; nobody ends those of an end.

        A line that never ends is none of an event: of that, all that was read is passed over.
        """
        is_full = len(data) >= limit
        cut = len(data) if is_over and not is_full else data.rfind(b"\n") + 1
        if not cut and is_full:
            cut = len(data)
        return cls(data[:cut], str(offset + cut), more=is_full, read=len(data))


@runtime_checkable
class SupportsEvents(Protocol):
    def read_events(
        self, uid: str, *, launch: int, cursor: str = "", limit: int = 65536
    ) -> EventLines:
        """Read on in what the program of a launch told in ``BERTH_EVENTS``; ``""``: from its begin.

        That of the first replica, all its attempts in their order. It can be read until the launch
        after it has ended; one that is not there any more tells nothing, and the cursor stays.
        """


@dataclass(frozen=True)
class Inspection:
    """What people may read of a workload's objects: title → document, events newest first."""

    objects: Mapping[str, Mapping[str, Any]]
    events: tuple[Mapping[str, Any], ...] = ()
    more: bool = False  # there are other events, older ones
    unread: bool = False  # not all could be read in time: newer ones may be missing


@runtime_checkable
class SupportsInspection(Protocol):
    """Showing what the cluster itself holds of a workload. No secret is ever in it."""

    def inspect(
        self, where: Mapping[str, str], *, for_owner: bool, most: int, seconds: float
    ) -> Inspection:
        """Read the objects at ``where`` (namespace, name, pod) and their ``most`` latest events.

        Others than the owner are shown no values of the environment, no words of the command.
        """


class Attempt(StrEnum):
    """How trying a program stands."""

    RUNNING = "running"  # being pulled, or at work
    DONE = "done"  # ended well; ``text`` is what it wrote
    ABSENT = "absent"  # the image has no such program
    FAILED = "failed"  # it could not be tried, or ended badly: nothing is known


@dataclass(frozen=True)
class Tried:
    """How far a program is that was tried."""

    state: Attempt
    text: str = ""


@dataclass(frozen=True)
class Program:
    """What is run, and where: nodes that are reserved for others do not even fetch the image."""

    namespace: str
    name: str
    image: str
    command: Sequence[str]
    placement: Placement


@runtime_checkable
class SupportsPrograms(Protocol):
    """Running one short program of an image, to learn what it says."""

    def try_program(self, program: Program) -> Tried:
        """Begin, or look how far it is. Call again while it is RUNNING; it removes itself."""


@runtime_checkable
class SupportsMetrics(Protocol):
    def usage(self, uids: Iterable[str]) -> Mapping[str, Mapping[str, float]]:
        """cpu_milli, memory_mib, and rx_bytes, tx_bytes counted from its start, per uid; absent =
        unknown.
        """


@runtime_checkable
class SupportsDeviceUse(Protocol):
    """What devices do: asked of the machine itself, or of the exporters beside them."""

    def device_use(
        self, holders: Iterable[Holder], sources: Iterable[UseSource]
    ) -> Sequence[DeviceUse]:
        """One for each device and who holds it; of one that nobody holds, where that is known."""


EXPERIMENT = "experiment"  # kind of what stands for a search at a cluster


@dataclass(frozen=True)
class ExperimentSpec:
    """A search whose values the cluster chooses; ``space``: parameters in Katib's words.

    What runs with the values is none of its business: its trials are told how they ended.
    """

    uid: str
    name: str
    generation: int  # of its begins, each of which knows nothing of those before
    metric: str
    maximizes: bool
    algorithm: str
    settings: Mapping[str, str]
    space: Sequence[Mapping[str, Any]]
    trials_max: int
    parallel: int


@dataclass(frozen=True)
class Proposal:
    """Values to try, oldest first among others; ``told``: it knows how they ended."""

    name: str
    values: Mapping[str, str]
    told: bool = False


@dataclass(frozen=True)
class TrialEnd:
    """How a trial ended. ``curve``: what it said of the metric, the last one last."""

    state: str  # Succeeded, Failed, EarlyStopped
    message: str = ""
    curve: Sequence[float] = ()


@runtime_checkable
class SupportsExperiments(Protocol):
    """A cluster that chooses the values of searches. Every verb may be repeated.

    Denied where the part of it that does so is not there, or refuses.
    """

    def ensure_experiment(self, spec: ExperimentSpec) -> tuple[Proposal, ...]:
        """Make it as it should be; return what it proposed so far."""

    def tell_trial(self, spec: ExperimentSpec, name: str, end: TrialEnd) -> None:
        """Say how a proposal ended, so that it proposes the next. Missing is success."""

    def remove_experiment(self, uid: str) -> None:
        """Take it away with its proposals. Missing is success; NotYet while some are left."""

    def list_experiments(self) -> Iterable[Observation]:
        """As ``list_owned`` says of work, with kind ``EXPERIMENT``: all that is there."""
