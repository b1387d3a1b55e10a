"""The files page: a frame that a script fills from the gate, and how far the server is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import NoReverseMatch, path, reverse

from files import selectors, services
from files.selectors import state_of
from files.words import texts
from projects.access import Permission
from projects.ui.base import ProjectView
from volumes.models import Volume
from volumes.ui.views import VolumeView

READ = Permission.VOLUME_READ


class Browse(VolumeView):
    required_permissions: ClassVar[Mapping[str, Permission]] = {"GET": READ}
    template_name = "files/browse.html"
    tab = "files"

    def get(self, request: HttpRequest, project: str, volume: Any) -> HttpResponse:  # noqa: ARG002
        place = selectors.place_get(self.principal, volume, self.project)
        found = {
            "place": place,
            "words": json.dumps(texts(), ensure_ascii=False),
            "loads_url": self._loads_url(place.volume) if self.can(Permission.LOAD_CREATE) else "",
        }
        return self.render(self.page(place.volume, found))

    def _loads_url(self, volume: Volume) -> str:
        """Where a load into this volume begins; loads are an app beside this one."""
        try:
            url = reverse("loaders:new", kwargs={"project": self.project.slug})
        except NoReverseMatch:
            return ""
        return f"{url}?volume={volume.uid}"


class Session(ProjectView):
    """Asked by the page's script: POST begins what is missing, GET only looks."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"GET": READ, "POST": READ}

    def get(self, request: HttpRequest, project: str, volume: Any) -> HttpResponse:  # noqa: ARG002
        place = selectors.place_get(self.principal, volume, self.project)
        row = selectors.session_of(self.principal, place.volume)
        return JsonResponse(asdict(state_of(place, row, for_page=True)))

    def post(self, request: HttpRequest, project: str, volume: Any) -> HttpResponse:  # noqa: ARG002
        row = services.session_open(
            principal=self.principal, project=self.project, volume_uid=volume
        )
        place = selectors.place_get(self.principal, volume, self.project)
        return JsonResponse(asdict(state_of(place, row, for_page=True)), status=202)


app_name = "files"

_ONE = "projects/<slug:project>/volumes/<uuid:volume>/files/"

urlpatterns = [
    path(_ONE, Browse.as_view(), name="browse"),
    path(f"{_ONE}session", Session.as_view(), name="session"),
]
