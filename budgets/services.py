"""Setting budgets, asking them in the transaction of a launch, and telling that one is spent."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils import translation
from django.utils.translation import gettext as _

from accounts.models import PlatformRole, User
from budgets import hooks, selectors
from budgets.choices import MAX_DAYS, MAX_HOURS, Mode
from budgets.meters import Meter
from budgets.models import Budget
from budgets.selectors import Books
from common.clock import now
from common.errors import Conflict, Forbidden, Invalid, LimitExceeded
from common.ids import new_uid
from events import services as events
from notifications.services import notify
from projects.choices import Role
from projects.models import Membership
from queues.choices import Beyond

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from accounts.principal import Principal
    from projects.models import Project
    from queues.models import Queue

_FIELDS = ("hours", "days", "mode", "stops")


def require_room(
    *, project: Project, owner: User, uid: UUID, amounts: Mapping[str, int], minutes: int | None
) -> str:
    """Return how the launch stands (``queues.choices.Beyond``), or raise LimitExceeded.

    Call it inside the transaction that writes the intent, after ``quotas.services.reserve``: who
    asks the same budget waits, and then sees what is reserved.
    """
    found = selectors.verdict(
        project=project, owner=owner, amounts=amounts, minutes=minutes, uid=uid, locked=True
    )
    if found.refusal is not None:
        params = found.refusal.params
        raise LimitExceeded(str(found.refusal), extra={"resource": "gpu-hours", **params})
    return Beyond.BORROWS if found.borrows else Beyond.NONE


# --- setting them -----------------------------------------------------------------------------


@transaction.atomic
def budget_make(
    *,
    principal: Principal,
    values: Mapping[str, Any],
    project: Project | None = None,
    user: User | None = None,
    organisation: Queue | None = None,
) -> Budget:
    """Make the budget of a project, of one of its members, or of an organisation."""
    _require_operator(principal)
    if (project is None) == (organisation is None) or (user is not None and project is None):
        raise Invalid(_("A budget is of a project, of a person in one, or of an organisation."))
    if project is not None and project.deleted_at is not None:
        raise Conflict(_("The project is deleted."))
    if organisation is not None and organisation.project_id is not None:
        raise Invalid(_("A budget is of a project, of a person in one, or of an organisation."))
    if user and not Membership.objects.filter(project=project, user=user).exists():
        message = _("This person does not belong to the project.")
        raise Invalid(message, fields={"user": [message]})
    row = Budget(project=project, user=user, organisation=organisation)
    if Budget.objects.filter(project=project, user=user, organisation=organisation).exists():
        raise Conflict(_("It has a budget already: change that one."), code="name-taken")
    return _save(principal, row, values, "budget.created")


@transaction.atomic
def budget_change(*, principal: Principal, budget: Budget, values: Mapping[str, Any]) -> Budget:
    """Change one; below what is spent too: it then goes as if it had just been spent."""
    _require_operator(principal)
    row = Budget.objects.select_for_update(of=("self",)).get(pk=budget.pk)
    return _save(principal, row, values, "budget.changed")


@transaction.atomic
def budget_delete(*, principal: Principal, budget: Budget) -> None:
    _require_operator(principal)
    _record(principal, budget, "budget.deleted", data={"before": _json(budget), "after": {}})
    budget.delete()


def _save(principal: Principal, row: Budget, values: Mapping[str, Any], verb: str) -> Budget:
    before = _json(row) if row.pk else {}
    for name in _FIELDS:
        if name in values:
            setattr(row, name, values[name])
    _check(row)
    after = _json(row)
    if before == after:
        return row
    row.nearly_at = row.spent_at = None  # other numbers are told anew
    row.save()
    changes = [f"{k}: {before.get(k, '-')} → {v}" for k, v in after.items() if v != before.get(k)]
    data = {"before": before, "after": after}
    _record(principal, row, verb, message=", ".join(changes) if before else "", data=data)
    return row


def _check(row: Budget) -> None:
    wrong: dict[str, list[str]] = {}
    is_number = isinstance(row.hours, Decimal | int) and Decimal(row.hours).is_finite()
    if not is_number or not 0 <= row.hours <= MAX_HOURS:
        wrong["hours"] = [_("A number from 0 to %(n)d.") % {"n": MAX_HOURS}]
    if type(row.days) is not int or not 1 <= row.days <= MAX_DAYS:
        wrong["days"] = [_("A whole number from 1 to %(n)d.") % {"n": MAX_DAYS}]
    if row.mode not in Mode.values:
        wrong["mode"] = [_("There is no such choice.")]
    elif row.stops and row.mode != Mode.HARD:
        wrong["stops"] = [_("Only a hard budget stops what runs.")]
    if wrong:
        raise Invalid(next(iter(wrong.values()))[0], fields=wrong)
    row.hours = Decimal(row.hours).quantize(Decimal("0.01"))


def _json(row: Budget) -> dict[str, Any]:
    hours = f"{Decimal(row.hours).quantize(Decimal('0.01')).normalize():f}"
    return {"hours": hours, "days": row.days, "mode": str(row.mode), "stops": row.stops}


def _record(actor: Principal | None, row: Budget, verb: str, **more: Any) -> None:
    events.record(
        actor=actor,
        verb=verb,
        target_kind=Budget.KIND,
        target_name=str(row),
        project_uid=row.project.uid if row.project else None,
        **more,
    )


def _require_operator(principal: Principal) -> None:
    if not principal.is_operator:
        raise Forbidden(_("Only operators set budgets."))


# --- what follows -----------------------------------------------------------------------------


def look() -> int:
    """Look at every budget: tell what is nearly spent, or spent, once in a window; then what is
    beyond one goes as it says. Return how many were told.
    """
    books = Books.of(selectors.every())
    told = sum(_tell(meter) for meter in books.meters if meter.is_nearly)
    hooks.looked(books)
    return told


@transaction.atomic
def _tell(meter: Meter) -> bool:
    """Tell it once in a window; two who look at once tell it once."""
    row = Budget.objects.select_for_update(of=("self",)).filter(pk=meter.budget.pk).first()
    column = "spent_at" if meter.is_spent else "nearly_at"
    at = now()
    if row is None or _within(getattr(row, column), at - timedelta(days=row.days)):
        return False
    if row.updated_at != meter.budget.updated_at:
        return False  # it is another one meanwhile
    if meter.is_spent:
        row.nearly_at = row.nearly_at or at
    setattr(row, column, at)
    Budget.objects.filter(pk=row.pk).update(nearly_at=row.nearly_at, spent_at=row.spent_at)
    verb = "budget.spent" if meter.is_spent else "budget.nearly-spent"
    data = {"spent": str(round(meter.spent, 4)), "hours": str(row.hours), "days": row.days}
    _record(None, meter.budget, verb, data=data)
    event = new_uid()
    for person in _readers(meter.budget):
        with translation.override(person.reads_in):
            said = {
                "name": str(meter.budget),
                "spent": meter.spent_words,
                "then": _then(meter),
            }
        url = f"/projects/{meter.budget.project.slug}/" if meter.budget.project else ""
        notify(
            users=[person],
            kind="budget.spent" if meter.is_spent else "budget.nearly",
            params=said,
            url=url or "/console/budgets/",
            key=f"{meter.budget.uid}/{column}",
            project_id=meter.budget.project_id,
            event=event,
        )
    return True


def _within(told: Any, since: Any) -> bool:
    return told is not None and told > since


def _then(meter: Meter) -> str:
    """What follows, and when."""
    if not meter.is_spent:
        return meter.forecast_words
    if meter.budget.mode == Mode.SOFT:
        said = _("More work only borrows GPUs, and gives them back first.")
    elif meter.budget.stops:
        said = _("Nothing new starts, and what runs with GPUs is stopped.")
    else:
        said = _("Nothing new starts; what runs goes on.")
    return f"{said} {meter.again}"


def _readers(budget: Budget) -> list[User]:
    """Return who is told: the person, those who lead the project; of an organisation, operators."""
    if budget.project is None:
        return list(User.objects.filter(platform_role=PlatformRole.OPERATOR, is_active=True))
    leading = Membership.objects.filter(
        project=budget.project, role__in=[Role.OWNER, Role.MANAGER], user__is_active=True
    ).select_related("user")
    found = {one.user.pk: one.user for one in leading}
    if budget.user is not None:
        found.setdefault(budget.user.pk, budget.user)
    return list(found.values())
