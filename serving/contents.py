"""Models of a project that is deleted, and of volumes that are to go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import ngettext

from files import in_use
from jobs.hub import told_of
from jobs.listeners import is_told_with
from jobs.runtime_spec import reports_of
from loaders.notices import made_for
from projects import hooks
from projects.hooks import ContentSummary
from runtime.protocol import Desired
from serving.models import Endpoint, Model
from serving.selectors import held_by
from serving.services import reading
from serving.services.model_rules import require_folders_unserved, serves_from
from serving.services.version_files import note_ended
from serving.services.versions import let_go
from volumes import references

if TYPE_CHECKING:
    from accounts.principal import Principal
    from projects.models import Project

_NAMED = 20


def connect() -> None:
    hooks.register_contents(Model.KIND, _summarize, request_delete=_request_delete)
    references.register(held_by)
    made_for.register(note_ended)
    reports_of.register(reading.reports)
    told_of.register(reading.note_told)
    is_told_with.register(reading.reports)
    in_use.has_any.register(serves_from)
    in_use.check.register(require_folders_unserved)


def _summarize(project: Project) -> list[ContentSummary]:
    names = list(Model.objects.filter(project=project).values_list("name", flat=True))
    text = ngettext("%(n)d model", "%(n)d models", len(names)) % {"n": len(names)}
    return [ContentSummary(Model.KIND, text, len(names), names=tuple(names[:_NAMED]))]


def _request_delete(project: Project, who: Principal | None) -> None:
    """They go once nothing serves them any more; volumes wait for that, and the project for both.

    It is asked again on each pass of the project.
    """
    del who
    serving = Endpoint.objects.filter(project=project, deleted_at__isnull=True)
    if project.desired != Desired.ABSENT or serving.exists():
        return
    for model in Model.objects.filter(project=project):
        for version in model.versions.select_related("load"):
            let_go(version)
        model.delete()
