"""What idle policies and work's own rules see of all that runs, in a constant number of queries."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from common.clock import now
from hubapi.selectors import Use, uses
from metrics.peaks import Peak, peaks
from metrics.rollups import MINUTE
from metrics.selectors import quiet_since
from parking.choices import State
from parking.hooks import own_rules, used_at
from parking.judgement import (
    Course,
    Next,
    Notice,
    Quiet,
    Rule,
    Signs,
    Span,
    Verdict,
    due,
    follow,
    judge,
)
from parking.models import IdlePolicy, Stretch
from parking.policies import Policies
from runtime.protocol import Desired, Phase
from work.models import Workload

# A minute is complete for us when its last sample was rolled up.
_LATE = timedelta(seconds=90)
_FIRST_LOOK = timedelta(minutes=8)  # so far back is looked for what was not idle before


@dataclass(frozen=True)
class Seen:
    """One piece of work: how it is used, by which rule, and what follows.

    ``policy`` None: by its own rule. ``next`` None: it is not idle.
    """

    pk: int
    uid: UUID
    kind: str
    project_id: int
    launch: int
    gpus: int
    policy: IdlePolicy | None
    rule: Rule
    verdict: Verdict
    course: Course
    stretch: Stretch | None
    next: Next | None

    @property
    def is_dry(self) -> bool:
        return self.policy is not None and self.policy.state == State.DRY_RUN

    @property
    def is_new(self) -> bool:
        """Whether this is another stretch than the one that is kept."""
        return not _is_same(self.stretch, self.launch, self.policy, self.verdict.since)


def look(pks: Collection[int] | None = None) -> list[Seen]:
    """Return all work that a rule looks at, or those of these that one does."""
    at = now()
    own: dict[int, Rule] = {}
    for rules in own_rules():
        own |= rules
    policies = Policies.now()
    running = Workload.objects.filter(
        desired=Desired.RUNNING, phase=Phase.RUNNING, deleted_at__isnull=True
    )
    if pks is not None:
        running = running.filter(pk__in=pks)
    columns = ("pk", "uid", "kind", "project_id", "launch", "gpus", "ready_at")
    found: list[tuple[tuple[Any, ...], IdlePolicy | None]] = []
    seen = list(running.order_by("pk").values_list(*columns))
    classes = policies.classes_of({values[1]: values[2] for values in seen if values[5]})
    for values in seen:
        work_class = classes.get(values[1], "")
        policy = policies.holding(values[3], values[2], work_class) if values[5] else None
        if policy is not None or values[0] in own:
            found.append((values, policy))
    if not found:
        return []
    uids = [values[1] for values, _policy in found]
    stretches = {
        one.workload_id: one
        for one in Stretch.objects.filter(workload_id__in=[values[0] for values, _p in found])
    }
    known, quiet = uses(uids), quiet_since(uids)
    for told in used_at(uids):
        for uid, used in told.items():
            last = known[uid].used_at
            known[uid] = replace(known[uid], used_at=max(used, last) if last else used)
    spans = _spans({values[1]: stretches.get(values[0]) for values, p in found if p}, at)
    return [
        _seen(
            values,
            _Known(
                policy,
                own.get(values[0]),
                known[values[1]],
                quiet.get(values[1]),
                spans.get(values[1], []),
                stretches.get(values[0]),
            ),
            at,
        )
        for values, policy in found
    ]


class _Known(NamedTuple):
    """What is known of one piece of work."""

    policy: IdlePolicy | None
    own: Rule | None
    use: Use
    quiet: datetime | None
    spans: Iterable[Span]
    stretch: Stretch | None


def _seen(values: tuple[Any, ...], known: _Known, at: datetime) -> Seen:
    """Judge by each rule; the one that acts first is the one that is told of."""
    policy, own, use, quiet, spans, stretch = known
    pk, uid, kind, project_id, launch, gpus, ready_at = values
    candidates: list[Seen] = []

    def consider(rule: Rule, by: IdlePolicy | None, course: Course, use: Use) -> None:
        signs = Signs(ready_at, course, use.busy_kernels, use.answered, use.used_at)
        verdict, follows = judge(signs, at), None
        if verdict.since is not None:
            follows = due(rule, verdict.since, _notice(stretch, launch, by, verdict.since), at)
        candidates.append(
            Seen(
                *(pk, uid, kind, project_id, launch, gpus),
                *(by, rule, verdict, course, stretch, follows),
            )
        )

    if own is not None:
        # a rule of its own is about its server: one that does not tell of its kernels is not idle
        asked = Use(use.busy_kernels or 0, use.answered, use.used_at)
        measured = Course(Quiet(quiet, at) if quiet else None)
        consider(own, None, measured, asked)
    if policy is not None and not (policy.state == State.DRY_RUN and own is not None):
        rule, before = policy.rule, None
        if stretch is not None and (stretch.launch, stretch.policy_id) == (launch, policy.pk):
            before = Quiet(stretch.quiet_since, stretch.quiet_until)
        consider(rule, policy, follow(rule, spans, before, gpus=gpus), use)
    if stretch is not None and stretch.extended_until is not None:
        # what was put off stays so, whichever rule would act sooner
        kept = [one for one in candidates if one.next and not one.is_new and not _is_done(one)]
        if kept:
            return kept[0]
    return min(candidates, key=_acts_at)


def _acts_at(one: Seen) -> tuple[bool, datetime]:
    at = one.next.at if one.next is not None else None
    return at is None or _is_done(one), at or now()


def _is_done(one: Seen) -> bool:
    """Whether all that its rule does was done: its owner was told, and nothing more follows."""
    return one.stretch is not None and one.stretch.done_at is not None and not one.is_new


def _notice(
    stretch: Stretch | None, launch: int, policy: IdlePolicy | None, since: datetime
) -> Notice:
    if stretch is None or not _is_same(stretch, launch, policy, since):
        return Notice()
    return Notice(stretch.warned_at, stretch.extended_until)


def _is_same(
    stretch: Stretch | None, launch: int, policy: IdlePolicy | None, since: datetime | None
) -> bool:
    """Whether what is kept is of this launch, this rule, and nobody used it meanwhile."""
    if stretch is None or since is None:
        return False
    by = policy.pk if policy else None
    return (stretch.launch, stretch.policy_id) == (launch, by) and since <= stretch.since


def _spans(stretches: dict[UUID, Stretch | None], at: datetime) -> dict[UUID, list[Span]]:
    """Return the minutes that were not looked at yet: one query, and one for what was long ago."""
    usual = at - _FIRST_LOOK
    late = {
        uid: one.quiet_until for uid, one in stretches.items() if one and one.quiet_until < usual
    }
    found: dict[UUID, list[Span]] = {}
    for uids, since in (
        (stretches.keys() - late.keys(), usual),
        (late.keys(), max(min(late.values(), default=at), at - MINUTE.kept)),
    ):
        if uids:
            for peak in peaks(MINUTE, list(uids), since, at - _LATE):
                found.setdefault(peak.uid, []).append(span_of(peak, MINUTE.step))
    return found


def span_of(peak: Peak, length: timedelta) -> Span:
    return Span(peak.at, length, peak.gpu, peak.cpu, peak.memory, peak.network)
