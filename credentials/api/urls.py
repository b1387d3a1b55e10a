"""Mounted below /api/v1/. No trailing slashes."""

from django.urls import path

from credentials.api import views

_ALL = "projects/<slug:project>/credentials"
_ONE = f"{_ALL}/<uuid:credential>"
_OWN = "me/credentials/<uuid:own>"

urlpatterns = [
    path(_ALL, views.CredentialList.as_view(), name="api-credentials"),
    path(f"{_ALL}/usable", views.UsableList.as_view(), name="api-credentials-usable"),
    path(_ONE, views.CredentialDetail.as_view(), name="api-credential"),
    path(f"{_ONE}/rotate", views.Rotate.as_view(), name="api-credential-rotate"),
    path(f"{_ONE}/test", views.Test.as_view(), name="api-credential-test"),
    path("me/credentials", views.OwnList.as_view(), name="api-own-credentials"),
    path(_OWN, views.OwnDetail.as_view(), name="api-own-credential"),
    path(f"{_OWN}/rotate", views.OwnRotate.as_view(), name="api-own-credential-rotate"),
    path(f"{_OWN}/test", views.OwnTest.as_view(), name="api-own-credential-test"),
]
