"""A canary beside an endpoint: made, given a share of the requests, promoted or taken away.

Of two rows behind one address the first stays. Its share is a number at the first row; whatever
takes time (``canaries_step``) goes on from what stands in the rows, whoever was killed meanwhile.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from accounts.principal import Principal
from common.clock import now
from common.errors import BerthError, Conflict, Invalid, wrong
from events import services as events
from runtime.protocol import Desired, Phase
from serving.choices import State
from serving.models import WITH, Endpoint
from serving.services.base import for_each, tell_gateways
from serving.services.history import as_said, said_of, served_before, served_note
from serving.states import STATES
from work import kinds
from work.attached import Attached, attached_to
from work.fields import Edit
from work.selectors import values_of
from work.services.attachments import attached_wanted, changed_attachments
from work.services.base import changed, lock, locked, own
from work.services.edit import workload_edit
from work.services.ending import request_delete, request_stop
from work.services.launch import launch_again, relaunch, workload_create
from work.services.resolve import PIN

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

# Until every gateway has heard of a change of the split, nothing that it took traffic from ends.
SETTLES = timedelta(seconds=3)
CANARY_NAME = "canary-"  # and the id of the endpoint beside it; nobody else takes such a name
# What a canary has of the endpoint beside it whatever is said of it.
_OF_THE_FIRST = ("cluster", "sleep_after_minutes", "wait_s", "origins")
# What is promoted with it of that which needs no restart. Bounds stay: a canary carries a share.
_GOES_OVER = ("concurrency",)


def canary_make(
    *,
    principal: Principal,
    row: Endpoint,
    said: Mapping[str, Any],
    rolls_back: bool = False,
    pin: str | None = None,
) -> Endpoint:
    """Start a canary beside ``row``: the same but for what is ``said``, with no request yet.

    It is its owner's, whoever manages it. ``rolls_back``: it is promoted by itself as soon as it
    answers. ``pin``: this digest of its image. Never inside a transaction: without it a registry
    may be asked.
    """
    own(principal, row)
    _require_alone(row)
    for name in ("name", *_OF_THE_FIRST):
        if said.get(name) is not None:
            raise wrong(name, _("A canary has it of the endpoint that it stands beside."))
    who = _in_name_of(principal, row)
    if who is not principal and not rolls_back:  # that is the owner's own already
        said = {**said, **_given_by(principal, row, said)}
    same = {**values_of(row, private=True), **as_said(attached_to(row))}  # by ids: names may meet
    same |= {"min_replicas": 1, "max_replicas": row.max_replicas, "sleep_after_minutes": 0}
    same |= {"cluster": row.cluster_key, "name": None}  # it gets its own below

    def beside(made: Endpoint) -> None:
        first = lock(row)
        _require_alone(first)
        if first.owner_id != made.owner_id:  # somebody took it over meanwhile
            raise Conflict(_("It was changed meanwhile. Look at it as it is now."), code="changed")
        made.canary_of, made.name = first, f"{CANARY_NAME}{row.short_id}"
        made.save(update_fields=["canary_of", "name", "updated_at"])
        if rolls_back:
            first.rolls_back, first.promoted_by = True, principal.user
            first.save(update_fields=["rolls_back", "promoted_by", "updated_at"])
        verb = "rolled-back" if rolls_back and not first.taken_over else "canary-made"
        _record(principal, first, verb, serves=made.model or made.image)

    try:
        made = workload_create(
            principal=who,
            project=row.project,
            kind=kinds.kind_of(row.kind),
            said={**same, **{name: value for name, value in said.items() if value is not None}},
            beside=beside,
            pin=pin,
        )
    except (Invalid, Conflict) as error:
        if error.code == "name-taken":
            _require_alone(row)  # another press was faster: nobody said that name
        raise
    changed(row)
    return made


def endpoint_roll_back(*, principal: Principal, row: Endpoint, seen: str = "") -> Endpoint:
    """Serve again what it served before: as a canary that is promoted as soon as it answers.

    Nothing is unanswered meanwhile, and where that does not start, all stays as it is. ``seen``:
    the number of what whoever asks took for that; another one is refused.
    """
    own(principal, row)
    before = served_before(row)
    if before is None:
        raise Conflict(_("It has served nothing else yet."), code="nothing-before")
    if seen not in {"", str(before.pk)}:
        text = _("It serves something else by now: look what before you roll back.")
        raise Conflict(text, code="changed")
    said = {**before.said, "env": before.env, "min_replicas": row.replicas}
    if before.image_digest and said["image"]:  # its tag may be another image's by now
        said["image"] = f"{said['image'].partition('@')[0]}@{before.image_digest}"
    canary_make(principal=principal, row=row, said=said, rolls_back=True)
    row.refresh_from_db()
    return row


@transaction.atomic
def canary_split(*, principal: Principal, row: Endpoint, percent: int, seen: str = "") -> Endpoint:
    """Have ``percent`` of the requests go to its canary; 0 takes all back at once.

    ``seen``, here and below: which canary whoever asks looked at; for another one it is refused.
    """
    own(principal, row)
    row = lock(row)
    if not 0 <= percent <= 100:  # noqa: PLR2004 - percent
        raise wrong("percent", _("From 0 to 100."))
    canary = _canary_of(row, seen)
    if row.promoting:
        if percent or not takes_back(row, canary):
            raise Conflict(_("Its canary is being promoted."), code="promoting")
        row.promoting = False  # it has not restarted yet: all goes back to it
    row.rolls_back = False  # whoever says a share goes on by hand
    _split(row, percent)
    _record(principal, row, "split", percent=percent)
    changed(row)
    return row


def takes_back(row: Endpoint, canary: Endpoint) -> bool:
    """Whether the first row can still get all requests back: it serves what it did before."""
    return not row.promoting or row.taken_over or bool(_differing(row, canary))


@transaction.atomic
def canary_end(*, principal: Principal, row: Endpoint, seen: str = "") -> Endpoint:
    """Take all requests back from its canary; that ends once no gateway sends it any."""
    own(principal, row)
    row = lock(row)
    canary = _canary_of(row, seen)
    if not takes_back(row, canary):
        raise Conflict(_("Its canary is being promoted."), code="promoting")
    _leave(row)
    _record(principal, row, "canary-ended", served=canary.model or canary.image)
    changed(row)
    return row


@transaction.atomic
def canary_promote(*, principal: Principal, row: Endpoint, seen: str = "") -> Endpoint:
    """Make what its canary serves its own: nothing is unanswered meanwhile.

    All requests go to the canary, the first row restarts as that, gets them back, the canary goes.
    """
    own(principal, row)
    row = lock(row)
    canary = _canary_of(row, seen)
    if row.promoting:
        return row  # a second press changes nothing
    if STATES.of(canary) != State.READY:
        raise Conflict(_("Its canary does not answer: look why first."), code="not-ready")
    row.promoting, row.promoted_by = True, principal.user
    _split(row, 100)
    _record(principal, row, "promoted", serves=canary.model or canary.image)
    changed(row)
    return row


def canaries_step() -> int:
    """Do what is due of promotions and of canaries that leave; return how many went on.

    Two questions when nothing is due. Each is looked at again under the lock of its row.
    """
    rows = Endpoint.objects.filter(
        Q(promoting=True) | Q(canary_leaves=True) | Q(rolls_back=True),
        desired=Desired.RUNNING,
        deleted_at=None,
    ).filter(Q(split_at=None) | Q(split_at__lte=now() - SETTLES))
    return for_each(rows.select_related(*WITH), _step)


def _step(found: Endpoint) -> bool:
    with transaction.atomic():
        row = locked(found)
        canary = row.canary
        waits = row.split_at is not None and row.split_at > now() - SETTLES
        goes_on = row.promoting or row.canary_leaves or row.rolls_back
        if waits or row.desired != Desired.RUNNING or not goes_on:
            return False
        if canary is None or row.canary_leaves:
            if canary is not None:
                request_delete(locked(canary), actor=None)
            row.promoting = row.canary_leaves = row.rolls_back = False
            _split(row, 0)
            changed(row)
            return True
        if not row.promoting:
            return _begin_back(row, STATES.of(canary))
        if not _differing(row, canary) and not row.taken_over:
            answers = row.phase == Phase.RUNNING and row.is_seen and row.ready_at is not None
            if answers:  # until then all goes to the canary
                _leave(row)
                changed(row)
            if answers or not _failed_before(row):
                return answers
        elif STATES.of(canary) != State.READY:
            return False  # gateways send nothing to it: the first row stays as it is
    return _become(row, canary)


def _failed_before(row: Endpoint) -> bool:
    """Whether it failed, and was not launched since all goes to its canary: that is done once."""
    if STATES.of(row) != State.FAILED or row.split_at is None:
        return False
    return row.asked_at is None or row.asked_at < row.split_at


def _begin_back(row: Endpoint, canary: State) -> bool:
    """Promote the version before, once it answers; one that failed, or that was stopped or parked
    beside what runs, leaves all as it is.
    """
    if canary in {State.QUEUED, State.STARTING}:
        return False
    row.rolls_back = row.promoting = canary == State.READY
    _split(row, 100 if row.promoting else row.canary_percent)
    changed(row)
    return True


def _become(row: Endpoint, canary: Endpoint) -> bool:
    """Restart the first row as what its canary is; where that is refused, all goes back to it.

    One that had failed is started, also where it is that already.
    """
    names = {*_differing(row, canary), "image"}  # what the digest is one of
    said = said_of(canary) | {name: getattr(canary, name) for name in _GOES_OVER}
    said = {name: value for name, value in said.items() if name in names}
    who = Principal(row.owner)
    try:
        if not _differing(row, canary) and row.taken_over:
            relaunch(principal=who, found=row, check=_require_promoting)
            return True
        workload_edit(
            principal=who,
            row=row,
            said=said,
            pin=canary.image_digest,
            check=_require_promoting,
            start=True,
            anew=_failed_before(row),  # also where it is as its canary is, and ended with 0
            by_kind=True,
        )
    except BerthError as error:
        with transaction.atomic():
            row = locked(row)
            row.promoting = row.rolls_back = False
            _split(row, 0)
            _record(None, row, "split", percent=0, why=str(error))
            changed(row)
    return True


def check_edit(row: Endpoint, _after: Endpoint, fields: Collection[str]) -> None:
    """Refuse what a promotion that is on its way would undo."""
    if (row.promoting or row.rolls_back) and any(map(_is_promoted, fields)):
        said = _("It is becoming what its canary is, and that would be lost: wait, or roll back.")
        raise Conflict(said, code="promoting")


def _is_promoted(name: str) -> bool:
    """Whether a promotion takes a field over, what is attached and the image's bytes among it."""
    table = kinds.kind_of(Endpoint.KIND).table
    return name not in table or table[name].edit is Edit.RESTARTS or name in _GOES_OVER


def _require_promoting(row: Endpoint) -> None:
    if not row.promoting:
        raise Conflict(_("It is not promoted any more."), code="not-promoting")


def launched(principal: Principal, row: Endpoint) -> None:
    """Have a canary come back with what it stands beside; its limits keep nothing else down."""
    if row.canary_of_id is None:
        served_note(principal, row)
    canary = row.canary if row.canary_of_id is None and row.launch > 1 else None
    if canary is None or canary.desired == Desired.RUNNING:
        return
    try:
        with transaction.atomic():
            launch_again(principal=_in_name_of(principal, canary), row=locked(canary))
    except BerthError:
        _split(row, 0)


def stopping(row: Endpoint, reason: str) -> Collection[str]:
    """Have its canary end with it, for the same reason ("": to go); begin small the next time."""
    if row.canary_of_id is None and (canary := row.canary) is not None:
        canary = locked(canary)
        if reason:
            request_stop(canary, reason=reason, actor=None)
        else:
            request_delete(canary, actor=None)
    row.replicas, row.scaling_problem = row.min_replicas, ""
    return ("replicas", "scaling_problem")


def _given_by(principal: Principal, row: Endpoint, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is said to be attached as ids of what ``principal`` may use.

    It is put into the owner's canary; what is private to the owner is none of a manager's words.
    """
    kind = kinds.kind_of(row.kind)
    given = attached_wanted(
        principal=principal,
        project=row.project,
        cluster_key=row.cluster_key,
        said=said,
        before=Attached(),
        takes=kind.attachments,
    )
    return {name: value for name, value in as_said(given).items() if said.get(name) is not None}


def _require_alone(row: Endpoint) -> None:
    if row.desired != Desired.RUNNING:
        raise Conflict(
            _("Start it first: a canary stands beside what answers."), code="not-running"
        )
    if row.canary_leaves or row.canary is not None:
        said = _("It has a canary: promote it or take it away first.")
        raise Conflict(said, code="has-canary")


def _canary_of(row: Endpoint, seen: str) -> Endpoint:
    if row.canary_leaves or (canary := row.canary) is None:
        raise Conflict(_("There is no canary beside it now."), code="no-canary")
    if seen not in {"", str(canary.uid)}:
        raise Conflict(_("It has another canary by now: look at that one first."), code="changed")
    return canary


def _differing(row: Endpoint, canary: Endpoint) -> list[str]:
    """Return all in which the first row is not yet as its canary is."""
    fields = (one for one in kinds.kind_of(row.kind).own if _is_promoted(one.name))
    names = [one.name for one in fields if one.differs(row, canary)]
    names += changed_attachments(attached_to(row), attached_to(canary))
    return names + [PIN] * (row.image_digest != canary.image_digest)


def _split(row: Endpoint, percent: int) -> None:
    row.canary_percent, row.split_at = percent, now()
    columns = ("canary_percent", "split_at", "promoting", "promoted_by", "rolls_back")
    row.save(update_fields=[*columns, "canary_leaves", "updated_at"])
    tell_gateways(row)


def _leave(row: Endpoint) -> None:
    row.canary_leaves = True
    row.promoting = row.rolls_back = False
    _split(row, 0)


def _in_name_of(principal: Principal, row: Endpoint) -> Principal:
    """Return who starts what is ``row``'s owner's: what it is given is theirs."""
    return principal if principal.user.pk == row.owner_id else Principal(row.owner)


def _record(principal: Principal | None, row: Endpoint, what: str, **told: object) -> None:
    events.record(
        actor=principal,
        verb=f"{row.KIND}.{what}",
        target=row,
        project_uid=row.project.uid,
        data=told,
    )
