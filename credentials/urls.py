"""The pages of credentials."""

from django.urls import path

from credentials.ui import views

app_name = "credentials"

urlpatterns = [
    path("projects/<slug:project>/credentials/", views.List.as_view(), name="list"),
    path(
        "projects/<slug:project>/credentials/<uuid:credential>/",
        views.Detail.as_view(),
        name="detail",
    ),
    path(
        "projects/<slug:project>/credentials/<uuid:credential>/delete",
        views.Delete.as_view(),
        name="delete",
    ),
    path(
        "projects/<slug:project>/credentials/<uuid:credential>/test",
        views.Test.as_view(),
        name="test",
    ),
]
