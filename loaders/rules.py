"""What happens to loads when something below them changes: people, projects, secrets, volumes.

The apps below know nothing of loads; they call what is registered here, inside the transaction
of their act.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from django.db.models import Count, Q
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts import hooks as accounts
from accounts.principal import Principal
from common.errors import BerthError
from credentials import references as credential_holders
from credentials.selectors import credential_for_use
from loaders.choices import StopReason
from loaders.models import ACTIVE, Load
from loaders.selectors import RELATED
from loaders.services.ending import loads_request_delete, loads_stop_for, request_stop
from projects import hooks
from projects import hooks as projects
from projects.access import ROLE_PERMISSIONS, Permission
from projects.hooks import ContentSummary
from volumes import references as volume_holders

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from accounts.models import User
    from credentials.models import Credential
    from projects.choices import Role
    from projects.models import Project
    from volumes.models import Volume

_NAMED = 20


def connect() -> None:
    accounts.user_disabled.register(_user_disabled)
    projects.member_left.register(_member_left)
    projects.role_changed.register(_role_changed)
    hooks.register_contents(
        Load.KIND, _summarize, request_delete=_request_delete, request_stop=_request_stop
    )
    volume_holders.register(_holds_volume, counts=_hold_counts)
    credential_holders.register(_holds_credential)
    credential_holders.on_removed(_credential_removed)


# --- people (A3) ----------------------------------------------------------------------------


def _user_disabled(user: User, who: Principal | None) -> None:
    loads_stop_for(reason=StopReason.OWNER_DISABLED, owner=user, actor=who)


def _member_left(project: Project, user: User, who: Principal | None) -> None:
    loads_stop_for(reason=StopReason.OWNER_LEFT, project=project, owner=user, actor=who)


def _role_changed(project: Project, user: User, role: Role, who: Principal | None) -> None:
    """Stop what he may not do any more, or not with this credential."""
    if Permission.LOAD_CREATE not in ROLE_PERMISSIONS[role]:
        loads_stop_for(reason=StopReason.OWNER_LEFT, project=project, owner=user, actor=who)
        return
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


# --- projects -------------------------------------------------------------------------------


def _summarize(project: Project) -> list[ContentSummary]:
    rows = Load.objects.filter(project=project, deleted_at__isnull=True)
    counts = rows.aggregate(all=Count("pk"), running=Count("pk", filter=ACTIVE))
    total, running = counts["all"], counts["running"]
    text = ngettext("%(n)d load", "%(n)d loads", total) % {"n": total}
    if running:
        text = _("%(loads)s, %(running)d running") % {"loads": text, "running": running}
    names = tuple(rows.order_by("name").values_list("name", flat=True)[:_NAMED])
    runs = ngettext("%(n)d load", "%(n)d loads", running) % {"n": running}
    return [ContentSummary(Load.KIND, text, total, running, names, runs)]


def _request_delete(project: Project, who: Principal | None) -> None:
    loads_request_delete(actor=who, project=project)


def _request_stop(project: Project, who: Principal | None) -> None:
    loads_stop_for(reason=StopReason.PROJECT_ARCHIVED, project=project, actor=who)


# --- what a load uses -------------------------------------------------------------------------


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
    rows.filter(next_run_at__isnull=False).update(
        next_run_at=None, schedule_note=str(StopReason.CREDENTIAL.label)[:300]
    )
    running = rows.filter(ACTIVE).select_for_update(of=("self",))
    for row in running.select_related(*RELATED):
        request_stop(row, reason=StopReason.CREDENTIAL, actor=who)
