"""From a job's row to what runs it, and back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from django.conf import settings

from common.clock import now
from hubapi import services as hub
from jobs import checkpoints, fetching, losses, replicas, smoke
from jobs.choices import AfterLoss
from jobs.kind import JOB
from jobs.models import Job
from jobs.runtime_spec import STOP_GRACE_S, workload_spec
from jobs.states import ENDED
from runtime.killpoints import killpoint
from runtime.models import Reconcilable
from runtime.protocol import Desired, Observation, Phase, Seen
from runtime.reasons import Reason
from runtime.spec import Resources, WorkloadSpec
from runtime.workload import WorkloadReconciler
from runtime.workload_state import RESTARTED, ReconcileContext, Status, status_of
from work import environments, needs
from work.choices import StopReason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from django.db.models import QuerySet

    from runtime.ports import Waiting
    from runtime.reconcilers import Outcome

_OVER = (Seen.EXITED, Seen.MISSING)


class JobReconciler(WorkloadReconciler):
    """What is particular to jobs; the order of things is in the base class."""

    kind = Job.KIND
    model: type[Reconcilable] = Job
    related: ClassVar[tuple[str, ...]] = ("project", "owner", "home__owner")
    keeps_what_it_read: ClassVar[bool] = True
    reads_replicas: ClassVar[bool] = True
    stop_grace_s: ClassVar[float] = STOP_GRACE_S

    def step(self, row: Job, observation: Observation | None) -> Outcome:
        """Nobody asks for the end at a time limit: intent stays, so it has failed by it."""
        if self._is_over_time(row):
            seen = observation or self._look(row)
            if seen.seen not in _OVER:
                state = ReconcileContext(row, dict(row.external_ref))
                state.saw(seen)
                return self._close(state, Status(Phase.FAILED, Reason.TIME_LIMIT))
        outcome = super().step(row, observation)
        if outcome.reason == Reason.FETCHING_CODE:
            return replace(outcome, requeue_s=fetching.LOOK_S)
        if outcome.reason in {Reason.ENVIRONMENT, Reason.ENVIRONMENT_MISSING}:
            return replace(outcome, requeue_s=environments.LOOK_S)
        return self._looked_at_in_time(row, outcome)

    def _is_over_time(self, row: Job) -> bool:
        state = ReconcileContext(row, row.external_ref)
        runs = row.desired == Desired.RUNNING and state.ensured and not state.ended
        return runs and state.ending is None and row.ends_at is not None and row.ends_at <= now()

    def _looked_at_in_time(self, row: Job, outcome: Outcome) -> Outcome:
        """Come back when its time is over, also where that became known in this very pass."""
        ends_at = outcome.updates.get("ends_at", row.ends_at)
        if ends_at is None or outcome.requeue_s is None or row.desired != Desired.RUNNING:
            return outcome
        left = max(0.0, (ends_at - now()).total_seconds())
        return replace(outcome, requeue_s=min(outcome.requeue_s, left))

    def _run(self, state: ReconcileContext, given: Observation | None) -> Outcome:
        noted = state.ref.get("lost") or {}
        if noted.get("launch") == state.row.launch and not state.ended:
            return self._leave(state, noted["reason"])
        return super()._run(state, given)

    def _leave(self, state: ReconcileContext, reason: str) -> Outcome:
        """What is left of a launch that lost its place ends; then it goes on, or stays stopped."""
        row, noted = state.row, state.ref.get("lost") or {}
        if noted.get("launch") != row.launch:
            times = losses.times(row, state.ref) + 1
            state.ref["lost"] = {"launch": row.launch, "reason": reason, "times": times}
            state.ref["lost"]["asked_at"] = str(row.asked_at)
        # whoever took its place gave it so long, too
        grace_s = max(self.stop_grace_s, settings.BERTH_RECLAIM_GRACE_SECONDS)
        if left := self._stop_outside(state, "stop", grace_s=grace_s):
            return self._lingers(state, Phase.STOPPING, reason, left)
        killpoint("place-lost")
        if row.after_loss != AfterLoss.WAIT:
            state.note(RESTARTED, reason)
        return self.lost_place(state, reason)

    def lost_place(self, state: ReconcileContext, reason: str) -> Outcome:
        if state.row.after_loss == AfterLoss.WAIT:
            (state.ref.get("given_back") or {}).pop("since", None)  # it waits for a person only
            return self._finish(state, Phase.FAILED, Reason.PLACE_LOST, "")
        outcome = super().lost_place(state, reason)
        return replace(outcome, updates={**outcome.updates, "replicas_now": None})

    def _follow(self, state: ReconcileContext, seen: Observation) -> Outcome:
        """Tell once of each attempt that ended badly, whether another pod of it was seen or not."""
        row, again = state.row, (RESTARTED, str(Reason.TRIED_AGAIN))
        status = status_of(row.desired, seen, launch=row.launch, ensured=True)
        if not state.just_made and (reason := losses.lost(row, seen, status, state.ref)):
            state.saw(seen)
            state.ref["exit"] = {"at": seen.ended_at}
            return self._leave(state, reason)
        kept = state.ref.get("failed_attempts") or {}
        known = kept["number"] if kept.get("launch") == row.launch else 0
        # a driver that doesn't count them says it of the latest
        found = known + int(seen.reason == Reason.TRIED_AGAIN != row.reason)
        if seen.launch == row.launch:
            found = int(str(seen.detail.get("failed_attempts", found)))
            state.ref["failed_attempts"] = {"launch": row.launch, "number": max(known, found)}
        outcome = super()._follow(state, seen)
        others = (step for step in outcome.timeline if step != again)
        return replace(outcome, timeline=(*others, *(again,) * max(0, found - known)))

    def spec_of(self, row: Job) -> WorkloadSpec:
        return workload_spec(row)

    def replicas_of(self, row: Job) -> int:
        return row.launched_replicas

    def more_of(self, row: Job) -> Resources | None:
        return JOB.more_of(row)

    def waits_for(self, row: Job) -> tuple[str, str] | None:
        lacking = needs.missing(row) or fetching.waits(row) or checkpoints.waits(row)
        lacking = lacking or environments.waits(row)
        if lacking is None and row.smoke and smoke.verdict(row) is None:
            return Reason.SMOKE_RUN, ""
        return lacking

    def _place(self, state: ReconcileContext) -> Outcome:
        """What its smoke run failed at never asks for a place, nor what has no code."""
        row: Any = state.row
        if fetching.problem_of(row):
            return self._finish(state, Phase.FAILED, Reason.CODE_NOT_FETCHED, "")
        if row.after_loss == AfterLoss.FEWER and self._is_counted_anew(state):
            state.ref["fits"] = row.launch
            found = self._outcome(state, Phase.PENDING, row.reason, "", 0.0)
            return replace(found, updates={"replicas_now": losses.fitting(row)})
        if row.smoke and smoke.verdict(row) is False:
            return self._finish(state, Phase.FAILED, Reason.SMOKE_FAILED, "")
        return super()._place(state)

    def _wait(self, state: ReconcileContext, answer: Waiting) -> Outcome:
        """What goes on with fewer is counted again, and never up, where others came before it."""
        row: Any = state.row
        if row.after_loss == AfterLoss.FEWER and state.ref.get("fits") == row.launch:
            fewer = losses.fitting(row) or row.replicas
            if fewer < row.launched_replicas:
                found = self._outcome(state, Phase.PENDING, answer.reason, answer.message, 0.0)
                return replace(found, updates={"replicas_now": fewer})
        return super()._wait(state, answer)

    def _is_counted_anew(self, state: ReconcileContext) -> bool:
        """Whether it goes on after a loss, and is about to ask for its place the first time."""
        row: Any = state.row
        if state.ref.get("fits") == row.launch or self.waits_for(row) is not None:
            return False
        return losses.goes_on(row)

    def secrets_of(self, row: Job) -> str:
        return ",".join(str(pk) for pk, _uid in row.keys_read)

    def after_remove(self, row: Job) -> None:
        hub.forget_workload(row.uid)  # signs of use, too

    def stop_reason(self, row: Job) -> str:
        return str(StopReason(row.stop_reason or StopReason.CANCELLED).seen)

    def holds_cluster(self, rows: QuerySet[Job]) -> QuerySet[Job]:
        """What is over keeps no cluster."""
        return rows.exclude(phase__in=ENDED)

    def updates(self, row: Job, observation: Observation, phase: Phase) -> Mapping[str, Any]:
        """Note when it began, when its time is over, and how it ended.

        Its time begins with its first attempt. Derived afresh each time, so a limit that was
        changed during a step is put right by the next one.
        """
        if observation.launch != row.launch:
            return {}
        began = row.started_at or replicas.moment(observation.started_at)
        minutes, ends_at = row.time_limit_minutes, None
        if began is not None and minutes is not None and phase not in ENDED:
            ends_at = began + timedelta(minutes=minutes + row.extended_minutes)
        has_ended = observation.seen is Seen.EXITED
        found = {
            "started_at": began,
            "ready_at": row.ready_at or replicas.moment(observation.ready_at),
            "ends_at": ends_at,
            "exit_code": replicas.shell_code(observation.exit_code) if has_ended else None,
            "failed_replica": replicas.first_failed(observation) if has_ended else None,
        }
        return {name: value for name, value in found.items() if getattr(row, name) != value}

    def beside(self, row: Job, observation: Observation) -> Callable[[], None] | None:
        found = replicas.news(row, observation)
        return partial(replicas.keep, found) if found else None

    def topics(self, row: Job) -> list[str]:
        return [*super().topics(row), "operators"]
