"""Making a load: one press, three fields."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import BooleanField, ExpressionWrapper, Q
from django.utils.translation import gettext as _

from common.clock import now
from common.errors import Conflict, wrong
from common.ids import next_name
from events import services as events
from loaders import policies, selection, selectors
from loaders.choices import Task
from loaders.models import Load
from loaders.selectors import RELATED
from loaders.services.base import may_change, require_cluster
from loaders.services.caches import cache_made
from loaders.services.resolve import columns_of, fingerprint_of, spec_for
from loaders.services.runs import begin, load_start
from loaders.services.schedules import next_run
from loaders.spec import Wanted
from projects.access import Permission, require
from projects.services.life import require_active
from runtime.protocol import Desired, Phase
from volumes.selectors import require_room, volume_for_use
from volumes.services.base import volume_take_turn, volumes_hold
from volumes.services.create import project_volume_ensure
from work.models import Workload

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from accounts.principal import Principal
    from loaders.spec import Spec
    from projects.models import Project
    from volumes.models import Volume

# A repeated press of one form within this time is one press.
NONCE_KEPT = timedelta(minutes=10)


def load_create(
    *,
    principal: Principal,
    project: Project,
    wanted: Wanted,
    task: Task | None = Task.LOAD,
    nonce: str = "",
) -> Load:
    """Make a load and start it. ``task`` None: only make it (its schedule starts it)."""
    require(principal, project, Permission.LOAD_CREATE)
    require_active(project)
    nonce = "".join(c for c in nonce[:64] if (c.isascii() and c.isalnum()) or c in "-_")
    spec = spec_for(who=principal, project=project, wanted=wanted)
    check(project, spec)
    new = _New(spec, wanted.name or "", task, nonce)
    try:
        with transaction.atomic():
            return _create(principal, project, new)
    except IntegrityError as error:
        if nonce and (made := _made_by(principal, nonce)):
            return made  # the other half of a double click was faster
        raise _taken(Conflict) from error


def load_ensure(*, principal: Principal, project: Project, wanted: Wanted) -> Load:
    """Return the load of this source, version and target: shared inside a project (C7).

    One that is there is not made again; one that did not end well is started again.
    """
    require(principal, project, Permission.LOAD_CREATE)
    spec = spec_for(who=principal, project=project, wanted=wanted)
    there = same_as(project, spec)
    if there is None:
        return load_create(principal=principal, project=project, wanted=wanted)
    if there.loaded_at is not None or there.is_on_its_way:
        return there
    if may_change(principal, there):
        return load_start(principal=principal, load=there)
    return load_create(principal=principal, project=project, wanted=wanted)


def same_as(project: Project, spec: Spec) -> Load | None:
    """Return a load of the project that makes the same copy."""
    if spec.volume is None:
        return None
    mark = fingerprint_of(spec, spec.volume)
    rows = Load.objects.filter(project=project, fingerprint=mark, deleted_at__isnull=True)
    return rows.exclude(desired=Desired.ABSENT).select_related(*RELATED).order_by("pk").first()


def check(project: Project, spec: Spec) -> None:
    """Raise for what can be known before anything is made."""
    require_cluster(spec.cluster_key, project)
    if spec.volume is not None and not spec.is_export:
        require_room(spec.volume)
    if spec.volume is not None:
        require_folder(spec.volume, spec)


def target_of(spec: Spec) -> str:
    return selection.target(folder=spec.folder, prefix=spec.prefix, listed=spec.objects is not None)


def require_folder(volume: Volume, spec: Spec, *, but: Load | None = None) -> None:
    """Raise where one of two loads would delete what the other brings."""
    if spec.is_export:
        return
    rows = Load.objects.filter(volume=volume, deleted_at__isnull=True, direction="in")
    rows = rows.exclude(desired=Desired.ABSENT)
    if but is not None:
        rows = rows.exclude(pk=but.pk)
    if spec.delete_extra:
        if name := _same_folder(rows, target_of(spec)):
            message = _("“%(name)s” loads into this folder too: what it brought would be deleted.")
            raise wrong("delete_extra", message % {"name": name})
        return
    # what makes the very same copy brings only what the other one keeps
    deleting = rows.filter(delete_extra=True).exclude(fingerprint=fingerprint_of(spec, volume))
    if name := _same_folder(deleting, target_of(spec)):
        message = _("“%(name)s” deletes in this folder what its own source does not have.")
        raise wrong("folder", message % {"name": name})


def _same_folder(rows: QuerySet[Load], folder: str) -> str:
    """Return the name of the first that writes into this folder, above it or below it."""
    mine = f"{folder}/" if folder else ""
    listed = ExpressionWrapper(Q(objects_listed__isnull=False), output_field=BooleanField())
    told = rows.annotate(by_name=listed).order_by("pk")
    for name, at, prefix, by_name in told.values_list("name", "folder", "prefix", "by_name"):
        other = selection.target(folder=at, prefix=prefix, listed=by_name)
        other = f"{other}/" if other else ""
        if mine.startswith(other) or other.startswith(mine):
            return str(name)
    return ""


@dataclass(frozen=True)
class _New:
    """What is made, decided before the transaction."""

    spec: Spec
    name: str
    task: Task | None
    nonce: str


def _create(principal: Principal, project: Project, new: _New) -> Load:
    if new.nonce and (made := _made_by(principal, new.nonce)):
        return made
    volume = _kept(principal, project, new.spec.volume or _made(principal, project, new.spec))
    require(principal, project, Permission.LOAD_CREATE)  # as it is now
    spec = replace(new.spec, volume=volume, cluster_key=volume.cluster_key, cache=None)
    require_folder(volume, spec)  # once more: now nobody else makes one beside it
    row = Load.objects.create(
        project=project,
        owner=principal.user,
        volume=volume,
        name=_name(project, spec, new.name),
        fingerprint=fingerprint_of(spec, volume),
        nonce=new.nonce,
        cpu_milli=settings.BERTH_LOAD_CPU_MILLI,
        memory_mib=settings.BERTH_LOAD_MEMORY_MIB,
        phase=Phase.PENDING if new.task else Phase.STOPPED,
        desired=Desired.RUNNING if new.task else Desired.STOPPED,
        phase_since=now(),
        **columns_of(spec),
        next_run_at=next_run(spec.schedule, spec.time_zone),
    )
    events.record(
        actor=principal,
        verb="load.created",
        target=row,
        project_uid=project.uid,
        data={"url": row.url, "volume": volume.name, "folder": row.folder},
    )
    if new.task is not None:
        begin(principal, row, task=new.task)
    return row


def _made(principal: Principal, project: Project, spec: Spec) -> Volume:
    """Make the target that nobody has made yet: a cache, or the project's own volume."""
    if spec.cache is not None:
        return cache_made(principal, project, spec.cache)
    return project_volume_ensure(principal=principal, project=project, cluster_key=spec.cluster_key)


def _kept(principal: Principal, project: Project, volume: Volume) -> Volume:
    """Return the volume as it is now, kept usable; other loads into it are made after this one."""
    volumes_hold([volume])
    volume_take_turn(volume)
    return volume_for_use(principal, project, volume.uid, write=True)


def _name(project: Project, spec: Spec, asked: str) -> str:
    taken = selectors.names_taken(project)
    if not asked.strip():
        return next_name(policies.name_for(policies.parse_url(spec.url)), taken)
    name = policies.clean_name(asked)
    if name in taken:
        raise _taken()
    return name


def _taken(kind: type[Conflict] | None = None) -> Exception:
    message = _("There is a load of that name in this project already.")
    if kind is not None:
        return kind(message, code="name-taken")
    return wrong("name", message)


def _made_by(principal: Principal, nonce: str) -> Load | None:
    made = Load.objects.filter(owner=principal.user, nonce=nonce).select_related(*RELATED).first()
    if made is None:
        return None
    if made.created_at < now() - NONCE_KEPT:
        Workload.objects.filter(pk=made.pk).update(nonce="")
        return None
    return made
