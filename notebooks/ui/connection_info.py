"""How a workspace on a cluster is reached besides the browser, and what it is there."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusters.installed import kubectl_reaches
from clusters.options import options_of
from hubapi.registry import workload_url
from hubapi.services import port_short_id
from notebooks.ssh import ssh_of
from notebooks.where import cluster_of, image_of, node_of, objects_of
from projects.services.kube import no_address
from runtime.models import ONE_MACHINE
from runtime.pods import PORT, VOLUMES
from work.attached import volumes_seen_by

if TYPE_CHECKING:
    from notebooks.models import Workspace
    from volumes.models import Volume


@dataclass(frozen=True)
class OpenPort:
    name: str
    port: int
    url: str  # "" for one that no browser opens, or that may not be opened now


@dataclass(frozen=True)
class OnCluster:
    """What the page says of a workspace that is a pod."""

    cluster: str
    node: str
    image: str
    pinned: str
    command: str  # "" for others than its owner
    ports: list[OpenPort]
    ssh: str
    exec_line: str  # "" where kubectl is of no use: a kubeconfig is its owner's, if there is one
    forward_line: str
    no_kubectl: str  # to its owner: why no kubeconfig leads there


def ports_of(row: Workspace, *, may_open: bool) -> list[OpenPort]:
    return [
        OpenPort(
            port["name"],
            port["port"],
            workload_url(port_short_id(row.short_id, port["port"]))
            if port["web"] and may_open
            else "",
        )
        for port in row.ports
    ]


def on_cluster(row: Workspace, *, is_owner: bool, may_open: bool) -> OnCluster | None:
    cluster = None if row.cluster_key == ONE_MACHINE else cluster_of(row)
    if cluster is None:
        return None
    options = options_of(cluster.options)
    found = objects_of(row, cluster)
    kubectl = f"kubectl -n {found['namespace']}" if is_owner and kubectl_reaches(cluster) else ""
    port = row.ports[0]["port"] if row.ports else PORT
    return OnCluster(
        cluster=cluster.label,
        node=node_of(row) or "",
        image=(row.image or options.default_image).partition("@")[0],
        pinned=image_of(row, options),
        command=shlex.join([*row.command, *row.args]) if is_owner else "",
        ports=ports_of(row, may_open=may_open),
        ssh=ssh.command if (ssh := ssh_of(row)) else "",
        exec_line=f"{kubectl} exec -it {found['pod']} -- sh" if kubectl else "",
        forward_line=f"{kubectl} port-forward {found['pod']} {port}" if kubectl else "",
        no_kubectl=no_address(cluster.label) if is_owner and not kubectl else "",
    )


@dataclass(frozen=True)
class SeenAt:
    """A volume with the folder where somebody in the workspace finds it."""

    volume: Volume
    path: str
    read_only: bool


def seen_at(row: Workspace) -> list[SeenAt]:
    """Return the volumes besides the home. What shell a container has is not ours: no link there.

    In one query; the home is said by itself.
    """
    folder = VOLUMES if row.is_container else "~/volumes"
    return [
        SeenAt(seen.volume, f"{folder}/{seen.volume.mount_name}", seen.read_only)
        for seen in volumes_seen_by(row)
    ]
