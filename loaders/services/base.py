"""What every write to a load shares: right, lock, wake-up, news."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from accounts.principal import Principal
from clusters.options import options_of
from clusters.usable import launch_check
from clusters.where import image_cluster
from common.errors import Conflict, Forbidden
from credentials.selectors import credential_for_use
from loaders.models import Load
from loaders.selectors import RELATED
from projects.access import Permission, denial, permissions_of, require
from projects.services.life import require_active
from runtime.bus import publish
from runtime.hints import hint
from runtime.protocol import Desired
from volumes.selectors import require_room, volume_for_use
from volumes.services.base import volumes_hold

if TYPE_CHECKING:
    from projects.models import Project


def is_own(who: Principal, row: Load) -> bool:
    return row.owner_id == who.user.pk


def may_change(who: Principal, row: Load) -> bool:
    """Whether ``who`` may start and edit it: the owner, and whoever manages loads and may load.

    An operator manages, but starts nothing in projects of others.
    """
    granted = permissions_of(who, row.project)
    if Permission.LOAD_CREATE not in granted:
        return False
    return is_own(who, row) or Permission.LOAD_MANAGE in granted


def may_end(who: Principal, row: Load) -> bool:
    """Whether ``who`` may pause, cancel and delete it: the owner always, managers too."""
    granted = permissions_of(who, row.project)
    if Permission.LOAD_MANAGE in granted:
        return True
    return (
        is_own(who, row)
        and Permission.LOAD_READ in granted
        and who.allows_scope(Permission.LOAD_CREATE)
    )


def require_change(who: Principal, row: Load) -> None:
    require(who, row.project, Permission.LOAD_READ)
    require(who, row.project, Permission.LOAD_CREATE)
    if not may_change(who, row):
        raise Forbidden(denial(Permission.LOAD_MANAGE))


def require_end(who: Principal, row: Load) -> None:
    require(who, row.project, Permission.LOAD_READ)
    if not may_end(who, row):
        raise Forbidden(denial(Permission.LOAD_MANAGE))


def require_startable(who: Principal, row: Load) -> None:
    """Raise unless the load may run now: for whoever asks, and as its owner, as whom it runs.

    In the transaction of the start: nothing puts its volume back, removes it or hands it over
    before that ends.
    """
    volumes_hold([row.volume])
    require_active(row.project)
    if not is_own(who, row):
        owner = Principal(user=row.owner)
        if Permission.LOAD_CREATE not in permissions_of(owner, row.project):
            raise Conflict(
                _("It runs as %(owner)s, who may not load data in this project any more.")
                % {"owner": row.owner.label},
                code="owner-left",
            )
        _require_parts(owner, row)
    _require_parts(who, row)
    require_cluster(row.cluster_key, row.project)


def _require_parts(who: Principal, row: Load) -> None:
    if row.credential is None and not row.anonymous:
        raise Conflict(
            _("Its credential was removed. Choose another one in its settings."),
            code="credential-gone",
        )
    if row.credential is not None:
        credential_for_use(who, row.project, row.credential.uid)
    # an export writes too: what it remembers lies in the volume
    volume = volume_for_use(who, row.project, row.volume.uid, write=True)
    if row.direction == "in":
        require_room(volume)


def require_cluster(cluster_key: str, project: Project) -> None:
    """Raise Conflict where no load can run."""
    launch_check(cluster_key, project.uid)
    cluster = image_cluster(cluster_key)
    if cluster is not None and not options_of(cluster.options).data_image:
        raise Conflict(
            _("On this cluster no data can be loaded yet: its operator names the image for it."),
            code="no-data-image",
        )


def lock(row: Load) -> Load:
    """Return the row as it is now, locked; Conflict when it is being deleted."""
    found = Load.objects.select_for_update(of=("self",)).select_related(*RELATED).get(pk=row.pk)
    if found.desired == Desired.ABSENT or found.deleted_at is not None:
        raise Conflict(_("This load is being deleted."), code="deleting")
    return found


def topics(row: Load) -> list[str]:
    return [f"load:{row.uid}", f"project:{row.project.uid}", f"user:{row.owner.uid}"]


def changed(row: Load) -> None:
    """Wake the engine and tell open pages, both after commit."""
    hint(row)
    publish(topics(row), {"kind": row.KIND, "uid": str(row.uid)})
