"""Pages of usage, mounted at the root."""

from django.urls import path

from usage.ui import views

app_name = "usage"
urlpatterns = [
    path("projects/<slug:project>/usage", views.ProjectUsage.as_view(), name="project"),
    path("usage/", views.MyUsage.as_view(), name="mine"),
    path("usage/all", views.AllUsage.as_view(), name="all"),
]
