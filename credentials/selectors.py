"""Reading credentials: what may be shown. Opening them is for the engine and the gate only."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from common.clock import now
from common.errors import NotFound
from common.oci.reference import DOCKER
from credentials.choices import CredentialKind, Use
from credentials.models import Credential
from credentials.sealing import unseal
from projects.access import Permission, scoped

if TYPE_CHECKING:
    from uuid import UUID

    from django.db.models import QuerySet

    from accounts.principal import Principal
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
    row = credentials_visible_to(who, project).filter(uid=uid).first()
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
