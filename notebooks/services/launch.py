"""Starting: one press makes a workspace, another one resumes it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from clusters.usable import launch_check
from common.clock import now
from common.errors import Conflict, Invalid
from common.ids import next_name
from events import services as events
from notebooks import selectors
from notebooks.models import Preset, Workspace
from notebooks.services.base import changed, lock, own, step
from notebooks.services.image_digest import digest_for
from notebooks.services.placing import Placed
from notebooks.services.resolve import columns_of, resolved, spec_of, where_its_volumes_lie
from notebooks.spec import PRIVATE, Wanted
from projects.access import Permission, require, roles_kept
from quotas import services as quotas
from runtime.protocol import Desired
from volumes.services.base import volumes_hold
from volumes.services.create import home_ensure, home_find
from work.attached import Attached
from work.models import Workload
from work.services.attachments import (
    attach,
    attached_wanted,
    check_still_usable,
    held,
    warning_of_full,
)
from work.standard_fields import NAME

if TYPE_CHECKING:
    from accounts.principal import Principal
    from notebooks.spec import Spec
    from projects.models import Project

# A repeated press of one form within this time is one press.
NONCE_KEPT = timedelta(minutes=10)
# Of launches at once that name nothing, each finds the next free name after at most so many.
_TURNS = 16


@roles_kept()
def workspace_launch(
    *,
    principal: Principal,
    project: Project,
    preset: Preset | None = None,
    wanted: Wanted | None = None,
    nonce: str = "",
    must_fit: bool = False,
) -> Workspace:
    """Make and start a workspace. Nothing is required: name and size come from the preset.

    ``must_fit``: refuse what would wait without end, as pages do; who types a command or asks the
    API may wait for a machine that is still to come.
    """
    require_startable(principal, project)
    wanted = wanted or Wanted()
    preset = preset or default_preset(project)
    nonce = "".join(c for c in nonce[:64] if (c.isascii() and c.isalnum()) or c in "-_")
    wanted = where_its_volumes_lie(principal, project, wanted)
    placed = resolved(project=project, preset=preset, wanted=wanted)
    spec = placed.spec
    attached = attached_wanted(
        principal=principal, project=project, cluster_key=spec.cluster, said=wanted.given()
    )
    if must_fit and not placed.decision.fits:
        raise Conflict(placed.decision.sentence, code="does-not-fit")
    digest = digest_for(principal, project, spec)
    new = _New(preset, placed, wanted.name or "", nonce, digest, attached)
    for turn in range(1, _TURNS + 1):
        try:
            with transaction.atomic():
                return _launch(principal, project, new)
        except IntegrityError as error:
            if nonce and (made := _made_by(principal, nonce)):
                return made  # the other half of a double click was faster
            if new.name.strip() or turn == _TURNS:
                raise Conflict(
                    _("You already have a workspace of that name in this project."),
                    code="name-taken",
                ) from error
    raise AssertionError  # the last turn returns or raises


def require_startable(principal: Principal, project: Project) -> None:
    """Raise unless ``principal`` may start something in ``project`` now."""
    require(principal, project, Permission.WORKSPACE_CREATE)
    if project.archived_at is not None or project.desired == Desired.ABSENT:
        raise Conflict(
            _("The project is archived: nothing new starts in it."), code="project-archived"
        )


def default_preset(project: Project) -> Preset:
    """Return what a launch takes that says nothing: no GPU where there is a preset without."""
    presets = selectors.presets_for(project)
    preset = presets.filter(gpus=0).first() or presets.first()
    if preset is None:
        raise Conflict(_("There is no preset in this project yet."), code="no-preset")
    return preset


@dataclass(frozen=True)
class _New:
    """What is made, decided before the transaction."""

    preset: Preset
    placed: Placed
    name: str
    nonce: str
    digest: str
    attached: Attached


def _launch(principal: Principal, project: Project, new: _New) -> Workspace:
    if new.nonce and (made := _made_by(principal, new.nonce)):
        return made
    spec, preset = new.placed.spec, new.preset
    name = _name(principal, project, preset, new.name)
    there: dict[str, Any] = {"project": project, "cluster_key": spec.cluster}
    home = home_find(**there, owner=principal.user)
    homes = () if home is None else (home,)
    attached = held(new.attached, **there, principal=principal, homes=homes)
    if home is None:  # made after the others are held: it takes of the limits
        home = home_ensure(**there, principal=principal, owner=principal.user)
        volumes_hold([home])
    at = now()
    row = Workspace.objects.create(
        project=project,
        owner=principal.user,
        name=name,
        preset=preset,
        home=home,
        nonce=new.nonce,
        image_digest=new.digest,
        image_pinned_at=at if new.digest else None,
        launch=1,
        asked_at=at,
        phase_since=at,
        last_used_at=at,
        next_reconcile_at=at,
        idle_stop_minutes=preset.idle_stop_minutes,
        **columns_of(spec),
    )
    attach(row, attached, is_new=True)
    row.just_attached = attached
    reserve(principal, row, new.placed, is_new=True)
    step(row, "accepted")
    events.record(
        actor=principal,
        verb="workspace.launched",
        target=row,
        project_uid=project.uid,
        data={"preset": preset.slug, **_public(spec), **_given(new.attached)},
    )
    changed(row, is_new=True)
    return row


def reserve(principal: Principal, row: Workspace, placed: Placed, *, is_new: bool = False) -> None:
    """Hold what the workspace takes of the limits, in the transaction of the intent."""
    quotas.reserve(
        principal=principal,
        project=row.project,
        owner=row.owner,
        uid=row.uid,
        amounts=placed.amounts,
        launch=row.launch,
        is_new=is_new,
    )


@transaction.atomic
def workspace_resume(
    *, principal: Principal, workspace: Workspace, had_ended: bool = False
) -> Workspace:
    """Start a stopped or failed workspace again, with its files, address and settings.

    ``had_ended``: before an edit of this very transaction, which makes a failed one look wanted.
    """
    own(principal, workspace)
    require_startable(principal, workspace.project)
    row = lock(workspace)
    if row.is_on_its_way and not had_ended:
        return row  # a second press changes nothing
    launch_check(row.cluster_key, row.project.uid)
    check_still_usable(principal, row)
    begin_launch(row)
    row.desired = Desired.RUNNING
    row.save()
    reserve(principal, row, Placed(spec_of(row), row.project, row.uid))
    step(row, "accepted", warning_of_full(row))
    events.record(
        actor=principal, verb="workspace.resumed", target=row, project_uid=row.project.uid
    )
    changed(row)
    return row


def begin_launch(row: Workspace) -> None:
    """Set the columns of a new launch; the caller saves."""
    row.launch += 1
    row.generation += 1
    row.asked_at = row.last_used_at = now()
    row.started_at = row.ready_at = row.ends_at = row.stopped_at = None
    row.warned_at = row.idle_stop_at = None
    row.stop_requested_at, row.stop_reason = None, ""
    row.extended_minutes = 0


def _name(principal: Principal, project: Project, preset: Preset, asked: str) -> str:
    taken = selectors.names_taken(project, principal.user)
    if not asked.strip():
        return next_name(preset.name, taken)
    name = NAME.clean(asked)
    if name in taken:
        message = _("You already have a workspace of that name in this project.")
        raise Invalid(message, code="name-taken", fields={"name": [message]})
    return name


def _made_by(principal: Principal, nonce: str) -> Workspace | None:
    made = Workspace.objects.filter(owner=principal.user, nonce=nonce).first()
    if made is None:
        return None
    if made.created_at < now() - NONCE_KEPT:
        Workload.objects.filter(pk=made.pk).update(nonce="")
        return None
    return made


def _public(spec: Spec) -> dict[str, object]:
    """What an event may tell: sizes and image, never the environment nor a command line."""
    columns = columns_of(spec)
    columns["kind"] = columns.pop("variant")
    for name in PRIVATE:
        columns.pop(name)
    return {name: value for name, value in columns.items() if value not in ("", [], None)}


def _given(attached: Attached) -> dict[str, object]:
    return {name: value for name, value in attached.public().items() if value}
