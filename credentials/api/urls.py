"""Mounted below /api/v1/. No trailing slashes."""

from django.urls import path

from credentials.api import views

urlpatterns = [
    path(
        "projects/<slug:project>/credentials",
        views.CredentialList.as_view(),
        name="api-credentials",
    ),
    path(
        "projects/<slug:project>/credentials/<uuid:credential>",
        views.CredentialDetail.as_view(),
        name="api-credential",
    ),
    path(
        "projects/<slug:project>/credentials/<uuid:credential>/rotate",
        views.Rotate.as_view(),
        name="api-credential-rotate",
    ),
    path(
        "projects/<slug:project>/credentials/<uuid:credential>/test",
        views.Test.as_view(),
        name="api-credential-test",
    ),
]
