"""Homes and other volumes: claims that are bound in advance, removed with their contents."""

from __future__ import annotations

import time

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.builders import volume as build
from runtime.drivers.kubernetes.client import KubeClient, Object
from runtime.drivers.kubernetes.expansion import Growth
from runtime.drivers.kubernetes.locate import Locator
from runtime.drivers.kubernetes.nfs import NfsFolders
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import Backing, InvalidSpec, NotYet, WorkloadSpec

CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"
_LOST = frozenset(("Lost",))
_THERE_S, _THERE_KEPT = 60.0, 10_000
_SIZE_NOT_SEEN = -1


class Volumes:
    """``SupportsVolumes`` and ``SupportsMoves`` of one cluster."""

    def __init__(self, client: KubeClient, options: KubernetesOptions, locator: Locator) -> None:
        self._client = client
        self._options = options
        self._locator = locator
        self._nfs = NfsFolders(client, options)
        self.growth = Growth(client, options)
        self._there: dict[tuple[str, str], tuple[float, int | None]] = {}  # seen when, how large

    def ensure_mounts(self, spec: WorkloadSpec) -> None:
        """What is to grow can be used as it is: nothing that starts waits for that."""
        for mount in spec.mounts:
            self.ensure(
                mount.volume_uid,
                project=spec.project,
                owner=spec.owner if mount.role == "home" else mount.owner,
                namespace=spec.namespace,
                backing=mount.backing,
                grow=False,
            )

    def ensure(
        self,
        volume_uid: str,
        *,
        project: str,
        owner: str,
        namespace: str = "",
        backing: Backing | None = None,
        grow: bool = True,
    ) -> None:
        """Nothing or one read when it is there; two writes when it is not."""
        where = namespace or self._namespace(volume_uid, project)
        if not where:
            raise NotYet("The project has no place on this cluster yet.", retry_in=2.0)
        on = build.resolved(backing, self._options)
        name = names.claim(volume_uid)
        at, size = self._there.get((where, name), (-_THERE_S, None))
        if time.monotonic() - at < _THERE_S and (not grow or size == on.size_mib):
            return
        seen = on.size_mib
        found = self.claim(volume_uid, where)
        if found is not None and not self._is_lost(found):
            if found["metadata"].get("deletionTimestamp"):
                raise NotYet("The volume is being removed.", retry_in=1.0)
            if on.kind == build.CLASS and grow:
                self._there.pop((where, name), None)  # until it is as large as is wanted
                self.growth.grow(found, on)
            elif on.kind == build.CLASS:
                seen = _SIZE_NOT_SEEN
        else:
            self._make(volume_uid, where, on, project=project, owner=owner)
        self._note(where, name, seen)

    def claim(self, volume_uid: str, namespace: str) -> Object | None:
        return self._client.get("v1", CLAIMS, names.claim(volume_uid), namespace)

    def forget(self) -> None:
        self._there.clear()

    def forget_in(self, namespace: str) -> None:
        for key in [key for key in list(self._there) if key[0] == namespace]:
            self._there.pop(key, None)

    def _make(self, volume_uid: str, where: str, on: Backing, *, project: str, owner: str) -> None:
        """A folder on a server is made before its claim: so a claim that is there has one."""
        if on.kind in build.OUR_OWN:
            self._ensure_volume(volume_uid, where, on, project=project, owner=owner)
        if on.kind in build.ON_NFS:
            self._nfs.make(volume_uid, on)
        self._client.apply(
            build.claim(volume_uid, where, self._options, project=project, owner=owner, backing=on)
        )

    def _note(self, namespace: str, name: str, size: int | None) -> None:
        if len(self._there) > _THERE_KEPT:
            self._there.clear()
        self._there[namespace, name] = (time.monotonic(), size)

    # --- remove -------------------------------------------------------------------------------
    def remove(self, volume_uid: str) -> None:
        """NotYet until the volume is gone, with its contents where they lie in our own folder."""
        self._there.clear()
        found = self._client.get("v1", VOLUMES, names.volume(volume_uid))
        namespace = self._claimed_in(volume_uid, found)
        self.refuse_foreign(found)
        if namespace:
            claim = self.claim(volume_uid, namespace)
            self.refuse_foreign(claim)
            if claim is not None:
                if not claim["metadata"].get("deletionTimestamp"):
                    self._client.delete("v1", CLAIMS, names.claim(volume_uid), namespace)
                raise NotYet("The volume is being removed.", retry_in=0.3)
        if found is None:
            return
        if not found["metadata"].get("deletionTimestamp"):
            if (on := _backing_of(found)) is not None:
                self._nfs.wipe(volume_uid, on)
            self._client.delete("v1", VOLUMES, names.volume(volume_uid))
        raise NotYet("Its contents are being removed.", retry_in=0.5)

    # --- move ---------------------------------------------------------------------------------
    def move(
        self, volume_uid: str, *, project: str, owner: str, backing: Backing, namespace: str = ""
    ) -> None:
        """The same volume for a claim of another project; at no moment may a third one have it."""
        where = namespace or self._namespace_of_project(project) or self._namespace(volume_uid, "")
        if not where:
            raise NotYet("The project has no place on this cluster yet.", retry_in=2.0)
        self._there.clear()
        found = self._client.get("v1", VOLUMES, names.volume(volume_uid))
        if found is None:
            raise InvalidSpec("There is no such volume on this cluster.")
        self.refuse_foreign(found)
        claimed = found["spec"].get("claimRef") or {}
        if (before := claimed.get("namespace")) not in {None, where}:
            claim = self.claim(volume_uid, before)
            if claim is not None:
                if not claim["metadata"].get("deletionTimestamp"):
                    self._client.delete("v1", CLAIMS, names.claim(volume_uid), before)
                raise NotYet("The volume is leaving its project.", retry_in=0.5)
            self._hand_over(found, volume_uid, where, project=project, owner=owner)
        on = build.resolved(backing, self._options)
        self._client.apply(
            build.claim(volume_uid, where, self._options, project=project, owner=owner, backing=on)
        )

    def _hand_over(
        self, found: Object, volume_uid: str, where: str, *, project: str, owner: str
    ) -> None:
        """One write, refused when somebody changed the volume since it was read."""
        labels = {names.PROJECT: names.label_value(project), names.OWNER: names.label_value(owner)}
        change = {
            "metadata": {
                "labels": {key: value or None for key, value in labels.items()},
                "resourceVersion": found["metadata"]["resourceVersion"],
            },
            "spec": {
                "claimRef": {
                    **build.claim_of(volume_uid, where),
                    "uid": None,
                    "resourceVersion": None,
                }
            },
        }
        self._client.patch("v1", VOLUMES, names.volume(volume_uid), "", change)

    # --- inside ---------------------------------------------------------------------------------
    def refuse_foreign(self, found: Object | None) -> None:
        if found is not None and names.is_foreign(found, self._options.installation):
            raise InvalidSpec(f"{found['metadata']['name']} was made by another Berth.")

    def _ensure_volume(
        self, volume_uid: str, namespace: str, on: Backing, *, project: str, owner: str
    ) -> None:
        """A claim that somebody removed by hand leaves the volume bound to its ghost: free it."""
        found = self._client.get("v1", VOLUMES, names.volume(volume_uid))
        if found is not None:
            if found["metadata"].get("deletionTimestamp"):
                raise NotYet("The volume is being removed.", retry_in=1.0)
            claimed = found["spec"].get("claimRef") or {}
            if claimed.get("namespace") not in {None, namespace}:
                raise InvalidSpec("The volume belongs to another project.")
            if claimed.get("uid"):
                claim = self.claim(volume_uid, namespace)
                if claim is not None and claim["metadata"].get("uid") == claimed["uid"]:
                    return  # made and bound meanwhile, by somebody who wanted the same
                ghost = {
                    # refused when the volume changed since it was read
                    "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]},
                    "spec": {"claimRef": {"uid": None, "resourceVersion": None}},
                }
                self._client.patch("v1", VOLUMES, names.volume(volume_uid), "", ghost)
                return
        self._client.apply(
            build.volume(
                volume_uid, namespace, self._options, project=project, owner=owner, backing=on
            )
        )

    def _is_lost(self, claim: Object) -> bool:
        return (claim.get("status") or {}).get("phase") in _LOST

    def _namespace(self, volume_uid: str, project: str) -> str:
        for uid in (volume_uid, project):
            if uid and (found := self._locator.row(uid).get("namespace")):
                return str(found)
        return ""

    def _namespace_of_project(self, project: str) -> str:
        return str(self._locator.row(project).get("namespace") or "")

    def namespace_of(self, volume_uid: str) -> str:
        """Return where its claim is, "" when there is none."""
        return self._claimed_in(
            volume_uid, self._client.get("v1", VOLUMES, names.volume(volume_uid))
        )

    def _claimed_in(self, volume_uid: str, volume: Object | None) -> str:
        claimed = ((volume or {}).get("spec") or {}).get("claimRef") or {}
        if claimed.get("namespace"):
            return str(claimed["namespace"])
        if known := self._locator.row(volume_uid).get("namespace"):
            return str(known)
        selector = names.selector(
            self._options.namespace_prefix, {names.UID: names.label_value(volume_uid)}
        )
        rows = self._client.list("v1", CLAIMS, selector=selector)
        return str(rows[0]["metadata"]["namespace"]) if rows else ""


def _backing_of(volume: Object) -> Backing | None:
    """Return the NFS export that a volume of ours lies on, from the volume itself."""
    spec = volume["spec"]
    if (source := spec.get("nfs")) is not None:
        export = str(source["path"]).rpartition("/")[0] or "/"
        return Backing(build.NFS, {"server": str(source["server"]), "export": export})
    if (source := spec.get("csi")) is not None:
        said = source["volumeAttributes"]
        given = {"server": said["server"], "export": said["share"], "driver": source["driver"]}
        return Backing(build.NFS_CSI, given)
    return None
