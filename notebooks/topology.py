"""A workspace near its data: told where another pool than one near its volumes was chosen.

Its home doesn't count: every workspace has one, and it would draw all of them to one place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from volumes.topology import usable_near

if TYPE_CHECKING:
    from collections.abc import Sequence

    from notebooks.spec import Spec
    from projects.models import Project
    from volumes.models import Volume


def far_from_its_data(spec: Spec, volumes: Sequence[Volume], project: Project) -> list[str]:
    """Say of each volume that does not stand near the chosen pool that reading takes longer."""
    if not spec.pool:
        return []
    near = usable_near(volumes, spec.kind, project)
    said = _("The volume “%(volume)s” stands near %(near)s; reading from %(pool)s will be slower.")
    return [
        said % {"volume": volume.name, "near": ", ".join(names), "pool": spec.pool}
        for volume in volumes
        if (names := [pool.name for pool in near[volume.uid]]) and spec.pool not in names
    ]
