"""Mounted below /api/v1/. Setting limits is the operators' business, hence outside projects."""

from django.urls import path

from quotas.api import views

app_name = "quotas-api"
urlpatterns = [
    path("projects/<slug:project>/quota", views.ProjectQuotaView.as_view(), name="project"),
    path("quotas/projects/<slug:project_slug>", views.LimitsView.as_view(), name="of-project"),
    path(
        "quotas/projects/<slug:project_slug>/members/<str:username>",
        views.LimitsView.as_view(),
        name="of-member",
    ),
    path("quotas/users/<str:username>", views.LimitsView.as_view(), name="of-user"),
]
