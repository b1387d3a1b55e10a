"""What a job takes over from the workspace that it is made in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext

from clusters.models import Cluster
from clusters.options import options_of
from common.errors import wrong
from images.services import pinned
from jobs.models import Job
from projects.access import require
from runtime.protocol import Desired
from work import kinds
from work.attached import Attached, attached_to
from work.selectors import visible_to
from work.services.attachments import require_usable_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accounts.principal import Principal
    from projects.models import Project

KIND = "workspace"
_NO_MODULE = re.compile(r"No module named '([A-Za-z0-9_]{1,80})")
_SAME = ("environment", "cluster_key", "cpu_milli", "memory_mib", "gpus", "gpu_flavor", "shm_mib")


def of_a_workspace(principal: Principal, project: Project, said: Mapping[str, Any]) -> Job:
    """Return a row that begins as the workspace that was said, or as any job begins."""
    row = Job(project=project, owner=principal.user, kind=Job.KIND, cluster_key="")
    if not (name := str(said.get("workspace") or "")):
        return row
    origin = _own(principal, project, name)
    for column in _SAME:
        setattr(row, column, getattr(origin, column))
    row.env, row.env_of_workspace = dict(origin.env), origin.env
    row.made_in, row.made_in_uid = origin.short_id, origin.uid
    row.home = origin.home
    cluster = Cluster.objects.filter(key=origin.cluster_key).first()
    if cluster is not None and cluster.runs_images:
        image = pinned(origin.image, origin.image_digest) if origin.image else ""
        row.image = image or options_of(cluster.options).default_image
    row.smoke = True
    return row


def attached_there(principal: Principal, row: Job) -> Attached | None:
    """Return what that workspace sees: a job sees it too, where nothing else was said."""
    if not row.made_in or row.pk is not None:
        return None
    found = attached_to(_own(principal, row.project, row.made_in))
    require_usable_by(principal, row.project, found)
    return found


def lacking(row: Job) -> str:
    """Return what to do where its program found no module, which its workspace may have had.

    Of a pod only the image and the home are there again.
    """
    found = _NO_MODULE.search(row.failure) if row.made_in and row.image else None
    if found is None:
        return ""
    said = gettext(
        "“%(module)s” is neither in its image nor in your home. Install it in the workspace with "
        "pip install --user, or in a virtual environment in your home, and start again."
    )
    return said % {"module": found[1]}


def _own(principal: Principal, project: Project, name: str) -> Any:
    """Return a workspace of one's own, by id or by name."""
    require(principal, project, kinds.kind_of(KIND).read)  # its variables and its home go along
    rows = visible_to(principal, kinds.kind_of(KIND), project).filter(owner=principal.user)
    rows = rows.exclude(desired=Desired.ABSENT).select_related("home", "project", "owner")
    rows = rows.defer(None)
    found = rows.filter(short_id=name).first() or rows.filter(name=name).first()
    if found is None:
        raise wrong("workspace", gettext("You have no workspace of that name in this project."))
    return found
