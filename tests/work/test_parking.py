"""Parking: told first, stopped, kept; and the ticket for the way back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from clusters import services as clusters
from common.clock import now
from common.errors import Conflict, Forbidden
from events.models import Event
from notifications.models import Notification
from runtime.protocol import Device
from work import kinds, services
from work.choices import StopReason, Void
from work.models import Step, Ticket
from work.ui.pages import pages_of

pytestmark = pytest.mark.django_db
Make = Callable[..., Any]


@pytest.fixture(autouse=True)
def _gpus(world: Any) -> None:
    fake = world.driver_for("local")
    fake.set_devices([Device(f"GPU-{n}", n, "H100", 80_000) for n in range(4)])
    cluster = clusters.ensure_local_cluster()
    clusters.health_store(key=cluster.key, health=fake.probe())


@pytest.fixture(params=["job", "workspace"])
def kind(request: pytest.FixtureRequest, presets: Any) -> Any:
    return kinds.kind_of(request.param)


def test_it_is_told_why_and_until_when_and_its_gpus_and_only_they_are_given_back(
    make: Make, kind: Any, alice: Any, settle: Any, world: Any
) -> None:
    row = make(alice, gpus=2)
    name, address, env = row.name, row.get_absolute_url(), row.env
    assert services.park(row, actor=None)
    assert not services.park(row, actor=None)  # a second one changes nothing
    row = settle(row)
    told = world.driver_for("local").told(str(row.uid))
    assert told["why"] == "parked"
    assert told["until"] > now().isoformat()
    assert (row.phase, row.stop_reason, row.reason) == ("stopped", StopReason.PARKED, "parked")
    assert (row.name, row.get_absolute_url(), row.env, row.gpus) == (name, address, env, 2)
    assert "Parked; resume any time" in str(pages_of(row).states.why(row).text)
    ticket = Ticket.objects.get(workload=row)
    assert (ticket.gpus, ticket.used_at, ticket.void) == (2, None, "")
    assert ticket.valid_until - ticket.parked_at == timedelta(days=14)
    assert Event.objects.filter(verb=f"{kind.word}.parked", target_uid=row.uid).count() == 1
    assert Step.objects.get(workload=row, word="stop-asked").message == "Parked; resume any time"
    assert Notification.objects.filter(user=alice, kind="work.parked").count() == 1


def test_what_holds_no_gpu_or_only_waits_for_one_gets_no_ticket(
    make: Make, kind: Any, alice: Any, settle: Any
) -> None:
    plain, _holder, waits = make(alice), make(alice, gpus=4), make(alice, gpus=1)
    assert waits.is_waiting
    assert services.park(plain, actor=None)
    assert services.park(waits, actor=None)
    settle()
    assert not Ticket.objects.exists()


def test_a_person_parks_what_they_may_end_and_says_why_where_it_is_anothers(
    make: Make, kind: Any, alice: Any, bob: Any, mona: Any, settle: Any, principal: Any
) -> None:
    row = make(alice, gpus=1)
    with pytest.raises(Forbidden):
        services.workload_park(principal=principal(bob), row=row)
    services.workload_park(principal=principal(mona), row=row, said="It idles since Monday")
    settle(row)
    sent = Notification.objects.filter(user=alice).latest("pk")
    assert "It idles since Monday" in sent.params["reason"]
    with pytest.raises(Conflict):
        services.workload_park(principal=principal(alice), row=row)


def test_a_ticket_ends_with_the_project_and_with_the_person(
    make: Make, kind: Any, project: Any, alice: Any, settle: Any
) -> None:
    row = make(alice, gpus=1)
    services.park(row, actor=None)
    settle(row)
    services.workloads_stop_for(reason=StopReason.PROJECT_ARCHIVED, project=project)
    assert Ticket.objects.get(workload=row).void == Void.PROJECT_ARCHIVED


def test_a_load_of_data_is_never_parked(
    project: Any, alice: Any, principal: Any, settle: Any
) -> None:
    load = kinds.kind_of("load")
    said = {"url": "s3://bucket/images"}
    row = settle(
        services.workload_create(principal=principal(alice), project=project, kind=load, said=said)
    )
    assert not services.park(row, actor=None)
    assert settle(row).desired == "running"
