"""A project's row goes last: it waits until all it held is gone, then removes itself.

For what is on a cluster that does not answer it does not wait: those rows stay, wanted no more,
and the engine removes what they stand for when the cluster answers again.
"""

from datetime import timedelta
from typing import Any

from django.utils.translation import gettext as _

from clusters.services import detach
from common.clock import now
from events.services import record
from projects import contents
from projects.models import Invitation, Membership, Project, ProjectPlace
from runtime.models import Reconcilable
from runtime.protocol import Desired, Observation, Phase
from runtime.reconcilers import Outcome, Transition

LOOK_AGAIN_S = 2.0
SILENCE = timedelta(minutes=1)  # a portal or a cluster that starts again is waited for


class ProjectReconciler:
    kind = Project.KIND
    model: type[Reconcilable] = Project

    def step(self, row: Project, observation: Observation | None) -> Outcome:
        del observation  # a project has nothing outside of its own on one machine
        if row.desired != Desired.ABSENT:
            return Outcome(Phase.RUNNING)
        left = contents.summaries(row)
        if not left or _is_out_of_reach(row, {s.kind for s in left}):
            return Outcome(Phase.DELETED, gone=True)
        # Asked again on every pass: something may have slipped in beside the request.
        contents.request_delete(row, None)
        return Outcome(
            Phase.DELETING,
            "contents",
            _("Waiting for: %(what)s") % {"what": "; ".join(s.text for s in left)},
            requeue_s=LOOK_AGAIN_S,
        )

    def topics(self, row: Any) -> list[str]:
        return [f"project:{row.uid}", "operators"]


def _is_out_of_reach(row: Project, kinds: set[str]) -> bool:
    """Whether all that is left is asked to go, and on clusters that don't answer for a while."""
    if row.phase_since is None or now() - row.phase_since < SILENCE:
        return False
    silent = detach.silent()
    found = [item for _reconciler, item in detach.live_rows(project=row)] if silent else []
    found += list(ProjectPlace.objects.filter(project=row, deleted_at__isnull=True))
    return kinds <= {item.KIND for item in found} and all(
        item.cluster_key in silent
        and (item.desired == Desired.ABSENT or item.KIND not in kinds)  # goes with its volume
        for item in found
    )


def forget_people(transition: Transition) -> None:
    """When the row goes, memberships and invitations go in the same transaction."""
    row = transition.row
    if transition.gone and row.KIND == Project.KIND:
        Membership.objects.filter(project=row).delete()
        Invitation.objects.filter(project=row).delete()
        if found := [detach.left_of(item) for _reconciler, item in detach.live_rows(project=row)]:
            record(
                actor=None,
                verb="project.left-behind",
                target=row,
                project_uid=row.uid,
                **detach.told_of(found),
            )
