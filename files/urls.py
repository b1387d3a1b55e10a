"""The files page of a volume. What it shows comes from the gate."""

from django.urls import path

from files.ui import views

app_name = "files"

_ONE = "projects/<slug:project>/volumes/<uuid:volume>/files/"

urlpatterns = [
    path(_ONE, views.Browse.as_view(), name="browse"),
    path(f"{_ONE}session", views.Session.as_view(), name="session"),
]
