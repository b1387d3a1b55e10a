"""How work would stand in a machine's queue at this moment: what cards, forms and plans show."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Count, F, Q
from django.utils.translation import gettext_lazy as _

from clusters.models import Claim
from placement.decision import (
    IN_USE,
    STARTS_NOW,
    DeviceRequest,
    Estimate,
    KindRoom,
    Reason,
    Standing,
    names_in,
)
from queues.choices import Beyond
from queues.history import FEW_TURNS, LONG, History
from queues.line import Line, Verdict, kind_of
from queues.sharing import ROOT, Pool
from queues.tree import Look
from queues.works import standings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from clusters.models import Cluster
    from placement.decision import Decision
    from runtime.spec import Resources

_THIS_MACHINE = _("This machine")


def sight_of(cluster: Cluster) -> LineSight:
    """Look at the line of a machine; of one with very many in it only at what a page needs."""
    rows = Claim.objects.filter(cluster=cluster)
    first = F("granted_at").asc(nulls_last=True)
    found = list(rows.order_by(first, "asked_at", "pk")[: LONG + 1])
    if len(found) <= LONG:
        return LineSight(cluster, found)
    if found[-1].granted_at is not None:
        found = list(rows.filter(granted_at__isnull=False))
    return LongSight(cluster, [claim for claim in found if claim.granted_at is not None])


def left_on(cluster: Cluster, project_uid: str) -> dict[str, tuple[int, bool]]:
    """Return how many more of each kind a project may hold on a cluster with queues of ours.

    With whether its ceiling is what bounds that. What it is owed by others is not counted: that
    takes a moment. What others wait for within a guarantee that is not the project's, too, is
    theirs already; where work of their own gives way to it they take no more than they have.
    """
    there = standings([cluster])[cluster.key]
    pool = Pool(Look(cluster).parts(), there.capacity)
    for work in there.works:
        if work.kind:
            pool.take(work)
    its_own = {part.key for part in pool.path(project_uid)}
    for work in sorted(there.works, key=lambda one: one.asked_at):
        for kind in () if work.kind else work.kinds:
            part = pool.plain(work, kind)
            if part is not None and part not in its_own:
                pool.take(replace(work, kind=kind))
                break
    found = {}
    for kind in there.capacity:
        free, (top, whose) = pool.free(project_uid, kind), pool.ceiling(project_uid, kind)
        found[kind] = (max(0, min(free, top)), whose != ROOT and top < free)
    return found


def is_guaranteed(cluster: Cluster, project_uid: str, size: Resources) -> bool:
    """Whether a project, or a part above it, is guaranteed so many GPUs of one of these kinds."""
    path = Pool(Look(cluster).parts(), {}).path(project_uid)
    return any(
        share.guaranteed >= size.gpus
        for part in path
        for kind, share in part.shares.items()
        if not size.kinds or kind in size.kinds
    )


class LineSight:
    """One look at the line of a machine. Implements ``placement.decision.QueueSight``."""

    def __init__(self, cluster: Cluster, claims: list[Claim]) -> None:
        self._cluster = cluster
        self._line = Line(cluster, claims)

    def _asked(self, made: Decision) -> Claim:
        """Return the claim that such work would have, at the place where its own one stands."""
        size, request = made.request.total, made.request
        project = str(made.fleet.project_uid or UUID(int=0))  # a preset is nobody's yet
        rules = self._line.rules(project, request.purpose, request.priority)
        own = self._own(made.uid)
        same = own is not None and own.size == size
        asked = Claim(
            workload_uid=made.uid or UUID(int=0),
            workload_kind=request.work_class,
            project_uid=UUID(project),
            priority=rules.priority,
            exceeds=rules.exceeds,
            reclaimable=rules.reclaimable,
            since=request.since,
        )
        asked.size = size
        if own is not None:
            asked.over_budget = own.over_budget
        if own is not None and same:
            asked.asked_at = own.asked_at
        return asked

    def _own(self, uid: UUID | None) -> Claim | None:
        return next((c for c in self._line.claims if c.workload_uid == uid), None)

    @cached_property
    def _history(self) -> History:
        return History(self._cluster)

    def estimate(self, made: Decision) -> Estimate | None:
        return self._line.estimate(self._asked(made), self._history)

    def ahead(self, made: Decision) -> Mapping[str, int]:
        """In the order of turns, of those who want the same."""
        return self._line.ahead(self._asked(made))

    def standing(self, made: Decision) -> Standing:
        """What the queue itself would decide."""
        line, size = self._line, made.request.total
        asked = self._asked(made)
        verdict = self._verdict(asked)
        if verdict.never:
            said = line.less_than(_THIS_MACHINE, verdict.lacking, size)
            return Standing(said, fits=False, waits_for=verdict.lacking)
        if verdict.fits:
            return Standing(STARTS_NOW, position=0)
        reason = IN_USE
        if asked.over_budget == Beyond.WAITS:
            reason = Reason("budget-waits")
        elif verdict.ceiling:
            reason = Reason("ceiling")
        elif verdict.owed:
            reason = Reason("reclaims")
        elif line.is_oversized(size):
            words = {"cpus": line.cpu_milli / 1000, "memory": round(line.memory_mib / 1024, 1)}
            reason = Reason("oversized", words)
        elif verdict.ahead:
            reason = Reason("behind", {"n": verdict.ahead})
        return Standing(reason, position=verdict.ahead + 1, waits_for=verdict.lacking)

    def _verdict(self, asked: Claim) -> Verdict:
        return self._line.would(asked)

    def rooms(self, devices: DeviceRequest) -> list[KindRoom]:
        total, free = Counter[str](), Counter[str]()
        labels: dict[str, str] = {}
        for device in sorted(
            self._line.devices, key=lambda one: one.flavor.position if one.flavor else 0
        ):
            name = device.flavor.name if device.flavor else device.name
            labels.setdefault(name, device.flavor.label if device.flavor else device.name)
            total[name] += 1
            free[name] += self._line.is_free(device)
        names = [name for name in devices.kinds or labels if total[name]]
        return [KindRoom(name, labels[name], total[name], free[name]) for name in names]


class LongSight(LineSight):
    """A look at a line in which very many stand: who holds what is read, who waits is counted.

    Its estimates go by how much is before a claim and how long such work held GPUs.
    """

    @cached_property
    def _history(self) -> History:
        return History(self._cluster, most=FEW_TURNS)

    def _own(self, uid: UUID | None) -> Claim | None:
        if uid is not None and uid not in self._found:
            known = super()._own(uid)
            self._found[uid] = known or Claim.objects.filter(workload_uid=uid).first()
        return self._found.get(uid) if uid else None

    @cached_property
    def _found(self) -> dict[UUID, Claim | None]:
        return {}

    def _before(self, asked: Claim) -> dict[UUID, tuple[int, int]]:
        """Return of each project how many want the same and asked before, and how many GPUs."""
        own = self._own(asked.workload_uid)
        at = None if own is None else own.asked_at
        wanted, has_gpus = set(asked.size.kinds), bool(asked.gpus)
        all_of_them = own is None or asked.asked_at != at
        key = (at, all_of_them, frozenset(wanted), has_gpus)
        if key in self._sums:
            return self._sums[key]
        found = self._sums[key] = {}
        for uid, kinds, gpus, every, before in self._counted(at):
            n = every if all_of_them else before
            if n and bool(gpus) == has_gpus and (not kinds or not wanted or kinds & wanted):
                known = found.get(uid, (0, 0))
                found[uid] = (known[0] + n, known[1] + n * gpus)
        return found

    @cached_property
    def _sums(self) -> dict[tuple[Any, ...], dict[UUID, tuple[int, int]]]:
        return {}

    def _counted(self, at: datetime | None) -> list[tuple[Any, ...]]:
        """Return who waits, counted in one query by project and size: all, and those before."""
        if at not in self._counts:
            before = Q(asked_at__lt=at) if at else Q()
            rows = Claim.objects.filter(
                cluster=self._cluster, granted_at__isnull=True, held_at__isnull=True
            )
            size = rows.order_by().values_list("project_uid", "gpu_flavor", "gpus")
            counted: Any = size.annotate(every=Count("pk"), before=Count("pk", filter=before))
            known = {flavor: set(names_in(flavor)) for _uid, flavor, *_numbers in counted}
            self._counts[at] = [(uid, known[flavor], *numbers) for uid, flavor, *numbers in counted]
        return self._counts[at]

    @cached_property
    def _counts(self) -> dict[datetime | None, list[tuple[Any, ...]]]:
        return {}

    def _verdict(self, asked: Claim) -> Verdict:
        """Return what it would get if nobody waited; who is within no guarantee is behind them."""
        found = self._line.would(asked)
        first = found.fits and asked.gpus and not found.borrows
        if found.never or found.ceiling or found.owed or first:
            return found
        ahead = sum(n for n, _gpus in self._before(asked).values())
        lacking = found.lacking or (("gpu",) if asked.gpus else ("cpu",))
        return replace(found, ahead=ahead, lacking=lacking) if ahead else found

    def estimate(self, made: Decision) -> Estimate | None:
        asked = self._asked(made)
        if not asked.gpus:
            return None
        kinds = asked.size.kinds
        there = sum(1 for d in self._line.devices if not kinds or kind_of(d) in kinds)
        before = sum(gpus for _n, gpus in self._before(asked).values())
        return self._history.by_count(asked.workload_kind, before + asked.gpus, there)

    def ahead(self, made: Decision) -> Mapping[str, int]:
        before = self._before(self._asked(made))
        return {str(uid): n for uid, (n, _gpus) in before.items()}
