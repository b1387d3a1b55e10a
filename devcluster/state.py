"""What others need to know of the cluster, as one JSON file."""

import json
from pathlib import Path
from typing import Any

from devcluster import layout as places
from devcluster.kube import Kube
from devcluster.layout import Layout, volumes
from devcluster.processes import Processes
from devcluster.programs import PROGRAMS, binary


def content(layout: Layout, images: dict[str, dict[str, str]], version: str) -> dict[str, Any]:
    return {
        "server": f"https://{places.HOST}:{places.API_PORT}",
        "kubeconfig": str(layout.admin),
        "authority": str(layout.pki / "ca.crt"),
        "version": version,
        "node": places.NODE,
        "host": places.HOST,
        "bridge": places.BRIDGE,
        "pod_cidr": places.POD_CIDR,
        "service_cidr": places.SERVICE_CIDR,
        "dns": places.DNS_SERVICE,
        "domain": places.DOMAIN,
        "registry": f"127.0.0.1:{places.REGISTRY_PORT}",
        "images": images,
        "schedulers": ["default-scheduler", "gpu-binpack"],
        "volumes": str(volumes()),
        "queue_label": "berth.dev/queue=kueue",
        "audit_log": str(layout.logs / "audit.log"),
        "logs": str(layout.logs),
        "containerd": str(layout.socket),
        "programs": {
            name: str(program.kept / name)
            for program in PROGRAMS.values()
            for name in program.names
            # The cluster's own also while they are still built: who reads this now asks later.
            if program.built() or not program.on_demand
        },
        "versions": {program.name: program.version for program in PROGRAMS.values()},
    }


def write(layout: Layout, images: dict[str, dict[str, str]], kube: Kube) -> None:
    version = str(kube.request("GET", "/version")["gitVersion"])
    fresh = layout.state.with_suffix(".new")
    fresh.write_text(json.dumps(content(layout, images, version), indent=1) + "\n")
    fresh.replace(layout.state)
    link_kubectl(layout)


def link_kubectl(layout: Layout) -> None:
    """``var/cluster/bin/kubectl``: a path that a person can remember."""
    folder = layout.base / "bin"
    folder.mkdir(exist_ok=True)
    for name in ("kubectl", "helm"):
        link, target = folder / name, binary(name)
        if target.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(target)


def read(layout: Layout) -> dict[str, Any] | None:
    """None when there is no cluster."""
    try:
        found: dict[str, Any] = json.loads(Path(layout.state).read_text())
    except (OSError, ValueError):
        return None
    return found


def running(layout: Layout) -> dict[str, bool]:
    processes = Processes(layout)
    return {name: record.alive() for name, record in processes.records.items()}
