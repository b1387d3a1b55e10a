"""Storage that makes snapshots and grows: a CSI driver of ours, Kubernetes' programs around it.

Not every cluster has it: its programs take minutes to build, and only snapshots and volumes that
grow need it.  A cluster has it from ``python -m devcluster storage`` on, and from its start once
they are built.
"""

import json
from typing import Any

import yaml

from devcluster import kueue, pki
from devcluster.control_plane import flags
from devcluster.kube import Kube
from devcluster.layout import NODE, Layout, cache
from devcluster.processes import Processes
from devcluster.programs import PROGRAMS, binary, build, module_folder, unbuilt
from tools.setup_shell import SetupError, digest, say

NEEDED = ("csi-directory", "external-provisioner", "external-resizer", "external-snapshotter")
DRIVER = "directory.csi.berth.dev"  # as devcluster/modules/csi-directory/main.go says it
CLASS = "berth-snapshots"  # of volumes, and of snapshots
FIXED = "berth-fixed"  # of volumes that stay as large as they were made
DEFINITIONS = "github.com/kubernetes-csi/external-snapshotter/client/v8"
KINDS = ("volumesnapshotclasses", "volumesnapshotcontents", "volumesnapshots")
GROUP = "snapshot.storage.k8s.io"
PATIENCE_S = 30


def has() -> bool:
    return not unbuilt(NEEDED)


def add(layout: Layout) -> None:
    """To a cluster that is up: what lacks is built, what runs is left alone."""
    kube = Kube(layout.admin)
    for program in unbuilt(NEEDED):
        build(program, lambda text: say(f"  built {text}"))
    try:
        pki.make(layout)
        start(layout, Processes(layout), kube)
    except TimeoutError as error:
        raise SetupError(str(error)) from error
    finally:
        kube.close()


def start(layout: Layout, processes: Processes, kube: Kube) -> None:
    """The kinds of snapshots are there before the programs that ask for them."""
    heads = definitions()
    for item in heads:
        kube.apply(item)
    kube.until("kinds of snapshots", lambda: kueue.established(kube, heads), PATIENCE_S)
    for item in objects():
        kube.apply(item)
    for name, command in commands(layout).items():
        processes.start(name, command)
    processes.wait("csi-directory", lambda: registered(kube), PATIENCE_S)


def commands(layout: Layout) -> dict[str, list[object]]:
    """By the names under which they are kept."""
    base = layout.base / "storage"
    socket = base / "csi.sock"
    own: dict[str, object] = {"kubeconfig": layout.kubeconfig("storage")}
    beside = {**own, "csi-address": socket, "timeout": "60s"}
    driver: dict[str, object] = {
        "base": base,
        "node": NODE,
        "socket": socket,
        "registry": layout.base / "kubelet/plugins_registry",
    }
    given: dict[str, dict[str, object]] = {
        "csi-directory": driver,
        "csi-provisioner": beside,
        "csi-resizer": beside,
        "csi-snapshotter": beside,
        "snapshot-controller": own,
    }
    return {name: [binary(name), *flags(options)] for name, options in given.items()}


def registered(kube: Kube) -> bool:
    """The kubelet says of its node which drivers it speaks to."""
    found = kube.get("storage.k8s.io/v1", "CSINode", NODE) or {}
    return any(driver["name"] == DRIVER for driver in found.get("spec", {}).get("drivers") or ())


# --- Objects --------------------------------------------------------------------------------------


def definitions() -> list[dict[str, Any]]:
    """As the module has them, read once per version."""
    program = PROGRAMS["external-snapshotter"]
    kept = cache() / f"manifests/snapshots-{digest(program.folder / 'go.sum')}.json"
    if not kept.exists():
        folder = module_folder(program, DEFINITIONS) / "config/crd"
        items = [yaml.safe_load((folder / f"{GROUP}_{kind}.yaml").read_text()) for kind in KINDS]
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(items))
    read: list[dict[str, Any]] = json.loads(kept.read_text())
    return read


def objects() -> list[dict[str, Any]]:
    named = {"metadata": {"name": CLASS}}
    made = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "provisioner": DRIVER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": DRIVER},
            "spec": {"attachRequired": False, "podInfoOnMount": False, "fsGroupPolicy": "File"},
        },
        {**made, **named, "allowVolumeExpansion": True},
        {**made, "metadata": {"name": FIXED}, "allowVolumeExpansion": False},
        {
            "apiVersion": f"{GROUP}/v1",
            "kind": "VolumeSnapshotClass",
            **named,
            "driver": DRIVER,
            "deletionPolicy": "Delete",
        },
    ]
