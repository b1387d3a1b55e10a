"""What would start now on a Kubernetes cluster: advice from free counts; the cluster decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from clusters.placement import KindUse, uses
from runtime.ports import Granted, Waiting
from runtime.reasons import Reason

if TYPE_CHECKING:
    from clusters.models import Cluster
    from runtime.protocol import Resources


def preview(cluster: Cluster, resources: Resources) -> Granted | Waiting:
    """Say whether it fits now, by kind, without asking for a place."""
    if not resources.gpus:
        return _without_gpu(cluster, resources)
    kinds = uses([cluster])
    names = {n.strip() for n in resources.gpu_flavor.split(",") if n.strip()}
    fitting = [use for use in kinds if not names or use.flavor.name in names]
    lacking = f"gpu:{resources.gpu_flavor}" if resources.gpu_flavor else "gpu"
    largest = max((use.largest for use in fitting), default=0)
    if resources.gpus > largest:
        return Waiting(1, 0, Reason.DOES_NOT_FIT, _never(cluster, resources, largest), (lacking,))
    if any(use.free >= resources.gpus and use.largest >= resources.gpus for use in fitting):
        return Granted()
    ahead = sum(use.waiting for use in fitting)
    return Waiting(ahead + 1, ahead, Reason.NO_CAPACITY, sentence(cluster, fitting), (lacking,))


def sentence(cluster: Cluster, kinds: list[KindUse]) -> str:
    """Say how many of each kind are free now."""
    counts = ", ".join(
        _("%(kind)s: %(free)d of %(total)d free")
        % {"kind": use.flavor.label, "free": use.free, "total": use.total}
        for use in kinds
    )
    return _("Not enough is free on %(cluster)s now (%(counts)s); it would wait.") % {
        "cluster": cluster.name,
        "counts": counts,
    }


def _never(cluster: Cluster, resources: Resources, largest: int) -> str:
    if not largest:
        return _("%(cluster)s has no node with such a GPU.") % {"cluster": cluster.name}
    return ngettext(
        "The largest node of %(cluster)s with this kind has %(n)d GPU; it asks for %(asked)d.",
        "The largest node of %(cluster)s with this kind has %(n)d GPUs; it asks for %(asked)d.",
        largest,
    ) % {"cluster": cluster.name, "n": largest, "asked": resources.gpus}


def _without_gpu(cluster: Cluster, resources: Resources) -> Granted | Waiting:
    capacity = cluster.capacity or {}
    short = [
        word
        for word, asked, there in (
            ("cpu", resources.cpu_milli, capacity.get("cpu_milli")),
            ("memory", resources.memory_mib, capacity.get("memory_mib")),
        )
        if there and asked > int(there)
    ]
    if not short:
        return Granted()
    message = _("%(cluster)s has less than it asks for.") % {"cluster": cluster.name}
    return Waiting(1, 0, Reason.DOES_NOT_FIT, message, tuple(short))
