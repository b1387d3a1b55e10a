"""Mounted below /api/v1/."""

from django.urls import path

from projects.api import views

app_name = "projects-api"
urlpatterns = [
    path("projects", views.ProjectsView.as_view(), name="list"),
    path("projects/<slug:project>", views.ProjectView.as_view(), name="detail"),
    path("projects/<slug:project>/archive", views.ArchiveView.as_view(), name="archive"),
    path("projects/<slug:project>/unarchive", views.UnarchiveView.as_view(), name="unarchive"),
    path("projects/<slug:project>/members", views.MembersView.as_view(), name="members"),
    path(
        "projects/<slug:project>/members/<str:username>",
        views.MemberView.as_view(),
        name="member",
    ),
    path(
        "projects/<slug:project>/invitations", views.InvitationsView.as_view(), name="invitations"
    ),
    path(
        "projects/<slug:project>/invitations/<uuid:uid>",
        views.InvitationView.as_view(),
        name="invitation",
    ),
    path("projects/<slug:project>/events", views.ProjectEventsView.as_view(), name="events"),
]
