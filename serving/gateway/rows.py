"""The routing table as the database says it, and whether that has changed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, time
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import structlog
from django.db.models import Count, Max, Q, Sum

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
from serving.states import stopped_says
from work.choices import StopReason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from uuid import UUID

log = structlog.get_logger(__name__)
T = TypeVar("T")
Made = TypeVar("Made")

METRICS = "/metrics"
VERSION_OF_ITS_OWN = "custom"  # of a row that serves no version of a model
# Of each endpoint: all of its columns would be half of what a table costs.
_READ = (
    *("uid", "name", "desired", "launch", "stop_reason", "project__slug", "version__name"),
    *("canary_of", "canary_percent", "wait_s", "origins"),
)
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
    there = Endpoint.objects.filter(deleted_at=None, project__archived_at=None)
    rows = there.exclude(desired=Desired.ABSENT).select_related("project", "version").only(*_READ)
    canaries = {row.canary_of_id: row for row in rows if row.canary_of_id is not None}
    firsts = (row for row in rows if row.canary_of_id is None)
    replicas = _replicas()
    endpoints = tuple(_of_each(firsts, lambda row: _endpoint(row, canaries.get(row.pk), replicas)))
    return RoutingTable(endpoints, dict([*_keys(), *_tokens(), *batch_access.principals()]))


def _of_each(things: Iterable[T], make: Callable[[T], Made]) -> Iterator[Made]:
    """Make a value of each. One that can't stand in the table is left out: only that is away."""
    for one in things:
        try:
            yield make(one)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            _say_left_out(type(one).__name__, str(getattr(one, "pk", "")), str(error))


@lru_cache(maxsize=1000)  # once, and not each time that the table is read
def _say_left_out(what: str, pk: str, why: str) -> None:
    log.error("gateway.left_out", what=what, pk=pk, why=why)


def _replicas() -> dict[tuple[UUID, int], tuple[str, ...]]:
    """Where each launch listens, by its row's uid and number."""

    def listening(row: ObservedWorkload) -> tuple[tuple[UUID, int], tuple[str, ...]]:
        told = observation_read(row.data)
        addresses = tuple(one.address for one in told.replicas if one.address)
        good = tuple(one for one in addresses if table.ADDRESS.fullmatch(one))
        return (row.uid, told.launch), good

    seen = ObservedWorkload.objects.filter(kind=Endpoint.KIND).only("uid", "data")
    return dict(_of_each(seen, listening))


def _endpoint(
    row: Endpoint, beside: Endpoint | None, replicas: Mapping[tuple[UUID, int], tuple[str, ...]]
) -> table.Endpoint:
    def behind(one: Endpoint) -> table.Row:
        is_wanted = one.desired == Desired.RUNNING
        ready = replicas.get((one.uid, one.launch), ()) if is_wanted else ()
        version = one.version.name if one.version is not None else VERSION_OF_ITS_OWN
        return table.Row(str(one.pk), version, ready, METRICS)

    canary = next(_of_each([beside] if beside is not None else [], behind), None)
    is_held = row.desired == Desired.RUNNING or row.stop_reason == StopReason.ASLEEP
    endpoint = table.Endpoint(
        str(row.pk),
        row.project.slug,
        row.name,
        behind(row),
        canary,
        row.canary_percent,
        float(row.wait_s),
        origins=tuple(row.origins.split()),
    )
    if is_held:
        return endpoint
    return replace(endpoint, wait_s=0.0, waiting=0, stopped=stopped_says(row))


def _keys() -> Iterator[tuple[str, Principal]]:
    live = EndpointKey.objects.filter(revoked_at=None, endpoint__deleted_at=None)
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

    def read(key: EndpointKey) -> tuple[str, Principal]:
        return table.checked_digest(key.digest), Principal(
            f"k{key.pk}",
            f"k{key.pk}",
            endpoints=frozenset({str(key.endpoint_id)}),
            requests_per_s=key.requests_per_second,
            concurrent=key.concurrent,
            is_exhausted=0 < key.requests_per_day <= today.get(f"k{key.pk}", 0),
            expires_at=key.expires_at.timestamp() if key.expires_at else None,
        )

    return _of_each(live, read)


def _tokens() -> Iterator[tuple[str, Principal]]:
    """API tokens call what their people may call, in the projects that they reach."""
    of_person: defaultdict[int, list[Any]] = defaultdict(list)
    members = Membership.objects.filter(role__in=_CALLERS, project__archived_at=None)
    for user, uid, slug in members.values_list("user", "project__uid", "project__slug"):
        of_person[user].append((uid, slug))
    live = ApiToken.objects.filter(revoked_at=None, user__is_active=True)
    live = live.filter(Q(expires_at=None) | Q(expires_at__gt=now())).select_related("user")

    def read(token: ApiToken) -> tuple[str, Principal]:
        person = Person(token.user, token)
        may = [slug for uid, slug in of_person[token.user_id] if person.allows_project(uid)]
        return table.checked_digest(token.digest), Principal(
            f"t{token.pk}",
            f"u{token.user_id}",
            projects=frozenset(slug for slug in may if table.NAME.fullmatch(slug)),
            expires_at=token.expires_at.timestamp() if token.expires_at else None,
        )

    may_call = (one for one in live if Person(one.user, one).allows_scope(Permission.ENDPOINT_CALL))
    return _of_each(may_call, read)
