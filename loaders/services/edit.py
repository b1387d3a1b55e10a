"""Changing how a load runs, and when. What it copies where is chosen once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction
from django.utils.translation import gettext as _

from common.errors import Conflict, wrong
from events import services as events
from loaders import policies, selectors
from loaders.models import Load
from loaders.services.base import changed, lock, require_change
from loaders.services.create import require_folder
from loaders.services.resolve import columns_of, fingerprint_of, spec_edited, spec_of
from loaders.services.schedules import next_run
from loaders.spec import HARMLESS, PUBLIC, Wanted
from volumes.services.base import volume_take_turn

if TYPE_CHECKING:
    from accounts.principal import Principal
    from loaders.spec import Spec

# Without these the same objects are wanted: what was loaded stays loaded.
_WHAT = frozenset({"include", "exclude"})


@transaction.atomic
def load_edit(*, principal: Principal, load: Load, wanted: Wanted) -> Load:
    """Change name, credential, patterns, mode, bandwidth or schedule."""
    require_change(principal, load)
    row = lock(load)
    before, after = spec_of(row), spec_edited(who=principal, row=row, wanted=wanted)
    fields = changed_fields(before, after)
    if _rename(row, wanted):
        fields.insert(0, "name")
    if after.schedule and row.next_run_at is None and "schedule" not in fields:
        fields.append("schedule")  # it rested; whoever saves it lets the clock start it again
    if not fields:
        return row
    if _minds_folder(after, fields):
        volume_take_turn(row.volume)
    check_edit(row, after, fields)
    for name, value in columns_of(after).items():
        setattr(row, name, value)
    if {"schedule", "time_zone"} & set(fields):
        row.next_run_at = next_run(row.schedule, row.time_zone)
        row.schedule_note = ""
    if _WHAT & set(fields):
        row.fingerprint = fingerprint_of(after, row.volume)
        row.loaded_at = None
    row.generation += 1
    row.save()
    events.record(
        actor=principal,
        verb="load.edited",
        target=row,
        project_uid=row.project.uid,
        data={"fields": fields},
    )
    changed(row)
    return row


def changed_fields(before: Spec, after: Spec) -> list[str]:
    found = [name for name in PUBLIC if getattr(before, name) != getattr(after, name)]
    if before.anonymous != after.anonymous and "credential" not in found:
        found.append("credential")
    return found


def check_edit(row: Load, after: Spec, fields: list[str]) -> None:
    """Raise for what can't be changed now."""
    if row.is_active and set(fields) - HARMLESS:
        raise Conflict(_("It runs now: pause it before changing how it copies."), code="running")
    if _minds_folder(after, fields):
        require_folder(row.volume, after, but=row)


def _minds_folder(after: Spec, fields: list[str]) -> bool:
    """Whether what other loads bring into the same folder matters to this change."""
    return (after.delete_extra and "delete_extra" in fields) or bool(_WHAT & set(fields))


def _rename(row: Load, wanted: Wanted) -> bool:
    if wanted.name is None:
        return False
    name = policies.clean_name(wanted.name)
    if name == row.name:
        return False
    if name in selectors.names_taken(row.project):
        raise wrong("name", _("There is a load of that name in this project already."))
    row.name = name
    return True
