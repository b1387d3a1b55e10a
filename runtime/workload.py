"""The base of every kind of row that becomes a process or a pod.

A subclass says what to run (``spec_of``), what to revoke before a stop (``before_stop``) and
where people reach it (``route_of``). This class does the order of things: place in the queue,
volumes, ``ensure``, ready, route, running. How it ends is ``runtime.workload_ending``; a process
that ends by itself is not started again by itself.

Every step may be run again after a crash at any point.
"""

import contextlib
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from common.clock import now
from runtime import observe, routes
from runtime.capabilities.queues import SupportsStanding
from runtime.capabilities.tenants import SupportsTenants
from runtime.capabilities.volumes import SupportsVolumes
from runtime.capabilities.workloads import Held, SupportsNotice, SupportsSecretRefresh
from runtime.killpoints import killpoint
from runtime.ports import (
    WAITS,
    AdmissionRequest,
    Reclaim,
    Waiting,
    admission,
    cluster_provider,
    tenant_ready,
)
from runtime.protocol import (
    Denied,
    Desired,
    InvalidSpec,
    NotYet,
    Observation,
    Phase,
    Seen,
    Unreachable,
)
from runtime.reasons import Reason
from runtime.reconcilers import Outcome
from runtime.workload_ending import WorkloadEnding
from runtime.workload_state import RECLAIMED, ReconcileContext, status_of

ENDED = frozenset({Phase.STOPPED, Phase.FAILED})
_IN_LINE = frozenset({Phase.PENDING, Phase.STARTING, Phase.RUNNING})
WAIT_S = 60.0  # the net under what is waited for: its coming makes the row due at once


class WorkloadReconciler(WorkloadEnding):
    """See the module. Subclasses set ``kind`` and ``model``.

    Its rows have, besides the columns of ``Reconcilable``, ``launch`` (grows with each start that a
    user asks for), ``cluster_key``, ``project``, ``owner`` and ``resources``.
    """

    # --- the engine's side ------------------------------------------------------------------
    def phase_on_error(self, row: Any) -> Phase:
        if row.desired == Desired.ABSENT:
            return Phase.DELETING
        if row.desired == Desired.STOPPED and row.phase != Phase.STOPPED:
            return Phase.STOPPING
        is_new = not row.is_seen and row.external_ref.get("ended") != row.launch
        if row.desired == Desired.RUNNING and row.phase in ENDED and is_new:
            return Phase.PENDING  # what had ended is the launch before
        return Phase(row.phase)

    def step(self, row: Any, observation: Observation | None) -> Outcome:
        state = ReconcileContext(row, dict(row.external_ref))
        if row.desired == Desired.RUNNING:
            return self._run(state, observation)
        if row.desired == Desired.STOPPED:
            return self._halt(state, observation)
        return self._remove(state, observation)

    # --- wanted: running ----------------------------------------------------------------------
    def _run(self, state: ReconcileContext, given: Observation | None) -> Outcome:
        row = state.row
        if state.ended:
            # Stay as it ended. One that lives nevertheless (a late worker made it) is ended.
            again = None
            if (
                given is not None
                and given.launch == row.launch
                and given.seen not in {Seen.MISSING, Seen.EXITED}
                and self._stop_outside(state, "stop")
            ):
                again = 1.0
            return self._outcome(state, Phase(row.phase), row.reason, row.message, again)
        if state.ending is not None:
            return self._close(state)
        state.note("accepted")
        seen = given or self._first_look(state)
        if given is not None and state.ensured and seen.launch < row.launch:
            looked = self._look(row)  # the cache may be older than the launch
            gone = looked.seen == Seen.MISSING
            seen = replace(looked, ended_at=given.ended_at) if gone else looked
        if state.ref.get("devices") and state.ensured and (owed := self._owed(state, seen)):
            return self._give_back(state, owed)
        status = status_of(row.desired, seen, launch=row.launch, ensured=state.ensured)
        if status.reason == Reason.PREVIOUS_ENDING and (left := self._stop_outside(state, "stop")):
            # Its place is kept until it is gone: nobody else may get GPUs that it still uses.
            words = str(left) if isinstance(left, Held) else ""
            return self._outcome(state, Phase.STARTING, status.reason, words, left.retry_in)
        if status.reason in {Reason.ACCEPTED, Reason.PREVIOUS_ENDING}:
            return self._place(state)
        return self._follow(state, seen)

    def _first_look(self, state: ReconcileContext) -> Observation:
        """Ask the driver, unless nothing can have been made yet.

        Of a first launch a watch has seen nothing: should a worker that died have made it a moment
        ago, then it is made again, and that changes nothing.
        """
        row = state.row
        if row.launch == 1 and not state.ensured and observe.is_watched(row.cluster_key):
            return Observation(uid=str(row.uid), seen=Seen.MISSING)
        return self._look(row)

    def _place(self, state: ReconcileContext) -> Outcome:
        """Get a place, then make the driver make it."""
        row, begun = state.row, time.monotonic()
        if (lacks := self._lacks_a_place(row)) is not None:
            state.note("preparing")
            return self._outcome(state, Phase.PENDING, Reason.PREPARING, lacks, 2.0)
        if (first := self.waits_for(row)) is not None:
            state.note("waiting", first[1])
            return self._outcome(state, Phase.PENDING, first[0], first[1], WAIT_S)
        answer = admission().admit(self._request(row))
        killpoint("admitted")
        if isinstance(answer, Waiting):
            return self._wait(state, answer)
        state.ref.pop("queue", None)
        try:
            driver = cluster_provider().driver_for(row.cluster_key)
            spec = replace(self.spec_of(row), devices=answer.devices)
            if isinstance(driver, SupportsVolumes) and not spec.namespace:
                for mount in spec.mounts:  # on a cluster they are made with the workload
                    driver.ensure_volume(
                        mount.volume_uid,
                        project=spec.project,
                        owner=spec.owner if mount.role == "home" else mount.owner,
                        backing=mount.backing,
                    )
            killpoint("volumes-ensured")
            found = driver.ensure(spec)
            killpoint("ensured")
            state.ref.update(launch=row.launch, driver=dict(found), placed_at=time.time())
            state.ref["devices"] = list(answer.devices)
            state.ref["stands"] = getattr(row, "over_budget", "")
            state.ref["secrets"] = self.secrets_of(row)
            state.just_made = True
            for word in ("ended", "exit", "starting_at", "paused"):
                state.ref.pop(word, None)
            state.note("placed")
            seen = self._look(row)
        except InvalidSpec as error:
            return self._refused(state, error, begun)
        except Denied:
            admission().release(str(row.uid))
            raise
        except NotYet as error:
            return self._outcome(
                state, Phase.STARTING, Reason.PREVIOUS_ENDING, str(error), error.retry_in
            )
        return self._follow(state, seen)

    def _refused(self, state: ReconcileContext, error: InvalidSpec, begun: float) -> Outcome:
        """It can't run as it is, unless what was known of its cluster was of before a change."""
        if cluster_provider().was_old(state.row.cluster_key, begun):
            return self._outcome(state, Phase.PENDING, Reason.ACCEPTED, "", 0.0)
        return self._finish(state, Phase.FAILED, error.reason or Reason.INVALID_SPEC, str(error))

    def _owed(self, state: ReconcileContext, seen: Observation) -> Reclaim | None:
        """Return what is asked back of it; one that ended before it was told has ended."""
        owed = admission().reclaim_of(str(state.row.uid))
        told = (state.ref.get("reclaim") or {}).get("launch") == state.row.launch
        return owed if told or seen.seen not in {Seen.EXITED, Seen.MISSING} else None

    def _give_back(self, state: ReconcileContext, owed: Reclaim) -> Outcome:
        """It ends within its grace, and the same intent waits in line for another launch.

        That launch asks for a place anew, which is when its devices are free for whom they are
        owed to. Until then they are held: whoever dies in between, it is told again.
        """
        row = state.row
        if (state.ref.get("reclaim") or {}).get("launch") != row.launch:
            state.ref["reclaim"] = {"launch": row.launch, "for": owed.beneficiary}
        state.note(RECLAIMED, owed.beneficiary)
        grace_s = max(1.0, (owed.until - now()).total_seconds())
        notice = {"why": "reclaim", "until": owed.until.isoformat(), "for": owed.beneficiary}
        if left := (
            self._tell_first(state, owed, notice)
            or self._stop_outside(state, "stop", grace_s=grace_s, notice=notice)
        ):
            return self._lingers(state, Phase.STOPPING, Reason.PREEMPTED, left)
        killpoint("given-back")
        before = state.ref.get("given_back") or {"times": 0, "waited_s": 0.0}
        state.ref["given_back"] = {**before, "times": before["times"] + 1, "since": time.time()}
        return self.lost_place(state, Reason.PREEMPTED)

    def lost_place(self, state: ReconcileContext, reason: str) -> Outcome:
        """Nothing of this launch runs any more: the same intent goes on as another one."""
        row = state.row
        for word in ("devices", "driver", "queue", "line"):
            state.ref.pop(word, None)
        found = self._outcome(state, Phase.PENDING, reason, "", 0.0)
        fresh = {"launch": row.launch + 1, "started_at": None, "ready_at": None, "ends_at": None}
        if hasattr(row, "ticket_at"):
            fresh["ticket_at"] = None  # it had its devices for it
        return replace(found, updates={**found.updates, **fresh})

    def _tell_first(
        self, state: ReconcileContext, owed: Reclaim, notice: Mapping[str, str]
    ) -> NotYet | None:
        """Let who sits in front of it read why it ends before it does; None: it may end now.

        A second pass, by whichever worker, waits for the rest of the same time and no more than
        half of the grace: GPUs that are owed are not kept for somebody who is away.
        """
        row, told = state.row, state.ref["reclaim"]
        if "ends" not in told:
            half = (owed.until - now()).total_seconds() / 2
            told["ends"] = time.time() + max(0.0, min(self.notice_lead_s(row), half))
            driver = cluster_provider().driver_for(row.cluster_key)
            if isinstance(driver, SupportsNotice):
                driver.tell(str(row.uid), notice)
        left = float(told["ends"]) - time.time()
        return NotYet(retry_in=left) if left > 0 else None

    def _lacks_a_place(self, row: Any) -> str | None:
        """Return what the project still lacks on the row's cluster, None when nothing."""
        if not isinstance(cluster_provider().driver_for(row.cluster_key), SupportsTenants):
            return None
        return tenant_ready(row.cluster_key, str(row.project.uid))

    def _request(self, row: Any) -> AdmissionRequest:
        return AdmissionRequest(
            cluster_key=row.cluster_key,
            uid=str(row.uid),
            kind=self.kind,
            project_uid=str(row.project.uid),
            owner_uid=str(row.owner.uid),
            resources=row.resources,
            replicas=self.replicas_of(row),
            more=self.more_of(row),
            launch=row.launch,
            queue=getattr(row, "queue", ""),
            priority=getattr(row, "priority", ""),
            purpose=self.purpose,
            time_limit_minutes=getattr(row, "time_limit_minutes", None),
            over_budget=getattr(row, "over_budget", ""),
            since=getattr(row, "ticket_at", None),
        )

    def _wait(self, state: ReconcileContext, answer: Waiting) -> Outcome:
        state.note("queued", answer.message)
        state.ref["queue"] = {
            "position": answer.position,
            "ahead": answer.ahead,
            "lacking": list(answer.lacking),
            **({"turn": [at.timestamp() for at in answer.turn]} if answer.turn else {}),
        }
        # A release makes it due at once; this is only the net under it.
        return self._outcome(state, Phase.PENDING, answer.reason, answer.message, WAIT_S)

    def _follow(self, state: ReconcileContext, seen: Observation) -> Outcome:
        """The driver has it: say how far it is, open the way to it when it is ready."""
        row = state.row
        state.saw(seen)
        if not state.ensured and seen.launch == row.launch:
            state.ref.update(launch=row.launch, placed_at=time.time())  # crashed before apply
        status = status_of(row.desired, seen, launch=row.launch, ensured=True)
        state.note_progress(seen)
        state.note_pull(seen, self.image_bytes)
        state.note_line(seen)
        state.note_pod(seen)
        with contextlib.suppress(InvalidSpec):  # it could not start as it is now; what runs goes on
            self._refresh_secrets(state, status.phase)
            self._stand(state, status.phase)
        if status.phase == Phase.RUNNING:
            return self._open(state, seen)
        if status.phase in {Phase.FAILED, Phase.STOPPED}:
            code, reason, at = seen.exit_code, str(status.reason), seen.ended_at
            if at is None and (unseen := observe.unseen_since(state.row)):
                at = unseen.timestamp()
            state.ref["exit"] = {"code": code, "reason": reason, "at": at}
            return self._close(state, status, seen)
        if status.phase == Phase.STARTING:
            state.note("starting")
        if state.is_late(status, self.start_timeout_s):
            return self._give_up(state, status)
        again = 10.0 if observe.is_watched(row.cluster_key) else 0.5
        return self._outcome(state, status.phase, status.reason, status.message, again)

    def _refresh_secrets(self, state: ReconcileContext, phase: Phase) -> None:
        """Take away what a workload has no more; only while it lives."""
        row, held = state.row, state.ref.get("secrets")
        if phase not in {Phase.STARTING, Phase.RUNNING} or held is None or state.just_made:
            return
        if held == (wanted := self.secrets_of(row)):
            return
        driver = cluster_provider().driver_for(row.cluster_key)
        if isinstance(driver, SupportsSecretRefresh):
            driver.refresh_secrets(self.spec_of(row))
        state.ref["secrets"] = wanted

    def _stand(self, state: ReconcileContext, phase: Phase) -> None:
        """Let it stand in the cluster's line as its row says now. What runs does not wait."""
        row, stands = state.row, getattr(state.row, "over_budget", "")
        if stands == WAITS and phase != Phase.PENDING:
            stands = ""
        if stands == state.ref.get("stands", "") or state.just_made or phase not in _IN_LINE:
            return
        driver = cluster_provider().driver_for(row.cluster_key)
        if isinstance(driver, SupportsStanding):
            priority = self.spec_of(row).priority
            if not driver.stand(str(row.uid), priority=priority, waits=stands == WAITS):
                return
        state.ref["stands"] = stands

    def _open(self, state: ReconcileContext, seen: Observation) -> Outcome:
        row = state.row
        state.note("ready")
        try:
            routes.want(state, self.routes_of(row, seen))
        except Unreachable as error:
            return self._outcome(state, Phase.STARTING, Reason.PROXY_UNREACHABLE, str(error), 1.0)
        except routes.TakenError as taken:  # it may be given up
            return self._outcome(state, Phase.STARTING, Reason.ROUTING, str(taken), 10.0)
        if row.phase != Phase.RUNNING:
            self.on_ready(row, seen)
        if since := (state.ref.get("given_back") or {}).pop("since", None):
            state.ref["given_back"]["waited_s"] += max(0.0, time.time() - since)
        state.note("running")
        again = self.watched_poll_s if observe.is_watched(row.cluster_key) else self.poll_s
        return self._outcome(state, Phase.RUNNING, "", "", self._sooner(row, again), seen)

    def _sooner(self, row: Any, seconds: float) -> float:
        own = self.next_due_s(row)
        return seconds if own is None else max(0.0, min(own, seconds))
