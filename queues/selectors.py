"""The tree with what each part has, holds, lends and waits for; constant queries."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from clusters.models import Cluster, Flavor
from clusters.models import Pool as NodePool
from clusters.options import options_of
from clusters.wording import work_words
from common.errors import NotFound, wrong
from events.models import Event
from projects.models import Project
from queues import works
from queues.effect import Promise, promises
from queues.models import Guarantee, Priority, Queue
from queues.sharing import NO_SHARE, ROOT, Pool, Share
from queues.tree import Entry, Where, entries, in_order, revision_of, tree_on
from queues.works import Standing, standings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


@dataclass(frozen=True)
class Use:
    """GPUs of one kind on one cluster: of one part of the tree, or of all of it.

    ``lent``: guaranteed and not used, and not free: others would have to give it back.
    """

    share: Share = NO_SHARE
    held: int = 0
    borrowed: int = 0
    lent: int = 0
    waiting: int = 0

    @property
    def within(self) -> int:
        """Held within the guarantee."""
        return self.held - self.borrowed


@dataclass(frozen=True)
class Column:
    """One kind on one cluster: how many there are, what is promised of them, and who has what."""

    cluster: Cluster
    flavor: Flavor
    promise: Promise
    whole: Use
    uses: Mapping[str, Use] = field(default_factory=dict)  # by part

    @property
    def where(self) -> Where:
        return self.cluster.key, self.flavor.name

    @property
    def exists(self) -> int:
        return self.promise.exists

    @property
    def free(self) -> int:
        return max(0, self.exists - self.whole.held)


@dataclass(frozen=True)
class Row:
    """One part as a page shows it below others."""

    entry: Entry
    depth: int
    use: Use


@dataclass(frozen=True)
class Look:
    """The tree, and every kind on every cluster."""

    tree: Mapping[str, Entry]
    columns: tuple[Column, ...]

    def column(self, where: Where | None) -> Column | None:
        """Return the column that is asked for, or the first one."""
        first = self.columns[0] if self.columns else None
        return next((one for one in self.columns if one.where == where), first)

    def rows(self, column: Column | None) -> list[Row]:
        uses = column.uses if column else {}
        return [Row(entry, depth, uses.get(entry.key, Use())) for entry, depth in self.ordered]

    @property
    def ordered(self) -> list[tuple[Entry, int]]:
        return in_order(self.tree)

    @property
    def revision(self) -> str:
        return revision_of(self.tree)


def look(clusters: Iterable[Cluster] | None = None) -> Look:
    """Return the tree with what is so on all clusters that are used, or on some."""
    if clusters is None:
        clusters = Cluster.objects.filter(enabled=True).order_by("name")
    tree = entries()
    flavors = list(Flavor.objects.order_by("position", "name"))
    found = (_columns(standing, flavors, tree) for standing in standings(clusters).values())
    return Look(tree, tuple(column for columns in found for column in columns))


def _columns(
    standing: Standing, flavors: list[Flavor], tree: Mapping[str, Entry]
) -> Iterator[Column]:
    """Yield the kinds that a cluster has, and those of which something is promised there."""
    parts = tree_on(standing.cluster.key, tree.values()).parts
    pool = Pool(parts, standing.capacity)
    waiting: dict[str, Counter[str]] = defaultdict(Counter)
    for work in standing.works:
        if work.kind:
            pool.take(work)
            continue
        for kind in work.kinds:
            for key in (*(part.key for part in pool.path(work.part)), ROOT):
                waiting[kind][key] += work.count
    promised = {promise.kind: promise for promise in promises(parts, standing.capacity)}
    for flavor in flavors:
        kind = flavor.name
        if kind not in promised:
            continue
        held, waits, free = pool.held, waiting[kind], _free(pool, kind)
        borrowed = _borrowed(tree, pool, kind)
        unused = {
            part.key: max(
                0, part.share(kind).guaranteed - max(part.share(kind).kept, held[part.key][kind])
            )
            for part in parts
        }
        uses = {
            part.key: Use(
                share=part.share(kind),
                held=held[part.key][kind],
                borrowed=borrowed[part.key],
                lent=max(0, unused[part.key] - free),
                waiting=waits[part.key],
            )
            for part in parts
        }
        whole = Use(
            share=Share(promised[kind].promised),
            held=held[ROOT][kind],
            borrowed=borrowed[ROOT],
            lent=max(0, sum(n for key, n in unused.items() if tree[key].is_project) - free),
            waiting=waits[ROOT],
        )
        yield Column(standing.cluster, flavor, promised[kind], whole, uses)


def _free(pool: Pool, kind: str) -> int:
    return max(0, pool.capacity.get(kind, 0) - pool.held[ROOT][kind])


def _borrowed(tree: Mapping[str, Entry], pool: Pool, kind: str) -> Counter[str]:
    """Return what each part holds over its guarantee, an organisation with its parts.

    What an organisation guarantees beyond its parts' own guarantees covers those who borrow.
    """
    found: Counter[str] = Counter()
    below: Counter[str] = Counter()  # guaranteed to the parts of each
    for entry, _depth in reversed(in_order(tree)):  # parts before what they stand below
        own = pool.path(entry.key)[0].share(kind).guaranteed
        if entry.is_project:
            found[entry.key] = max(0, pool.held[entry.key][kind] - own)
        else:
            found[entry.key] = max(0, found[entry.key] - max(0, own - below[entry.key]))
        above = entry.parent if entry.parent in tree else ROOT
        found[above] += found[entry.key]
        below[above] += max(own, below[entry.key])
    return found


@dataclass(frozen=True)
class Own:
    """What a project has of one kind of GPU somewhere; of any kind: ''."""

    where: Where
    use: Use


def of_project(project: Project) -> list[Own]:
    """Return what is guaranteed to a project, and what it holds and waits for, where anything is.

    Others are not told of.
    """
    columns = ("cluster__key", "flavor__name", "guaranteed", "most", "lends")
    rows = Guarantee.objects.filter(queue__project=project).values_list(*columns)
    shares = {(key, kind): Share(*numbers) for key, kind, *numbers in rows}
    held, waiting = works.of_project(project)
    found = []
    for where in sorted({*shares, *held, *waiting}):
        share, holds = shares.get(where, NO_SHARE), held[where]
        use = Use(share, holds, max(0, holds - share.guaranteed), 0, waiting[where])
        if use != Use():
            found.append(Own(where, use))
    return found


@dataclass(frozen=True)
class PoolSeen:
    """A pool of a cluster and whom it is for; nothing named: everybody, all work."""

    pool: NodePool
    works: tuple[str, ...]
    projects: tuple[Entry, ...]


def pools_on(cluster: Cluster, tree: Mapping[str, Entry]) -> list[PoolSeen]:
    """Return the pools of a cluster as operators laid them down."""
    return [
        PoolSeen(
            pool,
            tuple(work_words(kind) for kind in pool.kinds),
            tuple(tree[uid] for uid in pool.project_uids if uid in tree),
        )
        for pool in NodePool.objects.filter(cluster=cluster)
    ]


def kept_apart(cluster: Cluster) -> str:
    """Return in words what keeps groups of projects apart on a cluster; '' on one machine."""
    if not cluster.runs_images:
        return ""
    said = {"cluster": cluster.label}
    if not options_of(cluster.options).manages_queues:
        text = _("%(cluster)s decides itself who starts: what is said here is not kept there.")
        return text % said
    there = NodePool.objects.filter(cluster=cluster)
    pools = [pool.name for pool in there if pool.node_labels]
    if not pools:
        text = _(
            "%(cluster)s has no pools of nodes: both groups run on the same nodes, and only how"
            " many GPUs each holds is kept apart."
        )
        return text % said
    text = _(
        "Which nodes work may use on %(cluster)s is said by its pools (%(pools)s); how many GPUs"
        " each group holds is kept apart on all of them together."
    )
    return text % {**said, "pools": ", ".join(pools)}


def longest_of(project: Project, purpose: str) -> int | None:
    """Return how many minutes work of a purpose runs at most in a project; None: no limit.

    The least of what its queue and those above it say. One query.
    """
    rows = Queue.objects.values_list("pk", "parent_id", "project_id", "longest")
    known = {pk: (parent, longest) for pk, parent, _project, longest in rows}
    pk = next((pk for pk, _parent, owner, _longest in rows if owner == project.pk), None)
    found = []
    while pk in known:
        pk, longest = known.pop(pk)  # a circle ends where it began
        found.append(longest.get(purpose))
    return min((n for n in found if n), default=None)


def priorities() -> QuerySet[Priority]:
    """Return the classes of priority, the first to be let in first."""
    return Priority.objects.order_by("-value", "name")


def priority_get(name: str) -> Priority:
    row = Priority.objects.filter(name=name).first()
    if row is None:
        raise NotFound(_("There is no such class of priority."))
    return row


def entry_get(key: str) -> tuple[Entry, Mapping[str, Entry]]:
    """Return one part, and the tree that it stands in."""
    tree = entries()
    if key not in tree:
        raise NotFound(_("There is no such part of the tree."))
    return tree[key], tree


def history() -> QuerySet[Event]:
    """Return every change of the tree and of priorities, newest first; with before and after."""
    verbs = (
        *("queue.tree-changed", "queue.created", "queue.deleted"),
        *("priority.created", "priority.changed", "priority.deleted"),
    )
    return Event.objects.filter(verb__in=verbs, outcome="done").order_by("-id")


def rows_named(said: dict[str, Any]) -> dict[str, Any]:
    """Take out of a request the project (a slug) and the organisation (a uid) that it names, and
    return their rows. Invalid, with the field, where there is none.
    """
    found: dict[str, Any] = {}
    if slug := said.pop("project", ""):
        found["project"] = Project.objects.filter(slug=slug, deleted_at__isnull=True).first()
        if found["project"] is None:
            raise wrong("project", _("There is no such project."))
    if uid := said.pop("organisation", None):
        found["organisation"] = Queue.objects.filter(uid=uid, project__isnull=True).first()
        if found["organisation"] is None:
            raise wrong("organisation", _("There is no such organisation."))
    return found
