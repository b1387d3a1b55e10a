"""From what was said to a whole specification, with every rule applied once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from clusters.models import Flavor
from common.errors import wrong
from notebooks import selectors
from notebooks.choices import WorkspaceKind
from notebooks.kind import TABLE
from notebooks.models import Preset, Workspace
from notebooks.services.placing import Placed, placed, placed_there
from notebooks.spec import (
    FIXED,
    PUBLIC,
    RESTARTING,
    Spec,
    Wanted,
)
from placement.decision import names_in
from work.services.attachments import cluster_of_volumes
from work.standard_fields import ENV, TIME_LIMIT

if TYPE_CHECKING:
    from accounts.principal import Principal
    from placement.fleet import Fleet
    from projects.models import Project

# Of a preset's program only what belongs to the kind that is wanted.
_OF_A_KIND = ("image", "command", "args", "ports")
_CLEANED = ("env", "time_limit_minutes")  # before they are merged
_SAID = RESTARTING | {"time_limit_minutes"}


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
        wanted = _with_env(wanted, {**preset.default_env, **ENV.clean(wanted.env)})
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
        wanted = _with_env(wanted, ENV.clean(wanted.env))
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
    given = {name: v for name, v in wanted.given().items() if name in _SAID}
    longest = preset.max_time_limit_minutes if preset else None
    if (minutes := given.pop("time_limit_minutes", None)) is not None:
        given["time_limit_minutes"] = TIME_LIMIT.clean(minutes, longest=longest)
    said = {**given, **TABLE.clean({n: v for n, v in given.items() if n not in _CLEANED})}
    if (name := said.get("environment")) is not None:
        _check_environment(project, base.environment, name)
    if (flavors := said.get("gpu_flavor")) and flavors != base.gpu_flavor:
        check_flavors(flavors)
    found = replace(base, **said)
    return found if found.gpus else replace(found, gpu_flavor="")


def check_flavors(said: str) -> None:
    """Raise Invalid unless each kind of GPU is known somewhere."""
    if set(names_in(said)) - set(Flavor.objects.values_list("name", flat=True)):
        raise wrong("gpu_flavor", _("There is no such kind of GPU."))


def _check_environment(project: Project, default: str, asked: str) -> None:
    """Raise Invalid unless an operator offers it in this project: a name of nobody's choosing."""
    if asked == default or asked in (offered := environments_of(project)):
        return
    message = _("There is no such environment here. Choose one of: %(names)s.") % {
        "names": ", ".join(offered)
    }
    raise wrong("environment", message)


def environments_of(project: Project) -> list[str]:
    return sorted(set(selectors.presets_for(project).values_list("environment", flat=True)))


def _with_env(wanted: Wanted, env: dict[str, str]) -> Wanted:
    said: dict[str, Any] = {**wanted.given(), "env": env}
    return Wanted(**said)
