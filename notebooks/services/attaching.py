"""What a workspace is given besides its home: volumes, credentials, data that must be there first.

What is said by name or id becomes a row through the door of its own app, for the owner of the
workspace: what he may not use is refused like what is not there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from django.utils.translation import gettext as _

from common.errors import Conflict, Invalid, NotFound
from credentials import selectors as credentials
from loaders import selectors as loads
from loaders.models import Load
from notebooks.models import Workspace
from notebooks.spec import ATTACHED
from projects.access import Permission, permissions_of
from volumes import selectors as volumes
from volumes.choices import VolumeKind
from volumes.services.base import volume_note_use, volumes_hold
from volumes.services.create import project_volume_ensure
from work.fields import is_storable
from work.models import WorkloadCredential, WorkloadNeed, WorkloadVolume

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django.db.models import Model, QuerySet

    from accounts.principal import Principal
    from credentials.models import Credential
    from notebooks.spec import Wanted
    from projects.models import Project
    from volumes.models import Volume

MOST = 20  # of each
_MAX_WORD = 200
_READ_ONLY = ":ro"
# How a form says it: one field for each volume, named by its uid.
VOLUME_FIELD = "volume-"
WRITE, READ = "rw", "ro"

Row = TypeVar("Row", bound="Model")


@dataclass(frozen=True)
class Seen:
    """A volume as a workspace sees it."""

    volume: Volume
    read_only: bool

    def said(self) -> dict[str, Any]:
        return {"volume": self.volume.name, "read_only": self.read_only}


@dataclass(frozen=True)
class Attached:
    """Everything that is attached; ``with_shared``: the project's volume by itself."""

    volumes: tuple[Seen, ...] = ()
    credentials: tuple[Credential, ...] = ()
    needs: tuple[Load, ...] = ()
    with_shared: bool = False  # decided by nobody: made with the workspace

    def public(self) -> dict[str, list[Any]]:
        """Return it as a form, a file and the API say it."""
        return {
            "volumes": [seen.said() for seen in self.volumes],
            "credentials": [row.name for row in self.credentials],
            "needs": [row.name for row in self.needs],
        }

    def detailed(self) -> dict[str, list[dict[str, Any]]]:
        """Return it with what tells the rows apart, for the answer about one workspace."""
        return {
            "volumes": [
                {"id": seen.volume.uid, "name": seen.volume.name, "read_only": seen.read_only}
                for seen in self.volumes
            ],
            "credentials": [{"id": row.uid, "name": row.name} for row in self.credentials],
            "needs": [{"id": row.uid, "name": row.name} for row in self.needs],
        }


def attached_to(row: Workspace) -> Attached:
    """Return what is attached now, in three queries."""
    return Attached(
        volumes=volumes_seen_by(row),
        credentials=_credentials_of(row),
        needs=tuple(
            Load.objects.filter(needed_by__workload=row).order_by(
                "needed_by__position", "needed_by__id"
            )
        ),
    )


def volumes_seen_by(row: Workspace) -> tuple[Seen, ...]:
    mounts = row.mounts.select_related("volume__volume_class", "volume__project", "volume__owner")
    return tuple(Seen(mount.volume, mount.read_only) for mount in mounts)


def _credentials_of(row: Workspace) -> tuple[Credential, ...]:
    return tuple(key.credential for key in row.keys.select_related("credential"))


def attached_wanted(
    *,
    principal: Principal,
    project: Project,
    cluster_key: str,
    wanted: Wanted,
    before: Attached | None = None,
) -> Attached:
    """Return what shall be attached; Invalid or NotFound names the first thing that can't be.

    ``before`` None: a new workspace, which sees the project's volume unless volumes are named.
    """
    given = {name: getattr(wanted, name) for name in ATTACHED}
    said = {name: _list(name, value) for name, value in given.items() if value is not None}
    base = before or attached_usually(principal, project, cluster_key)
    return Attached(
        volumes=_volumes(principal, project, cluster_key, said["volumes"])
        if "volumes" in said
        else base.volumes,
        credentials=_credentials(principal, project, said["credentials"])
        if "credentials" in said
        else base.credentials,
        needs=_needs(principal, project, said["needs"]) if "needs" in said else base.needs,
        with_shared=base.with_shared and "volumes" not in said,
    )


def where_its_volumes_lie(principal: Principal, project: Project, wanted: Wanted) -> Wanted:
    """Return ``wanted`` on the cluster of the volumes that it names, unless it names a cluster."""
    if wanted.cluster or not wanted.volumes:
        return wanted
    rows = mountable(principal, project)
    for item in _list("volumes", wanted.volumes):
        keys = {row.cluster_key for row in _named(_volume_said(item)[0], rows)[:2]}
        if len(keys) == 1:
            return replace(wanted, cluster=keys.pop())
    return wanted


def held(
    attached: Attached,
    *,
    principal: Principal,
    project: Project,
    cluster_key: str,
    home: Volume | None,
) -> Attached:
    """Return it with the shared volume there, and each volume kept usable, the home too; first of
    all in the transaction of the intent.
    """
    if attached.with_shared:
        shared = project_volume_ensure(
            principal=principal, project=project, cluster_key=cluster_key
        )
        seen = (Seen(shared, read_only=False),)
        attached = replace(attached, volumes=seen, with_shared=False)
    homes = () if home is None else (home,)
    volumes_hold([*homes, *(seen.volume for seen in attached.volumes)])
    return attached


def attach(row: Workspace, attached: Attached, *, is_new: bool = False) -> None:
    """Write it, in the transaction of the intent; what is equal stays as it is."""
    if not is_new:
        row.mounts.all().delete()
        row.keys.all().delete()
        row.needs.all().delete()
    WorkloadVolume.objects.bulk_create(
        WorkloadVolume(workload=row, volume=s.volume, read_only=s.read_only, position=n)
        for n, s in enumerate(attached.volumes)
    )
    WorkloadCredential.objects.bulk_create(
        WorkloadCredential(workload=row, credential=c, position=n)
        for n, c in enumerate(attached.credentials)
    )
    WorkloadNeed.objects.bulk_create(
        WorkloadNeed(workload=row, needed=load, position=n) for n, load in enumerate(attached.needs)
    )


def check_still_usable(principal: Principal, row: Workspace) -> None:
    """Raise when the owner may not use any more what is attached; before each start of a
    workspace that was made before, and it stays so until the transaction ends.
    """
    attached = Attached(volumes=volumes_seen_by(row), credentials=_credentials_of(row))
    volumes_hold([row.home, *(seen.volume for seen in attached.volumes)])
    require_usable_by(principal, row.project, attached)
    uids = [seen.volume.uid for seen in attached.volumes]
    volume_note_use(uids=uids, user=principal.user)


def require_usable_by(principal: Principal, project: Project, attached: Attached) -> None:
    """Raise when ``principal`` may not use the volumes and credentials of it, as they are seen."""
    for seen in attached.volumes:
        _still_there(principal, project, seen)
    for credential in attached.credentials:
        credentials.credential_for_use(principal, project, credential.uid)


def warning_of_full(row: Workspace) -> str:
    """Return a sentence about volumes that it writes to and that are full; "" where none is.

    It starts nevertheless: the way to room is often to delete files in it.
    """
    seen = [row.home, *(s.volume for s in volumes_seen_by(row) if not s.read_only)]
    full = [volume.name for volume in seen if volume.is_full]
    if not full:
        return ""
    names = ", ".join(f"“{name}”" for name in full)
    return _("Full: %(names)s. Delete files there or make it larger.") % {"names": names}


def _still_there(principal: Principal, project: Project, seen: Seen) -> None:
    try:
        volumes.volume_for_use(
            principal, project, seen.volume.uid, write=not seen.read_only, even_full=True
        )
    except NotFound:
        raise Conflict(
            _("Its volume “%(name)s” is gone. Take it off in the settings, then start it.")
            % {"name": seen.volume.name},
            code="volume-gone",
        ) from None


def mountable(
    principal: Principal, project: Project, cluster_key: str | None = None
) -> QuerySet[Volume]:
    """Return what may be seen besides the home; other homes are not for mounting."""
    rows = volumes.volumes_mountable(principal, project, cluster_key)
    return rows.exclude(kind=VolumeKind.HOME)


def changed_attachments(before: Attached, after: Attached) -> list[str]:
    """Return which of the three differ."""
    old, new = before.detailed(), after.detailed()
    return [name for name in ATTACHED if old[name] != new[name]]


def attached_usually(
    principal: Principal, project: Project, cluster_key: str | None = None
) -> Attached:
    """Return what a workspace sees of which nothing is said: the project's own volume."""
    if Permission.VOLUME_USE not in permissions_of(principal, project):
        return Attached()
    shared = volumes.project_volume_of(principal, project, cluster_key)
    if shared is None:
        return Attached(with_shared=True)
    return Attached(volumes=(_as_allowed(principal, shared, read_only=None),))


def volume_word(text: str) -> tuple[str, bool | None]:
    """Return the volume that ``data`` or ``data:ro`` names; None: written to as far as allowed."""
    name = text.removesuffix(_READ_ONLY)
    return name, True if name != text else None


def _list(field: str, value: Any) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise _wrong(field, _("A list."))
    if len(value) > MOST:
        raise _wrong(field, _("At most %(n)d.") % {"n": MOST})
    return value


def _volumes(
    principal: Principal, project: Project, cluster_key: str, said: Sequence[Any]
) -> tuple[Seen, ...]:
    rows = mountable(principal, project, cluster_key)
    found = []
    for item in said:
        word, read_only = _volume_said(item)
        row = _one("volumes", word, rows)
        found.append(_as_allowed(principal, row, read_only=read_only))
    _once("volumes", (seen.volume for seen in found))
    return tuple(found)


def _volume_said(item: Any) -> tuple[str, bool | None]:
    """``data``, ``data:ro`` or ``{volume: data, read_only: true}``; None: as far as allowed."""
    if isinstance(item, dict):
        word, read_only = item.get("volume"), item.get("read_only")
        if set(item) - {"volume", "read_only"} or not isinstance(read_only, bool | None):
            raise _wrong("volumes", _("Each has a volume and whether it is only read."))
        return _word("volumes", word), read_only
    return volume_word(_word("volumes", item))


def _as_allowed(principal: Principal, row: Volume, *, read_only: bool | None) -> Seen:
    """Look at it as it was said; where nothing was said, write as far as one may."""
    if read_only is None:
        read_only = row.is_full or not volumes.may_write(principal, row)
    volumes.require_for_use(principal, row, write=not read_only)
    return Seen(row, read_only)


def _credentials(
    principal: Principal, project: Project, said: Sequence[Any]
) -> tuple[Credential, ...]:
    rows = credentials.credentials_usable(principal, project)
    found = [_one("credentials", _word("credentials", word), rows) for word in said]
    _once("credentials", found)
    return tuple(found)


def _needs(principal: Principal, project: Project, said: Sequence[Any]) -> tuple[Load, ...]:
    rows = loads.loads_visible_to(principal, project)
    found = [_one("needs", _word("needs", word), rows) for word in said]
    _once("needs", found)
    return tuple(loads.load_for_need(principal, project, load.uid) for load in found)


def _word(field: str, value: Any) -> str:
    text = str(value) if isinstance(value, UUID) else value
    if not isinstance(text, str) or not text or len(text) > _MAX_WORD or not is_storable(text):
        raise _wrong(field, _("A name or an id."))
    return text


def _one(field: str, word: str, rows: QuerySet[Row]) -> Row:
    """Return the row of this id, or the only one of this name."""
    found = list(_named(word, rows)[:2])
    if not found:
        raise _wrong(
            field, _("There is no “%(name)s” here that you may use.") % {"name": word[:63]}
        )
    if len(found) > 1:
        raise _wrong(
            field, _("Several are called “%(name)s”: say it by its id.") % {"name": word[:63]}
        )
    return found[0]


def _named(word: str, rows: QuerySet[Row]) -> QuerySet[Row]:
    try:
        return rows.filter(uid=UUID(word))
    except ValueError:
        return rows.filter(name=word)


def _once(field: str, rows: Iterable[Any]) -> None:
    seen: set[int] = set()
    for row in rows:
        if row.pk in seen:
            raise _wrong(field, _("“%(value)s” is there twice.") % {"value": row.name})
        seen.add(row.pk)


def _wrong(field: str, message: str) -> Invalid:
    return Invalid(message, fields={field: [message]})
