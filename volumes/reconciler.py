"""Making a volume as large as was asked, as far as its storage does; it is in use meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from clusters.registry import driver_for
from common.clock import now
from projects.namespaces import tenant_ready
from runtime.capabilities.volumes import (
    CannotGrow,
    Growing,
    SupportsGrowth,
    SupportsMoves,
    SupportsSnapshots,
    SupportsVolumes,
)
from runtime.killpoints import killpoint
from runtime.models import Reconcilable
from runtime.protocol import Desired, NotYet, Phase
from runtime.reasons import Reason
from runtime.reconcilers import Outcome
from volumes import measuring, references
from volumes.backing import backing_of, owner_of
from volumes.models import NEARLY_FULL, Volume, VolumeSnapshot
from volumes.rules import NEARLY_FULL as NOTE
from volumes.services.edit import growth_refused
from volumes.services.removal import snapshots_remove_with

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from runtime.protocol import Driver, Observation


GROWING = "growing"
SLOWEST_S = 60.0
PART_OF_AGE = 0.1  # what takes longer is looked at more seldom


@dataclass(frozen=True)
class Growth:
    """What is to be said of it; nothing: it is as large as was asked."""

    reason: str = ""
    message: str = ""
    requeue_s: float | None = None
    updates: dict[str, Any] = field(default_factory=dict)


def ensure_size(driver: SupportsVolumes, row: Volume) -> Growth:
    """Make it exist with its size. One that the storage refuses for good is taken back."""
    project, owner = str(row.project.uid), owner_of(row)
    try:
        driver.ensure_volume(str(row.uid), project=project, owner=owner, backing=backing_of(row))
    except Growing as wait:
        since = row.growing_since or now()
        pause = min(PART_OF_AGE * (now() - since).total_seconds(), SLOWEST_S)
        pause = max(pause, wait.retry_in)
        return Growth(GROWING, str(wait), pause, {"growing_since": since})
    except CannotGrow as error:
        growth_refused(volume=row, why=str(error), size_mib=error.size_mib)
        return Growth(updates={"growing_since": None})
    return Growth(updates={"growing_since": None, "given_mib": row.size_limit_mib or 0})


# Keeps folders (or claims) and their copies in line with rows, through the driver.
#
# Each step does one thing and may be repeated: a worker that is killed between the act and the note
# of it is followed by one that acts again, with the same uid, and finds it done.


WAIT_S = 2.0
RELAX = 5  # percent below which a volume must fall before people are told again
KEPT = "kept-for-undo"


class VolumeReconciler:
    """Moves and restores that were asked for, then ``ensure``, measure now and then; removes."""

    kind = Volume.KIND
    model: type[Reconcilable] = Volume
    related = ("project", "owner", "restore_from")

    def step(self, row: Volume, observation: Observation | None) -> Outcome:  # noqa: ARG002
        driver = driver_for(row.cluster_key)
        if not isinstance(driver, SupportsVolumes):
            return Outcome(Phase.FAILED, "unsupported", _("This cluster has no volumes."))
        if row.desired == Desired.ABSENT:
            return self._leave(driver, row)
        if (lacks := tenant_ready(row.cluster_key, str(row.project.uid))) is not None:
            phase = Phase.RUNNING if row.phase == Phase.RUNNING else Phase.PENDING
            return Outcome(phase, Reason.PREPARING, lacks, requeue_s=WAIT_S)
        if row.is_moving:
            return self._move(driver, row)
        if row.is_restoring:
            return self._restore(driver, row)
        return self._keep(driver, row)

    def topics(self, row: Volume) -> list[str]:
        return [f"project:{row.project.uid}"]

    def holds_cluster(self, rows: QuerySet[Volume]) -> QuerySet[Volume]:
        """Files stay where they are when Berth lets go of a cluster: none of them is in the way."""
        return rows.none()

    def _keep(self, driver: SupportsVolumes, row: Volume) -> Outcome:
        growth = ensure_size(driver, row)
        killpoint("volume-ensured")
        found = measuring.look(driver, row)
        killpoint("volume-measured")
        measuring.note_day(row, found)
        updates: dict[str, Any] = {**growth.updates, **found.updates}
        updates["abilities"] = abilities_of(driver, row)
        timeline = self._watch_room(row, found.used, updates)
        soonest = [s for s in (growth.requeue_s, found.requeue_s) if s is not None]
        return Outcome(
            Phase.RUNNING,
            growth.reason,
            growth.message,
            requeue_s=min(soonest),
            updates=updates,
            timeline=timeline,
        )

    def _watch_room(
        self, row: Volume, used: int | None, updates: dict[str, Any]
    ) -> tuple[tuple[str, str], ...]:
        """Note once that it is nearly full; forget it when there is room again."""
        if used is None or not row.size_bytes:
            return ()
        percent = 100 * used / row.size_bytes
        if percent >= NEARLY_FULL and row.nearly_full_at is None:
            updates["nearly_full_at"] = now()
            return ((NOTE, f"{percent:.0f} %"),)
        if percent < NEARLY_FULL - RELAX and row.nearly_full_at is not None:
            updates["nearly_full_at"] = None
        return ()

    def _move(self, driver: Driver | SupportsVolumes, row: Volume) -> Outcome:
        """Files and claim follow the row into the project that took it over."""
        if not isinstance(driver, SupportsMoves):
            return Outcome(Phase.FAILED, "unsupported", _("This cluster can't move volumes."))
        if references.holders_of(row):
            return Outcome(Phase.PENDING, Reason.CONTENTS_LEFT, requeue_s=WAIT_S)
        measuring.let_go(driver, row)
        driver.move_volume(
            str(row.uid),
            project=str(row.project.uid),
            owner=owner_of(row),
            backing=backing_of(row),
        )
        killpoint("volume-moved")
        updates = {"move_done": row.move_serial, "measuring_since": None}
        return Outcome(Phase.PENDING, requeue_s=0.0, updates=updates)

    def _restore(self, driver: Driver | SupportsVolumes, row: Volume) -> Outcome:
        if row.restore_from is None or not isinstance(driver, SupportsSnapshots):
            return Outcome(
                Phase.PENDING, requeue_s=0.0, updates={"restore_done": row.restore_serial}
            )
        if references.holders_of(row):
            return Outcome(Phase.PENDING, Reason.CONTENTS_LEFT, requeue_s=WAIT_S)
        measuring.let_go(driver, row)
        driver.restore_snapshot(
            str(row.restore_from.uid), volume_uid=str(row.uid), backing=backing_of(row)
        )
        killpoint("volume-restored")
        updates = {
            "restore_done": row.restore_serial,
            "measuring_since": None,
            "measure_asked_at": now(),  # other contents
        }
        return Outcome(Phase.PENDING, requeue_s=0.0, updates=updates)

    def _leave(self, driver: SupportsVolumes, row: Volume) -> Outcome:
        """Wait for the end of the days of undo, for users and for copies; then remove it."""
        if row.delete_after is not None and row.delete_after > now():
            wait = (row.delete_after - now()).total_seconds()
            return Outcome(Phase.STOPPED, KEPT, requeue_s=max(wait, 0.0))
        if references.in_use(row):
            return Outcome(Phase.DELETING, Reason.CONTENTS_LEFT, requeue_s=WAIT_S)
        if snapshots_remove_with(row):
            return Outcome(Phase.DELETING, Reason.CONTENTS_LEFT, requeue_s=WAIT_S)
        measuring.let_go(driver, row)
        try:
            driver.remove_volume(str(row.uid))
        except NotYet as wait:
            return Outcome(Phase.DELETING, requeue_s=wait.retry_in)
        killpoint("volume-removed")
        return Outcome(Phase.DELETED, gone=True)


class SnapshotReconciler:
    """Makes a copy once, and removes it when asked. A copy that was made is never made again."""

    kind = VolumeSnapshot.KIND
    model: type[Reconcilable] = VolumeSnapshot
    related = ("volume", "volume__project", "volume__owner")

    def step(self, row: VolumeSnapshot, observation: Observation | None) -> Outcome:  # noqa: ARG002
        driver = driver_for(row.cluster_key)
        if not isinstance(driver, SupportsSnapshots):
            gone = row.desired == Desired.ABSENT
            phase = Phase.DELETED if gone else Phase.FAILED
            return Outcome(phase, "unsupported", _("This cluster has no snapshots."), gone=gone)
        uid, backing = str(row.uid), backing_of(row.volume)
        if row.desired == Desired.ABSENT:
            driver.remove_snapshot(uid, volume_uid=str(row.volume.uid), backing=backing)
            killpoint("snapshot-removed")
            return Outcome(Phase.DELETED, gone=True)
        if row.phase == Phase.RUNNING:
            return Outcome(Phase.RUNNING)
        if row.volume.phase != Phase.RUNNING or row.volume.desired == Desired.ABSENT:
            said = _("The volume is not ready.")
            leaving = row.volume.desired == Desired.ABSENT  # days of undo; coming back wakes it
            pause = measuring.LOOK_EVERY_S if leaving else WAIT_S
            return Outcome(Phase.PENDING, Reason.PREPARING, said, requeue_s=pause)
        size = driver.ensure_snapshot(uid, volume_uid=str(row.volume.uid), backing=backing)
        killpoint("snapshot-made")
        return Outcome(Phase.RUNNING, updates={"size_bytes": size or None})

    def topics(self, row: VolumeSnapshot) -> list[str]:
        return [f"volume:{row.volume.uid}", f"project:{row.volume.project.uid}"]

    def holds_cluster(self, rows: QuerySet[VolumeSnapshot]) -> QuerySet[VolumeSnapshot]:
        return rows.none()


def abilities_of(driver: object, row: Volume) -> dict[str, bool]:
    """Return what the driver can do with it; ``web`` has no driver to ask."""
    backing = backing_of(row)
    return {
        "grow": not isinstance(driver, SupportsGrowth) or driver.can_grow(backing),
        "snapshot": isinstance(driver, SupportsSnapshots) and driver.can_snapshot(backing),
        "move": isinstance(driver, SupportsMoves) and driver.can_move(backing),
    }
