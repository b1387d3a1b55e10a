"""Mounted below /api/v1/."""

from django.urls import path

from events.api import views

app_name = "events-api"
urlpatterns = [
    path("audit", views.AuditView.as_view(), name="audit"),
    path("audit/chain", views.AuditChainView.as_view(), name="chain"),
]
