"""The kinds of GPU that work may ask for, in words: what is free, and what an hour costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _t

from clusters.installed import has_simulated_gpus
from clusters.selectors import flavor_use
from common.templatetags.berth import price
from runtime.models import ONE_MACHINE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from clusters.models import Flavor
    from placement.fleet import Fleet


def gpu_offers(
    fleet: Fleet, work_classes: Collection[str], cluster_key: str = ""
) -> list[tuple[str, str]]:
    """Return the kinds of GPU with what is free; ``cluster_key`` "": on any cluster."""
    found: dict[str, _Kind] = {}
    for room, flavor, pools in fleet.offers(work_classes):
        found.setdefault(room.name, _Kind(flavor)).add(room.free, room.total, pools)
    for local in flavor_use(ONE_MACHINE) if cluster_key in {"", ONE_MACHINE} else []:
        kind = found.setdefault(local.flavor.name, _Kind(local.flavor))
        kind.add(local.free, local.total)
        kind.has_simulated |= has_simulated_gpus(ONE_MACHINE)
    return [(name, kind.label) for name, kind in found.items() if kind.total]


@dataclass
class _Kind:
    flavor: Flavor
    free: int = 0
    total: int = 0
    has_simulated: bool = False
    pools: set[str] = field(default_factory=set)  # one of which must be chosen to get any

    def add(self, free: int, total: int, pools: Iterable[str] = ()) -> None:
        self.free += free
        self.total += total
        self.pools.update(pools)

    @property
    def label(self) -> str:
        text = _t("%(kind)s: %(free)d of %(total)d free") % {
            "kind": self.flavor.label,
            "free": self.free,
            "total": self.total,
        }
        if self.has_simulated:
            text = _t("%(first)s, %(then)s") % {"first": text, "then": _t("simulated")}
        if self.pools:
            only = _t("only in the pool %(names)s") % {"names": ", ".join(sorted(self.pools))}
            text = _t("%(first)s, %(then)s") % {"first": text, "then": only}
        if not (cost := self.flavor.price_per_hour):
            return text
        each = _t("%(price)s per hour") % {"price": price(cost)}
        return _t("%(first)s, %(then)s") % {"first": text, "then": each}
