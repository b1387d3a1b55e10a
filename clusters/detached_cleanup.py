"""After a cluster was detached: its empty namespaces go, and an event says what stayed and why.

In worker, where the credential can be opened. It is kept sealed until then, for an hour at most.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import structlog
from django.conf import settings
from django.db import transaction

from clusters.models import Cluster, Farewell
from common import sealing
from common.clock import now
from events import services as events
from runtime import leases, orphans, reconcilers
from runtime.protocol import DriverError, NotYet, Unreachable

if TYPE_CHECKING:
    from runtime.drivers.kubernetes.namespaces import Leaving

log = structlog.get_logger(__name__)
PLACE = "place"
AT_MOST = timedelta(hours=1)
AGAIN = timedelta(seconds=30)
LEASE_S = 300.0
TOLD = 200  # namespaces in an event
WHY = 200  # characters


def farewell(cluster: Cluster, prefix: str) -> None:
    """Remember what is to be looked at there; in the transaction that detaches it."""
    reconciler = reconcilers.registered().get(PLACE)
    if reconciler is None or not cluster.sealed_kubeconfig:
        return
    rows: Any = reconciler.model._default_manager  # noqa: SLF001 - any model
    places = rows.filter(cluster_key=cluster.key, deleted_at__isnull=True)
    made = {name: str(uid) for name, uid in places.values_list("namespace", "uid")}
    if made:
        Farewell.objects.create(
            cluster_uid=cluster.uid,
            name=cluster.name,
            server=cluster.server,
            prefix=prefix,
            sealed_kubeconfig=cluster.sealed_kubeconfig,
            places=made,
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
        left, is_all = dict.fromkeys(row.places, str(error)[:WHY]), not _passes(error)
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
    leaving, close = _open(row)
    try:
        for name, uid in row.places.items():
            try:
                why = leaving.remove_if_empty(name, uid)
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
    removed = sorted(set(row.places) - set(left))
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


def _open(row: Farewell) -> tuple[Leaving, Any]:
    from runtime.drivers.kubernetes import access, kubeconfig
    from runtime.drivers.kubernetes.client import KubeClient
    from runtime.drivers.kubernetes.namespaces import Leaving

    text = sealing.unseal(row.sealed_kubeconfig, settings.BERTH_CLUSTER_PRIVATE_KEY)
    client = KubeClient(kubeconfig.parse(text), check=access.check_from_settings(), connections=4)
    return Leaving(client, orphans.own_id()), client.close
