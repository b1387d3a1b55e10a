"""What is run for a file browser: the server of ``dataplane.files`` with one volume."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _

from clusters.options import options_of
from clusters.where import image_cluster, namespace_of
from files.models import FileSession
from hubapi import keys
from runtime.pods import PORT
from runtime.protocol import InvalidSpec, Probe, Resources, WorkloadSpec
from volumes.backing import mount_of
from volumes.topology import placement_beside

PURPOSE = "files"
ENVIRONMENT = "dataplane"
SIZE = Resources(cpu_milli=500, memory_mib=256, pids=128)
EVERYWHERE, HERE = "0.0.0.0", "127.0.0.1"  # noqa: S104 - inside a pod, behind its NetworkPolicy


def workload_spec(row: FileSession) -> WorkloadSpec:
    mount = mount_of(row.volume, read_only=row.read_only)
    cluster = image_cluster(row.cluster_key)
    common: dict[str, Any] = {
        "uid": str(row.uid),
        "kind": row.KIND,
        "name": name_of(row),
        "launch": row.launch,
        "generation": row.generation,
        "project": str(row.project.uid),
        "owner": str(row.person.uid),
        "environment": ENVIRONMENT,
        "command": _command(mount.name, HERE if cluster is None else EVERYWHERE, row),
        "secret_env": lambda: {"BERTH_FILES_TOKEN": token_of(row)},
        "resources": SIZE,
        "mounts": (mount,),
        "probe": Probe(path="/livez"),
        "labels": {"project": row.project.slug, "owner": row.person.username},
    }
    if cluster is None:
        return WorkloadSpec(**common)
    options = options_of(cluster.options)
    if not options.data_image:
        raise InvalidSpec(_("The cluster has no image for files: its operator names one."))
    return WorkloadSpec(
        **common,
        namespace=namespace_of(row.project, cluster),
        image=options.data_image,
        port=PORT,
        placement=placement_beside(row.cluster_key, row.volume, row.KIND, row.project),
    )


def _command(root: str, bind: str, row: FileSession) -> tuple[str, ...]:
    words = ("python3", "-m", "dataplane.files", "--root", root, "--bind", bind)
    return (*words, "--port", "{port}", *(("--read-only",) if row.read_only else ()))


def token_of(row: FileSession) -> str:
    """Return what the gate says to this session's server; a rotated key does not change it."""
    return keys.derive_matching(PURPOSE, row.uid, row.launch, row.token_digest)


def new_digest(uid: UUID) -> str:
    return keys.digest(keys.derive(PURPOSE, uid, FileSession.launch))


def name_of(row: FileSession) -> str:
    return f"files-{row.short_id}"
