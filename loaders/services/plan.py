"""What a plan says of a load: where its data comes to, whether it waits, what to mind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from common.errors import BerthError
from common.templatetags.berth import filesize
from loaders.choices import Mode
from loaders.concurrency import bound
from loaders.models import ACTIVE, Load
from loaders.services.create import check_new, same_as
from quotas import selectors as quotas
from quotas.choices import STORAGE_MIB, words
from volumes.choices import VolumeKind
from volumes.selectors import room_left
from volumes.services.manifest import volume_plan
from work.services.plan import Plan

if TYPE_CHECKING:
    from accounts.principal import Principal
    from volumes.services.create import NewVolume
    from work.services.resolve import Resolved


@dataclass(frozen=True)
class LoadPlan(Plan):
    """``warnings`` say what one may not expect; ``same`` is a load that makes the same copy."""

    starts_now: bool | None = None
    place: int | None = None  # in the line of the project; None: none
    same: Load | None = None
    warnings: tuple[str, ...] = ()


def judge(principal: Principal, found: Resolved, plan: Plan) -> LoadPlan:
    """Add what limits and the line of the project say, and the sentences that a person reads."""
    row, refusal, is_new = found.row, plan.refusal, plan.action == "create"
    running = Load.objects.filter(ACTIVE, project=row.project).count() if plan.starts else 0
    waits = running >= bound()
    same = same_as(row) if is_new else None
    if is_new:
        refusal = refusal or _refusal(principal, row, found.amounts)
    said = [_copies(row)] if is_new else []
    if plan.starts:
        said.append(_starts(waits=waits))
    elif plan.action == "none":
        said.append(_("Nothing would change."))
    told: dict[str, Any] = vars(plan) | {
        "refusal": refusal,
        "allowed": not refusal,
        "sentences": tuple(said),
    }
    if is_new:
        told["changes"] = tuple(change for change in plan.changes if change.after)
    return LoadPlan(
        **told,
        starts_now=not waits if plan.starts else None,
        place=running - bound() + 1 if waits else None,
        same=same,
        warnings=tuple(_warnings(row, same)) if plan.action != "none" else (),
    )


def _refusal(principal: Principal, row: Load, amounts: dict[str, int]) -> str:
    try:
        check_new(row)
    except BerthError as error:
        return error.message
    if row.cache is not None:
        made = volume_plan(principal=principal, project=row.project, wanted=row.cache)
        if not made.allowed:
            return made.refusal
    return quotas.would_fit(project=row.project, owner=principal.user, amounts=amounts).sentence


def _copies(row: Load) -> str:
    there = row.volume.name if row.volume_id else _("the project's volume")
    if row.cache is not None:
        there = row.cache.name
    folder = row.folder if row.is_export else row.target
    names = {"url": row.url, "volume": f"{there}/{folder}" if folder else there}
    if row.is_export:
        return _("Copies “%(volume)s” to %(url)s.") % names
    if row.objects_listed:
        text = ngettext(
            "Copies %(n)d object of %(url)s into “%(volume)s”.",
            "Copies %(n)d objects of %(url)s into “%(volume)s”.",
            len(row.objects_listed),
        )
        return text % {**names, "n": len(row.objects_listed)}
    return _("Copies everything below %(url)s into “%(volume)s”.") % names


def _starts(*, waits: bool) -> str:
    if not waits:
        return _("It starts now. No GPU is used.")
    text = ngettext(
        "It waits: %(n)d load of the project runs at once.",
        "It waits: %(n)d loads of the project run at once.",
        bound(),
    )
    return text % {"n": bound()}


def _warnings(row: Load, same: Load | None) -> list[str]:
    said = []
    if same is not None:
        message = _("“%(name)s” makes the same copy already: use it instead of a second one.")
        said.append(message % {"name": same.name})
    if row.delete_extra:
        said.append(
            _("What is in the bucket below this path and not in the volume is deleted.")
            if row.is_export
            else _("What is in the folder and not in the bucket is deleted.")
        )
    if row.anonymous:
        said.append(_("No credential: the bucket must be open to everybody."))
    if row.mode == Mode.SYNC and not row.delete_extra:
        said.append(_("What is only in the target stays: deleting it was not asked for."))
    if row.cache is not None:
        said.append(_made_first(row.cache))
        return said
    if row.volume_id is None:
        said.append(_("The project's volume is made first."))
        return said
    if row.volume.kind == VolumeKind.HOME and not row.is_export:
        said.append(_("Only you will see it: this is your home."))
    left = room_left(row.volume)
    if left is not None and not row.is_export:
        said.append(_("%(size)s are left in the volume.") % {"size": filesize(left)})
    return said


def _made_first(cache: NewVolume) -> str:
    names = {
        "name": cache.name,
        "size": words(STORAGE_MIB, cache.size_mib),
        "pool": cache.near,
    }
    if cache.near:
        return _("The cache “%(name)s” of %(size)s is made first, near %(pool)s.") % names
    return _("The cache “%(name)s” of %(size)s is made first.") % names
