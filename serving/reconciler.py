"""From an endpoint's row to what runs it, and back."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from jobs.replicas import moment
from runtime.capabilities.workloads import SupportsServing
from runtime.models import ONE_MACHINE
from runtime.ports import cluster_provider
from runtime.protocol import InvalidSpec, NotYet, Phase, Seen
from runtime.reasons import Reason
from runtime.workload import WorkloadReconciler
from serving import environments
from serving.kind import ENDPOINT
from serving.models import Endpoint
from serving.runtime_spec import STOP_GRACE_S, workload_spec
from serving.runtimes import runtime_of
from serving.selectors import lacks_files, missing
from serving.services.version_files import look_again
from work import needs
from work.choices import StopReason
from work.environments import LOOK_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.models import Reconcilable
    from runtime.protocol import Observation
    from runtime.reconcilers import Outcome
    from runtime.spec import WorkloadSpec
    from runtime.workload_state import ReconcileContext

SOON_S = 1.0  # until it is looked at after its number changed, also where nothing watches
AGAIN_S = 10.0  # between two tries to have a replica that ended by itself begin anew
LOOK_AGAIN_S = 300.0  # between two looks at files, while a replica ends by itself
_THERE = (Seen.STARTING, Seen.READY)


class EndpointReconciler(WorkloadReconciler):
    """What is particular to endpoints; the order of things is in the base class."""

    kind = Endpoint.KIND
    model: type[Reconcilable] = Endpoint
    related: ClassVar[tuple[str, ...]] = ("project", "owner", "version__volume", "version__model")
    purpose: ClassVar[str] = ENDPOINT.purpose
    reads_replicas: ClassVar[bool] = True
    keeps_what_it_read: ClassVar[bool] = True
    stop_grace_s: ClassVar[float] = STOP_GRACE_S

    def spec_of(self, row: Endpoint) -> WorkloadSpec:
        return workload_spec(row)

    def _follow(self, state: ReconcileContext, seen: Observation) -> Outcome:
        """Tell the driver how many are wanted: when that changed, one ended by itself, or another
        number is there (a hand in the cluster).
        """
        row: Any = state.row
        told, at = state.ref.get("scaled") or {}, time.time()
        wanted = {"launch": row.launch, "replicas": row.replicas}
        is_asked = {**told, **wanted} != told
        lacks = any(one.seen == Seen.EXITED for one in seen.replicas)
        lacks |= len(seen.replicas) != row.replicas
        wait = max(0.0, told.get("at", 0.0) + AGAIN_S - at) if lacks else None
        refused: dict[str, str] = {}
        self._look_at_files(state, seen, at)
        if state.just_made:
            state.ref["scaled"] = {**wanted, "at": at}
        elif seen.seen in _THERE and (is_asked or wait == 0.0):
            try:
                problem = self._scale(row)
                state.ref["scaled"] = {**wanted, "at": at} | ({"refused": True} if problem else {})
                if problem or "refused" in told:
                    refused = {"scaling_problem": problem[:500]}
                wait = AGAIN_S if problem else SOON_S
            except NotYet as error:
                wait = error.retry_in
        outcome = super()._follow(state, seen)
        # What has no process yet holds nothing; one that ended keeps its place and begins anew.
        held = [one for one in seen.replicas if one.seen not in {Seen.MISSING, Seen.CREATED}]
        mine = {"launch": row.launch, "replicas": len(held)}
        if held and seen.launch == row.launch and state.ref.get("held") != mine:
            state.ref["held"] = mine
            outcome = replace(outcome, held=[moment(one.started_at) for one in held])
        if refused and outcome.phase == Phase.RUNNING:
            outcome = replace(outcome, updates={**outcome.updates, **refused})
        if wait is None or outcome.requeue_s is None:
            return outcome
        return replace(outcome, requeue_s=min(outcome.requeue_s, wait or AGAIN_S))

    def lost_place(self, state: ReconcileContext, reason: str) -> Outcome:
        outcome = super().lost_place(state, reason)
        # What ended was the last of its former owner's.
        return replace(outcome, updates={**outcome.updates, "taken_over": False})

    def _scale(self, row: Endpoint) -> str:
        """Return why no other replica can begin: what runs serves on, also where its files or its
        image are gone meanwhile.
        """
        if lacking := lacks_files(row.version):
            return lacking
        driver = cluster_provider().driver_for(row.cluster_key)
        try:
            if isinstance(driver, SupportsServing):
                driver.scale(self.spec_of(row))
        except InvalidSpec as error:
            return str(error)
        return ""

    def _look_at_files(self, state: ReconcileContext, seen: Observation, at: float) -> None:
        """Where one answers and another one ended by itself, its files may be gone since."""
        row: Any = state.row
        ended = any(
            one.seen == Seen.EXITED or one.reason == Reason.TRIED_AGAIN for one in seen.replicas
        )
        due = at - state.ref.get("looked_at", 0.0) > LOOK_AGAIN_S
        if row.version is not None and ended and due and seen.seen == Seen.READY:
            look_again(row.version)
            state.ref["looked_at"] = at

    def replicas_of(self, row: Endpoint) -> int:
        return row.replicas

    def secrets_of(self, row: Endpoint) -> str:
        return ",".join(str(pk) for pk, _uid in row.keys_read)

    def waits_for(self, row: Endpoint) -> tuple[str, str] | None:
        lacking = missing(row.version) or needs.missing(row)
        if lacking is None and row.cluster_key == ONE_MACHINE:
            return environments.waits(runtime_of(row).environment)
        return lacking

    def _place(self, state: ReconcileContext) -> Outcome:
        outcome = super()._place(state)
        if outcome.reason in {Reason.ENVIRONMENT, Reason.ENVIRONMENT_MISSING}:
            return replace(outcome, requeue_s=LOOK_S)
        return outcome

    def stop_reason(self, row: Endpoint) -> str:
        return str(StopReason(row.stop_reason or StopReason.USER).seen)

    def updates(self, row: Endpoint, observation: Observation, phase: Phase) -> Mapping[str, Any]:
        del phase
        if observation.launch != row.launch:
            return {}
        found = {
            "started_at": row.started_at or moment(observation.started_at),
            "ready_at": row.ready_at or moment(observation.ready_at),
        }
        return {name: value for name, value in found.items() if getattr(row, name) != value}

    def topics(self, row: Endpoint) -> list[str]:
        return [*super().topics(row), "operators"]
