"""Where a start would go of which only a part is known yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from common.errors import BerthError
from notebooks import selectors
from notebooks.models import MAX_GPUS
from notebooks.services.launch import default_preset
from notebooks.services.specify import spec_for
from notebooks.spec import Wanted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from projects.models import Project

_WORDS = ("kind", "image", "gpu_flavor", "pool", "network")


def likely_cluster(project: Project, said: Mapping[str, Any]) -> str:
    """Return the cluster's key; '' where no cluster lets in what is said.

    ``said``: fields of the form, as they were sent.
    """
    gpus = str(said.get("gpus") or "")
    wanted = Wanted(
        gpus=int(gpus) if gpus.isdecimal() and len(gpus) <= len(str(MAX_GPUS)) else None,
        **{name: str(said.get(name) or "") or None for name in _WORDS},  # type: ignore[arg-type]
    )
    try:
        slug = str(said.get("preset") or "")
        preset = selectors.preset_get(project, slug[:40]) if slug else default_preset(project)
        return spec_for(project=project, preset=preset, wanted=wanted).cluster
    except BerthError:
        return ""
