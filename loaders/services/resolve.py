"""What a load names becomes rows: its credential and volume, with the store and cluster of them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings
from django.utils.translation import gettext as _

from clusters.models import Cluster
from clusters.services import ensure_local_cluster
from clusters.usable import usable_clusters
from common.clock import now
from common.errors import Conflict, NotFound, wrong
from common.ids import is_uid
from credentials.selectors import credential_for_use, credentials_usable
from loaders import cron, policies
from loaders.choices import Direction, Mode, StoreKind
from loaders.models import OF_CREDENTIAL
from loaders.services.caches import CACHE, choose_cache
from loaders.services.runs import require_cluster
from runtime.models import ONE_MACHINE
from volumes.choices import VolumeKind
from volumes.selectors import volume_for_use, volumes_mountable
from volumes.services.create import SHARED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accounts.principal import Principal
    from credentials.models import Credential
    from loaders.models import Load
    from loaders.policies import Place
    from projects.models import Project
    from volumes.models import Volume

KINDS = tuple(StoreKind.values)


def look_up(who: Principal, row: Load, said: Mapping[str, Any]) -> None:
    """Write into ``row`` what follows from what was said, or raise what is wrong with it."""
    if row.pk:
        _change_credential(who, row, said)
    else:
        _look_up_new(who, row, said)
    if row.delete_extra and row.mode != Mode.SYNC:
        if said.get("delete_extra"):
            raise wrong("delete_extra", _("Only “sync” deletes what is not in the source."))
        row.delete_extra = False
    if not row.schedule:
        row.time_zone = ""
    elif {"schedule", "time_zone"} & set(said):
        shortest = timedelta(minutes=settings.BERTH_LOAD_SCHEDULE_MINUTES)
        schedule = cron.parse(row.schedule, row.time_zone, now=now(), shortest=shortest)
        row.schedule, row.time_zone = schedule.text, str(schedule.zone)
    if not row.pk and said.get("volume", "").startswith(CACHE):
        choose_cache(who, row, said["volume"], said.get("cache_size_mib"))


def _look_up_new(who: Principal, row: Load, said: Mapping[str, Any]) -> None:
    if "url" not in said:
        raise wrong("url", policies.how_to_write())
    place = policies.parse_url(said["url"])
    credential = find_credential(who, row.project, said.get("credential", ""))
    row.store_kind = _kind(place, credential, row.endpoint)
    policies.check_bucket(row.store_kind, row.bucket)
    row.credential, row.anonymous = credential, credential is None
    target, volume = said.get("volume", ""), None
    if not target.startswith(CACHE) and (volume := find_volume(who, row.project, target)):
        row.volume = volume
    if row.store_kind in {StoreKind.HDFS, StoreKind.MLFLOW} and row.direction == Direction.OUT:
        message = _("Loads read from %(store)s; they write nothing into it.")
        raise wrong("direction", message % {"store": StoreKind(row.store_kind).label})
    row.cluster_key = volume.cluster_key if volume else _default_cluster(row.project).key
    _check_address(row, said)


def _change_credential(who: Principal, row: Load, said: Mapping[str, Any]) -> None:
    if "credential" not in said:
        return
    credential = find_credential(who, row.project, said["credential"])
    if credential is None and not row.anonymous and row.store_kind in OF_CREDENTIAL:
        raise wrong("credential", _("Choose a credential of its store."))
    if credential is not None and credential.kind != row.store_kind:
        raise wrong("credential", _("Choose a credential of the same kind of store."))
    # said so: one that was removed never becomes a public bucket by itself
    row.credential, row.anonymous = credential, credential is None


def _check_address(row: Load, said: Mapping[str, Any]) -> None:
    """Raise unless a public bucket, and no other, says where it lies: a credential knows it."""
    if row.credential is not None:
        for name in ("endpoint", "region", "path_style"):
            if said.get(name):
                raise wrong(name, _("The credential says this."))
    if row.store_kind == StoreKind.GCS and row.endpoint:
        raise wrong("endpoint", _("Google Cloud Storage has one address of its own."))
    if row.endpoint.startswith("http://") and not _is_opened(row.endpoint):
        raise wrong("endpoint", _("The store must be reached by https://."))
    row.path_style = said.get("path_style", bool(row.endpoint))


def _kind(place: Place, credential: Credential | None, endpoint: str) -> str:
    if credential is not None:
        if credential.kind not in place.kinds:
            message = _("“%(name)s” opens %(store)s, not %(scheme)s:// addresses.")
            store = StoreKind(credential.kind).label
            names = {"name": credential.name, "store": store, "scheme": place.scheme}
            raise wrong("credential", message % names)
        return str(credential.kind)
    if place.scheme == "hdfs":
        raise wrong("credential", _("Choose a credential of the Hadoop file system."))
    if place.scheme == "mlflow-artifacts":
        raise wrong("credential", _("Choose a credential of MLflow."))
    if place.scheme == "gs":
        return StoreKind.GCS
    return StoreKind.S3_COMPATIBLE if endpoint else StoreKind.S3


def _is_opened(endpoint: str) -> bool:
    """Whether the operator lets loads speak plain HTTP to this store."""
    parts = urlsplit(endpoint)
    where = f"{parts.hostname}:{parts.port or 80}"
    return where in {name.lower() for name in settings.BERTH_INSECURE_STORES}


def find_credential(who: Principal, project: Project, said: str) -> Credential | None:
    """Return the credential of that uid or name which ``who`` may use; None for ""."""
    if not said:
        return None
    if is_uid(said):
        return credential_for_use(who, project, UUID(said), KINDS)
    found = list(credentials_usable(who, project, KINDS).filter(name=said)[:2])
    if not found:
        raise NotFound(_("There is no such credential, or you may not use it."))
    if len(found) > 1:
        raise wrong("credential", _("Two credentials have this name: name its id."))
    return credential_for_use(who, project, found[0].uid, KINDS)


def find_volume(who: Principal, project: Project, said: str) -> Volume | None:
    """Return the volume of that uid or name; for "" the project's own, None: not made yet.

    Where the project has one on several clusters, one must be named.
    """
    if is_uid(said):
        return volume_for_use(who, project, UUID(said), write=True)
    rows = volumes_mountable(who, project)
    if not said:
        own = _own(project, list(rows.filter(kind=VolumeKind.PROJECT)))
        return volume_for_use(who, project, own.uid, write=True) if own else None
    of_name = rows.filter(kind=VolumeKind.HOME) if said == "home" else rows.filter(name=said)
    found = list(of_name[:2])
    if not found and said == SHARED:  # so plans call the project's own before it is made
        return None
    if not found:
        raise NotFound(_("There is no such volume, or you may not see it."))
    if len(found) > 1:
        raise wrong("volume", _("Volumes on two clusters have this name: name its id."))
    return volume_for_use(who, project, found[0].uid, write=True)


def _own(project: Project, found: list[Volume]) -> Volume | None:
    """Return the project's own volume where a load may run now; Invalid where that is several."""
    if len(found) > 1:
        keys = {cluster.key for cluster in _usable(project)}
        found = [row for row in found if row.cluster_key in keys] or found
    if len(found) > 1:
        ids = ", ".join(f"{row.cluster_key}: {row.uid}" for row in found)
        said = _("The project has a volume of its own on several clusters: name one by its id.")
        raise wrong("volume", f"{said} ({ids})")
    return found[0] if found else None


def _usable(project: Project) -> list[Cluster]:
    hidden = set() if settings.BERTH_LOCAL_CLUSTER else {ONE_MACHINE}
    return [c for c in usable_clusters(project.uid) if not c.drain and c.key not in hidden]


def _default_cluster(project: Project) -> Cluster:
    if settings.BERTH_LOCAL_CLUSTER and not Cluster.objects.filter(key=ONE_MACHINE).exists():
        ensure_local_cluster()  # nothing was looked at yet
    usable = _usable(project)
    if not usable:
        raise Conflict(_("There is no cluster to run it on."), code="no-cluster")
    usable.sort(key=lambda cluster: (cluster.key != ONE_MACHINE, _is_silent(cluster)))
    if len(usable) == 1:
        return usable[0]
    # where all refuse, the first one says why
    return next((c for c in usable if _lets_in(c, project)), usable[0])


def _is_silent(cluster: Cluster) -> bool:
    """Whether it does not answer; of one that was just attached nobody knows."""
    return cluster.key != ONE_MACHINE and cluster.checked_at is not None and not cluster.reachable


def _lets_in(cluster: Cluster, project: Project) -> bool:
    try:
        require_cluster(cluster.key, project)
    except Conflict:
        return False
    return True
