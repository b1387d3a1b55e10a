"""Kinds of GPU (and of any other accelerator) as operators name, recognise and price them."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils.translation import gettext as _

from clusters.demand import demand_on
from clusters.models import Cluster, Flavor
from clusters.services.base import (
    clean_label_sets,
    clean_name,
    clean_resource,
    require_operator,
)
from clusters.services.nodes import nodes_rematch
from common.errors import Conflict, wrong
from events import services as events
from runtime.use_sources import WrongFieldError, parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accounts.principal import Principal

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
    for name, value in values.items():
        if name != "name":
            _assign(row, name, value)
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


def _assign(row: Flavor, name: str, value: Any) -> None:
    if name in {"label", "match"}:
        setattr(row, name, str(value or "").strip()[: 120 if name == "label" else 200])
    elif name == "resource":
        row.resource = clean_resource(value)
    elif name == "node_labels":
        row.node_labels = clean_label_sets(value)
    elif name == "use_source":
        row.use_source = _use_source(value)
    elif name in {"memory_mib", "position"}:
        if type(value) is not int or not 0 <= value <= 2**31 - 1:
            raise wrong(name, _("A whole number from 0."))
        setattr(row, name, value)
    elif name == "price_per_hour":
        row.price_per_hour = _price(value)
    else:
        raise wrong(name, _("There is no such field."))


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


def _price(value: Any) -> Decimal:
    try:
        price = Decimal(str(value))
    except InvalidOperation as error:
        raise wrong("price_per_hour", _("A number from 0.")) from error
    if not price.is_finite() or not 0 <= price <= MAX_PRICE:
        raise wrong("price_per_hour", _("A number from 0."))
    return price
