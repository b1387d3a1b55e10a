"""Where files are: one home for each person in the project."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from django.http import HttpRequest, HttpResponse
from django_tables2 import RequestConfig

from projects.access import Permission
from projects.ui.base import ProjectView
from volumes import selectors
from volumes.ui.tables import VolumeTable

PER_PAGE = 25


class List(ProjectView):
    required_permissions: ClassVar[Mapping[str, Permission]] = {"GET": Permission.VOLUME_READ}
    template_name = "volumes/list.html"

    def get(self, request: HttpRequest, project: str) -> HttpResponse:  # noqa: ARG002
        table = VolumeTable(selectors.volumes_visible_to(self.principal, self.project))
        RequestConfig(request, paginate={"per_page": PER_PAGE, "silent": True}).configure(table)
        return self.render({"table": table})
