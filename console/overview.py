"""What the console's first page answers: what is used, what waits, what is unwell, what to do.

A constant number of queries, whatever there is. The parts come from the pages that show them whole.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db.models import Count, Q, Sum
from django.urls import reverse
from django.utils.translation import gettext as _t
from django.utils.translation import ngettext

from clusters import selectors as clusters
from common.clock import now
from console import cluster_selectors, health, selectors
from console.words import answer_words
from notebooks.models import Workspace
from quotas.choices import GPUS
from quotas.models import Reservation
from runtime.protocol import Phase
from runtime.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from console.cluster_selectors import Glance
    from console.health import Check

NAMED = 5  # of a list; its own page has the rest
LONG_WAIT = timedelta(minutes=30)


@dataclass(frozen=True)
class Need:
    """One thing that somebody should do something about; ``url`` is where."""

    what: str
    why: str
    url: str
    is_urgent: bool = False


@dataclass(frozen=True)
class GpuUse:
    """Devices of one kind on everything that takes work; ``free`` leaves out what is not up."""

    label: str
    total: int
    held: int
    waiting: int

    @property
    def free(self) -> int:
        return max(0, self.total - self.held)


@dataclass(frozen=True)
class Holds:
    """A project and how many GPUs its running work has reserved."""

    project: str
    gpus: int


@dataclass(frozen=True)
class Overview:
    needs: list[Need]
    gpus: list[GpuUse]
    cpu_milli: tuple[int, int]  # given, there; of machines whose size is known
    memory_mib: tuple[int, int]
    phases: dict[str, int]  # of workspaces that are not gone
    holders: list[Holds]
    waiting: list[selectors.Waiter]
    waiting_count: int
    checks: list[Check]
    clusters: list[Glance]


def overview() -> Overview:
    """Return the whole page's facts."""
    glances = cluster_selectors.glances(cluster_selectors.overview())
    checks = health.check_all()
    if glances:  # each of them speaks for itself
        checks = [check for check in checks if check.name != "machines"]
    machines = selectors.machines()
    waiting = selectors.queue()
    phases = Workspace.objects.filter(deleted_at__isnull=True).aggregate(
        running=Count("pk", filter=Q(phase=Phase.RUNNING)),
        waiting=Count("pk", filter=Q(phase=Phase.PENDING)),
        failed=Count("pk", filter=Q(phase=Phase.FAILED)),
        given_up=Count("pk", filter=Q(reason=Reason.PARKED_POISON)),
    )
    needs = [*_broken(checks), *_clusters_unwell(glances), *_work(phases, waiting)]
    local = [machine for machine in machines if not machine.has_nodes]
    return Overview(
        needs=sorted(needs, key=lambda need: not need.is_urgent),
        gpus=_gpus(machines),
        cpu_milli=(
            sum(machine.cpu_milli for machine in local),
            sum(machine.cpu_milli_total for machine in local),
        ),
        memory_mib=(
            sum(machine.memory_mib for machine in local),
            sum(machine.memory_mib_total for machine in local),
        ),
        phases={key: phases[key] for key in ("running", "waiting", "failed")},
        holders=_holders(),
        waiting=waiting[:NAMED],
        waiting_count=len(waiting),
        checks=checks,
        clusters=glances,
    )


def _broken(checks: Iterable[Check]) -> list[Need]:
    url = reverse("console:system")
    return [
        Need(str(check.label), check.message, url, is_urgent=check.vital)
        for check in checks
        if not check.ok
    ]


def _clusters_unwell(glances: Iterable[Glance]) -> list[Need]:
    found = []
    for glance in glances:
        cluster = glance.cluster
        url = reverse("console:cluster", kwargs={"cluster": cluster.key})
        if not cluster.enabled:
            continue
        if cluster.checked_at is not None and not cluster.reachable:
            why = str(answer_words(cluster.message)) or _t("The cluster does not answer")
            found.append(Need(cluster.name, why, url, is_urgent=True))
        elif glance.is_stale:
            found.append(Need(cluster.name, _t("It was not looked at for a while."), url))
        if glance.red:
            words = ngettext("%(n)d check is red", "%(n)d checks are red", glance.red)
            found.append(Need(cluster.name, words % {"n": glance.red}, url))
        if out := sum(use.out for use in glance.kinds):
            words = ngettext(
                "%(n)d GPU is on a node that is not up.",
                "%(n)d GPUs are on nodes that are not up.",
                out,
            )
            nodes = reverse("console:cluster-nodes", kwargs={"cluster": cluster.key})
            found.append(Need(cluster.name, words % {"n": out}, nodes + "?ready=no"))
    return found


def _work(phases: dict[str, int], waiting: list[selectors.Waiter]) -> list[Need]:
    found = []
    if count := phases["given_up"]:
        words = ngettext(
            "Berth gave up on %(n)d workspace, because each try ended the worker.",
            "Berth gave up on %(n)d workspaces, because each try ended the worker.",
            count,
        )
        url = reverse("console:workspaces") + f"?phase={Phase.FAILED}"
        found.append(Need(_t("Workspaces"), words % {"n": count}, url))
    since = now() - LONG_WAIT
    if long := sum(1 for waiter in waiting if waiter.claim.asked_at < since):
        words = ngettext(
            "%(n)d workload waits for more than half an hour.",
            "%(n)d workloads wait for more than half an hour.",
            long,
        )
        found.append(Need(_t("Queue"), words % {"n": long}, reverse("console:queue")))
    return found


def _gpus(machines: Iterable[selectors.Machine]) -> list[GpuUse]:
    """Return each kind once, summed over clusters and machines, in the operators' order."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    order: dict[str, tuple[int, str]] = {}
    for machine in machines:
        for use in machine.kinds:
            label = use.flavor.label
            order[label] = (use.flavor.position, label)
            for place, n in enumerate((use.total, use.used + use.held, use.waiting)):
                sums[label][place] += n
    for own in clusters.flavor_use():
        label = own.flavor.label
        order[label] = (own.flavor.position, label)
        for place, n in enumerate((own.total, own.total - own.free, own.waiting)):
            sums[label][place] += n
    return [GpuUse(label, *sums[label]) for label in sorted(sums, key=lambda one: order[one])]


def _holders() -> list[Holds]:
    rows = (
        Reservation.objects.filter(resource=GPUS, amount__gt=0)
        .values_list("project__name")
        .annotate(n=Sum("amount"))
        .order_by("-n", "project__name")[:NAMED]
    )
    return [Holds(name, n) for name, n in rows]
