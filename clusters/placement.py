"""Where work may go: pools, kinds of GPU and extra networks, decided by operators' data.

Everything that a tenant can choose is a name; labels, tolerations and resources come from rows.
``placement_for`` and ``network_for`` raise ``common.errors``; ``engine_…`` say it to the engine.
"""

from __future__ import annotations

from collections import Counter
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from clusters.gating_checks import unproved
from clusters.models import Cluster, Flavor, NetworkProfile, Pool
from clusters.node_selection import (
    any_kind,
    hidden_kinds,
    kept_off,
    kinds_in,
    nodes_with,
    pools_with,
    tolerations_of,
)
from clusters.wording import work_words
from common.errors import BerthError, Conflict, Forbidden, Unavailable, wrong
from runtime import protocol as p
from runtime.models import ONE_MACHINE
from runtime.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

# One machine: there the portal's own queue decides what starts and which GPUs it gets.
QUEUED_HERE = frozenset({"fake", "local"})
_project_clusters: list[Callable[[Any], Collection[str] | None]] = []


def register_project_clusters(of: Callable[[Any], Collection[str] | None]) -> None:
    """``of(project_uid)`` → keys of the clusters it may use; empty or None: all of them."""
    _project_clusters[:] = [of]


def usable_clusters(project_uid: Any) -> list[Cluster]:
    """Return the clusters that work of a project may be started on, by name."""
    allowed = set(_project_clusters[0](project_uid) or ()) if _project_clusters else set()
    rows = Cluster.objects.filter(enabled=True).order_by("name", "key")
    return [row for row in rows if not allowed or row.key in allowed]


def launch_refusal(cluster_key: str, project_uid: Any = None) -> str:
    """Return why nothing may start there now, or ''."""
    cluster = Cluster.objects.filter(key=cluster_key).first()
    if cluster is None:
        return "" if cluster_key == ONE_MACHINE else _("There is no such cluster.")
    if not cluster.enabled:
        return _("The cluster %(name)s is switched off.") % {"name": cluster.label}
    if cluster.drain:
        return _("The cluster %(name)s takes no new work at the moment.") % {"name": cluster.label}
    if project_uid is not None and _project_clusters:
        allowed = _project_clusters[0](project_uid)
        if allowed and cluster.key not in allowed:
            return _("This project may not use the cluster %(name)s.") % {"name": cluster.label}
    return _unproved(cluster)


def unproved_among(clusters: Iterable[Cluster]) -> dict[int, str]:
    """Return pk → why nothing may start there yet, of those that let nothing in. One query."""
    return unproved(row for row in clusters if row.driver not in QUEUED_HERE)


def _unproved(cluster: Cluster) -> str:
    return unproved_among([cluster]).get(cluster.pk, "")


def pools_on(keys: Collection[str], kinds: Collection[str], project_uid: Any) -> list[Pool]:
    """Return the pools of several clusters that any of these kinds of work may choose."""
    rows = Pool.objects.filter(cluster__key__in=keys).select_related("cluster")
    return [row for row in rows if any(row.admits(kind, project_uid) for kind in kinds)]


def networks_on(keys: Collection[str], project_uid: Any) -> list[NetworkProfile]:
    """Return the extra networks of several clusters that a project may ask for."""
    rows = NetworkProfile.objects.filter(cluster__key__in=keys).select_related("cluster")
    return [row for row in rows if _is_for(row, project_uid)]


def placement_for(
    cluster_key: str,
    *,
    gpus: int,
    gpu_flavor: str,
    kind: str,
    project_uid: Any,
    pool: str = "",
    network: str = "",
) -> p.Placement:
    """Return which nodes will do, or raise with the field that is wrong.

    Taints of a pool are tolerated by work that names the pool, a network in it, or a kind of GPU
    that it lists.
    """
    pools, usable, bound = _within(cluster_key, kind, project_uid, pool, network, kinds=bool(gpus))
    foreign = [row for row in pools if not row.admits(kind, project_uid)]
    if not gpus:
        labels, found = nodes_with([], bound)
        return p.Placement(
            node_labels=labels,
            any_of=tuple(term for _rank, term in found),
            tolerations=tolerations_of(bound),
            avoid=kept_off(foreign, bound),
        )
    flavors, bound = _kinds(cluster_key, gpu_flavor, hidden_kinds(pools, kind, project_uid), bound)
    labels, found = nodes_with(flavors, bound)
    resource = flavors[0].resource if flavors else p.Placement.resource
    wanted = {flavor.name for flavor in flavors}
    holding = [row for row in usable if wanted & {f.name for f in row.flavors.all()}]
    return p.Placement(
        resource=resource,
        node_labels=labels,
        any_of=tuple(term for _rank, term in found),
        # "any kind" has no order; kinds that were named are liked as they were named (A3)
        ranks=tuple(rank for rank, _term in found) if "," in gpu_flavor else (),
        # nodes with devices are often tainted by the device's own name
        tolerations=({"key": resource, "operator": "Exists"}, *tolerations_of(bound or holding)),
        avoid=kept_off(foreign, bound),
    )


def kinds_given(
    cluster_key: str,
    *,
    gpu_flavor: str,
    kind: str,
    project_uid: Any,
    pool: str = "",
    network: str = "",
) -> list[str]:
    """Return every kind that ``placement_for`` lets such work have: each limit of one counts it."""
    pools, _usable, bound = _within(cluster_key, kind, project_uid, pool, network)
    hidden = hidden_kinds(pools, kind, project_uid)
    found, _bound = _kinds(cluster_key, gpu_flavor, hidden, bound)
    if not found:  # no kind is known there: the first node with such a device will do
        found = list(Flavor.objects.filter(resource=p.Placement.resource))
    return [flavor.name for flavor in found]


def network_for(
    cluster_key: str, *, name: str, gpus: int, project_uid: Any, pool: str = ""
) -> p.Network:
    """Return what an extra network adds to a pod; nothing when none is asked for."""
    if not name:
        return p.Network()
    profile = _profile(cluster_key, name, project_uid, pool)
    cards = profile.cards(gpus)
    if not cards:
        message = _("The network %(name)s comes with GPUs: ask for at least one.") % {"name": name}
        raise wrong("network", message)
    # the first GPU has the first card, which is net1 inside, and so on
    taken = list(islice(cycle(profile.pairs), cards))
    return p.Network(
        attachments=_attachments(taken),
        resources=dict(Counter(resource for _name, resource in taken if resource)),
        env={str(k): str(v) for k, v in (profile.env or {}).items()},
    )


def engine_placement(cluster_key: str, **asked: Any) -> p.Placement:
    """``placement_for`` in the engine's words: what was allowed at launch may be gone."""
    try:
        return placement_for(cluster_key, **asked)
    except BerthError as error:
        raise p.InvalidSpec(error.message, reason=Reason.INVALID_SPEC) from error


def engine_network(cluster_key: str, **asked: Any) -> p.Network:
    try:
        return network_for(cluster_key, **asked)
    except BerthError as error:
        raise p.InvalidSpec(error.message, reason=Reason.INVALID_SPEC) from error


def launch_check(cluster_key: str, project_uid: Any) -> None:
    """Raise Conflict with the sentence when nothing may start there."""
    _refuse(launch_refusal(cluster_key, project_uid))


def proved_check(cluster: Cluster) -> None:
    """The same for a cluster that was just found to take new work of the project."""
    _refuse(_unproved(cluster))


def _refuse(refusal: str) -> None:
    if refusal:
        raise Conflict(refusal, code="cluster-refuses", fields={"cluster": [refusal]})


# --- details --------------------------------------------------------------------------------


def _pools(cluster_key: str, *, kinds: bool = True) -> list[Pool]:
    """Return all pools, with their kinds of GPU where those matter."""
    rows = Pool.objects.filter(cluster__key=cluster_key)
    return list(rows.prefetch_related("flavors") if kinds else rows)


def _within(
    cluster_key: str, kind: str, project_uid: Any, pool: str, network: str, *, kinds: bool = True
) -> tuple[list[Pool], list[Pool], list[Pool]]:
    """Return all pools, those that the work may use, and those of which it needs one."""
    pools = _pools(cluster_key, kinds=kinds)
    chosen = _chosen_pool(pools, pool, kind, project_uid)
    usable = [chosen] if chosen else [row for row in pools if row.admits(kind, project_uid)]
    profile = _profile(cluster_key, network, project_uid, pool) if network else None
    bound = [chosen] if chosen else []
    if profile is not None and chosen is None:
        bound = _wired(profile, usable)
    return pools, usable, bound


def _chosen_pool(pools: list[Pool], name: str, kind: str, project_uid: Any) -> Pool | None:
    if not name:
        return None
    found = next((row for row in pools if row.name == name), None)
    if found is None or (found.project_uids and str(project_uid) not in found.project_uids):
        # a pool of other projects is the same as none
        message = _("There is no pool called %(name)s here.") % {"name": name}
        raise wrong("pool", message)
    if not found.admits(kind, project_uid):
        message = _("The pool %(name)s is reserved for other kinds of work: %(kinds)s.") % {
            "name": name,
            "kinds": ", ".join(work_words(kind) for kind in found.kinds),
        }
        raise Forbidden(message, fields={"pool": [message]})
    return found


def _kinds(
    cluster_key: str, asked: str, hidden: set[str], bound: list[Pool]
) -> tuple[list[Flavor], list[Pool]]:
    """Return the kinds that will do, and which of the pools may have one.

    ``asked``: '' any, 'a,b' any of, a liked more than b.
    """
    cluster = Cluster.objects.filter(key=cluster_key).first()
    if cluster is None:
        raise Unavailable(_("There is no such cluster."))
    there = set(cluster.kinds or {}) - hidden
    if bound:
        there = kinds_in(bound, there)
    rows = {f.name: f for f in Flavor.objects.order_by("position", "name")}
    names = list(dict.fromkeys(name.strip() for name in asked.split(",") if name.strip()))
    if wrong := [name for name in names if name not in there or not rows.get(name)]:
        _raise_no_kind(cluster, wrong[0])
    found = [rows[name] for name in names]
    if not names:
        found = any_kind((f, cluster.kinds[n]["total"]) for n, f in rows.items() if n in there)
    if len({f.resource for f in found}) > 1:
        _raise_flavor(_("These kinds of device can't stand for each other: choose one."))
    if len(bound) > 1 and not (bound := pools_with(bound, found)):
        _raise_no_kind(cluster, found[0].name)
    return found, bound


def _raise_no_kind(cluster: Cluster, name: str) -> None:
    _raise_flavor(
        _("%(cluster)s has no GPU of the kind %(kind)s that this work may use.")
        % {"cluster": cluster.label, "kind": name}
    )


def _raise_flavor(message: str) -> None:
    raise wrong("gpu_flavor", message)


def _attachments(taken: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """One for each card; what takes nothing of the node is attached once."""
    found: list[str] = []
    for attachment, resource in taken:
        if resource or attachment not in found:
            found.append(attachment)
    return tuple(found)


def _profile(cluster_key: str, name: str, project_uid: Any, pool: str) -> NetworkProfile:
    """Return the network, or say no; another project's is the same as none (L3)."""
    row = (
        NetworkProfile.objects.filter(cluster__key=cluster_key, name=name)
        .prefetch_related("pools__flavors")
        .first()
    )
    if row is None or not _is_for(row, project_uid):
        message = _("There is no extra network called %(name)s here.") % {"name": name}
        raise wrong("network", message)
    if not _is_in(row, pool):
        message = _("The pool %(pool)s has no network called %(name)s.") % {
            "pool": pool,
            "name": name,
        }
        raise wrong("network", message)
    return row


def _wired(profile: NetworkProfile, usable: list[Pool]) -> list[Pool]:
    """Without a chosen pool, work with an extra network goes to one of those that have it."""
    wired = {row.pk for row in profile.pools.all()}
    if not wired:
        return []
    inside = [row for row in usable if row.pk in wired]
    if not inside:
        message = _("None of the pools that this work may use has the network %(name)s.") % {
            "name": profile.name
        }
        raise wrong("network", message)
    return inside


def _is_for(row: NetworkProfile, project_uid: Any) -> bool:
    return not row.project_uids or str(project_uid) in row.project_uids


def _is_in(row: NetworkProfile, pool: str) -> bool:
    names = {entry.name for entry in row.pools.all()}
    return not pool or not names or pool in names
