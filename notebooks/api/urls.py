"""Mounted below /api/v1/. No trailing slashes."""

from django.urls import path

from notebooks.api import presets
from notebooks.api.workspaces import API, Usage
from work.api.views import urls_for

urlpatterns = [
    path("presets", presets.PresetList.as_view(), name="api-presets"),
    path("presets/<slug:preset>", presets.PresetDetail.as_view(), name="api-preset"),
    path(
        "projects/<slug:project>/presets",
        presets.ProjectPresetList.as_view(),
        name="api-project-presets",
    ),
    *urls_for(API, {"usage": Usage}),
]
