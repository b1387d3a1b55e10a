"""What the console's first page answers: what is used, what waits, what is unwell, what to do.

A constant number of queries, whatever there is. The parts come from the pages that show them whole.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from django.db.models import Count, Q, Sum
from django.urls import reverse
from django.utils.translation import gettext as _t
from django.utils.translation import ngettext

from clusters import selectors as clusters
from clusters.models import Claim
from common.clock import now
from console import cluster_selectors, health, selectors
from console.views.base import ConsoleView
from console.words import answer_words
from notebooks.models import Workspace
from quotas.choices import GPUS
from quotas.models import Reservation
from runtime.protocol import Phase
from runtime.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.http import HttpRequest, HttpResponse

    from clusters.models import Flavor
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
class Facts:
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


def overview() -> Facts:
    """Return the whole page's facts."""
    glances = cluster_selectors.glances(cluster_selectors.overview())
    checks = health.check_all()
    if glances:  # each of them speaks for itself
        checks = [check for check in checks if check.name != "machines"]
    waits = clusters.queue().aggregate(
        n=Count("pk"), long=Count("pk", filter=Q(asked_at__lt=now() - LONG_WAIT))
    )
    phases = Workspace.objects.filter(deleted_at__isnull=True).aggregate(
        running=Count("pk", filter=Q(phase=Phase.RUNNING)),
        waiting=Count("pk", filter=Q(phase=Phase.PENDING)),
        failed=Count("pk", filter=Q(phase=Phase.FAILED)),
        given_up=Count("pk", filter=Q(reason=Reason.QUARANTINED)),
    )
    work = _work(phases["given_up"], waits["long"])
    needs = [*_broken(checks), *_clusters_unwell(glances), *work]
    machines = [glance.cluster for glance in glances if not glance.cluster.runs_images]
    there = [machine.capacity or {} for machine in machines]
    given = Claim.objects.filter(granted_at__isnull=False, cluster__in=machines).aggregate(
        cpu_milli=Sum("cpu_milli", default=0), memory_mib=Sum("memory_mib", default=0)
    )
    return Facts(
        needs=sorted(needs, key=lambda need: not need.is_urgent),
        gpus=_gpus(glances),
        cpu_milli=(given["cpu_milli"], sum(int(one.get("cpu_milli") or 0) for one in there)),
        memory_mib=(given["memory_mib"], sum(int(one.get("memory_mib") or 0) for one in there)),
        phases={key: phases[key] for key in ("running", "waiting", "failed")},
        holders=_holders(),
        waiting=selectors.queue(NAMED),
        waiting_count=waits["n"],
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
            found.append(Need(cluster.label, why, url, is_urgent=True))
        elif glance.is_stale:
            found.append(Need(cluster.label, _t("It was not looked at for a while."), url))
        if glance.red:
            words = ngettext("%(n)d check is red", "%(n)d checks are red", glance.red)
            found.append(Need(cluster.label, words % {"n": glance.red}, url))
        if out := sum(use.out for use in glance.kinds):
            words = ngettext(
                "%(n)d GPU is on a node that is not up.",
                "%(n)d GPUs are on nodes that are not up.",
                out,
            )
            nodes = reverse("console:cluster-nodes", kwargs={"cluster": cluster.key})
            found.append(Need(cluster.label, words % {"n": out}, nodes + "?ready=no"))
    return found


def _work(given_up: int, waits_long: int) -> list[Need]:
    found = []
    if given_up:
        words = ngettext(
            "Berth gave up on %(n)d workspace, because each try ended the worker.",
            "Berth gave up on %(n)d workspaces, because each try ended the worker.",
            given_up,
        )
        url = reverse("console:workspaces") + f"?phase={Phase.FAILED}"
        found.append(Need(_t("Workspaces"), words % {"n": given_up}, url))
    if waits_long:
        words = ngettext(
            "%(n)d workload waits for more than half an hour.",
            "%(n)d workloads wait for more than half an hour.",
            waits_long,
        )
        found.append(Need(_t("Queue"), words % {"n": waits_long}, reverse("console:queue")))
    return found


def _gpus(glances: Iterable[Glance]) -> list[GpuUse]:
    """Return each kind once, summed over clusters and machines, in the operators' order."""
    counted = [
        (use.flavor, (use.total, use.used + use.held, use.waiting))
        for glance in glances
        for use in glance.kinds
    ]
    counted += [
        (use.flavor, (use.total, use.total - use.free, use.waiting))
        for use in clusters.flavor_use()
    ]
    sums: dict[Flavor, list[int]] = defaultdict(lambda: [0, 0, 0])
    for flavor, numbers in counted:
        sums[flavor] = [so_far + n for so_far, n in zip(sums[flavor], numbers, strict=True)]
    ordered = sorted(sums, key=lambda flavor: (flavor.position, flavor.label))
    return [GpuUse(flavor.label, *sums[flavor]) for flavor in ordered]


def _holders() -> list[Holds]:
    rows = (
        Reservation.objects.filter(resource=GPUS, amount__gt=0)
        .values_list("project__name")
        .annotate(n=Sum("amount"))
        .order_by("-n", "project__name")[:NAMED]
    )
    return [Holds(name, n) for name, n in rows]


class Overview(ConsoleView):
    """What is used, what waits, what is unwell and what somebody should do; kept fresh."""

    required_platform: ClassVar[Any] = {"GET": "auditor"}
    template_name = "console/overview.html"
    partial_name = "console/_overview.html"

    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        return self.render({"seen": overview()})
