"""From a file browser's row to its server, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.utils.translation import gettext as _

from files.models import FileSession
from files.runtime_spec import workload_spec
from runtime.models import Reconcilable
from runtime.protocol import Observation, Phase, WorkloadSpec
from runtime.reasons import Reason
from runtime.workload import WorkloadReconciler

if TYPE_CHECKING:
    from collections.abc import Mapping


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
