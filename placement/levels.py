"""Which nodes stand together, and whether one such part of a cluster holds a request. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils.translation import gettext_lazy as _

from clusters.options import HOST, HOST_LABEL, RACK, UNIT
from placement.decision import IN_USE, Reason, Standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from placement.decision import Request

# What is said of devices that are there, but not together.
PIECES = frozenset({"in-pieces", "not-in-one", "not-in-one-but"})
LABELS = {UNIT: _("scalable unit"), RACK: _("rack"), HOST: _("host")}


@dataclass(frozen=True)
class Spot:
    """A node with its devices of one kind: all of them, and those that are free now."""

    name: str
    labels: Mapping[str, str]
    devices: int
    free: int


@dataclass(frozen=True)
class Room:
    """How many devices one part has for replicas of one size, at most: ever, and now."""

    most: int = 0
    free: int = 0


def apart(
    request: Request, kinds: Sequence[Sequence[Spot]], levels: Mapping[str, str]
) -> Standing | None:
    """Return how a request stands where what there is, or what is free, is in too small pieces.

    A replica is on one node, and all of them in one part of the cluster where that is required.
    None: neither. ``kinds``: the nodes with each kind that will do; all replicas get the same.
    ``levels``: the labels of each, the widest first.
    """
    count, together = request.devices.count, request.together
    if together is None or not together.required:
        free = max((spot.free for spots in kinds for spot in spots), default=0)
        places = max((sum(s.free // count for s in spots) for spots in kinds), default=0)
        if places >= request.replicas:
            return None
        return _waits(HOST, free, count)
    where, asked = together.where, request.total.gpus
    found = _room(kinds, levels, where, count)
    said = {"level": LABELS[where], "asked": asked, "most": found.most}
    if found.most >= asked:
        return None if found.free >= asked else _waits(where, found.free, asked)
    above = list(levels)[: list(levels).index(where)]
    for level in reversed(above):
        if _room(kinds, levels, level, count).most >= asked:
            reason = Reason("not-in-one-but", {**said, "wider": LABELS[level]})
            return Standing(reason, fits=False)
    return Standing(Reason("not-in-one", said), fits=False)


def _waits(where: str, free: int, asked: int) -> Standing:
    """Say the largest piece, where that is what is too small."""
    said = {"level": LABELS[where], "free": free, "asked": asked}
    told = Reason("in-pieces", said) if 0 < free < asked else IN_USE
    return Standing(told, waits_for=("gpu",))


def _room(
    kinds: Iterable[Iterable[Spot]], levels: Mapping[str, str], where: str, count: int
) -> Room:
    rooms = [_largest(spots, levels, where, count) for spots in kinds]
    most, free = ([getattr(room, name) for room in rooms] for name in ("most", "free"))
    return Room(max(most, default=0), max(free, default=0))


def _largest(spots: Iterable[Spot], levels: Mapping[str, str], where: str, count: int) -> Room:
    """Return the most that one part of the level ``where`` has for replicas of ``count`` devices.

    A rack is one of its unit. A node that does not say where it stands is in no part.
    """
    known = list(levels)
    names = [levels[level] for level in known[: known.index(where) + 1]]
    most: dict[tuple[str, ...], int] = defaultdict(int)
    free: dict[tuple[str, ...], int] = defaultdict(int)
    for spot in spots:
        labels = {**spot.labels, HOST_LABEL: spot.name}
        part = tuple(labels.get(name, "") for name in names)
        if part[-1]:
            most[part] += spot.devices // count * count
            free[part] += spot.free // count * count
    return Room(max(most.values(), default=0), max(free.values(), default=0))
