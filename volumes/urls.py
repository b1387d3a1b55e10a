"""The pages of volumes."""

from django.urls import path

from volumes.ui import acts, views

app_name = "volumes"

_ALL = "projects/<slug:project>/volumes/"
_ONE = f"{_ALL}<uuid:volume>/"
_COPY = f"{_ONE}snapshots/<uuid:snapshot>/"

urlpatterns = [
    path(_ALL, views.List.as_view(), name="list"),
    path(f"{_ALL}new/", views.Create.as_view(), name="create"),
    path(f"{_ALL}offers/<uuid:transfer>/", acts.Answer.as_view(), name="answer"),
    path(_ONE, views.Detail.as_view(), name="detail"),
    path(f"{_ONE}delete/", acts.Delete.as_view(), name="delete"),
    path(f"{_ONE}restore/", acts.Restore.as_view(), name="restore"),
    path(f"{_ONE}purge/", acts.Purge.as_view(), name="purge"),
    path(f"{_ONE}snapshots/", views.Snapshots.as_view(), name="snapshots"),
    path(f"{_ONE}snapshots/new/", acts.SnapshotCreate.as_view(), name="snapshot-create"),
    path(f"{_COPY}restore/", acts.SnapshotRestore.as_view(), name="snapshot-restore"),
    path(f"{_COPY}delete/", acts.SnapshotDelete.as_view(), name="snapshot-delete"),
    path(f"{_ONE}transfer/", acts.TransferAsk.as_view(), name="transfer"),
    path(f"{_ONE}transfer/withdraw/", acts.TransferWithdraw.as_view(), name="withdraw"),
    path(f"{_ONE}events/", views.Events.as_view(), name="events"),
    path(f"{_ONE}usage/", views.Usage.as_view(), name="usage"),
    path(f"{_ONE}yaml/", views.Yaml.as_view(), name="yaml"),
    path(f"{_ONE}settings/", views.Settings.as_view(), name="settings"),
]
