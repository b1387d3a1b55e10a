"""From what was said to a whole specification, with every rule applied once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from clusters.models import Flavor
from common.errors import wrong
from notebooks import program, selectors
from notebooks.choices import WorkspaceKind
from notebooks.models import Preset, Workspace
from notebooks.services.placing import Placed, placed, placed_there
from notebooks.spec import (
    FIXED,
    PUBLIC,
    RESTARTING,
    Spec,
    Wanted,
    clean_count,
    clean_env,
    clean_time_limit,
)
from work.fields import MAX_CPU_MILLI, MAX_GPUS, MAX_MEMORY_MIB
from work.services.attachments import cluster_of_volumes

if TYPE_CHECKING:
    from accounts.principal import Principal
    from placement.fleet import Fleet
    from projects.models import Project

# Of a preset's program only what belongs to the kind that is wanted.
_OF_A_KIND = ("image", "command", "args", "ports")


def resolved(
    *, project: Project, preset: Preset, wanted: Wanted, fleet: Fleet | None = None
) -> Placed:
    """Return the specification of a new workspace: the preset with what was said on top.

    ``fleet``: a look at the clusters of the project, where the caller has one.
    """
    kind = _kind(preset, wanted)
    base = _base(preset, kind)
    if wanted.image not in {None, "", base.image}:
        base = replace(base, command=[], args=[], ports=[])  # they belong to the preset's image
    # What a person adds goes on top of what the operator set; an empty mapping adds nothing.
    if wanted.env is not None:
        wanted = _with_env(wanted, {**preset.default_env, **clean_env(wanted.env)})
    spec = _merge(project, preset, base, wanted)
    return placed(project=project, spec=spec, wanted=wanted, preset=preset, fleet=fleet)


def where_its_volumes_lie(principal: Principal, project: Project, wanted: Wanted) -> Wanted:
    """Return ``wanted`` on the cluster of the volumes that it names, unless it names a cluster."""
    key = cluster_of_volumes(principal, project, wanted.given())
    return replace(wanted, cluster=key) if key else wanted


def spec_of_preset(preset: Preset) -> Spec:
    """Return what a press on its card asks for, on no cluster yet."""
    return _base(preset, preset.kind)


def spec_of(row: Workspace) -> Spec:
    return Spec(
        **{name: getattr(row, _column(name)) for name in PUBLIC},
        env=dict(row.env),
    )


def columns_of(spec: Spec) -> dict[str, Any]:
    """Return the columns of a workspace that hold ``spec``."""
    found = {_column(name): getattr(spec, name) for name in PUBLIC}
    lists = {name: list(found[name]) for name in ("command", "args", "ports")}
    return {**found, **lists, "env": dict(spec.env)}


def _column(name: str) -> str:
    return {"cluster": "cluster_key", "kind": "variant"}.get(name, name)


def edited(row: Workspace, wanted: Wanted) -> Placed:
    """Return the specification of ``row`` after an edit; ``env`` is replaced as a whole."""
    before = spec_of(row)
    for name in sorted(FIXED):
        asked = getattr(wanted, name)
        if asked not in {None, "", getattr(before, name)}:
            message = _("It is chosen when a workspace is made. Make another one instead.")
            raise wrong(name, message)
    if wanted.env is not None:
        wanted = _with_env(wanted, clean_env(wanted.env))
    spec = _merge(row.project, row.preset, before, wanted)
    if not RESTARTING.intersection(changed_fields(before, spec)):
        # what runs stays as it is, whatever its cluster offers by now
        return Placed(spec, row.project, row.uid)
    return placed_there(project=row.project, spec=spec, wanted=wanted, uid=row.uid)


def changed_fields(before: Spec, after: Spec) -> list[str]:
    names = [*sorted(RESTARTING), "time_limit_minutes"]
    return [name for name in names if _plain(getattr(before, name)) != _plain(getattr(after, name))]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _kind(preset: Preset, wanted: Wanted) -> str:
    """Return what it is: as said; else a container when only that has what was said."""
    if wanted.kind is not None:
        if wanted.kind not in WorkspaceKind.values:
            message = _("One of: %(names)s.") % {"names": ", ".join(WorkspaceKind.values)}
            raise wrong("kind", message)
        return wanted.kind
    if wanted.command or wanted.args or wanted.ports:
        return WorkspaceKind.CONTAINER.value  # as it is written into a file
    return preset.kind


def _base(preset: Preset, kind: str) -> Spec:
    values = {name: getattr(preset, name) for name in PUBLIC if name not in FIXED}
    if kind != preset.kind:
        empty = Spec("", 0, 0, 0, "", {}, None)
        values.update({name: getattr(empty, name) for name in _OF_A_KIND})
    # ``cluster`` of a preset is where it may run, decided together with what was said
    return Spec(**{**values, "kind": kind, "cluster": ""}, env=dict(preset.default_env))


def _merge(project: Project, preset: Preset | None, base: Spec, wanted: Wanted) -> Spec:
    gpus = _count("gpus", wanted.gpus, base.gpus, low=0, high=MAX_GPUS)
    return Spec(
        kind=base.kind,
        cluster=base.cluster,
        environment=_environment(project, base.environment, wanted.environment),
        cpu_milli=_count("cpu_milli", wanted.cpu_milli, base.cpu_milli, 100, MAX_CPU_MILLI),
        memory_mib=_count("memory_mib", wanted.memory_mib, base.memory_mib, 256, MAX_MEMORY_MIB),
        gpus=gpus,
        gpu_flavor=_flavor(base.gpu_flavor, wanted.gpu_flavor) if gpus else "",
        env=dict(wanted.env) if wanted.env is not None else base.env,
        time_limit_minutes=clean_time_limit(
            wanted.time_limit_minutes,
            default=base.time_limit_minutes,
            longest=preset.max_time_limit_minutes if preset else None,
        ),
        **_program(base, wanted),
    )


def _program(base: Spec, wanted: Wanted) -> dict[str, Any]:
    given = wanted.given()
    found: dict[str, Any] = {
        "image": base.image,
        "command": list(base.command),
        "args": list(base.args),
        "ports": list(base.ports),
        "pool": base.pool,
        "network": base.network,
    }
    if "image" in given:
        found["image"] = program.clean_image(given["image"])
    for name in ("command", "args"):
        if name in given:
            found[name] = program.clean_words(name, given[name])
    if "ports" in given:
        found["ports"] = program.clean_ports(given["ports"])
    for name in ("pool", "network"):
        if name in given:
            found[name] = program.clean_slug(name, given[name])
    found["shm_mib"] = _count("shm_mib", wanted.shm_mib, base.shm_mib, 0, MAX_MEMORY_MIB)
    return found


def _count(field: str, asked: int | None, default: int, low: int, high: int) -> int:
    return default if asked is None else clean_count(field, asked, low=low, high=high)


def _environment(project: Project, default: str, asked: str | None) -> str:
    """Return one that an operator offers in this project: a name of nobody's choosing."""
    if asked is None or asked == default:
        return default
    offered = environments_of(project)
    if asked not in offered:
        message = _("There is no such environment here. Choose one of: %(names)s.") % {
            "names": ", ".join(offered)
        }
        raise wrong("environment", message)
    return asked


def environments_of(project: Project) -> list[str]:
    return sorted(set(selectors.presets_for(project).values_list("environment", flat=True)))


def _flavor(default: str, asked: str | None) -> str:
    if asked is None or asked in {"", default}:
        return default if asked is None else asked
    return program.clean_flavors(asked, Flavor.objects.values_list("name", flat=True))


def _with_env(wanted: Wanted, env: dict[str, str]) -> Wanted:
    said: dict[str, Any] = {**wanted.given(), "env": env}
    return Wanted(**said)
