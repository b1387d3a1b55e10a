"""What people do about idle work: put it off, write to its owner, park it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from common.clock import now
from common.errors import Conflict, wrong
from events import services as events
from notifications.services import notify
from parking import selectors
from parking.choices import Act
from parking.models import Stretch
from parking.services import watch
from projects.others import REASON_MAX, reason_for
from runtime.bus import publish
from runtime.protocol import Desired
from work import kinds
from work.services.base import lock, require_end, topics

if TYPE_CHECKING:
    from accounts.principal import Principal
    from work.models import Workload

MESSAGE_MAX = 500
_AHEAD = 2  # more extensions than these never lie ahead: one is asked again by then


@transaction.atomic
def idle_extend(
    *, principal: Principal, row: Workload, minutes: int | None = None, reason: str = ""
) -> Stretch:
    """Put off what follows for idle work, as far as its policy lets one; beyond it say why.

    Its owner may, and whoever may end it. What was parked a moment before is told so.
    """
    require_end(principal, row)
    found = lock(row)
    if found.desired != Desired.RUNNING:
        raise Conflict(_("It was stopped already: resume it."), code="not-running")
    stretch = Stretch.objects.select_for_update().filter(workload_id=found.pk).first()
    if stretch is None or stretch.due_at is None or stretch.launch != found.launch:
        raise Conflict(_("It is not idle: there is nothing to put off."), code="not-idle")
    rule = selectors.rule_of(found, stretch)
    if rule is None or not rule.extension:
        raise Conflict(_("Its policy knows no extension: use it, or let it go."), code="no-limit")
    minutes = rule.extension if minutes is None else minutes
    if not 1 <= minutes <= rule.extension:
        text = ngettext(
            "At most %(n)d minute at once.", "At most %(n)d minutes at once.", rule.extension
        )
        raise wrong("minutes", text % {"n": rule.extension})
    if stretch.due_at > now() + _AHEAD * timedelta(minutes=rule.extension):
        raise Conflict(_("It is put off far enough for now."), code="far-enough")
    said = _one_line("reason", reason, REASON_MAX)
    if stretch.extensions >= rule.extensions and not said:
        text = ngettext(
            "It was put off %(n)d time. Say what it is kept for.",
            "It was put off %(n)d times. Say what it is kept for.",
            stretch.extensions,
        )
        raise wrong("reason", text % {"n": stretch.extensions})
    stretch.extensions += 1
    stretch.extended_until = max(now(), stretch.due_at) + timedelta(minutes=minutes)
    stretch.due_at = stretch.extended_until
    stretch.warned_at = stretch.done_at = None
    stretch.save(update_fields=["extensions", "extended_until", "due_at", "warned_at", "done_at"])
    events.record(
        actor=principal,
        verb="work.idle-extended",
        target=found,
        project_uid=found.project.uid,
        message=said,
        data={"minutes": minutes, "times": stretch.extensions},
    )
    publish(topics(found), {"kind": found.kind, "id": found.short_id, "uid": str(found.uid)})
    return stretch


@transaction.atomic
def owner_message(*, principal: Principal, row: Workload, said: str) -> None:
    """Write to whose work it is; audited."""
    require_end(principal, row)
    text = _one_line("message", said, MESSAGE_MAX)
    if not text:
        raise wrong("message", _("Say something."))
    found = lock(row)
    notify(
        users=[found.owner],
        kind="work.message",
        params={"who": principal.user.label, "name": row.name, "text": text},
        url=found.get_absolute_url(),
    )  # to them, and to no address of the project
    events.record(
        actor=principal,
        verb="work.messaged",
        target=row,
        project_uid=row.project.uid,
        message=text,
    )


@transaction.atomic
def work_park(*, principal: Principal, row: Workload, said: str = "") -> bool:
    """Park work of somebody now; they are told by whom and why."""
    require_end(principal, row)
    found = lock(row)
    kind = kinds.kind_of(found.kind)
    if kind.once:
        raise Conflict(_("It runs to its end: it can be cancelled, not parked."), code="not-parked")
    said = reason_for(principal, found.owner, said)
    Stretch.objects.filter(workload_id=found.pk).delete()
    if not watch.end(found, Act.PARK, actor=principal, said=said):
        raise Conflict(_("It does not run: there is nothing to park."), code="not-running")
    return True


def _one_line(name: str, said: Any, most: int) -> str:
    text = " ".join(str(said).split())
    if len(text) > most or not text.isprintable():
        raise wrong(name, _("At most %(n)d characters, all of them printable.") % {"n": most})
    return text
