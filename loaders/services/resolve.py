"""From what was said to a whole description, with every rule applied once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
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
from loaders.models import Load
from loaders.services.base import require_cluster
from loaders.services.caches import is_cache_of, with_cache
from loaders.spec import CACHE, FIXED, OF_CREDENTIAL, Spec, Wanted
from runtime.models import ONE_MACHINE
from volumes.choices import VolumeKind
from volumes.models import Volume
from volumes.selectors import volume_for_use, volumes_mountable
from volumes.services.create import SHARED

if TYPE_CHECKING:
    from accounts.principal import Principal
    from credentials.models import Credential
    from loaders.policies import Place
    from projects.models import Project

KINDS = tuple(StoreKind.values)


def spec_for(*, who: Principal, project: Project, wanted: Wanted) -> Spec:
    """Return the description of a new load, or raise what is wrong with it."""
    if not wanted.url:
        raise wrong("url", policies.how_to_write())
    place = policies.parse_url(wanted.url)
    credential = find_credential(who, project, wanted.credential or "")
    kind = _kind(place, credential, wanted)
    policies.check_bucket(kind, place.bucket)
    target = (wanted.volume or "").strip()
    volume = None if target.startswith(CACHE) else find_volume(who, project, target)
    direction = Direction(_choice("direction", wanted.direction, Direction.values, Direction.IN))
    if kind == StoreKind.HDFS and direction == Direction.OUT:
        raise wrong("direction", _("Loads read a Hadoop file system; they write nothing into it."))
    spec = Spec(
        direction=direction,
        kind=kind,
        bucket=place.bucket,
        prefix=place.prefix,
        credential=credential,
        anonymous=credential is None,
        volume=volume,
        cluster_key=volume.cluster_key if volume else _default_cluster(project).key,
        folder=policies.clean_folder(wanted.folder or ""),
        objects=policies.clean_objects(wanted.objects or ()),
        version=policies.clean_word("version", wanted.version or ""),
        **_address(kind, credential, wanted),
        **_how(wanted, None),
        **schedule_of(wanted, None),
    )
    if not target.startswith(CACHE):
        return spec
    size = wanted.cache_size_mib
    return with_cache(spec, who=who, project=project, said=target, size_mib=size)


def spec_edited(*, who: Principal, row: Load, wanted: Wanted) -> Spec:
    """Return the description of ``row`` after an edit; what is fixed may only be repeated."""
    before = spec_of(row)
    _check_fixed(who, row, before, wanted)
    credential, anonymous = before.credential, before.anonymous
    if wanted.credential is not None:
        credential = find_credential(who, row.project, wanted.credential)
        if credential is None and not row.anonymous and row.store_kind in OF_CREDENTIAL:
            raise wrong("credential", _("Choose a credential of its store."))
        if credential is not None and credential.kind != row.store_kind:
            raise wrong("credential", _("Choose a credential of the same kind of store."))
        anonymous = credential is None  # said so; a removed one never becomes that by itself
    fields = {name: getattr(before, name) for name in Spec.__dataclass_fields__}
    fields |= {"credential": credential, "anonymous": anonymous}
    fields |= _how(wanted, before)
    fields |= schedule_of(wanted, before)
    return Spec(**fields)


def spec_of(row: Load) -> Spec:
    return Spec(
        direction=Direction(row.direction),
        kind=row.store_kind,
        bucket=row.bucket,
        prefix=row.prefix,
        credential=row.credential,
        anonymous=row.anonymous,
        volume=row.volume,
        cluster_key=row.cluster_key,
        folder=row.folder,
        mode=Mode(row.mode),
        delete_extra=row.delete_extra,
        include=list(row.include),
        exclude=list(row.exclude),
        objects=row.objects_listed,
        bandwidth_bytes_s=row.bandwidth_bytes_s,
        version=row.version,
        endpoint=row.endpoint,
        region=row.region,
        path_style=row.path_style,
        schedule=row.schedule,
        time_zone=row.time_zone,
    )


def columns_of(spec: Spec) -> dict[str, Any]:
    """Return the columns that hold ``spec``, but for the volume."""
    return {
        "cluster_key": spec.cluster_key,
        "direction": spec.direction,
        "mode": spec.mode,
        "credential": spec.credential,
        "anonymous": spec.anonymous,
        "store_kind": spec.kind,
        "bucket": spec.bucket,
        "prefix": spec.prefix,
        "objects_listed": spec.objects,
        "endpoint": spec.endpoint,
        "region": spec.region,
        "path_style": spec.path_style,
        "version": spec.version,
        "folder": spec.folder,
        "include": spec.include,
        "exclude": spec.exclude,
        "delete_extra": spec.delete_extra,
        "bandwidth_bytes_s": spec.bandwidth_bytes_s,
        "schedule": spec.schedule,
        "time_zone": spec.time_zone,
    }


def fingerprint_of(spec: Spec, volume: Volume) -> str:
    """Return what two loads have in common that would make the same copy."""
    return policies.fingerprint(
        direction=spec.direction,
        kind=spec.kind,
        store=spec.store,
        bucket=spec.bucket,
        prefix=spec.prefix,
        objects=sorted(spec.objects) if spec.objects else None,
        include=sorted(spec.include),
        exclude=sorted(spec.exclude),
        version=spec.version,
        volume=str(volume.uid),
        folder=spec.folder,
    )


# --- rows that are named ----------------------------------------------------------------------


def find_credential(who: Principal, project: Project, said: str) -> Credential | None:
    """Return the credential of that uid or name which ``who`` may use; None for ""."""
    said = said.strip()
    if not said:
        return None
    if is_uid(said):
        return credential_for_use(who, project, UUID(said), KINDS)
    rows = credentials_usable(who, project, KINDS).filter(name=said[:63])
    found = list(rows[:2]) if "\0" not in said else []
    if not found:
        raise NotFound(_("There is no such credential, or you may not use it."))
    if len(found) > 1:
        raise wrong("credential", _("Two credentials have this name: name its id."))
    return credential_for_use(who, project, found[0].uid, KINDS)


def find_volume(who: Principal, project: Project, said: str) -> Volume | None:
    """Return the volume of that uid or name; for "" the project's own, None: not made yet.

    Where the project has one on several clusters, one must be named.
    """
    said = said.strip()
    if is_uid(said):
        return volume_for_use(who, project, UUID(said), write=True)
    rows = volumes_mountable(who, project)
    if not said:
        own = _own(project, list(rows.filter(kind=VolumeKind.PROJECT)))
        return volume_for_use(who, project, own.uid, write=True) if own else None
    of_name = rows.filter(kind=VolumeKind.HOME) if said == "home" else rows.filter(name=said[:63])
    found = list(of_name[:2]) if "\0" not in said else []
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


# --- single fields ----------------------------------------------------------------------------


def _kind(place: Place, credential: Credential | None, wanted: Wanted) -> str:
    if credential is not None:
        if credential.kind not in place.kinds:
            raise wrong(
                "credential",
                _("“%(name)s” opens %(store)s, not %(scheme)s:// addresses.")
                % {
                    "name": credential.name,
                    "store": StoreKind(credential.kind).label,
                    "scheme": place.scheme,
                },
            )
        return str(credential.kind)
    if place.scheme == "hdfs":
        raise wrong("credential", _("Choose a credential of the Hadoop file system."))
    if place.scheme == "gs":
        return StoreKind.GCS
    return StoreKind.S3_COMPATIBLE if (wanted.endpoint or "").strip() else StoreKind.S3


def _address(kind: str, credential: Credential | None, wanted: Wanted) -> dict[str, Any]:
    """Return where a public bucket lies; a credential says it itself."""
    said = {"endpoint": wanted.endpoint, "region": wanted.region, "path_style": wanted.path_style}
    if credential is not None:
        for name, value in said.items():
            if value:
                raise wrong(name, _("The credential says this."))
        return {"endpoint": "", "region": "", "path_style": False}
    endpoint = policies.clean_endpoint(wanted.endpoint or "")
    if kind == StoreKind.GCS and endpoint:
        raise wrong("endpoint", _("Google Cloud Storage has one address of its own."))
    if endpoint.startswith("http://") and not _is_opened(endpoint):
        raise wrong("endpoint", _("The store must be reached by https://."))
    return {
        "endpoint": endpoint,
        "region": policies.clean_region(wanted.region or ""),
        "path_style": bool(wanted.path_style) if wanted.path_style is not None else bool(endpoint),
    }


def _is_opened(endpoint: str) -> bool:
    """Whether the operator lets loads speak plain HTTP to this store."""
    parts = urlsplit(endpoint)
    where = f"{parts.hostname}:{parts.port or 80}"
    return where in {name.lower() for name in settings.BERTH_INSECURE_STORES}


def _how(wanted: Wanted, before: Spec | None) -> dict[str, Any]:
    """Return the fields that an edit may change too."""
    mode = Mode(_choice("mode", wanted.mode, Mode.values, before.mode if before else Mode.COPY))
    extra = wanted.delete_extra
    if extra is None:
        extra = before.delete_extra if before else False
    if extra and mode != Mode.SYNC:
        if wanted.delete_extra:
            raise wrong("delete_extra", _("Only “sync” deletes what is not in the source."))
        extra = False
    bandwidth = before.bandwidth_bytes_s if before else None
    if wanted.bandwidth_bytes_s is not None:
        bandwidth = policies.clean_bandwidth(wanted.bandwidth_bytes_s)
    found: dict[str, Any] = {
        "mode": mode,
        "delete_extra": bool(extra),
        "bandwidth_bytes_s": bandwidth,
    }
    for name in ("include", "exclude"):
        said = getattr(wanted, name)
        kept = list(getattr(before, name)) if before else []
        found[name] = kept if said is None else policies.clean_patterns(name, said)
    return found


def schedule_of(wanted: Wanted, before: Spec | None) -> dict[str, Any]:
    text = wanted.schedule if wanted.schedule is not None else (before.schedule if before else "")
    zone = wanted.time_zone
    if zone is None:
        zone = before.time_zone if before else ""
    if not text.strip():
        return {"schedule": "", "time_zone": ""}
    schedule = parsed(text, zone)
    return {"schedule": schedule.text, "time_zone": str(schedule.zone)}


def parsed(text: str, zone: str) -> cron.Schedule:
    shortest = timedelta(minutes=settings.BERTH_LOAD_SCHEDULE_MINUTES)
    return cron.parse(text, zone, now=now(), shortest=shortest)


def _choice(field: str, said: str | None, known: list[str], default: str) -> str:
    if not said:
        return default
    if said not in known:
        raise wrong(field, _("One of: %(names)s.") % {"names": ", ".join(known)})
    return said


def _check_fixed(who: Principal, row: Load, before: Spec, wanted: Wanted) -> None:
    """Raise unless what can't be changed is as it was."""
    said = wanted.given()
    same: dict[str, Callable[[Any], bool]] = {
        "url": lambda value: _is_place(before, policies.parse_url(value)),
        "volume": lambda value: (
            is_cache_of(before, value)
            if value.startswith(CACHE)
            else find_volume(who, row.project, value) == before.volume
        ),
        "folder": lambda value: policies.clean_folder(value) == before.folder,
        "objects": lambda value: policies.clean_objects(value) == before.objects,
    }
    for name in FIXED:
        is_same = same.get(name, partial(_is_equal, getattr(before, name)))
        if name in said and not is_same(said[name]):
            raise wrong(name, _("It is chosen when a load is made. Make another one instead."))


def _is_place(before: Spec, place: Place) -> bool:
    return before.kind in place.kinds and (place.bucket, place.prefix) == (
        before.bucket,
        before.prefix,
    )


def _is_equal(before: Any, value: Any) -> bool:
    return bool(before == value)
