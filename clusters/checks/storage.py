"""Can a pod write into a volume that is made as homes are?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_noop as _n

from clusters.checks.base import Finding, green, probe_ended, red, unknown
from clusters.checks.probe_runner import NOT_FOUND, Needs, TooLongError
from clusters.options import DIRECTORY, NFS, STORAGE_CLASS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from clusters.checks.base import Answer, Subject
    from clusters.checks.probe_runner import Bench

NAME = "storage"
DENIED = 10  # no end that anything but WRITER gives
# In a folder of its own, which goes again: the top of an export is what others have, too.
WRITER = f"""
import sys, tempfile
try:
    with tempfile.TemporaryDirectory(dir="/data", prefix=".berth-check-") as folder:
        with open(folder + "/probe", "w") as file:
            file.write("berth")
        print(open(folder + "/probe").read())
except OSError as error:
    print(error)
    sys.exit({DENIED})
"""
# What to set, and where; the first words are the cluster's own.
UNUSED = {
    STORAGE_CLASS: _n(
        "The volume could not be used: %(why)s. Storage class and access mode (%(mode)s) are set"
        " under Settings → Storage, or by cluster.storage in the chart's values."
    ),
    NFS: _n(
        "The volume could not be used: %(why)s. Every node must be able to mount the export. It is"
        " set under Settings → Storage, or by cluster.storage in the chart's values."
    ),
    DIRECTORY: _n(
        "The volume could not be used: %(why)s. Berth does not make directories: a program of"
        " yours must, below %(path)s on every node. If there is none, let homes be of a storage"
        " class or on NFS: under Settings → Storage, or by cluster.storage in the chart's values."
    ),
}
UNMAPPABLE = _n("The volume could not be used: %(why)s")
NO_DEFAULT = _n(
    "The cluster has no default storage class. Name a class under Settings → Storage, or by"
    " cluster.storage.className in the chart's values."
)
UNMAPPED = re.compile(r"MOUNT_ATTR_IDMAP|mount_setattr|idmap", re.IGNORECASE)  # runc, crun
_MAPPING = "findmnt -n -o FSTYPE -T FOLDER  # idmapped mounts: ext4, xfs, btrfs, tmpfs; not nfs"
UNMOUNTED = {"FailedMount", "FailedAttachVolume", "FailedMapVolume"}


def act(subject: Subject, bench: Bench) -> Finding:
    options = subject.options
    by_class = options.volume_kind == STORAGE_CLASS
    name, grows = options.storage_class if by_class else "", True
    if name:
        found = _class(subject, name)
        if found.status == NOT_FOUND:
            return red(
                NAME,
                _n("There is no storage class “%(name)s”."),
                name=name,
                fix="kubectl get storageclass",
            )
        grows = _may_grow(found)
    if not bench.image:
        return unknown(NAME, _n("Set a check image: a pod is needed to see it."))
    where = bench.namespace("a")
    claim = _make(subject, bench, where)
    if by_class and not name:
        path = f"/api/v1/namespaces/{where}/persistentvolumeclaims/{claim}"
        found = subject.api.ask("GET", path)  # which class the cluster took by itself
        name = str((found.body.get("spec") or {}).get("storageClassName") or "") if found.ok else ""
        if found.ok and not name:
            return red(NAME, NO_DEFAULT, fix="kubectl get storageclass")
        grows = not name or _may_grow(_class(subject, name))
    bench.start(where, "writer", WRITER, needs=Needs(claim=claim))
    if fault := _written(subject, bench, where, claim):
        return fault
    if grows:
        return green(NAME, _n("A pod wrote into a volume made as homes are."))
    # What can't grow is no fault; whoever chose the class may not know it.
    return green(
        NAME,
        _n(
            "A pod wrote into a volume made as homes are. Volumes can't be made larger later: the"
            " storage class “%(name)s” does not allow it (allowVolumeExpansion)."
        ),
        name=name,
    )


def _class(subject: Subject, name: str) -> Answer:
    return subject.api.ask("GET", f"/apis/storage.k8s.io/v1/storageclasses/{name}")


def _may_grow(found: Answer) -> bool:
    """Who may not read classes can use them: then nothing is said of growth."""
    return not found.ok or found.body.get("allowVolumeExpansion") is True


def _written(subject: Subject, bench: Bench, where: str, claim: str) -> Finding | None:
    """None when the pod could write; time that ran out for another reason goes on as an error."""
    try:
        end = bench.ended(where, "writer")
    except TooLongError as error:
        if unmapped := _unmapped(subject, str(error)):
            return unmapped
        why = _trouble(subject, where, claim, error.status)
        if not why:  # a slow pull or a full cluster is no fault of the volume
            raise
        options = subject.options
        values = {"mode": options.volume_access_mode, "path": options.volume_path}
        why = why[:200].rstrip(" .")
        return red(NAME, UNUSED[options.volume_kind], why=why, **values, fix=_fix(subject))
    if end.code == DENIED:
        return red(
            NAME,
            _n("User %(user)d can't write into the volume."),
            user=subject.options.run_as_user,
            fix=_fix(subject),
        )
    if end.code:
        return _unmapped(subject, end.said) or probe_ended(NAME, end.code)
    return None


def _unmapped(subject: Subject, said: str) -> Finding | None:
    """Red where pods have users of their own and the volume's file system has no way to show them.

    Their container is then refused by the node's runtime, which says that it could not map ids.
    """
    if not subject.options.user_namespaces or not UNMAPPED.search(said):
        return None
    return red(NAME, UNMAPPABLE, why=said[-200:], fix=_MAPPING)


def _trouble(subject: Subject, where: str, claim: str, pod: Mapping[str, Any]) -> str:
    """What the cluster says of the volume of a pod that does not run, or ''."""
    told = {c.get("type"): c.get("status") for c in pod.get("conditions") or ()}
    if told.get("PodReadyToStartContainers") == "True":
        return ""  # its volume is mounted
    path = f"/api/v1/namespaces/{where}"
    events = subject.api.ask("GET", f"{path}/events", params={"limit": "200"})
    items = (events.body.get("items") or ()) if events.ok else ()
    if told.get("PodScheduled") == "True":
        return _said([e for e in _about(items, "Pod", "writer-0") if e.get("reason") in UNMOUNTED])
    found = subject.api.ask("GET", f"{path}/persistentvolumeclaims/{claim}")
    if (found.body.get("status") or {}).get("phase") == "Bound":
        return ""
    about = _about(items, "PersistentVolumeClaim", claim)
    begun = any(event.get("reason") == "Provisioning" for event in about)
    unmade = {"FailedBinding"} if begun else {"FailedBinding", "ExternalProvisioning"}
    return _said([e for e in about if e.get("type") == "Warning" or e.get("reason") in unmade])


def _about(items: Iterable[Mapping[str, Any]], kind: str, name: str) -> list[Mapping[str, Any]]:
    wanted = (kind, name)
    about = [(item, item.get("involvedObject") or {}) for item in items]
    return [item for item, which in about if (which.get("kind"), which.get("name")) == wanted]


def _said(events: list[Mapping[str, Any]]) -> str:
    return next((str(event["message"]) for event in events if event.get("message")), "")


def _fix(subject: Subject) -> str:
    options = subject.options
    if options.volume_kind == DIRECTORY:
        return "kubectl get pv -l berth.dev/kind=volume  # and: does what makes directories run?"
    if options.volume_kind == NFS:
        return (
            f"mount -t nfs {options.nfs_server}:{options.nfs_export} /mnt && ls -ldn /mnt"
            f"  # on a node; user {options.run_as_user} must be allowed to write there"
        )
    return f"kubectl describe storageclass {options.storage_class}".rstrip()


def _make(subject: Subject, bench: Bench, where: str) -> str:
    """A claim, and its volume where no class makes it, by the same builders as homes."""
    from clusters.registry import driver_options
    from runtime.drivers.kubernetes.builders import volume as builders

    options: Any = driver_options(subject.cluster)
    uid = bench.volume_uid
    if options.volume_kind != STORAGE_CLASS:
        made = _plain(builders.volume(uid, where, options, project=uid, owner=uid), bench)
        if options.volume_kind == NFS:  # its folder would be made by a Job; here the top is tried
            on = builders.resolved(None, options)
            made["spec"] |= builders.nfs_source(on, "")
        bench.remember_volume(made["metadata"]["name"])
        bench.apply(f"/api/v1/persistentvolumes/{made['metadata']['name']}", made)
    claim = _plain(builders.claim(uid, where, options, project=uid, owner=uid), bench)
    name = str(claim["metadata"]["name"])
    bench.apply(f"/api/v1/namespaces/{where}/persistentvolumeclaims/{name}", claim)
    return name


def _plain(obj: dict[str, Any], bench: Bench) -> dict[str, Any]:
    """Not marked as a workload's: nothing may take it for one."""
    obj["metadata"]["labels"] = bench.labels()
    return obj
