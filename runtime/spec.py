"""What a driver is asked to run: sizes, mounts, where, how often; pure data, no secret in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Resources:
    """What a workload asks for. Units: milli-CPU, MiB, whole GPUs."""

    cpu_milli: int = 1000
    memory_mib: int = 2048
    gpus: int = 0
    gpu_flavor: str = ""  # "" = any kind
    pids: int = 1024

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of GPU that will do, each once, the preferred one first; none: any kind."""
        names = (name.strip() for name in self.gpu_flavor.split(","))
        return tuple(dict.fromkeys(name for name in names if name))

    def times(self, number: int) -> Resources:
        """Return what so many of this size take together."""
        return replace(
            self,
            cpu_milli=self.cpu_milli * number,
            memory_mib=self.memory_mib * number,
            gpus=self.gpus * number,
        )

    def plus(self, other: Resources) -> Resources:
        """Return what both take together, of the kinds that this one names."""
        return replace(
            self,
            cpu_milli=self.cpu_milli + other.cpu_milli,
            memory_mib=self.memory_mib + other.memory_mib,
            gpus=self.gpus + other.gpus,
        )


@dataclass(frozen=True)
class Backing:
    """What a volume lies on, as its class says; a tenant chooses a class, never one of these.

    ``kind`` "": the cluster's own default; else ``directory``, ``nfs``, ``nfs-csi`` or
    ``storage-class`` with the ``options`` of that kind (server, export, storage_class …).
    """

    kind: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    size_mib: int | None = None  # None: no limit of its own


@dataclass(frozen=True)
class Mount:
    """A volume to be seen by the workload. ``role`` 'home' becomes $HOME.

    Others are seen as ``name`` in the folder for volumes: ``~/volumes`` on one machine,
    ``/volumes`` on a cluster, where ``~/volumes`` of a notebook leads to it. ``owner`` "" means
    that the project's members share it.
    """

    volume_uid: str
    role: str = "data"
    path: str = ""
    read_only: bool = False
    name: str = ""
    owner: str = ""
    backing: Backing = field(default_factory=Backing)


@dataclass(frozen=True)
class Probe:
    """Ready when an HTTP GET of ``path`` on ``port`` answers ``status``.

    An empty path asks only whether the port is open.
    """

    path: str = "/api"
    status: int = 200


@dataclass(frozen=True)
class Together:
    """All replicas in one part of a cluster. ``where``: the level of such parts, or its label.

    ``required``: nowhere else; otherwise wider, where no such part has room for all.
    """

    where: str
    required: bool = False


@dataclass(frozen=True)
class Placement:
    """Which nodes will do; labels and tolerations as data, never typed by a tenant.

    A node must carry all of ``node_labels`` and, when there are any, all labels of at least
    one entry of ``any_of`` (one entry per kind of GPU that is acceptable).  It must carry none
    of the values in ``avoid``: these mark nodes that are reserved for others.  ``ranks`` says for
    each entry of ``any_of`` how much it is liked, 0 the most; empty: all the same.
    """

    resource: str = "nvidia.com/gpu"  # what one GPU of ``Resources.gpus`` is called there
    node_labels: Mapping[str, str] = field(default_factory=dict)
    any_of: tuple[Mapping[str, str], ...] = ()
    ranks: tuple[int, ...] = ()
    tolerations: tuple[Mapping[str, str], ...] = ()
    avoid: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # label → values it lacks
    near: tuple[Mapping[str, str], ...] = ()  # liked more than others; none is needed
    architectures: tuple[str, ...] = ()  # the node is one of these, as Kubernetes names them
    together: Together | None = None  # by the label of nodes


@dataclass(frozen=True)
class Network:
    """Extra network cards: Multus names, what they take of the node, what the work is told."""

    attachments: tuple[str, ...] = ()  # namespace/name
    resources: Mapping[str, int] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sidecar:
    """A small helper beside the main container (the sign-in in front of a port)."""

    name: str
    image: str
    command: tuple[str, ...]
    port: int
    env: Mapping[str, str] = field(default_factory=dict)
    secret_env: Callable[[], Mapping[str, str]] = dict
    probe: Probe | None = None


@dataclass(frozen=True)
class Brought:
    """What is brought into a folder of a pod before its program starts there (``BERTH_CODE``).

    The image for data runs ``command``, with the folder as its last word, so the work's own image
    needs nothing for it. ``secret`` names the variable of ``secret_env`` that opens it: the program
    itself does not have that.
    """

    command: tuple[str, ...]
    env: Mapping[str, str]
    secret: str


@dataclass(frozen=True)
class PodGroup:
    """Replicas of a workload that are alike, numbered from 0.

    Several of them, or one that ``meets``, are a group: its replicas reach each other and nobody
    else's, and each is told its place in the environment: ``RANK`` and ``BERTH_REPLICA`` (its
    number), ``WORLD_SIZE``, ``BERTH_HOSTS`` (all their hosts, by comma), ``MASTER_ADDR`` and
    ``MASTER_PORT`` (a port at replica 0 that is free for them to meet at). They stand and fall
    together: one that fails for good ends the others.
    """

    role: str = "main"
    replicas: int = 1
    meets: bool = False  # what one replica alone is told, too
    resources: Resources | None = None  # of each; None: those of the workload


@dataclass(frozen=True)
class RetryPolicy:
    """How often a ``once`` workload whose program ended badly is run again; of what serves only
    ``never`` counts.

    Whether an end was bad only its exit code says: 0 is good, and of the others ``on`` names those
    that are worth another attempt ((): each), ``never`` those that are not. What a node, a queue
    or an eviction took away is no end and costs no attempt. The driver chooses the pause between
    two, longer each time, of ``backoff_s`` at least where it can.
    """

    attempts: int = 1  # altogether; of each replica of a group
    backoff_s: float = 10.0
    on: tuple[int, ...] = ()
    never: tuple[int, ...] = ()

    def is_final(self, exit_code: int) -> bool:
        """Return whether this end is the last one, however many attempts are left.

        A death by signal counts by the code that a shell gives it: -9 is 137.
        """
        code = exit_code if exit_code >= 0 else 128 - exit_code
        if code == 0 or self.attempts <= 1 or code in self.never:
            return True
        return bool(self.on) and code not in self.on


@dataclass(frozen=True)
class Serve:
    """A workload that answers requests at ``port``, by as many replicas as are wanted.

    They are all alike and know nothing of each other; who sends requests chooses among those that
    answer the probe (``ReplicaSeen.address``). Their number changes within a launch
    (``capabilities.workloads.SupportsServing``), down to none; a launch begins with one or more.
    """

    replicas: int = 1


@dataclass(frozen=True)
class WorkloadSpec:
    """Everything a driver needs to make one workload; pure data, no secrets in it.

    ``launch`` counts starts: a driver that already has (uid, launch) does nothing, one that
    has an older launch which ended replaces it.  ``secret_env`` is a callable so that a
    secret is only made when a driver really creates something; it must be deterministic for
    one (uid, launch).
    """

    uid: str
    kind: str
    name: str
    launch: int
    generation: int
    project: str  # project uid
    owner: str  # user uid
    environment: str  # one machine: name of an environment; cluster: image reference
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    secret_env: Callable[[], Mapping[str, str]] = dict
    resources: Resources = field(default_factory=Resources)
    devices: tuple[str, ...] = ()  # GPU UUIDs given by the local queue; empty on a cluster
    mounts: tuple[Mount, ...] = ()
    port: int | None = None  # None: the driver chooses and substitutes {port}
    probe: Probe | None = None
    stop_grace_s: float = 10.0
    asked_back_s: float = 0.0  # instead, where that is longer, when others get its place
    labels: Mapping[str, str] = field(default_factory=dict)
    # Runs to its end; on a cluster a Job. How it ended is its exit code, and ``retry`` says which
    # ends are tried again by the driver.
    once: bool = False
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    groups: tuple[PodGroup, ...] = (PodGroup(),)  # ``resources`` are those of each replica
    serve: Serve | None = None  # then it is neither ``once`` nor a group
    # File name → text, made like ``secret_env``; only the workload can read them. ``{secrets}``
    # in ``command`` and ``env`` stands for the folder that holds them.
    secret_files: Callable[[], Mapping[str, str]] = dict
    framework: str = "none"  # of runtime.training: by it replicas are told where they meet
    # Names of those in whose text ``{secrets}`` stands for that folder too, and ``{memory}`` for
    # one that the workload writes to and that goes with it: no disk, wherever there is memory.
    placed_files: tuple[str, ...] = ()
    # A person's words are in command, args, env: nothing is put into them. On one machine only
    # ``{secrets}`` in ``env``, whose folder nobody else knows.
    verbatim: bool = False
    # Where its checkpoints lie, below the folder of one of its volumes; "": on one machine a folder
    # that stays for as long as it is there, on a cluster nowhere. (``dataplane.checkpoints``)
    checkpoints: str = ""
    checkpoints_since: int = 0  # nanoseconds; what was written before is another run's
    # It is told where it may tell of itself (``BERTH_EVENTS``), and ``read_events`` reads that.
    tells: bool = False
    # The folder BERTH_OUTPUT, below the folder of one of its volumes; made before its program
    # starts. "": it has none.
    output: str = ""
    # One machine: the workload of the same person whose installed packages it sees, too; "": none.
    packages_of: str = ""
    # --- clusters only; one machine ignores them ---------------------------------------------
    namespace: str = ""
    image: str = ""  # pinned reference; empty: this workload cannot run on a cluster
    args: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()  # of a container, besides ``port``
    shm_mib: int = 0  # size of /dev/shm; 0: the cluster's default
    placement: Placement = field(default_factory=Placement)
    network: Network = field(default_factory=Network)
    queue: str = ""  # where it waits for its turn; "": the cluster's own
    priority: str = ""  # its class among those that wait
    sidecars: tuple[Sidecar, ...] = ()
    # ``~/volumes`` leads to the volumes, unless something else is there. By the image's own shell:
    # not for images that may have none.
    links_volumes: bool = False
    code: Brought | None = None  # it begins in that folder
    sealed: bool = False  # nothing of its image can be written; ``/tmp`` is a folder of its own
    operator: str = ""  # of the cluster, that makes its pods; "": the cluster's own controllers
    # Secret file → where its pod copies it at the start, below ``/tmp``; by the same shell.
    unpacked: Mapping[str, str] = field(default_factory=dict)

    @property
    def replicas(self) -> int:
        if self.serve is not None:
            return self.serve.replicas
        return sum(group.replicas for group in self.groups)

    @property
    def is_group(self) -> bool:
        """Whether its replicas are told of each other."""
        alone = self.serve is not None or self.replicas == 1
        return not alone or any(group.meets for group in self.groups)
