"""What rows stand for on a cluster that Berth lets go of, or that does not answer: where it is."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q

from clusters import registry
from clusters.models import Cluster
from clusters.wording import counted
from runtime import reconcilers
from runtime.reconcilers import Reconciler

OF_ITSELF = ("place", "project")  # a namespace goes with what it holds
NAMED = 5  # namespaces in a sentence; the data has all


@dataclass(frozen=True)
class Left:
    """Something of a project that stays on a cluster; ``object``: its name there, the claim's."""

    kind: str
    name: str
    cluster: str
    project: str
    project_uid: UUID
    namespace: str
    object: str
    size_mib: int | None = None
    used_bytes: int | None = None


def rows(*, locked: bool = False, **conditions: Any) -> Iterator[tuple[Reconciler, Any]]:
    """Return live rows of all kinds but places, each with its reconciler."""
    for kind, reconciler in reconcilers.registered().items():
        names = {f.name for f in reconciler.model._meta.get_fields()}  # noqa: SLF001 - any model
        if kind in OF_ITSELF or not names & {"project", "volume"}:
            continue
        found: Any = reconciler.model._default_manager  # noqa: SLF001 - any model
        found = found.filter(_of(conditions, names), deleted_at__isnull=True)
        found = found.select_related(*getattr(reconciler, "related", ()))
        for row in found.select_for_update(of=("self",)) if locked else found:
            yield reconciler, row


def _of(conditions: dict[str, Any], names: set[str]) -> Q:
    """``project`` of what belongs to a volume is the volume's."""
    wanted = dict(conditions)
    if "project" in wanted and "project" not in names:
        wanted["volume__project"] = wanted.pop("project")
    return Q(**wanted)


def left(row: Any) -> Left:
    place = registry.lookup(str(row.uid)) or {}
    project = row.project if hasattr(row, "project") else row.volume.project
    return Left(
        kind=row.KIND,
        name=str(getattr(row, "name", "") or row),
        cluster=row.cluster_key,
        project=project.slug,
        project_uid=project.uid,
        namespace=place.get("namespace", ""),
        object=place.get("name", ""),
        size_mib=getattr(row, "size_limit_mib", None),
        used_bytes=getattr(row, "used_bytes", None),
    )


def by_project(found: Sequence[Left]) -> dict[UUID, list[Left]]:
    grouped: dict[UUID, list[Left]] = defaultdict(list)
    for one in found:
        grouped[one.project_uid].append(one)
    return grouped


def told(found: Sequence[Left]) -> dict[str, Any]:
    """Return what an event says of it: a sentence, and all of it as data."""
    spaces = sorted({one.namespace for one in found if one.namespace})
    where = ", ".join(spaces[:NAMED]) + (" …" if len(spaces) > NAMED else "")
    sentence = counted(Counter(one.kind for one in found))
    listed = [{**asdict(one), "project_uid": str(one.project_uid)} for one in found]
    return {"message": f"{sentence} ({where})" if where else sentence, "data": {"left": listed}}


def silent() -> set[str]:
    """Return the clusters that are switched off, or did not answer when they were last asked."""
    away = Q(enabled=False) | Q(reachable=False, checked_at__isnull=False)
    return set(Cluster.objects.filter(away).values_list("key", flat=True))
