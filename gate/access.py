"""What somebody may do with one workspace or volume through the gate, and where it answers.

All rows by ``projects.access``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from django.conf import settings
from django.utils.translation import gettext as _

from accounts.principal import Principal
from common.clock import now
from common.errors import Conflict, Forbidden, NotFound
from common.ids import is_uid
from common.templatetags.berth import phase_word
from events import services as events
from files import selectors as files
from files import services
from files.reconciler import token_of
from gate.callers import Caller, later, principal_of
from notebooks import where
from notebooks.kind import WORKSPACE
from notebooks.models import Workspace
from projects.access import Permission
from runtime.protocol import Desired, Phase
from runtime.streams import Pod
from volumes.services.base import volume_measure_soon
from work import selectors

NOTED_EVERY = timedelta(seconds=60)


def gate_url(row: Workspace, part: str, *, socket: bool = False, for_page: bool = False) -> str:
    """``for_page``: as browsers are led there; programs have tokens of their own."""
    base = settings.BERTH_GATE_PAGES_URL if for_page else settings.BERTH_GATE_URL
    if socket:
        base = "ws" + base.removeprefix("http")
    return f"{base}/gate/{part}/{row.short_id}"


class Demand(StrEnum):
    """What a stream is for."""

    OPEN = "open"  # terminal, files, SSH: who may open the workspace
    LOGS = "logs"  # its owner
    READ = "read"  # files of a volume: who may use it
    CHANGE = "change"  # files of a volume: who may write to it


FILES = frozenset({Demand.READ, Demand.CHANGE})


@dataclass(frozen=True)
class Target:
    """One workspace on a cluster, as plain values."""

    uid: str
    short_id: str
    cluster_key: str
    phase: str
    launch: int
    pod: Pod

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
    row = selectors.workload_get(who, WORKSPACE, short_id)
    if demand is Demand.OPEN:
        if not who.allows_scope(Permission.WORKSPACE_CREATE):
            raise Forbidden(_("This token may not enter workspaces."))
        if not selectors.access_of(who.user, row):
            raise Forbidden(_("Only its owner, and the people they let in, may open a workspace."))
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
            _("The cluster %(name)s is switched off.") % {"name": cluster.label}, code="cluster-off"
        )
    objects = where.objects_of(row, cluster)
    pod = Pod(objects["namespace"], objects["pod"])
    phase = Phase.DELETING if row.desired == Desired.ABSENT else row.shown_phase
    return Target(
        uid=str(row.uid),
        short_id=row.short_id,
        cluster_key=row.cluster_key,
        phase=phase.value,
        launch=row.launch,
        pod=pod,
    )


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


@dataclass(frozen=True)
class VolumeTarget:
    """One volume as one person may use it, as plain values; ``short_id`` is the volume's uid."""

    uid: str  # of the session
    short_id: str
    person_uid: str
    address: str
    token: str
    room: int | None

    def end_of(self, before: VolumeTarget, demand: Demand) -> str:
        """Return why a stream to ``before`` is over, now that this is what there is."""
        del demand
        return "" if self.uid == before.uid else _("The file browser was ended.")


def volume_target(caller: Caller, uid: str, demand: Demand) -> VolumeTarget:
    """Return it, or raise: NotFound for strangers, Forbidden with the reason, Conflict when
    no server runs for this person.
    """
    if not is_uid(uid):
        raise NotFound(_("There is no such volume, or you may not see it."))
    who = principal_of(caller)
    place = files.place_get(who, uid, write=demand is Demand.CHANGE)
    row = files.session_of(who, place.volume)
    if row is None or not row.is_open:
        raise Conflict(
            _("The files of this volume are not open. %(why)s")
            % {"why": files.why(row) if row is not None else ""},
            code="files-closed",
            extra={"phase": Phase(row.phase).value if row is not None else "closed"},
        )
    if demand is Demand.CHANGE and row.read_only:
        raise Conflict(_("Your rights changed: open the files again."), code="files-closed")
    if now() - row.last_used_at > NOTED_EVERY:
        session = row.uid
        later(f"used {session}", lambda: services.session_touch(uid=session))
    return VolumeTarget(
        uid=str(row.uid),
        short_id=str(place.volume.uid),
        person_uid=str(who.user.uid),
        address=row.address,
        token=token_of(row),
        room=place.room,
    )


def note_written(volume_uid: str) -> None:
    """Its size is to be measured anew; nobody waits for that."""
    later(f"written {volume_uid}", lambda: volume_measure_soon(uids=[volume_uid]))


def note_deleted(caller: Caller, volume_uid: str) -> None:
    who = principal_of(caller)
    place = files.place_get(who, volume_uid)
    events.record(
        actor=who,
        verb="volume.files-deleted",
        target=place.volume,
        project_uid=place.volume.project.uid,
    )
