"""The plan before the act: the same answer in the form's foot, ``--plan`` and the API."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from clusters.usable import launch_check
from common.errors import BerthError
from common.ids import next_name
from common.manifests import Change
from common.templatetags.berth import price
from notebooks import selectors
from notebooks.services.base import own
from notebooks.services.launch import default_preset, require_startable
from notebooks.services.lifecycle import needs_restart
from notebooks.services.placing import Placed
from notebooks.services.resolve import (
    changed_fields,
    edited,
    resolved,
    spec_of,
    where_its_volumes_lie,
)
from notebooks.spec import LISTS, PUBLIC, Spec, Wanted
from quotas import selectors as quotas
from work.attached import Attached, attached_to
from work.services.attachments import attached_wanted, changed_attachments, require_usable_by
from work.services.plan import QuotaEffect, cost_per_hour, far_from_its_data, quota_effects
from work.standard_fields import NAME

if TYPE_CHECKING:
    from accounts.principal import Principal
    from notebooks.models import Preset, Workspace
    from placement.decision import Decision
    from placement.fleet import Fleet
    from projects.models import Project


@dataclass(frozen=True)
class Plan:
    """``action`` is create, update or none; ``allowed`` False: it would be refused now."""

    action: str
    name: str
    spec: Spec
    preset: str
    attached: Attached = field(default_factory=Attached)
    changes: tuple[Change, ...] = ()
    restarts: bool = False
    allowed: bool = True
    refusal: str = ""
    quota: tuple[QuotaEffect, ...] = ()
    forecast: Decision | None = None
    cost_per_hour: Decimal = Decimal(0)
    sentences: tuple[str, ...] = field(default=())


def workspace_plan(
    *,
    principal: Principal,
    project: Project,
    wanted: Wanted,
    preset: Preset | None = None,
    workspace: Workspace | None = None,
    fleet: Fleet | None = None,
) -> Plan:
    """Say what a launch (or an edit of ``workspace``) would do now. Changes nothing.

    ``fleet``: a look at the clusters of the project, where the caller has one.
    """
    if workspace is not None:
        return _plan_edit(principal, workspace, wanted)
    require_startable(principal, project)
    preset = preset or default_preset(project)
    wanted = where_its_volumes_lie(principal, project, wanted)
    placed = resolved(project=project, preset=preset, wanted=wanted, fleet=fleet)
    spec = placed.spec
    attached = attached_wanted(
        principal=principal, project=project, cluster_key=spec.cluster, said=wanted.given()
    )
    taken = selectors.names_taken(project, principal.user)
    name = NAME.clean(wanted.name) if wanted.name else next_name(preset.name, taken)
    fields = {**public_fields(spec), **attached.public()}
    changes = tuple(Change(k, None, v) for k, v in fields.items())
    plan = _judged(principal, placed, starts=True)
    refusal = plan.refusal
    if name in taken:
        refusal = _("You already have a workspace of that name in this project.")
    return _said(
        far_from_its_data(spec.pool, spec.kind, attached, project),
        Plan(
            action="create",
            name=name,
            spec=spec,
            preset=preset.slug,
            attached=attached,
            changes=changes,
            allowed=not refusal,
            refusal=refusal,
            quota=plan.quota,
            forecast=plan.forecast,
            cost_per_hour=plan.cost_per_hour,
        ),
    )


def _plan_edit(principal: Principal, workspace: Workspace, wanted: Wanted) -> Plan:
    own(principal, workspace)
    before, placed = spec_of(workspace), edited(workspace, wanted)
    after = placed.spec
    had = attached_to(workspace)
    gets = attached_wanted(
        principal=principal,
        project=workspace.project,
        cluster_key=workspace.cluster_key,
        said=wanted.given(),
        before=had,
    )
    fields = [*changed_fields(before, after), *changed_attachments(had, gets)]
    old = {**public_fields(before), **had.public(), "image_digest": workspace.image_digest}
    new = {**public_fields(after), **gets.public(), "image_digest": None}
    if wanted.newest_image and "image" not in fields:
        fields.append("image_digest")  # no registry is asked for a plan: it may be the same
    changes = [Change(k, old[k], new[k]) for k in fields if k != "env"]
    if "env" in fields:
        changes.append(Change("env", sorted(before.env), sorted(after.env)))
    name = NAME.clean(wanted.name) if wanted.name else workspace.name
    if name != workspace.name:
        changes.insert(0, Change("name", workspace.name, name))
    restarts = needs_restart(workspace, fields)
    judged = _judged(principal, placed, starts=restarts)
    refusal = _refused(principal, workspace, gets, judged) if restarts else ""
    return _said(
        far_from_its_data(after.pool, after.kind, gets, workspace.project),
        Plan(
            action="update" if changes else "none",
            name=name,
            spec=after,
            preset=workspace.preset.slug if workspace.preset else "",
            attached=gets,
            changes=tuple(changes),
            restarts=restarts,
            allowed=not refusal,
            refusal=refusal,
            quota=judged.quota,
            forecast=judged.forecast,
            cost_per_hour=judged.cost_per_hour,
        ),
    )


def _refused(principal: Principal, row: Workspace, gets: Attached, judged: _Judged) -> str:
    """Return why it could not start again there, with what is attached and its size."""
    try:
        launch_check(row.cluster_key, row.project.uid)
        require_usable_by(principal, row.project, gets)
    except BerthError as error:
        return error.message
    return judged.refusal


@dataclass(frozen=True)
class _Judged:
    refusal: str
    quota: tuple[QuotaEffect, ...]
    forecast: Decision | None
    cost_per_hour: Decimal


def _judged(principal: Principal, placed: Placed, *, starts: bool) -> _Judged:
    spec, amounts = placed.spec, placed.amounts
    held = quotas.held_by(placed.uid) if placed.uid else {}
    known = quotas.Account(placed.project, principal.user)
    refused = known.refusals(amounts, held)
    return _Judged(
        refusal=" ".join(one.sentence for one in refused),
        quota=quota_effects(known, amounts, held),
        forecast=placed.decision if starts else None,
        cost_per_hour=cost_per_hour(spec.gpus, spec.gpu_flavor),
    )


def public_fields(spec: Spec) -> dict[str, Any]:
    """Return a specification without the values of its environment, only their names."""
    found = {name: getattr(spec, name) for name in PUBLIC}
    for name in LISTS:
        found[name] = list(found[name])
    return {**found, "env": sorted(spec.env)}


def _said(slower: list[str], plan: Plan) -> Plan:
    """Add the sentences that a person reads, in the order of what matters."""
    said: list[str] = []
    if plan.refusal:
        said.append(plan.refusal)
    elif plan.action == "none":
        said.append(_("Nothing would change."))
    if plan.restarts:
        said.append(_("It restarts: files are kept, what is in memory is lost."))
    if plan.forecast is not None and plan.allowed:
        said.append(plan.forecast.sentence)
    said += slower
    if plan.cost_per_hour and plan.allowed:
        said.append(_("It costs %(price)s per hour.") % {"price": price(plan.cost_per_hour)})
    return Plan(**{**plan.__dict__, "sentences": tuple(said)})
