"""What a project that is deleted holds of volumes; told to ``projects.contents``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import ngettext

from projects import contents
from projects.contents import ContentSummary
from volumes.models import Volume
from volumes.services import volumes_request_delete

if TYPE_CHECKING:
    from accounts.principal import Principal
    from projects.models import Project

_NAMED = 20


def connect() -> None:
    contents.register(Volume.KIND, _summarize, request_delete=_request_delete)


def _summarize(project: Project) -> list[ContentSummary]:
    rows = Volume.objects.filter(project=project, deleted_at__isnull=True)
    total = rows.count()
    text = ngettext("%(n)d home with its files", "%(n)d homes with their files", total)
    names = tuple(rows.order_by("name").values_list("name", flat=True)[:_NAMED])
    return [ContentSummary(Volume.KIND, text % {"n": total}, total, 0, names)]


def _request_delete(project: Project, who: Principal | None) -> None:
    volumes_request_delete(actor=who, project=project)
