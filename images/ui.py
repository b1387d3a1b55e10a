"""The answer that a form shows below its field for an image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from django.http import HttpRequest, HttpResponse
from django.urls import path

from images.findings import CONTAINER, NOTEBOOK
from images.services import cluster_for, image_check
from projects.access import Permission
from projects.ui.base import ProjectView


class Check(ProjectView):
    """POST, because asking reaches out into the world. Takes the fields of the launch form.

    The form of a workspace that is there has no field for its cluster: the address says it.
    """

    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": Permission.WORKSPACE_CREATE}
    template_name = "images/_finding.html"

    def post(self, request: HttpRequest, project: str) -> HttpResponse:  # noqa: ARG002
        kind = CONTAINER if request.POST.get("kind") == CONTAINER else NOTEBOOK
        reference = request.POST.get("image", "").strip()
        said = request.GET.copy()
        said.update(request.POST)
        said["kind"], said["image"] = kind, reference
        finding = reference and image_check(
            principal=self.principal,
            project=self.project,
            cluster_key=cluster_for(self.principal, self.project, said)[:63],
            reference=reference,
            kind=kind,
        )
        again = request.get_full_path()
        return self.render({"finding": finding, "kind": kind, "check_url": again})


app_name = "images"

urlpatterns = [
    path("projects/<slug:project>/images/check", Check.as_view(), name="check"),
]
