"""From a load's row to the program that copies, and back."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from django.db.models import Q
from django.utils.translation import gettext as _

from common.clock import now
from loaders import logs
from loaders.choices import StopReason, Uploads
from loaders.concurrency import COUNTED, Turn, closing_turn, sentence_of, turn_of
from loaders.models import ACTIVE, Load
from loaders.runtime_spec import workload_spec
from loaders.services import uploads
from runtime.models import Reconcilable
from runtime.protocol import Desired, InvalidSpec, NotYet, Observation, Phase
from runtime.reasons import Reason
from runtime.reconcilers import Outcome
from runtime.spec import WorkloadSpec
from runtime.workload import WorkloadReconciler
from runtime.workload_state import ReconcileContext, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.db.models import QuerySet

_WHY = {
    StopReason.PROJECT_ARCHIVED: Reason.PROJECT_ARCHIVED,
    StopReason.OWNER_DISABLED: Reason.OWNER_DISABLED,
    StopReason.OWNER_LEFT: Reason.OWNER_DISABLED,
    StopReason.CREDENTIAL: Reason.OPERATOR,
}


class LoadReconciler(WorkloadReconciler):
    """What is particular to loads; the order of things is in the base class."""

    kind = Load.KIND
    model: type[Reconcilable] = Load
    related: ClassVar[tuple[str, ...]] = (
        *("project", "owner", "credential"),
        *("volume", "volume__project", "volume__owner"),
    )
    stop_grace_s: ClassVar[float] = 20.0  # it writes down how far it is

    def step(self, row: Load, observation: Observation | None) -> Outcome:
        outcome = self._with_turn(row, self._step(row, observation))
        row.said = logs.last_words(row, outcome)  # type: ignore[attr-defined]  # for ``listeners``
        return outcome

    def _with_turn(self, row: Load, outcome: Outcome) -> Outcome:
        """Keep where it stands in line beside the sentence, for who reads another language."""
        if outcome.external_ref is None:
            return outcome
        turn: Turn | None = getattr(row, "turn", None)
        ref = {name: kept for name, kept in outcome.external_ref.items() if name != "turn"}
        if turn is not None and not turn.is_now:
            ref["turn"] = turn.as_ref()
        return replace(outcome, external_ref=ref)

    def _step(self, row: Load, observation: Observation | None) -> Outcome:
        if row.uploads == Uploads.CLOSING and row.desired != Desired.RUNNING:
            return self._close_uploads(row, observation)
        if self._lost_its_credential(row):
            gone = Status(Phase.FAILED, Reason.INVALID_SPEC, _("Its credential was removed."))
            return self._close(ReconcileContext(row, dict(row.external_ref)), gone)
        outcome = super().step(row, observation)
        turn: Turn | None = getattr(row, "turn", None)
        if turn is None or turn.is_now or outcome.phase != Phase.PENDING:
            return outcome
        return replace(outcome, requeue_s=turn.look_again_s)

    def _close_uploads(self, row: Load, observation: Observation | None) -> Outcome:
        """On the way to stopped or absent its program runs once more (``services.uploads``)."""
        if not ReconcileContext(row, row.external_ref).ensured and (code := uploads.hopeless(row)):
            uploads.leave(row, code)
            return super().step(row, observation)
        wanted, row.desired = row.desired, Desired.RUNNING
        try:
            outcome = super().step(row, observation)
        finally:
            row.desired = wanted
        turn: Turn | None = getattr(row, "turn", None)
        if turn is None or turn.is_now:
            return outcome
        # standing in line is no fault of the store: its time begins with its turn
        return replace(outcome, updates={**outcome.updates, "uploads_at": now()})

    def _lost_its_credential(self, row: Load) -> bool:
        """Whether it is wanted without what it needs (D13): what runs of it ends at once."""
        gone = row.credential is None and not row.anonymous
        return (
            gone
            and row.desired == Desired.RUNNING
            and not ReconcileContext(row, row.external_ref).ended
        )

    def spec_of(self, row: Load) -> WorkloadSpec:
        volume = row.volume
        if volume.is_being_deleted or volume.project_id != row.project_id:
            raise InvalidSpec(_("Its volume is gone, or belongs to another project now."))
        spec = workload_spec(row)
        if not uploads.note_placed(row):
            raise NotYet(_("A moment, please."))
        return spec

    def waits_for(self, row: Load) -> tuple[str, str] | None:
        if row.volume.is_restoring or row.volume.is_moving:
            return Reason.VOLUME, _("Its volume is being restored or handed over.")
        closing = row.uploads == Uploads.CLOSING
        turn = closing_turn(row) if closing else turn_of(row, most=COUNTED)
        row.turn = turn  # type: ignore[attr-defined]  # for ``step``, of this pass only
        if turn.is_now:
            return None
        return Reason.QUEUED, sentence_of(turn.as_ref())

    def stop_reason(self, row: Load) -> str:
        reason = row.stop_reason or StopReason.PAUSED
        return str(_WHY.get(StopReason(reason), Reason.USER))

    def holds_cluster(self, rows: QuerySet[Load]) -> QuerySet[Load]:
        """What is over keeps no cluster; what runs, or will by its schedule, does."""
        return rows.filter(ACTIVE | Q(next_run_at__isnull=False))

    def updates(self, row: Load, observation: Observation, phase: Phase) -> Mapping[str, Any]:
        del phase
        if observation.launch != row.launch or observation.started_at is None:
            return {}
        began = datetime.fromtimestamp(observation.started_at, tz=UTC)
        return {} if row.started_at == began else {"started_at": began}
