"""The answer that a form shows below its field for an image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from django.http import HttpRequest, HttpResponse

from images.findings import CONTAINER, NOTEBOOK
from images.services import image_check
from projects.access import Permission
from projects.ui.base import ProjectView


class Check(ProjectView):
    """POST, because asking reaches out into the world. Takes the fields of the launch form."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": Permission.WORKSPACE_CREATE}
    template_name = "images/_finding.html"

    def post(self, request: HttpRequest, project: str) -> HttpResponse:  # noqa: ARG002
        kind = CONTAINER if request.POST.get("kind") == CONTAINER else NOTEBOOK
        reference = request.POST.get("image", "").strip()
        finding = reference and image_check(
            principal=self.principal,
            project=self.project,
            cluster_key=request.POST.get("cluster", "")[:63],
            reference=reference,
            kind=kind,
        )
        return self.render({"finding": finding, "kind": kind})
