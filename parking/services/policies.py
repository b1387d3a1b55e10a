"""Setting idle policies: operators may; a change is audited with what it would give back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zoneinfo import available_timezones

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from common.errors import Conflict, Forbidden, Invalid, wrong
from events import services as events
from parking import dry_run
from parking.choices import WEEK, Act, State
from parking.models import IdlePolicy, Stretch
from parking.policies import kind_named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accounts.principal import Principal
    from projects.models import Project
    from queues.models import Queue

FIELDS = (
    *("kind", "state", "minutes", "grace", "act", "gpu_below", "cpu_below", "memory_below"),
    *("network_below", "extension", "extensions", "weekdays", "from_hour", "until_hour", "zone"),
)


@transaction.atomic
def policy_make(
    *,
    principal: Principal,
    values: Mapping[str, Any],
    project: Project | None = None,
    organisation: Queue | None = None,
) -> IdlePolicy:
    """Make the policy of a project, of an organisation, or (neither) of the platform."""
    _require_operator(principal)
    if project is not None and organisation is not None:
        raise Invalid(_("A policy is of a project, of an organisation, or of the platform."))
    if organisation is not None and organisation.project_id is not None:
        raise Invalid(_("A policy is of a project, of an organisation, or of the platform."))
    if project is not None and project.deleted_at is not None:
        raise Conflict(_("The project is deleted."))
    row = IdlePolicy(project=project, organisation=organisation)
    kind = values.get("kind", "")
    if IdlePolicy.objects.filter(project=project, organisation=organisation, kind=kind).exists():
        raise Conflict(_("There is one for it already: change that one."), code="name-taken")
    return _save(principal, row, values, "idle-policy.created")


@transaction.atomic
def policy_change(
    *, principal: Principal, policy: IdlePolicy, values: Mapping[str, Any]
) -> IdlePolicy:
    """Change one; what is idle by it is looked at anew: nobody is surprised by a shorter time."""
    _require_operator(principal)
    row = IdlePolicy.objects.select_for_update(of=("self",)).get(pk=policy.pk)
    return _save(principal, row, values, "idle-policy.changed")


@transaction.atomic
def policy_delete(*, principal: Principal, policy: IdlePolicy) -> None:
    _require_operator(principal)
    data = {"before": _json(policy), "after": {}}
    _record(principal, policy, "idle-policy.deleted", data=data)
    Stretch.objects.filter(policy=policy).delete()
    policy.delete()


def checked(row: IdlePolicy) -> IdlePolicy:
    """Return the row when all that it says makes sense together; Invalid otherwise."""
    kind = kind_named(row.kind) if row.kind else None
    if row.kind and kind is None:
        raise wrong("kind", _("There is no such kind of work."))
    if kind is not None and kind.once and row.act == Act.PARK:
        raise wrong("act", _("What runs to its end can't be parked: tell its owner, or stop it."))
    row.weekdays = "".join(sorted(set(row.weekdays)))
    if not row.weekdays or set(row.weekdays) - set(WEEK):
        raise wrong("weekdays", _("Digits from 1 (Monday) to 7 (Sunday)."))
    if row.from_hour >= row.until_hour:
        raise wrong("until_hour", _("It must end after it begins."))
    if row.zone not in available_timezones():
        raise wrong("zone", _("There is no such time zone."))
    try:
        row.full_clean(exclude=["project", "organisation"], validate_constraints=False)
    except ValidationError as error:
        raise Invalid(_("Some numbers can't be so."), fields=error.message_dict) from error
    return row


def _save(
    principal: Principal, row: IdlePolicy, values: Mapping[str, Any], verb: str
) -> IdlePolicy:
    before = _json(row) if row.pk else {}
    for name in FIELDS:
        if name in values:
            setattr(row, name, values[name])
    after = _json(checked(row))
    if before == after:
        return row
    if after["state"] != State.OFF:
        after["gpu_hours"] = str(round(dry_run.look_back(row, days=7).gpu_hours, 1))
    row.save()
    Stretch.objects.filter(policy=row).delete()
    changes = [f"{k}: {before.get(k, '-')} → {v}" for k, v in after.items() if v != before.get(k)]
    data = {"before": before, "after": after}
    _record(principal, row, verb, message=", ".join(changes) if before else "", data=data)
    return row


def _json(row: IdlePolicy) -> dict[str, str]:
    return {name: str(getattr(row, name)) for name in FIELDS}


def _record(principal: Principal, row: IdlePolicy, verb: str, **said: Any) -> None:
    uid = row.project.uid if row.project else None
    events.record(actor=principal, verb=verb, target=row, project_uid=uid, **said)


def _require_operator(principal: Principal) -> None:
    if not principal.is_operator:
        raise Forbidden(_("Only operators may do this."))
