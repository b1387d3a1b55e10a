"""From what was said to a whole specification, with every rule applied once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from clusters.models import Flavor
from common.errors import Invalid
from notebooks import selectors
from notebooks.models import MAX_CPU_MILLI, MAX_GPUS, MAX_MEMORY_MIB, Preset, Workspace
from notebooks.spec import (
    Spec,
    Wanted,
    clean_count,
    clean_env,
    clean_time_limit,
    is_storable,
)

if TYPE_CHECKING:
    from projects.models import Project


def spec_for(*, project: Project, preset: Preset, wanted: Wanted) -> Spec:
    """Return the specification of a new workspace: the preset with what was said on top."""
    base = Spec(
        environment=preset.environment,
        cpu_milli=preset.cpu_milli,
        memory_mib=preset.memory_mib,
        gpus=preset.gpus,
        gpu_flavor=preset.gpu_flavor,
        env=dict(preset.default_env),
        time_limit_minutes=preset.time_limit_minutes,
    )
    # What a person adds goes on top of what the operator set; an empty mapping adds nothing.
    if wanted.env is not None:
        wanted = _with_env(wanted, {**preset.default_env, **clean_env(wanted.env)})
    return _merge(project, preset, base, wanted)


def spec_of(row: Workspace) -> Spec:
    return Spec(
        environment=row.environment,
        cpu_milli=row.cpu_milli,
        memory_mib=row.memory_mib,
        gpus=row.gpus,
        gpu_flavor=row.gpu_flavor,
        env=dict(row.env),
        time_limit_minutes=row.time_limit_minutes,
    )


def spec_edited(row: Workspace, wanted: Wanted) -> Spec:
    """Return the specification of ``row`` after an edit; ``env`` is replaced as a whole."""
    if wanted.env is not None:
        wanted = _with_env(wanted, clean_env(wanted.env))
    return _merge(row.project, row.preset, spec_of(row), wanted)


def _merge(project: Project, preset: Preset | None, base: Spec, wanted: Wanted) -> Spec:
    gpus = _count("gpus", wanted.gpus, base.gpus, low=0, high=MAX_GPUS)
    return Spec(
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
    )


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
        raise Invalid(message, fields={"environment": [message]})
    return asked


def environments_of(project: Project) -> list[str]:
    return sorted(set(selectors.presets_for(project).values_list("environment", flat=True)))


def _flavor(default: str, asked: str | None) -> str:
    if asked is None or asked in {"", default}:
        return default if asked is None else asked
    if not is_storable(asked) or not Flavor.objects.filter(name=asked).exists():
        message = _("There is no such kind of GPU.")
        raise Invalid(message, fields={"gpu_flavor": [message]})
    return asked


def _with_env(wanted: Wanted, env: dict[str, str]) -> Wanted:
    said: dict[str, Any] = {**wanted.given(), "env": env}
    return Wanted(**said)
