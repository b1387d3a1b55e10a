"""Mounted below /api/v1/. No trailing slashes."""

from django.urls import path

from loaders.api import logs, views

_ALL = "projects/<slug:project>/loads"
_ONE = f"{_ALL}/<uuid:load>"

urlpatterns = [
    path(_ALL, views.LoadList.as_view(), name="api-loads"),
    path(f"{_ALL}/apply", views.LoadApply.as_view(), name="api-load-apply"),
    path(f"{_ALL}/ensure", views.LoadEnsure.as_view(), name="api-load-ensure"),
    path(_ONE, views.LoadDetail.as_view(), name="api-load"),
    path(f"{_ONE}/start", views.LoadStart.as_view(), name="api-load-start"),
    path(f"{_ONE}/resume", views.LoadResume.as_view(), name="api-load-resume"),
    path(f"{_ONE}/retry", views.LoadRetry.as_view(), name="api-load-retry"),
    path(f"{_ONE}/verify", views.LoadVerify.as_view(), name="api-load-verify"),
    path(f"{_ONE}/dry-run", views.LoadDryRun.as_view(), name="api-load-dry-run"),
    path(f"{_ONE}/pause", views.LoadPause.as_view(), name="api-load-pause"),
    path(f"{_ONE}/cancel", views.LoadCancel.as_view(), name="api-load-cancel"),
    path(f"{_ONE}/runs", views.LoadRuns.as_view(), name="api-load-runs"),
    path(f"{_ONE}/logs", logs.LoadLogs.as_view(), name="api-load-logs"),
    path(f"{_ONE}/errors", views.LoadErrors.as_view(), name="api-load-errors"),
    path(f"{_ONE}/manifest", views.LoadManifest.as_view(), name="api-load-manifest"),
    path(f"{_ONE}/document", views.LoadDocument.as_view(), name="api-load-document"),
]
