"""The API below /api/v1/: one include per app."""

from importlib.util import find_spec

from django.urls import URLPattern, URLResolver, include, path

APPS = (
    "accounts",
    "projects",
    "credentials",
    "images",
    "quotas",
    "volumes",
    "loaders",
    "files",
    "notebooks",
    "gate",
    "usage",
    "events",
    "notifications",
    "clusters",
)
urlpatterns: list[URLPattern | URLResolver] = [
    path("", include(f"{app}.api.urls"))
    for app in APPS
    if find_spec(f"{app}.api") and find_spec(f"{app}.api.urls")
]
