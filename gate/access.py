"""What somebody may do with one workspace through the gate. All rows by ``projects.access``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from django.utils.translation import gettext as _

from accounts.principal import Principal
from common.errors import Conflict, Forbidden
from common.templatetags.berth import phase_word
from gate.callers import Caller, principal_of
from notebooks import selectors, where
from notebooks.models import Workspace
from projects.access import Permission
from runtime.protocol import Desired, Phase
from runtime.streams import Pod


class Demand(StrEnum):
    """What a stream is for."""

    OPEN = "open"  # terminal, files, SSH: who may open the workspace
    LOGS = "logs"  # its owner
    LOOK = "look"  # who may see that it is there
    READ = "read"  # files of a volume: who may use it
    CHANGE = "change"  # files of a volume: who may write to it


FILES = frozenset({Demand.READ, Demand.CHANGE})


@dataclass(frozen=True)
class Target:
    """One workspace on a cluster, as plain values."""

    uid: str
    short_id: str
    name: str
    project_uid: str
    owner_pk: int
    cluster_key: str
    phase: str
    launch: int
    pod: Pod
    is_owner: bool

    @property
    def is_running(self) -> bool:
        return self.phase == Phase.RUNNING

    def end_of(self, before: Target, demand: Demand) -> str:
        """Return why a stream to ``before`` is over, now that this is what there is; '' if not."""
        if demand is Demand.OPEN and not (self.is_running and self.launch == before.launch):
            return _("The workspace was stopped.")
        return ""


def target_of(caller: Caller, short_id: str, demand: Demand) -> Target:
    """Return the workspace, or raise: NotFound for strangers, Forbidden with the reason."""
    return target_for(principal_of(caller), short_id, demand)


def target_for(who: Principal, short_id: str, demand: Demand) -> Target:
    row = selectors.workspace_get(who, short_id)
    if demand is Demand.OPEN:
        _may_open(who, row)
    elif demand is Demand.LOGS:
        selectors.require_owner(who, row)
    cluster = where.cluster_of(row)
    if cluster is None:
        raise Conflict(
            _("This workspace runs on one machine; it has terminal and files in JupyterLab."),
            code="not-on-a-cluster",
        )
    if not cluster.enabled:
        raise Conflict(
            _("The cluster %(name)s is switched off.") % {"name": cluster.label},
            code="cluster-off",
        )
    objects = where.objects_of(row, cluster)
    pod = Pod(objects["namespace"], objects["pod"])
    return _target(row, pod, is_owner=selectors.is_owner(who, row))


def running_target(caller: Caller, short_id: str) -> Target:
    """Like ``target_of`` for somebody who wants in: it must run."""
    target = target_of(caller, short_id, Demand.OPEN)
    if not target.is_running:
        raise Conflict(
            _("The workspace does not run (it is %(phase)s). Start it first.")
            % {"phase": phase_word(target.phase).lower()},
            code="not-running",
        )
    return target


def _may_open(who: Principal, row: Workspace) -> None:
    if not who.allows_scope(Permission.WORKSPACE_CREATE):
        raise Forbidden(_("This token may not enter workspaces."))
    if not selectors.access_of(who.user, row):
        raise Forbidden(_("Only its owner, and the people they let in, may open a workspace."))


def _target(row: Workspace, pod: Pod, *, is_owner: bool) -> Target:
    phase = Phase.DELETING if row.desired == Desired.ABSENT else row.shown_phase
    return Target(
        uid=str(row.uid),
        short_id=row.short_id,
        name=row.name,
        project_uid=str(row.project.uid),
        owner_pk=row.owner_id,
        cluster_key=row.cluster_key,
        phase=phase.value,
        launch=row.launch,
        pod=pod,
        is_owner=is_owner,
    )
