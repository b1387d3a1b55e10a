"""Mounted below /api/v1/."""

from django.urls import path

from usage.api import views

app_name = "usage-api"
urlpatterns = [
    path("projects/<slug:project>/usage", views.ProjectUsageView.as_view(), name="project"),
    path(
        "projects/<slug:project>/usage/intervals",
        views.ProjectIntervalsView.as_view(),
        name="intervals",
    ),
    path("projects/<slug:project>/usage.csv", views.ProjectUsageCsvView.as_view(), name="csv"),
    path("me/usage", views.MyUsageView.as_view(), name="mine"),
    path("usage", views.AllUsageView.as_view(), name="all"),
    path("capacity", views.CapacityView.as_view(), name="capacity"),
    path("capacity.csv", views.CapacityCsvView.as_view(), name="capacity-csv"),
]
