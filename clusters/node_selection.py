"""What "any kind" means, and which nodes kinds of GPU and pools together leave. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusters.accelerators import is_part, terms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

    from clusters.models import Flavor, Pool


@dataclass(frozen=True)
class Work:
    """What decides, besides its size and project, where work may go."""

    kind: str = "notebook"
    pool: str = ""
    network: str = ""


def any_kind(counted: Iterable[tuple[Flavor, int]]) -> list[Flavor]:
    """Return the kinds of which one will do for "any", given how many there are of each.

    Whole devices of one resource, since a pod names one: that of which there are the most; of
    equally many the first. What is free at the moment does not count: a program is made for one
    maker's devices, and limits are held for these kinds before anything is placed.
    """
    whole = [(flavor, n) for flavor, n in counted if flavor.node_labels and not is_part(flavor)]
    sums: Counter[str] = Counter()
    for flavor, n in whole:
        sums[flavor.resource] += n
    most = max(sums, key=lambda resource: sums[resource], default="")
    return [flavor for flavor, _n in whole if flavor.resource == most]


def hidden_kinds(pools: Iterable[Pool], kind: str, project_uid: Any) -> set[str]:
    """Return the kinds of GPU that only pools have which are closed to such work."""
    theirs: set[str] = set()
    ours: set[str] = set()
    for pool in pools:
        names = {flavor.name for flavor in pool.flavors.all()}
        (ours if pool.admits(kind, project_uid) else theirs).update(names)
    return theirs - ours


def kinds_in(pools: Sequence[Pool], names: Iterable[str]) -> set[str]:
    """Return which of these kinds work may ask for that goes into one of the pools."""
    listed = [{flavor.name for flavor in pool.flavors.all()} for pool in pools]
    # a pool that lists none may have any
    return {name for name in names if any(not some or name in some for some in listed)}


def pools_with(pools: Sequence[Pool], flavors: Sequence[Flavor]) -> list[Pool]:
    """Return the pools in which there may be one of the kinds; all of them when none is asked."""
    return [pool for pool in pools if not flavors or _terms(flavors, pool)]


def nodes_with(
    flavors: Sequence[Flavor], pools: Sequence[Pool]
) -> tuple[dict[str, str], list[tuple[int, dict[str, str]]]]:
    """Return the labels that each node must carry, and (rank, labels) of which it carries one.

    One pool's labels are for every node; of several each has its own nodes and its own kinds.
    """
    if len(pools) > 1 and not flavors:
        return {}, [(0, dict(pool.node_labels)) for pool in pools]
    if len(pools) > 1:
        found = [(rank, term) for pool in pools for rank, term in _terms(flavors, pool)]
        return {}, sorted(found, key=lambda pair: pair[0])
    labels = dict(pools[0].node_labels) if pools else {}
    return labels, [(rank, term) for rank, f in enumerate(flavors) for term in terms(f.node_labels)]


def tolerations_of(pools: Iterable[Pool]) -> tuple[Mapping[str, str], ...]:
    """Return those of all pools, each once."""
    found: list[Mapping[str, str]] = []
    for pool in pools:
        found += [entry for entry in pool.tolerations if entry not in found]
    return tuple(found)


def kept_off(foreign: Iterable[Pool], bound: Collection[Pool]) -> dict[str, tuple[str, ...]]:
    """Return the labels of pools that are reserved for others, less what work is bound to carry.

    A reserved pool has one label.
    """
    found: dict[str, tuple[str, ...]] = {}
    for pool in foreign:
        for name, value in list(pool.node_labels.items())[:1]:
            if bound and all(row.node_labels.get(name) == value for row in bound):
                continue
            if value not in found.get(name, ()):
                found[name] = (*found.get(name, ()), value)
    return found


def _terms(flavors: Sequence[Flavor], pool: Pool) -> list[tuple[int, dict[str, str]]]:
    """Labels of a kind and of the pool on one node, where they don't contradict each other."""
    inside = kinds_in([pool], (flavor.name for flavor in flavors))
    return [
        (rank, {**term, **pool.node_labels})
        for rank, flavor in enumerate(flavors)
        if flavor.name in inside
        for term in terms(flavor.node_labels)
        if _agree(term, pool.node_labels)
    ]


def _agree(some: Mapping[str, str], others: Mapping[str, str]) -> bool:
    return all(others.get(name, value) == value for name, value in some.items())
