"""Reading what belongs to a workload of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db.models import Exists, OuterRef
from django.utils.translation import gettext as _

from accounts.models import User
from clusters.options import options_of
from common.errors import Forbidden, NotFound
from credentials.selectors import credentials_usable
from placement.clusters import clusters_of
from placement.fleet import Fleet
from placement.levels import LABELS
from projects.access import permissions_of, scoped
from projects.models import Membership
from runtime.protocol import Desired
from volumes.selectors import may_write
from work import kinds, needs
from work.attached import READ_ONLY, attached_to, mountable
from work.environments import environments_of
from work.fields import Choice, is_storable
from work.gpu_offers import gpu_offers
from work.models import Share
from work.standard_fields import GPU_FLAVOR

if TYPE_CHECKING:
    from uuid import UUID

    from django.db.models import QuerySet

    from accounts.principal import Principal
    from clusters.models import Cluster
    from projects.models import Project
    from work.attached import Attached
    from work.kinds import Kind
    from work.models import Step, Workload

OFFERED = 50  # of each; more are reached by the API and the command line
MAX_CANDIDATES = 200


def steps_of(row: Workload, launch: int | None = None) -> Sequence[Step]:
    """Return the timeline of one launch (the latest by default), oldest first."""
    return list(row.steps.filter(launch=launch or row.launch).order_by("id"))


def visible_to(
    who: Principal, kind: Kind, project: Project | None = None, *, hidden: bool = False
) -> QuerySet[Any]:
    """Return the rows of a kind whose name and state ``who`` may see, newest first.

    ``hidden``: also those that belong to another one.
    """
    rows = kind.model.objects.filter(deleted_at__isnull=True)
    if kind.hidden is not None and not hidden:
        rows = rows.exclude(kind.hidden)
    rows = rows.select_related("project", "owner", *kind.related).defer(*kind.deferred)
    if project is not None:
        rows = rows.filter(project=project)
    return scoped(rows, who, kind.read).order_by("-id")


def workload_get(
    who: Principal,
    kind: Kind,
    key: str | UUID,
    project: Project | None = None,
    *,
    for_update: bool = False,
    unread: Sequence[str] = (),
) -> Any:
    """Return one that ``who`` may see, or NotFound (the same for "not yours").

    ``unread``: columns that are read when somebody asks for them.
    """
    rows = visible_to(who, kind, project, hidden=True).defer(*unread)
    if for_update:
        rows = rows.select_for_update(of=("self",))
    row = rows.filter(**{kind.key: key}).first() if is_storable(str(key)) else None
    if row is None:
        raise NotFound(_("There is no such thing, or you may not see it."))
    return row


def is_owner(who: Principal, row: Workload) -> bool:
    """Whether ``who`` may read what is private in it."""
    return row.owner_id == who.user.pk


def require_owner(who: Principal, row: Workload) -> None:
    """Raise Forbidden unless ``who`` owns it: what it wrote and what it is told are private."""
    if not is_owner(who, row):
        raise Forbidden(_("Only its owner may see or change this."))


def reads_private(who: Principal, row: Workload) -> bool:
    """Whether ``who`` may read what the fields of its kind call private."""
    opens = kinds.kind_of(row.kind).opens
    return opens(who, row) if opens is not None else is_owner(who, row)


def may_change(who: Principal, row: Workload) -> bool:
    """Whether ``who`` may start and edit it: its owner, while they may make such work."""
    kind = kinds.kind_of(row.kind)
    granted = permissions_of(who, row.project)
    if kind.create not in granted or kind.read not in granted:
        return False
    return is_owner(who, row) or (kind.managed and kind.manage in granted)


def may_end(who: Principal, row: Workload) -> bool:
    """Whether ``who`` may stop and delete it: the owner always, managers too.

    A member whose role was lowered to viewer must still be able to give back what they hold.
    """
    kind = kinds.kind_of(row.kind)
    granted = permissions_of(who, row.project)
    if kind.manage in granted:
        return True
    return is_owner(who, row) and kind.read in granted and who.allows_scope(kind.create)


def names_taken(project: Project, owner: User, kind: Kind) -> frozenset[str]:
    """Return the names that a new one of ``owner`` may not have."""
    rows = kind.model.objects.filter(project=project, deleted_at__isnull=True)
    if kind.model.NAMES_PER_OWNER:
        rows = rows.filter(owner=owner)
    return frozenset(rows.exclude(desired=Desired.ABSENT).values_list("name", flat=True))


def values_of(row: Workload, *, private: bool) -> dict[str, Any]:
    """Return what a row says, as API and document say it; attachments by name."""
    kind = kinds.kind_of(row.kind)
    given = attached_to(row).public() if kind.attachments else {}
    return kind.own.read(row, private=private) | {name: given[name] for name in kind.attachments}


# --- sharing ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Access:
    """Who may open: the owner and those they shared with, while they are members."""

    owner: bool = False
    visitor: bool = False

    def __bool__(self) -> bool:
        return self.owner or self.visitor


def access_of(user: User, row: Workload) -> Access:
    """Decide afresh at every question, so that a removed member is out at once."""
    if not user.is_active or row.deleted_at or row.desired == Desired.ABSENT:
        return Access()
    member = Membership.objects.filter(project_id=row.project_id, user=user).exists()
    if not member:
        return Access()
    if row.owner_id == user.pk:
        return Access(owner=True)
    shared = Share.objects.filter(workload=row, user=user).exists()
    return Access(visitor=shared)


def shared_with(who: Principal, kind: Kind, project: Project | None = None) -> QuerySet[Any]:
    """Return the rows of others that were shared with ``who``."""
    mine = Share.objects.filter(workload=OuterRef("pk"), user=who.user)
    return visible_to(who, kind, project).filter(Exists(mine)).exclude(desired=Desired.ABSENT)


def shares_of(row: Workload) -> QuerySet[Share]:
    return row.shares.select_related("user", "created_by").order_by("user__username")


def share_candidates(row: Workload) -> QuerySet[User]:
    """Return the members of the project that could be let in."""
    return (
        User.objects.filter(memberships__project=row.project_id, is_active=True)
        .exclude(pk=row.owner_id)
        .exclude(workload_shares__workload=row)
        .order_by("username")[:MAX_CANDIDATES]
    )


# --- for forms ------------------------------------------------------------------------------


@dataclass(frozen=True)
class OfferedVolume:
    """A volume that a form offers; ``label`` tells those of several clusters apart."""

    name: str
    label: str
    cluster_key: str
    may_write: bool
    is_full: bool


def form_values(row: Workload) -> dict[str, Any]:
    """Return what a row says for a form of its owner: attachments by the words of the offers."""
    kind, given = kinds.kind_of(row.kind), attached_to(row)
    return kind.own.read(row, private=True) | given_words(given)


def given_words(given: Attached) -> dict[str, list[str]]:
    """Return what is attached by uid, a volume that is only read as ``uid:ro``."""
    return {
        "volumes": [f"{one.volume.uid}{READ_ONLY * one.read_only}" for one in given.volumes],
        "credentials": [str(one.uid) for one in given.credentials],
        "needs": [str(one.uid) for one in given.needs],
    }


def offers_for(
    who: Principal,
    project: Project,
    kind: Kind,
    row: Workload | None = None,
    fleet: Fleet | None = None,
) -> dict[str, list[tuple[str, Any]]]:
    """Return word and label of what exists for fields that name things (``work.ui.forms``).

    For ``row`` only what its own cluster has. What there is nothing of has an empty list, a text
    of which nothing is known is left out. ``fleet``: a look at the clusters of the project, where
    the caller has one.
    """
    usable = fleet.clusters if fleet else clusters_of(project)
    if row is not None:
        usable = [one for one in usable if one.key == row.cluster_key]
    images = any(cluster.runs_images for cluster in usable)
    if fleet is None or row is not None:
        fleet = Fleet(usable, project.uid)
    key = row.cluster_key if row is not None else ""
    classes = kind.classes or [kind.word] if row is None else [kind.class_of(row)]
    found: dict[str, list[tuple[str, Any]]] = {
        "cluster": _clusters(usable) if row is None else [],
        "environment": _environments(project, usable),
        GPU_FLAVOR.name: list(gpu_offers(fleet, classes, key)),
        "pool": _named(_("Any"), fleet.pools(classes)),
        "network": _named(_("None"), fleet.networks()),
        **_topology(kind, usable),
        "volumes": _volumes(who, project, key or None),
        "credentials": [
            (str(one.uid), f"{one.name} ({one.get_kind_display()})")
            for one in credentials_usable(who, project)[:OFFERED]
        ],
        "needs": [
            (str(one.uid), one.name)
            for needable in needs.needables()
            for one in needable.visible(who, project)[:OFFERED]
        ],
    }
    if not images:  # texts too, which otherwise may be anything; and what decides only on these
        left = [one for one in kind.own if one.images_only]
        found |= {name: [] for one in left for name in (one.name, *(one.only or ())[:1])}
    return {name: offered for name, offered in found.items() if name in kind.table}


def _clusters(usable: Sequence[Cluster]) -> list[tuple[str, Any]]:
    if len(usable) < 2:  # noqa: PLR2004 - nothing to choose
        return []
    return [("", _("Where it starts first")), *((one.key, one.label) for one in usable)]


def _topology(kind: Kind, usable: Sequence[Cluster]) -> dict[str, list[tuple[str, Any]]]:
    """Return the levels that any cluster knows; nothing to choose where there are none."""
    known = {level for cluster in usable for level in options_of(cluster.options).levels}
    offered = [(level, label) for level, label in LABELS.items() if level in known]
    table = kind.table
    field = table["topology"] if "topology" in table and offered else None
    return {
        "topology": list(field.choices) if isinstance(field, Choice) else [],
        "topology_level": offered,
    }


def _environments(project: Project, usable: Sequence[Cluster]) -> list[tuple[str, Any]]:
    if all(cluster.runs_images for cluster in usable):
        return []
    return [(name, name) for name in environments_of(project)]


def _named(none: str, rows: Sequence[Any]) -> list[tuple[str, Any]]:
    found = {row.name: row.description or row.name for row in rows}
    return [("", none), *found.items()] if found else []


def _volumes(who: Principal, project: Project, cluster_key: str | None) -> list[tuple[str, Any]]:
    rows = list(mountable(who, project, cluster_key)[:OFFERED])
    several = len({volume.cluster_key for volume in rows}) > 1
    return [
        (
            str(volume.uid),
            OfferedVolume(
                name=volume.name,
                label=f"{volume.name} · {volume.cluster_key}" if several else volume.name,
                cluster_key=volume.cluster_key,
                may_write=may_write(who, volume),
                is_full=volume.is_full,
            ),
        )
        for volume in rows
    ]
