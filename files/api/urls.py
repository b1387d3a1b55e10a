"""Mounted below /api/v1/. No trailing slashes."""

from django.urls import path

from files.api import views

urlpatterns = [
    path(
        "projects/<slug:project>/volumes/<uuid:volume>/files",
        views.VolumeFiles.as_view(),
        name="api-volume-files",
    ),
]
