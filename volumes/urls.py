"""The pages of volumes."""

from django.urls import path

from volumes.ui import views

app_name = "volumes"

urlpatterns = [
    path("projects/<slug:project>/volumes/", views.List.as_view(), name="list"),
]
