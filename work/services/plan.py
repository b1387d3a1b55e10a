"""The plan before the act: the same answer in the form's foot, ``--plan`` and the API."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from budgets import selectors as budgets
from clusters.models import Flavor
from clusters.usable import launch_check
from common.errors import BerthError
from common.manifests import Change
from common.templatetags.berth import price
from quotas import selectors as quotas
from quotas.choices import label_of, words
from volumes.topology import usable_near
from work.attached import Attached, attached_to
from work.services.attachments import require_usable_by
from work.services.base import own, require_free, require_startable
from work.services.edit import needs_restart, require_editable
from work.services.launch import name_of_new
from work.services.resolve import PIN, edited, pinned_anew, resolved

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accounts.principal import Principal
    from placement.decision import Decision
    from placement.fleet import Fleet
    from projects.models import Project
    from runtime.spec import Resources
    from work.kinds import Kind
    from work.models import Workload
    from work.services.resolve import Resolved


@dataclass(frozen=True)
class QuotaEffect:
    """What would be used of one limit afterwards; ``limit`` None: no limit."""

    resource: str
    label: str
    used: int
    after: int
    limit: int | None
    used_words: str
    after_words: str
    limit_words: str


@dataclass(frozen=True)
class Plan:
    """``action`` is create, update or none; ``allowed`` False: it would be refused now.

    ``row`` is what it would be, not saved. ``starts``: a launch would begin, by itself or as a
    restart of what runs.
    """

    action: str
    name: str
    row: Any
    attached: Attached
    changes: tuple[Change, ...] = ()
    starts: bool = False
    restarts: bool = False
    allowed: bool = True
    refusal: str = ""
    quota: tuple[QuotaEffect, ...] = ()
    decision: Decision | None = None  # None: nothing would start
    cost_per_hour: Decimal = Decimal(0)
    sentences: tuple[str, ...] = field(default=())


def workload_plan(  # noqa: PLR0913 - all by name
    *,
    principal: Principal,
    project: Project,
    kind: Kind,
    said: Mapping[str, Any],
    row: Workload | None = None,
    starts: bool = False,
    newest_image: bool = False,
    fleet: Fleet | None = None,
) -> Plan:
    """Say what a launch (or an edit of ``row``) would do now. Changes nothing.

    ``starts``: an ended one is started with it. ``newest_image``: what its image's name means now
    is pinned; no registry is asked for a plan, so it may be the same. ``fleet``: a look at the
    clusters of the project, where the caller has one.
    """
    if row is not None:
        own(principal, row)
        found = edited(principal=principal, row=row, kind=kind, said=said)
        found = pinned_anew(found) if newest_image else found
        return _plan_edit(principal, row, found, starts=starts)
    require_startable(principal, project, kind)
    found = resolved(principal=principal, project=project, kind=kind, said=said, fleet=fleet)
    refusal, name = "", found.row.name
    try:
        name = name_of_new(found)
    except BerthError as error:
        refusal = error.message
    found.row.name = name
    told = _told(found.kind, found.row, found.attached)
    return _judged(
        principal,
        found,
        Plan(
            action="create",
            name=name,
            row=found.row,
            attached=found.attached,
            changes=tuple(Change(k, None, v) for k, v in told.items() if k != "name"),
            starts=True,
            refusal=refusal,
        ),
    )


def _plan_edit(principal: Principal, row: Workload, found: Resolved, *, starts: bool) -> Plan:
    kind = found.kind
    had = attached_to(row) if kind.attachments else Attached()
    old = _told(kind, row, had) | {PIN: getattr(row, PIN, "")}
    new = _told(kind, found.row, found.attached) | {PIN: None}
    restarts = needs_restart(kind, row, found)
    plan = Plan(
        action="update" if found.fields else "none",
        name=found.row.name,
        row=found.row,
        attached=found.attached,
        changes=tuple(Change(name, old[name], new[name]) for name in found.fields),
        starts=restarts or (starts and not row.is_on_its_way),
        restarts=restarts,
    )
    try:
        require_editable(kind, row, found)
        if "name" in found.fields:
            require_free(row.project, row.owner, kind, found.row.name)
        if plan.starts:
            launch_check(row.cluster_key, row.project.uid)
            require_usable_by(principal, row.project, found.attached)
    except BerthError as error:
        plan = replace(plan, refusal=error.message)
    return _judged(principal, found, plan)


def _told(kind: Kind, row: Workload, attached: Attached) -> dict[str, Any]:
    """Return a row as a plan tells it to its owner; of variables only their names."""
    told = kind.own.read(row, private=True) | attached.public()
    return {k: sorted(v) if isinstance(v, dict) else v for k, v in told.items() if k in kind.table}


def _judged(principal: Principal, found: Resolved, plan: Plan) -> Plan:
    """Add what limits, placement and prices say, and the sentences that a person reads."""
    if found.kind.judge is not None:
        return found.kind.judge(principal, found, plan)
    kind, row, project = found.kind, found.row, found.row.project
    refusal = plan.refusal
    quota: tuple[QuotaEffect, ...] = ()
    decision: Decision | None = None
    budget = budgets.NOTHING_SAID
    if plan.starts:
        held = quotas.held_by(found.uid) if found.uid else {}
        known = quotas.Account(project, principal.user)
        refused = known.refusals(found.amounts, held)
        refusal = refusal or " ".join(one.sentence for one in refused)
        budget = budgets.verdict(
            project=project,
            owner=row.owner,
            amounts=found.amounts,
            minutes=row.time_limit_minutes,
            uid=found.uid,
        )
        refusal = refusal or (budget.sentence if budget.refusal else "")
        quota, decision = quota_effects(known, found.amounts, held), found.decision
    cost = cost_per_hour(kind.total_of(row))
    said = [refusal] if refusal else []
    if plan.action == "none" and not plan.starts:
        said.append(_("Nothing would change."))
    if plan.restarts:
        said.append(_("It restarts: files are kept, what is in memory is lost."))
    if decision is not None and not refusal:
        said.append(decision.sentence)
    if budget.borrows and not refusal:
        said.append(budget.sentence)
    said += kind.remarks(row, plan.attached)
    said += far_from_its_data(row.pool, kind.class_of(row), plan.attached, project)
    if cost and not refusal:
        said.append(_("It costs %(price)s per hour.") % {"price": price(cost)})
    return replace(
        plan,
        allowed=not refusal,
        refusal=refusal,
        quota=quota,
        decision=decision,
        cost_per_hour=cost,
        sentences=tuple(said),
    )


# --- parts of a plan --------------------------------------------------------------------------


def quota_effects(
    known: quotas.Account, amounts: Mapping[str, int], held: Mapping[str, int]
) -> tuple[QuotaEffect, ...]:
    """Say of each limit that is touched what would be used afterwards."""
    effects = []
    for share in known.shares():
        if share.resource not in amounts:
            continue
        after = share.used + amounts[share.resource] - held.get(share.resource, 0)
        effects.append(
            QuotaEffect(
                resource=share.resource,
                label=label_of(share.resource),
                used=share.used,
                after=after,
                limit=share.limit,
                used_words=words(share.resource, share.used),
                after_words=words(share.resource, after),
                limit_words=share.limit_words,
            )
        )
    return tuple(effects)


def prices() -> dict[str, Decimal]:
    """Return what a GPU of each kind costs per hour, for who asks about many sizes."""
    return dict(Flavor.objects.values_list("name", "price_per_hour"))


def cost_per_hour(size: Resources, known: Mapping[str, Decimal] | None = None) -> Decimal:
    """Return the price of an hour; with "any kind" that of the dearest, never too little."""
    if not size.gpus:
        return Decimal(0)
    known = prices() if known is None else known
    asked = size.kinds or list(known)
    return size.gpus * max((known[name] for name in asked if name in known), default=Decimal(0))


def far_from_its_data(
    pool: str, work_class: str, attached: Attached, project: Project
) -> list[str]:
    """Say of each volume that does not stand near the chosen pool that reading takes longer.

    A home doesn't count: it would draw everything of a person to one place.
    """
    if not pool:
        return []
    volumes = [seen.volume for seen in attached.volumes]
    near = usable_near(volumes, work_class, project)
    said = _("The volume “%(volume)s” stands near %(near)s; reading from %(pool)s will be slower.")
    return [
        said % {"volume": volume.name, "near": ", ".join(names), "pool": pool}
        for volume in volumes
        if (names := [one.name for one in near[volume.uid]]) and pool not in names
    ]
