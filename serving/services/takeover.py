"""An endpoint becomes that of a manager: its owner leaves, has left, or has other things to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction
from django.utils.translation import gettext as _

from common.errors import BerthError, Conflict, Forbidden
from events import services as events
from projects.access import denial, permissions_of
from projects.others import reason_for, tell_owner
from runtime.bus import publish
from runtime.protocol import Desired, Phase
from serving.models import WITH, Endpoint
from serving.services.canary import canary_make
from volumes.selectors import volume_for_use
from work import kinds
from work.attached import Attached
from work.choices import StopReason
from work.services.attachments import check_still_usable
from work.services.base import changed, lock, own, topics
from work.services.launch import hold, launch_again, relaunch
from work.services.resolve import Resolved

if TYPE_CHECKING:
    from accounts.principal import Principal

_WENT = frozenset({StopReason.OWNER_LEFT, StopReason.OWNER_DISABLED})


def may_take_over(principal: Principal, row: Endpoint) -> bool:
    """Whether it is another's, and ``principal`` manages such work and may have some."""
    kind, granted = kinds.kind_of(row.kind), permissions_of(principal, row.project)
    is_there = row.canary_of_id is None and row.desired != Desired.ABSENT
    may = {kind.read, kind.create, kind.manage} <= granted
    return is_there and may and (row.owner_id != principal.user.pk or lacks_beside(row))


def lacks_beside(row: Endpoint) -> bool:
    """Whether it answers for whoever had it before, and nothing comes beside it to end that.

    It could not be made, was taken away, or whoever made it was killed in between.
    """
    answers = row.desired == Desired.RUNNING and row.phase == Phase.RUNNING
    return row.taken_over and answers and not row.canary_leaves and row.canary is None


def endpoint_takeover(*, principal: Principal, row: Endpoint, said: str = "") -> Endpoint:
    """Make it ``principal``'s: rights, limits and credentials are theirs from now on.

    What answers goes on, until the same answers beside it for its new owner, and begins anew
    itself; what stopped because its owner went is started. Another press puts it beside it where
    it is not (``lacks_beside``).
    """
    own(principal, row)
    kind = kinds.kind_of(row.kind)
    if kind.manage not in permissions_of(principal, row.project):
        raise Forbidden(denial(kind.manage))
    if row.owner_id == principal.user.pk and lacks_beside(row):
        _put_beside(principal, row)
        return row
    with transaction.atomic():
        found: Endpoint = lock(row)
        before = found.owner
        if before.pk == principal.user.pk:
            raise Conflict(_("It is yours already."), code="yours")
        said = reason_for(principal, before, said)
        runs = found.is_on_its_way and not found.is_waiting
        beside = Endpoint.objects.select_for_update(of=("self",)).select_related(*WITH)
        beside = beside.filter(canary_of=found, deleted_at=None).exclude(desired=Desired.ABSENT)
        if beside and any(one.is_on_its_way for one in (found, *beside)):
            text = _("It has a canary: promote it or take it away first.")
            raise Conflict(text, code="has-canary")
        for one in (found, *beside):
            _require_usable(principal, one)
            one.owner = principal.user
            one.taken_over = runs
            one.save(update_fields=["owner", "taken_over", "updated_at"])
        _begin(principal, found)
        events.record(
            actor=principal,
            verb="endpoint.taken-over",
            target=found,
            project_uid=found.project.uid,
            message=said,
            data={"from": before.username},
        )
        tell_owner(principal, before, "endpoint.taken-over", found, said)
        publish([f"user:{before.uid}", *topics(found)], {"kind": kind.word, "uid": str(found.uid)})
        changed(found)
    if runs and found.phase == Phase.RUNNING:
        try:
            _put_beside(principal, found)
        except BerthError as error:  # it is theirs, and what answers goes on until its next start
            problem = _("It runs for its owner from its next start: %(why)s") % {"why": error}
            Endpoint.objects.filter(pk=found.pk).update(scaling_problem=problem[:500])
    found.refresh_from_db()
    return found


def _begin(principal: Principal, found: Endpoint) -> None:
    """Hold for its new owner what is on its way; start, or have begin anew, what answers nobody."""
    if found.is_waiting:  # it keeps its place; what the engine makes of it just now is not theirs
        found.launch, found.generation = found.launch + 1, found.generation + 1
        found.save(update_fields=["launch", "generation", "updated_at"])
    if found.is_on_its_way:
        kind = kinds.kind_of(found.kind)
        hold(principal, found, Resolved(kind, found, Attached(), found.uid).amounts)
    if found.desired == Desired.STOPPED and found.stop_reason in _WENT:
        launch_again(principal=principal, row=found)
    elif found.taken_over and found.phase != Phase.RUNNING:
        relaunch(principal=principal, found=found)


def _put_beside(principal: Principal, row: Endpoint) -> None:
    """Make the same beside it, with the same bytes whatever a tag means by now."""
    same, pin = {"min_replicas": row.replicas}, row.image_digest
    canary_make(principal=principal, row=row, said=same, rolls_back=True, pin=pin)
    Endpoint.objects.filter(pk=row.pk).update(scaling_problem="")
    row.refresh_from_db()


def _require_usable(principal: Principal, row: Endpoint) -> None:
    """Raise where it is given something that its new owner may not use."""
    try:
        for home in row.homes:
            volume_for_use(principal, row.project, home.uid, write=False, even_full=True)
        check_still_usable(principal, row)
    except BerthError as error:
        text = _("You may not use all that it is given, so it stays its owner's: %(why)s")
        raise Conflict(text % {"why": error}, code="not-usable") from error
