"""The same jobs under guarantees with sharing, and in lines of who came first; by event time.

Played are the rules of one machine (``queues.effect.play``), so it takes no GPUs and no hours. The
peers are lines of who came first: nobody passes who waits for more of the same kind, nobody gives
back. *Apart*: each tenant has as many GPUs of its own as are guaranteed to it where they are
shared, and a line for them. *One line*: all in one, for all GPUs. All three do the same work.
Another CSV than the sample's: ``BERTH_REPLAY_CSV``.

A GPU is *held idle* while nobody has it though somebody waits who could use one of its kind.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.lib import Result, percentile, sized
from benchmarks.traces import CAPACITY, SAMPLE, TraceJob, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

CSV = Path(os.environ.get("BERTH_REPLAY_CSV", str(SAMPLE)))
LOAD = 0.9  # how many GPUs there are for a CSV of others: so much of them would be used at best


@dataclass
class Played:
    """What became of the jobs of one run, by their numbers, and of the hours of all GPUs."""

    capacity: Mapping[str, int]
    jobs: Sequence[TraceJob]
    waited: dict[int, float] = field(default_factory=dict)
    used_s: float = 0.0  # one GPU, one second
    held_idle_s: float | None = 0.0  # None: not known
    ended_s: float = 0.0
    reclaims: int = 0

    def line(self, name: str) -> str:
        waits = list(self.waited.values())
        half, nine, most = (percentile(waits, share) / 60 for share in (0.5, 0.9, 0.99))
        there = sum(self.capacity.values()) * self.ended_s
        idle = "" if self.held_idle_s is None else f" held idle {self.held_idle_s / 3600:.0f},"
        return (
            f"{name}: waits p50 {half:.0f}, p90 {nine:.0f}, p99 {most:.0f} min,"
            f" Jain {self.jain:.3f},"
            f" used {self.used_s / 3600:.0f} GPU-hours ({100 * self.used_s / there:.0f} %),"
            f"{idle} asked back {self.reclaims}"
        )

    @property
    def jain(self) -> float:
        """How alike tenants fared: of each the mean speed of its jobs, 1 where none waited."""
        speeds: dict[str, list[float]] = defaultdict(list)
        for number, waited in self.waited.items():
            job = self.jobs[number]
            speeds[job.tenant].append(job.duration_s / (job.duration_s + waited))
        means = [sum(each) / len(each) for each in speeds.values()]
        return sum(means) ** 2 / (len(means) * sum(mean**2 for mean in means))


class _Clock:
    """Counts, between any two steps, what is used and what is held idle."""

    def __init__(self, played: Played) -> None:
        self._played = played
        self._held: Counter[str] = Counter()
        self._waiting: Counter[tuple[str, ...]] = Counter()
        self._at = 0.0

    def until(self, at: float) -> None:
        passed, self._at = at - self._at, max(at, self._at)
        wanted = {kind for kinds, n in self._waiting.items() if n for kind in kinds}
        idle = self._played.held_idle_s or 0.0
        for kind, there in self._played.capacity.items():
            self._played.used_s += passed * self._held[kind]
            if kind in wanted:
                idle += passed * (there - self._held[kind])
        self._played.held_idle_s, self._played.ended_s = idle, self._at

    def waits(self, kinds: tuple[str, ...], by: int) -> None:
        self._waiting[kinds] += by

    def holds(self, kind: str, by: int) -> None:
        self._held[kind] += by


def guaranteed(jobs: Iterable[TraceJob], capacity: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Return all of each kind shared out by the hours that tenants ask for in all.

    Each has enough for its largest job: apart it would never run.
    """
    jobs = list(jobs)
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for kind, there in capacity.items():
        hours: Counter[str] = Counter()
        has: Counter[str] = Counter()
        for job in jobs:
            if kind in job.kinds:
                hours[job.tenant] += round(job.gpus * job.duration_s / len(job.kinds))
                has[job.tenant] = max(has[job.tenant], job.gpus)
        left = there - sum(has.values())
        if left < 0:
            message = f"{there} {kind} are fewer than the largest jobs of all tenants together"
            raise ValueError(message)
        for _each in range(left if hours else 0):
            has[max(hours, key=lambda tenant: hours[tenant] / (has[tenant] + 1))] += 1
        for tenant, count in has.items():
            found[tenant][kind] = count
    return dict(found)


def shared(jobs: Sequence[TraceJob], capacity: Mapping[str, int]) -> Played:
    """Guarantees, and what nobody uses of them is lent until they ask."""
    from queues.effect import Past, Tree, play
    from queues.sharing import Part, Share

    parts = tuple(
        Part(tenant, shares={kind: Share(guaranteed=n) for kind, n in has.items()})
        for tenant, has in guaranteed(jobs, capacity).items()
    )
    past = [
        Past(str(n), job.tenant, job.kinds, job.gpus, job.submit_s, job.duration_s)
        for n, job in enumerate(jobs)
    ]
    played = Played(capacity, jobs)
    clock = _Clock(played)
    coming = deque(enumerate(jobs))
    for step in play(Tree(parts), capacity, past):
        while coming and coming[0][1].submit_s <= step.at:
            _number, job = coming.popleft()
            clock.until(job.submit_s)
            clock.waits(job.kinds, +1)
        clock.until(step.at)
        number, work = int(step.work.uid), step.work
        clock.holds(work.kind, work.count if step.starts else -work.count)
        if step.starts:
            clock.waits(work.kinds, -1)
            played.waited.setdefault(number, step.at - jobs[number].submit_s)
        elif step.whom:
            clock.waits(work.kinds, +1)
            played.reclaims += 1
    return played


def in_line(
    jobs: Sequence[TraceJob], capacity: Mapping[str, int], apart: Mapping[str, Mapping[str, int]]
) -> Played:
    """Who came first goes first. ``apart``: what tenants have of their own; else all in one."""
    played = Played(capacity, jobs)
    clock = _Clock(played)
    free = {tenant: Counter(has) for tenant, has in apart.items()} or {"": Counter(capacity)}
    lines: dict[str, deque[int]] = defaultdict(deque)
    ends: list[tuple[float, int, str]] = []

    def begun(whose: str) -> Iterator[tuple[int, str]]:
        kept: set[str] = set()  # kinds that somebody waits for
        for number in list(lines[whose]):
            job = jobs[number]
            fits = (k for k in job.kinds if k not in kept and free[whose][k] >= job.gpus)
            if (kind := next(fits, None)) is not None:
                free[whose][kind] -= job.gpus
                lines[whose].remove(number)
                yield number, kind
                continue
            kept.update(job.kinds)
            if kept.issuperset(free[whose]):
                return

    index = 0
    while index < len(jobs) or ends:
        if ends and (index == len(jobs) or ends[0][0] <= jobs[index].submit_s):
            at, number, kind = heappop(ends)
            clock.until(at)
            whose = jobs[number].tenant if apart else ""
            free[whose][kind] += jobs[number].gpus
            clock.holds(kind, -jobs[number].gpus)
        else:
            at, whose = jobs[index].submit_s, jobs[index].tenant if apart else ""
            clock.until(at)
            clock.waits(jobs[index].kinds, +1)
            lines[whose].append(index)
            index += 1
        for number, kind in begun(whose):
            played.waited[number] = at - jobs[number].submit_s
            clock.waits(jobs[number].kinds, -1)
            clock.holds(kind, jobs[number].gpus)
            heappush(ends, (at + jobs[number].duration_s, number, kind))
    return played


def settled(jobs: Iterable[TraceJob]) -> tuple[list[TraceJob], dict[str, int]]:
    """Return the jobs with kinds that there are, and how many of each: of the sample its own."""
    jobs = list(jobs)
    if CSV == SAMPLE:
        return jobs, dict(CAPACITY)
    names = sorted({kind for job in jobs for kind in job.kinds}) or ["gpu"]
    found = [
        TraceJob(j.submit_s, j.duration_s, j.gpus, j.kinds or tuple(names), j.tenant) for j in jobs
    ]
    span = max(job.submit_s + job.duration_s for job in found)
    capacity = {}
    for kind in names:
        mine = [job for job in found if kind in job.kinds]
        busy = sum(job.gpus * job.duration_s / len(job.kinds) for job in mine) / span / LOAD
        largest: dict[str, int] = {}
        for job in mine:
            largest[job.tenant] = max(job.gpus, largest.get(job.tenant, 0))
        capacity[kind] = max(round(busy), sum(largest.values()))
    return found, capacity


def run() -> list[Result]:
    jobs, capacity = settled(read(CSV))
    jobs = jobs[: sized(len(jobs), 200)]
    ours = shared(jobs, capacity)
    apart = in_line(jobs, capacity, guaranteed(jobs, capacity))
    one = in_line(jobs, capacity, {})
    for name, played in (("shared", ours), ("apart", apart), ("one line", one)):
        if len(played.waited) != len(jobs) or abs(played.used_s - apart.used_s) > 1:
            message = f"{name}: not the same work was done"
            raise RuntimeError(message)
        print(played.line(name), flush=True)
    what = f"{len(jobs)} jobs of {CSV.stem} on {sum(capacity.values())} GPUs"

    def p99(played: Played) -> float:
        return percentile(list(played.waited.values()), 0.99) / 60

    note = "; ".join((ours.line("shared"), apart.line("apart"), one.line("one line")))
    return [
        Result(
            f"{what}, wait p99",
            "min",
            [p99(ours)],
            [p99(apart)],
            "first come, first served, each tenant on GPUs of its own",
            0.5,
            1.0,
            note=note,
        ),
        Result(
            f"{what}, wait p99, against one line",
            "min",
            [p99(ours)],
            [p99(one)],
            "first come, first served, one line over all GPUs",
            0.5,
            1.0,
        ),
        Result(f"{what}, Jain index of tenants", "", [ours.jain], [], "", 0.95, 0.9, "higher"),
    ]


if __name__ == "__main__":
    for result in run():
        print(result.line())
