"""Mounted below /api/v1/. No trailing slashes."""

from django.urls import path

from volumes.api import classes, parts, views

_PROJECT = "projects/<slug:project>"
_ALL = f"{_PROJECT}/volumes"
_ONE = f"{_ALL}/<uuid:volume>"
_COPY = f"{_ONE}/snapshots/<uuid:snapshot>"
_OFFERED = f"{_PROJECT}/volume-transfers"

urlpatterns = [
    path("volume-classes", classes.VolumeClassList.as_view(), name="api-volume-classes"),
    path(
        "volume-classes/<slug:volume_class>",
        classes.VolumeClassDetail.as_view(),
        name="api-volume-class",
    ),
    path(f"{_PROJECT}/volume-classes", classes.OfferList.as_view(), name="api-volume-offers"),
    path(_ALL, views.VolumeList.as_view(), name="api-volumes"),
    path(f"{_ALL}/apply", views.VolumeApply.as_view(), name="api-volume-apply"),
    path(_ONE, views.VolumeDetail.as_view(), name="api-volume"),
    path(f"{_ONE}/restore", views.VolumeRestore.as_view(), name="api-volume-restore"),
    path(f"{_ONE}/purge", views.VolumePurge.as_view(), name="api-volume-purge"),
    path(f"{_ONE}/manifest", views.VolumeManifest.as_view(), name="api-volume-manifest"),
    path(f"{_ONE}/snapshots", parts.SnapshotList.as_view(), name="api-volume-snapshots"),
    path(_COPY, parts.SnapshotDetail.as_view(), name="api-volume-snapshot"),
    path(f"{_COPY}/restore", parts.SnapshotRestore.as_view(), name="api-volume-snapshot-restore"),
    path(f"{_ONE}/transfer", parts.VolumeTransferView.as_view(), name="api-volume-transfer"),
    path(_OFFERED, parts.TransferInbox.as_view(), name="api-volume-transfers"),
    path(
        f"{_OFFERED}/<uuid:transfer>/accept",
        parts.TransferAccept.as_view(),
        name="api-volume-transfer-accept",
    ),
    path(
        f"{_OFFERED}/<uuid:transfer>/decline",
        parts.TransferDecline.as_view(),
        name="api-volume-transfer-decline",
    ),
]
