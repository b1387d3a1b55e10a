"""A project's row goes last: it waits until all it held is gone, then removes itself."""

from typing import Any

from django.utils.translation import gettext as _

from projects import contents
from projects.models import Invitation, Membership, Project
from runtime.models import Reconcilable
from runtime.protocol import Desired, Observation, Phase
from runtime.reconcilers import Outcome, Transition

LOOK_AGAIN_S = 2.0


class ProjectReconciler:
    kind = Project.KIND
    model: type[Reconcilable] = Project

    def step(self, row: Project, observation: Observation | None) -> Outcome:
        del observation  # a project has nothing outside of its own on one machine
        if row.desired != Desired.ABSENT:
            return Outcome(Phase.RUNNING)
        left = contents.summaries(row)
        if not left:
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


def forget_people(transition: Transition) -> None:
    """When the row goes, memberships and invitations go in the same transaction."""
    row = transition.row
    if transition.gone and row.KIND == Project.KIND:
        Membership.objects.filter(project=row).delete()
        Invitation.objects.filter(project=row).delete()
