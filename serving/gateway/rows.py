"""The routing table as the database says it, and whether that has changed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, time
from typing import TYPE_CHECKING, Any

from django.db.models import Count, Max, Prefetch, Q, Sum

from accounts.models import ApiToken
from accounts.principal import Principal as Person
from common.clock import now
from projects.access import ROLE_PERMISSIONS, Permission
from projects.models import Membership
from runtime.models import ObservedWorkload
from runtime.protocol import Desired, observation_read
from serving.gateway import table
from serving.gateway.table import Principal, RoutingTable
from serving.models import Calls, Endpoint, EndpointKey
from serving.services import batch_access
from work.choices import StopReason

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

METRICS = "/metrics"
VERSION_OF_ITS_OWN = "custom"  # of a row that serves no version of a model
_CALLERS = [role for role, may in ROLE_PERMISSIONS.items() if Permission.ENDPOINT_CALL in may]


def fingerprint() -> tuple[Any, ...]:
    """Return what is another as soon as an endpoint, a replica, a key or a token changed.

    Five small questions. What they do not see (a role that was changed) is read a little later.
    """
    seen = ObservedWorkload.objects.filter(kind=Endpoint.KIND)
    return (
        tuple(
            Endpoint.objects.aggregate(Max("updated_at"), Sum("generation"), Count("pk")).values()
        ),
        tuple(seen.aggregate(Max("seen_at"), Count("pk")).values()),
        tuple(EndpointKey.objects.aggregate(Max("pk"), Count("pk"), Count("revoked_at")).values()),
        tuple(ApiToken.objects.aggregate(Max("pk"), Count("pk"), Count("revoked_at")).values()),
        tuple(batch_access.live().values_list("pk", "job__launch")),
    )


def read_table() -> RoutingTable:
    """Return who may call, and where requests go, as it is now."""
    canaries = Endpoint.objects.filter(deleted_at=None).exclude(desired=Desired.ABSENT)
    rows = (
        canaries.filter(canary_of=None, project__archived_at=None)
        .select_related("project", "version")
        .prefetch_related(Prefetch("canaries", canaries.select_related("version")))
    )
    replicas = _replicas()
    endpoints = tuple(_endpoint(row, replicas) for row in rows)
    return RoutingTable(endpoints, {**_keys(), **_tokens(), **dict(batch_access.principals())})


def _replicas() -> dict[tuple[UUID, int], tuple[str, ...]]:
    """Where each launch listens, by its row's uid and number."""
    found = {}
    seen = ObservedWorkload.objects.filter(kind=Endpoint.KIND)
    for uid, data in seen.values_list("uid", "data"):
        told = observation_read(data)
        addresses = tuple(one.address for one in told.replicas if one.address)
        found[uid, told.launch] = tuple(one for one in addresses if table.ADDRESS.fullmatch(one))
    return found


def _endpoint(
    row: Endpoint, replicas: Mapping[tuple[UUID, int], tuple[str, ...]]
) -> table.Endpoint:
    def behind(one: Endpoint) -> table.Row:
        is_wanted = one.desired == Desired.RUNNING
        ready = replicas.get((one.uid, one.launch), ()) if is_wanted else ()
        version = one.version.name if one.version is not None else VERSION_OF_ITS_OWN
        return table.Row(str(one.pk), version, ready, METRICS)

    canary = next(iter(row.canaries.all()), None)
    is_held = row.desired == Desired.RUNNING or row.stop_reason == StopReason.ASLEEP
    endpoint = table.Endpoint(
        str(row.pk),
        row.project.slug,
        row.name,
        behind(row),
        behind(canary) if canary is not None else None,
        row.canary_percent,
        float(row.wait_s),
    )
    return endpoint if is_held else replace(endpoint, wait_s=0.0, waiting=0)


def _keys() -> dict[str, Principal]:
    live = EndpointKey.objects.filter(revoked_at=None)
    live = live.filter(Q(expires_at=None) | Q(expires_at__gt=now()))
    midnight = datetime.combine(now().astimezone(UTC).date(), time(), UTC)
    today = (
        dict(
            Calls.objects.filter(minute__gte=midnight, caller__startswith="k")
            .values_list("caller")
            .annotate(Sum("requests"))
        )
        if live.filter(requests_per_day__gt=0).exists()
        else {}
    )
    return {
        key.digest: Principal(
            f"k{key.pk}",
            f"k{key.pk}",
            endpoints=frozenset({str(key.endpoint_id)}),
            requests_per_s=key.requests_per_second,
            concurrent=key.concurrent,
            is_exhausted=0 < key.requests_per_day <= today.get(f"k{key.pk}", 0),
            expires_at=key.expires_at.timestamp() if key.expires_at else None,
        )
        for key in live
    }


def _tokens() -> dict[str, Principal]:
    """API tokens call what their people may call, in the projects that they reach."""
    of_person: defaultdict[int, list[Any]] = defaultdict(list)
    members = Membership.objects.filter(role__in=_CALLERS, project__archived_at=None)
    for user, uid, slug in members.values_list("user", "project__uid", "project__slug"):
        of_person[user].append((uid, slug))
    live = ApiToken.objects.filter(revoked_at=None, user__is_active=True)
    live = live.filter(Q(expires_at=None) | Q(expires_at__gt=now())).select_related("user")
    found = {}
    for token in live:
        person = Person(token.user, token)
        if person.allows_scope(Permission.ENDPOINT_CALL):
            may = (slug for uid, slug in of_person[token.user_id] if person.allows_project(uid))
            found[token.digest] = Principal(
                f"t{token.pk}",
                f"u{token.user_id}",
                projects=frozenset(may),
                expires_at=token.expires_at.timestamp() if token.expires_at else None,
            )
    return found
