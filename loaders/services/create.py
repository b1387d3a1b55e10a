"""Making a load, and what one load means for another one of the same folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import BooleanField, ExpressionWrapper, Q
from django.utils.translation import gettext as _

from common.errors import wrong
from loaders import policies, selection
from loaders.choices import Task
from loaders.models import Load
from loaders.selectors import RELATED
from loaders.services.caches import cache_made
from loaders.services.runs import begin, load_start, require_cluster, rest
from loaders.services.schedules import next_run
from projects.access import Permission, require, roles_kept
from runtime.protocol import Desired
from volumes.selectors import require_room, volume_for_use
from volumes.services.base import volume_take_turn, volumes_hold
from volumes.services.create import project_volume_ensure
from work import kinds
from work.selectors import may_change
from work.services import workload_create
from work.services.base import require_startable
from work.services.resolve import resolved

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from uuid import UUID

    from accounts.principal import Principal
    from projects.models import Project

# Without these the same objects are wanted: what was loaded stays loaded.
_WHAT = frozenset({"include", "exclude"})


def load_create(
    *,
    principal: Principal,
    project: Project,
    said: Mapping[str, Any],
    task: Task | None = Task.LOAD,
    nonce: str = "",
    made_for: UUID | None = None,
    newest: int = 0,
) -> Load:
    """Make a load and start it. ``task`` None: only make it (its schedule starts it).

    ``made_for``: the work whose output it copies; ``newest``: its checkpoints, so many.
    """

    def belongs(row: Load) -> None:
        row.made_for, row.newest = made_for, newest  # its first run saves it

    def launch(who: Principal, row: Load) -> None:
        rest(row) if task is None else begin(who, row, task=task)

    kind = kinds.kind_of(Load.KIND)
    new: dict[str, Any] = {"project": project, "kind": kind, "said": said, "nonce": nonce}
    made: Load = workload_create(principal=principal, **new, launch=launch, beside=belongs)
    return made


def load_ensure(*, principal: Principal, project: Project, said: Mapping[str, Any]) -> Load:
    """Return the load of this source, version and target: shared inside a project (C7).

    One that is there is not made again; one that did not end well is started again.
    """
    kind = kinds.kind_of(Load.KIND)
    require_startable(principal, project, kind)
    there = same_as(resolved(principal=principal, project=project, kind=kind, said=said).row)
    if there is None:
        return load_create(principal=principal, project=project, said=said)
    if there.loaded_at is not None or there.is_on_its_way:
        return there
    if may_change(principal, there):
        return load_start(principal=principal, row=there)
    return load_create(principal=principal, project=project, said=said)


def same_as(row: Load) -> Load | None:
    """Return a load of the project that makes the same copy as one that is not made yet."""
    if row.volume_id is None:
        return None
    mark = fingerprint_of(row)
    rows = Load.objects.filter(project=row.project, fingerprint=mark, deleted_at__isnull=True)
    return rows.exclude(desired=Desired.ABSENT).select_related(*RELATED).order_by("pk").first()


def fingerprint_of(row: Load) -> str:
    """Return what two loads have in common that would make the same copy."""
    return policies.fingerprint(
        direction=row.direction,
        kind=row.store_kind,
        store=row.store,
        bucket=row.bucket,
        prefix=row.prefix,
        objects=sorted(row.objects_listed) if row.objects_listed else None,
        include=sorted(row.include),
        exclude=sorted(row.exclude),
        version=row.version,
        volume=str(row.volume.uid),
        folder=row.folder,
    )


# --- what its kind does ------------------------------------------------------------------------


def check_new(row: Load) -> None:
    """Raise for what can be known before anything is made."""
    require_cluster(row.cluster_key, row.project)
    if row.volume_id is None:
        return
    if not row.is_export:
        require_room(row.volume)
    require_folder(row)


def prepare(principal: Principal, row: Load) -> None:
    """Make the target that nobody has made yet; other loads into it are made after this one."""
    project = row.project
    if row.volume_id is not None:
        volume = row.volume
    elif row.cache is not None:
        volume = cache_made(principal, project, row.cache)
    else:
        there = {"project": project, "cluster_key": row.cluster_key}
        volume = project_volume_ensure(principal=principal, **there)
    volumes_hold([volume])
    volume_take_turn(volume)
    row.volume = volume_for_use(principal, project, volume.uid, write=True)
    row.cluster_key, row.cache = volume.cluster_key, None
    with roles_kept():  # what was kept until here may be old
        require(principal, project, Permission.LOAD_CREATE)
    require_folder(row)  # once more: now nobody else makes one beside it
    row.fingerprint = fingerprint_of(row)
    row.next_run_at = next_run(row.schedule, row.time_zone)


def change(before: Load, after: Load, fields: Collection[str]) -> None:
    """Set what follows from an edit: its next run, and whether its data is there."""
    if _minds_folder(after, fields):
        volume_take_turn(before.volume)
    if {"schedule", "time_zone"} & set(fields):
        after.next_run_at = next_run(after.schedule, after.time_zone)
        after.schedule_note = ""
    if _WHAT & set(fields):
        after.fingerprint = fingerprint_of(after)
        after.loaded_at = None


def check_edit(before: Load, after: Load, fields: Collection[str]) -> None:
    if _minds_folder(after, fields):
        require_folder(after, but=before)


def _minds_folder(after: Load, fields: Collection[str]) -> bool:
    """Whether what other loads bring into the same folder matters to this change."""
    return (after.delete_extra and "delete_extra" in fields) or bool(_WHAT & set(fields))


def require_folder(row: Load, *, but: Load | None = None) -> None:
    """Raise where one of two loads would delete what the other brings."""
    if row.is_export:
        return
    rows = Load.objects.filter(volume=row.volume, deleted_at__isnull=True, direction="in")
    rows = rows.exclude(desired=Desired.ABSENT)
    if but is not None:
        rows = rows.exclude(pk=but.pk)
    if not row.delete_extra:
        # what makes the very same copy brings only what the other one keeps
        rows = rows.filter(delete_extra=True).exclude(fingerprint=fingerprint_of(row))
    mine = f"{row.target}/" if row.target else ""
    listed = ExpressionWrapper(Q(objects_listed__isnull=False), output_field=BooleanField())
    told = rows.annotate(by_name=listed).order_by("pk")
    for name, at, prefix, by_name in told.values_list("name", "folder", "prefix", "by_name"):
        other = selection.target(folder=at, prefix=prefix, listed=by_name)
        other = f"{other}/" if other else ""
        if not (mine.startswith(other) or other.startswith(mine)):
            continue
        if row.delete_extra:
            message = _("“%(name)s” loads into this folder too: what it brought would be deleted.")
            raise wrong("delete_extra", message % {"name": name})
        message = _("“%(name)s” deletes in this folder what its own source does not have.")
        raise wrong("folder", message % {"name": name})
