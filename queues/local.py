"""The local queue of one machine: who starts, with which GPUs, and who waits.

``queues.line`` decides, and advice asks the same; here what it decides becomes true. All
decisions are made with the cluster's row locked, so that they are atomic on PostgreSQL and on
SQLite (IMMEDIATE).
"""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings
from django.db import transaction

from clusters import registry
from clusters.models import Claim, Cluster, Hold
from clusters.services.health import health_refresh
from common.clock import now
from placement.decision import Reason as Decided
from placement.decision import waiting
from queues import history
from queues.choices import Beyond
from queues.line import Line, Verdict, kind_of, kinds_of
from queues.tree import NO_RULES, Look
from queues.turns import overlap
from runtime import hints
from runtime.ports import AdmissionRequest, Granted, Reclaim, Waiting
from runtime.protocol import Unreachable
from runtime.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Positions that are refreshed soon after a release; the others follow within a minute.
_REFRESHED = 20
_REFRESHED_AFTER_S = 2.0  # one look each, whatever left the line in between


def admit(request: AdmissionRequest) -> Granted | Waiting:
    """Ask for a place, or ask again how it stands. Idempotent by ``uid``."""
    cluster = _cluster(request.cluster_key)
    if cluster.checked_at is None:
        health_refresh(key=cluster.key)
    with transaction.atomic():
        cluster = _locked(cluster)
        look = Look(cluster) if request.total.gpus else None
        claim = _claim(cluster, request, look)
        if claim.granted_at is None:
            there = Line(cluster, look=look)
            verdicts = there.verdicts()
            _decide(verdicts, mine=claim)
            claim.refresh_from_db()
            if claim.granted_at is None:
                mine = next(v for v in verdicts if v.claim.pk == claim.pk)
                _expect(there, cluster, verdicts, mine)
                return _waiting(cluster, there, mine)
        return Granted(tuple(claim.holds.values_list("device__uuid", flat=True)))


def reclaim_of(uid: str) -> Reclaim | None:
    """Return what is asked back of a workload, until it asks for a place anew."""
    claim = Claim.objects.filter(workload_uid=uid, reclaim_at__isnull=False).first()
    if claim is None or claim.reclaim_at is None or claim.reclaim_until is None:
        return None
    return Reclaim(claim.reclaim_at, claim.reclaim_until, str(claim.reclaim_for))


def release(uid: str) -> None:
    """Give back the place of a workload; what waits for it becomes due at once."""
    known = Claim.objects.filter(workload_uid=uid).select_related("cluster").first()
    if known is None:
        return
    with transaction.atomic():
        cluster = _locked(known.cluster)
        for claim in Claim.objects.filter(workload_uid=uid):
            history.keep(claim)
            claim.delete()  # with its holds
        _settle(cluster)


def position(cluster: Cluster, placed: Mapping[str, Any]) -> None:
    """A row that waits here knows its place."""


def line(cluster: Cluster) -> Sequence[Verdict]:
    """Return who waits there, in order, and for what."""
    return Line(cluster).verdicts()


def _settle(cluster: Cluster) -> None:
    """Let in whoever fits now, and let the next ones say anew for what they wait."""
    verdicts = Line(cluster).verdicts()
    _decide(verdicts)
    for kind, uids in _by_kind([v.claim for v in verdicts if not v.fits][:_REFRESHED]).items():
        hints.hint_soon(kind, uids, _REFRESHED_AFTER_S)


def grant_waiting(cluster: Cluster) -> None:
    """Let in whoever fits now; after devices or capacity changed."""
    with transaction.atomic():
        _decide(Line(_locked(cluster)).verdicts())


def hold(uid: UUID, *, held: bool) -> bool:
    """Hold back what waits, so that all others pass it, or let it stand in line again.

    It keeps its place. False: nothing so called waits.
    """
    known = Claim.objects.filter(workload_uid=uid).select_related("cluster").first()
    if known is None:
        return False
    with transaction.atomic():
        cluster = _locked(known.cluster)
        rows = Claim.objects.filter(workload_uid=uid, granted_at__isnull=True)
        if not rows.update(held_at=now() if held else None):
            return False
        _settle(cluster)
        _wake([known])
    return True


def budgets_looked_at(beyond: Mapping[UUID, str]) -> None:
    """Let claims stand as budgets say now (words of ``choices.Beyond``), then whoever may start."""
    known = Claim.objects.filter(workload_uid__in=beyond).select_related("cluster")
    differ = [claim for claim in known if claim.over_budget != beyond[claim.workload_uid]]
    for cluster in {claim.cluster for claim in differ}:
        with transaction.atomic():
            there = _locked(cluster)
            for claim in differ:
                word = beyond[claim.workload_uid]
                Claim.objects.filter(pk=claim.pk, cluster=there).update(over_budget=word)
            _settle(there)


def _cluster(key: str) -> Cluster:
    cluster = Cluster.objects.filter(key=key).first()
    if cluster is None:
        registry.driver_for(key)  # makes the local one, or raises
        cluster = Cluster.objects.filter(key=key).first()
    if cluster is None:
        message = f"There is no cluster called {key!r}."
        raise Unreachable(message)
    return cluster


def _locked(cluster: Cluster) -> Cluster:
    return Cluster.objects.select_for_update().get(pk=cluster.pk)


def _claim(cluster: Cluster, request: AdmissionRequest, look: Look | None) -> Claim:
    """Return the workload's claim; a changed size goes to the end of the queue.

    A newer launch of what gave its devices back stands where it stood. What waits goes by the
    rules of now.
    """
    size = request.total
    rules = NO_RULES
    if look is not None:
        rules = look.rules(request.project_uid, request.purpose, request.priority)
    first: dict[str, Any] = {
        "cluster": cluster,
        "workload_kind": request.kind,
        "project_uid": UUID(request.project_uid),
        "owner_uid": UUID(request.owner_uid) if request.owner_uid else None,
        "asked_at": now(),
        "priority": rules.priority,
        "exceeds": rules.exceeds,
        "reclaimable": rules.reclaimable,
        "time_limit_minutes": request.time_limit_minutes,
        "launch": request.launch,
        "over_budget": request.over_budget,
        "since": request.since,
        "size": size,
    }
    claim, made = Claim.objects.get_or_create(workload_uid=UUID(request.uid), defaults=first)
    changed = claim.size != size
    gave_back = claim.reclaim_at is not None and request.launch > claim.launch
    if (claim.over_budget, claim.since) != (request.over_budget, request.since):
        claim.over_budget, claim.since = request.over_budget, request.since
        claim.save(update_fields=["over_budget", "since"])
    if not made and claim.granted_at is None and claim.priority != rules.priority:
        claim.priority = rules.priority
        claim.save(update_fields=["priority"])
    if made or not (changed or gave_back):
        return claim
    history.keep(claim)
    claim.holds.all().delete()
    if changed:
        claim.size, claim.asked_at = size, now()
    claim.granted_at = claim.reclaim_at = claim.reclaim_until = claim.reclaim_for = None
    claim.expected_from = claim.expected_until = None
    claim.launch = request.launch
    claim.save()
    _settle(cluster)  # for whom it was asked
    claim.refresh_from_db()
    return claim


def _decide(verdicts: list[Verdict], *, mine: Claim | None = None) -> None:
    """Make the decisions true; wake the others that were let in, and who is to give back."""
    at = now()
    until = at + timedelta(seconds=settings.BERTH_RECLAIM_GRACE_SECONDS)
    for verdict in (one for one in verdicts if one.victims):
        asked = Claim.objects.filter(
            workload_uid__in=verdict.victims, granted_at__isnull=False, reclaim_at__isnull=True
        )
        told = list(asked)
        asked.update(reclaim_at=at, reclaim_until=until, reclaim_for=verdict.claim.workload_uid)
        _wake(told)
    let_in = [v for v in verdicts if v.fits]
    for verdict in let_in:
        Hold.objects.bulk_create(Hold(claim=verdict.claim, device=d) for d in verdict.devices)
    for stays in (False, True):
        same = [v.claim.pk for v in let_in if v.stays is stays]
        Claim.objects.filter(pk__in=same).update(
            granted_at=at, exceeds=not stays, reclaimable=not stays
        )
    _wake([v.claim for v in let_in if mine is None or v.claim.pk != mine.pk])


def _expect(there: Line, cluster: Cluster, verdicts: list[Verdict], mine: Verdict) -> None:
    """Keep what is expected when it first waits: how far off it was is told with later ones."""
    claim = mine.claim
    if claim.expected_until is not None or not claim.gpus:
        return
    if len(there.claims) <= history.LONG:
        found = there.estimate(claim, history.History(cluster))
    else:
        first = [v for v in verdicts[: verdicts.index(mine)] if v.is_in_line]
        before = sum(v.claim.gpus for v in first if overlap(v.lacking, mine.lacking))
        kinds = set(kinds_of(claim, there.devices))
        count = sum(1 for device in there.devices if kind_of(device) in kinds)
        few = history.History(cluster, most=history.FEW_TURNS)
        found = few.by_count(claim.workload_kind, before + claim.gpus, count)
    if found is not None:
        claim.expected_from, claim.expected_until = found.earliest, found.latest
        claim.save(update_fields=["expected_from", "expected_until"])


def _wake(claims: list[Claim]) -> None:
    for kind, uids in _by_kind(claims).items():
        hints.hint_uids(kind, uids)


def _by_kind(claims: list[Claim]) -> dict[str, list[UUID]]:
    found: dict[str, list[UUID]] = defaultdict(list)
    for claim in claims:
        found[claim.workload_kind].append(claim.workload_uid)
    return found


def _waiting(cluster: Cluster, there: Line, verdict: Verdict) -> Waiting:
    claim = verdict.claim
    size = claim.size
    reason, said = Reason.QUEUED, str(waiting(verdict.lacking, verdict.ahead + 1, size))
    if claim.over_budget == Beyond.WAITS:
        reason, said = Reason.BUDGET, str(Decided("budget-waits"))
    elif verdict.ceiling:
        reason, said = Reason.CEILING, str(Decided("ceiling"))
    elif verdict.owed:
        reason, said = Reason.RECLAIMING, str(Decided("reclaims"))
    elif verdict.never:
        reason = Reason.DOES_NOT_FIT
        said = str(there.less_than(cluster.label, verdict.lacking, size))
    elif verdict.is_held:
        reason, said = Reason.ON_HOLD, ""
    turn = None
    if claim.expected_from is not None and claim.expected_until is not None:
        turn = claim.expected_from, claim.expected_until
    return Waiting(verdict.ahead + 1, verdict.ahead, reason, said, verdict.lacking, turn)
