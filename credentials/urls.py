"""The pages of credentials: a project's, and one's own among the settings."""

from django.urls import path

from credentials.ui import views

app_name = "credentials"

_ONE = "projects/<slug:project>/credentials/<uuid:credential>"
_OWN = "settings/credentials/<uuid:own>"

urlpatterns = [
    path("projects/<slug:project>/credentials/", views.List.as_view(), name="list"),
    path(f"{_ONE}/", views.Detail.as_view(), name="detail"),
    path(f"{_ONE}/events", views.Events.as_view(), name="events"),
    path(f"{_ONE}/settings", views.Settings.as_view(), name="settings"),
    path(f"{_ONE}/edit", views.Edit.as_view(), name="edit"),
    path(f"{_ONE}/delete", views.Delete.as_view(), name="delete"),
    path(f"{_ONE}/test", views.Test.as_view(), name="test"),
    path("settings/credentials", views.Own.as_view(), name="own"),
    path(_OWN, views.OwnDetail.as_view(), name="own-detail"),
    path(f"{_OWN}/events", views.OwnEvents.as_view(), name="own-events"),
    path(f"{_OWN}/settings", views.OwnSettings.as_view(), name="own-settings"),
    path(f"{_OWN}/edit", views.OwnEdit.as_view(), name="own-edit"),
    path(f"{_OWN}/delete", views.OwnDelete.as_view(), name="own-delete"),
    path(f"{_OWN}/test", views.OwnTest.as_view(), name="own-test"),
]
