"""Starting: one press makes a workload, another one starts it again."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from budgets import services as budgets
from clusters.usable import launch_check
from common.clock import now
from common.errors import Conflict, wrong
from common.ids import next_name
from events import services as events
from images.services import require_good
from projects.access import roles_kept
from quotas import services as quotas
from runtime.protocol import Desired
from work import kinds, selectors
from work.attached import Attached
from work.fields import Name
from work.models import Workload
from work.services.attachments import attach, check_still_usable, held, warning_of_full
from work.services.base import changed, lock, name_taken, own, require_free, require_startable, step
from work.services.resolve import Resolved, resolved
from work.services.tickets import ticket_note, ticket_use
from work.services.time_limit import bound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from accounts.principal import Principal
    from projects.models import Project
    from work.kinds import Kind

# A repeated press of one form within this time is one press.
NONCE_KEPT = timedelta(minutes=10)
# Of launches at once that name nothing, each finds the next free name after at most so many.
_TURNS = 16


@roles_kept()
def workload_create(  # noqa: PLR0913 - all by name
    *,
    principal: Principal,
    project: Project,
    kind: Kind,
    said: Mapping[str, Any],
    nonce: str = "",
    must_fit: bool = False,
    launch: Callable[[Principal, Any], None] | None = None,
    beside: Callable[[Any], object] | None = None,
    pin: str | None = None,
) -> Any:
    """Make and start one. ``said`` as API and document say it; what is None was not said.

    ``must_fit``: refuse what would wait without end, as pages do; who types a command or asks the
    API may wait for a machine that is still to come. ``launch``: how it begins, where it is not as
    its kind always is. ``beside``: keeps what belongs to the row, in its transaction. ``pin``: this
    digest of its image, of which no registry is asked.
    """
    require_startable(principal, project, kind)
    nonce = "".join(c for c in nonce[:64] if (c.isascii() and c.isalnum()) or c in "-_")
    found = resolved(principal=principal, project=project, kind=kind, said=said)
    if must_fit and not found.decision.fits:
        raise Conflict(found.decision.sentence, code="does-not-fit")
    if kind.check_new is not None:
        kind.check_new(found.row)
    digest = digest_of(principal, kind, found.row) if pin is None else pin
    new = _New(found, nonce, digest, launch or kind.launch, beside)
    for turn in range(1, _TURNS + 1):
        try:
            with transaction.atomic():
                return _create(principal, new)
        except IntegrityError as error:
            if nonce and (made := _made_by(principal, kind, nonce)):
                return made  # the other half of a double click was faster
            if found.row.name or turn == _TURNS:
                raise Conflict(name_taken(kind), code="name-taken") from error
    raise AssertionError  # the last turn returns or raises


@dataclass(frozen=True)
class _New:
    """What is made, decided before the transaction."""

    found: Resolved
    nonce: str
    digest: str
    launch: Callable[[Principal, Any], None] | None
    beside: Callable[[Any], object] | None


def _create(principal: Principal, new: _New) -> Any:
    found, kind, row = new.found, new.found.kind, copy(new.found.row)
    if new.nonce and (made := _made_by(principal, kind, new.nonce)):
        return made
    row.name = name_of_new(found)
    attached = held(
        found.attached,
        principal=principal,
        project=row.project,
        cluster_key=row.cluster_key,
        homes=kind.homes(row) if kind.homes else (),
    )
    if kind.prepare is not None:
        kind.prepare(principal, row)
    row.nonce = new.nonce
    row.phase_since = row.next_reconcile_at = now()
    if new.launch is None:
        row.launch, row.asked_at = 1, row.phase_since
        kind.begin(row)
    if new.digest:
        kind.pin(row, new.digest)
    row.save(force_insert=True)
    attach(row, attached, is_new=True)
    if new.beside is not None:
        new.beside(row)
    row.just_attached = attached
    if new.launch is None:
        reserve(principal, row, found.amounts, is_new=True)
        step(row, "accepted")
    events.record(
        actor=principal,
        verb=f"{kind.word}.{kind.made}",
        target=row,
        project_uid=row.project.uid,
        data={
            **kind.beside_of(row),
            **_public(kind, row),
            **{name: value for name, value in found.attached.public().items() if value},
        },
    )
    if new.launch is not None:
        new.launch(principal, row)
    changed(row, is_new=True)
    return row


def name_of_new(found: Resolved) -> str:
    """Return the name that was said, or the next free one; Invalid where it is taken."""
    row, kind = found.row, found.kind
    if not row.name:
        first = kind.first_name(row) if kind.first_name else kind.word
        taken, name = selectors.names_taken(row.project, row.owner, kind), kind.table["name"]
        if not isinstance(name, Name):
            return next_name(first, taken)
        return next_name(first, taken, between=name.between, most=name.longest - 5)
    require_free(row.project, row.owner, kind, row.name)
    return str(row.name)


@transaction.atomic
def workload_start(*, principal: Principal, row: Workload) -> Any:
    """Start one that ended again: a new launch with the same settings."""
    kind = kinds.kind_of(row.kind)
    if kind.start is not None:
        return kind.start(principal=principal, row=row)
    own(principal, row)
    return launch_again(principal=principal, row=lock(row))


def launch_again(*, principal: Principal, row: Any, cause: str = "") -> Any:
    """Launch a locked row again, as ``principal`` may.

    ``cause``: the verb of what does it in their name, where no person asked.
    """
    kind = kinds.kind_of(row.kind)
    require_startable(principal, row.project, kind)
    if row.is_on_its_way:
        return row  # a second press changes nothing
    _launch(principal, kind, row)
    step(row, "accepted", " ".join(filter(None, (ticket_note(row), warning_of_full(row)))))
    events.record(
        actor=None if cause else principal,
        verb=f"{kind.word}.{cause or kind.started}",
        target=row,
        project_uid=row.project.uid,
    )
    changed(row)
    return row


@transaction.atomic
def relaunch(
    *, principal: Principal, found: Workload, check: Callable[[Any], None] | None = None
) -> Any:
    """Have what runs begin anew as ``principal``, who may be another one than started it.

    ``check`` looks at the locked row first, as of an edit.
    """
    row, kind = lock(found), kinds.kind_of(found.kind)
    if check is not None:
        check(row)
    if row.desired != Desired.RUNNING:
        raise Conflict(_("It was changed meanwhile. Look at it as it is now."), code="changed")
    require_startable(principal, row.project, kind)
    _launch(principal, kind, row)
    step(row, "accepted", ticket_note(row) or _("It restarts for its new owner."))
    changed(row)
    return row


def _launch(principal: Principal, kind: Kind, row: Any) -> None:
    """Begin another launch of a locked row with what ``principal`` may use, held for them."""
    launch_check(row.cluster_key, row.project.uid)
    check_still_usable(principal, row)
    kind.own.read(row, private=True)  # raises Unavailable: it never starts without its variables
    bound(kind, row, ())
    begin_launch(kind, row)
    row.desired = Desired.RUNNING
    row.save()
    reserve(principal, row, Resolved(kind, row, Attached(), row.uid).amounts)


def begin_launch(kind: Kind, row: Any) -> None:
    """Set the columns of a new launch; the caller holds its row, and saves."""
    row.ticket_at = ticket_use(row)
    if row.gpus:
        row.wish_gpus, row.wish_flavor = 0, ""
    row.launch += 1
    row.generation += 1
    row.asked_at = now()
    row.started_at = row.ready_at = row.ends_at = row.stopped_at = None
    row.warned_at = row.stop_requested_at = None
    row.stop_reason, row.extended_minutes = "", 0
    kind.begin(row)


def reserve(
    principal: Principal, row: Workload, amounts: Mapping[str, int], *, is_new: bool = False
) -> None:
    """Hold what a new launch takes, in the transaction of the intent, and tell its kind."""
    hold(principal, row, amounts, is_new=is_new)
    launched = kinds.kind_of(row.kind).launched
    if launched is not None:
        launched(principal, row)


def hold(
    principal: Principal, row: Workload, amounts: Mapping[str, int], *, is_new: bool = False
) -> None:
    """Hold so much of the limits for a launch; what runs may take more without another one.

    Its GPU-hours are asked last, and decide how it stands in line.
    """
    quotas.reserve(
        principal=principal,
        project=row.project,
        owner=row.owner,
        uid=row.uid,
        amounts=amounts,
        launch=row.launch,
        is_new=is_new,
    )
    stands = budgets.require_room(
        project=row.project,
        owner=row.owner,
        uid=row.uid,
        amounts=amounts,
        minutes=row.time_limit_minutes,
    )
    if stands != row.over_budget:
        row.over_budget = stands
        Workload.objects.filter(pk=row.pk).update(over_budget=stands)


def digest_of(principal: Principal, kind: Kind, row: Any, *, newest: bool = False) -> str:
    """Return which bytes the name of its image means now, or raise Invalid when it can't work.

    It asks a registry: never inside a transaction. "": it has no image of its own, or its
    registry did not say and a node has to find out. ``newest``: asks the registry itself, not what
    it said a minute ago, as somebody may just have pushed; refused where it does not say.
    """
    if "image" not in kind.table or not row.image:
        if newest:
            message = _("It has no image of its own: operators choose this one.")
            raise wrong("newest_image", message)
        return ""
    found = require_good(
        principal=principal,
        project=row.project,
        cluster_key=row.cluster_key,
        reference=row.image,
        kind=kind.class_of(row),
        right=kind.create,
        fresh=newest,
    )
    if newest and not found.digest:
        message = _("What the tag means now could not be learned, so nothing was changed: %(why)s")
        raise wrong("newest_image", message % {"why": found.message})
    return found.digest


def _made_by(principal: Principal, kind: Kind, nonce: str) -> Any:
    made = kind.model.objects.filter(owner=principal.user, nonce=nonce).first()
    if made is None:
        return None
    if made.created_at < now() - NONCE_KEPT:
        Workload.objects.filter(pk=made.pk).update(nonce="")
        return None
    return made


def _public(kind: Kind, row: Any) -> dict[str, object]:
    """What an event may tell: sizes and image, never the environment nor a command line."""
    told = kind.own.but("name").read(row, private=False)
    return {name: value for name, value in told.items() if value not in ("", [], None)}
