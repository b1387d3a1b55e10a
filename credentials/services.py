"""Writing credentials. Secrets go in here and never come out by any door."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from common.clock import now
from common.errors import Conflict, Invalid
from common.ids import new_uid
from credentials import places
from credentials.choices import CredentialKind, UsableBy, Use
from credentials.hosts import registry_host
from credentials.models import Credential
from credentials.sealing import seal
from events import services as events
from projects.access import Permission, require
from projects.services.life import line, lock

if TYPE_CHECKING:
    from uuid import UUID

    from accounts.principal import Principal
    from projects.models import Project

NAME_MAX = 63
USER_MAX = 255
SECRET_MAX = 16 * 1024
MOST = 100  # of one project


@dataclass(frozen=True)
class Login:
    """A user name and a secret that is never printed."""

    username: str
    password: str = field(repr=False)


@transaction.atomic
def registry_add(
    *,
    principal: Principal,
    project: Project,
    name: str,
    host: str,
    login: Login,
    expires_at: datetime | None = None,
) -> Credential:
    """Keep the sign-in of one registry; every workspace of the project may pull with it."""
    require(principal, project, Permission.CREDENTIAL_MANAGE)
    project = lock(project)
    name, host = line(name, "name", NAME_MAX), registry_host(host)
    login = _checked(login)
    if Credential.objects.filter(project=project).count() >= MOST:
        raise Conflict(_("The project has %d credentials already. Remove one first.") % MOST)
    uid = new_uid()
    sealed, key = seal(uid, {"password": login.password})
    try:
        with transaction.atomic():
            row = Credential.objects.create(
                uid=uid,
                project=project,
                owner=principal.user,
                kind=CredentialKind.REGISTRY,
                name=name,
                target=host,
                usable_by=UsableBy.MEMBERS,
                public={"username": login.username},
                sealed=sealed,
                sealed_with=key,
                expires_at=_future(expires_at),
            )
    except IntegrityError:
        raise _taken(project, name, host) from None
    _tell(principal, row, "credential.created")
    return row


@transaction.atomic
def credential_rotate(
    *,
    principal: Principal,
    credential: Credential,
    login: Login,
    expires_at: datetime | None = None,
) -> Credential:
    """Replace the secret; what starts from now on uses the new one, the old one is gone."""
    row = _locked(principal, credential)
    login = _checked(login)
    row.sealed, row.sealed_with = seal(row.uid, {"password": login.password})
    row.public = {**row.public, "username": login.username}
    row.version += 1
    row.rotated_at = now()
    row.expires_at = _future(expires_at)
    row.tested_at = row.test_ok = None
    row.test_message = ""
    row.save()
    _tell(principal, row, "credential.rotated")
    return row


@transaction.atomic
def credential_delete(*, principal: Principal, credential: Credential, confirm: str) -> None:
    """Forget it; the copies in clusters go with the next look at each place, at once."""
    row = _locked(principal, credential)
    if confirm != row.name:
        sentence = _("Type “%(name)s” to confirm.") % {"name": row.name}
        raise Invalid(sentence, fields={"confirm": [sentence]})
    _tell(principal, row, "credential.deleted")
    row.delete()


@transaction.atomic
def credentials_delete_all(*, actor: Principal | None, project: Project) -> int:
    """Forget everything of a project that is being deleted."""
    rows = list(Credential.objects.select_for_update().filter(project=project))
    for row in rows:
        _tell(actor, row, "credential.deleted")
        row.delete()
    return len(rows)


@transaction.atomic
def credential_note_test(
    *, principal: Principal, credential: Credential, version: int, ok: bool, message: str
) -> Credential:
    """Keep what a test said, unless the secret was replaced meanwhile."""
    row = Credential.objects.select_for_update().get(pk=credential.pk)
    if row.version == version:
        row.tested_at, row.test_ok, row.test_message = now(), ok, message[:300]
        row.save(update_fields=["tested_at", "test_ok", "test_message"])
    events.record(
        actor=principal,
        verb="credential.tested",
        target=row,
        project_uid=_project_uid(row),
        outcome="done" if ok else "failed",
        data={"target": row.target},
    )
    return row


def credential_note_use(*, uids: list[int], purpose: Use) -> None:
    """Remember when secrets were last handed over; by primary keys, without locks."""
    Credential.objects.filter(pk__in=uids).update(last_used_at=now(), last_used_for=purpose)


def _locked(principal: Principal, credential: Credential) -> Credential:
    rows = Credential.objects.select_for_update(of=("self",)).select_related("project")
    row = rows.get(pk=credential.pk)
    assert row.project is not None  # noqa: S101 - personal ones have no door yet
    require(principal, row.project, Permission.CREDENTIAL_MANAGE)
    lock(row.project)
    return row


def _tell(actor: Principal | None, row: Credential, verb: str) -> None:
    events.record(
        actor=actor,
        verb=verb,
        target=row,
        project_uid=_project_uid(row),
        data={"kind": row.kind, "target": row.target, "version": row.version},
    )
    if row.project is not None:
        places.wake(row.project)


def _project_uid(row: Credential) -> UUID | None:
    return row.project.uid if row.project else None


def _checked(login: Login) -> Login:
    wrong: dict[str, list[str]] = {}
    username, password = login.username.strip(), login.password.strip()
    if not username or len(username) > USER_MAX or not username.isprintable() or ":" in username:
        wrong["username"] = [_("One line of at most %d characters, without “:”.") % USER_MAX]
    if not password or len(password) > SECRET_MAX or "\0" in password:
        wrong["password"] = [_("At most %d characters.") % SECRET_MAX]
    if wrong:
        raise Invalid(_("The sign-in is not complete."), fields=wrong)
    return Login(username, password)


def _future(at: datetime | None) -> datetime | None:
    if at is not None and at <= now():
        sentence = _("This moment has passed.")
        raise Invalid(sentence, fields={"expires_at": [sentence]})
    return at


def _taken(project: Project, name: str, host: str) -> Conflict:
    if Credential.objects.filter(project=project, name=name).exists():
        sentence = _("There is already a credential called “%(name)s”.") % {"name": name}
        return Conflict(sentence, code="name-taken", fields={"name": [sentence]})
    sentence = _(
        "The project has a sign-in for %(host)s already; a cluster knows one of each. Rotate it."
    ) % {"host": host}
    return Conflict(sentence, code="registry-taken", fields={"host": [sentence]})
