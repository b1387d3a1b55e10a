"""Goodput of one run: what its time came to, as parts that add up to wall time x GPUs (G9).

Each launch counts with the GPUs that it had, or waited for: a run may go on with fewer.

A run is what somebody started once: its launch, and those before it that lost their place and of
which it is the going on. Times are whole milliseconds since 1970, as in the ledger. Work that a
restart does again is not productive: what was computed since the last checkpoint that is known,
or since the program began. The definition is that of ``ml-goodput-measurement``: productive time
of all time, where a step that is computed again counts once.
"""

from __future__ import annotations

import gzip
import heapq
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import isnan
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Expression

from common.clock import now
from metrics.models import HourSample, MinuteSample
from metrics.sampling import GPU_BUSY
from runtime.reasons import Reason
from usage.ledger import HOUR, MINUTE, millis
from usage.listeners import LOST, TAKEN
from usage.models import Interval, Mark, Wait
from usage.told import Start, Steps, Told, steps_of, told_of

# In the order in which they are shown; only ``run`` is productive.
CAUSES = ("run", "checkpoint", "restore", "data", "prepare", "accelerator", "other", "idle",
          "repeated", "restart", "queue", "smoke", "suspended", "pull", "start",
          "end")  # fmt: skip
# What a program tells apart in the time that it runs; where two are told at once, the first.
TOLD = ("checkpoint", "restore", "data", "accelerator", "prepare", "other")
NOTHING = Told()
EMPTY: Mapping[int, Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True)
class Held:
    """One launch. ``begin``: it got its place; ``taken``: that was taken from it in the end.

    ``lost``: with its machine or node, so that what follows is its starting again.
    """

    launch: int
    asked: int
    begin: int
    end: int
    marks: Sequence[tuple[int, str]] = ()
    taken: bool = False
    lost: bool = False
    gpus: int = 0


class Part(NamedTuple):
    """What a run did for a time."""

    begin: int
    end: int
    cause: str
    launch: int


@dataclass
class Goodput:
    """A run in parts, without a gap. Where none of its launches has GPUs time alone is told."""

    sizes: Mapping[int, int]  # launch -> its GPUs
    parts: list[Part]
    is_over: bool
    measured: bool  # whether it is known how busy its GPUs were
    steps: Steps | None = None  # as its program told; None: it did not
    sums: dict[str, int] = field(init=False)  # milliseconds by cause, without those that are 0
    weighed: dict[str, int] = field(init=False)  # the same, each times the GPUs of its launch

    def __post_init__(self) -> None:
        found, weighed = dict.fromkeys(CAUSES, 0), dict.fromkeys(CAUSES, 0)
        for part in self.parts:
            found[part.cause] += part.end - part.begin
            weighed[part.cause] += (part.end - part.begin) * self.gpus_of(part.launch)
        self.sums = {cause: length for cause, length in found.items() if length}
        self.weighed = {cause: weighed[cause] for cause in self.sums}

    def packed(self) -> bytes:
        """Return it as it is kept once a run is over; its parts have no gap.

        A version before reads it, too: where it asks whether there are GPUs stand those of each
        launch.
        """
        its = self.steps
        steps = its and [its.count, its.mean, its.usual, list(its.slowest)]
        parts = [[one.end - one.begin, CAUSES.index(one.cause), one.launch] for one in self.parts]
        begin = self.parts[0].begin if self.parts else 0
        sizes = list(self.sizes.items()) if self.has_gpus else []
        said = [CAUSES, begin, parts, self.gpus, sizes, self.measured, steps]
        return gzip.compress(json.dumps(said, separators=(",", ":")).encode())

    @classmethod
    def unpacked(cls, content: bytes) -> Goodput:
        causes, at, parts, gpus, sizes, measured, steps = json.loads(gzip.decompress(content))
        if not isinstance(sizes, list):  # of a version before: the GPUs of the latest launch only
            sizes = [(launch, gpus) for _length, _cause, launch in parts] if sizes else []
        found = []
        for length, cause, launch in parts:
            found.append(Part(at, at + length, causes[cause], launch))
            at += length
        told = Steps(*steps) if steps else None
        return cls(dict(sizes), found, True, measured, told)

    @property
    def has_gpus(self) -> bool:
        return any(self.sizes.values())

    def gpus_of(self, launch: int) -> int:
        return self.sizes.get(launch) or 1

    @property
    def gpus(self) -> int:
        """How many its latest launch has."""
        return self.gpus_of(max(self.sizes, default=0))

    @property
    def fewest(self) -> int:
        return min(map(self.gpus_of, self.sizes), default=self.gpus)

    @property
    def most(self) -> int:
        return max(map(self.gpus_of, self.sizes), default=self.gpus)

    @property
    def wall(self) -> int:
        return sum(self.sums.values())

    @property
    def whole(self) -> int:
        """What all of it is a part of: the time of each launch x its GPUs."""
        return sum(self.weighed.values())

    @property
    def ratio(self) -> float | None:
        return self.weighed.get("run", 0) / self.whole if self.whole else None

    @property
    def greatest_loss(self) -> str | None:
        lost = {cause: length for cause, length in self.weighed.items() if cause != "run"}
        return max(lost, key=lambda cause: lost[cause]) if lost else None


def parts(
    run: Sequence[Held],
    use: Mapping[int, float],
    told: Told = NOTHING,
    *,
    busy: float,
    smoke: Sequence[tuple[int, int]] = (),
) -> Iterator[Part]:
    """Yield the parts of a run in their order.

    ``use``: minute → percent, where it is known. ``smoke``: when its smoke runs ran.
    """
    began_once, since, until = False, 0, run[0].asked if run else 0
    steps: list[tuple[int, int, str, int]] = []  # begin, end, what the engine saw, launch
    waits = Mark.WAIT
    for held in run:
        begin = max(held.begin, until)
        steps.append((until, begin, waits, held.launch))
        waits = Mark.LOST if held.lost else Mark.WAIT
        at, word = begin, str(Mark.START)
        for moment, mark in held.marks:  # a clock that moved back moves nothing back
            moment = min(max(moment, at), max(held.end, begin))  # noqa: PLW2901
            steps.append((at, moment, word, held.launch))
            at, word = moment, mark
        until = max(held.end, at)
        steps.append((at, until, word, held.launch))
    told = _at_its_restarts(told, [first for first, _last, word, _n in steps if word == Mark.RUN])
    ends = {held.launch: max(held.end, held.begin) for held in run if held.taken}
    restarts = [first for first, _last, word, _n in steps if word in _AGAIN] + list(ends.values())
    for first, last, word, launch in steps:
        if first >= last:
            continue
        if word == Mark.RUN:
            again = min((at for at in restarts if at >= last), default=None)
            starts = [n for n, one in enumerate(told.starts) if since <= one.begin < last]
            whole = Part(first, last, "run", launch)
            yield from _of_running(whole, use, told, starts, again, busy)
            began_once, since = True, last
        else:
            cause = (_LATER if began_once else _FIRST)[Mark(word)]
            apart = [(*pair, "smoke") for pair in smoke if cause == "queue"]
            yield from _cut(Part(first, last, cause, launch), apart)


def _at_its_restarts(told: Told, runs: Sequence[int]) -> Told:
    """Return another start for each time that it ran anew and went on with a later step."""
    starts: list[Start] = []
    for start in told.starts:
        left, steps = start, list(start.steps)
        for began in (at for at in runs if at > start.begin):
            before = [one for one in steps if one[1] < began]
            if not before or len(before) == len(steps):
                continue
            starts.append(left._replace(steps=before))
            steps = steps[len(before) :]
            left = Start(steps[0][1], steps)
        starts.append(left._replace(steps=steps))
    return Told(told.spans, starts)


_AGAIN = frozenset({Mark.DOWN, Mark.LOST, Mark.WAIT})
_FIRST = {
    Mark.WAIT: "queue",
    Mark.START: "start",
    Mark.PULL: "pull",
    Mark.DOWN: "restart",
    Mark.LOST: "restart",
    Mark.STOP: "end",
}
_LATER = {**_FIRST, Mark.WAIT: "suspended", Mark.START: "restart"}


def _of_running(
    whole: Part,
    use: Mapping[int, float],
    told: Told,
    its: Sequence[int],
    again: int | None,
    busy: float,
) -> Iterator[Part]:
    """Yield what a program did while it ran.

    ``its``: which starts were in this time. ``again``: when it had to begin anew.
    """
    first, last = whole.begin, whole.end
    apart: list[tuple[int, int, str]] = [
        (begin, end, cause) for named in TOLD for begin, end, cause in told.spans if cause == named
    ]
    starts = told.starts
    here = [n for n in its if starts[n].steps]
    for n in here:  # up to its first step it prepares
        begins = first if n == here[0] else starts[n].begin
        apart.append((begins, starts[n].steps[0][1], "prepare"))
    for minute in range(first // MINUTE * MINUTE, last, MINUTE):
        rate = use.get(minute)
        if rate is not None and not isnan(rate) and rate < busy:
            apart.append((minute, minute + MINUTE, "idle"))
    later = [start.steps[0][0] for start in starts if start.begin >= last and start.steps]
    for n in reversed(here):
        ends = starts[n + 1].begin if n + 1 < len(starts) and starts[n + 1].begin < last else last
        if later:  # it is told from which step on all was done again
            lost = starts[n].began(min(later))
            apart.append((ends if lost is None else lost, ends, "repeated"))
        later.append(starts[n].steps[0][0])
    is_told = any(start.steps for start in starts if start.begin >= last)
    if again is not None and not (here and is_told):
        saved = [end for _begin, end, cause in told.spans if cause == "checkpoint" and end <= again]
        apart.append((max(saved, default=first), last, "repeated"))
    yield from _cut(whole, apart)


def _cut(whole: Part, apart: Sequence[tuple[int, int, str]]) -> Iterator[Part]:
    """Yield a part in pieces: what is told apart, the first where several are, and the rest."""
    first, last, rest, launch = whole
    edges = {first, last}
    edges.update(edge for begin, end, _cause in apart if begin < end for edge in (begin, end))
    coming = sorted(range(len(apart)), key=lambda n: apart[n][0], reverse=True)
    there: list[int] = []  # a heap, by the order in which they were told
    at, before = first, ""
    for begin, _end in itertools.pairwise(sorted(edge for edge in edges if first <= edge <= last)):
        while coming and apart[coming[-1]][0] <= begin:
            heapq.heappush(there, coming.pop())
        while there and apart[there[0]][1] <= begin:
            heapq.heappop(there)
        cause = apart[there[0]][2] if there else rest
        if before and cause != before:
            yield Part(at, begin, before, launch)
            at = begin
        before = cause
    if before:
        yield Part(at, last, before, launch)


def of_work(
    uid: UUID,
    launch: int,
    began: datetime | None,
    *,
    since: int | Expression = 0,
    until: int | None = None,
    told: Mapping[int, Mapping[str, Any]] = EMPTY,
    smoke: Sequence[tuple[int, int]] = (),
) -> Goodput | None:
    """Return the goodput of the run of a program up to ``launch``; None: it had no place yet.

    ``began``: when the program of that launch was started, as its driver told. It runs from then
    on, also where nobody looked in between. ``since``, ``until``: the first launch of the run, and
    the last one of a run that is over.
    ``told``: what the program said, by launch. Four queries, however long it ran.
    """
    at, own = now(), {"uid": uid, "launch__gte": since}
    if until is not None:
        own["launch__lte"] = until
    rows = list(Interval.objects.filter(**own).order_by("launch"))
    waits = {wait.launch: wait for wait in Wait.objects.filter(**own)}
    first = len(rows) - 1
    while first > 0 and rows[first - 1].end_reason in TAKEN:
        first -= 1
    latest = rows[-1] if rows else None
    if latest is None or (latest.launch < launch and latest.end_reason not in TAKEN):
        return None
    run = [
        _held(row, waits.get(row.launch), at, began if row.launch == launch else None)
        for row in rows[first:]
    ]
    waits_again = waits.get(latest.launch + 1) if latest.end_reason in TAKEN else None
    if waits_again is not None:  # its place was taken, and it waits for another
        moment = millis(waits_again.ended_at or at)
        began_at, gpus = millis(waits_again.began_at), waits_again.gpus
        run.append(Held(waits_again.launch, began_at, moment, moment, gpus=gpus))
    sizes = {held.launch: held.gpus for held in run}
    use = _use(uid, run[0].begin, run[-1].end) if any(sizes.values()) else {}
    said = [told[one] for one in sorted(told) if one >= run[0].launch]
    found = list(parts(run, use, told_of(*said), busy=GPU_BUSY, smoke=smoke))
    over = latest.ended_at is not None and (waits_again is None or bool(waits_again.ended_at))
    return Goodput(sizes, found, over, bool(use), steps_of(*said))


_BEFORE = frozenset({Mark.START, Mark.PULL, Mark.WAIT})
# It ended as its program did, so it ran.
_RAN = frozenset({Reason.FINISHED, Reason.EXIT, Reason.OOM, Reason.TIME_LIMIT})


def _held(row: Interval, wait: Wait | None, at: datetime, began: datetime | None) -> Held:
    begin = row.placed_at or row.started_at
    asked = min(begin, wait.began_at if wait else row.asked_at or begin)
    marks = _from_its_start([(int(at), str(word)) for at, word in row.marks], row, began)
    taken = row.end_reason in TAKEN
    ended, lost = millis(row.ended_at or at), row.end_reason in LOST
    return Held(row.launch, millis(asked), millis(begin), ended, marks, taken, lost, row.gpus)


def _from_its_start(
    marks: list[tuple[int, str]], row: Interval, began: datetime | None
) -> list[tuple[int, str]]:
    """Return marks by which a program ran as soon as it was started, whenever that was seen."""
    first = next((n for n, (_at, word) in enumerate(marks) if word == Mark.RUN), len(marks))
    if first == len(marks) and began is None and row.end_reason not in _RAN:
        return marks  # it never was started, as far as anybody knows
    started = millis(began or row.started_at)
    if first < len(marks) and started >= marks[first][0]:
        return marks
    before = [(at, word) for at, word in marks[:first] if at <= started and word in _BEFORE]
    after = [(at, word) for at, word in marks[:first] if word not in _BEFORE]
    return [*before, (started, str(Mark.RUN)), *after, *marks[first + 1 :]]


def _use(uid: UUID, begin: int, end: int) -> dict[int, float]:
    """Return mean utilisation by minute; of hours whose minutes are gone, that of the hour."""
    found: dict[int, float] = {}
    span = (_moment(begin // HOUR * HOUR), _moment(end))
    columns = ("at", "gpu_utilisation_sum", "gpu_utilisation_count")
    for model, length in ((HourSample, HOUR), (MinuteSample, MINUTE)):
        rows = model.objects.filter(
            uid=uid, device="", at__range=span, gpu_utilisation_count__gt=0
        ).values_list(*columns)
        for at, total, count in rows:
            start = millis(at)
            found.update(dict.fromkeys(range(start, start + length, MINUTE), total / count))
    return found


def _moment(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1000, tz=now().tzinfo)
