"""Making webhooks, and putting what people are told into their outbox."""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import translation
from django.utils.translation import gettext as _

from accounts.models import User
from common.clock import now
from common.errors import Conflict, Invalid, wrong
from common.ids import new_uid
from common.outbound import Client, OutboundError, policy_from_settings
from credentials.models import Sentence
from credentials.sealing import sealed
from events.services import record
from notifications.services import notify
from projects.access import Permission, require, roles_with
from projects.models import Membership, Project
from projects.services.life import lock
from webhooks.models import Delivery, DeliveryState, Webhook
from webhooks.selectors import kinds_for

if TYPE_CHECKING:
    from accounts.principal import Principal
    from notifications.hooks import Told

MOST = 10  # of a project, and of a person
NAME_MAX = 80
URL_MAX = 1000
KEY_BYTES = 32
TEST = "webhook.test"
_TAIL = 4
_TAIL_OF = 12  # a shorter last part is shown not even by its end


@transaction.atomic
def webhook_make(
    *, principal: Principal, project: Project | None, name: str, url: str, kinds: Iterable[str] = ()
) -> tuple[Webhook, str]:
    """Return it and its secret, which is told this once."""
    _require(principal, project)
    if project is not None:
        project = lock(project)
    else:
        User.objects.select_for_update().get(pk=principal.user.pk)
    mine = Webhook.objects.filter(project=project, user=None if project else principal.user)
    if mine.count() >= MOST:
        raise Conflict(_("There are %d webhooks already. Delete one first.") % MOST)
    secret = _new_secret()
    row = Webhook(
        project=project,
        user=None if project else principal.user,
        name=_name(name),
        shown=_checked(url),
        sealed=sealed({"url": url, "secret": secret}),
        kinds=_kinds(kinds, project),
        language=principal.user.reads_in,
    )
    _save(row)
    _record(principal, row, "webhook.created", data={"address": row.shown, "kinds": row.kinds})
    return row, secret


@transaction.atomic
def webhook_change(
    *, principal: Principal, webhook: Webhook, changes: Mapping[str, Any]
) -> Webhook:
    """Change name, address (``url``), kinds, or whether it is on."""
    row = _locked(principal, webhook)
    before = _json(row)
    if "name" in changes:
        row.name = _name(changes["name"])
    if changes.get("url"):
        row.shown = _checked(changes["url"])
        row.sealed = sealed({**row.sealed, "url": changes["url"]})
    if "kinds" in changes:
        row.kinds = _kinds(changes["kinds"], row.project)
    if "enabled" in changes and bool(changes["enabled"]) != row.enabled:
        row.enabled = bool(changes["enabled"])
        if not row.enabled:
            give_up_waiting(row)
    if row.enabled:  # what went wrong before is of another address, or has been looked at
        row.given_up_at = row.failing_since = row.retry_at = None
    _save(row)
    after = _json(row)
    if after != before or changes.get("url"):
        _record(principal, row, "webhook.changed", data={"before": before, "after": after})
    return row


@transaction.atomic
def secret_replace(*, principal: Principal, webhook: Webhook) -> str:
    """Return the new secret; what is sent from now on is signed with it."""
    row = _locked(principal, webhook)
    secret = _new_secret()
    row.sealed = sealed({**row.sealed, "secret": secret})
    row.save(update_fields=["sealed"])
    _record(principal, row, "webhook.secret-replaced")
    return secret


@transaction.atomic
def webhook_delete(*, principal: Principal, webhook: Webhook) -> None:
    row = _locked(principal, webhook)
    _record(principal, row, "webhook.deleted", data={"address": row.shown})
    row.delete()


@transaction.atomic
def webhook_test(*, principal: Principal, webhook: Webhook) -> Delivery:
    """Put a test into the outbox; it goes out at once, whatever failed before."""
    row = _locked(principal, webhook)
    if not row.enabled:
        raise Conflict(_("The webhook is off. Switch it on first."))
    if Delivery.objects.filter(webhook=row, kind=TEST, state=DeliveryState.QUEUED).exists():
        raise Conflict(_("A test waits to be sent already."))
    if row.retry_at is not None:
        row.retry_at = None
        row.save(update_fields=["retry_at"])
    at = now()
    made = Delivery.objects.create(
        webhook=row,
        event=new_uid(),
        kind=TEST,
        params={"name": row.name, "who": principal.user.label},
        url=row.get_absolute_url(),
        created_at=at,
        due_at=at,
    )
    _record(principal, row, "webhook.tested")
    return made


def queue(told: Told) -> None:
    """Put one matter into the outbox of each webhook that hears of it, once."""
    concerned = Q(user_id__in=told.user_ids)
    if told.project_id is not None:
        concerned |= Q(project_id=told.project_id)
    rows = Webhook.objects.filter(concerned, enabled=True).only("pk", "kinds", "project_id")
    # the unique event lets the second of two equal ones fall silently
    Delivery.objects.bulk_create(
        (
            Delivery(
                webhook=row,
                event=told.event,
                kind=told.kind,
                params=dict(told.shared if row.project_id else told.params),
                url=told.url,
                created_at=told.at,
                due_at=told.at,
            )
            for row in rows
            if not row.kinds or told.kind in row.kinds
        ),
        ignore_conflicts=True,
    )


def give_up_waiting(row: Webhook) -> None:
    """End what waits for a webhook that is off."""
    waiting = Delivery.objects.filter(
        webhook=row, state__in=[DeliveryState.QUEUED, DeliveryState.SENDING]
    )
    with translation.override("en"):
        said = Sentence(_("The webhook was switched off.")).kept()
    waiting.update(state=DeliveryState.FAILED, finished_at=now(), said=said)


@transaction.atomic
def switch_off(row: Webhook, why: Sentence) -> None:
    """Switch off one that can't be delivered to, and tell those who can mend it."""
    changed = Webhook.objects.filter(pk=row.pk, enabled=True).update(
        enabled=False, given_up_at=now()
    )
    if not changed:
        return
    give_up_waiting(row)
    _record(None, row, "webhook.disabled", message=str(why))
    if row.project is None:
        people = [row.user]
    else:
        roles = roles_with(Permission.WEBHOOK_MANAGE)
        leading = Membership.objects.filter(project=row.project, role__in=roles)
        people = [m.user for m in leading.select_related("user")]
    event = new_uid()
    for person in people:
        with translation.override(person.reads_in if person else None):
            said = str(why)
        notify(
            users=[person],
            kind="webhook.disabled",
            params={"name": row.name, "reason": said},
            url=row.get_absolute_url(),
            key=str(row.uid),
            project_id=row.project_id,
            event=event,
        )


def _require(who: Principal, project: Project | None) -> None:
    if project is not None:
        require(who, project, Permission.WEBHOOK_MANAGE)


def _locked(who: Principal, webhook: Webhook) -> Webhook:
    _require(who, webhook.project)
    rows = Webhook.objects.select_for_update(of=("self",)).select_related("project", "user")
    row = rows.filter(pk=webhook.pk).first()
    if row is None:
        raise Conflict(_("The webhook was deleted meanwhile."))
    return row


def _save(row: Webhook) -> None:
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:
        sentence = _("There is already a webhook called “%(name)s”.") % {"name": row.name}
        raise Conflict(sentence, code="name-taken", fields={"name": [sentence]}) from None


def _record(who: Principal | None, row: Webhook, verb: str, **more: Any) -> None:
    record(actor=who, verb=verb, target=row, project_uid=row.project_uid, **more)


def _json(row: Webhook) -> dict[str, Any]:
    return {"name": row.name, "address": row.shown, "kinds": row.kinds, "enabled": row.enabled}


def _new_secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()


def _name(text: str) -> str:
    name = " ".join(str(text).split())
    if not name or len(name) > NAME_MAX or not name.isprintable():
        raise wrong("name", _("One line of at most %d characters.") % NAME_MAX)
    return name


def _checked(url: str) -> str:
    """Return what is shown of the address: the host, and the end of a long last part.

    Chat programs take an address as the whole permission to write.
    """
    if len(url) > URL_MAX:
        raise wrong("url", _("At most %d characters.") % URL_MAX)
    try:
        with Client(policy_from_settings()) as client:
            client.check(url)
    except OutboundError as error:
        raise wrong("url", error.message) from None
    parts = urlsplit(url)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    hidden = "" if path in {"", "/"} else "/…"
    tail = path[-_TAIL:] if len(re.split("[/?&=]", path)[-1]) >= _TAIL_OF else ""
    return f"{parts.scheme}://{parts.netloc}{hidden}{tail}"[:160]


def _kinds(given: Iterable[str], project: Project | None) -> list[str]:
    known = {kind.name for kind in kinds_for(project)}
    wanted = set(given)
    if unknown := sorted(wanted - known):
        raise Invalid(
            _("There is no such kind of notification."),
            fields={"kinds": [f"{_('There is no such kind of notification.')} {unknown[0][:48]}"]},
        )
    return sorted(wanted)
