"""Opens and closes intervals and waits inside the engine's apply: exact, whatever is repeated.

What counts is the launch and size that the step knew (``transition.seen``); the row itself
may carry a newer wish already.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Q

from clusters.models import Device, Node
from common.clock import now
from runtime.models import ObservedWorkload
from runtime.protocol import Phase
from runtime.reasons import Reason
from runtime.reconcilers import Transition, WorkloadKind, reconciler_for
from runtime.spec import Resources
from usage.ledger import REPEATED_MOST
from usage.models import RESIZED, Interval, LateFact, Mark, Wait

_REPEATED_MOST = timedelta(milliseconds=REPEATED_MOST)
_MOST_MARKS = 200  # of one launch; what comes and goes for ever is down from then on
_KEPT_UP = ("started_at", "placed_at", "flavor", "ready_at", "marks")
# It was lost with its machine or node; nobody else took its place.
LOST = frozenset({Reason.NODE_LOST, Reason.MACHINE_LOST})
TAKEN = LOST | {
    Reason.PREEMPTED,
    Reason.EVICTED,
    Reason.DRAINED,
    Reason.RECLAIMING,
    Reason.REPLACED,
}
# Why a launch waits that still has the devices of the one before it.
_KEEPS_DEVICES = {Reason.PREPARING, Reason.DATA, Reason.DATA_MISSING}
_HOLDING = {Phase.STARTING, Phase.RUNNING, Phase.STOPPING}
_ENDED = {Phase.STOPPED, Phase.FAILED}
_SKEW = timedelta(seconds=5)


def keep_intervals(transition: Transition) -> None:
    row = transition.seen or transition.row
    if getattr(row, "launch", None) is None or not hasattr(row, "owner_id"):
        return  # not a workload: a project, a volume
    state = _state(transition)
    if transition.gone:
        at = now()
        _close(row, launch=row.launch, at=at, reason="deleted")
        _end_wait(row, launch=row.launch, at=at, reason="deleted")
        return
    if transition.outcome.updates.get("launch", row.launch) != row.launch:
        # It gave its devices back, and another launch of the same intent waits for them.
        ended = _ended_at(state)
        _close(row, launch=row.launch, at=ended, reason=str(transition.row.reason))
        again: int = transition.outcome.updates["launch"]
        _keep_wait(row, launch=again, since=ended, reason=str(transition.row.reason))
        return
    mine = state.get("launch") == row.launch
    if transition.after in _HOLDING and mine:
        _open(transition, row, state)
    elif transition.after in _ENDED:
        if mine:
            _open(transition, row, state)  # started and ended between two looks
        ended = _ended_at(state)
        _close(row, launch=row.launch, at=ended, reason=str(transition.row.reason))
        # One that never got its place waited until it was withdrawn; nothing before its asking.
        _end_wait(row, launch=row.launch, at=ended if mine else now(), reason="withdrawn")
    elif transition.after == Phase.PENDING:
        held = (
            mine
            and Interval.objects.filter(
                uid=row.uid, launch=row.launch, ended_at__isnull=True
            ).first()
        )
        if held:  # a cluster let it in and lets it wait, or took its place from it
            _mark(held, transition, row)
            held.save(update_fields=["ready_at", "marks"])
            return
        if transition.row.reason not in _KEEPS_DEVICES:  # what the launch before held is free
            _close(row, launch=row.launch - 1, at=_ended_at(state), reason="restarted")
        _keep_wait(row, launch=row.launch, since=None, reason=str(transition.row.reason))


def _state(transition: Transition) -> dict[str, Any]:
    """What the engine's pass knew of the outside thing (runtime.workload)."""
    given = transition.outcome.external_ref
    return dict(given if given is not None else transition.row.external_ref or {})


def _open(transition: Transition, row: Any, state: dict[str, Any]) -> None:
    """Make the launch's interval, or put its start right when the driver told it exactly.

    A pod that replaced another began later: what the one before it used still counts.
    """
    started = _started_at(transition, row, state)
    placed = _placed_at(transition, state, started)
    devices = state.get("devices")
    # The engine holds the row: nobody else writes of this launch meanwhile.
    of_launch = Interval.objects.filter(uid=row.uid, launch=row.launch)
    found = of_launch.order_by("part").last()
    if found is not None and found.ended_at is not None:
        return
    is_new = found is None
    if found is None:
        size = _size(row, len(transition.outcome.held))
        found = Interval(
            **_dims(row),
            launch=row.launch,
            name=str(row)[:120],
            gpus=len(devices) if devices else size.gpus,
            flavor=_flavor(row, devices),
            cpu_milli=size.cpu_milli,
            memory_mib=size.memory_mib,
            asked_at=getattr(row, "asked_at", None),
            placed_at=placed,
            started_at=started,
        )
    else:
        found = _resized(found, row, transition.outcome.held, given=bool(devices))
    before = [getattr(found, name) for name in _KEPT_UP]
    if not is_new and not found.part:
        if not (state.get("pod") or {}).get("times"):
            found.started_at = started
        # an older version wrote no place: there it held from its start
        found.placed_at = found.placed_at and min(found.placed_at, found.started_at)
    found.flavor = found.flavor or _flavor(row, devices)
    _mark(found, transition, row)
    if is_new:
        found.save(force_insert=True)
        _end_wait(row, launch=row.launch, at=placed, placed=True)
        _note_late(found, placed)
        if row.launch > 1:  # an earlier launch of the same workload is over at the latest now
            _close(row, launch=row.launch - 1, at=placed, reason="restarted")
    elif before != [getattr(found, name) for name in _KEPT_UP]:
        found.save(update_fields=_KEPT_UP)
        was = dict(zip(_KEPT_UP, before, strict=True))
        if was["flavor"] != found.flavor:
            _note_late(found, found.placed_at or found.started_at)
        elif found.ready_at is not None and was["ready_at"] != found.ready_at:
            _note_late(found, found.ready_at)


def _resized(
    found: Interval, row: Any, held: Sequence[datetime | None], *, given: bool
) -> Interval:
    """Let the launch go on in another row for each other size that it came to have.

    ``held``: since when each replica has its place, where the driver told. More count from then
    on, fewer from now on. ``given``: its GPUs are this machine's, given once to all of them.
    """
    if not held:
        return found
    one, at = row.resources, now()
    count = found.cpu_milli // max(1, one.cpu_milli)
    since = sorted(min(told or at, at) for told in held)
    steps = [(since[n], n + 1) for n in range(count, len(held))] or [(at, len(held))]
    for begins, number in steps if count != len(held) else ():
        size = one.times(number)
        gpus = found.gpus if given else size.gpus
        told = {"gpus": gpus, "cpu_milli": size.cpu_milli, "memory_mib": size.memory_mib}
        if begins <= found.started_at:  # it never was of the size before
            for name, value in told.items():
                setattr(found, name, value)
            found.save(update_fields=list(told))
            continue
        last = found.marks[-1][1:] if found.marks else []
        again = Interval(
            **_dims(row),
            **told,
            launch=found.launch,
            part=found.part + 1,
            marks=[[round(begins.timestamp() * 1000), *last]] if last else [],
            placed_at=begins,
            started_at=begins,
        )
        for name in ("name", "cluster_key", "flavor", "asked_at", "ready_at"):
            setattr(again, name, getattr(found, name))
        found.ended_at, found.end_reason = begins, RESIZED
        found.save(update_fields=["ended_at", "end_reason"])
        again.save(force_insert=True)
        _note_late(again, begins)
        found = again
    return found


def _mark(found: Interval, transition: Transition, row: Any) -> None:
    """Note what it does from now on, where that is something else than before."""
    if not found.gpus:
        return
    at, phase, reason = now(), transition.after, str(transition.row.reason)
    last: list[Any] = found.marks[-1] if found.marks else [0, Mark.START]
    if phase == Phase.RUNNING:
        word = Mark.RUN
        if found.ready_at is None:
            told = transition.outcome.updates.get("ready_at") or getattr(row, "ready_at", None)
            held = found.placed_at or found.started_at
            at = found.ready_at = told if told is not None and held <= told <= at else at
    elif phase == Phase.PENDING:
        word = Mark.WAIT
    elif phase == Phase.STARTING and found.ready_at is None:
        word = Mark.PULL if reason == Reason.PULLING else Mark.START
    elif phase == Phase.STARTING:
        word = Mark.LOST if reason in TAKEN or last[1] in {Mark.LOST, Mark.WAIT} else Mark.DOWN
    else:
        word = Mark.STOP
    is_full = len(found.marks) >= _MOST_MARKS and word != Mark.STOP
    if last[1] == word or (is_full and last[1] == Mark.DOWN):
        return
    found.marks = [*found.marks, [max(last[0], round(at.timestamp() * 1000)), str(word)]]
    if word in {Mark.LOST, Mark.WAIT} and found.ready_at is not None:
        _note_late(found, at - _REPEATED_MOST)


def _note_late(found: Interval | Wait, since: datetime) -> None:
    """Have the hours from ``since`` on closed anew, where some may be closed already."""
    at = now()
    begins = found.placed_at or found.started_at if isinstance(found, Interval) else found.began_at
    if found.gpus and (since := max(since, begins)) < _hour(at):
        LateFact.objects.create(since=since, until=at)


def _hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def _dims(row: Any) -> dict[str, Any]:
    return {
        "uid": row.uid,
        "kind": row.KIND,
        "project_uid": row.project.uid,
        "project_slug": row.project.slug,
        "owner_uid": row.owner.uid,
        "owner_name": row.owner.username,
        "cluster_key": row.cluster_key,
    }


def _size(row: Any, held: int = 0) -> Resources:
    """Return what all of it takes, or ``held`` replicas; what is no workload of the engine's is
    one.
    """
    if held:
        return row.resources.times(held)
    size, known = row.resources, reconciler_for(row.KIND)
    if not isinstance(known, WorkloadKind):
        return size
    more, alike = known.more_of(row), size.times(known.replicas_of(row))
    return alike.plus(more) if more else alike


def _keep_wait(row: Any, *, launch: int, since: datetime | None, reason: str) -> None:
    """Make the launch's wait, or say why it waits now, and for how many GPUs.

    How many fit after a loss is known after that wait began. What holds no GPU waits for none.
    """
    if not row.resources.gpus:
        return
    found = Wait.objects.filter(uid=row.uid, launch=launch).first()
    if found is not None:
        gpus = _size(row).gpus if launch == row.launch else found.gpus
        if found.ended_at is None and (found.reason, found.gpus) != (reason, gpus):
            Wait.objects.filter(pk=found.pk).update(reason=reason[:64], gpus=gpus)
            if found.gpus != gpus:
                _note_late(found, found.began_at)
        return
    if Interval.objects.filter(uid=row.uid, launch=launch).exists():
        return  # it has had its place
    made = _new_wait(row, launch=launch, since=since, reason=reason)
    made.save()
    _note_late(made, made.began_at)


def _new_wait(row: Any, *, launch: int, since: datetime | None, reason: str) -> Wait:
    return Wait(
        **_dims(row),
        launch=launch,
        gpus=_size(row).gpus,
        flavor=",".join(row.resources.kinds),
        began_at=min(since or _asked_at(row, launch), now()),
        reason=reason[:64],
    )


def _end_wait(
    row: Any, *, launch: int, at: datetime, reason: str = "", placed: bool = False
) -> None:
    """End what waited up to ``launch``; one that nobody saw wait before is written down whole."""
    if not row.resources.gpus:
        return
    of_launch = Q(uid=row.uid, launch=launch) | Q(
        uid=row.uid, launch__lt=launch, ended_at__isnull=True
    )
    rows = list(Wait.objects.filter(of_launch))
    if placed and getattr(row, "asked_at", None) and all(r.launch != launch for r in rows):
        rows.append(_new_wait(row, launch=launch, since=None, reason=""))
    for found in rows:
        if found.ended_at is None:
            since = found.began_at if found.pk is None else at
            found.ended_at = max(found.began_at, at)
            found.placed = placed and found.launch == launch
            if found.launch == row.launch:
                found.gpus = _size(row).gpus
            found.reason = found.reason or reason
            found.save()
            _note_late(found, since)


def _asked_at(row: Any, launch: int) -> datetime:
    """Return when the launch was wanted; the one before it had devices until it was over."""
    asked: datetime = getattr(row, "asked_at", None) or now()
    before = Interval.objects.filter(uid=row.uid, launch__lt=launch, ended_at__gt=asked)
    ended = before.order_by("-ended_at").values_list("ended_at", flat=True).first()
    return ended or asked


def _flavor(row: Any, devices: list[str] | None) -> str:
    """Return the kind of GPU it has: as asked, or that of what "any of" came to."""
    size, kinds = row.resources, row.resources.kinds
    if not size.gpus or len(kinds) == 1:
        return ",".join(kinds)
    if devices:
        own = Device.objects.filter(uuid__in=devices, flavor__isnull=False)
        return own.values_list("flavor__name", flat=True).first() or ""
    seen = ObservedWorkload.objects.filter(cluster_key=row.cluster_key, uid=row.uid).first()
    node = (seen.data.get("detail") or {}).get("node") if seen else None
    if not node:
        return ""
    rows = Node.objects.filter(cluster__key=row.cluster_key, name=node)
    return rows.values_list("flavor__name", flat=True).first() or ""


def _close(row: Any, *, launch: int, at: datetime, reason: str) -> None:
    """Close what is open up to ``launch``; never before its own start."""
    for found in Interval.objects.filter(uid=row.uid, launch__lte=launch, ended_at__isnull=True):
        ended = max(found.started_at, at)
        Interval.objects.filter(pk=found.pk, ended_at__isnull=True).update(
            ended_at=ended, end_reason=reason[:64]
        )
        # What was taken away is computed again, and what never was ready only held: both are
        # known now only.
        since = ended - _REPEATED_MOST if reason in TAKEN or found.ready_at is None else ended
        _note_late(found, since)


def _started_at(transition: Transition, row: Any, state: dict[str, Any]) -> datetime:
    """The process's own start if the driver told it, else when it got its place."""
    told = transition.outcome.updates.get("started_at")
    if told is None and transition.row.launch == row.launch:
        told = getattr(transition.row, "started_at", None)
    placed = _moment(state.get("placed_at"))
    if told is not None and (placed is None or told >= placed - _SKEW):
        return told
    return placed or now()  # what the row says is of an earlier launch


def _placed_at(transition: Transition, state: dict[str, Any], started: datetime) -> datetime:
    """Return when its devices were given; on a cluster that is when its queue let it in."""
    before = (getattr(transition.seen, "external_ref", None) or {}).get("line")
    placed = now() if before else _moment(state.get("placed_at")) or now()
    return min(placed, started)


def _ended_at(state: dict[str, Any]) -> datetime:
    ended = _moment((state.get("exit") or {}).get("at"))
    return min(ended, now()) if ended is not None else now()


def _moment(seconds: Any) -> datetime | None:
    if not isinstance(seconds, int | float):
        return None
    return datetime.fromtimestamp(seconds, tz=UTC)
