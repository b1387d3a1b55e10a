"""A change to the tree before it is saved: whether it is good, and its effect on each cluster."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Sum
from django.utils.translation import gettext as _

from clusters.demand import Placed
from clusters.device_use import Told, told_of
from clusters.models import Cluster, Flavor
from common.clock import now
from common.errors import Invalid, NotFound
from queues import hooks
from queues.choices import Purpose
from queues.effect import Moment, Promise, Waits, moment, promises, replay
from queues.models import MAX_DEVICES
from queues.sharing import ROOT, Share
from queues.tree import Entry, Where, entries, tree_on
from queues.works import Standing, standings
from quotas.choices import GPUS
from quotas.models import Limit, Reservation

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

PAST = timedelta(days=30)
MAX_NAME = 63
MAX_WEIGHT = 1000
MAX_MINUTES = 60 * 24 * 366


@dataclass(frozen=True)
class Change:
    """What shall be otherwise about one part; None stays. A share that is empty is taken away."""

    name: str | None = None
    parent: str | None = None
    weight: Decimal | None = None
    build_exceeds: bool | None = None
    longest: Mapping[str, int] = field(default_factory=dict)  # purpose → minutes; 0: no limit
    each_gpus: int | None = None  # 0: no limit
    shares: Mapping[Where, Share] = field(default_factory=dict)

    def applied(self, entry: Entry) -> Entry:
        said: dict[str, Any] = {
            name: value
            for name in ("name", "parent", "weight", "build_exceeds")
            if (value := getattr(self, name)) is not None
        }
        if self.longest:
            said["longest"] = {k: n for k, n in {**entry.longest, **self.longest}.items() if n}
        if self.each_gpus is not None:
            said["each_gpus"] = self.each_gpus or None
        shares = {**entry.shares, **self.shares}
        kept = {where: share for where, share in shares.items() if share != Share()}
        return replace(entry, **said, shares=kept)


@dataclass(frozen=True)
class Named:
    """Work of which an effect tells, by the names that operators see."""

    uid: str
    name: str
    project: str
    owner: str = ""
    url: str = ""
    gpus: int = 0


@dataclass(frozen=True)
class Seen:
    """The past of one part under the tree as it is, and as it would be."""

    key: str
    name: str
    before: Waits
    after: Waits

    @property
    def is_other(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True)
class Effect:
    """What follows on one cluster."""

    cluster: Cluster
    promised: list[Promise]
    starts: list[Named]
    asked: list[Named]  # told to give back
    waits: list[Named]  # would start now as the tree is, and no more
    past: list[Seen]
    labels: Mapping[str, str]  # of kinds
    names: Mapping[str, str]  # of parts

    @property
    def kinds(self) -> list[dict[str, Any]]:
        """The kinds of which something is promised, in words."""
        return [
            {
                "promise": promise,
                "label": self.labels.get(promise.kind, promise.kind),
                "short": [(self.names[key], own, theirs) for key, own, theirs in promise.short],
            }
            for promise in self.promised
            if promise.promised
        ]

    @property
    def past_differs(self) -> list[Seen]:
        return [seen for seen in self.past if seen.is_other]

    def as_json(self) -> dict[str, Any]:
        """Return it in short, for the audit log."""
        return {
            "cluster": self.cluster.key,
            "starts": [one.name for one in self.starts],
            "asked": [one.name for one in self.asked],
            "waits": [one.name for one in self.waits],
            "promised": {p.kind: [p.promised, p.exists] for p in self.promised if p.promised},
            "past": {
                seen.name: [_short(seen.before), _short(seen.after)] for seen in self.past_differs
            },
        }


def _short(waits: Waits) -> dict[str, Any]:
    return {"p50": waits.half, "p90": waits.most, "reclaims": waits.reclaims}


@dataclass(frozen=True)
class Above:
    """Somebody who has, or asked for, more than each person in a project may from then on."""

    project: str
    user: str
    gpus: int
    limit: int


@dataclass(frozen=True)
class Plan:
    """The tree before and after, checked, and what follows."""

    before: Mapping[str, Entry]
    after: Mapping[str, Entry]
    effects: tuple[Effect, ...] = ()

    @cached_property
    def above(self) -> list[Above]:
        """Who has more than a limit of each person that is new or lower; one query, if any is."""
        lower: dict[UUID, int] = {
            UUID(key): entry.each_gpus
            for key, entry in self.after.items()
            if entry.each_gpus is not None
            and entry.each_gpus < (self.before.get(key, entry).each_gpus or MAX_DEVICES + 1)
        }
        if not lower:
            return []
        rows = Reservation.objects.filter(project__uid__in=list(lower), resource=GPUS)
        own = Limit.objects.filter(
            project=OuterRef("project"), user=OuterRef("owner"), resource=GPUS
        )
        has = rows.exclude(Exists(own)).order_by().values("project__uid", "owner__username")
        found = [
            Above(self.after[str(uid)].name, name, gpus, lower[uid])
            for uid, name, gpus in has.annotate(gpus=Sum("amount")).values_list(
                "project__uid", "owner__username", "gpus"
            )
            if gpus > lower[uid]
        ]
        return sorted(found, key=lambda one: (one.project, one.user))

    @property
    def changed(self) -> list[str]:
        return [k for k, entry in self.after.items() if self.before.get(k) != entry]


def plan(changes: Mapping[str, Change], *, on: Collection[str] | None = None) -> Plan:
    """Check some changes, by the keys of parts, and say their effect.

    ``on``: the clusters that are looked at; None: those on which something changes.
    """
    before = entries()
    lacking = [key for key in changes if key not in before]
    if lacking:
        raise NotFound(_("There is no such part of the tree."))
    after = {
        key: changes[key].applied(entry) if key in changes else entry
        for key, entry in before.items()
    }
    check(before, after)
    if on is None:
        on = clusters_of(before, after)
    return Plan(before, after, tuple(effects(before, after, on)))


def clusters_of(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> set[str]:
    """Return the clusters on which something may follow: those where a changed part has a share.

    A part that moves, or weighs otherwise, matters wherever anything is laid down.
    """
    found: set[str] = set()
    for key in {*before, *after}:
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        shapes = [(e.parent, e.weight, e.build_exceeds) for e in (old, new) if e]
        if len(set(shapes)) > 1:
            return set(Cluster.objects.filter(enabled=True).values_list("key", flat=True))
        wheres = {w for e in (old, new) if e for w in e.shares}
        empty = Entry(key, "")
        found |= {w[0] for w in wheres if (old or empty).share(w) != (new or empty).share(w)}
    return found


def check(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> None:
    """Raise unless the tree that would be is one."""
    names = Counter(entry.name.casefold() for entry in after.values() if not entry.is_project)
    wheres: set[Where] | None = None
    wrong: dict[str, list[str]] = {}
    for key, entry in after.items():
        old = before.get(key)
        if entry == old:
            continue
        if wheres is None:
            keys = Cluster.objects.values_list("key", flat=True)
            kinds = list(Flavor.objects.values_list("name", flat=True))
            wheres = {(key, kind) for key in keys for kind in kinds}
        said = {
            "name": _name_problem(entry, names),
            "weight": _weight_problem(entry.weight),
            "parent": _place_problem(entry, after),
            "longest": _longest_problem(entry),
            "each_gpus": _each_problem(entry),
            "guarantees": _shares_problem(entry, old, wheres),
        }
        for name, problem in said.items():
            if problem:
                wrong.setdefault(name, []).append(problem)
    if wrong:
        first = next(iter(wrong.values()))[0]
        raise Invalid(first, fields=wrong)


def _name_problem(entry: Entry, names: Mapping[str, int]) -> str:
    if entry.is_project:
        return ""
    if not entry.name.strip() or len(entry.name) > MAX_NAME:
        return _("A name of 1 to %(n)d characters.") % {"n": MAX_NAME}
    return _("There is an organisation so called.") if names[entry.name.casefold()] > 1 else ""


def _weight_problem(weight: Decimal) -> str:
    if weight.is_finite() and 0 <= weight <= MAX_WEIGHT:
        return ""
    return _("A weight is a number from 0 to %(n)d.") % {"n": MAX_WEIGHT}


def _longest_problem(entry: Entry) -> str:
    good = all(
        purpose in Purpose.values and type(n) is int and 0 < n <= MAX_MINUTES
        for purpose, n in entry.longest.items()
    )
    return "" if good else _("For each purpose a number of minutes, at most one year.")


def _each_problem(entry: Entry) -> str:
    if entry.each_gpus is None or (entry.is_project and 0 < entry.each_gpus <= MAX_DEVICES):
        return ""
    return _("A whole number of GPUs, of a project.")


def _shares_problem(entry: Entry, old: Entry | None, wheres: Collection[Where]) -> str:
    for where, share in entry.shares.items():
        if old is not None and old.share(where) == share:
            continue
        if where not in wheres:
            return _("There is no such cluster, or no such kind of GPU.")
        if problem := share_problem(share):
            return f"{entry.name}: {problem}"
    return ""


def share_problem(share: Share) -> str:
    """Return what is wrong with numbers that contradict each other; '' where nothing is."""
    numbers = [n for n in (share.guaranteed, share.most, share.lends) if n is not None]
    if any(not 0 <= n <= MAX_DEVICES for n in numbers):
        return _("Whole numbers from 0.")
    if share.most is not None and share.most < share.guaranteed:
        return _("The most must not be less than what is guaranteed.")
    if share.lends is not None and share.lends > share.guaranteed:
        return _("No more can be lent than is guaranteed.")
    return ""


def _place_problem(entry: Entry, after: Mapping[str, Entry]) -> str:
    if entry.parent == ROOT:
        return ""
    above = after.get(entry.parent)
    if above is None or above.is_project:
        return _("There is no such organisation.")
    seen = {entry.key}
    while above is not None:
        if above.key in seen:
            return _("An organisation can't stand below itself.")
        seen.add(above.key)
        above = after.get(above.parent)
    return ""


def effects(
    before: Mapping[str, Entry], after: Mapping[str, Entry], on: Collection[str]
) -> Iterable[Effect]:
    """Yield what follows on some clusters."""
    labels = dict(Flavor.objects.order_by("position", "name").values_list("name", "label"))
    names = {key: entry.name for key, entry in {**before, **after}.items()}
    rows = list(Cluster.objects.filter(key__in=on).order_by("name"))
    for standing in standings(rows).values():
        key = standing.cluster.key
        old, new = tree_on(key, before.values()), tree_on(key, after.values())
        was = moment(old, standing.capacity, standing.under(old))
        will = moment(new, standing.capacity, standing.under(new))
        past = [one for some in hooks.past_work(key, now() - PAST) for one in some]
        seen = replay(old, standing.capacity, past), replay(new, standing.capacity, past)
        yield Effect(
            cluster=standing.cluster,
            promised=promises(new.parts, standing.capacity),
            past=[
                Seen(part, names[part], seen[0][part], seen[1].get(part, Waits()))
                for part in sorted(seen[0], key=lambda p: names.get(p, ""))
                if part in names
            ],
            labels=labels,
            names=names,
            **_differs(standing, was, will, names),
        )


def _differs(
    standing: Standing, was: Moment, will: Moment, names: Mapping[str, str]
) -> dict[str, list[Named]]:
    """Return who starts, is asked and waits as the tree would be, and not as it is."""
    starts = [uid for uid in will.starts if uid not in was.starts]
    asked = [uid for uid in will.asked if uid not in was.asked]
    waits = [uid for uid in was.starts if uid in will.waits]
    works = {work.uid: work for work in standing.works}
    wanted = [uid for uid in (*starts, *asked, *waits) if uid in works]
    told = told_of(
        Placed(
            kind=standing.kind_of_work[uid],
            cluster_key=standing.cluster.key,
            uid=UUID(uid),
            gpus=works[uid].count,
            flavor=works[uid].kind,
            node="",
        )
        for uid in wanted
    )

    def named(uids: Iterable[str]) -> list[Named]:
        found = []
        for uid in uids:
            one: Told = told[UUID(uid)]
            work = works[uid]
            project = one.project or names.get(work.part, "")
            found.append(Named(uid, one.name, project, one.owner, one.url, work.count))
        return found

    return {"starts": named(starts), "asked": named(asked), "waits": named(waits)}
