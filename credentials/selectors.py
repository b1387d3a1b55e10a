"""Reading credentials: what may be shown. Opening them is for the engine and the gate only."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db.models import Q
from django.utils.translation import gettext as _

from accounts.principal import Principal
from common.clock import now
from common.errors import Forbidden, NotFound
from common.oci import DOCKER
from credentials.choices import EMBEDDED, CredentialKind, UsableBy, Use
from credentials.models import Credential
from credentials.sealing import unseal
from projects.access import Permission, permissions_of, require, scoped

if TYPE_CHECKING:
    from uuid import UUID

    from django.db.models import QuerySet

    from accounts.models import User
    from projects.models import Project

EXPIRES_SOON = timedelta(days=14)
# Under this name old clients keep the sign-in of that registry, and kubelets look for it.
_DOCKER_ALIAS = "https://index.docker.io/v1/"


def credentials_visible_to(who: Principal, project: Project | None = None) -> QuerySet[Credential]:
    """Return what ``who`` may see of them, by name; the sealed column is never loaded."""
    rows = Credential.objects.filter(project__isnull=False).select_related("project", "owner")
    if project is not None:
        rows = rows.filter(project=project)
    rows = rows.defer("sealed")
    return scoped(rows, who, Permission.CREDENTIAL_READ).order_by("name", "id")


def credential_get(who: Principal, uid: UUID, project: Project) -> Credential:
    return _found(credentials_visible_to(who, project), uid)


def credentials_own(who: Principal) -> QuerySet[Credential]:
    """Return the person's own, which belong to no project."""
    rows = Credential.objects.filter(project__isnull=True, owner=who.user)
    return rows.select_related("owner").defer("sealed").order_by("name", "id")


def credential_own_get(who: Principal, uid: UUID) -> Credential:
    return _found(credentials_own(who), uid)


def credentials_usable(
    who: Principal, project: Project, kinds: Iterable[str] | None = None
) -> QuerySet[Credential]:
    """Return what ``who`` may put to use in own work there: the project's and his own.

    A token limited to projects uses what is in them: the person's own would open more than those.
    """
    rows = Credential.objects.select_related("project", "owner").defer("sealed")
    granted = permissions_of(who, project)
    if Permission.CREDENTIAL_USE not in granted:
        return rows.none()
    users = Q(usable_by=UsableBy.MEMBERS) | Q(usable_by=UsableBy.OWNER, owner=who.user)
    if Permission.CREDENTIAL_MANAGE in granted:
        users |= Q(usable_by=UsableBy.MANAGERS)
    here = Q(project=project) & users
    own = Q() if who.is_in_projects_only else Q(project__isnull=True, owner=who.user)
    wanted = [str(kind) for kind in (EMBEDDED if kinds is None else kinds)]
    return rows.filter(here | own, kind__in=wanted).order_by("name", "id")


def credentials_named(
    who: Principal,
    project: Project,
    rows: Collection[Credential],
    kinds: Iterable[str] | None = None,
) -> list[str]:
    """Return how ``who`` names them: the id where another one that he may use has the same name."""
    if not rows:
        return []
    same = credentials_usable(who, project, kinds).filter(name__in={row.name for row in rows})
    found = Counter(same.order_by().values_list("name", flat=True))
    return [str(row.uid) if found[row.name] > 1 else row.name for row in rows]


def credential_for_use(
    who: Principal, project: Project, uid: UUID, kinds: Iterable[str] | None = None
) -> Credential:
    """Return one for own work: NotFound where it is not seen, Forbidden where it is not his."""
    require(who, project, Permission.CREDENTIAL_USE)
    row = credentials_usable(who, project, kinds).filter(uid=uid).first()
    if row is not None:
        return row
    seen = credential_get(who, uid, project)
    if not credentials_usable(who, project, CredentialKind.values).filter(uid=uid).exists():
        users = {"users": seen.get_usable_by_display()}
        raise Forbidden(_("This credential is for: %(users)s.") % users)
    raise NotFound(_("“%(name)s” opens something else.") % {"name": seen.name})


def credentials_for_launch(owner: User, project: Project, uids: Iterable[UUID]) -> list[Credential]:
    """Return, in the order given, what still exists and ``owner`` may still use at a start."""
    wanted = list(dict.fromkeys(map(str, uids)))
    if not wanted:
        return []
    rows = credentials_usable(Principal(user=owner), project).filter(uid__in=wanted)
    return sorted(rows, key=lambda row: wanted.index(str(row.uid)))


def _found(rows: QuerySet[Credential], uid: UUID) -> Credential:
    row = rows.filter(uid=uid).first()
    if row is None:
        raise NotFound(_("There is no such credential, or you may not see it."))
    return row


def expiry_of(row: Credential) -> str:
    """Return "", "soon" or "over"."""
    if row.expires_at is None or row.expires_at > now() + EXPIRES_SOON:
        return ""
    return "over" if row.expires_at <= now() else "soon"


def registries_of(
    project_uid: UUID,
) -> tuple[Callable[[], Mapping[str, tuple[str, str]]], str]:
    """Return (registry host → (user, password) when called, a version that changes with it)."""
    rows = Credential.objects.filter(
        project__uid=project_uid, kind=CredentialKind.REGISTRY
    ).order_by("pk")
    known = list(rows.values_list("uid", "version"))
    if not known:
        return dict, ""
    version = hashlib.sha256(repr([(str(u), v) for u, v in known]).encode()).hexdigest()[:16]
    return lambda: _logins(project_uid), version


def _logins(project_uid: UUID) -> dict[str, tuple[str, str]]:
    from credentials.services import credential_note_use

    rows = Credential.objects.filter(project__uid=project_uid, kind=CredentialKind.REGISTRY)
    found: dict[str, tuple[str, str]] = {}
    used = []
    for row in rows.order_by("pk"):
        login = (row.username, unseal(row.uid, row.sealed)["password"])
        found[row.target] = login
        if row.target == DOCKER:
            found[_DOCKER_ALIAS] = login
        used.append(row.pk)
    credential_note_use(uids=used, purpose=Use.PULL)
    return found


def registry_login(project_uid: UUID, host: str, purpose: Use) -> tuple[str, str] | None:
    """Open the sign-in of one registry for a question that the gate asks there."""
    from credentials.services import credential_note_use

    row = Credential.objects.filter(
        project__uid=project_uid, kind=CredentialKind.REGISTRY, target=host
    ).first()
    if row is None:
        return None
    credential_note_use(uids=[row.pk], purpose=purpose)
    return row.username, unseal(row.uid, row.sealed)["password"]


def registry_version(project_uid: UUID, host: str) -> str:
    """Return what changes with the project's sign-in for one registry; "" where it has none."""
    row = (
        Credential.objects.filter(
            project__uid=project_uid, kind=CredentialKind.REGISTRY, target=host
        )
        .values_list("uid", "version")
        .first()
    )
    return f"{row[0]}:{row[1]}" if row else ""
