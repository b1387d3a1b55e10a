"""How what is a process or a pod ends, whatever ends it, and how it is removed.

Tokens first, then the route (which cuts sockets), then the process; its place is given back when
the process is seen to be gone. Every step may be run again after a crash at any point.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.conf import settings

from common.clock import now
from runtime import routes
from runtime.capabilities.workloads import Held, SupportsNotice
from runtime.killpoints import killpoint
from runtime.models import ObservedWorkload
from runtime.ports import admission, cluster_provider
from runtime.protocol import NotYet, Observation, Phase, Seen
from runtime.reasons import Fault, Reason, info
from runtime.reconcilers import Outcome, WorkloadKind
from runtime.workload_state import ReconcileContext, Status

ENDING_S = 0.5  # between looks at what is told to end


class WorkloadEnding(WorkloadKind):
    """The half of ``runtime.workload.WorkloadReconciler`` that ends things."""

    def quarantine(self, row: Any) -> None:
        """The engine sets the row aside: nobody may reach or use what perhaps still runs.

        Its place stays taken until the process is seen to be gone (``runtime.orphans``).
        """
        self.before_stop(row)
        routes.drop_all(row, dict(row.external_ref))

    # --- it ended -----------------------------------------------------------------------------
    def _give_up(self, state: ReconcileContext, status: Status) -> Outcome:
        """Say what held it up, where that is known, rather than that it took long."""
        known = info(status.reason).fault == Fault.USER
        reason, message = (status.reason, status.message) if known else (Reason.START_TIMEOUT, "")
        return self._close(state, Status(Phase.FAILED, reason, message))

    def _close(
        self, state: ReconcileContext, status: Status | None = None, seen: Observation | None = None
    ) -> Outcome:
        """It is over: the driver lets go of it (a cluster would start it again), then we do.

        What it was stands in ``ref``, so that the reason survives until all is gone.
        """
        row = state.row
        status = status or state.ending or Status(Phase.FAILED, Reason.KILLED)
        state.end_with(status)
        try:
            cluster_provider().driver_for(row.cluster_key).stop(
                str(row.uid), grace_s=self.stop_grace_s
            )
        except NotYet as error:
            held = isinstance(error, Held)
            told = (Reason.HELD, str(error)) if held else (status.reason, status.message)
            return self._outcome(state, Phase.STOPPING, *told, error.retry_in, seen)
        if self.reads_replicas:
            state.saw(self._look(row))
        return self._finish(state, status.phase, status.reason, status.message, seen)

    def _finish(
        self,
        state: ReconcileContext,
        phase: Phase,
        reason: str,
        message: str,
        seen: Observation | None = None,
    ) -> Outcome:
        """Close behind a process that is gone."""
        row = state.row
        self.before_stop(row)
        killpoint("tokens-revoked")
        routes.drop_all(state.row, state.ref)
        killpoint("route-dropped")
        admission().release(str(row.uid))
        killpoint("released")
        state.ref["ended"] = row.launch
        for word in ("queue", "line", "ending"):
            state.ref.pop(word, None)
        state.note("failed" if phase == Phase.FAILED else "stopped", message)
        return self._outcome(state, phase, reason, message, None, seen)

    # --- wanted: stopped ------------------------------------------------------------------------
    def _halt(self, state: ReconcileContext, given: Observation | None) -> Outcome:
        row = state.row
        alive = None if given is None else given.seen not in {Seen.MISSING, Seen.EXITED}
        if row.phase == Phase.STOPPED and alive is False:
            return self._outcome(state, Phase.STOPPED, row.reason, row.message)
        if row.phase != Phase.STOPPED:
            state.note("stopping")
        if given is not None and given.ended_at and given.launch == row.launch:
            state.ref["exit"] = {"at": given.ended_at}
        reason = self.stop_reason(row)
        told: dict[str, Any] = {}
        if reason == Reason.PARKED and row.stop_requested_at is not None:
            until = row.stop_requested_at + timedelta(seconds=settings.BERTH_RECLAIM_GRACE_SECONDS)
            told["grace_s"] = max(1.0, (until - now()).total_seconds())
            told["notice"] = {"why": "parked", "until": until.isoformat()}
        if left := self._stop_outside(state, "stop", **told):
            return self._lingers(state, Phase.STOPPING, reason, left)
        admission().release(str(row.uid))
        killpoint("released")
        state.ref["ended"] = row.launch
        for word in ("queue", "line"):
            state.ref.pop(word, None)
        state.note("stopped")
        return self._outcome(state, Phase.STOPPED, reason, "")

    def _lingers(self, state: ReconcileContext, phase: Phase, reason: str, left: NotYet) -> Outcome:
        """It is told to end and not gone; one that should be gone says what keeps it (C14)."""
        told = (Reason.HELD, str(left)) if isinstance(left, Held) else (reason, "")
        return self._outcome(state, phase, *told, left.retry_in)

    def _stop_outside(
        self,
        state: ReconcileContext,
        verb: str,
        *,
        grace_s: float | None = None,
        notice: Mapping[str, str] | None = None,
    ) -> NotYet | None:
        """Tokens, then route, then process. None when the process is seen to be gone.

        ``notice``: what it can read of why it ends, where the driver has a way to tell it.
        """
        row = state.row
        uid = str(row.uid)
        self.before_stop(row)
        killpoint("tokens-revoked")
        routes.drop_all(state.row, state.ref)
        killpoint("route-dropped")
        driver = cluster_provider().driver_for(row.cluster_key)
        try:
            if verb == "remove":
                driver.remove(uid)
            else:
                if notice is not None and isinstance(driver, SupportsNotice):
                    driver.tell(uid, notice)
                driver.stop(uid, grace_s=self.stop_grace_s if grace_s is None else grace_s)
        except Held as error:
            return error
        except NotYet:
            return NotYet(retry_in=ENDING_S)
        killpoint("stop-asked")
        gone = state.saw(self._look(row)).seen in {Seen.MISSING, Seen.EXITED}
        return None if gone else NotYet(retry_in=ENDING_S)

    # --- wanted: absent -------------------------------------------------------------------------
    def _remove(self, state: ReconcileContext, given: Observation | None) -> Outcome:
        del given
        row = state.row
        state.note("deleting")
        if left := self._stop_outside(state, "remove"):
            return self._lingers(state, Phase.DELETING, "", left)
        killpoint("removed")
        admission().release(str(row.uid))
        killpoint("released")
        self.after_remove(row)
        ObservedWorkload.objects.filter(uid=row.uid).delete()
        outcome = self._outcome(state, Phase.DELETED, "", "")
        return replace(outcome, gone=True)

    # --- what both halves need ------------------------------------------------------------------
    def _look(self, row: Any) -> Observation:
        uid = str(row.uid)
        return cluster_provider().driver_for(row.cluster_key).observe([uid])[uid]

    def _outcome(
        self,
        state: ReconcileContext,
        phase: Phase,
        reason: str,
        message: str,
        requeue_s: float | None = None,
        seen: Observation | None = None,
    ) -> Outcome:
        updates = {} if seen is None else dict(self.updates(state.row, seen, phase))
        told = state.seen if self.reads_replicas else None
        return Outcome(
            phase,
            str(reason),
            message,
            external_ref=state.ref,
            requeue_s=requeue_s,
            updates=updates,
            timeline=tuple(state.timeline),
            beside=None if told is None else self.beside(state.row, told),
        )
