"""A project from its beginning to its end, and which clusters it may use."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from accounts.principal import Principal
from clusters.models import Cluster
from common.clock import now
from common.errors import Conflict, Forbidden, Invalid, wrong
from common.ids import slugify
from events.services import record
from projects import hooks, namespaces
from projects.access import Permission, require
from projects.choices import Role
from projects.models import Membership, Project
from runtime.bus import publish
from runtime.hints import hint
from runtime.protocol import Desired, Phase

SCOPE_CREATE = "project:create"  # of API tokens
RESERVED = frozenset({"new", "invitations", "permissions", "api", "none", "all"})
_SLUG = re.compile(r"\A[a-z](?:[a-z0-9-]{0,38}[a-z0-9])?\Z")
_NAME_LIMIT = 120
_TEXT_LIMIT = 2000


def may_create(who: Principal) -> bool:
    """Whether ``who`` may make projects (setting BERTH_PROJECT_CREATION)."""
    if not who.user.is_active or not who.allows_scope(SCOPE_CREATE):
        return False
    if who.is_in_projects_only:
        return False
    return settings.BERTH_PROJECT_CREATION == "anyone" or who.is_operator


@transaction.atomic
def project_create(
    *, principal: Principal, name: str, slug: str = "", description: str = ""
) -> Project:
    """Make a project; its creator owns it. Without a slug one is made from the name."""
    if not may_create(principal):
        raise Forbidden(_("Only operators make projects here. Ask one of them."))
    name = line(name, "name", _NAME_LIMIT)
    chosen = _checked_slug(slug) if slug else _free_slug(name)
    try:
        with transaction.atomic():
            project = Project.objects.create(
                slug=chosen,
                name=name,
                description=_text(description),
                phase=Phase.RUNNING,
                observed_generation=1,
                phase_since=now(),
            )
    except IntegrityError:
        sentence = _("There is already a project at the address “%(slug)s”.") % {"slug": chosen}
        raise Conflict(sentence, code="slug-taken", fields={"slug": [sentence]}) from None
    Membership.objects.create(project=project, user=principal.user, role=Role.OWNER)
    record(actor=principal, verb="project.created", target=project, project_uid=project.uid)
    namespaces.places_ensure(project)
    hooks.project_created(project, principal)
    changed(project)
    return project


@transaction.atomic
def project_update(
    *,
    principal: Principal,
    project: Project,
    name: str | None = None,
    description: str | None = None,
) -> Project:
    """Rename or describe; the address (slug) stays, links keep working."""
    require(principal, project, Permission.PROJECT_UPDATE)
    row = lock(project)
    before = row.name
    if name is not None:
        row.name = line(name, "name", _NAME_LIMIT)
    if description is not None:
        row.description = _text(description)
    _save(row, "name", "description")
    renamed = "" if row.name == before else f"{before} → {row.name}"
    record(
        actor=principal,
        verb="project.renamed" if renamed else "project.updated",
        target=row,
        project_uid=row.uid,
        message=renamed,
    )
    changed(row)
    return row


@transaction.atomic
def project_archive(
    *, principal: Principal, project: Project, confirm_stop: bool = False
) -> Project:
    """Let nothing new start. Running work is stopped, but only after it was confirmed."""
    require(principal, project, Permission.PROJECT_ARCHIVE)
    row = lock(project)
    if row.archived_at is not None:
        return row
    held = hooks.summaries(row)
    busy = sum(s.running for s in held)
    if busy and not confirm_stop:
        said = {"what": hooks.running_words(held)}
        raise Conflict(
            _("Running now: %(what)s. Archiving stops that. Confirm it.") % said,
            code="confirm-stop",
            extra={"running": busy},
        )
    row.archived_at = now()
    _save(row, "archived_at")
    hooks.request_stop(row, principal)
    record(actor=principal, verb="project.archived", target=row, project_uid=row.uid)
    changed(row)
    return row


@transaction.atomic
def project_unarchive(*, principal: Principal, project: Project) -> Project:
    require(principal, project, Permission.PROJECT_ARCHIVE)
    row = lock(project)
    if row.archived_at is None:
        return row
    row.archived_at = None
    _save(row, "archived_at")
    record(actor=principal, verb="project.unarchived", target=row, project_uid=row.uid)
    changed(row)
    return row


@transaction.atomic
def project_request_delete(*, principal: Principal, project: Project, confirm: str) -> Project:
    """Want the project gone with all it holds; the engine removes the row last."""
    require(principal, project, Permission.PROJECT_DELETE)
    if confirm != project.slug:
        raise Invalid(
            _("Type “%(slug)s” to confirm.") % {"slug": project.slug},
            fields={"confirm": [_("This is not the project's address.")]},
        )
    row = _locked(project)
    if row.desired == Desired.ABSENT:
        return row
    lost = [s.text for s in hooks.summaries(row)]
    row.desired = Desired.ABSENT
    row.phase = Phase.DELETING
    row.phase_since = now()
    row.generation += 1
    row.save(update_fields=["desired", "phase", "phase_since", "generation", "updated_at"])
    hooks.request_delete(row, principal)
    record(
        actor=principal,
        verb="project.delete-requested",
        target=row,
        project_uid=row.uid,
        message="; ".join(lost),
    )
    hint(row)
    changed(row)
    return row


def _save(row: Project, *columns: str) -> None:
    """Write columns on which nothing outside depends."""
    row.generation += 1
    row.observed_generation = row.generation
    row.save(update_fields=[*columns, "generation", "observed_generation", "updated_at"])


def require_active(project: Project) -> None:
    """Raise Conflict when nothing new may start in ``project``; reads it afresh."""
    row = (
        Project.objects.filter(pk=project.pk)
        .values_list("desired", "archived_at", "deleted_at")
        .first()
    )
    if row is None or row[0] == Desired.ABSENT or row[2] is not None:
        raise Conflict(
            _("The project is being deleted; nothing new starts there."), code="deleting"
        )
    if row[1] is not None:
        raise Conflict(
            _("The project is archived; bring it back before starting anything."),
            code="project-archived",
        )


def lock(project: Project) -> Project:
    """Return the row as it is now, locked; Conflict when it is being deleted."""
    row = _locked(project)
    if row.desired == Desired.ABSENT or row.deleted_at is not None:
        raise Conflict(_("The project is being deleted."), code="deleting")
    return row


def _locked(project: Project) -> Project:
    # no_key: whatever refers to it is committed meanwhile, else each would wait for the other
    return Project.objects.select_for_update(no_key=True).get(pk=project.pk)


def changed(project: Project) -> None:
    """Tell open pages after commit."""
    publish([f"project:{project.uid}", "operators"], {"kind": "project", "slug": project.slug})


def line(value: str, field: str, limit: int) -> str:
    """Return one printable line that is not empty."""
    value = " ".join(value.split(" ")).strip()
    if not value or len(value) > limit or not value.isprintable():
        sentence = _("One line of 1 to %(n)s characters.") % {"n": limit}
        raise wrong(field, sentence)
    return value


def _text(value: str) -> str:
    value = value.strip().replace("\r\n", "\n")
    if len(value) > _TEXT_LIMIT or any(not c.isprintable() and c not in "\n\t" for c in value):
        sentence = _("At most %(n)s characters of text.") % {"n": _TEXT_LIMIT}
        raise wrong("description", sentence)
    return value


def _checked_slug(slug: str) -> str:
    if not _SLUG.match(slug) or "--" in slug or slug in RESERVED:
        sentence = _("2 to 40 small letters, digits and single dashes, beginning with a letter.")
        raise wrong("slug", sentence)
    return slug


def _free_slug(name: str) -> str:
    base = slugify(name, limit=32)
    if not base or not base[0].isalpha() or base in RESERVED:
        base = f"project-{base}".strip("-")[:32].strip("-")
    if base != "project" and not Project.objects.filter(slug=base).exists():
        return base
    return f"{base}-{secrets.token_hex(3)}"


@transaction.atomic
def project_set_clusters(
    *, principal: Principal, project: Project, keys: Collection[str]
) -> list[str]:
    """Limit a project to some clusters; none means all of them. Nothing is stopped."""
    require(principal, project, Permission.PROJECT_READ)
    if not principal.is_operator:
        raise Forbidden(_("Operators decide which clusters a project may use."))
    row = lock(project)
    wanted = sorted(set(keys))
    found = list(Cluster.objects.filter(key__in=wanted))
    if unknown := set(wanted) - {c.key for c in found}:
        sentence = _("There is no cluster called “%(name)s”.") % {"name": min(unknown)[:63]}
        raise wrong("clusters", sentence)
    before = sorted(row.clusters.values_list("key", flat=True))
    if before == wanted:
        return wanted
    row.clusters.set(found)
    record(
        actor=principal,
        verb="project.clusters-changed",
        target=row,
        project_uid=row.uid,
        message=", ".join(wanted) or _("all clusters"),
        data={"from": before, "to": wanted},
    )
    changed(row)
    return wanted
