"""Which bytes an image's name means now; asked before a start, never inside a transaction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from common.errors import wrong
from images.services import require_good
from notebooks.services.base import own
from work.standard_fields import IMAGE

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
    """Return the digest that goes with an edit: the one it has, while the image stays.

    ``newest_image``: what the tag means now.
    """
    own(principal, row)
    image = row.image if wanted.image is None else IMAGE.clean(wanted.image)
    if wanted.newest_image:
        return _newest(principal, row, image)
    if image == row.image:
        return row.image_digest
    return _digest(principal, row.project, row.cluster_key, image, row.variant)


def image_named(row: Workspace, wanted: Wanted) -> Wanted:
    """Return ``wanted`` with the image said: a digest never goes to what another edit wrote."""
    if not wanted.newest_image or wanted.image is not None:
        return wanted
    return replace(wanted, image=row.image)


def pins(row: Workspace, wanted: Wanted, fields: list[str], digest: str) -> list[str]:
    """Return the column that an edit pins anew beside ``fields``, as a list of none or one."""
    is_newer = wanted.newest_image and "image" not in fields and digest != row.image_digest
    return ["image_digest"] if is_newer else []


def _newest(principal: Principal, row: Workspace, image: str) -> str:
    """Ask the registry itself, not what it said a minute ago: somebody may just have pushed."""
    if not image:
        raise wrong("newest_image", _("It has no image of its own: operators choose this one."))
    found = require_good(
        principal=principal,
        project=row.project,
        cluster_key=row.cluster_key,
        reference=image,
        kind=row.variant,
        fresh=True,
    )
    if not found.digest:
        message = _("What the tag means now could not be learned, so nothing was changed: %(why)s")
        raise wrong("newest_image", message % {"why": found.message})
    return found.digest


def _digest(principal: Principal, project: Project, cluster: str, image: str, kind: str) -> str:
    if not image:
        return ""
    found = require_good(
        principal=principal, project=project, cluster_key=cluster, reference=image, kind=kind
    )
    return found.digest
