"""Which bytes an image's name means now; asked before a start, never inside a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from images.services import require_good
from notebooks.program import clean_image
from notebooks.services.base import own

if TYPE_CHECKING:
    from accounts.principal import Principal
    from notebooks.models import Workspace
    from notebooks.spec import Spec, Wanted
    from projects.models import Project


def digest_for(principal: Principal, project: Project, spec: Spec) -> str:
    """Return the digest of a new workspace's image, or raise Invalid when it can't work.

    Empty: it has no image of its own, or its registry did not say and a node has to find out.
    """
    return _digest(principal, project, spec.cluster, spec.image, spec.kind)


def digest_edited(principal: Principal, row: Workspace, wanted: Wanted) -> str:
    """Return the digest that goes with an edit: the one it has, while the image stays."""
    own(principal, row)
    image = row.image if wanted.image is None else clean_image(wanted.image)
    if image == row.image:
        return row.image_digest
    return _digest(principal, row.project, row.cluster_key, image, row.kind)


def _digest(principal: Principal, project: Project, cluster: str, image: str, kind: str) -> str:
    if not image:
        return ""
    found = require_good(
        principal=principal, project=project, cluster_key=cluster, reference=image, kind=kind
    )
    return found.digest
