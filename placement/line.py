"""How claims stand in line on one machine, read once and then asked; it decides and writes nothing.

First come, first served for each kind of resource. A later claim may pass an earlier one only
when it needs nothing that the earlier one waits for; so nobody starves. Set aside, and passed by
all, are claims for more than the machine itself has, what an operator holds back, and what waits
for a device that can't be read.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from uuid import UUID

from django.conf import settings

from clusters.models import Claim, Cluster, Device, Hold
from clusters.selectors import devices_there
from placement.decision import Amounts, Reason, names_in
from runtime.protocol import Resources


@dataclass
class _Free:
    """What nobody holds. ``block`` keeps what an earlier waiting claim lacks from later ones."""

    cpu_milli: float
    memory_mib: float
    devices: list[Device]
    blocked: set[str] = field(default_factory=set)

    def lacking(self, claim: Claim) -> list[str]:
        short = []
        if claim.cpu_milli and (claim.cpu_milli > self.cpu_milli or "cpu" in self.blocked):
            short.append("cpu")
        if claim.memory_mib and (claim.memory_mib > self.memory_mib or "memory" in self.blocked):
            short.append("memory")
        if claim.gpus > len(self.choice(claim)):
            short.append(_gpu_word(claim.size.kinds))
        return short

    def matching(self, kinds: Collection[str]) -> list[Device]:
        """The devices of these kinds, of any where none is named."""
        return [
            one
            for one in self.devices
            if not kinds or (one.flavor is not None and one.flavor.name in kinds)
        ]

    def choice(self, claim: Claim) -> list[Device]:
        """The devices to take from: of several kinds the first that has enough (A3)."""
        kinds = claim.size.kinds
        found = [self.matching((kind,)) for kind in kinds] if kinds else [self.matching(())]
        enough = [devices for devices in found if len(devices) >= claim.gpus]
        return enough[0] if enough else []

    def take(self, claim: Claim) -> list[Device]:
        self.cpu_milli -= claim.cpu_milli
        self.memory_mib -= claim.memory_mib
        chosen = self.choice(claim)[: claim.gpus]
        self.devices = [d for d in self.devices if d not in chosen]
        return chosen

    def block(self, claim: Claim, short: Iterable[str]) -> None:
        for word in short:
            if word in {"cpu", "memory"}:
                self.blocked.add(word)
            else:
                kept = self.matching(claim.size.kinds)
                self.devices = [d for d in self.devices if d not in kept]


@dataclass(frozen=True)
class Verdict:
    """What the queue says about one waiting claim."""

    claim: Claim
    devices: tuple[Device, ...] = ()
    lacking: tuple[str, ...] = ()
    ahead: int = 0
    never: bool = False  # more than is ever given out
    aside: bool = False  # it holds up nobody

    @property
    def fits(self) -> bool:
        return not self.lacking and not self.is_held

    @property
    def is_held(self) -> bool:
        return self.claim.held_at is not None


class Line:
    """The queue of one machine as it stands: read once, then asked without further reads."""

    def __init__(self, cluster: Cluster) -> None:
        self._claims = list(Claim.objects.filter(cluster=cluster).order_by("asked_at", "pk"))
        self.devices = _devices(cluster)
        self._holds = dict(Hold.objects.values_list("device_id", "claim__workload_uid"))
        capacity = cluster.capacity or {}
        unknown = float("inf")
        self.cpu_milli = capacity.get("cpu_milli") or unknown
        self.memory_mib = capacity.get("memory_mib") or unknown

    def is_free(self, device: Device) -> bool:
        """Whether it can be given out at this moment."""
        return device.healthy and device.pk not in self._holds

    def verdicts(self) -> list[Verdict]:
        return self._walk(self._claims)

    def would(self, size: Resources, *, uid: UUID | None = None) -> Verdict:
        """Say how work of this size would stand; ``uid``: its own claim, if it has one, is gone."""
        asked = Claim(workload_uid=uid or UUID(int=0))
        asked.size = size
        others = [claim for claim in self._claims if claim.workload_uid != uid]
        return self._walk([*others, asked])[-1]

    def most(self, kinds: tuple[str, ...]) -> Resources:
        """Return the most that work may ever be given here, with devices of these kinds."""
        there = self._total(self.devices)
        cpu, memory = (
            0 if n == float("inf") else int(n) for n in (there.cpu_milli, there.memory_mib)
        )
        return Resources(cpu, memory, len(there.matching(kinds)), ",".join(kinds))

    def less_than(self, place: object, lacking: Iterable[str], size: Resources) -> Reason:
        """Return what ``place`` will never have enough of, and the most that it has."""
        words = tuple(lacking)
        most = Amounts(words, self.most(size.kinds))
        params = {"place": place, "things": Amounts(words, size), "most": most}
        return Reason("machine-has-less", params)

    def is_oversized(self, size: Claim | Resources) -> bool:
        """Whether it asks for more than the machine itself has, and waits until all else ended."""
        return size.cpu_milli > self.cpu_milli or size.memory_mib > self.memory_mib

    def _walk(self, claims: list[Claim]) -> list[Verdict]:
        """Judge the waiting ones of some claims in order."""
        there = self._total(self.devices)
        total = replace(there, devices=[d for d in there.devices if d.healthy])
        uids = {claim.workload_uid for claim in claims}
        unheld = [d for d in total.devices if self._holds.get(d.pk) not in uids]
        free = _Free(total.cpu_milli, total.memory_mib, unheld)
        for claim in claims:
            if claim.granted_at is not None:
                free.cpu_milli -= claim.cpu_milli
                free.memory_mib -= claim.memory_mib
        verdicts: list[Verdict] = []
        for claim in claims:
            if claim.granted_at is not None:
                continue
            if never := there.lacking(claim):
                verdicts.append(Verdict(claim, lacking=tuple(never), never=True, aside=True))
                continue
            if claim.held_at is not None:
                verdicts.append(Verdict(claim, aside=True))
                continue
            # Who waits for a device that can't be read holds up nobody: it may be days.
            unread = total.lacking(claim)
            if short := unread or free.lacking(claim):
                ahead = sum(1 for v in verdicts if _overlap(v, short))
                aside = bool(unread) or self.is_oversized(claim)
                verdicts.append(Verdict(claim, lacking=tuple(short), ahead=ahead, aside=aside))
                if not aside:
                    free.block(claim, short)
            else:
                verdicts.append(Verdict(claim, devices=tuple(free.take(claim))))
        return verdicts

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


def _overlap(verdict: Verdict, short: list[str]) -> bool:
    if verdict.fits or verdict.aside:
        return False
    if set(verdict.lacking) & set(short):
        return True
    return any(
        not one or not other or set(one) & set(other)
        for one in _kinds_in(verdict.lacking)
        for other in _kinds_in(short)
    )


def _kinds_in(lacking: Iterable[str]) -> list[tuple[str, ...]]:
    """The names in each word about GPUs; none: of any kind."""
    return [names_in(w.partition(":")[2]) for w in lacking if w == "gpu" or w.startswith("gpu:")]
