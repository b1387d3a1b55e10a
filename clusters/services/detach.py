"""Letting go of a cluster: detached while it answers, forgotten when it no longer does.

Either way the files there stay, and what stays is listed: in the answer, in the event of the
cluster, and for each project in an event of its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from clusters import hooks, registry
from clusters.demand import PLACE, live_on
from clusters.models import Cluster, Farewell
from clusters.options import options_of
from clusters.services.attach import attached
from clusters.services.base import require_operator
from clusters.wording import counted
from common import sealing
from common.clock import now
from common.errors import Conflict, Invalid
from events import services as events
from runtime import installation, leases, orphans, reconcilers
from runtime.drivers.kubernetes.names import searches as searches_of
from runtime.models import ObservedWorkload
from runtime.protocol import DriverError, NotYet, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from uuid import UUID

    from accounts.principal import Principal
    from runtime.drivers.kubernetes.namespaces import Leaving
    from runtime.drivers.kubernetes.queues import Queues
    from runtime.reconcilers import Reconciler


@transaction.atomic
def cluster_detach(*, principal: Principal, cluster: Cluster, confirm: str) -> list[Left]:
    """Let go of a cluster, and of the credential. Refused while there is work; files stay there.

    The worker then removes its empty namespaces; the sealed credential goes after that.
    """
    row = _confirmed(principal, cluster, confirm)
    if options_of(row.options).manages_queues:
        sentence = _("Berth keeps the queues of %(name)s. Switch that off first: it removes them.")
        raise Conflict(sentence % {"name": row.name})
    there = live_on(row.key, holding=True)
    for held in hooks.cluster_held(row.key):
        there |= held
    if there:
        said = {"name": row.name, "kept": counted(there)}
        sentence = _("There is still work on %(name)s (%(kept)s). Delete it first.")
        if not row.reachable:
            sentence = _(
                "There is still work on %(name)s (%(kept)s). The cluster does not answer: if it"
                " will not come back, forget it; what is there is listed then."
            )
        raise Conflict(sentence % said, extra={"there": there})
    return _let_go(principal, row, "cluster.detached")


@transaction.atomic
def cluster_forget(*, principal: Principal, cluster: Cluster, confirm: str) -> list[Left]:
    """Let go of a cluster that no longer answers, with all work that Berth knows of there."""
    row = _confirmed(principal, cluster, confirm)
    if row.reachable:
        raise Conflict(
            _("%(name)s answered when it was last asked: detach it instead.") % {"name": row.name}
        )
    return _let_go(principal, row, "cluster.forgotten")


def _confirmed(principal: Principal, cluster: Cluster, confirm: str) -> Cluster:
    require_operator(principal)
    row = attached(cluster)
    if confirm.strip() != row.name:
        raise Invalid(_("The typed name is not the cluster's. Nothing was changed."))
    return row


def _let_go(principal: Principal, row: Cluster, verb: str) -> list[Left]:
    """End every row there without its driver, say what stays, and remove the cluster's row."""
    left: list[Left] = []
    message = _("Its cluster %(name)s was let go of; what was there stays there.")
    for reconciler, item in live_rows(cluster_key=row.key, locked=True):
        left.append(left_of(item))
        orphans.let_go(reconciler, item, message % {"name": row.name})
    said: dict[str, Any] = {"actor": principal, "target": row}
    for project, of_project in by_project(left).items():
        told = told_of(of_project)
        events.record(**said, verb="cluster.left-there", project_uid=project, **told)
    events.record(**said, verb=verb, **told_of(left))
    ObservedWorkload.objects.filter(cluster_key=row.key).delete()
    key = row.key
    farewell(row, options_of(row.options).namespace_prefix)
    row.delete()
    hooks.cluster_changed(key)
    transaction.on_commit(lambda: registry.forget(key))
    return left


# What rows stand for on a cluster that Berth lets go of, or that does not answer: where it is.


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


def live_rows(*, locked: bool = False, **conditions: Any) -> Iterator[tuple[Reconciler, Any]]:
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


def left_of(row: Any) -> Left:
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


def told_of(found: Sequence[Left]) -> dict[str, Any]:
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


# After a cluster was detached: its empty namespaces go, and an event says what stayed and why.
#
# In worker, where the credential can be opened. It is kept sealed until then, for an hour at most.


log = structlog.get_logger(__name__)
AT_MOST = timedelta(hours=1)
AGAIN = timedelta(seconds=30)
LEASE_S = 300.0
TOLD = 200  # namespaces in an event
WHY = 200  # characters
_QUEUES = "Kueue"  # what its queues are called among the namespaces that stay


def farewell(cluster: Cluster, prefix: str) -> None:
    """Remember what is to be looked at there; in the transaction that detaches it."""
    reconciler = reconcilers.registered().get(PLACE)
    if reconciler is None or not cluster.sealed_kubeconfig:
        return
    rows: Any = reconciler.model._default_manager  # noqa: SLF001 - any model
    places = rows.filter(cluster_key=cluster.key, deleted_at__isnull=True)
    made = {name: str(uid) for name, uid in places.values_list("namespace", "uid")}
    queues = options_of(cluster.options).manages_queues
    if made or queues:
        Farewell.objects.create(
            cluster_uid=cluster.uid,
            name=cluster.name,
            server=cluster.server,
            prefix=prefix,
            sealed_kubeconfig=cluster.sealed_kubeconfig,
            places=made,
            queues=queues,
            next_at=now(),
            until=now() + AT_MOST,
        )


def run_due() -> int:
    """Look at what was detached; returns how many clusters are done with."""
    if not settings.BERTH_CLUSTER_PRIVATE_KEY:
        return 0
    done = 0
    for row in Farewell.objects.filter(next_at__lte=now()):
        held = leases.acquire(f"farewell:{row.pk}", ttl_s=LEASE_S)
        if held is None:
            continue
        try:
            done += _say(row)
        except Exception:  # whatever one of them is, the next ones are looked at
            log.exception("cluster.farewell-failed", cluster=row.name)
            Farewell.objects.filter(pk=row.pk).update(next_at=now() + AGAIN)
        finally:
            held.release()
    return done


def _say(row: Farewell) -> bool:
    again = Cluster.objects.filter(server=row.server, options__namespace_prefix=row.prefix)
    if again.exists():
        _end(row, dict.fromkeys(row.places, "the cluster is attached again"))
        return True
    is_over = now() >= row.until
    try:
        left, is_all = _remove(row)
    except (DriverError, sealing.SealError) as error:
        names = [*row.places, *([_QUEUES] if row.queues else [])]
        left, is_all = dict.fromkeys(names, str(error)[:WHY]), not _passes(error)
    except Exception:
        if not is_over:  # tried again; the credential is not kept for longer than it was said
            raise
        log.exception("cluster.farewell-failed", cluster=row.name)
        left, is_all = dict.fromkeys(row.places, "it could not be looked at"), True
    if not is_all and not is_over:
        Farewell.objects.filter(pk=row.pk).update(next_at=now() + AGAIN)
        return False
    _end(row, left)
    return True


def _passes(error: Exception) -> bool:
    """Whether the same may have another answer in a while."""
    return isinstance(error, Unreachable | NotYet)


def _remove(row: Farewell) -> tuple[dict[str, str], bool]:
    """Return which namespaces stay and why, and whether that is the last word on all of them.

    A repetition finds what is gone already.
    """
    left: dict[str, str] = {}
    is_all = True
    leaving, queues, close = _open(row)

    def removed_queues() -> str:
        queues.remove()
        return ""

    acts: dict[str, Callable[[], str]] = {
        name: partial(leaving.remove_if_empty, name, uid) for name, uid in row.places.items()
    }
    acts[searches_of(row.prefix)] = partial(leaving.remove_searches, searches_of(row.prefix))
    if row.queues:
        acts[_QUEUES] = removed_queues
    try:
        for name, act in acts.items():
            try:
                why = act()
            except Unreachable:
                raise  # so are the others
            except DriverError as error:
                why = (str(error) or type(error).__name__)[:WHY]
                is_all = is_all and not _passes(error)
            if why:
                left[name] = why
    finally:
        close()
    return left, is_all


@transaction.atomic
def _end(row: Farewell, left: dict[str, str]) -> None:
    removed = sorted({*row.places, *([_QUEUES] if row.queues else [])} - set(left))
    told = sorted(left.items())[:TOLD]
    events.record(
        actor=None,
        verb="cluster.namespaces-left" if left else "cluster.namespaces-removed",
        target=row,
        message=", ".join(f"{name} ({why})" for name, why in told) or ", ".join(removed[:TOLD]),
        data={"removed": removed[:TOLD], "left": dict(told)},
    )
    row.delete()
    log.info("cluster.farewell", cluster=row.name, removed=len(removed), left=len(left))


def _open(row: Farewell) -> tuple[Leaving, Queues, Any]:
    from runtime.drivers.kubernetes import kubeconfig
    from runtime.drivers.kubernetes.access import check_from_settings
    from runtime.drivers.kubernetes.client import KubeClient
    from runtime.drivers.kubernetes.namespaces import Leaving
    from runtime.drivers.kubernetes.options import KubernetesOptions
    from runtime.drivers.kubernetes.queues import Queues

    text = sealing.unseal(row.sealed_kubeconfig, settings.BERTH_CLUSTER_PRIVATE_KEY)
    client = KubeClient(kubeconfig.parse(text), check=check_from_settings(), connections=4)
    own = installation.own_id()
    options = KubernetesOptions(namespace_prefix=row.prefix, installation=own)
    return Leaving(client, own), Queues(client, options), client.close
