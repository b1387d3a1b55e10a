"""Where everything is mounted; nothing else."""

from django.urls import URLPattern, URLResolver, include, path

from portal import streams, views
from portal.monitoring import Livez, Metrics, Readyz

API = (
    "accounts.api.views",
    "projects.api.views",
    "credentials.api",
    "images.api",
    "quotas.api",
    "queues.api",
    "budgets.api",
    "parking.api",
    "volumes.api.views",
    "loaders.api.views",
    "files.api",
    "notebooks.api.urls",
    "jobs.api",
    "jobs.ai_platform.api",
    "experiments.api",
    "perftests.api",
    "serving.api",
    "serving.models_api",
    "serving.ai_platform_api",
    "serving.batch_api",
    "gate.api",
    "usage.api",
    "fleet.api",
    "events.api",
    "notifications.api",
    "webhooks.api",
    "clusters.api.views",
)
urlpatterns: list[URLPattern | URLResolver] = [
    path("livez", Livez.as_view(), name="livez"),
    path("readyz", Readyz.as_view(), name="readyz"),
    path("metrics", Metrics.as_view(), name="metrics"),
    path("preferences", views.Preferences.as_view(), name="preferences"),
    path("project-switch", views.ProjectSwitch.as_view(), name="project-switch"),
    # the stubs know async views with one kind of answer only
    path("events/stream", streams.stream, name="events-stream"),  # type: ignore[arg-type]
    path("api/v1/schema", views.SchemaView.as_view(), name="api-schema"),
    path("api/docs", views.DocsView.as_view(), name="api-docs"),
    path("palette", views.Palette.as_view(), name="palette"),
    # Before the pages: else each call of a script is compared with every page's address first.
    path("api/v1/", include([path("", include(module)) for module in API])),
]

# Mounted in this order; each app keeps its own names and prefixes.
APPS = (
    "accounts.urls",
    "projects.urls",
    "credentials.urls",
    "images.ui",
    "volumes.urls",
    "hubapi.urls",
    "loaders.urls",
    "files.ui",
    "notebooks.urls",
    "jobs.urls",
    "experiments.ui",
    "perftests.ui",
    "serving.urls",
    "gate.urls",
    "usage.ui",
    "fleet.ui",
    "notifications.ui",
    "webhooks.ui",
    "queues.urls",
    "budgets.ui",
    "parking.ui",
    "console.urls",
)
urlpatterns += [path("", include(module)) for module in APPS]

handler400 = "portal.views.bad_request"
handler403 = "portal.views.denied"
handler404 = "portal.views.not_found"
handler429 = "portal.views.too_many"  # allauth's: Django knows none
handler500 = "portal.views.broken"
