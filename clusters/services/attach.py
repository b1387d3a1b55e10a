"""Attaching a cluster by a kubeconfig, changing what is set for it.

The kubeconfig is parsed by the allow-list, sealed to the public key and never read here again.
Nothing is contacted: the worker looks at the new cluster within seconds.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from clusters import hooks, registry
from clusters.demand import is_used, live_on
from clusters.models import KUBERNETES, CheckResult, Cluster
from clusters.options import ClusterOptions, changed, options_of
from clusters.services.base import clean_name, require_operator
from common import sealing
from common.clock import now
from common.errors import Conflict, Unavailable, wrong
from common.ids import slugify
from events import services as events
from runtime import bus
from runtime.models import ONE_MACHINE
from runtime.protocol import DriverError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accounts.principal import Principal

_RESERVED = frozenset({ONE_MACHINE, "new"})
MAX_KUBECONFIG = 64 * 1024
MAX_NAME = 120


@dataclass(frozen=True)
class Attachment:
    """What an operator gives: the file is a secret from here on."""

    name: str
    kubeconfig: str = field(repr=False)
    key: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Sealed:
    text: str = field(repr=False)
    server: str
    fingerprint: str


@transaction.atomic
def cluster_attach(*, principal: Principal, given: Attachment) -> Cluster:
    require_operator(principal)
    name = _clean_title(given.name)
    key = clean_name(given.key or slugify(name), "key")
    if key in _RESERVED or "." in key:
        raise wrong("key", _("Choose another short name."))
    options = changed(ClusterOptions(), given.options)
    sealed = _seal(given.kubeconfig)
    _refuse_twin(sealed.server, "", options.namespace_prefix)
    if Cluster.objects.filter(key=key).exists():
        raise Conflict(
            _("There is a cluster with this short name already."),
            code="name-taken",
            fields={"key": [_("There is a cluster with this short name already.")]},
        )
    cluster = Cluster(key=key, name=name, driver=KUBERNETES, options=options.as_json())
    _put(cluster, sealed, principal)
    try:
        with transaction.atomic():
            cluster.save()
    except IntegrityError as error:
        raise Conflict(_("There is a cluster with this short name already.")) from error
    _record(principal, "cluster.attached", cluster, sealed)
    return cluster


@transaction.atomic
def kubeconfig_replace(*, principal: Principal, cluster: Cluster, kubeconfig: str) -> Cluster:
    """Another credential for the same cluster, for example before the old one ends."""
    require_operator(principal)
    row = attached(cluster)
    if not row.sealed_kubeconfig:
        raise Conflict(_("This cluster is the one Berth runs in: it has no kubeconfig."))
    sealed = _seal(kubeconfig)
    _refuse_twin(sealed.server, "", options_of(row.options).namespace_prefix, but=row)
    if (sealed.server[:255], sealed.fingerprint) != (row.server, row.fingerprint):
        # It may be another cluster: nothing that was proved of the first holds for it.
        CheckResult.objects.filter(cluster=row).delete()
    _put(row, sealed, principal)
    row.revision += 1
    row.save()
    _record(principal, "cluster.credential-replaced", row, sealed)
    return row


@transaction.atomic
def cluster_update(
    *,
    principal: Principal,
    cluster: Cluster,
    values: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
) -> Cluster:
    """Change name, enabled, drain and options; unknown names are refused."""
    require_operator(principal)
    row = Cluster.objects.select_for_update().get(pk=cluster.pk)
    told = []
    for name, value in values.items():
        if name == "name":
            row.name = _clean_title(value)
        elif name in {"enabled", "drain"} and isinstance(value, bool):
            setattr(row, name, value)
        else:
            raise wrong(name, _("There is no such field."))
        told.append(name)
    if options:
        before = options_of(row.options)
        if "namespace_prefix" in options and options["namespace_prefix"] != before.namespace_prefix:
            _refuse_used("namespace_prefix", used=bool(live_on(row.key)))
            _refuse_twin(row.server, row.identity, options["namespace_prefix"], but=row)
        after = changed(before, options)
        if (after.queue, after.manages_queues) != (before.queue, before.manages_queues):
            # What was made by the old value stands past the queues, or in none that is left.
            _refuse_used("manages_queues", used=is_used(row.key))
        elif after.levels != before.levels:
            # Flavors with other levels are others: nobody would count what stands in those of now.
            _refuse_used("unit_label", used=is_used(row.key))
        row.options = after.as_json()
        told += [n for n in options if row.options[n] != before.as_json()[n]]
    row.revision += 1
    row.save()
    events.record(
        actor=principal, verb="cluster.changed", target=row, data={"fields": sorted(told)}
    )
    _after(row)
    return row


def _refuse_used(name: str, *, used: bool) -> None:
    if used:
        message = _("It can't be changed while there is work on the cluster.")
        raise Conflict(message, fields={name: [message]})


def attached(cluster: Cluster) -> Cluster:
    """Return the row locked; refused for one that is part of the installation."""
    row = Cluster.objects.select_for_update().get(pk=cluster.pk)
    if not row.is_attached:
        raise Conflict(_("This one is part of the installation and can't be changed here."))
    return row


def _refuse_twin(server: str, identity: str, prefix: str, but: Cluster | None = None) -> None:
    """One API server with one prefix is one cluster: twice it would be watched as two."""
    known = Q(server=server[:255]) if server else Q(pk__in=[])
    if identity:
        known |= Q(identity=identity)
    rows = Cluster.objects.filter(known, options__namespace_prefix=prefix)
    twin = (rows.exclude(pk=but.pk) if but else rows).first()
    if twin is not None:
        message = _(
            "“%(name)s” is this cluster already, with the prefix %(prefix)s."
            " Change that one, or choose another prefix."
        ) % {"name": twin.name, "prefix": prefix}
        raise Conflict(message, code="same-cluster", fields={"namespace_prefix": [message]})


def _clean_title(value: Any) -> str:
    name = re.sub(r"\s+", " ", str(value or "")).strip()
    if not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        raise wrong("name", _("Give it a name."))
    return name


def _put(cluster: Cluster, sealed: _Sealed, principal: Principal) -> None:
    cluster.sealed_kubeconfig = sealed.text
    if (sealed.server[:255], sealed.fingerprint) != (cluster.server, cluster.fingerprint):
        cluster.identity = ""  # until it is asked
    cluster.server, cluster.fingerprint = sealed.server[:255], sealed.fingerprint
    cluster.attached_by, cluster.attached_at = principal.user.uid, now()
    cluster.reachable, cluster.message, cluster.checked_at = False, "", None


def _seal(kubeconfig: str) -> _Sealed:
    """Parse and seal; a refusal says what is wrong and carries nothing of the text."""
    from runtime.drivers.kubernetes import kubeconfig as parser

    text = str(kubeconfig or "")
    if len(text.encode()) > MAX_KUBECONFIG:
        raise wrong("kubeconfig", _("It is longer than a kubeconfig may be (64 KiB)."))
    try:
        access = parser.parse(text)
    except DriverError as error:
        raise wrong("kubeconfig", str(error)) from None
    if not settings.BERTH_CLUSTER_PUBLIC_KEY:
        raise Unavailable(_("BERTH_CLUSTER_PUBLIC_KEY is not set, so nothing can be kept secret."))
    return _Sealed(
        text=sealing.seal(text, settings.BERTH_CLUSTER_PUBLIC_KEY),
        server=access.server,
        fingerprint=fingerprint(access.ca_pem),
    )


def fingerprint(pem: str | bytes) -> str:
    """Return SHA-256 of the first certificate, as people compare it."""
    raw = pem.encode() if isinstance(pem, str) else pem
    try:
        der = x509.load_pem_x509_certificates(raw)[0].public_bytes(Encoding.DER)
    except (ValueError, IndexError):
        return ""
    digest = hashlib.sha256(der).hexdigest().upper()
    return ":".join(digest[i : i + 2] for i in range(0, len(digest), 2))


def _record(principal: Principal, verb: str, cluster: Cluster, sealed: _Sealed) -> None:
    """Another credential counts from here on."""
    found = {"server": sealed.server, "fingerprint": sealed.fingerprint}
    events.record(actor=principal, verb=verb, target=cluster, data=found)
    _after(cluster)


def _after(cluster: Cluster) -> None:
    """Other apps hear of it; the worker makes a new driver and checks again."""
    Cluster.objects.filter(pk=cluster.pk).update(checks_asked_at=now())
    hooks.cluster_changed(cluster.key)
    # "changed": the gate asks again for what is open there
    bus.publish(["operators"], {"kind": "cluster", "uid": str(cluster.uid), "changed": True})
    transaction.on_commit(lambda: registry.forget(cluster.key))
