"""Keeps folders (or claims) in line with volume rows, through the driver's capability."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusters.registry import driver_for
from common.clock import now
from runtime.models import Reconcilable
from runtime.protocol import Desired, NotYet, Phase, SupportsVolumes
from runtime.reasons import Reason
from runtime.reconcilers import Outcome
from volumes import holders
from volumes.models import Volume

if TYPE_CHECKING:
    from runtime.protocol import Observation

MEASURE_EVERY_S = 600.0
WAIT_S = 2.0


class VolumeReconciler:
    """``ensure`` until it is there, measure now and then, remove when asked."""

    kind = Volume.KIND
    model: type[Reconcilable] = Volume

    def step(self, row: Volume, observation: Observation | None) -> Outcome:  # noqa: ARG002
        driver = driver_for(row.cluster_key)
        if not isinstance(driver, SupportsVolumes):
            return Outcome(Phase.FAILED, reason="unsupported", message="No volumes on this cluster")
        uid = str(row.uid)
        if row.desired == Desired.ABSENT:
            return self._remove(driver, row)
        driver.ensure_volume(uid, project=str(row.project.uid), owner=_owner(row))
        used = driver.volume_usage(uid)
        return Outcome(
            Phase.RUNNING,
            requeue_s=MEASURE_EVERY_S,
            updates={"used_bytes": used, "used_at": now() if used is not None else row.used_at},
        )

    def _remove(self, driver: SupportsVolumes, row: Volume) -> Outcome:
        if holders.in_use(row):
            return Outcome(Phase.DELETING, reason=Reason.CONTENTS_LEFT, requeue_s=WAIT_S)
        try:
            driver.remove_volume(str(row.uid))
        except NotYet as wait:
            return Outcome(Phase.DELETING, requeue_s=wait.retry_in)
        return Outcome(Phase.DELETED, gone=True)


def _owner(row: Volume) -> str:
    return str(row.owner.uid) if row.owner else ""
