"""The operators' pages; auditors see them without the buttons."""

from django.urls import path

from console.views import cluster_parts as parts
from console.views import clusters, machines, overview, people, storage, system, workspaces

app_name = "console"
_CLUSTER = "console/clusters/<slug:cluster>"
urlpatterns = [
    path("console/", overview.Overview.as_view(), name="overview"),
    path("console/users/", people.UserList.as_view(), name="users"),
    path("console/users/new", people.UserCreate.as_view(), name="user-create"),
    path("console/users/<uuid:user>/", people.UserDetail.as_view(), name="user"),
    path("console/users/<uuid:user>/role", people.UserRole.as_view(), name="user-role"),
    path("console/users/<uuid:user>/state", people.UserState.as_view(), name="user-state"),
    path("console/users/<uuid:user>/password", people.UserPassword.as_view(), name="user-password"),
    path("console/users/<uuid:user>/sessions", people.UserSessions.as_view(), name="user-sessions"),
    path("console/users/<uuid:user>/limits", people.UserLimits.as_view(), name="user-limits"),
    path("console/groups/", people.GroupList.as_view(), name="groups"),
    path("console/groups/new", people.GroupCreate.as_view(), name="group-create"),
    path("console/groups/<int:row>/delete", people.GroupDelete.as_view(), name="group-delete"),
    path("console/projects/", people.ProjectList.as_view(), name="projects"),
    path("console/projects/<uuid:uid>/limits", people.Limits.as_view(), name="limits"),
    path("console/presets/", workspaces.PresetList.as_view(), name="presets"),
    path("console/presets/new", workspaces.PresetCreate.as_view(), name="preset-create"),
    path("console/presets/<uuid:preset>/", workspaces.PresetEdit.as_view(), name="preset"),
    path(
        "console/presets/<uuid:preset>/delete",
        workspaces.PresetDelete.as_view(),
        name="preset-delete",
    ),
    path("console/capacity/", system.Capacity.as_view(), name="capacity"),
    path("console/clusters/", clusters.ClusterList.as_view(), name="clusters"),
    path("console/clusters/attach", clusters.ClusterAttach.as_view(), name="cluster-attach"),
    path(f"{_CLUSTER}/", clusters.ClusterDetail.as_view(), name="cluster"),
    path(f"{_CLUSTER}/settings", clusters.ClusterSettings.as_view(), name="cluster-settings"),
    path(f"{_CLUSTER}/kubeconfig", clusters.ClusterKubeconfig.as_view(), name="cluster-kubeconfig"),
    path(f"{_CLUSTER}/detach", clusters.ClusterDetach.as_view(), name="cluster-detach"),
    path(f"{_CLUSTER}/forget", clusters.ClusterForget.as_view(), name="cluster-forget"),
    path(f"{_CLUSTER}/check", clusters.ClusterCheck.as_view(), name="cluster-check"),
    path(f"{_CLUSTER}/nodes/", parts.NodeList.as_view(), name="cluster-nodes"),
    path(f"{_CLUSTER}/pools/new", parts.PoolEdit.as_view(), name="pool-create"),
    path(f"{_CLUSTER}/pools/<str:name>/", parts.PoolEdit.as_view(), name="pool"),
    path(f"{_CLUSTER}/pools/<str:name>/delete", parts.PoolDelete.as_view(), name="pool-delete"),
    path(f"{_CLUSTER}/networks/new", parts.NetworkEdit.as_view(), name="network-create"),
    path(f"{_CLUSTER}/networks/<str:name>/", parts.NetworkEdit.as_view(), name="network"),
    path(
        f"{_CLUSTER}/networks/<str:name>/delete",
        parts.NetworkDelete.as_view(),
        name="network-delete",
    ),
    path("console/flavors/", parts.FlavorList.as_view(), name="flavors"),
    path("console/flavors/new", parts.FlavorEdit.as_view(), name="flavor-create"),
    path("console/flavors/<str:flavor>/", parts.FlavorEdit.as_view(), name="flavor"),
    path("console/flavors/<str:flavor>/delete", parts.FlavorDelete.as_view(), name="flavor-delete"),
    path("console/storage/", storage.VolumeClassList.as_view(), name="volume-classes"),
    path("console/storage/new", storage.VolumeClassEdit.as_view(), name="volume-class-create"),
    path(
        "console/storage/<slug:volume_class>/",
        storage.VolumeClassEdit.as_view(),
        name="volume-class",
    ),
    path(
        "console/storage/<slug:volume_class>/delete",
        storage.VolumeClassDelete.as_view(),
        name="volume-class-delete",
    ),
    path("console/machines/", machines.Machines.as_view(), name="machines"),
    path("console/workspaces/", workspaces.WorkspaceList.as_view(), name="workspaces"),
    path(
        "console/workspaces/<uuid:workspace>/stop", workspaces.Stop.as_view(), name="workspace-stop"
    ),
    path("console/queue/", machines.Queue.as_view(), name="queue"),
    *(
        path(
            f"console/queue/<uuid:uid>/{act}",
            machines.QueueAct.as_view(act=act),
            name=f"queue-{act}",
        )
        for act in ("hold", "release", "cancel")
    ),
    path("console/audit/", system.AuditLog.as_view(), name="audit"),
    path("console/audit/export", system.AuditExport.as_view(), name="audit-export"),
    path("console/announcements/", system.AnnouncementList.as_view(), name="announcements"),
    path(
        "console/announcements/new", system.AnnouncementEdit.as_view(), name="announcement-create"
    ),
    path(
        "console/announcements/<uuid:uid>/", system.AnnouncementEdit.as_view(), name="announcement"
    ),
    path(
        "console/announcements/<uuid:uid>/delete",
        system.AnnouncementDelete.as_view(),
        name="announcement-delete",
    ),
    path("console/system/", system.System.as_view(), name="system"),
]
