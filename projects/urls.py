"""Pages of projects, mounted at the root."""

from django.urls import path

from projects.ui import kube, views

app_name = "projects"
_ONE = "projects/<slug:project>"
urlpatterns = [
    path("projects/", views.ProjectList.as_view(), name="list"),
    path("projects/new", views.ProjectCreate.as_view(), name="create"),
    path("projects/permissions", views.PermissionTable.as_view(), name="permissions"),
    path(f"{_ONE}/", views.Overview.as_view(), name="overview"),
    path(f"{_ONE}/members", views.Members.as_view(), name="members"),
    path(f"{_ONE}/members/<str:username>/role", views.MemberRole.as_view(), name="member-role"),
    path(
        f"{_ONE}/members/<str:username>/remove", views.MemberRemove.as_view(), name="member-remove"
    ),
    path(f"{_ONE}/leave", views.Leave.as_view(), name="leave"),
    path(
        f"{_ONE}/invitations/<uuid:uid>/revoke",
        views.InvitationRevoke.as_view(),
        name="invitation-revoke",
    ),
    path(f"{_ONE}/activity", views.Activity.as_view(), name="events"),
    path(f"{_ONE}/kubectl", kube.Kubectl.as_view(), name="kubectl"),
    path(f"{_ONE}/kubectl/<uuid:uid>/file", kube.KubectlFile.as_view(), name="kubectl-file"),
    path(f"{_ONE}/kubectl/<uuid:uid>/revoke", kube.KubectlRevoke.as_view(), name="kubectl-revoke"),
    path("settings/kubeconfigs", kube.Kubeconfigs.as_view(), name="kubeconfigs"),
    path(
        "settings/kubeconfigs/<uuid:uid>/revoke",
        kube.KubeconfigRevoke.as_view(),
        name="kubeconfig-revoke",
    ),
    path(f"{_ONE}/settings", views.Settings.as_view(), name="settings"),
    path(f"{_ONE}/clusters", kube.Clusters.as_view(), name="clusters"),
    path(f"{_ONE}/archive", views.Archive.as_view(), name="archive"),
    path(f"{_ONE}/unarchive", views.Unarchive.as_view(), name="unarchive"),
    path(f"{_ONE}/delete", views.Delete.as_view(), name="delete"),
    path("invitations/accept", views.AcceptInvitation.as_view(), name="invitation-accept"),
    path("invitations/<str:secret>/", views.OpenInvitation.as_view(), name="invitation-open"),
]
