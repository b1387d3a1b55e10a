"""Snapshots by the storage itself: VolumeSnapshot objects beside the claim."""

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.builders import volume as build
from runtime.drivers.kubernetes.client import KubeClient, Object
from runtime.drivers.kubernetes.metrics import quantity
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.drivers.kubernetes.volumes import CLAIMS, Volumes
from runtime.protocol import DriverError, InvalidSpec, NotYet
from runtime.spec import Backing

_API, _SNAPSHOTS = f"{build.SNAPSHOTS}/v1", "volumesnapshots"


class Snapshots:
    """``SupportsSnapshots`` of one cluster."""

    def __init__(self, client: KubeClient, options: KubernetesOptions, volumes: Volumes) -> None:
        self._client = client
        self._options = options
        self._volumes = volumes

    def can(self, backing: Backing) -> bool:
        """Only storage that can do it by itself: who copies terabytes file by file asks a load."""
        on = build.resolved(backing, self._options)
        return on.kind == build.CLASS and bool(on.options.get("snapshot_class"))

    def ensure(self, snapshot_uid: str, *, volume_uid: str, backing: Backing) -> int:
        if not self.can(backing):
            raise InvalidSpec("What this volume lies on can't make snapshots.")
        where = self._volumes.namespace_of(volume_uid)
        claim = self._volumes.claim(volume_uid, where) if where else None
        if claim is None:
            raise InvalidSpec("There is no such volume on this cluster.")
        found = self._client.get(_API, _SNAPSHOTS, names.snapshot(snapshot_uid), where)
        if found is None:
            wanted = backing.options["snapshot_class"]
            self._client.apply(
                build.volume_snapshot(snapshot_uid, volume_uid, claim, snapshot_class=wanted)
            )
            raise NotYet("The snapshot is being made.", retry_in=1.0)
        status = found.get("status") or {}
        if not status.get("readyToUse"):
            if message := (status.get("error") or {}).get("message"):
                raise DriverError(f"The storage could not make the snapshot: {message[:300]}")
            raise NotYet("The snapshot is being made.", retry_in=2.0)
        return int(quantity(str(status.get("restoreSize", "0"))))

    def restore(self, snapshot_uid: str, *, volume_uid: str, backing: Backing) -> None:
        """A claim of the same name that begins as the snapshot's copy; the snapshot stays.

        The old claim goes first, with what was in it: only the snapshot is wanted from now on.
        """
        where = self._volumes.namespace_of(volume_uid)
        found = self._client.get(_API, _SNAPSHOTS, names.snapshot(snapshot_uid), where)
        if found is None or not (found.get("status") or {}).get("readyToUse"):
            raise InvalidSpec("There is no such snapshot on this cluster.")
        self._volumes.forget()
        claim = self._volumes.claim(volume_uid, where)
        if claim is None:
            self._begin(found, snapshot_uid, volume_uid, backing)
            raise NotYet("The volume is being made from the snapshot.", retry_in=1.0)
        meta = claim["metadata"]
        if meta.get("deletionTimestamp"):
            raise NotYet("The old contents are being removed.", retry_in=0.5)
        if (meta.get("annotations") or {}).get(names.RESTORED) != snapshot_uid:
            self._volumes.refuse_foreign(claim)
            self._client.delete("v1", CLAIMS, meta["name"], where, uid=meta["uid"])
            raise NotYet("The old contents are being removed.", retry_in=0.5)
        if (claim.get("status") or {}).get("phase") != "Bound" and not self._waits(claim):
            raise NotYet("The volume is being made from the snapshot.", retry_in=2.0)
        done = {"metadata": {"annotations": {names.RESTORED: None}}}
        self._client.patch("v1", CLAIMS, meta["name"], where, done)

    def remove(self, snapshot_uid: str, *, volume_uid: str) -> None:
        where = self._volumes.namespace_of(volume_uid)
        name = names.snapshot(snapshot_uid)
        found = self._client.get(_API, _SNAPSHOTS, name, where) if where else None
        if found is not None:
            self._volumes.refuse_foreign(found)
            self._client.delete(_API, _SNAPSHOTS, name, where)
            raise NotYet("The snapshot is being removed.", retry_in=0.5)

    def _begin(
        self, snapshot: Object, snapshot_uid: str, volume_uid: str, backing: Backing
    ) -> None:
        labels = snapshot["metadata"].get("labels") or {}
        self._client.apply(
            build.claim(
                volume_uid,
                snapshot["metadata"]["namespace"],
                self._options,
                project=labels.get(names.PROJECT, ""),
                owner=labels.get(names.OWNER, ""),
                backing=backing,
                snapshot=snapshot_uid,
            )
        )

    def _waits(self, claim: Object) -> bool:
        """A class that binds with the first pod: its claim is as ready as it can be."""
        name = claim["spec"].get("storageClassName") or ""
        row = self._client.get("storage.k8s.io/v1", "storageclasses", name)
        return (row or {}).get("volumeBindingMode") == "WaitForFirstConsumer"
