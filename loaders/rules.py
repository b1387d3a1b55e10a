"""What happens to loads when something below them changes: roles, credentials, volumes.

The apps below know nothing of loads; they call what is registered here, inside the transaction
of their act.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from django.db.models import Count, Q

from accounts.principal import Principal
from common.errors import BerthError
from credentials import references as credential_holders
from credentials.selectors import credential_for_use
from loaders.choices import StopReason
from loaders.models import ACTIVE, Load
from loaders.selectors import RELATED
from loaders.services.ending import rest_schedules
from projects import hooks as projects
from volumes import references as volume_holders
from work.services.ending import request_stop

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from accounts.models import User
    from credentials.models import Credential
    from projects.choices import Role
    from projects.models import Project
    from volumes.models import Volume

_NAMED = 20


def connect() -> None:
    projects.role_changed.register(_role_changed)
    volume_holders.register(_holds_volume, counts=_hold_counts)
    credential_holders.register(_holds_credential)
    credential_holders.on_removed(_credential_removed)


def _role_changed(project: Project, user: User, role: Role, who: Principal | None) -> None:
    """Stop what they may not do with this credential any more."""
    del role
    rows = Load.objects.select_for_update(of=("self",)).filter(
        ACTIVE, project=project, owner=user, credential__isnull=False
    )
    for row in rows.select_related(*RELATED):
        if not _may_use(user, row):
            request_stop(row, reason=StopReason.CREDENTIAL, actor=who)


def _may_use(user: User, row: Load) -> bool:
    assert row.credential is not None  # noqa: S101 - the caller asked for those with one
    try:
        credential_for_use(Principal(user=user), row.project, row.credential.uid)
    except BerthError:
        return False
    return True


def _holds_volume(volume: Volume) -> Sequence[volume_holders.Holder]:
    rows = Load.objects.filter(ACTIVE, volume=volume).select_related("project", "owner")
    return [
        volume_holders.Holder(
            Load.KIND, str(row.uid), row.name, row.get_absolute_url(), row.owner.label
        )
        for row in rows.order_by("pk")[:_NAMED]
    ]


def _hold_counts(uids: Collection[UUID]) -> Mapping[UUID, int]:
    rows = Load.objects.filter(ACTIVE, volume__uid__in=list(uids)).values("volume__uid")
    return {row["volume__uid"]: row["n"] for row in rows.annotate(n=Count("pk"))}


def _holds_credential(credential: Credential) -> list[credential_holders.Holder]:
    rows = Load.objects.filter(credential=credential, deleted_at__isnull=True)
    rows = rows.filter(ACTIVE | ~Q(schedule=""))
    return [
        credential_holders.Holder(
            Load.KIND, row.uid, row.name, row.get_absolute_url(), row.owner.label
        )
        for row in rows.select_related("project", "owner").order_by("pk")[:1000]
    ]


def _credential_removed(credential: Credential, who: Principal | None) -> None:
    """End what uses it (D13). Nothing goes on without a credential as if it were public."""
    rows = Load.objects.filter(credential=credential, deleted_at__isnull=True)
    rest_schedules(rows, StopReason.CREDENTIAL)
    running = rows.filter(ACTIVE).select_for_update(of=("self",))
    for row in running.select_related(*RELATED):
        request_stop(row, reason=StopReason.CREDENTIAL, actor=who)
