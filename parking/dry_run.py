"""What a policy would have given back in the last days, and from whom.

The judgement is the live one, on the roll-ups: minutes where they reach, hours otherwise. What
kernels, terminals and SSH did is not kept, so work that people used without its processor or GPUs
being busy counts as idle here: the number is what the figures say, and the page says so. Whole
hours that were busy for a moment count as busy, so over 7 or 30 days it is rather too low.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate, groupby
from typing import TYPE_CHECKING
from uuid import UUID

from django.db.models import Q

from common.clock import now
from metrics.peaks import peaks
from metrics.rollups import HOUR, MINUTE
from parking.judgement import Quiet, Rule, Span, follow, reached
from parking.look import span_of
from parking.policies import kind_named, projects_below
from projects.models import Project
from usage.models import Interval
from usage.names import people, projects
from work import kinds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parking.models import IdlePolicy

DAYS = (2, 7, 30)
_AT_ONCE = 1000


@dataclass
class Line:
    """What would have come back of one person's work in one project."""

    project: str
    owner: str
    project_name: str = ""
    owner_name: str = ""
    gpu_hours: float = 0.0
    times: int = 0


@dataclass(frozen=True)
class Found:
    """``held``: all GPU-hours of the work that the policy reaches; ``unmeasured`` of them, nobody
    knows whether they were used.
    """

    days: int
    since: datetime
    lines: list[Line] = field(default_factory=list)
    held: float = 0.0
    measured: float = 0.0

    @property
    def gpu_hours(self) -> float:
        return sum(line.gpu_hours for line in self.lines)

    @property
    def times(self) -> int:
        return sum(line.times for line in self.lines)

    @property
    def unmeasured(self) -> float:
        return max(0.0, self.held - self.measured)


def look_back(policy: IdlePolicy, *, days: int) -> Found:
    """Return what a policy would have given back. It may be one that nobody saved."""
    at = now()
    since = at - timedelta(days=days)
    rule, below = policy.rule, projects_below(policy)
    rows = Interval.objects.filter(
        Q(ended_at=None) | Q(ended_at__gt=since), gpus__gt=0, started_at__lt=at
    )
    if below is not None:
        uids = Project.objects.filter(pk__in=below).values_list("uid", flat=True)
        rows = rows.filter(project_uid__in=list(uids))
    by_uid: dict[UUID, list[Interval]] = defaultdict(list)
    for one in rows.filter(kind__in=_reached(policy)).order_by(*_ORDER).iterator():
        by_uid[one.uid].append(one)
    named = kind_named(policy.kind)
    if named is not None and policy.kind in named.classes:
        # of what was deleted nobody knows it any more: the number is rather too low
        classes = named.classes_of(list(by_uid))
        by_uid = {uid: of for uid, of in by_uid.items() if classes.get(uid) == policy.kind}
    lines: dict[tuple[UUID, UUID], Line] = {}
    launches = {uid: _launches(of, since, at) for uid, of in by_uid.items()}
    held = sum(each.hours(each.begin, each.end) for of in launches.values() for each in of)
    measured = 0.0
    for uid, spans in _spans(list(launches), since, at, days=days):
        for launch in launches[uid]:
            inside = [s for s in spans if s.at >= launch.begin and s.end <= launch.end]
            measured += sum(launch.hours(s.at, s.end) for s in inside if s.cpu is not None)
            last = launch.sizes[-1]
            for free in _given_back(rule, inside, gpus=last.gpus):
                key = last.project_uid, last.owner_uid
                line = lines.setdefault(key, Line(last.project_slug, last.owner_name))
                line.gpu_hours += launch.hours(free.since, free.until)
                line.times += 1
    names = people({key[1] for key in lines}) | projects({key[0] for key in lines})
    for (project, owner), line in lines.items():
        line.project_name = names.get(project, line.project)
        line.owner_name = names.get(owner, line.owner)
    ranked = sorted(lines.values(), key=lambda line: -line.gpu_hours)
    return Found(days, since, ranked, held, min(held, measured))


_HOUR = timedelta(hours=1)
_ORDER = ("uid", "launch", "part")  # what neighbours is one launch


class _Launch:
    """One launch in a span, whatever sizes it had meanwhile."""

    def __init__(self, sizes: list[Interval], since: datetime, at: datetime) -> None:
        self.sizes = sizes
        self._begins = [max(one.started_at, since) for one in sizes]
        self._ends = [one.ended_at or at for one in sizes]
        self.begin, self.end = self._begins[0], self._ends[-1]
        held = (self._of(n, end) for n, end in enumerate(self._ends))
        self._before = [0.0, *accumulate(held)]  # GPU-hours before each size

    def hours(self, begin: datetime, end: datetime) -> float:
        """Return the GPU-hours that it held from then to then."""
        return self._until(end) - self._until(begin)

    def _until(self, moment: datetime) -> float:
        n = max(0, bisect_right(self._begins, moment) - 1)
        return self._before[n] + self._of(n, min(moment, self._ends[n]))

    def _of(self, n: int, until: datetime) -> float:
        return max(timedelta(), until - self._begins[n]) / _HOUR * self.sizes[n].gpus


def _launches(rows: list[Interval], since: datetime, at: datetime) -> list[_Launch]:
    found = groupby(rows, key=lambda one: one.launch)
    return [_Launch(list(sizes), since, at) for _launch, sizes in found]


def _reached(policy: IdlePolicy) -> list[str]:
    """Return the kinds of work of which the policy says something; its scope is asked elsewhere."""
    named = kind_named(policy.kind)
    return [one.word for one in kinds.kinds() if one is named or not (policy.kind or one.once)]


def _spans(
    uids: list[UUID], since: datetime, until: datetime, *, days: int
) -> Iterator[tuple[UUID, list[Span]]]:
    tier = MINUTE if timedelta(days=days) <= MINUTE.kept else HOUR
    for start in range(0, len(uids), _AT_ONCE):
        rows = peaks(tier, uids[start : start + _AT_ONCE], since, until)
        for uid, found in groupby(rows, key=lambda peak: peak.uid):
            yield uid, [span_of(peak, tier.step) for peak in found]


def _given_back(rule: Rule, spans: list[Span], *, gpus: int) -> Iterator[Quiet]:
    """Yield when the GPUs would have been free, for each stretch that is long enough."""
    quiet: Quiet | None = None
    for span in spans:
        before, quiet = quiet, follow(rule, [span], quiet, gpus=gpus).quiet
        if before is not None and (quiet is None or quiet.since != before.since):
            yield from _after(rule, before)
    if quiet is not None:
        yield from _after(rule, quiet)


def _after(rule: Rule, quiet: Quiet) -> Iterator[Quiet]:
    at = reached(quiet.since, rule.minutes, rule.hours)
    if at is not None and quiet.until > at:
        yield Quiet(at, quiet.until)
