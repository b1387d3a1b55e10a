"""Writing credentials. Secrets go in here and never come out by any door."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from accounts.principal import ACCOUNT_MANAGE
from common.clock import now
from common.errors import Conflict, Forbidden, Invalid, NotFound, no_such_field, wrong
from common.ids import new_uid
from credentials import references
from credentials.choices import CredentialKind, UsableBy, Use
from credentials.kinds import Part, kind_of
from credentials.models import Credential
from credentials.sealing import seal
from events import services as events
from projects.access import Permission, require
from projects.models import ProjectNamespace
from projects.services.life import line, lock
from runtime.hints import hint_uids

if TYPE_CHECKING:
    from uuid import UUID

    from accounts.principal import Principal
    from credentials.models import Sentence
    from projects.models import Project


NAME_MAX = 63
TEXT_MAX = 500
MOST = 100  # of one project, and of one person
EDITED = frozenset({"name", "description", "usable_by", "expires_at"})


@dataclass(frozen=True)
class Label:
    """What every kind has. A registry's sign-in and one's own have no choice of users."""

    name: str
    description: str = ""
    usable_by: str = UsableBy.MEMBERS.value
    expires_at: datetime | None = None


@transaction.atomic
def credential_add(
    *,
    principal: Principal,
    project: Project | None,
    kind: str,
    label: Label,
    fields: Mapping[str, Any],
) -> Credential:
    """Keep a secret for a project, or (``project`` None) for oneself in all one's projects."""
    if project is None:
        _require_account(principal)
    else:
        require(principal, project, Permission.CREDENTIAL_MANAGE)
        project = lock(project)
    what = kind_of(kind)
    _known(fields, what.names(Part.TARGET, Part.SETTING, Part.SECRET))
    if project is None and what.kind is CredentialKind.REGISTRY:
        raise wrong("kind", _("Clusters pull images with the sign-ins of a project."))
    name, description = _labelled(label.name, label.description)
    read = what.secret(fields)
    public = {**what.settings(fields), **read.public}
    held = _of(principal, project)
    if held.count() >= MOST:
        raise Conflict(_("There are %d credentials already. Remove one first.") % MOST)
    row = Credential(
        uid=new_uid(),
        project=project,
        owner=principal.user,
        kind=what.kind,
        name=name,
        description=description,
        target=what.target(public)[:255],
        usable_by=_users(label.usable_by, project, what.kind),
        public=public,
        expires_at=_future(label.expires_at),
    )
    row.sealed, row.sealed_with = seal(row.uid, dict(read.secret))
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        raise _taken(row) from None
    _tell(principal, row, "credential.created")
    return row


@transaction.atomic
def credential_rotate(
    *,
    principal: Principal,
    credential: Credential,
    fields: Mapping[str, Any],
    expires_at: datetime | None = None,
) -> Credential:
    """Replace the secret; what starts from now on uses the new one, the old one is gone.

    What may be shown and is not given again (a user name) stays as it was.
    """
    row = _locked(principal, credential)
    what = kind_of(row.kind)
    _known(fields, what.names(Part.SECRET))
    kept = {n: row.public[n] for n in what.shown() if n in row.public}
    read = what.secret({**kept, **fields})
    row.sealed, row.sealed_with = seal(row.uid, dict(read.secret))
    row.public = {**row.public, **read.public}
    row.target = what.target(row.public)[:255]
    row.version += 1
    row.rotated_at = now()
    row.expires_at = _future(expires_at)
    row.warned = ""
    _untested(row)
    row.save()
    _tell(principal, row, "credential.rotated")
    return row


@transaction.atomic
def credential_edit(
    *, principal: Principal, credential: Credential, changes: Mapping[str, Any]
) -> Credential:
    """Rename, describe, say who may use it, or change settings of its kind (never its target)."""
    row = _locked(principal, credential)
    what = kind_of(row.kind)
    settings = what.names(Part.SETTING)
    _known(changes, (*EDITED, *settings))
    if "name" in changes or "description" in changes:
        row.name, row.description = _labelled(
            changes.get("name", row.name), changes.get("description", row.description)
        )
    if "usable_by" in changes:
        row.usable_by = _users(changes["usable_by"], row.project, row.kind)
    if "expires_at" in changes and changes["expires_at"] != row.expires_at:
        row.expires_at, row.warned = _future(changes["expires_at"]), ""
    if any(name in changes for name in settings):
        given = {**row.public, **{n: changes[n] for n in settings if n in changes}}
        fresh = {**row.public, **what.settings(given)}
        if fresh != row.public:  # the next start gets them, and a test says nothing yet
            row.public, row.target = fresh, what.target(fresh)[:255]
            row.version += 1
            _untested(row)
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:
        raise _taken(row) from None
    _tell(principal, row, "credential.edited")
    return row


@transaction.atomic
def credential_delete(*, principal: Principal, credential: Credential, confirm: str) -> None:
    """Forget it; the copies that work holds go with the next look at each, at once."""
    row = _locked(principal, credential, remove=True)
    if confirm != row.name:
        raise wrong("confirm", _("Type “%(name)s” to confirm.") % {"name": row.name})
    _remove(principal, row)


@transaction.atomic
def credentials_delete_all(*, actor: Principal | None, project: Project) -> int:
    """Forget everything of a project that is being deleted."""
    rows = list(Credential.objects.select_for_update().filter(project=project))
    for row in rows:
        _remove(actor, row)
    return len(rows)


@transaction.atomic
def credential_note_test(
    *, principal: Principal, credential: Credential, version: int, ok: bool | None, said: Sentence
) -> Credential:
    """Keep what a test said, unless the secret was replaced meanwhile."""
    row = Credential.objects.select_for_update().filter(pk=credential.pk).first()
    if row is None:  # deleted while it was asked about
        raise _gone()
    if row.version == version:
        row.tested_at, row.test_ok = now(), ok
        row.test_said, row.test_message = said.kept(), ""
        row.save(update_fields=["tested_at", "test_ok", "test_said", "test_message"])
    events.record(
        actor=principal,
        verb="credential.tested",
        target=row,
        project_uid=_project_uid(row),
        outcome="failed" if ok is False else "done",
        data={"target": row.target},
    )
    return row


def credential_note_use(*, uids: list[int], purpose: Use) -> None:
    """Remember when secrets were last handed over; by primary keys, without locks."""
    Credential.objects.filter(pk__in=uids).update(last_used_at=now(), last_used_for=purpose)


def require_manage(principal: Principal, row: Credential, *, remove: bool = False) -> None:
    """Raise unless ``principal`` may replace, change and test it (``remove``: or take it away).

    What only one person may use is replaced by nobody else: his work would get another's key.
    """
    mine = row.owner_id == principal.user.pk
    if row.project is None:
        if not mine:
            raise _gone()
        _require_account(principal)
        return
    require(principal, row.project, Permission.CREDENTIAL_MANAGE)
    if row.usable_by == UsableBy.OWNER and not mine and not remove:
        raise Forbidden(_("Only whoever stored it may use it, so only they may change it."))


def _require_account(principal: Principal) -> None:
    if not principal.allows_scope(ACCOUNT_MANAGE):
        raise Forbidden(_("This token lacks the scope “%s”.") % ACCOUNT_MANAGE)


def _locked(principal: Principal, credential: Credential, *, remove: bool = False) -> Credential:
    """Return the row as it is now, locked after its project: who deletes a project begins there
    too, and two who begin at opposite ends would wait for each other.
    """
    require_manage(principal, credential, remove=remove)
    if credential.project is not None:
        lock(credential.project)
    rows = Credential.objects.select_for_update(of=("self",)).select_related("project")
    row = rows.filter(pk=credential.pk).first()
    if row is None:
        raise _gone()
    require_manage(principal, row, remove=remove)
    return row


def _gone() -> NotFound:
    return NotFound(_("There is no such credential, or you may not see it."))


def _of(principal: Principal, project: Project | None) -> Any:
    if project is None:
        return Credential.objects.filter(project__isnull=True, owner=principal.user)
    return Credential.objects.filter(project=project)


def _untested(row: Credential) -> None:
    row.tested_at = row.test_ok = None
    row.test_said, row.test_message = {}, ""


def _remove(actor: Principal | None, row: Credential) -> None:
    found = references.removing(row, actor)
    _tell(actor, row, "credential.deleted", holders=len(found))
    row.delete()


def _tell(actor: Principal | None, row: Credential, verb: str, **more: Any) -> None:
    events.record(
        actor=actor,
        verb=verb,
        target=row,
        project_uid=_project_uid(row),
        data={"kind": row.kind, "target": row.target, "version": row.version, **more},
    )
    if row.project is not None and row.kind == CredentialKind.REGISTRY:
        wake(row.project)


def _project_uid(row: Credential) -> UUID | None:
    return row.project.uid if row.project else None


def _known(given: Mapping[str, Any], names: tuple[str, ...]) -> None:
    unknown = sorted(str(name)[:80] for name in given if name not in names)
    if unknown:
        raise Invalid(
            _("There is no such field."),
            fields={name: [no_such_field(name, names)] for name in unknown[:20]},
        )


def _labelled(name: Any, description: Any) -> tuple[str, str]:
    text = " ".join(str(description or "").split())
    if len(text) > TEXT_MAX or not text.isprintable():
        raise wrong("description", _("At most %d characters.") % TEXT_MAX)
    return line(str(name), "name", NAME_MAX), text


def _users(value: str, project: Project | None, kind: str) -> str:
    if value not in UsableBy.values:
        raise wrong("usable_by", _("One of: %(known)s.") % {"known": ", ".join(UsableBy.values)})
    if project is None:
        return UsableBy.OWNER.value
    if kind == CredentialKind.REGISTRY and value != UsableBy.MEMBERS:
        raise wrong("usable_by", _("A cluster pulls with it for every member."))
    return value


def _future(at: datetime | None) -> datetime | None:
    if at is not None and at <= now():
        raise wrong("expires_at", _("This moment has passed."))
    return at


def _taken(row: Credential) -> Conflict:
    same = Credential.objects.filter(project=row.project, name=row.name)
    if row.project is None:
        same = same.filter(owner=row.owner)
    if same.exclude(pk=row.pk).exists():
        sentence = _("There is already a credential called “%(name)s”.") % {"name": row.name}
        return Conflict(sentence, code="name-taken", fields={"name": [sentence]})
    sentence = _(
        "The project has a sign-in for %(host)s already; a cluster knows one of each. Rotate it."
    ) % {"host": row.target}
    return Conflict(sentence, code="registry-taken", fields={"host": [sentence]})


def wake(project: Project) -> None:
    """Mark the project's places due: each compares the version of its sign-ins and writes."""
    rows = ProjectNamespace.objects.filter(project=project, deleted_at__isnull=True)
    hint_uids(ProjectNamespace.KIND, list(rows.values_list("uid", flat=True)))
