"""Mounted below /api/v1/. No trailing slashes."""

from django.urls import path

from volumes.api import views

urlpatterns = [
    path("projects/<slug:project>/volumes", views.VolumeList.as_view(), name="api-volumes"),
    path(
        "projects/<slug:project>/volumes/<uuid:volume>",
        views.VolumeDetail.as_view(),
        name="api-volume",
    ),
]
