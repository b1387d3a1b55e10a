"""Mounted below /api/v1/. No trailing slashes."""

from django.urls import path

from gate.api import views

urlpatterns = [
    path(
        "projects/<slug:project>/workspaces/<slug:workspace>/ways",
        views.WorkspaceWays.as_view(),
        name="api-workspace-ways",
    ),
]
