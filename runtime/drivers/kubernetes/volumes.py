"""Homes and project volumes: claims that are bound in advance, removed with their contents."""

from __future__ import annotations

import time

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.builders import volume as build
from runtime.drivers.kubernetes.client import KubeClient, Object
from runtime.drivers.kubernetes.locate import Locator
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import InvalidSpec, NotYet, WorkloadSpec

_CLAIMS, _VOLUMES = "persistentvolumeclaims", "persistentvolumes"
_LOST = frozenset(("Lost",))
_THERE_S, _THERE_KEPT = 60.0, 10_000


class Volumes:
    """``SupportsVolumes`` of one cluster."""

    def __init__(self, client: KubeClient, options: KubernetesOptions, locator: Locator) -> None:
        self._client = client
        self._options = options
        self._locator = locator
        self._there: dict[tuple[str, str], float] = {}  # claims that were seen, and when

    def ensure_mounts(self, spec: WorkloadSpec) -> None:
        for mount in spec.mounts:
            self.ensure(
                mount.volume_uid,
                project=spec.project,
                owner=spec.owner if mount.role == "home" else "",
                namespace=spec.namespace,
            )

    def ensure(self, volume_uid: str, *, project: str, owner: str, namespace: str = "") -> None:
        """Nothing or one read when it is there; two writes when it is not."""
        where = namespace or self._namespace(volume_uid, project)
        if not where:
            raise NotYet("The project has no place on this cluster yet.", retry_in=2.0)
        name = names.claim(volume_uid)
        if time.monotonic() - self._there.get((where, name), -_THERE_S) < _THERE_S:
            return
        found = self._client.get("v1", _CLAIMS, name, where)
        if found is not None and not self._is_lost(found):
            if found["metadata"].get("deletionTimestamp"):
                raise NotYet("The volume is being removed.", retry_in=1.0)
            self._note(where, name)
            return
        if self._options.volume_kind == "directory":
            self._ensure_volume(volume_uid, where, project=project, owner=owner)
        self._client.apply(
            build.claim(volume_uid, where, self._options, project=project, owner=owner)
        )
        self._note(where, name)

    def _note(self, namespace: str, name: str) -> None:
        if len(self._there) > _THERE_KEPT:
            self._there.clear()
        self._there[namespace, name] = time.monotonic()

    def remove(self, volume_uid: str) -> None:
        """NotYet until the volume is gone, and for a directory: wiped by the provisioner."""
        self._there.clear()
        namespace = self._claimed_in(volume_uid)
        if namespace:
            claim = self._client.get("v1", _CLAIMS, names.claim(volume_uid), namespace)
            if claim is not None:
                if not claim["metadata"].get("deletionTimestamp"):
                    self._client.delete("v1", _CLAIMS, names.claim(volume_uid), namespace)
                raise NotYet("The volume is being removed.", retry_in=0.3)
        if self._options.volume_kind != "directory":
            return
        found = self._client.get("v1", _VOLUMES, names.volume(volume_uid))
        if found is None:
            return
        if not found["metadata"].get("deletionTimestamp"):
            self._client.delete("v1", _VOLUMES, names.volume(volume_uid))
        raise NotYet("Its contents are being removed.", retry_in=0.5)

    def _ensure_volume(self, volume_uid: str, namespace: str, *, project: str, owner: str) -> None:
        """A claim that somebody removed by hand leaves the volume bound to its ghost: free it."""
        found = self._client.get("v1", _VOLUMES, names.volume(volume_uid))
        if found is not None:
            if found["metadata"].get("deletionTimestamp"):
                raise NotYet("The volume is being removed.", retry_in=1.0)
            claimed = found["spec"].get("claimRef") or {}
            if claimed.get("namespace") not in {None, namespace}:
                raise InvalidSpec("The volume belongs to another project.")
            if claimed.get("uid"):
                claim = self._client.get("v1", _CLAIMS, names.claim(volume_uid), namespace)
                if claim is not None and claim["metadata"].get("uid") == claimed["uid"]:
                    return  # made and bound meanwhile, by somebody who wanted the same
                ghost = {
                    # refused when the volume changed since it was read
                    "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]},
                    "spec": {"claimRef": {"uid": None, "resourceVersion": None}},
                }
                self._client.patch("v1", _VOLUMES, names.volume(volume_uid), "", ghost)
                return
        self._client.apply(
            build.volume(volume_uid, namespace, self._options, project=project, owner=owner)
        )

    def _is_lost(self, claim: Object) -> bool:
        return (claim.get("status") or {}).get("phase") in _LOST

    def _namespace(self, volume_uid: str, project: str) -> str:
        for uid in (volume_uid, project):
            if found := self._locator.row(uid).get("namespace"):
                return str(found)
        return ""

    def _claimed_in(self, volume_uid: str) -> str:
        if self._options.volume_kind == "directory":
            found = self._client.get("v1", _VOLUMES, names.volume(volume_uid))
            claimed = ((found or {}).get("spec") or {}).get("claimRef") or {}
            if claimed.get("namespace"):
                return str(claimed["namespace"])
        if known := self._locator.row(volume_uid).get("namespace"):
            return str(known)
        selector = names.selector(
            self._options.namespace_prefix, {names.UID: names.label_value(volume_uid)}
        )
        rows = self._client.list("v1", _CLAIMS, selector=selector)
        return str(rows[0]["metadata"]["namespace"]) if rows else ""
