"""Whether this installation is the only one that works on a cluster under its prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext_noop as _n

from clusters.checks.base import Finding, green, red, undecided
from clusters.checks.probe_runner import MARK
from clusters.models import Cluster
from clusters.options import options_of
from runtime.drivers.kubernetes import names

if TYPE_CHECKING:
    from clusters.checks.base import Subject
    from clusters.checks.probe_runner import Bench

NAME = "installation"


def act(subject: Subject, bench: Bench) -> Finding:
    prefix = subject.options.namespace_prefix
    if twin := _twin(subject):
        return red(
            NAME,
            _n(
                "This is the same cluster as “%(name)s”, with the same prefix %(prefix)s."
                " Detach one of them, or choose another prefix."
            ),
            name=twin.name,
            prefix=prefix,
        )
    ours = f"{names.INSTANCE}={names.instance(prefix)}"
    others = f"{names.INSTALLATION},{names.INSTALLATION}!={bench.installation},!{MARK}"
    asked = {"labelSelector": f"{ours},{others}", "limit": "1"}
    answer = subject.api.ask("GET", "/api/v1/namespaces", params=asked)
    if not answer.ok:
        return undecided(NAME, _n("The API server answered: %(why)s"), why=answer.message)
    for found in answer.body.get("items") or ():
        meta = found.get("metadata") or {}
        return red(
            NAME,
            _n(
                "Another Berth works here with the prefix %(prefix)s (installation %(other)s,"
                " namespace %(namespace)s). Choose another prefix; nothing is started or removed."
            ),
            prefix=prefix,
            other=str((meta.get("labels") or {}).get(names.INSTALLATION, "")),
            namespace=str(meta.get("name", "")),
            fix=f"kubectl get namespaces -l {ours} -L {names.INSTALLATION}",
        )
    return green(NAME, _n("No other Berth works here with the prefix %(prefix)s."), prefix=prefix)


def _twin(subject: Subject) -> Cluster | None:
    """Return a cluster that was attached before and is this one; by what no address changes."""
    answer = subject.api.ask("GET", "/api/v1/namespaces/kube-system")
    identity = str((answer.body.get("metadata") or {}).get("uid", "")) if answer.ok else ""
    if not identity:
        return None
    Cluster.objects.filter(pk=subject.cluster.pk).update(identity=identity)
    for row in Cluster.objects.filter(identity=identity, pk__lt=subject.cluster.pk):
        if options_of(row.options).namespace_prefix == subject.options.namespace_prefix:
            return row
    return None
