"""Frees reservations when a workload is seen to be gone, and repairs what a listener missed."""

from uuid import UUID

from clusters.models import Claim
from quotas import services
from quotas.models import Reservation
from runtime.protocol import Phase
from runtime.reconcilers import Transition, tables


def release_when_gone(transition: Transition) -> None:
    """Runs in the engine's apply. A stopped or failed launch frees what *it* held.

    A failed row may still hold its place (parked while its process lives): then nothing is
    freed until it is seen to have ended.
    """
    row = transition.row
    if transition.gone:
        services.release(row.uid)
        return
    # not the row's launch: somebody may have started it again while this pass was under way
    launch = getattr(transition.seen or row, "launch", None)
    if launch is None or transition.after not in {Phase.STOPPED, Phase.FAILED}:
        return
    if transition.after == Phase.FAILED and is_still_held(row.uid):
        return
    services.release(row.uid, up_to_launch=launch)


def is_still_held(uid: UUID) -> bool:
    """Whether the machine's queue still keeps a granted place for the workload."""
    return Claim.objects.filter(workload_uid=uid, granted_at__isnull=False).exists()


def repair() -> int:
    """Release what is reserved for workloads that are gone, stopped or failed and not held.

    A safety net for periodic housekeeping; returns how many workloads were repaired.
    """
    uids = set(Reservation.objects.values_list("workload_uid", flat=True))
    if not uids:
        return 0
    live: set[UUID] = set()
    launches: dict[UUID, int] = {}
    for rows, _kind in tables():
        for row in rows.filter(uid__in=uids, deleted_at__isnull=True):
            launch = getattr(row, "launch", None)
            if launch is None or row.phase not in {Phase.STOPPED, Phase.FAILED}:
                live.add(row.uid)
            elif row.desired == "running" and row.observed_generation < row.generation:
                live.add(row.uid)  # asked to start again; the engine has not come to it yet
            else:
                launches[row.uid] = launch
    dead = [u for u in uids - live if not is_still_held(u)]
    return sum(1 for uid in dead if services.release(uid, up_to_launch=launches.get(uid)))
