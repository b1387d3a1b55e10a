"""The duty: look at all that a rule reaches, tell owners, and give back what stays idle.

All that matters lies in rows: a worker that is killed between a warning and what follows it is
followed by one that goes on there. Each act is decided again under the lock of the work's row, so
an extension that was pressed before it counts, and one pressed after it is told that it is late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction

from common.clock import now
from events import services as events
from metrics.peaks import LATELY, peak_now
from notifications.services import notify
from parking.choices import Act
from parking.judgement import Do, Notice, disturbed, due
from parking.look import Seen, look, span_of
from parking.models import Stretch
from runtime.bus import publish
from work import kinds
from work.choices import StopReason
from work.models import Workload
from work.services.base import locked, topics
from work.services.ending import request_stop
from work.services.limits import tell_stops_soon
from work.services.parking import park

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accounts.principal import Principal

_BATCH = 400
_KEPT = ("since", "quiet_since", "quiet_until", "due_at")


def enforce() -> int:
    """Look at all of it once; return how many owners were told or had something stopped."""
    seen = look()
    idle = [one for one in seen if one.next is not None]
    left = {one.pk for one in idle}
    gone = Stretch.objects.exclude(workload_id__in=left) if left else Stretch.objects.all()
    for pk in list(gone.values_list("workload_id", flat=True)):
        _forget(pk)
    _keep(idle)
    return sum(_decide(one.pk) for one in idle if _is_due(one))


def _forget(pk: int) -> None:
    """End a stretch: the work is used again, does not run, or nobody knows what it does."""
    with transaction.atomic():
        row = Workload.objects.select_for_update().filter(pk=pk).first()
        found = Stretch.objects.filter(workload_id=pk).first()
        if row is None or found is None:
            return
        found.delete()
        if found.warned_at is not None:
            _publish(locked(row))


def _keep(idle: Sequence[Seen]) -> None:
    """Write since when each is idle; a new stretch begins with nothing told."""
    begun = [one for one in idle if one.is_new]
    Stretch.objects.filter(workload_id__in=[one.pk for one in begun if one.stretch]).delete()
    Stretch.objects.bulk_create(
        [_written(Stretch(workload_id=one.pk, launch=one.launch), one) for one in begun],
        ignore_conflicts=True,
        batch_size=_BATCH,
    )
    changed = []
    for one in idle:
        if one.stretch is not None and not one.is_new:
            before = [getattr(one.stretch, name) for name in _KEPT]
            row = _written(one.stretch, one)
            if before != [getattr(row, name) for name in _KEPT]:
                changed.append(row)
    Stretch.objects.bulk_create(  # one statement for many: an update of each by cases is slow
        changed,
        update_conflicts=True,
        unique_fields=["id"],
        update_fields=_KEPT,
        batch_size=_BATCH,
    )


def _written(row: Stretch, one: Seen) -> Stretch:
    quiet = one.course.quiet
    if quiet is None or one.verdict.since is None or one.next is None:
        raise ValueError(one)  # what is not idle has no stretch
    row.policy, row.since = one.policy, one.verdict.since
    row.quiet_since, row.quiet_until, row.due_at = quiet.since, quiet.until, one.next.at
    return row


def _is_due(one: Seen) -> bool:
    done = one.stretch is not None and one.stretch.done_at is not None and not one.is_new
    return one.next is not None and one.next.do != Do.WAIT and not done


@transaction.atomic
def _decide(pk: int) -> bool:
    """Do what is due for one, as it is now that its row is locked."""
    row = locked(Workload.objects.get(pk=pk))
    found = next(iter(look([pk])), None)
    stretch = Stretch.objects.filter(workload_id=pk).first()
    if found is None or found.next is None or stretch is None or not _is_due(found):
        return False
    if found.is_dry:
        Stretch.objects.filter(pk=stretch.pk).update(done_at=now())  # nobody is told
        return False
    if found.next.do == Do.WARN:
        return _warn(row, found, stretch)
    return _act(row, found)


def _warn(row: Any, found: Seen, stretch: Stretch) -> bool:
    at = now()
    act = found.rule.act
    stretch.warned_at = at
    stretch.due_at = due(found.rule, stretch.since, Notice(at, stretch.extended_until), at).at
    stretch.done_at = at if act == Act.TELL else None
    stretch.save(update_fields=["warned_at", "due_at", "done_at"])
    left = (stretch.due_at or at) - at
    if found.policy is None:
        tell_stops_soon(row, left=left)
    else:
        minutes = max(1, round(left.total_seconds() / 60))
        idle = max(1, round((at - stretch.since).total_seconds() / 60))
        notify(
            users=[row.owner],
            kind=f"work.idle-{act}",
            params={
                "name": row.name,
                "minutes": minutes,
                "idle": idle,
                "work": str(row.uid),
                "told": at.isoformat(),  # what the mail's link is of
            },
            url=f"{row.get_absolute_url()}#idle",
            key=f"{row.uid}:{at:%H%M}",
            project_id=row.project_id,
        )
    events.record(
        actor=None,
        verb="work.idle-warned",
        target=row,
        project_uid=row.project.uid,
        data={"since": stretch.since.isoformat(), "act": act},
    )
    _publish(row)
    return True


def _act(row: Any, found: Seen) -> bool:
    """Park or stop it; not where the last two minutes are not known to be quiet too."""
    if found.policy is not None:
        last = span_of(peak_now(row.uid), LATELY)
        if disturbed(found.rule, last, gpus=found.gpus) is not None:
            return False
    Stretch.objects.filter(workload_id=row.pk).delete()
    return end(row, found.rule.act, actor=None)


def end(row: Any, act: str, *, actor: Principal | None, said: str = "") -> bool:
    """Park or stop a row that is locked; a kind that knows no idleness is stopped as asked."""
    kind = kinds.kind_of(row.kind)
    if act == Act.PARK:
        return park(row, actor=actor, note=said)
    known = StopReason.IDLE.value in kind.stop_reasons.values
    reason = StopReason.IDLE.value if known else kind.asked
    return request_stop(row, reason=reason, actor=actor, said=said)


def _publish(row: Any) -> None:
    publish(topics(row), {"kind": row.kind, "id": row.short_id, "uid": str(row.uid)})
