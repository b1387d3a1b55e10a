"""Pools of nodes and extra networks, as operators lay them down."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils.translation import gettext as _

from clusters.demand import demand_on
from clusters.models import Cluster, Flavor, NetworkProfile, Pool
from clusters.services.base import (
    KINDS_OF_WORK,
    clean_label_sets,
    clean_labels,
    clean_name,
    clean_resource,
    clean_tolerations,
    clean_uids,
    require_operator,
)
from clusters.services.nodes import nodes_rematch
from common.errors import Conflict, no_such_field, wrong
from events import services as events
from runtime.use_sources import WrongFieldError, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from accounts.principal import Principal


_ATTACHMENT = re.compile(
    r"\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/[a-z0-9]([a-z0-9.-]{0,100}[a-z0-9])?\Z"
)
_ENV = re.compile(r"\A[A-Z_][A-Z0-9_]{0,63}\Z")
MAX_COUNT = 64
LIMIT = 40
MAX_VALUE = 1000


@transaction.atomic
def pool_save(
    *, principal: Principal, cluster: Cluster, values: Mapping[str, Any], pool: Pool | None = None
) -> Pool:
    """Make or change a pool. A reserved one is recognised by exactly one label of its own, so
    that everybody else's work can be kept off its nodes.
    """
    require_operator(principal)
    row = pool or Pool(cluster=cluster)
    flavors = values.get("flavors")
    _assign(row, POOL, {name: value for name, value in values.items() if name != "flavors"})
    _check_name(row, Pool)
    if not row.node_labels:
        raise wrong("node_labels", _("Say by which labels its nodes are recognised."))
    if row.is_reserved and len(row.node_labels) != 1:
        raise wrong(
            "node_labels",
            _("A reserved pool is recognised by exactly one label, so that others keep off it."),
        )
    row.save()
    if flavors is not None:
        refusal = _("There is no such kind of GPU.")
        row.flavors.set(_named(Flavor.objects, flavors, "flavors", refusal))
    nodes_rematch(cluster=cluster)
    verb = "pool.created" if pool is None else "pool.changed"
    _tell(principal, verb, row, cluster)
    return row


@transaction.atomic
def pool_delete(*, principal: Principal, pool: Pool) -> None:
    require_operator(principal)
    _tell(principal, "pool.deleted", pool, pool.cluster)
    cluster = pool.cluster
    pool.delete()
    nodes_rematch(cluster=cluster)


@transaction.atomic
def network_save(
    *,
    principal: Principal,
    cluster: Cluster,
    values: Mapping[str, Any],
    network: NetworkProfile | None = None,
) -> NetworkProfile:
    require_operator(principal)
    row = network or NetworkProfile(cluster=cluster)
    pools = values.get("pools")
    _assign(row, NETWORK, {name: value for name, value in values.items() if name != "pools"})
    _check_name(row, NetworkProfile)
    if not row.attachment:
        raise wrong("attachment", _("Name the network attachment as namespace/name."))
    row.save()
    if pools is not None:
        refusal = _("There is no such pool on this cluster.")
        row.pools.set(_named(cluster.pools, pools, "pools", refusal))
    verb = "network.created" if network is None else "network.changed"
    _tell(principal, verb, row, cluster)
    return row


@transaction.atomic
def network_delete(*, principal: Principal, network: NetworkProfile) -> None:
    require_operator(principal)
    _tell(principal, "network.deleted", network, network.cluster)
    network.delete()


def _tell(principal: Principal, verb: str, row: Any, cluster: Cluster) -> None:
    events.record(actor=principal, verb=verb, target=row, data={"cluster": cluster.key})


def _check_name(row: Any, model: Any) -> None:
    row.name = clean_name(row.name, limit=LIMIT)
    others = model.objects.filter(cluster=row.cluster, name=row.name).exclude(pk=row.pk)
    if others.exists():
        message = _("There is one with this name already.")
        raise Conflict(message, code="name-taken", fields={"name": [message]})


def _attachment(value: Any, field: str) -> str:
    found = str(value or "").strip()
    if not _ATTACHMENT.match(found):
        raise wrong(field, _("Name the network attachment as namespace/name."))
    return found


def _further(value: Any) -> list[dict[str, str]]:
    """Pairs in order; with the first one no more than there may be cards."""
    if not isinstance(value, list) or len(value) >= MAX_COUNT:
        raise wrong("further", _("A list of cards, at most %(n)d.") % {"n": MAX_COUNT - 1})
    found = []
    for entry in value:
        if not isinstance(entry, dict) or set(entry) - {"attachment", "resource"}:
            raise wrong("further", _("A card has attachment and resource."))
        attachment = _attachment(entry.get("attachment"), "further")
        resource = clean_resource(entry.get("resource"), empty=True, field="further")
        found.append({"attachment": attachment, "resource": resource})
    return found


def _env(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or any(
        not _ENV.match(str(k)) or "\0" in str(v) or len(str(v)) > MAX_VALUE
        for k, v in value.items()
    ):
        raise wrong("env", _("Variables as NAME=value, in capitals."))
    return {str(k): str(v) for k, v in value.items()}


def _number(value: Any, field: str, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise wrong(
            field, _("A whole number from %(low)d to %(high)d.") % {"low": low, "high": high}
        )
    return value


def _named(rows: Any, names: Any, field: str, refusal: str) -> list[Any]:
    """Return the rows so called, each of them."""
    wanted = {str(getattr(name, "name", name)) for name in names}
    found = list(rows.filter(name__in=wanted))
    if len(found) != len(wanted):
        raise wrong(field, refusal)
    return found


def _kinds(value: Any) -> list[str]:
    if not isinstance(value, list) or set(value) - set(KINDS_OF_WORK):
        raise wrong("kinds", _("One of: %(names)s.") % {"names": ", ".join(KINDS_OF_WORK)})
    return sorted(set(value))


def _text(most: int | None = None) -> Callable[[Any], str]:
    return lambda value: str(value or "").strip()[:most]


def _assign(
    row: Any, cleaned: Mapping[str, Callable[[Any], Any]], values: Mapping[str, Any]
) -> None:
    for name, value in values.items():
        if name not in cleaned:
            raise wrong(name, no_such_field(name, cleaned))
        setattr(row, name, cleaned[name](value))


# A field → what cleans it.
POOL: dict[str, Callable[[Any], Any]] = {
    "name": _text(),
    "description": _text(300),
    "node_labels": clean_labels,
    "tolerations": clean_tolerations,
    "kinds": _kinds,
    "project_uids": clean_uids,
    "position": lambda value: _number(value, "position", 0, 100_000),
}
NETWORK: dict[str, Callable[[Any], Any]] = {
    "name": _text(),
    "description": _text(300),
    "attachment": lambda value: _attachment(value, "attachment"),
    "resource": lambda value: clean_resource(value, empty=True),
    "further": _further,
    "per_gpu": bool,
    "count": lambda value: _number(value, "count", 1, MAX_COUNT),
    "env": _env,
    "project_uids": clean_uids,
}


# Kinds of GPU (and of any other accelerator) as operators name, recognise and price them.


MAX_PRICE = Decimal(100_000)


@transaction.atomic
def flavor_save(
    *, principal: Principal, values: Mapping[str, Any], flavor: Flavor | None = None
) -> Flavor:
    """Make or change one. Its name stands in requests and limits: it never changes."""
    require_operator(principal)
    made = flavor is None
    row = flavor or Flavor(name=clean_name(values.get("name")))
    if made and Flavor.objects.filter(name=row.name).exists():
        message = _("There is a kind with this name already.")
        raise Conflict(message, code="name-taken", fields={"name": [message]})
    _assign(row, FLAVOR, {name: value for name, value in values.items() if name != "name"})
    row.label = row.label or row.name
    row.save()
    for cluster in Cluster.objects.filter(nodes__isnull=False).distinct():
        nodes_rematch(cluster=cluster)
    verb = "flavor.created" if made else "flavor.changed"
    events.record(actor=principal, verb=verb, target=row, data={"fields": sorted(values)})
    return row


@transaction.atomic
def flavor_delete(*, principal: Principal, flavor: Flavor) -> None:
    """Remove a kind that no node offers and nobody uses."""
    require_operator(principal)
    clusters = list(Cluster.objects.all())
    if flavor.device_set.exists() or any(flavor.name in (c.kinds or {}) for c in clusters):
        raise Conflict(_("Nodes offer this kind. It would only come back."))
    demand = demand_on([c.key for c in clusters]).values()
    if any(d.used[flavor.name] or d.waiting[flavor.name] for d in demand):
        raise Conflict(_("Somebody's work uses or waits for this kind."))
    events.record(actor=principal, verb="flavor.deleted", target=flavor)
    flavor.delete()


def _use_source(value: Any) -> dict[str, str]:
    """As it was said, once it is understood; empty: what is known of the resource."""
    if not isinstance(value, dict):
        raise wrong("use_source", _("Fields and what they are."))
    said = {str(name): str(text).strip() for name, text in value.items()}
    try:
        if said:
            parse(said)
    except WrongFieldError as error:
        message = _("“%(name)s” is missing, or not what may stand there.") % {
            "name": error.field[:40]
        }
        raise wrong("use_source", message) from error
    return said


def _decimal(name: str, most: Decimal) -> Callable[[Any], Decimal]:
    def clean(value: Any) -> Decimal:
        try:
            found = Decimal(str(value))
        except InvalidOperation as error:
            raise wrong(name, _("A number from 0.")) from error
        if not found.is_finite() or not 0 <= found <= most:
            raise wrong(name, _("A number from 0."))
        return found

    return clean


def _from_zero(name: str) -> Callable[[Any], int]:
    def clean(value: Any) -> int:
        if type(value) is not int or not 0 <= value <= 2**31 - 1:
            raise wrong(name, _("A whole number from 0."))
        return value

    return clean


FLAVOR: dict[str, Callable[[Any], Any]] = {
    "label": _text(120),
    "match": _text(200),
    "resource": clean_resource,
    "node_labels": clean_label_sets,
    "use_source": _use_source,
    "memory_mib": _from_zero("memory_mib"),
    "position": _from_zero("position"),
    "price_per_hour": _decimal("price_per_hour", MAX_PRICE),
    "weight": _decimal("weight", Decimal(1000)),
}
