"""Presets are made by operators; everybody else presses them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from clusters.accelerators import is_part
from clusters.models import Cluster, Device, Flavor
from common.errors import Conflict, Forbidden, no_such_field, wrong
from common.ids import slugify
from events import services as events
from events.selectors import of_verb
from notebooks.choices import WorkspaceKind
from notebooks.kind import PRESET_TABLE
from notebooks.models import Preset
from projects.models import Project
from work.fields import Count, Devices
from work.services.resolve import require_known
from work.standard_fields import CLUSTER, ENV, NAME, TIME_LIMIT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from accounts.principal import Principal

_MINUTES = ("time_limit_minutes", "max_time_limit_minutes", "idle_stop_minutes")
_TEXTS = {"description": 300, "icon": 40}
_FIELDS = {
    **{field.name: field for field in PRESET_TABLE},
    "name": replace(NAME, longest=60),
    "cluster_key": replace(CLUSTER, name="cluster_key"),
    "default_env": replace(ENV, name="default_env"),
    "position": Count(name="position", label="", high=100_000),
    **{name: Count(name=name, label="", low=1, high=TIME_LIMIT.high) for name in _MINUTES},
}
_NOTEBOOK_ICON, _CONTAINER_ICON = "notebook", "box"
_DELETED = "preset.deleted"


@dataclass(frozen=True)
class PresetFields:
    """What an operator says of a preset; unknown keys were refused before."""

    values: Mapping[str, Any]
    projects: Sequence[Project] | None = field(default=None)  # None: as it is; empty: all


@transaction.atomic
def preset_create(*, principal: Principal, fields: PresetFields) -> Preset:
    _require_operator(principal)
    preset = Preset(slug=_slug(fields.values))
    _assign(preset, fields.values)
    if not preset.name:
        message = _("Give it a name.")
        raise wrong("name", message)
    preset.save()
    if fields.projects is not None:
        preset.projects.set(fields.projects)
    events.record(actor=principal, verb="preset.created", target=preset)
    return preset


@transaction.atomic
def preset_update(*, principal: Principal, preset: Preset, fields: PresetFields) -> Preset:
    """Change a preset. Workspaces made from it keep what they have."""
    _require_operator(principal)
    row = Preset.objects.select_for_update().get(pk=preset.pk)
    _assign(row, fields.values)
    row.save()
    if fields.projects is not None:
        row.projects.set(fields.projects)
    events.record(
        actor=principal, verb="preset.changed", target=row, data={"fields": sorted(fields.values)}
    )
    return row


@transaction.atomic
def preset_delete(*, principal: Principal, preset: Preset) -> None:
    """Remove a preset. Workspaces made from it stay and keep what they have."""
    _require_operator(principal)
    gone = {"slug": preset.slug}  # what it is known by when the first presets are offered
    events.record(actor=principal, verb=_DELETED, target=preset, data=gone)
    preset.delete()


def ensure_default_presets() -> list[Preset]:
    """Make the first presets where there are none; called at every start, changes nothing then."""
    if Preset.objects.exists():
        return []
    made = [Preset.objects.create(**values) for values in _defaults()]
    gpu = ensure_gpu_preset()
    return [*made, gpu] if gpu else made


def ensure_gpu_preset() -> Preset | None:
    """Offer a GPU once one is seen somewhere, unless an operator made presets or took it away."""
    if Preset.objects.filter(gpus__gt=0).exists():
        return None
    if Preset.objects.exclude(slug__in=[d["slug"] for d in _defaults()]).exists():
        return None
    if not _has_gpus() or _was_deleted(_GPU_PRESET):
        return None
    return Preset.objects.create(**_GPU_PRESET)


def _has_gpus() -> bool:
    """Whether this machine has a GPU, or nodes of a cluster offer a whole one to anybody."""
    if Device.objects.exists():
        return True
    kinds = Cluster.objects.filter(enabled=True).values_list("kinds", flat=True)
    there = {name for found in kinds for name, kind in (found or {}).items() if kind.get("total")}
    return bool(there) and not all(map(is_part, Flavor.objects.filter(name__in=there)))


def _was_deleted(values: Mapping[str, Any]) -> bool:
    """By an operator, at any time: what he does not want is not brought back."""
    gone = of_verb(_DELETED)
    # earlier versions wrote down the name alone
    return gone.filter(Q(data__slug=values["slug"]) | Q(target_name=values["name"])).exists()


def _defaults() -> list[dict[str, Any]]:
    return [
        {
            "slug": "jupyterlab",
            "name": gettext_noop("JupyterLab"),
            "description": gettext_noop("Notebooks, terminal and files."),
            "icon": "notebook",
            "cpu_milli": 2000,
            "memory_mib": 4096,
            "position": 10,
        },
        {
            "slug": "small",
            "name": gettext_noop("Small"),
            "description": gettext_noop(
                "For reading, writing and short scripts; starts when little is free."
            ),
            "icon": "feather",
            "cpu_milli": 1000,
            "memory_mib": 1024,
            "position": 20,
        },
        {
            "slug": "large",
            "name": gettext_noop("Large"),
            "description": gettext_noop(
                "For data that wants memory. Ends after eight hours; can be extended."
            ),
            "icon": "stack-2",
            "cpu_milli": 4000,
            "memory_mib": 8192,
            "time_limit_minutes": 480,
            "max_time_limit_minutes": 2880,
            "position": 30,
        },
    ]


_GPU_PRESET: dict[str, Any] = {
    "slug": "jupyterlab-gpu",
    "name": gettext_noop("JupyterLab + 1 GPU"),
    "description": gettext_noop(
        "One whole GPU of any kind. Ends after eight hours; can be extended."
    ),
    "icon": "cpu-2",
    "cpu_milli": 4000,
    "memory_mib": 16384,
    "gpus": 1,
    "time_limit_minutes": 480,
    "max_time_limit_minutes": 2880,
    "position": 15,
}


def _require_operator(principal: Principal) -> None:
    if not principal.is_operator:
        raise Forbidden(_("Only operators may change presets."))


def _slug(values: Mapping[str, Any]) -> str:
    slug = slugify(str(values.get("slug") or values.get("name") or ""))
    if not slug:
        message = _("Give it a name with at least one Latin letter or digit, or a short name.")
        raise wrong("slug", message)
    if Preset.objects.filter(slug=slug).exists():
        raise Conflict(_("There is a preset with this short name already."), code="name-taken")
    return slug


def _assign(preset: Preset, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if name == "slug":
            continue  # it stands in scripts and files: it never changes
        setattr(preset, name, _clean(name, value))
    limit, longest = preset.time_limit_minutes, preset.max_time_limit_minutes
    if longest is not None and (limit is None or limit > longest):
        message = _("With a longest time, the time limit must be set and not be longer.")
        raise wrong("time_limit_minutes", message)
    _check_kind(preset)


def _check_kind(preset: Preset) -> None:
    if preset.kind == WorkspaceKind.CONTAINER and preset.icon == _NOTEBOOK_ICON:
        preset.icon = _CONTAINER_ICON
    if preset.kind == WorkspaceKind.CONTAINER and not preset.image:
        message = _("Name the image that runs.")
        raise wrong("image", message)
    if preset.kind == WorkspaceKind.NOTEBOOK:
        for name in ("command", "args", "ports"):
            if getattr(preset, name):
                message = _("A notebook runs JupyterLab. Choose a container for this.")
                raise wrong(name, message)


def _clean(name: str, value: Any) -> Any:
    """Clean one field; whether an image exists is asked at each launch, by its cluster."""
    if name in _TEXTS:
        return str(value).strip()[: _TEXTS[name]]
    if name in _MINUTES and value is None:
        return None
    if name == "is_active":
        return bool(value)
    if name not in _FIELDS:
        raise wrong(name, no_such_field(name, _FIELDS))
    field = _FIELDS[name]
    cleaned = field.clean(value)
    if isinstance(field, Devices):
        require_known(field, cleaned)
    return cleaned
