"""Parking: told first, stopped, kept; and the ticket for the way back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
import time_machine

from clusters import services as clusters
from clusters.models import Claim
from common.clock import now
from common.errors import Conflict, Forbidden
from events.models import Event
from hubapi.activity import note_page
from hubapi.models import Client
from hubapi.notices import notices_of
from notifications.models import Notification
from runtime import engine
from runtime.hints import hint
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


def _asked_back(row: Any) -> None:
    at = now()
    ends = {"reclaim_at": at, "reclaim_until": at + timedelta(minutes=1), "reclaim_for": uuid4()}
    assert Claim.objects.filter(workload_uid=row.uid).update(**ends)


@pytest.mark.parametrize("kind", ["workspace"], indirect=True)
def test_a7_who_sits_in_front_of_it_reads_that_its_gpus_are_asked_back_before_it_ends(
    make: Make, kind: Any, alice: Any, settle: Any, world: Any
) -> None:
    """Where nobody does, nobody who is owed GPUs waits for it."""
    open_one, shut = make(alice, gpus=2), make(alice, gpus=2)
    for row in (open_one, shut):
        _asked_back(row)
    note_page(uid=open_one.uid, idle_s=3600)
    for row in (open_one, shut):
        hint(row)
        engine.reconcile_one(kind.word, row.pk)
    seen = world.driver_for("local")
    assert seen.told(str(open_one.uid))["why"] == seen.told(str(shut.uid))["why"] == "reclaim"
    open_one.refresh_from_db()
    assert (open_one.phase, open_one.reason) == ("stopping", "preempted")
    assert Client.objects.filter(uid=open_one.uid, revoked_at=None).exists()
    (told,) = notices_of(open_one.uid, alice)
    assert told.saves
    assert told.until == Claim.objects.get(workload_uid=open_one.uid).reclaim_until
    assert "asked back for another project" in told.text
    shut.refresh_from_db()
    assert (shut.phase, shut.launch) != ("stopping", 1)  # it ended at once, and is in line again
    with time_machine.travel(now() + timedelta(seconds=21)):
        open_one = settle(open_one)
    assert open_one.launch == 2
