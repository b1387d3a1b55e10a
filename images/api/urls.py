"""Mounted below /api/v1/. No trailing slashes."""

from django.urls import path

from images.api import views

urlpatterns = [
    path("projects/<slug:project>/images/check", views.Check.as_view(), name="api-image-check"),
]
