"""What files bring to other apps: a tab to a volume, and what happens to file browsers when
people, projects or volumes change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts import hooks as accounts
from files.models import FileSession
from files.services import sessions_end_for
from projects import hooks
from projects import hooks as projects
from projects.access import Permission, permissions_of
from projects.hooks import ContentSummary
from volumes import references
from volumes.choices import VolumeKind
from volumes.references import Holder
from volumes.ui import present
from volumes.ui.present import Tab

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accounts.models import User
    from accounts.principal import Principal
    from projects.models import Project
    from volumes.models import Volume


def connect() -> None:
    accounts.user_disabled.register(_user_disabled)
    projects.member_left.register(_member_left)
    hooks.register_contents(
        FileSession.KIND, _summarize, request_delete=_end_with, request_stop=_end_with
    )
    references.register(_looking, yields=True)
    present.register_tab(_tabs)


def _looking(volume: Volume) -> list[Holder]:
    """Who looks into a volume. They give way: none of them keeps it from being deleted."""
    rows = FileSession.objects.filter(volume=volume, deleted_at__isnull=True)
    return [
        Holder(FileSession.KIND, str(row.uid), _("Files"), who=row.person.label)
        for row in rows.select_related("person")
    ]


def _user_disabled(user: User, who: Principal | None) -> None:
    del who
    sessions_end_for(person=user)


def _member_left(project: Project, user: User, who: Principal | None) -> None:
    del who
    sessions_end_for(project=project, person=user)


def _end_with(project: Project, who: Principal | None) -> None:
    del who
    sessions_end_for(project=project)


def _summarize(project: Project) -> list[ContentSummary]:
    total = FileSession.objects.filter(project=project, deleted_at__isnull=True).count()
    text = ngettext("%(n)d open file browser", "%(n)d open file browsers", total)
    return [ContentSummary(FileSession.KIND, text % {"n": total}, total)]


def _tabs(who: Principal, row: Volume) -> Sequence[Tab]:
    """A home's files are its owner's alone; what is being deleted is not looked into."""
    if row.kind == VolumeKind.HOME:
        may_look = row.owner_id == who.user.pk
    else:
        may_look = Permission.VOLUME_USE in permissions_of(who, row.project)
    if not may_look or row.is_being_deleted:
        return []
    return [Tab("files", "files:browse", _("Files"))]
