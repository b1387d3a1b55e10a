"""From an endpoint's row to what runs it, and back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from runtime.workload import WorkloadReconciler
from serving.kind import ENDPOINT
from serving.models import Endpoint
from serving.runtime_spec import STOP_GRACE_S, workload_spec
from serving.selectors import missing
from work import needs
from work.choices import StopReason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.models import Reconcilable
    from runtime.protocol import Observation, Phase, WorkloadSpec


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

    def replicas_of(self, row: Endpoint) -> int:
        return row.replicas

    def secrets_of(self, row: Endpoint) -> str:
        return ",".join(str(pk) for pk, _uid in row.keys_read)

    def waits_for(self, row: Endpoint) -> tuple[str, str] | None:
        return missing(row.version) or needs.missing(row)

    def stop_reason(self, row: Endpoint) -> str:
        return str(StopReason(row.stop_reason or StopReason.USER).seen)

    def updates(self, row: Endpoint, observation: Observation, phase: Phase) -> Mapping[str, Any]:
        del phase
        if observation.launch != row.launch:
            return {}
        found = {
            "started_at": row.started_at or _moment(observation.started_at),
            "ready_at": row.ready_at or _moment(observation.ready_at),
        }
        return {name: value for name, value in found.items() if getattr(row, name) != value}

    def topics(self, row: Endpoint) -> list[str]:
        return [*super().topics(row), "operators"]


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, tz=UTC)
