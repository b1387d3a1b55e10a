"""GPUs that the machine has and can't read now: waited for, not given out, in nobody's way."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from clusters import services
from clusters.models import Claim, Cluster
from placement.decision import Request
from placement.fleet import Fleet
from queues import local
from runtime.ports import Granted
from runtime.protocol import Device, Health
from runtime.reasons import Reason

pytestmark = pytest.mark.django_db
H100 = tuple(Device(uuid=f"GPU-{i}", index=i, name="H100", memory_mib=80_000) for i in range(2))


def told(devices: tuple[Device, ...], *, unread: Collection[int] = ()) -> None:
    """What the machine says of itself; ``unread`` are told as what can't be read."""
    seen = tuple(replace(d, healthy=d.index not in unread) for d in devices)
    key = services.ensure_local_cluster().key
    services.health_store(key=key, health=Health(True, "1", 8000, 8000, seen))


def test_gpus_that_do_not_answer_are_waited_for(ask: Any) -> None:
    told(H100)
    told(H100, unread=(0, 1))
    waiting = local.admit(ask(gpus=1))
    assert (waiting.reason, waiting.position) == (Reason.QUEUED, 1)
    assert local.admit(ask(gpus=2)).reason == Reason.QUEUED
    told(H100)
    assert Claim.objects.get(gpus=1).granted_at is not None


def test_more_than_there_is_with_them_is_still_never(ask: Any) -> None:
    told(H100, unread=(0, 1))
    assert local.admit(ask(gpus=3)).reason == Reason.DOES_NOT_FIT
    assert local.admit(ask(gpus=1, memory_mib=9000)).lacking == ("memory",)


def test_who_waits_for_a_gpu_that_can_not_be_read_holds_up_nobody(ask: Any) -> None:
    told(H100, unread=(1,))
    assert local.admit(ask(gpus=2, cpu_milli=1000)).reason == Reason.QUEUED
    assert local.admit(ask(gpus=1)) == Granted(("GPU-0",))


def test_a_gpu_that_a_good_listing_leaves_out_is_gone(ask: Any) -> None:
    told(H100, unread=(1,))
    told(H100[:1])
    assert local.admit(ask(gpus=2)).reason == Reason.DOES_NOT_FIT


def test_while_the_machine_can_not_be_asked_nothing_of_it_is_gone(ask: Any) -> None:
    told(H100, unread=(0, 1))
    services.health_store(key="local", health=Health(reachable=False))
    assert local.admit(ask(gpus=1)).reason == Reason.QUEUED


def test_a_launch_form_does_not_call_it_without_end(ask: Any) -> None:
    told(H100, unread=(0, 1))
    cluster = Cluster.objects.get(key="local")
    request = Request.of_size("notebook", ask(gpus=1).resources)
    found = Fleet([cluster], None).decide(cluster, request)
    (room,) = found.rooms
    assert (room.free, room.total) == (0, 2)
    assert (found.fits, found.starts_now, "without end" in found.sentence) == (True, False, False)
