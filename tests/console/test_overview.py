"""The operators' first page: what is used, what waits, what is unwell, what needs somebody."""

from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse

from clusters.models import Claim, Cluster, Device, Flavor, Hold
from common.clock import now
from common.ids import new_uid
from console.views.overview import overview
from runtime import leases
from runtime.models import ONE_MACHINE

pytestmark = pytest.mark.django_db


def claim(where: Cluster, **more: Any) -> Claim:
    who = {"workload_uid": new_uid(), "project_uid": new_uid(), "owner_uid": new_uid()}
    fields = {"workload_kind": "workspace", "asked_at": now(), "gpus": 1, **who, **more}
    return Claim.objects.create(cluster=where, **fields)


def cluster(key: str, **more: Any) -> Cluster:
    fields = {"driver": "kubernetes", "reachable": True, "checked_at": now(), **more}
    fields.setdefault("name", key.title())
    return Cluster.objects.update_or_create(key=key, defaults=fields)[0]


def needs_of(what: str) -> list[str]:
    return [need.why for need in overview().needs if need.what == what]


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"reachable": False, "message": "connection refused"}, "refused"),
        ({"checked_at": now() - timedelta(hours=1)}, "for a while"),
    ],
)
def test_a_cluster_that_is_unwell_needs_somebody(fields: dict[str, Any], word: str) -> None:
    cluster("east")
    assert needs_of("East") == []
    cluster("east", **fields)
    (why,) = needs_of("East")
    assert word in why
    cluster("east", enabled=False, **fields)
    assert needs_of("East") == [], "what was switched off is no news"


def test_a_red_check_and_gpus_of_nodes_that_are_out_are_counted() -> None:
    Flavor.objects.create(name="h100", label="H100")
    east = cluster("east", kinds={"h100": {"total": 8, "largest": 8, "out": 3}})
    east.checks.create(name="dns", state="red", at=now())
    assert needs_of("East") == ["1 check is red", "3 GPUs are on nodes that are not up."]


def test_only_those_that_wait_for_long_need_somebody() -> None:
    waits = claim(cluster("east"))
    found = overview()
    assert found.waiting_count == 1
    assert needs_of("Queue") == []
    Claim.objects.filter(pk=waits.pk).update(asked_at=now() - timedelta(hours=1))
    assert needs_of("Queue") == ["1 workload waits for more than half an hour."]


def test_a_kind_is_summed_over_machines_and_clusters() -> None:
    flavor = Flavor.objects.create(name="h100", label="H100")
    cluster("east", kinds={"h100": {"total": 8, "largest": 8, "held": 2}})
    here = cluster(ONE_MACHINE, driver="local")
    devices = [
        Device.objects.create(
            cluster=here, index=n, uuid=f"GPU-{n}", flavor=flavor, healthy=True, seen_at=now()
        )
        for n in range(2)
    ]
    Hold.objects.create(claim=claim(here, granted_at=now()), device=devices[0])
    (use,) = overview().gpus
    assert (use.label, use.total, use.held, use.free) == ("H100", 10, 3, 7)


def test_what_is_urgent_comes_first(as_user: Any, operator: Any) -> None:
    cluster("east", checked_at=now() - timedelta(hours=1))
    cluster("west", reachable=False, message="connection refused")
    page = as_user(operator).get(reverse("console:overview"))
    urgent = [need.is_urgent for need in page.context["seen"].needs]
    assert urgent == sorted(urgent, reverse=True)
    assert page.content.decode().index("West") < page.content.decode().index("East")


def test_where_all_is_well_the_page_says_so(as_user: Any, operator: Any) -> None:
    cluster(ONE_MACHINE, driver="local")
    leases.beat()  # a worker lives
    page = as_user(operator).get(reverse("console:overview"))
    assert page.context["seen"].needs == []
    assert "All is well" in page.content.decode()
