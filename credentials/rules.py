"""What a project that is deleted holds of credentials; told to ``projects.contents``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import ngettext

from credentials.models import Credential
from credentials.services import credentials_delete_all
from projects import contents
from projects.contents import ContentSummary

if TYPE_CHECKING:
    from accounts.principal import Principal
    from projects.models import Project

_NAMED = 20


def connect() -> None:
    contents.register(Credential.KIND, _summarize, request_delete=_request_delete)


def _summarize(project: Project) -> list[ContentSummary]:
    rows = Credential.objects.filter(project=project).order_by("name")
    names = list(rows.values_list("name", flat=True))
    total = len(names)
    text = ngettext("%(n)d credential", "%(n)d credentials", total) % {"n": total}
    return [ContentSummary(Credential.KIND, text, total, 0, tuple(names[:_NAMED]))]


def _request_delete(project: Project, who: Principal | None) -> None:
    credentials_delete_all(actor=who, project=project)
