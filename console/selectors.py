"""Reading across apps for the operators' pages; a constant number of queries each."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import (
    Case,
    Count,
    Exists,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    TextField,
    Value,
    When,
)
from django.db.models.fields.json import KT
from django.utils.translation import gettext as _

from accounts.models import User
from clusters import selectors as clusters
from clusters.demand import HELD
from clusters.device_use import KindUse, uses
from clusters.models import Claim, Cluster, Device
from clusters.wording import work_words
from common.clock import now
from console import work
from events.models import Event, Seal
from events.selectors import audit
from metrics import selectors as metrics
from notebooks.models import Preset, Workspace
from placement.decision import Estimate
from projects.models import Project
from queues.line import Line
from quotas.models import Reservation
from runtime.models import ObservedWorkload
from runtime.protocol import Phase
from work.models import Workload
from work.waits import when_of

MEASURED = timedelta(minutes=3)  # older figures of use tell nothing of now


@dataclass(frozen=True)
class Holder:
    """Who holds a device: as much as an operator may see (never what is inside)."""

    name: str
    owner: str
    project: str
    since: datetime | None
    phase: str = ""


@dataclass(frozen=True)
class Gpu:
    device: Device
    holder: Holder | None

    @property
    def memory_share(self) -> int | None:
        used, total = self.device.memory_used_mib, self.device.memory_mib
        return None if used is None or not total else round(used * 100 / total)


@dataclass(frozen=True)
class Machine:
    """One cluster with what an operator wants to know at a glance."""

    cluster: Cluster
    gpus: list[Gpu]
    cpu_milli: int
    cpu_milli_total: int
    memory_mib: int
    memory_mib_total: int
    cpu_milli_used: int | None = None  # as last measured; None: not known
    memory_mib_used: int | None = None
    isolation: list[tuple[str, bool, str]] = field(default_factory=list)
    kinds: list[KindUse] = field(default_factory=list)  # of a cluster with nodes
    sought: list[Gpu] | None = None  # of these, what was searched for

    @property
    def cpu_milli_limit(self) -> int:
        """How much is given out at most: CPUs are promised several times."""
        return int(self.cpu_milli_total * settings.BERTH_CPU_OVERCOMMIT)

    @property
    def memory_mib_limit(self) -> int:
        return int(self.memory_mib_total * settings.BERTH_MEMORY_OVERCOMMIT)

    @property
    def shown(self) -> list[Gpu]:
        return self.gpus if self.sought is None else self.sought

    @property
    def has_nodes(self) -> bool:
        return self.cluster.runs_images

    @property
    def total(self) -> int:
        return sum(use.total for use in self.kinds) if self.has_nodes else len(self.gpus)

    @property
    def free(self) -> int:
        if self.has_nodes:
            return sum(use.free for use in self.kinds)
        return sum(1 for gpu in self.gpus if gpu.holder is None and gpu.device.healthy)

    @property
    def shares_one_circle(self) -> bool:
        """No separation between people: everybody on the machine must trust everybody."""
        return self.cluster.isolation.get("users") is False


def machines_matching(words: str) -> list[Machine]:
    """Return the machines so called, and of others the GPUs that are so called or so held."""
    found = []
    for machine in machines():
        if not words or _has(words, machine.cluster.name, machine.cluster.key):
            found.append(machine)
        elif sought := [gpu for gpu in machine.gpus if _is_sought(gpu, words)]:
            found.append(replace(machine, sought=sought))
    return found


def _is_sought(gpu: Gpu, words: str) -> bool:
    device, holder = gpu.device, gpu.holder
    texts = [device.name, device.uuid, device.flavor.label if device.flavor else ""]
    if holder is not None:
        texts += [holder.name, holder.owner, holder.project]
    return _has(words, *texts)


def _has(words: str, *texts: str) -> bool:
    return any(words.casefold() in text.casefold() for text in texts)


def machines() -> list[Machine]:
    """Return every machine with devices and holders. A constant number of queries."""
    devices = list(clusters.devices())
    holders = holders_of(_claims(devices))
    sums = {
        row["cluster_id"]: row
        for row in Claim.objects.filter(granted_at__isnull=False)
        .values("cluster_id")
        .annotate(cpu=Sum("cpu_milli"), memory=Sum("memory_mib"))
    }
    found = []
    rows = list(clusters.clusters())
    in_use = _in_use([row.key for row in rows if not row.runs_images])
    kinds = uses([row for row in rows if row.runs_images])
    for cluster in rows:
        capacity = cluster.capacity or {}
        used: dict[str, Any] = dict(sums.get(cluster.pk) or {})
        found.append(
            Machine(
                cluster=cluster,
                gpus=[Gpu(d, _holder(d, holders)) for d in devices if d.cluster_id == cluster.pk],
                cpu_milli=used.get("cpu") or 0,
                cpu_milli_total=int(capacity.get("cpu_milli") or 0),
                memory_mib=used.get("memory") or 0,
                memory_mib_total=int(capacity.get("memory_mib") or 0),
                cpu_milli_used=in_use.get(cluster.key, (None, None))[0],
                memory_mib_used=in_use.get(cluster.key, (None, None))[1],
                isolation=isolation_words(cluster),
                kinds=[use for use in kinds if use.cluster.pk == cluster.pk],
            )
        )
    return found


def _in_use(keys: list[str]) -> dict[str, tuple[int, int]]:
    """Return CPU and memory that work on machines was last measured to use."""
    rows = Workload.objects.filter(cluster_key__in=keys, phase=Phase.RUNNING)
    used = metrics.latest(rows.values("uid"), MEASURED)
    found: dict[str, tuple[int, int]] = {}
    for key, uid in rows.values_list("cluster_key", "uid") if used else ():
        seen = used.get(uid)
        if seen is not None and seen.cpu_milli is not None and seen.memory_mib is not None:
            before = found.get(key, (0, 0))
            found[key] = (before[0] + seen.cpu_milli, before[1] + seen.memory_mib)
    return found


def isolation_words(cluster: Cluster) -> list[tuple[str, bool, str]]:
    """Return (what, whether, sentence) for each thing the machine was asked to keep apart."""
    sentences = {
        "users": (
            _("People"),
            _("Each person's work runs as a system user of its own."),
            _("All work runs as one user: everybody on this machine is one circle of trust."),
        ),
        "proc": (
            _("Processes"),
            _("Nobody sees the processes of others."),
            _("Names of processes of others can be seen."),
        ),
        "tmp": (
            _("Temporary files"),
            _("Each workspace has a /tmp of its own."),
            _("The folder /tmp is shared; only the owner of a file protects it."),
        ),
        "shm": (
            _("Shared memory"),
            _("Each workspace has shared memory of its own, which is gone when it stops."),
            _("The folder /dev/shm is shared, and what lies there stays when a workspace stops."),
        ),
        "memory": (
            _("Memory"),
            _("Limits are enforced."),
            _("Limits can't be enforced here; one workspace can take all memory."),
        ),
        "cpu": (_("CPU"), _("Limits are enforced."), _("Limits can't be enforced here.")),
        "pids": (
            _("Number of processes"),
            _("Limits are enforced."),
            _("Limits can't be enforced here."),
        ),
        "gpu": (
            _("GPUs"),
            _("A workspace can open only the devices it was given."),
            _("Work is told which GPUs to use, but nothing stops it from using others."),
        ),
        "read_only_volumes": (
            _("Read-only volumes"),
            _("A volume that is mounted to be read can't be written."),
            _("A volume that is mounted to be read can be written by its owner's programs."),
        ),
        "memory_secrets": (
            _("Secret files"),
            _("They lie in memory and are gone when the work ended."),
            _("They lie on the disk, closed to others, until the work ended."),
        ),
    }
    return [
        (words[0], bool(cluster.isolation[key]), words[1] if cluster.isolation[key] else words[2])
        for key, words in sentences.items()
        if key in cluster.isolation
    ]


def _claims(devices: Iterable[Device]) -> list[Claim]:
    return [d.hold.claim for d in devices if hasattr(d, "hold")]


def _holder(device: Device, holders: dict[UUID, Holder]) -> Holder | None:
    if not hasattr(device, "hold"):
        return None
    claim = device.hold.claim
    fallback = Holder(work_words(claim.workload_kind), "", "", claim.granted_at)
    return holders.get(claim.workload_uid, fallback)


def holders_of(claims: Iterable[Claim]) -> dict[UUID, Holder]:
    """Return who is behind claims, in one query."""
    since = {c.workload_uid: c.granted_at or c.asked_at for c in claims}
    rows = Workload.objects.filter(uid__in=since).select_related("owner", "project")
    return {
        row.uid: Holder(row.name, row.owner.label, row.project.name, since[row.uid], row.phase)
        for row in rows
    }


@dataclass(frozen=True)
class Waiter:
    position: int
    claim: Claim
    name: str
    owner: str
    project: str
    sentence: str
    url: str
    share: str  # whether it is within a guarantee; "": it asks for no GPU
    turn: str  # when its turn comes, as it was expected when it began to wait


def queue(most: int = 200) -> list[Waiter]:
    """Return who waits on any machine, in order, with the reason as the owner reads it."""
    claims = list(clusters.queue()[:most])
    rows = work.rows_of((claim.workload_kind, claim.workload_uid) for claim in claims)
    ways = work.ways()
    borrows = _borrowing(claims)
    found = []
    for position, claim in enumerate(claims, 1):
        row = rows.get(claim.workload_uid)
        share = _("borrowed") if claim.pk in borrows else _("guaranteed")
        found.append(
            Waiter(
                position=position,
                claim=claim,
                name=row.name if row else work_words(claim.workload_kind),
                owner=row.owner.label if row else "",
                project=row.project.name if row else "",
                sentence=ways[row.KIND].reason(row) if row else "",
                url=row.get_absolute_url() if row else "",
                share=share if claim.gpus else "",
                turn=_turn_of(claim),
            )
        )
    return found


def _borrowing(claims: list[Claim]) -> set[int]:
    """Return the claims that would hold more than is guaranteed to them."""
    clusters_of = {claim.cluster_id: claim.cluster for claim in claims}
    held = list(Claim.objects.filter(cluster__in=clusters_of, granted_at__isnull=False))
    found: set[int] = set()
    for pk, cluster in clusters_of.items():
        there = [claim for claim in (*held, *claims) if claim.cluster_id == pk]
        found |= {v.claim.pk for v in Line(cluster, there).verdicts() if v.borrows}
    return found


def _turn_of(claim: Claim) -> str:
    if claim.expected_from is None or claim.expected_until is None or claim.expected_until < now():
        return ""
    return when_of(Estimate(claim.expected_from, claim.expected_until, 0))


def flavors() -> list[clusters.FlavorUse]:
    return clusters.flavor_use()


def users(chosen: dict[str, Any]) -> QuerySet[User]:
    from accounts.selectors import users_all

    state = {"active": True, "disabled": False}.get(chosen.get("state") or "")
    rows = users_all(
        search=chosen.get("q") or "", is_active=state, platform_role=chosen.get("role") or None
    )
    return rows.annotate(project_count=Count("memberships", distinct=True))


def projects(chosen: dict[str, Any]) -> QuerySet[Project]:
    rows = Project.objects.filter(deleted_at__isnull=True)
    if q := chosen.get("q"):
        rows = rows.filter(Q(name__icontains=q) | Q(slug__icontains=q))
    if chosen.get("state") == "archived":
        rows = rows.filter(archived_at__isnull=False)
    elif chosen.get("state") == "active":
        rows = rows.filter(archived_at__isnull=True)
    return rows.annotate(member_count=Count("memberships", distinct=True)).order_by("name")


def use_of(project_ids: Iterable[int]) -> dict[int, dict[str, int]]:
    """Return what is reserved in each of some projects, in one query."""
    found: dict[int, dict[str, int]] = {}
    rows = (
        Reservation.objects.filter(project_id__in=list(project_ids))
        .values("project_id", "resource")
        .annotate(n=Sum("amount"))
    )
    for row in rows:
        found.setdefault(row["project_id"], {})[row["resource"]] = row["n"]
    return found


def workspaces(chosen: dict[str, Any]) -> QuerySet[Workspace]:
    """Return those that are not gone, each with ``cluster_name``, and ``node``: where it is now."""
    seen = ObservedWorkload.objects.filter(uid=OuterRef("uid"), cluster_key=OuterRef("cluster_key"))
    node = Subquery(seen.annotate(node=KT("data__detail__node")).values("node")[:1])
    rows = Workspace.objects.filter(deleted_at__isnull=True).select_related(
        "project", "owner", "preset"
    )
    rows = rows.annotate(
        cluster_name=Subquery(
            Cluster.objects.filter(key=OuterRef("cluster_key")).values("name")[:1]
        ),
        node=Case(When(phase__in=HELD, then=node), default=Value(""), output_field=TextField()),
    )
    if q := chosen.get("q"):
        rows = rows.filter(
            Q(name__icontains=q)
            | Q(short_id__icontains=q)
            | Q(owner__username__icontains=q)
            | Q(project__name__icontains=q)
            | Q(node__icontains=q)
        )
    if cluster := chosen.get("cluster"):
        rows = rows.filter(cluster_key=cluster)
    if node_name := (chosen.get("node") or "").strip():
        rows = rows.filter(node=node_name)
    if phase := chosen.get("phase"):
        rows = rows.filter(phase=phase)
    if chosen.get("gpu") == "yes":
        rows = rows.filter(gpus__gt=0)
    elif chosen.get("gpu") == "no":
        rows = rows.filter(gpus=0)
    return rows.order_by("-id")


def presets(chosen: dict[str, Any]) -> QuerySet[Preset]:
    rows = Preset.objects.order_by("position", "name")
    if q := chosen.get("q"):
        rows = rows.filter(Q(name__icontains=q) | Q(slug__icontains=q))
    live = Workspace.objects.filter(preset=OuterRef("pk"), deleted_at__isnull=True)
    return rows.annotate(used=Exists(live)).prefetch_related("projects")


def events(chosen: dict[str, Any]) -> QuerySet[Event]:
    """Return the audit log, newest first, narrowed by the filters."""
    return audit(
        search=chosen.get("q") or "",
        verb=chosen.get("verb") or "",
        actor=chosen.get("actor") or "",
        outcome=chosen.get("outcome") or "",
        since=chosen.get("since"),
        until=chosen.get("until"),
    )


@dataclass(frozen=True)
class ChainState:
    """How far the audit log is sealed."""

    sealed_to: int
    unsealed: int
    last: Seal | None


def chain_state() -> ChainState:
    last = Seal.objects.order_by("-last_event_id").first()
    sealed_to = last.last_event_id if last else 0
    return ChainState(sealed_to, Event.objects.filter(pk__gt=sealed_to).count(), last)
