"""Mounted below /api/v1/. No trailing slashes."""

from django.urls import path

from notebooks.api import presets, sharing, streams, views

_ALL = "projects/<slug:project>/workspaces"
_ONE = f"{_ALL}/<slug:workspace>"

urlpatterns = [
    path("presets", presets.PresetList.as_view(), name="api-presets"),
    path("presets/<slug:preset>", presets.PresetDetail.as_view(), name="api-preset"),
    path(
        "projects/<slug:project>/presets",
        presets.ProjectPresetList.as_view(),
        name="api-project-presets",
    ),
    path(_ALL, views.WorkspaceList.as_view(), name="api-workspaces"),
    path(f"{_ALL}/apply", views.WorkspaceApply.as_view(), name="api-workspace-apply"),
    path(_ONE, views.WorkspaceDetail.as_view(), name="api-workspace"),
    path(f"{_ONE}/start", views.WorkspaceStart.as_view(), name="api-workspace-start"),
    path(f"{_ONE}/stop", views.WorkspaceStop.as_view(), name="api-workspace-stop"),
    path(f"{_ONE}/repin", views.WorkspaceRepin.as_view(), name="api-workspace-repin"),
    path(f"{_ONE}/extend", views.WorkspaceExtend.as_view(), name="api-workspace-extend"),
    path(f"{_ONE}/shares", sharing.WorkspaceShares.as_view(), name="api-workspace-shares"),
    path(
        f"{_ONE}/shares/<str:username>",
        sharing.WorkspaceShareDetail.as_view(),
        name="api-workspace-share",
    ),
    path(f"{_ONE}/logs", streams.WorkspaceLogs.as_view(), name="api-workspace-logs"),
    path(f"{_ONE}/events", streams.WorkspaceEvents.as_view(), name="api-workspace-events"),
    path(f"{_ONE}/usage", streams.WorkspaceUsage.as_view(), name="api-workspace-usage"),
    path(f"{_ONE}/manifest", streams.WorkspaceManifest.as_view(), name="api-workspace-manifest"),
]
