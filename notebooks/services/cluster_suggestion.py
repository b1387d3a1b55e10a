"""Where a start would go of which only a part is known yet."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from common.errors import BerthError
from notebooks import selectors
from notebooks.services.launch import default_preset
from notebooks.services.resolve import resolved, where_its_volumes_lie
from notebooks.spec import READ, VOLUME_FIELD, WRITE, Wanted
from work.attached import MOST, attached_usually
from work.fields import MAX_GPUS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accounts.principal import Principal
    from projects.models import Project

_WORDS = ("kind", "image", "gpu_flavor", "pool", "network")


def likely_cluster(principal: Principal, project: Project, said: Mapping[str, Any]) -> str:
    """Return the cluster's key; '' where no cluster lets in what is said.

    ``said``: fields of the form, as they were sent.
    """
    gpus = str(said.get("gpus") or "")
    wanted = Wanted(
        gpus=int(gpus) if gpus.isdecimal() and len(gpus) <= len(str(MAX_GPUS)) else None,
        **{name: str(said.get(name) or "") or None for name in _WORDS},  # type: ignore[arg-type]
    )
    try:
        wanted = replace(wanted, volumes=_chosen(principal, project, said))
        wanted = where_its_volumes_lie(principal, project, wanted)
        slug = str(said.get("preset") or "")
        preset = selectors.preset_get(project, slug[:40]) if slug else default_preset(project)
        return resolved(project=project, preset=preset, wanted=wanted).spec.cluster
    except BerthError:
        return ""


def _chosen(principal: Principal, project: Project, said: Mapping[str, Any]) -> list[str]:
    """Return the volumes that somebody chose: what the form offers by itself binds no start."""
    modes = {
        name.removeprefix(VOLUME_FIELD): mode
        for name, mode in said.items()
        if name.startswith(VOLUME_FIELD) and mode
    }
    if not modes:
        return []
    for seen in attached_usually(principal, project).volumes:
        if modes.get(uid := str(seen.volume.uid)) == (READ if seen.read_only else WRITE):
            del modes[uid]
    return list(modes)[:MOST]
