"""What is run for a load: the copying program with its plan, beside the data.

The plan holds the opened credential. It is made only when a driver really writes it, in the
worker, and lies only where the workload itself can read.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings

from clusters.options import ClusterOptions, options_of
from clusters.selectors import node_ranges
from clusters.where import image_cluster
from credentials.decrypt import store_of
from hubapi import services
from loaders import selection
from loaders.choices import Direction, Mode, Task, Uploads
from loaders.reports import PURPOSE
from queues.choices import Purpose
from runtime.protocol import InvalidSpec
from runtime.spec import Resources, RetryPolicy, WorkloadSpec
from volumes.backing import mount_of
from volumes.selectors import room_left
from work.data_programs import data_program_spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from loaders.models import Load

PLAN, AUTHORITIES = "plan.json", "ca.pem"
REPORT_EVERY_S = 1.0
# The copying program's own codes for "some objects failed" and "it can't work" (dataplane.copy):
# another attempt would end the same. Told to stop (5) is none of them: who puts it out does not
# always say so. On one machine nothing is put out, and what failed is for its owner to try again.
RETRY = RetryPolicy(attempts=3, never=(3, 4))
_MODES = {Task.DRY_RUN: "dry-run", Task.VERIFY: "verify", Task.CLEAR: "clear"}
# Of what is copied for other work: the object that says that all is there; files that are named.
MARKER = "_BERTH_COMPLETE"
TELLS = 1000


def workload_spec(row: Load) -> WorkloadSpec:
    """Return the process, or the Job, of this launch."""
    cluster = image_cluster(row.cluster_key)
    options = None if cluster is None else options_of(cluster.options)
    return data_program_spec(
        row,
        owner=row.owner,
        name=name_of(row),
        purpose=Purpose.TRAIN,
        priority=row.priority,
        lacking="The cluster has no image for loads: its operator names one.",
        # -I: nothing in a folder of people is ever imported
        command=("python3", "-I", "-m", "dataplane.copy", f"{{secrets}}/{PLAN}"),
        secret_env=lambda: {"BERTH_REPORT_TOKEN": report_token(row.uid, row.launch)},
        secret_files=lambda: _files(row, options),
        resources=Resources(row.cpu_milli, row.memory_mib),
        mounts=(mount_of(row.volume, role="data"),),
        once=True,
        stop_grace_s=20.0,
        on_cluster={"retry": RETRY},
    )


def name_of(row: Load) -> str:
    """Return the short word in names of processes and objects: nothing that a person wrote."""
    return f"load-{str(row.uid)[:8]}"


def report_token(uid: UUID, launch: int) -> str:
    """Return the token of one launch's reports: derived, so a repeated step gives the same."""
    return services.derive(PURPOSE, uid, launch)


def _files(row: Load, options: ClusterOptions | None) -> Mapping[str, str]:
    files = {PLAN: json.dumps(plan_of(row, options), ensure_ascii=False)}
    if settings.BERTH_OUTBOUND_CA_FILE:
        files[AUTHORITIES] = Path(settings.BERTH_OUTBOUND_CA_FILE).read_text()
    return files


def plan_of(row: Load, options: ClusterOptions | None) -> dict[str, Any]:
    """Return plan.json of this launch, with the opened credential in it."""
    mount = mount_of(row.volume, role="data")
    return {
        "version": 2 if row.newest else 1,  # an image of before knows no checkpoints
        "uid": str(row.uid),
        "launch": row.launch,
        "direction": row.direction,
        "mode": _mode(row),
        "store": {**_store(row), "bucket": row.bucket, **selection.store_part(row)},
        "volume": {"name": mount.name, "folder": row.folder},
        **selection.patterns(row),
        "delete_extra": bool(row.delete_extra and row.mode == Mode.SYNC),
        "bandwidth_bytes_s": row.bandwidth_bytes_s,
        "concurrency": 0,
        "retry_failed_only": row.task == Task.RETRY,
        "space_bytes": room_left(row.volume) if row.direction == Direction.IN else None,
        "outbound": _outbound(options, row.cluster_key),
        **_of_other_work(row),
        "report": {"url": report_url(row.uid, options), "every_s": REPORT_EVERY_S},
    }


def _of_other_work(row: Load) -> dict[str, Any]:
    if row.newest:
        return {"newest": row.newest, "newest_at": row.newest_at}
    leaves = row.made_for is not None and row.is_export  # what came in needs no mark
    return {"marker": MARKER, "tells": TELLS} if leaves else {}


def _mode(row: Load) -> str:
    if row.uploads == Uploads.CLOSING:
        return "abandon"
    return str(_MODES.get(Task(row.task), row.mode))


def _store(row: Load) -> dict[str, Any]:
    if row.credential is not None:
        return dict(store_of(row.credential))
    if not row.anonymous and row.task != Task.CLEAR:  # a removed credential never becomes "nobody"
        raise InvalidSpec("Its credential was removed.", reason="credential-gone")
    return {
        "kind": row.store_kind,
        "endpoint": row.endpoint,
        "region": row.region,
        "path_style": row.path_style,
        "anonymous": True,
        "access_key": "",
        "secret_key": "",
        "session_token": "",
        "service_account": None,
    }


def _outbound(options: ClusterOptions | None, cluster_key: str) -> dict[str, Any]:
    """Return what the operator opened; nothing that a person wrote is in it."""
    allowed = [*settings.BERTH_OUTBOUND_ALLOW, *(options.allowed_cidrs if options else ())]
    return {
        "allow": list(dict.fromkeys(allowed)),
        "ports": [int(port) for port in settings.BERTH_OUTBOUND_PORTS if port.isdigit()],
        "ca_file": AUTHORITIES if settings.BERTH_OUTBOUND_CA_FILE else "",
        "insecure_hosts": list(settings.BERTH_INSECURE_STORES),
        "gcs_endpoint": settings.BERTH_GCS_ENDPOINT,
        "gcs_token_uri": settings.BERTH_GCS_TOKEN_URI,
        "fence": _fence(options, cluster_key) if options else None,
    }


def _fence(options: ClusterOptions, cluster_key: str) -> dict[str, Any]:
    """Return what the project's network policies let out, so that the program can say so."""
    return {
        "internet": options.internet,
        "opened": list(options.allowed_cidrs),
        "blocked": list(options.blocked_cidrs),
        "closed": [*options.pod_cidrs, *node_ranges(cluster_key)],
    }


def report_url(uid: UUID, options: ClusterOptions | None) -> str:
    """Return where it reports: on the listener that is for workloads."""
    base = (options.hub_url if options else "") or settings.BERTH_INTERNAL_URL
    return f"{base.rstrip('/')}/hub/api/berth/loads/{uid}/report"
