"""What a project that is deleted holds of credentials, and telling people that one runs out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import Q
from django.utils.timezone import localtime
from django.utils.translation import ngettext

from common.clock import now
from credentials.choices import UsableBy
from credentials.models import Credential
from credentials.selectors import EXPIRES_SOON, expiry_of
from credentials.services import credentials_delete_all
from notifications.services import notify
from projects import hooks
from projects.access import ROLE_PERMISSIONS, Permission
from projects.hooks import ContentSummary
from projects.models import Membership

if TYPE_CHECKING:
    from accounts.models import User
    from accounts.principal import Principal
    from projects.models import Project


_NAMED = 20


def connect() -> None:
    hooks.register_contents(Credential.KIND, _summarize, request_delete=_request_delete)


def _summarize(project: Project) -> list[ContentSummary]:
    rows = Credential.objects.filter(project=project).order_by("name")
    names = list(rows.values_list("name", flat=True))
    total = len(names)
    text = ngettext("%(n)d credential", "%(n)d credentials", total) % {"n": total}
    return [ContentSummary(Credential.KIND, text, total, 0, tuple(names[:_NAMED]))]


def _request_delete(project: Project, who: Principal | None) -> None:
    credentials_delete_all(actor=who, project=project)


_STEP = 200
_KINDS = {"soon": "credential.expiring", "over": "credential.expired"}


def tell_due() -> int:
    """Tell what was not told yet; called now and then, by several at once without harm."""
    soon = Q(expires_at__lte=now() + EXPIRES_SOON, warned="")
    over = Q(expires_at__lte=now()) & ~Q(warned="over")
    due = Credential.objects.filter(soon | over)
    rows = due.select_related("project", "owner").defer("sealed").order_by("expires_at")[:_STEP]
    return sum(_tell(row, expiry_of(row)) for row in rows)


@transaction.atomic
def _tell(row: Credential, stage: str) -> bool:
    """Only whoever changes ``warned`` tells; a rotation meanwhile makes this nothing."""
    same = Credential.objects.filter(pk=row.pk, warned=row.warned, expires_at=row.expires_at)
    if row.warned == stage or not same.update(warned=stage):
        return False
    assert row.expires_at is not None  # noqa: S101 - that is why it was found
    day = localtime(row.expires_at).date().isoformat()
    notify(
        users=_concerned(row),
        kind=_KINDS[stage],
        params={"name": row.name, "day": day},
        url=row.get_absolute_url(),
        key=str(row.uid),
        project_id=row.project_id,
    )
    return True


def _concerned(row: Credential) -> list[User]:
    """Its owner; of a project's all who may replace it. What only its owner may use nobody else
    may replace, and his work stops: he is told also when he manages nothing there any more.
    """
    if row.project is None:
        return [row.owner] if row.owner else []
    members = Membership.objects.filter(project=row.project)
    if row.usable_by == UsableBy.OWNER:
        members = members.filter(user=row.owner)
    else:
        able = [r for r, may in ROLE_PERMISSIONS.items() if Permission.CREDENTIAL_MANAGE in may]
        members = members.filter(role__in=able)
    return [member.user for member in members.select_related("user")]
