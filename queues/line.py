"""How claims stand in line on one machine, read once and then asked; it decides and writes nothing.

GPUs are shared by ``queues.sharing``; CPU and memory go to whoever asked first. A later claim
passes an earlier one only when it needs nothing that the earlier one waits for, or when it is
over soon enough: within ``BERTH_QUEUE_PASSING_MINUTES`` of the moment the earlier one asked, and
nobody is giving back for it. So nobody starves. Set aside, and passed by all, are claims for more
than the machine itself has, what an operator holds back, what waits for a device that can't be
read, what its own queue holds, and what waits for a budget to have room again.
"""

from __future__ import annotations

from collections import Counter
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from django.conf import settings

from clusters.models import Claim, Cluster, Device, Hold
from clusters.selectors import devices_there
from common.clock import now
from placement.decision import Amounts, Estimate, Reason
from queues.choices import Beyond
from queues.history import History
from queues.sharing import Pool, Work
from queues.tree import NO_RULES, Look, Rules
from queues.turns import Before, Turns, overlap
from queues.works import purpose_of
from runtime.spec import Resources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


_STEPS = 300  # so many ends are looked ahead


@dataclass
class _Free:
    """What nobody holds, and until when short claims may pass those who wait for more of it."""

    cpu_milli: float
    memory_mib: float
    devices: list[Device]
    kept: dict[str, datetime] = field(default_factory=dict)  # cpu, memory, gpu:<kind>
    coming: Counter[str] = field(default_factory=Counter)  # by kind: told to be given back

    def lacking(self, claim: Claim, over_by: datetime | None = None) -> list[str]:
        """Return what there is not enough of; ``over_by``: when the claim is over for sure."""
        short = []
        if claim.cpu_milli and (claim.cpu_milli > self.cpu_milli or self._closed("cpu", over_by)):
            short.append("cpu")
        if claim.memory_mib and (
            claim.memory_mib > self.memory_mib or self._closed("memory", over_by)
        ):
            short.append("memory")
        if claim.gpus > max(
            (len(self.of_kind(k, over_by)) for k in kinds_of(claim, self.devices)), default=0
        ):
            short.append(_gpu_word(claim.size.kinds))
        return short

    def _closed(self, word: str, over_by: datetime | None) -> bool:
        until = self.kept.get(word)
        return until is not None and (over_by is None or over_by > until)

    def of_kind(self, kind: str, over_by: datetime | None = None) -> list[Device]:
        if self._closed(f"gpu:{kind}", over_by):
            return []
        return [device for device in self.devices if kind_of(device) == kind]

    def take(self, claim: Claim, devices: Iterable[Device] = ()) -> None:
        self.cpu_milli -= claim.cpu_milli
        self.memory_mib -= claim.memory_mib
        taken = {device.pk for device in devices}
        self.devices = [device for device in self.devices if device.pk not in taken]

    def keep(self, words: Iterable[str], until: datetime) -> None:
        for word in words:
            self.kept[word] = min(until, self.kept.get(word, until))


@dataclass(frozen=True)
class Verdict:
    """What the queue says about one waiting claim."""

    claim: Claim
    devices: tuple[Device, ...] = ()
    lacking: tuple[str, ...] = ()
    ahead: int = 0
    never: bool = False  # more than is ever given out
    aside: bool = False  # it holds up nobody
    ceiling: str = ""  # the part of the tree that may hold no more, where that is why
    borrows: bool = False  # it would hold more than is guaranteed
    victims: tuple[UUID, ...] = ()  # who is to give back for it
    owed: bool = False  # within its guarantee, and what it lacks is being given back
    stays: bool = False  # within its guarantee: it is never told to give back what it gets

    @property
    def fits(self) -> bool:
        return not self.lacking and not self.ceiling and not self.is_held

    @property
    def is_held(self) -> bool:
        """Whether an operator holds it back, or its GPU-hours are spent."""
        return is_held(self.claim)

    @property
    def is_in_line(self) -> bool:
        """Whether others stand behind it."""
        return not self.fits and not self.aside


def is_held(claim: Claim) -> bool:
    return claim.held_at is not None or claim.over_budget == Beyond.WAITS


class Line:
    """The queue of one machine as it stands: read once, then asked without further reads.

    ``claims`` and ``look``: what of it, and of the tree, somebody has read already.
    """

    def __init__(
        self, cluster: Cluster, claims: list[Claim] | None = None, look: Look | None = None
    ) -> None:
        if claims is None:
            claims = list(Claim.objects.filter(cluster=cluster))
        self.claims = sorted(claims, key=lambda claim: (claim.asked_at, claim.pk))
        self.devices = _devices(cluster)
        if look is None and self.devices:  # where there is nothing to share, no tree
            look = Look(cluster)
        self._parts = look.parts() if look else []
        self._look = look
        held = Hold.objects.values_list("device_id", "claim__workload_uid", "device__flavor__name")
        rows = list(held)
        self.holds = {pk: uid for pk, uid, _kind in rows}
        # also of devices that are gone: who holds one has it until it ends
        self._kinds = {pk: kind or "" for pk, _uid, kind in rows}
        self._kinds |= {device.pk: kind_of(device) for device in self.devices}
        capacity = cluster.capacity or {}
        unknown = float("inf")
        self.cpu_milli = capacity.get("cpu_milli") or unknown
        self.memory_mib = capacity.get("memory_mib") or unknown

    def rules(self, project_uid: str, purpose: str, priority: str) -> Rules:
        return self._look.rules(project_uid, purpose, priority) if self._look else NO_RULES

    def is_free(self, device: Device) -> bool:
        """Whether it can be given out at this moment."""
        return device.healthy and device.pk not in self.holds

    def verdicts(self) -> list[Verdict]:
        """Judge the waiting claims in the order of their turns."""
        return self._walk(self.claims)

    def would(self, asked: Claim) -> Verdict:
        """Say how a claim would stand that is not there; its own, if it has one, is gone."""
        there = copy(self)
        there.holds = {pk: uid for pk, uid in self.holds.items() if uid != asked.workload_uid}
        others = [claim for claim in self.claims if claim.workload_uid != asked.workload_uid]
        found = there._walk([*others, asked])  # noqa: SLF001 - itself
        return next(verdict for verdict in found if verdict.claim is asked)

    def ahead(self, asked: Claim) -> Counter[str]:
        """Count, by project, those who want the same and whose turn is before a claim's."""
        others = [claim for claim in self.claims if claim.workload_uid != asked.workload_uid]
        found = self._walk([*others, asked])
        mine = next(verdict for verdict in found if verdict.claim is asked)
        before = found[: found.index(mine)]
        same = [v for v in before if v.is_in_line and overlap(v.lacking, mine.lacking)]
        return Counter(str(v.claim.project_uid) for v in same)

    def estimate(self, asked: Claim, history: History) -> Estimate | None:
        """Return when a claim's turn comes, by letting the holders end as work like them did.

        None: it never comes, or too many must end first for anybody to say.
        """
        at = now()
        soon, late = (self._comes_after(asked, history, at, late=late) for late in (False, True))
        if soon is None or late is None:
            return None
        first, last = sorted((soon, late))
        return Estimate(at + first, at + last, history.samples, history.held)

    def _comes_after(
        self, asked: Claim, history: History, at: datetime, *, late: bool
    ) -> timedelta | None:
        """Play on from this moment on copies; nothing is written."""
        there = copy(self)
        there.claims = [copy(claim) for claim in self.claims]
        there.holds = dict(self.holds)
        there.claims = [c for c in there.claims if c.workload_uid != asked.workload_uid]
        mine = copy(asked)
        there.claims.append(mine)
        when, grace = at, timedelta(seconds=settings.BERTH_RECLAIM_GRACE_SECONDS)
        for _step in range(_STEPS):
            for verdict in there.verdicts():
                for claim in there.claims:
                    if claim.workload_uid in verdict.victims:
                        claim.reclaim_at = when
                        claim.reclaim_until = when + grace
                if not verdict.fits:
                    continue
                if verdict.claim is mine:
                    return when - at
                verdict.claim.granted_at = when
                there.holds |= dict.fromkeys(
                    (device.pk for device in verdict.devices), verdict.claim.workload_uid
                )
            holding = [c for c in there.claims if c.granted_at is not None]
            if not holding:
                return None
            ends = {c.workload_uid: when + history.left(c, late=late, at=when) for c in holding}
            gone = min(holding, key=lambda c: ends[c.workload_uid])
            when = ends[gone.workload_uid]
            there.claims.remove(gone)
            there.holds = {d: u for d, u in there.holds.items() if u != gone.workload_uid}
        return None

    def most(self, kinds: tuple[str, ...]) -> Resources:
        """Return the most that work may ever be given here, with devices of one of these kinds."""
        there = self._total(self.devices)
        cpu, memory = (
            0 if n == float("inf") else int(n) for n in (there.cpu_milli, there.memory_mib)
        )
        counts = Counter(kind_of(d) for d in self.devices if not kinds or kind_of(d) in kinds)
        return Resources(cpu, memory, max(counts.values(), default=0), ",".join(kinds))

    def less_than(self, place: object, lacking: Iterable[str], size: Resources) -> Reason:
        """Return what ``place`` will never have enough of, and the most that it has."""
        words = tuple(lacking)
        most = Amounts(words, self.most(size.kinds))
        params = {"place": place, "things": Amounts(words, size), "most": most}
        return Reason("machine-has-less", params)

    def is_oversized(self, size: Claim | Resources) -> bool:
        """Whether it asks for more than the machine itself has, and waits until all else ended."""
        return size.cpu_milli > self.cpu_milli or size.memory_mib > self.memory_mib

    def pool(self, claims: Iterable[Claim] | None = None) -> Pool:
        """Return what is shared here, with what some claims hold of it; None: all of them."""
        there = {d.pk for d in self.devices if d.healthy} | self.holds.keys()
        made = Pool(self._parts, Counter(self._kinds[pk] for pk in there))
        for claim in self.claims if claims is None else claims:
            if claim.granted_at is not None and claim.gpus:
                made.take(self._work(claim))
        return made

    def _work(self, claim: Claim) -> Work:
        """Return a claim as ``queues.sharing`` knows it."""
        kind, exceeds, reclaimable = "", claim.exceeds, claim.reclaimable
        if claim.pk and claim.granted_at is None and claim.gpus and self._look:  # as it is now
            purpose = purpose_of(claim.workload_kind)
            exceeds = reclaimable = not self._look.stays(str(claim.project_uid), purpose)
        if claim.granted_at is not None:
            mine = (pk for pk, uid in self.holds.items() if uid == claim.workload_uid)
            kind = next((self._kinds[pk] for pk in mine), "")
        borrows = claim.over_budget == Beyond.BORROWS
        return Work(
            uid=str(claim.workload_uid),
            part=str(claim.project_uid),
            kinds=tuple(kinds_of(claim, self.devices)) if claim.gpus else (),
            count=claim.gpus,
            priority=claim.priority,
            asked_at=claim.asked_at.timestamp() if claim.asked_at else float("inf"),
            since=claim.since.timestamp() if claim.since else 0.0,
            exceeds=exceeds,
            # what is being given back can't be asked for twice
            reclaimable=(reclaimable or borrows) and claim.reclaim_at is None,
            borrows=borrows or claim.reclaim_at is not None,
            kind=kind,
            granted_at=claim.granted_at.timestamp() if claim.granted_at else 0.0,
        )

    def _walk(self, claims: list[Claim]) -> list[Verdict]:
        """Judge the waiting ones of some claims, each at its turn."""
        there = self._total(self.devices)
        total = self._total([d for d in self.devices if d.healthy])
        uids = {claim.workload_uid for claim in claims}
        unheld = [d for d in total.devices if self.holds.get(d.pk) not in uids]
        free = _Free(total.cpu_milli, total.memory_mib, unheld)
        pool = self.pool(claims)
        turns = Turns((c, self._work(c)) for c in claims if c.granted_at is None)
        for claim in claims:
            if claim.granted_at is None:
                continue
            free.take(claim)
            if claim.reclaim_at is not None:
                free.coming[self._work(claim).kind] += claim.gpus
        verdicts: list[Verdict] = []
        before = Before()
        never_there, unread_there = _by_size(there.lacking), _by_size(total.lacking)
        while turns:
            claim, work = turns.take(pool)
            if never := never_there(claim):
                verdicts.append(Verdict(claim, lacking=tuple(never), never=True, aside=True))
            elif is_held(claim):
                verdicts.append(Verdict(claim, aside=True))
            elif unread := unread_there(claim):
                # Who waits for a device that can't be read holds up nobody: it may be days.
                ahead = before.wanting(unread)
                verdicts.append(Verdict(claim, lacking=tuple(unread), ahead=ahead, aside=True))
            else:
                verdicts.append(self._judge(claim, work, free, pool, before))
                if verdicts[-1].is_in_line:
                    before.add(verdicts[-1].lacking)
        return verdicts

    def _judge(self, claim: Claim, work: Work, free: _Free, pool: Pool, before: Before) -> Verdict:
        """Judge one claim that is good in itself, and keep what it waits for from later ones."""
        over_by = None
        if claim.time_limit_minutes:
            over_by = now() + timedelta(minutes=claim.time_limit_minutes)
        allowed = [kind for kind in work.kinds if pool.may_have(work, kind)]
        if work.kinds and not allowed:
            _left, whose = pool.ceiling(work.part, work.kinds[0])
            return Verdict(claim, aside=True, ceiling=whose or work.part, borrows=True)
        chosen: list[Device] = []
        for kind in allowed:  # of several kinds the first that has enough (A3)
            found = free.of_kind(kind, over_by)
            if min(len(found), pool.free(work.part, kind)) >= claim.gpus:
                chosen = found[: claim.gpus]
                break
        short = [w for w in free.lacking(claim, over_by) if not w.startswith("gpu")]
        if claim.gpus and not chosen:
            short.append(_gpu_word(claim.size.kinds))
        borrows = bool(allowed) and all(pool.guarantor(work, k) is None for k in allowed)
        if not short:
            free.take(claim, chosen)
            if chosen:
                pool.take(replace(work, kind=kind_of(chosen[0])))
            # by the rules only: that its GPU-hours are spent may be over before it ends
            return Verdict(claim, devices=tuple(chosen), borrows=borrows, stays=not work.exceeds)
        ahead = before.wanting(short)
        aside = self.is_oversized(claim)
        victims, coming = ((), False) if aside else self._victims(work, allowed, free, pool)
        if not aside:
            until = claim.asked_at or now()
            until += timedelta(minutes=settings.BERTH_QUEUE_PASSING_MINUTES)
            words = [w for w in short if not w.startswith("gpu")]
            free.keep(words, until)
            if len(words) < len(short):
                # What is given back for somebody is passed on to nobody: they would be asked next.
                owed = bool(victims) or coming
                free.keep((f"gpu:{kind}" for kind in allowed), now() if owed else until)
        return Verdict(
            claim,
            lacking=tuple(short),
            ahead=ahead,
            aside=aside,
            borrows=borrows,
            victims=victims,
            owed=bool(victims) or coming,
        )

    @staticmethod
    def _victims(
        work: Work, kinds: list[str], free: _Free, pool: Pool
    ) -> tuple[tuple[UUID, ...], bool]:
        """Return who gives back for a work within its guarantee, and whether others do already."""
        for kind in kinds:
            if pool.guarantor(work, kind) is None:
                continue
            lacking = work.count - len(free.of_kind(kind))
            used = min(lacking, free.coming[kind])
            free.coming[kind] -= used
            if lacking - used <= 0:
                return (), used > 0
            if found := pool.victims(work, kind, lacking - used):
                for victim in found:
                    pool.give_back(victim)
                return tuple(UUID(victim.uid) for victim in found), used > 0
        return (), False

    def _total(self, devices: list[Device]) -> _Free:
        """All that is given out at most, devices too that can't be given out now."""
        return _Free(
            self.cpu_milli * settings.BERTH_CPU_OVERCOMMIT,
            self.memory_mib * settings.BERTH_MEMORY_OVERCOMMIT,
            list(devices),
        )


def _devices(cluster: Cluster) -> list[Device]:
    """The cheapest first, so that "any GPU" leaves the better ones to those who ask for them."""
    rows = devices_there(cluster).select_related("flavor")
    return sorted(
        rows, key=lambda d: (d.flavor.price_per_hour if d.flavor else 0, d.memory_mib, d.index)
    )


def _gpu_word(kinds: Iterable[str]) -> str:
    return f"gpu:{','.join(kinds)}".removesuffix(":")


def kind_of(device: Device) -> str:
    """Return the name of its kind; '' where it is none that is known."""
    return device.flavor.name if device.flavor else ""


def kinds_of(claim: Claim, devices: Iterable[Device]) -> list[str]:
    """Return the kinds that a claim may get, the first liked most; all devices are of one kind."""
    return list(claim.size.kinds or dict.fromkeys(kind_of(d) for d in devices))


def _by_size(look: Callable[[Claim], list[str]]) -> Callable[[Claim], list[str]]:
    """Return the same look, taken once for each size: thousands wait with a handful of them."""
    known: dict[Resources, list[str]] = {}

    def found(claim: Claim) -> list[str]:
        if claim.size not in known:
            known[claim.size] = look(claim)
        return known[claim.size]

    return found
