# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The page of one version: where it serves, what it is, and what may be changed of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import reverse
from django.utils.translation import gettext as _t

from jobs.kind import JOB
from projects.access import Permission
from projects.ui.base import ProjectView
from serving import selectors
from serving.choices import Files, Source, Stage
from serving.services import models, reading, version_files, versions
from serving.ui.sending import sending_of, texts_of_sending
from work.selectors import visible_to

if TYPE_CHECKING:
    from accounts.principal import Principal
    from jobs.models import Job
    from serving.models import ModelVersion

_BADGES = {
    Files.COMING: ("starting", "loader-2"),
    Files.THERE: ("good", "circle-check"),
    Files.FAILED: ("failed", "alert-triangle"),
}
_STAGES = {Stage.CANDIDATE: "pending", Stage.SERVING: "good", Stage.RETIRED: "quiet"}


def deploys(row: ModelVersion) -> str:
    """Return where an endpoint that serves it is made."""
    new = reverse("endpoints:new", kwargs={"project": row.model.project.slug})
    return f"{new}?{urlencode({'model': str(row)})}"


def told_of(who: Principal, row: ModelVersion) -> dict[str, Any]:
    """Return what is shown of a version: in the list of its model, and on its own page."""
    mine = row.created_by_id in {None, who.user.pk}
    folder = ""
    if row.volume is not None:
        keys = {"project": row.model.project.slug, "volume": row.volume.uid}
        folder = f"{reverse('files:browse', kwargs=keys)}#{row.folder}"
    return {
        "version": row,
        "badge": (row.get_files_display(), *_BADGES[Files(row.files)]),
        "stage": (row.get_stage_display(), _STAGES[Stage(row.stage)]),
        "deploy": deploys(row) if row.framework and row.files != Files.FAILED else "",
        "folder": folder,
        "owner": "" if mine or row.created_by is None else row.created_by.label,
    }


class VersionPage(ProjectView):
    """A version; a press stages it, looks at its files again, makes it the default, deletes it.

    Files that a person sends are sent from here; ``sent`` and ``cancel`` end that.
    """

    required_permissions: ClassVar = {
        "GET": Permission.MODEL_READ,
        "POST": Permission.MODEL_MANAGE,
    }
    template_name = "serving/version.html"

    def get(self, request: HttpRequest, project: str, model: str, version: str) -> HttpResponse:
        its = selectors.model_get(self.principal, self.project, model)
        row = selectors.version_get(self.principal, its, version)
        default = selectors.default_of(its.versions.all())
        serving = selectors.serving_of(self.principal, row)
        said = told_of(self.principal, row) | {
            "model": its,
            "is_default": default is not None and default.pk == row.pk,
            "serving": serving,
            "signature": _signature(row),
            "stages": Stage.choices,
            "made_by": _job_of(self.principal, row),
            "comes": row.files == Files.COMING or row.reading == "running",
        }
        is_sent = row.source == Source.UPLOAD and row.volume is not None and not row.is_there
        if is_sent and self.can(Permission.MODEL_MANAGE):
            said |= {"sending": sending_of(self.principal, row), **texts_of_sending()}
        return self.render(said)

    def post(self, request: HttpRequest, project: str, model: str, version: str) -> HttpResponse:
        its = selectors.model_get(self.principal, self.project, model)
        row = selectors.version_get(self.principal, its, version)
        act, who = request.POST.get("act", ""), self.principal
        if act == "delete":
            versions.version_delete(principal=who, row=row, said=request.POST.get("reason", ""))
            said = _t("%(name)s is deleted. Its files stay where they are.")
            messages.success(request, said % {"name": row})
            return HttpResponseRedirect(its.get_absolute_url())
        if act == "cancel":
            models.upload_cancel(principal=who, row=row)
            said = _t("The upload is cancelled; %(name)s is not registered.")
            messages.success(request, said % {"name": row})
            page = reverse("models:list", args=[self.project.slug])
            if request.headers.get("Accept") == "application/json":  # who removes the files now
                return JsonResponse({"page": page})
            return HttpResponseRedirect(page)
        if act == "sent":
            row = version_files.version_look(versions.version_check(principal=who, row=row))
            if row.is_there and request.POST.get("then") == "deploy":
                return HttpResponseRedirect(deploys(row))
            return HttpResponseRedirect(row.get_absolute_url())
        if act == "check":
            versions.version_check(principal=who, row=row)
            said = _t("The files of %(name)s are looked at.")
        elif act == "read":
            reading.version_read(principal=who, row=row)
            said = _t("The files of %(name)s are read in a job.")
        elif act == "default":
            versions.version_default(principal=who, row=row)
            said = _t("%(name)s is meant where only its model is named.")
        else:
            versions.version_stage(principal=who, row=row, stage=request.POST.get("stage", ""))
            said = _t("The stage of %(name)s is changed.")
        messages.success(request, said % {"name": row})
        return HttpResponseRedirect(row.get_absolute_url())


VersionPage.stands_on = VersionPage  # what was refused is said on it


def _job_of(who: Principal, row: ModelVersion) -> Job | None:
    """Return the job whose run left its files, where it is still there to look at."""
    if row.run_uid is None:
        return None
    found: Job | None = (
        visible_to(who, JOB, row.model.project).filter(runs__uid=row.run_uid).first()
    )
    return found


def _signature(row: ModelVersion) -> list[tuple[str, dict[str, Any]]]:
    """Return what goes in, then what comes out: one line for each tensor."""
    sides = (("in", row.signature.get("inputs")), ("out", row.signature.get("outputs")))
    return [
        (word, {**one, "columns": (one.get("parameters") or {}).get("columns") or []})
        for word, several in sides
        for one in several or ()
    ]
