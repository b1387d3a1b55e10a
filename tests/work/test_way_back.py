"""The way back of what was parked: ahead of newcomers, once; or on without GPUs at once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from clusters import services as clusters
from clusters.models import Claim, Cluster, Flavor
from common.clock import now
from common.errors import Conflict
from projects.models import Membership, Project
from queues.models import Guarantee, Queue
from quotas.models import Reservation
from runtime.hints import hint
from runtime.protocol import Device
from work import kinds, services
from work.choices import Void
from work.models import Step, Ticket, Workload

pytestmark = pytest.mark.django_db
Make = Callable[..., Any]


@pytest.fixture
def two(world: Any) -> Cluster:
    """A machine with two GPUs."""
    fake = world.driver_for("local")
    fake.set_devices([Device(f"GPU-{n}", n, "H100", 80_000) for n in range(2)])
    fake.script("*", stop_takes_s=0)
    cluster = clusters.ensure_local_cluster()
    return clusters.health_store(key=cluster.key, health=fake.probe())


@pytest.fixture
def promise(two: Cluster) -> Callable[[Any, int], Guarantee]:
    def make(project: Any, guaranteed: int) -> Guarantee:
        queue, _made = Queue.objects.get_or_create(project=project, name=project.slug)
        flavor = Flavor.objects.get(name="h100")
        return Guarantee.objects.create(
            queue=queue, cluster=two, flavor=flavor, guaranteed=guaranteed
        )

    return make


@pytest.fixture
def other(alice: Any) -> Any:
    made = Project.objects.create(slug="audio", name="Audio", phase="running")
    Membership.objects.create(project=made, user=alice, role="owner")
    return made


@pytest.fixture
def launch(presets: Any, principal: Any, alice: Any, settle: Any) -> Make:
    kind = kinds.kind_of("workspace")

    def run(project: Any, **said: Any) -> Any:
        return settle(
            services.workload_create(
                principal=principal(alice), project=project, kind=kind, said=said
            )
        )

    return run


@pytest.fixture
def parked(launch: Make, project: Any, promise: Any, settle: Any) -> Any:
    """A workspace of a project with a guarantee of one, parked."""
    promise(project, 1)
    row = launch(project, gpus=1)
    assert services.park(row, actor=None)
    row = settle(row)
    assert row.phase == "stopped"
    return row


@pytest.fixture
def stopped_for(settle: Any) -> Callable[[Any], None]:
    """End one, and let all who wait look again."""

    def run(row: Any) -> None:
        services.park(row, actor=None)
        settle()
        for one in Workload.objects.all():
            hint(one)
        settle()

    return run


def test_c33_it_goes_ahead_of_newcomers_within_the_guarantee_and_its_ticket_is_used(
    parked: Any, launch: Make, other: Any, promise: Any, principal: Any, alice: Any, settle: Any
) -> None:
    promise(other, 1)
    held = [launch(other, gpus=1), launch(parked.project, gpus=1)]
    assert [row.phase for row in held] == ["running"] * 2
    newcomer = launch(parked.project, gpus=1)
    back = settle(services.workload_start(principal=principal(alice), row=parked))
    assert (newcomer.phase, back.phase) == ("pending", "pending")
    ticket = Ticket.objects.get(workload=parked)
    assert ticket.used_at is not None
    assert back.ticket_at == ticket.parked_at
    services.workload_stop(principal=principal(alice), row=held[1])
    for _look in range(3):
        settle()
        for one in Workload.objects.all():
            hint(one)
    assert settle(back).phase == "running"
    assert settle(newcomer).phase == "pending"


def test_pressed_twice_at_once_one_launch_uses_it(
    parked: Any, principal: Any, alice: Any, settle: Any
) -> None:
    stale = type(parked).objects.get(pk=parked.pk)
    first = services.workload_start(principal=principal(alice), row=parked)
    again = services.workload_start(principal=principal(alice), row=stale)
    assert (first.launch, again.launch) == (2, 2)
    assert Ticket.objects.filter(workload=parked, used_at__isnull=False).count() == 1
    assert not Ticket.objects.filter(workload=parked, used_at=None).exists()


@pytest.mark.parametrize("why", [Void.LOWERED, Void.EXPIRED, Void.LARGER])
def test_a_ticket_that_does_not_count_leaves_the_ordinary_place_and_says_why(
    why: str, parked: Any, principal: Any, alice: Any, settle: Any
) -> None:
    me = principal(alice)
    if why == Void.LOWERED:
        Guarantee.objects.update(guaranteed=0)
    elif why == Void.EXPIRED:
        Ticket.objects.update(valid_until=now() - timedelta(minutes=1))
    else:
        services.workload_edit(principal=me, row=parked, said={"gpus": 2})
    row = settle(services.workload_start(principal=me, row=parked))
    ticket = Ticket.objects.get(workload=row)
    assert (ticket.void, ticket.used_at, row.ticket_at) == (why, None, None)
    assert Claim.objects.get(workload_uid=row.uid).since is None
    said = Step.objects.get(workload=row, launch=2, word="accepted").message
    assert str(Void(why).label) in said


def test_who_gives_up_waiting_has_the_ticket_still(
    parked: Any, launch: Make, principal: Any, alice: Any, settle: Any
) -> None:
    for _n in range(2):
        launch(parked.project, gpus=1)
    row = settle(services.workload_start(principal=principal(alice), row=parked))
    assert row.is_waiting
    services.workload_stop(principal=principal(alice), row=row)
    assert Ticket.objects.get(workload=row).used_at is None


def test_who_waits_by_a_ticket_in_a_project_that_is_archived_has_none(
    parked: Any, launch: Make, principal: Any, alice: Any, settle: Any
) -> None:
    for _n in range(2):
        launch(parked.project, gpus=1)
    row = settle(services.workload_start(principal=principal(alice), row=parked))
    assert row.is_waiting
    services.workloads_stop_for(reason="project-archived", project=parked.project)
    assert Ticket.objects.get(workload=row).void == Void.PROJECT_ARCHIVED


def test_a_ticket_that_brought_it_back_is_not_good_again_once_its_gpus_are_asked_back(
    parked: Any, launch: Make, other: Any, principal: Any, alice: Any, settle: Any
) -> None:
    back = settle(services.workload_start(principal=principal(alice), row=parked))
    assert (back.phase, Ticket.objects.get().used_at is None) == ("running", False)
    back.refresh_from_db()
    assert back.ticket_at is not None
    owed = launch(other, gpus=1)
    claim = Claim.objects.filter(workload_uid=back.uid)
    claim.update(reclaim_at=now(), reclaim_until=now(), reclaim_for=owed.uid)
    hint(back)
    settle()
    back.refresh_from_db()
    assert (back.launch, back.ticket_at) == (3, None)
    services.workload_stop(principal=principal(alice), row=back)
    assert Ticket.objects.get().used_at is not None


def test_c33_it_goes_on_without_gpus_at_the_same_address_and_gets_them_back_by_its_ticket(
    parked: Any, principal: Any, alice: Any, settle: Any
) -> None:
    me, address = principal(alice), parked.get_absolute_url()
    row = settle(services.workload_start_plain(principal=me, row=parked))
    assert (row.phase, row.gpus, row.wish_gpus, row.short_id) == (
        *("running", 0, 1),
        parked.short_id,
    )
    assert row.get_absolute_url() == address
    assert Ticket.objects.get(workload=row).used_at is None
    reserved = Reservation.objects.filter(workload_uid=row.uid)
    assert not reserved.filter(resource="gpus", amount__gt=0).exists()
    row = services.workload_regain(principal=me, row=row)
    for _look in range(3):
        row = settle(row)
        hint(row)
    assert (row.phase, row.gpus, row.wish_gpus, row.launch) == ("running", 1, 0, 3)
    assert Ticket.objects.get(workload=row).used_at is not None
    with pytest.raises(Conflict):
        services.workload_regain(principal=me, row=row)


def test_j1b_one_that_waits_for_a_gpu_goes_on_without_and_keeps_its_ticket(
    parked: Any, launch: Make, principal: Any, alice: Any, settle: Any
) -> None:
    me = principal(alice)
    for _n in range(2):
        launch(parked.project, gpus=1)
    waits = settle(services.workload_start(principal=me, row=parked))
    assert waits.is_waiting
    row = services.workload_start_plain(principal=me, row=waits)
    for _look in range(2):
        row = settle(row)
        hint(row)
    assert (row.phase, row.gpus, row.wish_gpus) == ("running", 0, 1)
    assert Ticket.objects.get(workload=row).used_at is None
    with pytest.raises(Conflict):  # what runs with its GPUs is asked to park
        services.workload_start_plain(principal=me, row=row)
