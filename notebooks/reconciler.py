"""From a workspace row to a process or a pod, and back."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from clusters import registry
from hubapi import services as hub
from hubapi.activity import page_is_open
from hubapi.registry import route_key
from notebooks.kind import WORKSPACE, sidecar_port
from notebooks.models import Workspace
from notebooks.programs import LACKS
from notebooks.runtime_spec import pod_spec, process_spec
from runtime.models import Reconcilable
from runtime.protocol import Observation, Phase
from runtime.reasons import Reason
from runtime.routers.base import RouteEntry
from runtime.spec import WorkloadSpec
from runtime.workload import WorkloadReconciler
from runtime.workload_state import ReconcileContext
from work import needs
from work.choices import StopReason
from work.image_pull import image_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runtime.reconcilers import Outcome


LAB_READS_S = 20.0  # its page asks each 15 s, and saves at once what it hears is about to end


class WorkspaceReconciler(WorkloadReconciler):
    """What is particular to workspaces; the order of things is in the base class."""

    kind = Workspace.KIND
    model: type[Reconcilable] = Workspace
    purpose: ClassVar[str] = WORKSPACE.purpose
    related: ClassVar[tuple[str, ...]] = ("project", "owner")  # what each pass reads
    keeps_what_it_read: ClassVar[bool] = True

    def spec_of(self, row: Workspace) -> WorkloadSpec:
        cluster = registry.row_for(row.cluster_key)
        return pod_spec(row, cluster) if cluster.runs_images else process_spec(row)

    def _follow(self, state: ReconcileContext, seen: Observation) -> Outcome:
        """Say what an image lacks that TensorBoard was asked for in."""
        outcome = super()._follow(state, seen)
        lacks = state.row.is_tensorboard and seen.exit_code == LACKS
        if lacks and outcome.reason == Reason.EXIT:
            return replace(outcome, reason=Reason.NO_TENSORBOARD, message="")
        return outcome

    def waits_for(self, row: Workspace) -> tuple[str, str] | None:
        return needs.missing(row)

    def secrets_of(self, row: Workspace) -> str:
        return ",".join(str(pk) for pk, _uid in row.keys_read)

    def notice_lead_s(self, row: Workspace) -> float:
        return LAB_READS_S if page_is_open(row.uid) else 0.0

    def image_bytes(self, row: Workspace) -> int | None:
        return image_bytes(row.image_digest)

    def before_stop(self, row: Workspace) -> None:
        hub.revoke_workload(row.uid)

    def after_remove(self, row: Workspace) -> None:
        hub.forget_workload(row.uid)

    def routes_of(self, row: Workspace, observation: Observation) -> Sequence[RouteEntry]:
        if not row.is_container:
            return (self._route(row, row.short_id, observation.address),)
        host = observation.address.rpartition(":")[0]
        return [
            self._route(
                row,
                hub.port_short_id(row.short_id, port["port"]),
                f"{host}:{sidecar_port(row.ports, port['port'])}",
            )
            for port in row.web_ports
        ]

    def _route(self, row: Workspace, short_id: str, address: str) -> RouteEntry:
        return RouteEntry(key=route_key(short_id), target=f"http://{address}", uid=str(row.uid))

    def stop_reason(self, row: Workspace) -> str:
        return str(StopReason(row.stop_reason or StopReason.USER).seen)

    def updates(self, row: Workspace, observation: Observation, phase: Phase) -> Mapping[str, Any]:
        """Note when it began and answered, and when its time is over.

        Always derived afresh from what was seen and from the row, so a change of the limit
        made during a step is put right by the next one.
        """
        if phase != Phase.RUNNING or observation.launch != row.launch:
            return {}
        ready = _moment(observation.ready_at) or row.ready_at or _moment(observation.started_at)
        found: dict[str, Any] = {
            "started_at": _moment(observation.started_at) or row.started_at,
            "ready_at": ready,
            "ends_at": None,
        }
        if ready is not None and row.time_limit_minutes is not None:
            minutes = row.time_limit_minutes + row.extended_minutes
            found["ends_at"] = ready + timedelta(minutes=minutes)
        return {name: value for name, value in found.items() if getattr(row, name) != value}

    def topics(self, row: Workspace) -> list[str]:
        return [*super().topics(row), "operators"]


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, tz=UTC)
