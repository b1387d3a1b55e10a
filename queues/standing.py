"""How work would stand in a machine's queue at this moment: what cards, forms and plans show."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from uuid import UUID

from django.utils.translation import gettext_lazy as _

from clusters.models import Claim
from placement.decision import IN_USE, STARTS_NOW, DeviceRequest, KindRoom, Reason, Standing
from queues.history import History
from queues.line import Line

if TYPE_CHECKING:
    from clusters.models import Cluster
    from placement.decision import Decision, Estimate

_THIS_MACHINE = _("This machine")


class LineSight:
    """One look at the line of a machine. Implements ``placement.decision.QueueSight``."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._line = Line(cluster)
        self._history: History | None = None

    def _asked(self, made: Decision) -> Claim:
        """Return the claim that such work would have, at the place where its own one stands."""
        size, request = made.request.total, made.request
        project = str(made.fleet.project_uid or UUID(int=0))  # a preset is nobody's yet
        rules = self._line.rules(project, request.purpose, request.priority)
        own = next((c for c in self._line.claims if c.workload_uid == made.uid), None)
        same = own is not None and own.size == size
        asked = Claim(
            workload_uid=made.uid or UUID(int=0),
            workload_kind=request.work_class,
            project_uid=UUID(project),
            priority=rules.priority,
            exceeds=rules.exceeds,
            reclaimable=rules.reclaimable,
        )
        asked.size = size
        if own is not None and same:
            asked.asked_at = own.asked_at
        return asked

    def estimate(self, made: Decision) -> Estimate | None:
        if self._history is None:
            self._history = History(self._cluster)
        return self._line.estimate(self._asked(made), self._history)

    def ahead(self, made: Decision) -> tuple[str, ...]:
        """In the order of turns, of those who want the same."""
        return self._line.ahead(self._asked(made))

    def standing(self, made: Decision) -> Standing:
        """What the queue itself would decide."""
        line, size = self._line, made.request.total
        verdict = line.would(self._asked(made))
        if verdict.never:
            said = line.less_than(_THIS_MACHINE, verdict.lacking, size)
            return Standing(said, fits=False, waits_for=verdict.lacking)
        if verdict.fits:
            return Standing(STARTS_NOW, position=0)
        reason = IN_USE
        if verdict.ceiling:
            reason = Reason("ceiling")
        elif verdict.owed:
            reason = Reason("reclaims")
        elif line.is_oversized(size):
            words = {"cpus": line.cpu_milli / 1000, "memory": round(line.memory_mib / 1024, 1)}
            reason = Reason("oversized", words)
        elif verdict.ahead:
            reason = Reason("behind", {"n": verdict.ahead})
        return Standing(reason, position=verdict.ahead + 1, waits_for=verdict.lacking)

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
