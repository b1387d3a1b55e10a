"""From a workspace row to a process that runs JupyterLab, and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from hubapi import services as hub
from notebooks.choices import StopReason
from notebooks.hub import info_of
from notebooks.models import Workspace
from runtime.models import Reconcilable
from runtime.protocol import Mount, Observation, Phase, Probe, RouteEntry, WorkloadSpec
from runtime.reasons import Reason
from runtime.workload import WorkloadReconciler

if TYPE_CHECKING:
    from collections.abc import Mapping

# The engine's words are fewer than ours: the page tells the finer reason from the row.
_WHY = {
    StopReason.MANAGER: Reason.OPERATOR,
    StopReason.OWNER_LEFT: Reason.OWNER_DISABLED,
}


class WorkspaceReconciler(WorkloadReconciler):
    """What is particular to workspaces; the order of things is in the base class."""

    kind = Workspace.KIND
    model: type[Reconcilable] = Workspace
    related: ClassVar[tuple[str, ...]] = ("project", "owner", "home", "preset")

    def spec_of(self, row: Workspace) -> WorkloadSpec:
        credentials = hub.client_ensure(
            uid=row.uid,
            short_id=row.short_id,
            owner=row.owner,
            project=row.project,
            launch=row.launch,
        )
        env, secret_env = hub.launch_environment(info_of(row), credentials)
        return WorkloadSpec(
            uid=str(row.uid),
            kind=row.KIND,
            name=row.short_id,
            launch=row.launch,
            generation=row.generation,
            project=str(row.project.uid),
            owner=str(row.owner.uid),
            environment=row.environment,
            command=("jupyterhub-singleuser", *hub.server_arguments()),
            env={**row.env, **env},  # ours last: nobody's own variable replaces them
            secret_env=lambda: secret_env,
            resources=row.resources,
            mounts=(Mount(volume_uid=str(row.home.uid), role="home"),),
            probe=Probe(path=hub.readiness_path(row.short_id)),
            labels={"project": row.project.slug, "owner": row.owner.username},
        )

    def before_stop(self, row: Workspace) -> None:
        hub.revoke_workload(row.uid)

    def after_remove(self, row: Workspace) -> None:
        hub.forget_workload(row.uid)

    def route_of(self, row: Workspace, observation: Observation) -> RouteEntry | None:
        return RouteEntry(
            key=hub.route_key(row.short_id),
            target=f"http://{observation.address}",
            uid=str(row.uid),
        )

    def stop_reason(self, row: Workspace) -> str:
        reason = row.stop_reason or Reason.USER
        return str(_WHY.get(StopReason(reason), reason))

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
