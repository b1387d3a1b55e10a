"""Reserving within limits, releasing what is gone, and setting limits."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction
from django.utils import translation
from django.utils.translation import gettext as _

from accounts.models import User
from accounts.principal import Principal
from common.clock import now
from common.disk import require_room
from common.errors import Conflict, Forbidden, Invalid, LimitExceeded
from common.ids import new_uid
from events.services import record
from notifications.services import notify
from projects.choices import Role
from projects.models import Membership, Project
from projects.services.life import require_active
from quotas import selectors
from quotas.choices import MAX_AMOUNT, is_resource, label_of, words
from quotas.models import Limit, Reservation
from quotas.policies import Ceiling, refusals


def reserve(
    *,
    principal: Principal,
    project: Project,
    owner: User,
    uid: UUID,
    amounts: Mapping[str, int],
    launch: int = 0,
    is_new: bool = False,
) -> None:
    """Reserve ``amounts`` for the workload ``uid``, or raise LimitExceeded and keep nothing.

    Call it inside the transaction that writes the intent: both happen or neither does. What
    the same workload held before is replaced, so this is also how an edit adjusts it. One that
    ``is_new`` was made by this transaction and held nothing.
    """
    if not transaction.get_connection().in_atomic_block:
        message = "reserve() belongs inside the transaction of the intent"
        raise RuntimeError(message)
    require_active(project)
    require_room()  # also of what begins by itself
    _check_amounts(amounts)
    # The lock: whoever reserves against the same limit waits here and then sees our rows.
    limits = list(
        selectors.limits_over(project, owner)
        .filter(resource__in=list(amounts))
        .order_by("pk")
        .select_for_update()
    )
    found = refusals(
        amounts,
        {} if is_new else selectors.held_by(uid),
        _ceilings_without(uid, project, owner, limits),
        owner="" if principal.user.pk == owner.pk else owner.username,
    )
    if found:
        sentence = " ".join(r.sentence for r in found)
        raise LimitExceeded(sentence, extra=found[0].extra)
    if not is_new:
        Reservation.objects.filter(workload_uid=uid).delete()
    _keep(project=project, owner=owner, uid=uid, amounts=amounts, launch=launch)


def _ceilings_without(
    uid: UUID, project: Project, owner: User, limits: list[Limit]
) -> list[Ceiling]:
    if not limits:
        return []
    used = selectors.usage_by_scope(project, owner, without=uid)
    return selectors.ceilings(limits, used)


def lower(uid: UUID, amounts: Mapping[str, int]) -> None:
    """Free what ``uid`` holds beyond ``amounts``. It asks nobody: there is only less afterwards."""
    for resource, amount in amounts.items():
        held = Reservation.objects.filter(workload_uid=uid, resource=resource, amount__gt=amount)
        if amount:
            held.update(amount=amount)
        else:
            held.delete()


def release(uid: UUID, *, up_to_launch: int | None = None) -> int:
    """Free what ``uid`` holds; only of launches up to ``up_to_launch`` when it is given."""
    rows = Reservation.objects.filter(workload_uid=uid)
    if up_to_launch is not None:
        rows = rows.filter(launch__lte=up_to_launch)
    return rows.delete()[0]


@dataclass(frozen=True)
class Effect:
    """What follows from a limit that was set: who is above it now."""

    resource: str
    limit: int | None
    used: int

    @property
    def is_over(self) -> bool:
        return self.limit is not None and self.used > self.limit

    @property
    def sentence(self) -> str:
        what = label_of(self.resource)
        if self.limit is None:
            return _("%(what)s: no limit any more.") % {"what": what}
        numbers = {
            "what": what,
            "used": words(self.resource, self.used),
            "limit": words(self.resource, self.limit),
        }
        if self.is_over:
            return (
                _(
                    "%(what)s: %(used)s taken, above the new limit of %(limit)s. What runs goes "
                    "on; nothing more starts until enough has ended."
                )
                % numbers
            )
        if self.used == self.limit:
            return _("%(what)s: all of %(limit)s is taken; nothing more starts now.") % numbers
        return _("%(what)s: %(used)s of %(limit)s taken.") % numbers


def limits_effect(
    *, limits: Mapping[str, int | None], project: Project | None = None, user: User | None = None
) -> list[Effect]:
    """Say what would follow from ``limits``, without changing anything (the editor's panel)."""
    _check_limits(limits, project, user)
    rows = Reservation.objects.all()
    if project is not None:
        rows = rows.filter(project=project)
    if user is not None:
        rows = rows.filter(owner=user)
    used: dict[str, int] = {}
    for resource, amount in rows.values_list("resource", "amount"):
        used[resource] = used.get(resource, 0) + amount
    return [Effect(resource=k, limit=v, used=used.get(k, 0)) for k, v in limits.items()]


@transaction.atomic
def limits_set(
    *,
    principal: Principal,
    limits: Mapping[str, int | None],
    project: Project | None = None,
    user: User | None = None,
) -> list[Effect]:
    """Set the given limits (None removes one) and return what follows. Operators only.

    Lowering below what is used is allowed: nothing is stopped, nothing more starts.
    """
    if not principal.is_operator:
        raise Forbidden(_("Only operators set limits."))
    effects = limits_effect(limits=limits, project=project, user=user)
    limits_there = Limit.objects.filter(project=project, user=user, each=False)
    before = {x.resource: x.amount for x in limits_there.select_for_update()}
    for resource, amount in limits.items():
        if amount is None:
            limits_there.filter(resource=resource).delete()
        else:
            limits_there.update_or_create(
                project=project, user=user, resource=resource, defaults={"amount": amount}
            )
    record(
        actor=principal,
        verb="quota.changed",
        target=project or user,
        project_uid=project.uid if project else None,
        message=", ".join(f"{k}: {before.get(k, '-')} → {_shown(v)}" for k, v in limits.items()),
        data={"user": user.username if user else "", "before": before, "limits": dict(limits)},
    )
    lowered = [k for k, v in limits.items() if v is not None and v < before.get(k, MAX_AMOUNT)]
    if lowered:
        _tell_lowered(project, user, [e for e in effects if e.resource in lowered], before)
    return effects


def _shown(amount: int | None) -> str:
    return "-" if amount is None else str(amount)


def _check_amounts(amounts: Mapping[str, int]) -> None:
    for key, amount in amounts.items():
        if not is_resource(key) or not 0 <= amount <= MAX_AMOUNT:
            raise Invalid(_("“%(key)s” can't be reserved.") % {"key": key[:80]})


def _check_limits(
    limits: Mapping[str, int | None], project: Project | None, user: User | None
) -> None:
    if project is None and user is None:
        raise Invalid(_("A limit belongs to a project, a person, or a person in a project."))
    wrong = {
        key[:80]: [_("Not something that has a limit, or not a whole number from 0.")]
        for key, amount in limits.items()
        if not is_resource(key)
        or not (amount is None or (type(amount) is int and 0 <= amount <= MAX_AMOUNT))
    }
    if wrong:
        raise Invalid(_("Some limits are not right."), fields=wrong)
    if project is not None and project.deleted_at is not None:
        raise Conflict(_("The project is deleted."))


def _keep(
    *, project: Project, owner: User, uid: UUID, amounts: Mapping[str, int], launch: int
) -> None:
    at = now()
    Reservation.objects.bulk_create(
        Reservation(
            workload_uid=uid,
            project=project,
            owner=owner,
            resource=key,
            amount=amount,
            launch=launch,
            reserved_at=at,
        )
        for key, amount in amounts.items()
        if amount
    )


def _tell_lowered(
    project: Project | None, user: User | None, effects: list[Effect], before: Mapping[str, int]
) -> None:
    """Tell those whom a limit concerns that is lower than before, or new."""
    told = [user] if user is not None else []
    if user is None and project is not None:
        leading = Membership.objects.filter(
            project=project, role__in=[Role.OWNER, Role.MANAGER], user__is_active=True
        ).select_related("user")
        told = [m.user for m in leading]
    event = new_uid()
    for person in told:
        with translation.override(person.reads_in):
            said = [_changed(e.resource, before.get(e.resource), e.limit) for e in effects]
        notify(
            users=[person],
            kind="quota.lowered",
            params={
                "name": project.name if project else person.label,
                "what": ", ".join(said),
            },
            url=f"/projects/{project.slug}/" if project else "/",
            project_id=project.pk if project else None,
            event=event,
        )


def _changed(resource: str, before: int | None, amount: int | None) -> str:
    said = {
        "label": label_of(resource),
        "now": words(resource, amount or 0),
        "before": "" if before is None else words(resource, before),
    }
    if before is None:
        return _("%(label)s: %(now)s (no limit before)") % said
    return _("%(label)s: %(now)s (%(before)s before)") % said
