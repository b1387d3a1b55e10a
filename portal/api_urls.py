"""The API below /api/v1/: one include per app."""

from django.urls import URLPattern, URLResolver, include, path

APIS = (
    "accounts.api.views",
    "projects.api.urls",
    "credentials.api",
    "images.api.urls",
    "quotas.api.urls",
    "volumes.api.views",
    "loaders.api.urls",
    "files.api.urls",
    "notebooks.api.urls",
    "jobs.api",
    "gate.api.urls",
    "usage.api.urls",
    "events.api",
    "notifications.api",
    "clusters.api.urls",
)
urlpatterns: list[URLPattern | URLResolver] = [path("", include(module)) for module in APIS]
