"""The plan before the act: the same answer in the form's foot, ``berth loads plan`` and the API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from common.errors import Conflict, Invalid
from common.ids import next_name
from common.manifests import Change
from common.templatetags.berth import filesize
from loaders import policies, selectors
from loaders.choices import Direction, Mode
from loaders.concurrency import bound
from loaders.models import ACTIVE, Load
from loaders.services.base import require_change
from loaders.services.create import check, same_as, target_of
from loaders.services.edit import changed_fields, check_edit
from loaders.services.resolve import spec_edited, spec_for, spec_of
from loaders.spec import CACHE, PUBLIC, Spec, Wanted
from projects.access import Permission, require
from projects.services.life import require_active
from quotas import selectors as quotas
from quotas.choices import STORAGE_MIB, words
from volumes.choices import VolumeKind
from volumes.selectors import room_left
from volumes.services.create import SHARED
from volumes.services.manifest import volume_plan

if TYPE_CHECKING:
    from accounts.principal import Principal
    from projects.models import Project
    from volumes.services.create import NewVolume


@dataclass(frozen=True)
class Plan:
    """``action`` is create, update or none; ``allowed`` False: it would be refused now.

    ``sentences`` say what happens, ``warnings`` what one may not expect.
    """

    action: str
    name: str
    spec: Spec
    changes: tuple[Change, ...] = ()
    allowed: bool = True
    refusal: str = ""
    starts_now: bool | None = None
    position: int | None = None
    same: Load | None = None
    sentences: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def load_plan(
    *, principal: Principal, project: Project, wanted: Wanted, load: Load | None = None
) -> Plan:
    """Say what making a load (or an edit of ``load``) would do now. Changes nothing."""
    if load is not None:
        return _plan_edit(principal, load, wanted)
    require(principal, project, Permission.LOAD_CREATE)
    require_active(project)
    spec = spec_for(who=principal, project=project, wanted=wanted)
    taken = selectors.names_taken(project)
    place = policies.parse_url(spec.url)
    name = (
        policies.clean_name(wanted.name)
        if wanted.name
        else next_name(policies.name_for(place), taken)
    )
    refusal = _refusal(principal, project, spec)
    if name in taken:
        refusal = _("There is a load of that name in this project already.")
    running = Load.objects.filter(ACTIVE, project=project).count()
    ahead = max(0, running - bound())
    same = same_as(project, spec)
    return Plan(
        action="create",
        name=name,
        spec=spec,
        changes=tuple(Change(k, None, v) for k, v in public_fields(spec).items() if v),
        allowed=not refusal,
        refusal=refusal,
        starts_now=running < bound(),
        position=None if running < bound() else ahead + 1,
        same=same,
        sentences=tuple(_sentences(spec, running)),
        warnings=tuple(_warnings(spec, same)),
    )


def _plan_edit(principal: Principal, load: Load, wanted: Wanted) -> Plan:
    require_change(principal, load)
    before, after = spec_of(load), spec_edited(who=principal, row=load, wanted=wanted)
    fields = changed_fields(before, after)
    old, new = public_fields(before), public_fields(after)
    changes = [Change(name, old[name], new[name]) for name in fields]
    name = policies.clean_name(wanted.name) if wanted.name else load.name
    if name != load.name:
        changes.insert(0, Change("name", load.name, name))
    refusal = ""
    try:
        check_edit(load, after, fields)
    except (Conflict, Invalid) as error:
        refusal = error.message
    sentences = [] if changes else [_("Nothing would change.")]
    return Plan(
        action="update" if changes else "none",
        name=name,
        spec=after,
        changes=tuple(changes),
        allowed=not refusal,
        refusal=refusal,
        sentences=tuple(sentences),
        warnings=tuple(_warnings(after, None)) if changes else (),
    )


def _refusal(principal: Principal, project: Project, spec: Spec) -> str:
    try:
        check(project, spec)
    except (Conflict, Invalid) as error:
        return error.message
    if spec.cache is not None:
        made = volume_plan(principal=principal, project=project, wanted=spec.cache)
        if not made.allowed:
            return made.refusal
    amounts = {
        "cpu_milli": settings.BERTH_LOAD_CPU_MILLI,
        "memory_mib": settings.BERTH_LOAD_MEMORY_MIB,
    }
    return quotas.would_fit(project=project, owner=principal.user, amounts=amounts).sentence


def public_fields(spec: Spec) -> dict[str, Any]:
    """Return a description as it is told: rows by their names, nothing secret."""
    found = {name: getattr(spec, name) for name in PUBLIC}
    found["credential"] = spec.credential.name if spec.credential else None
    found["volume"] = spec.volume.mount_name if spec.volume else SHARED
    if spec.cache is not None:
        found["volume"] = f"{CACHE}{spec.cache.near}"
        found["cache_size_mib"] = spec.cache.size_mib
    found["direction"], found["mode"] = spec.direction.value, spec.mode.value
    return found


def _sentences(spec: Spec, running: int) -> list[str]:
    there = spec.volume.name if spec.volume else _("the project's volume")
    if spec.cache is not None:
        there = spec.cache.name
    folder = spec.folder if spec.is_export else target_of(spec)
    names = {"url": spec.url, "volume": f"{there}/{folder}" if folder else there}
    if spec.direction == Direction.OUT:
        said = [_("Copies “%(volume)s” to %(url)s.") % names]
    elif spec.objects:
        text = ngettext(
            "Copies %(n)d object of %(url)s into “%(volume)s”.",
            "Copies %(n)d objects of %(url)s into “%(volume)s”.",
            len(spec.objects),
        )
        said = [text % {**names, "n": len(spec.objects)}]
    else:
        said = [_("Copies everything below %(url)s into “%(volume)s”.") % names]
    if running >= bound():
        said.append(
            ngettext(
                "It waits: %(n)d load of the project runs at once.",
                "It waits: %(n)d loads of the project run at once.",
                bound(),
            )
            % {"n": bound()}
        )
    else:
        said.append(_("It starts now. No GPU is used."))
    return said


def _warnings(spec: Spec, same: Load | None) -> list[str]:
    said = []
    if same is not None:
        said.append(
            _("“%(name)s” makes the same copy already: use it instead of a second one.")
            % {"name": same.name}
        )
    if spec.delete_extra:
        said.append(
            _("What is in the bucket below this path and not in the volume is deleted.")
            if spec.is_export
            else _("What is in the folder and not in the bucket is deleted.")
        )
    if spec.anonymous:
        said.append(_("No credential: the bucket must be open to everybody."))
    if spec.mode == Mode.SYNC and not spec.delete_extra:
        said.append(_("What is only in the target stays: deleting it was not asked for."))
    if spec.cache is not None:
        said.append(_made_first(spec.cache))
        return said
    if spec.volume is None:
        said.append(_("The project's volume is made first."))
        return said
    if spec.volume.kind == VolumeKind.HOME and not spec.is_export:
        said.append(_("Only you will see it: this is your home."))
    left = room_left(spec.volume)
    if left is not None and not spec.is_export:
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
