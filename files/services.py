"""Opening and ending file browsers."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from accounts.principal import Principal
from common.clock import now
from common.errors import Conflict
from common.ids import new_uid
from events import services as events
from files.models import FileSession
from files.reconciler import new_digest
from files.selectors import place_get, session_of
from projects.access import permissions_for, roles_in
from projects.services.life import require_active
from runtime.bus import publish
from runtime.hints import hint
from runtime.protocol import Desired
from volumes import selectors as volume_selectors
from volumes.services import base

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from accounts.models import User
    from files.selectors import Place
    from projects.choices import Role
    from projects.models import Project

MOST_OPEN = 8  # of one person: each is a server of its own that nobody's limits count


def session_open(*, principal: Principal, project: Project, volume_uid: UUID | str) -> FileSession:
    """Return the person's file browser of a volume; begin one where there is none that works.

    One that was begun with other rights than the person has now gives way to a new one. It is
    the person's, whatever token opens it: what a token may do there is asked at each request.
    """
    if principal.token is not None:
        place_get(principal, volume_uid, project)
    person = Principal(user=principal.user, ip=principal.ip)
    for _attempt in range(2):
        place = place_get(person, volume_uid, project)
        require_active(project)
        try:
            with transaction.atomic():
                return _opened(principal, project, place)
        except IntegrityError:  # opened twice at the same moment: the other one counts
            found = session_of(principal, place.volume)
            if found is not None:
                return found
    raise Conflict(_("The files are being opened and closed at once; try again in a moment."))


def _opened(principal: Principal, project: Project, place: Place) -> FileSession:
    found = session_of(principal, place.volume)
    if found is not None:
        if found.read_only != place.may_write and not found.has_failed:
            session_touch(uid=found.uid)
            return found
        _end(found)
    base.volumes_hold([place.volume])
    # as it is now: before it was held, it may have gone to another project
    place = place_get(Principal(user=principal.user), place.volume.uid, project)
    _make_room(principal.user)
    uid = new_uid()
    row = FileSession.objects.create(
        uid=uid,
        project=project,
        person=principal.user,
        volume=place.volume,
        cluster_key=place.volume.cluster_key,
        read_only=not place.may_write,
        token_digest=new_digest(uid),
        last_used_at=now(),
        phase_since=now(),
    )
    base.volume_note_use(uids=[place.volume.uid], user=principal.user)
    events.record(
        actor=principal,
        verb="volume.files-opened",
        target=place.volume,
        project_uid=project.uid,
        data={"read_only": row.read_only},
    )
    _changed(row)
    return row


def _make_room(person: User) -> None:
    """End what was used longest ago, so that with a new one a person has at most ``MOST_OPEN``.

    Two that are opened at the same moment may go one beyond it, until the next one.
    """
    rows = FileSession.objects.filter(
        person=person, deleted_at__isnull=True, desired=Desired.RUNNING
    )
    spare = rows.order_by("-last_used_at", "-id").values_list("pk", flat=True)[MOST_OPEN - 1 :]
    if found := list(spare):
        _end_all(FileSession.objects.filter(pk__in=found))


def session_touch(*, uid: UUID | str) -> None:
    """Note that it is used: it ends when nobody does for a while."""
    FileSession.objects.filter(uid=uid, deleted_at__isnull=True).update(last_used_at=now())


@transaction.atomic
def session_end(*, principal: Principal, volume_uid: UUID | str, project: Project) -> bool:
    """End one's own file browser of a volume; False when there is none."""
    rows = FileSession.objects.filter(volume__uid=volume_uid, project=project)
    return _end_all(rows.filter(person=principal.user)) > 0


@transaction.atomic
def sessions_end_for(*, project: Project | None = None, person: User | None = None) -> int:
    """End all of a project, of a person, or of a person in a project. No right is checked."""
    rows = FileSession.objects.all()
    if project is not None:
        rows = rows.filter(project=project)
    if person is not None:
        rows = rows.filter(person=person)
    return _end_all(rows)


def sessions_tidy() -> int:
    """End what nobody uses, and what may not be used any more. Return how many."""
    idle = now() - timedelta(minutes=settings.BERTH_FILES_IDLE_MINUTES)
    with transaction.atomic():
        ended = _end_all(FileSession.objects.filter(last_used_at__lt=idle))
    live = list(_wanted(FileSession.objects.all()).select_related("volume__project"))
    roles = roles_in({row.project_id for row in live}, {row.person_id for row in live})
    over = [
        row.pk
        for row in live
        if not _still_allowed(row, roles.get((row.project_id, row.person_id)))
    ]
    if over:
        with transaction.atomic():
            ended += _end_all(FileSession.objects.filter(pk__in=over))
    return ended


def _still_allowed(row: FileSession, role: Role | None) -> bool:
    """The same as ``place_get`` says, of a person whose role is known; asks nothing."""
    volume, who = row.volume, Principal(user=row.person)
    if volume.project_id != row.project_id:  # it was handed over
        return False
    granted = permissions_for(who, volume.project, role)
    if not volume_selectors.is_usable(who, volume, granted):
        return False
    return row.read_only or volume_selectors.writes(who, volume, granted)


def _wanted(rows: QuerySet[FileSession]) -> QuerySet[FileSession]:
    return rows.filter(deleted_at__isnull=True, desired=Desired.RUNNING).select_related(
        "project", "person", "volume"
    )


def _end_all(rows: QuerySet[FileSession]) -> int:
    found = list(_wanted(rows).select_for_update(of=("self",)))
    for row in found:
        _end(row)
    return len(found)


def _end(row: FileSession) -> None:
    row.desired = Desired.ABSENT
    row.generation += 1
    row.save(update_fields=["desired", "generation", "updated_at"])
    _changed(row)


def _changed(row: FileSession) -> None:
    hint(row)
    publish([f"user:{row.person.uid}"], {"kind": row.KIND, "id": row.short_id, "uid": str(row.uid)})
