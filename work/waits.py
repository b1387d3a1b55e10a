"""What somebody who waits wants to know: for what, behind whom, until when, and what starts sooner.

Every door asks the same: the page, a list, the API, the command line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Count, Sum
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from budgets import selectors as budgets
from clusters.options import options_of
from common.clock import now
from placement.clusters import known_cluster
from placement.decision import Decision, DeviceRequest, Estimate, Request, names_in
from placement.fleet import Fleet
from placement.levels import LABELS, PIECES
from projects.models import Project
from queues import admission
from queues.history import History
from runtime.protocol import Desired, Phase
from runtime.reasons import Reason
from work import kinds, why
from work.models import Workload
from work.services.resolve import request_of
from work.standard_fields import GPU_FLAVOR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accounts.principal import Principal

# Why it waits for devices, a place or its turn: the rest has no line to stand in.
IN_LINE = frozenset(
    {Reason.QUEUED, Reason.DOES_NOT_FIT, Reason.CEILING, Reason.RECLAIMING, Reason.PREEMPTED}
    | {Reason.BUDGET}
)
_BEFORE = frozenset({Phase.PENDING, Phase.STARTING})
_CHANGES = 3
_SOONER = 0.7  # a change that is no quicker than this is none


@dataclass(frozen=True)
class Change:
    """What would start it sooner: fields of its table as they would be said, and when."""

    said: Mapping[str, Any]
    text: str


@dataclass(frozen=True)
class Wait:
    """``ahead``: whose work is before it, as far as the reader may know, in words.

    ``by_time``: before it is who asked before; the order of their turns is their cluster's.
    """

    sentence: str  # why it waits
    position: int | None
    ahead: str
    estimate: Estimate | None
    changes: tuple[Change, ...]
    by_time: bool = False

    @property
    def when(self) -> str:
        """The estimate in words; that nobody can say, where nobody can."""
        return when_of(self.estimate)

    @property
    def honesty(self) -> str:
        """How good estimates were, and by how much they go."""
        found = self.estimate
        if found is None:
            return ""
        if not found.samples:
            return _("Nothing like it has ended here yet: this is a guess.")
        said = ngettext("From %(n)d past run.", "From %(n)d past runs.", found.samples)
        text = said % {"n": found.samples}
        if found.held is None:
            return text
        right = _("%(percent)d %% of past estimates held.") % {"percent": round(found.held * 100)}
        return f"{text} {right}"


def wait_of(reader: Principal, row: Workload) -> Wait | None:
    """Return what is to be said of its wait; None where it stands in no line."""
    if not row.is_seen or row.reason not in IN_LINE or row.phase not in _BEFORE:
        return None
    kind = kinds.kind_of(row.kind)
    cluster = known_cluster(row.cluster_key)
    if not row.is_waiting and not cluster.runs_images:
        return None
    fleet = Fleet([cluster], row.project.uid)
    asked = request_of(kind, row)
    made = fleet.decide(cluster, asked, uid=row.uid)
    queue = row.external_ref.get("queue") or {}
    placed = row.external_ref.get("driver") or {}
    may = row.owner_id == reader.user.pk and (row.is_waiting or row.is_held_back)
    changes = list(_sooner(made)) if may else []
    known = {field.name for field in kind.table}
    if cluster.runs_images:
        position = queue.get("position")
        if row.is_held_back:
            position = admission.position(cluster, placed)
        before = _asked_before(row)
        ahead, estimate = _by_project(before, row), _estimate_there(made, row, before)
    else:  # all of one moment; what the row keeps is of the last look, and may be older
        position, ahead = made.position or queue.get("position"), made.ahead
        estimate = made.estimate
    return Wait(
        sentence=" ".join(_sentences(row, made, position)),
        position=position,
        ahead=_ahead(reader, ahead),
        estimate=estimate,
        changes=tuple(c for c in changes if set(c.said) <= known)[:_CHANGES],
        by_time=cluster.runs_images,
    )


def _asked_before(row: Workload) -> list[tuple[UUID, str, int, int]]:
    """Return what waits on a cluster and asked before it, by project and kinds of GPU: how many
    workloads, and their GPUs. The order of their turns is the cluster's.
    """
    before = Workload.objects.filter(
        cluster_key=row.cluster_key,
        desired=Desired.RUNNING,
        phase__in=_BEFORE,
        reason__in=IN_LINE,
        gpus__gt=0,
        asked_at__lt=row.asked_at or now(),
        deleted_at__isnull=True,
    )
    counted = before.order_by().values_list("project__uid", "gpu_flavor")
    return list(counted.annotate(n=Count("pk"), all=Sum("gpus")))


def _by_project(before: list[tuple[UUID, str, int, int]], row: Workload) -> Mapping[str, int]:
    """Count by project those before it that could take what it wants."""
    wanted, found = set(row.resources.kinds), Counter[str]()
    for project, flavor, n, _gpus in before if row.gpus else ():
        kinds_of_it = set(names_in(flavor))
        if not wanted or not kinds_of_it or wanted & kinds_of_it:
            found[str(project)] += n
    return found


def _estimate_there(
    made: Decision, row: Workload, before: list[tuple[UUID, str, int, int]]
) -> Estimate | None:
    """Return when its turn comes where a cluster keeps the line: by how much of ours asked before
    it, and how long such work held GPUs there. None where nothing like it has ended yet.
    """
    gpus = sum(all_of_them for *_what, all_of_them in before) + made.request.total.gpus
    there = sum(room.total for room in made.rooms)
    return History(made.cluster).by_count(row.kind, gpus, there)


def _sentences(row: Workload, made: Decision, position: int | None) -> Iterator[str]:
    """Yield why it waits; and where GPU-hours are spent, of what and until when."""
    held = budgets.beyond(row.project, row.owner) if row.over_budget else None
    if held is None or held.id != "budget":
        yield _sentence(row, made, position)
    if held is not None:
        yield str(held)


def _sentence(row: Workload, made: Decision, position: int | None) -> str:
    for_devices = row.reason in {Reason.QUEUED, Reason.DOES_NOT_FIT}
    if for_devices and made.cluster.runs_images and made.standing.reason.id in PIECES:
        return made.sentence
    ref = row.external_ref
    if queue := ref.get("queue"):
        ref = {**ref, "queue": {**queue, "position": position}}
    found = why.on_its_way(row.reason, ref, row.resources)
    return found.text if found else str(why.info_of(row.reason, row.cluster_key).text)


def turn_in_words(row: Workload) -> str:
    """Return when its turn was expected when it began to wait; '' where nobody said, or it passed.

    Of what stands on the row: a list asks nothing for it.
    """
    noted = (row.external_ref.get("queue") or {}).get("turn")
    if not noted or row.phase not in _BEFORE:
        return ""
    first, last = (datetime.fromtimestamp(at, UTC) for at in noted)
    if last < now():
        return ""
    return _("Its turn comes %(when)s.") % {"when": when_of(Estimate(first, last, 0))}


def when_of(estimate: Estimate | None) -> str:
    if estimate is None:
        return _("Nobody can say when: too much must end first.")
    minutes = [
        max(1, round((at - now()).total_seconds() / 60))
        for at in (estimate.earliest, estimate.latest)
    ]
    if minutes[0] == minutes[1]:
        return _("in about %(time)s") % {"time": _span(minutes[0])}
    return _("in %(from)s to %(until)s") % {"from": _span(minutes[0]), "until": _span(minutes[1])}


def _span(minutes: int) -> str:
    if minutes < 90:  # noqa: PLR2004 - an hour and a half reads better in minutes
        return ngettext("%(n)d minute", "%(n)d minutes", minutes) % {"n": minutes}
    hours = round(minutes / 60)
    if hours < 48:  # noqa: PLR2004 - two days in hours
        return ngettext("%(n)d hour", "%(n)d hours", hours) % {"n": hours}
    days = round(hours / 24)
    return ngettext("%(n)d day", "%(n)d days", days) % {"n": days}


def _ahead(reader: Principal, before: Mapping[str, int]) -> str:
    """Return the projects ahead by name where the reader belongs to them, else how many."""
    if not before:
        return ""
    if reader.is_operator:  # of hundreds that are ahead the first few are named
        before = dict(islice(before.items(), _CHANGES))
        rows = Project.objects.filter(uid__in=[UUID(uid) for uid in before])
    else:
        rows = Project.objects.filter(memberships__user=reader.user)
    names = {str(uid): name for uid, name in rows.values_list("uid", "name")}
    parts = [names[uid] for uid in before if uid in names][:_CHANGES]
    if others := sum(n for uid, n in before.items() if uid not in names):
        text = ngettext("%(n)d of another project", "%(n)d of other projects", others)
        parts.append(text % {"n": others})
    return ", ".join(parts)


def _sooner(made: Decision) -> Iterator[Change]:
    """Yield changes that start it now, then one that starts it much sooner."""
    request, fleet = made.request, made.fleet
    if not request.devices.count:
        return
    later: list[tuple[float, Change]] = []
    current = _seconds(made.estimate)
    for said, asked, words in _others(made, request):
        other = fleet.decide(made.cluster, asked, uid=made.uid)
        if other.refusal is not None or not other.fits:
            continue
        if other.starts_now:
            yield Change(said, _("%(what)s: starts now") % {"what": words})
        elif (seconds := _seconds(other.estimate)) is not None and (
            current is None or seconds < current * _SOONER
        ):
            text = {"what": words, "when": when_of(other.estimate)}
            later.append((seconds, Change(said, _("%(what)s: %(when)s") % text)))
    yield from (change for _s, change in sorted(later, key=lambda one: one[0]))


def _others(made: Decision, request: Request) -> Iterator[tuple[dict[str, Any], Request, str]]:
    """Yield what it could ask for instead: another kind, fewer GPUs, fewer replicas."""
    count, named = request.devices.count, request.devices.kinds
    any_kind = replace(request, devices=DeviceRequest(count))
    rooms = made.fleet.decide(made.cluster, any_kind, uid=made.uid).rooms
    for room in rooms if named else ():
        if room.name in named:
            continue
        text = _("%(n)d × %(kind)s instead") % {"n": count, "kind": room.label}  # noqa: RUF001 - the sign
        devices = DeviceRequest(count, (room.name,))
        yield {GPU_FLAVOR.name: room.name}, replace(request, devices=devices), text
    if (together := request.together) is not None and together.required:
        for level in options_of(made.cluster.options).levels:
            if level == together.where:
                break
            words = _("In one %(level)s instead") % {"level": LABELS[level]}
            wider = replace(together, where=level)
            yield {"topology_level": level}, replace(request, together=wider), words
        loose = replace(together, required=False)
        words = _("Together only if it can be")
        yield {"topology": "preferred"}, replace(request, together=loose), words
    for fewer in _fewer(count):
        text = ngettext("%(n)d GPU instead of %(all)d", "%(n)d GPUs instead of %(all)d", fewer)
        devices = DeviceRequest(fewer, named)
        words = text % {"n": fewer, "all": count}
        yield {"gpus": fewer}, replace(request, devices=devices), words
    for fewer in _fewer(request.replicas):
        text = ngettext(
            "%(n)d replica instead of %(all)d", "%(n)d replicas instead of %(all)d", fewer
        )
        words = text % {"n": fewer, "all": request.replicas}
        yield {"replicas": fewer}, replace(request, replicas=fewer), words


def _fewer(count: int) -> list[int]:
    """Return what is less, the most first: each of a few, halves of many."""
    if count <= 4:  # noqa: PLR2004
        return list(range(count - 1, 0, -1))
    found, left = [], count // 2
    while left:
        found.append(left)
        left //= 2
    return found


def _seconds(estimate: Estimate | None) -> float | None:
    """Return the middle of its range from now."""
    if estimate is None:
        return None
    middle = estimate.earliest + (estimate.latest - estimate.earliest) / 2
    return max(0.0, (middle - now()).total_seconds())
