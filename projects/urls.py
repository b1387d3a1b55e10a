"""Pages of projects, mounted at the root."""

from django.urls import path

from projects.ui import kube, views

app_name = "projects"
urlpatterns = [
    path("projects/", views.ProjectList.as_view(), name="list"),
    path("projects/new", views.ProjectCreate.as_view(), name="create"),
    path("projects/permissions", views.PermissionTable.as_view(), name="permissions"),
    path("projects/<slug:project>/", views.Overview.as_view(), name="overview"),
    path("projects/<slug:project>/members", views.Members.as_view(), name="members"),
    path(
        "projects/<slug:project>/members/<str:username>/role",
        views.MemberRole.as_view(),
        name="member-role",
    ),
    path(
        "projects/<slug:project>/members/<str:username>/remove",
        views.MemberRemove.as_view(),
        name="member-remove",
    ),
    path("projects/<slug:project>/leave", views.Leave.as_view(), name="leave"),
    path(
        "projects/<slug:project>/invitations/<uuid:uid>/revoke",
        views.InvitationRevoke.as_view(),
        name="invitation-revoke",
    ),
    path("projects/<slug:project>/activity", views.Activity.as_view(), name="events"),
    path("projects/<slug:project>/kubectl", kube.Kubectl.as_view(), name="kubectl"),
    path(
        "projects/<slug:project>/kubectl/<uuid:uid>/file",
        kube.KubectlFile.as_view(),
        name="kubectl-file",
    ),
    path(
        "projects/<slug:project>/kubectl/<uuid:uid>/revoke",
        kube.KubectlRevoke.as_view(),
        name="kubectl-revoke",
    ),
    path("settings/kubeconfigs", kube.Kubeconfigs.as_view(), name="kubeconfigs"),
    path(
        "settings/kubeconfigs/<uuid:uid>/revoke",
        kube.KubeconfigRevoke.as_view(),
        name="kubeconfig-revoke",
    ),
    path("projects/<slug:project>/settings", views.Settings.as_view(), name="settings"),
    path("projects/<slug:project>/clusters", kube.Clusters.as_view(), name="clusters"),
    path("projects/<slug:project>/archive", views.Archive.as_view(), name="archive"),
    path("projects/<slug:project>/unarchive", views.Unarchive.as_view(), name="unarchive"),
    path("projects/<slug:project>/delete", views.Delete.as_view(), name="delete"),
    path("invitations/accept", views.AcceptInvitation.as_view(), name="invitation-accept"),
    path("invitations/<str:secret>/", views.OpenInvitation.as_view(), name="invitation-open"),
]
