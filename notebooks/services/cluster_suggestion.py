"""Where a start would go of which only a part is known yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from common.errors import BerthError
from notebooks.kind import WORKSPACE
from work.attached import MOST, READ, VOLUME_FIELD, WRITE, attached_usually
from work.fields import MAX_GPUS
from work.services.resolve import resolved

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accounts.principal import Principal
    from projects.models import Project

_WORDS = ("preset", "kind", "image", "gpu_flavor", "pool", "network")


def likely_cluster(principal: Principal, project: Project, said: Mapping[str, Any]) -> str:
    """Return the cluster's key; '' where no cluster lets in what is said.

    ``said``: fields of the form, as they were sent.
    """
    gpus = str(said.get("gpus") or "")
    found: dict[str, Any] = {name: str(said[name]) for name in _WORDS if said.get(name)}
    if gpus.isdecimal() and len(gpus) <= len(str(MAX_GPUS)):
        found["gpus"] = int(gpus)
    if volumes := _chosen(principal, project, said):
        found["volumes"] = volumes
    asked: dict[str, Any] = {"principal": principal, "project": project, "kind": WORKSPACE}
    try:
        return str(resolved(**asked, said=found).row.cluster_key)
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
