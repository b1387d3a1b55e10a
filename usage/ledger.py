"""Where the GPU time of an hour went: every second of every device has one cause. Pure.

Times are whole milliseconds since 1970, amounts are GPU-milliseconds: whole numbers, so that sums
are exact. A launch's ``marks`` say what it did from when on; minutes say how busy its devices were.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import isnan
from typing import NamedTuple
from uuid import UUID

from usage.models import Mark

MINUTE, HOUR = 60_000, 3_600_000
REPEATED_MOST = 24 * HOUR  # what was computed longer ago is taken to have been saved

# What held devices may do, and what may be with those that nobody holds.
HELD = ("computing", "underused", "idle", "unknown", "pull", "start", "crash", "repeated", "stop")
FREE = ("fragmented", "held_back", "unasked", "out", "others")
CAUSES = HELD + FREE
WASTE = ("idle", "underused", "pull", "start", "crash", "repeated", "stop", "fragmented",
         "held_back", "unasked", "out")  # fmt: skip
FIGURES = ("supply", "waiting", "attached", "measured", "utilised", *CAUSES)

_BY_MARK = {
    Mark.START: "start",
    Mark.PULL: "pull",
    Mark.DOWN: "crash",
    Mark.LOST: "repeated",
    Mark.STOP: "stop",
}


class Dims(NamedTuple):
    """Whose time it was. What nobody held has neither project nor owner nor kind of work."""

    cluster: str
    flavor: str
    project_uid: UUID | None = None
    project: str = ""
    owner_uid: UUID | None = None
    owner: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Hold:
    """One launch with its devices. ``end``: it is over, or it is still there at that time."""

    dims: Dims
    uid: UUID
    gpus: int
    begin: int
    end: int
    marks: tuple[tuple[int, str], ...] = ()
    failed: bool = False  # it is over and never was ready
    taken: bool = False  # its place was taken from it in the end


@dataclass(frozen=True)
class Want:
    """One launch that waits for devices."""

    dims: Dims
    gpus: int
    begin: int
    end: int


@dataclass(frozen=True)
class Supply:
    """What there was of one kind on one cluster, in devices on average; of what was free, parts."""

    cluster: str
    flavor: str
    total: float  # in service and not held by others
    out: float = 0.0
    others: float = 0.0
    fragmented: float = 0.0
    held_back: float = 0.0


def millis(at: datetime) -> int:
    """Return a moment as it is counted here."""
    return round(at.timestamp() * 1000)


Amounts = Counter[str]
# minute (milliseconds at which it begins) → mean utilisation in percent
Use = Mapping[int, float]


def ledger(
    hour: int,
    holds: Iterable[Hold],
    wants: Iterable[Want],
    minutes: Mapping[UUID, Use],
    supply: Iterable[Supply],
    *,
    busy: float,
) -> dict[Dims, Amounts]:
    """Return what became of the hour that begins at ``hour``.

    ``busy``: the least utilisation in percent at which devices are in use at all.
    """
    rows: dict[Dims, Amounts] = defaultdict(Counter)
    for hold in holds:
        begin, end = max(hold.begin, hour), min(hold.end, hour + HOUR)
        if begin < end and hold.gpus:
            row = rows[hold.dims]
            for span in _spans(hold, begin, end):
                _add(row, hold, span, minutes.get(hold.uid, {}), busy)
    attached: Counter[tuple[str, str]] = Counter()
    for dims, row in rows.items():
        attached[dims.cluster, dims.flavor] += row["attached"]
    for want in wants:
        begin, end = max(want.begin, hour), min(want.end, hour + HOUR)
        if begin < end:
            rows[want.dims]["waiting"] += (end - begin) * want.gpus
    for there in supply:
        rows[Dims(there.cluster, there.flavor)] += _unheld(
            there, attached[there.cluster, there.flavor]
        )
    return dict(rows)


class _Span(NamedTuple):
    """What a launch did for a time within the hour; ``lost``: it is computed again later."""

    begin: int
    end: int
    word: str
    lost: bool


def _spans(hold: Hold, begin: int, end: int) -> Iterator[_Span]:
    steps = [(hold.begin, str(Mark.START))]
    for at, word in hold.marks:  # a clock that moved back moves nothing back
        steps.append((min(max(at, steps[-1][0]), hold.end), word))
    lost_at = [at for at, word in steps if word in {Mark.LOST, Mark.WAIT}]
    if hold.taken:
        lost_at.append(hold.end)
    ends = [at for at, _word in steps[1:]] + [hold.end]
    for (starts, word), ends_at in zip(steps, ends, strict=True):
        first, last = max(starts, begin), min(ends_at, end)
        if first >= last:
            continue
        lost = next((at for at in lost_at if at >= last), None)
        saved = first if lost is None else min(max(first, lost - REPEATED_MOST), last)
        if first < saved:
            yield _Span(first, saved, word, lost=False)
        if saved < last:
            yield _Span(saved, last, word, lost=lost is not None)


def _add(row: Amounts, hold: Hold, span: _Span, use: Use, busy: float) -> None:
    first, last, word, lost = span
    if word == Mark.WAIT:
        row["waiting"] += (last - first) * hold.gpus
        return
    row["attached"] += (last - first) * hold.gpus
    if word != Mark.RUN:
        cause = "crash" if hold.failed and word == Mark.START else _BY_MARK[Mark(word)]
        row[cause] += (last - first) * hold.gpus
        return
    while first < last:
        minute = first // MINUTE * MINUTE
        until = min(last, minute + MINUTE)
        amount = (until - first) * hold.gpus
        rate = use.get(minute)
        first = until
        if rate is None or isnan(rate):
            row["unknown"] += amount
            continue
        part = round(amount * min(max(rate, 0.0), 100.0) / 100)
        row["measured"] += amount
        row["utilised"] += part
        if rate < busy:
            row["idle"] += amount
        elif lost:
            row["repeated"] += amount
        else:
            row["computing"] += part
            row["underused"] += amount - part


def _unheld(there: Supply, attached: int) -> Amounts:
    """Return what became of the devices that no work held; there is no less than was held."""
    out, others = round(there.out * HOUR), round(there.others * HOUR)
    free = max(0, round(there.total * HOUR) - attached)
    fragmented = min(free, round(there.fragmented * HOUR))
    held_back = min(free - fragmented, round(there.held_back * HOUR))
    return Counter(
        supply=attached + free,
        fragmented=fragmented,
        held_back=held_back,
        unasked=free - fragmented - held_back,
        out=out,
        others=others,
    )
