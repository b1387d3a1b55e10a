"""Homes and other volumes: claims that are bound in advance, removed with their contents.

Claims of a storage class become larger by asking for more; the storage does it in its time.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import NoReturn

from runtime.capabilities.volumes import CannotGrow, Growing
from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.builders import volume as build
from runtime.drivers.kubernetes.builders.tenant import binary
from runtime.drivers.kubernetes.client import KubeClient, Object
from runtime.drivers.kubernetes.inspection import Locator
from runtime.drivers.kubernetes.metrics import quantity
from runtime.drivers.kubernetes.nfs import NfsFolders
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import Denied, InvalidSpec, NotYet
from runtime.spec import Backing, WorkloadSpec

_CLAIMS = "persistentvolumeclaims"
_MIB = 2**20
_KNOWN_S = 300.0  # for so long what a class says is not asked again
_LATER = frozenset(("FileSystemResizePending", "NodeResizePending"))
_ERRORS = frozenset(("ControllerResizeError", "NodeResizeError"))
_NEVER = frozenset(("ControllerResizeInfeasible", "NodeResizeInfeasible"))


@dataclass(frozen=True)
class _Sizes:
    """What a claim asks for and has, in bytes, and what is said of the way there."""

    asked: int
    given: int | None  # None: it is not bound yet
    waits: bool  # the rest is done when something mounts it
    never: bool  # the storage says that this size can't be
    error: str

    @property
    def fails(self) -> bool:
        return self.never or bool(self.error)

    @classmethod
    def of(cls, claim: Object) -> _Sizes:
        status = claim.get("status") or {}
        holds = [c for c in status.get("conditions") or [] if c.get("status") == "True"]
        errors = [str(c.get("message") or c["type"]) for c in holds if c["type"] in _ERRORS]
        given = (status.get("capacity") or {}).get("storage")
        is_bound = status.get("phase") == "Bound" and given is not None
        return cls(
            asked=int(quantity(str(claim["spec"]["resources"]["requests"]["storage"]))),
            given=int(quantity(str(given))) if is_bound else None,
            waits=any(c["type"] in _LATER for c in holds),
            never=(status.get("allocatedResourceStatuses") or {}).get("storage") in _NEVER,
            error=_plain(errors[-1]) if errors else "",
        )


class Growth:
    """``SupportsGrowth`` of one cluster."""

    def __init__(self, client: KubeClient, options: KubernetesOptions) -> None:
        self._client = client
        self._options = options
        self._classes: dict[str, tuple[float, bool]] = {}  # asked when, whether its volumes grow

    def can(self, backing: Backing) -> bool:
        """What is ours has no size of its own on the cluster; a class says it of its volumes."""
        on = build.resolved(backing, self._options)
        name = on.options.get("storage_class", "") if on.kind == build.CLASS else ""
        if not name:
            return True
        at, can = self._classes.get(name, (-_KNOWN_S, True))
        if time.monotonic() - at >= _KNOWN_S:
            can = self._allows(name)
            self._classes[name] = (time.monotonic(), can)
        return can

    def _allows(self, name: str) -> bool:
        """A role that may not read classes knows nothing: then the API server has the word."""
        try:
            found = self._client.get("storage.k8s.io/v1", "storageclasses", name)
        except Denied:
            return True
        return found is not None and found.get("allowVolumeExpansion") is True

    def grow(self, claim: Object, on: Backing) -> None:
        """Ask for more where that is wanted; what was given is never taken back.

        Growing until it is given, CannotGrow where it never is.
        """
        if on.size_mib is None:
            return
        wanted, sizes = on.size_mib * _MIB, _Sizes.of(claim)
        if sizes.given is None:
            if sizes.asked < wanted:  # the API server would refuse it
                raise Growing("It grows as soon as something used it once.", retry_in=10.0)
        elif sizes.asked < wanted:
            self._ask(claim, wanted, sizes.asked)
        elif sizes.given >= wanted:
            self._let_be(claim, sizes)
        elif sizes.fails and sizes.asked > wanted:  # of what was asked before; this may be possible
            self._ask(claim, wanted, sizes.given)
        elif sizes.never:
            said = sizes.error or "The storage can't give this size."
            raise CannotGrow(said, size_mib=sizes.given // _MIB)
        elif not sizes.waits:
            said = f"The storage says: {sizes.error}" if sizes.error else ""
            raise Growing(said or "The storage has not made it larger yet.", retry_in=5.0)

    def _let_be(self, claim: Object, sizes: _Sizes) -> None:
        """Nobody wants any more what the storage fails to give: else it comes one day uncounted.

        A claim can't ask for exactly what it has, only for more. An API server that knows no way
        back refuses it, and there is nothing else to do.
        """
        if sizes.given is not None and sizes.fails and sizes.asked > sizes.given + 1:
            with contextlib.suppress(Denied, InvalidSpec):
                self._write(claim, sizes.given + 1)

    def _ask(self, claim: Object, size: int, before: int) -> NoReturn:
        try:
            self._write(claim, size)
        except (Denied, InvalidSpec) as error:
            raise CannotGrow(_plain(str(error)), size_mib=before // _MIB) from error
        raise Growing("The storage was asked to make it larger.", retry_in=1.0)

    def _write(self, claim: Object, size: int) -> None:
        meta = claim["metadata"]
        text = str(size) if size % _MIB else binary(size // _MIB, "Mi")
        change = {"spec": {"resources": {"requests": {"storage": text}}}}
        self._client.patch("v1", _CLAIMS, meta["name"], meta["namespace"], change)


def _plain(text: str) -> str:
    """Without what programs put before each other's words."""
    for mark in ("is forbidden: ", " desc = "):
        text = text.rpartition(mark)[2]
    text = " ".join(text.split())[:300]
    return text if text.endswith((".", "!", "?")) else f"{text}."


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
        if len(self._there) > _THERE_KEPT:
            self._there.clear()
        self._there[where, name] = (time.monotonic(), seen)

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
            # One write, refused when somebody changed the volume since it was read
            labels = {
                names.PROJECT: names.label_value(project),
                names.OWNER: names.label_value(owner),
            }
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
        on = build.resolved(backing, self._options)
        self._client.apply(
            build.claim(volume_uid, where, self._options, project=project, owner=owner, backing=on)
        )

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
