"""What is run for a file browser, and how its row becomes that and back.

It is the server of ``dataplane.files`` with one volume.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from django.utils.translation import gettext as _

from clusters.where import image_cluster
from files.models import FileSession
from hubapi import services as hub
from queues.choices import Purpose
from runtime.models import Reconcilable
from runtime.pods import PORT
from runtime.protocol import Observation, Phase
from runtime.reasons import Reason
from runtime.spec import Probe, Resources, WorkloadSpec
from runtime.workload import WorkloadReconciler
from volumes.backing import mount_of
from work.data_programs import data_program_spec

if TYPE_CHECKING:
    from collections.abc import Mapping

PURPOSE = "files"
SIZE = Resources(cpu_milli=500, memory_mib=256, pids=128)
EVERYWHERE, HERE = "0.0.0.0", "127.0.0.1"  # noqa: S104 - inside a pod, behind its NetworkPolicy


def workload_spec(row: FileSession) -> WorkloadSpec:
    mount = mount_of(row.volume, read_only=row.read_only)
    bind = HERE if image_cluster(row.cluster_key) is None else EVERYWHERE
    words = ("python3", "-m", "dataplane.files", "--root", mount.name, "--bind", bind)
    return data_program_spec(
        row,
        owner=row.person,
        name=name_of(row),
        purpose=Purpose.BUILD,  # somebody sits in front of it
        lacking=_("The cluster has no image for files: its operator names one."),
        command=(*words, "--port", "{port}", *(("--read-only",) if row.read_only else ())),
        secret_env=lambda: {"BERTH_FILES_TOKEN": token_of(row)},
        resources=SIZE,
        mounts=(mount,),
        probe=Probe(path="/livez"),
        on_cluster={"port": PORT},
    )


def token_of(row: FileSession) -> str:
    """Return what the gate says to this session's server; a rotated key does not change it."""
    return hub.derive_matching(PURPOSE, row.uid, row.launch, row.token_digest)


def new_digest(uid: UUID) -> str:
    return hub.digest(hub.derive(PURPOSE, uid, FileSession.launch))


def name_of(row: FileSession) -> str:
    return f"files-{row.short_id}"


class FileSessionReconciler(WorkloadReconciler):
    """Nobody is routed to it: the gate alone speaks to its address."""

    kind = FileSession.KIND
    model: type[Reconcilable] = FileSession
    related: ClassVar[tuple[str, ...]] = ("project", "person", "volume", "volume__owner")
    start_timeout_s: ClassVar[float] = 180.0
    stop_grace_s: ClassVar[float] = 5.0

    def spec_of(self, row: FileSession) -> WorkloadSpec:
        return workload_spec(row)

    def waits_for(self, row: FileSession) -> tuple[str, str] | None:
        if row.volume.phase != Phase.RUNNING and not row.volume.is_being_deleted:
            return Reason.VOLUME, _("Its volume is being made.")
        return None

    def updates(
        self, row: FileSession, observation: Observation, phase: Phase
    ) -> Mapping[str, Any]:
        address = observation.address if phase == Phase.RUNNING else ""
        return {} if row.address == address else {"address": address}

    def topics(self, row: FileSession) -> list[str]:
        return [f"user:{row.person.uid}"]
