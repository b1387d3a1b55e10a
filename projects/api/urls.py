"""Mounted below /api/v1/."""

from django.urls import path

from projects.api import kube, views

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
    path("projects/<slug:project>/clusters", kube.ProjectClustersView.as_view(), name="clusters"),
    path("projects/<slug:project>/places", kube.PlacesView.as_view(), name="places"),
    path("projects/<slug:project>/kubeconfigs", kube.KubeconfigsView.as_view(), name="kubeconfigs"),
    path(
        "projects/<slug:project>/kubeconfigs/<uuid:uid>",
        kube.KubeconfigView.as_view(),
        name="kubeconfig",
    ),
    path(
        "projects/<slug:project>/kubeconfigs/<uuid:uid>/file",
        kube.KubeconfigFileView.as_view(),
        name="kubeconfig-file",
    ),
    path(
        "projects/<slug:project>/kubeconfigs/<uuid:uid>/token",
        kube.KubeTokenView.as_view(),
        name="kube-token",
    ),
    path("projects/<slug:project>/events", views.ProjectEventsView.as_view(), name="events"),
]
