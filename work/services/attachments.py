"""What a workload is given: volumes, credentials, data that must be there first.

What is said by name or id becomes a row through the door of its own app, for the owner of the
workload: what they may not use is refused like what is not there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from django.utils.translation import gettext as _

from common.errors import Conflict, Invalid, NotFound
from credentials import selectors as credentials
from volumes import selectors as volumes
from volumes.services.base import volume_note_use, volumes_hold
from volumes.services.create import project_volume_ensure
from work import needs
from work.attached import (
    ATTACHED,
    MOST,
    Attached,
    Seen,
    as_allowed,
    attached_usually,
    credentials_of,
    mountable,
    volume_word,
    volumes_seen_by,
)
from work.fields import is_storable
from work.models import Workload, WorkloadCredential, WorkloadNeed, WorkloadVolume

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from django.db.models import Model, QuerySet

    from accounts.principal import Principal
    from credentials.models import Credential
    from projects.models import Project
    from volumes.models import Volume

_MAX_WORD = 200
Row = TypeVar("Row", bound="Model")


def attached_wanted(
    *,
    principal: Principal,
    project: Project,
    cluster_key: str,
    said: Mapping[str, Any],
    before: Attached | None = None,
    takes: Collection[str] = ATTACHED,
) -> Attached:
    """Return what shall be attached; Invalid or NotFound names the first thing that can't be.

    ``before`` None: a new one, which sees the project's volume unless volumes are named.
    ``takes``: what its kind takes.
    """
    given = {name: said.get(name) for name in takes}
    said = {name: _list(name, value) for name, value in given.items() if value is not None}
    if before is None and "volumes" in takes:
        before = attached_usually(principal, project, cluster_key)
    base = before or Attached()
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


def cluster_of_volumes(principal: Principal, project: Project, said: Mapping[str, Any]) -> str:
    """Return the key of the cluster on which the volumes lie that are named; '' where none is, or
    a cluster is named.
    """
    if said.get("cluster") or not said.get("volumes"):
        return ""
    rows = mountable(principal, project)
    for item in _list("volumes", said["volumes"]):
        keys = {row.cluster_key for row in _named(_volume_said(item)[0], rows)[:2]}
        if len(keys) == 1:
            return keys.pop()
    return ""


def held(
    attached: Attached,
    *,
    principal: Principal,
    project: Project,
    cluster_key: str,
    homes: Sequence[Volume] = (),
) -> Attached:
    """Return it with the shared volume there, and each volume kept usable, homes too; first of all
    in the transaction of the intent.
    """
    if attached.with_shared:
        shared = project_volume_ensure(
            principal=principal, project=project, cluster_key=cluster_key
        )
        seen = (Seen(shared, read_only=False),)
        attached = replace(attached, volumes=seen, with_shared=False)
    volumes_hold([*homes, *(seen.volume for seen in attached.volumes)])
    return attached


def attach(row: Workload, attached: Attached, *, is_new: bool = False) -> None:
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
        WorkloadNeed(workload=row, needed=need, position=n) for n, need in enumerate(attached.needs)
    )


def check_still_usable(principal: Principal, row: Workload) -> None:
    """Raise when the owner may not use any more what is attached; before each start of one
    that was made before, and it stays so until the transaction ends.
    """
    attached = Attached(volumes=volumes_seen_by(row), credentials=credentials_of(row))
    volumes_hold([*row.homes, *(seen.volume for seen in attached.volumes)])
    require_usable_by(principal, row.project, attached)
    uids = [seen.volume.uid for seen in attached.volumes]
    volume_note_use(uids=uids, user=principal.user)


def require_usable_by(principal: Principal, project: Project, attached: Attached) -> None:
    """Raise when ``principal`` may not use the volumes and credentials of it, as they are seen."""
    for seen in attached.volumes:
        _still_there(principal, project, seen)
    for credential in attached.credentials:
        credentials.credential_for_use(principal, project, credential.uid)


def warning_of_full(row: Workload) -> str:
    """Return a sentence about volumes that it writes to and that are full; "" where none is.

    It starts nevertheless: the way to room is often to delete files in it.
    """
    seen = [*row.homes, *(s.volume for s in volumes_seen_by(row) if not s.read_only)]
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


def changed_attachments(before: Attached, after: Attached) -> list[str]:
    """Return which of the three differ."""
    old, new = before.detailed(), after.detailed()
    return [name for name in ATTACHED if old[name] != new[name]]


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
        found.append(as_allowed(principal, row, read_only=read_only))
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


def _credentials(
    principal: Principal, project: Project, said: Sequence[Any]
) -> tuple[Credential, ...]:
    rows = credentials.credentials_usable(principal, project)
    found = [_one("credentials", _word("credentials", word), rows) for word in said]
    _once("credentials", found)
    return tuple(found)


def _needs(principal: Principal, project: Project, said: Sequence[Any]) -> tuple[Workload, ...]:
    found = [_need(principal, project, _word("needs", word)) for word in said]
    _once("needs", found)
    return tuple(found)


def _need(principal: Principal, project: Project, word: str) -> Workload:
    """Return the work of this id or name, of whatever kind, that may be waited for."""
    refusal: Invalid | None = None
    for kind in needs.needables():
        try:
            row = _one("needs", word, kind.visible(principal, project))
        except Invalid as error:
            refusal = refusal or error
            continue
        needed: Workload = kind.get(principal, project, row.uid)
        return needed
    raise refusal or _no_such("needs", word)


def _word(field: str, value: Any) -> str:
    text = str(value) if isinstance(value, UUID) else value
    if not isinstance(text, str) or not text or len(text) > _MAX_WORD or not is_storable(text):
        raise _wrong(field, _("A name or an id."))
    return text


def _one(field: str, word: str, rows: QuerySet[Row]) -> Row:
    """Return the row of this id, or the only one of this name."""
    found = list(_named(word, rows)[:2])
    if not found:
        raise _no_such(field, word)
    if len(found) > 1:
        raise _wrong(
            field, _("Several are called “%(name)s”: say it by its id.") % {"name": word[:63]}
        )
    return found[0]


def _no_such(field: str, word: str) -> Invalid:
    message = _("There is no “%(name)s” here that you may use.")
    return _wrong(field, message % {"name": word[:63]})


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
