"""The local queue: first come, first served for each kind of resource, exclusive devices."""

from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusters import selectors, services
from clusters.models import Claim, Cluster, Device, Hold
from projects.models import Project
from queues import admission, local
from queues.line import Line
from queues.models import Guarantee, Queue
from runtime.ports import Granted, Waiting
from runtime.protocol import Health
from runtime.reasons import Reason
from runtime.spec import Resources

pytestmark = pytest.mark.django_db


def test_what_fits_starts_and_gets_devices_of_its_own(machine, ask):
    machine(gpus=["H100", "H100"])
    one, two = local.admit(ask(gpus=1)), local.admit(ask(gpus=1))
    assert isinstance(one, Granted)
    assert isinstance(two, Granted)
    assert set(one.devices).isdisjoint(two.devices)
    assert len(one.devices) == len(two.devices) == 1


def test_no_gpu_is_a_normal_machine_and_none_is_given_unasked(machine, ask):
    machine(gpus=["H100"])
    assert local.admit(ask(cpu_milli=1000)) == Granted(())


def test_the_next_one_waits_and_sees_its_position(machine, ask):
    machine(gpus=["H100"])
    local.admit(ask(gpus=1))
    second, third = local.admit(ask(gpus=1)), local.admit(ask(gpus=1))
    assert isinstance(second, Waiting)
    assert isinstance(third, Waiting)
    assert (second.position, second.ahead, second.reason) == (1, 0, Reason.QUEUED)
    assert (third.position, third.ahead) == (2, 1)
    assert "1 GPU" in second.message


def test_asking_again_changes_nothing(machine, ask):
    machine(gpus=["H100"])
    first, second = ask(gpus=1), ask(gpus=1)
    granted = local.admit(first)
    local.admit(second)
    assert local.admit(first) == granted
    assert local.admit(second).position == 1
    assert Claim.objects.count() == 2


def test_a_release_lets_in_the_head_and_nobody_else(machine, ask):
    machine(gpus=["H100"])
    first, second, third = ask(gpus=1), ask(gpus=1), ask(gpus=1)
    for request in (first, second, third):
        local.admit(request)
    local.release(first.uid)
    assert isinstance(local.admit(third), Waiting)
    assert isinstance(local.admit(second), Granted)
    local.release(first.uid)  # again: nothing
    assert Hold.objects.count() == 1


def test_a_small_one_passes_when_it_needs_nothing_the_head_waits_for(machine, ask):
    machine(cpu_milli=8000, memory_mib=8000, gpus=["H100"])
    local.admit(ask(gpus=1, cpu_milli=1000, memory_mib=1000))
    assert isinstance(local.admit(ask(gpus=1, cpu_milli=1000, memory_mib=1000)), Waiting)
    assert isinstance(local.admit(ask(cpu_milli=1000, memory_mib=1000)), Granted)


def test_a_small_one_does_not_pass_when_it_would_starve_the_head(machine, ask):
    machine(gpus=["H100", "H100"])
    local.admit(ask(gpus=1))
    assert isinstance(local.admit(ask(gpus=2)), Waiting)
    later = local.admit(ask(gpus=1))  # one is free, but the head waits for it
    assert isinstance(later, Waiting)
    assert later.ahead == 1


def test_other_kinds_of_gpu_are_other_queues(machine, ask):
    machine(gpus=["H100", "A100"])
    local.admit(ask(gpus=1, flavor="h100"))
    assert isinstance(local.admit(ask(gpus=1, flavor="h100")), Waiting)
    assert isinstance(local.admit(ask(gpus=1, flavor="a100")), Granted)


def test_any_gpu_does_not_take_the_one_that_the_head_waits_for(machine, ask):
    machine(gpus=["H100", "H100", "A100"])
    local.admit(ask(gpus=1, flavor="h100"))
    assert isinstance(local.admit(ask(gpus=2, flavor="h100")), Waiting)
    granted = local.admit(ask(gpus=1))
    assert granted == Granted(("GPU-2",))


def test_a3_of_several_kinds_the_first_that_has_enough_is_given(machine, ask):
    machine(gpus=["H100", "A100", "A100", "T4"])
    several = "h100,a100,t4"
    assert local.admit(ask(gpus=1, flavor=several)) == Granted(("GPU-0",))
    assert local.admit(ask(gpus=2, flavor=several)) == Granted(("GPU-1", "GPU-2"))
    assert local.admit(ask(gpus=1, flavor=several)) == Granted(("GPU-3",))
    waiting = local.admit(ask(gpus=1, flavor="t4,h100"))
    assert (waiting.position, waiting.reason) == (1, Reason.QUEUED)
    assert local.admit(ask(gpus=1, flavor="a100,t4")).position == 2  # both want a T4
    assert local.admit(ask(gpus=3, flavor=several)).reason == Reason.DOES_NOT_FIT


def test_a3_the_order_is_that_of_the_request_not_of_the_machine(machine, ask):
    machine(gpus=["H100", "A100"])
    assert local.admit(ask(gpus=1, flavor="a100,h100")) == Granted(("GPU-1",))


def test_memory_and_cpu_of_the_machine_count_with_their_factors(machine, ask, settings):
    settings.BERTH_CPU_OVERCOMMIT, settings.BERTH_MEMORY_OVERCOMMIT = 4, 1
    machine(cpu_milli=1000, memory_mib=4096)
    assert isinstance(local.admit(ask(cpu_milli=4000, memory_mib=1024)), Granted)
    waiting = local.admit(ask(cpu_milli=100, memory_mib=1024))
    assert waiting.lacking == ("cpu",)
    local.release(str(Claim.objects.order_by("pk").first().workload_uid))
    assert isinstance(local.admit(ask(memory_mib=3072)), Granted)
    assert local.admit(ask(memory_mib=1024)).lacking == ("memory",)


def test_more_than_the_machine_has_is_told_and_stops_nobody(machine, ask):
    machine(cpu_milli=1000, memory_mib=4096, gpus=["H100"])
    for request in (ask(gpus=2), ask(memory_mib=9000), ask(gpus=1, flavor="b200")):
        answer = local.admit(request)
        assert answer.reason == Reason.DOES_NOT_FIT
        assert "less than it asks for" in answer.message
    assert isinstance(local.admit(ask(gpus=1, memory_mib=1000)), Granted)


def test_what_asks_for_more_than_the_machine_has_is_passed_by_all(machine, ask, settings):
    settings.BERTH_CPU_OVERCOMMIT = 4
    machine(cpu_milli=2000, memory_mib=8000)
    local.admit(ask(cpu_milli=1000, memory_mib=1000))
    large = ask(cpu_milli=8000, memory_mib=1000)
    assert local.admit(large).reason == Reason.QUEUED
    assert isinstance(local.admit(ask(cpu_milli=1000, memory_mib=1000)), Granted)
    for claim in Claim.objects.exclude(workload_uid=large.uid):
        local.release(str(claim.workload_uid))
    assert isinstance(local.admit(large), Granted)


def test_more_than_is_ever_given_is_told_with_the_most_that_there_is(machine, ask):
    machine(cpu_milli=2000, memory_mib=4096, gpus=["H100"])
    assert "The most here: 4\xa0GiB of memory" in local.admit(ask(memory_mib=9000)).message
    assert "The most here: 8 CPU" in local.admit(ask(cpu_milli=9000)).message
    assert "The most here: 1 GPU" in local.admit(ask(gpus=2)).message


def test_who_waits_behind_others_is_told_so(machine, ask):
    machine(cpu_milli=2000, memory_mib=8000)
    local.admit(ask(memory_mib=6000))
    local.admit(ask(memory_mib=4000))
    behind = local.admit(ask(memory_mib=1000))  # so much is free
    assert "as 1 ahead of it does" in behind.message


def test_an_operator_holds_one_back_and_the_others_pass_it(machine, ask):
    machine(gpus=["H100"])
    first, second, third = ask(gpus=1), ask(gpus=1), ask(gpus=1)
    for request in (first, second, third):
        local.admit(request)
    assert local.hold(second.uid, held=True)
    waiting = local.admit(second)
    assert (waiting.reason, local.admit(third).position) == (Reason.ON_HOLD, 1)
    local.release(first.uid)
    assert isinstance(local.admit(third), Granted)
    assert local.hold(second.uid, held=False)
    local.release(third.uid)
    assert isinstance(local.admit(second), Granted)
    assert not local.hold(second.uid, held=True)  # it waits no more


def test_advice_is_what_the_queue_would_decide(machine, ask, settings):
    settings.BERTH_CPU_OVERCOMMIT = 1
    cluster = machine(cpu_milli=4000, memory_mib=8000, gpus=["H100"])
    running = ask(gpus=1, cpu_milli=1000, memory_mib=1000)
    local.admit(running)
    local.admit(ask(memory_mib=90_000))  # never
    local.admit(ask(gpus=1, cpu_milli=1000, memory_mib=1000))
    line = Line(cluster)
    for size in (Resources(1000, 1000), Resources(1000, 1000, 1), Resources(9000, 1000)):
        said = line.would(claim_of(size))
        answer = local.admit(ask(None, **vars_of(size)))
        assert isinstance(answer, Granted) is said.fits
        if isinstance(answer, Waiting):
            assert (answer.lacking, answer.ahead) == (said.lacking, said.ahead)
            assert (answer.reason == Reason.DOES_NOT_FIT) is said.never
        local.release(str(Claim.objects.latest("pk").workload_uid))
    size = Resources(3000, 7000)  # of an edit: it lets go of its own, and the next one takes some
    assert line.would(claim_of(size, UUID(running.uid))).fits


def claim_of(size, uid=None):
    return Claim(workload_uid=uid or uuid4(), project_uid=uuid4(), **vars_of(size))


def vars_of(size):
    return {"cpu_milli": size.cpu_milli, "memory_mib": size.memory_mib, "gpus": size.gpus}


def test_a_changed_size_asks_again_at_the_end(machine, ask):
    machine(gpus=["H100", "H100"])
    one = ask(gpus=1)
    local.admit(one)
    local.admit(ask(gpus=1))
    local.admit(ask(gpus=1))
    answer = local.admit(ask(one.uid, gpus=2))
    assert isinstance(answer, Waiting)
    assert answer.ahead == 0  # its old place let the waiting one in
    assert Hold.objects.count() == 2


def test_a_device_that_is_gone_is_not_given_out_and_one_that_is_back_is(machine, ask):
    cluster = machine(gpus=["H100"])
    services.health_store(key=cluster.key, health=Health(True, "1"))
    assert not Device.objects.get().healthy
    assert local.admit(ask(gpus=1)).reason == Reason.DOES_NOT_FIT
    machine(gpus=["H100"])
    assert Claim.objects.get().granted_at is not None


def test_what_is_free_is_told_by_kind(machine, ask):
    machine(gpus=["H100", "H100", "A100"])
    local.admit(ask(gpus=1, flavor="h100"))
    local.admit(ask(gpus=2, flavor="h100"))
    use = {u.flavor.name: (u.total, u.free, u.waiting) for u in selectors.flavor_use()}
    assert use == {"h100": (2, 1, 2), "a100": (1, 1, 0)}
    assert [c.gpus for c in selectors.queue()] == [2]


def test_an_unknown_kind_of_gpu_becomes_a_kind(machine):
    machine(gpus=["NVIDIA H200 NVL"])
    device = Device.objects.get()
    assert (device.flavor.name, device.flavor.label) == ("nvidia-h200-nvl", "NVIDIA H200 NVL")
    assert device.utilisation is None  # unknown is not 0


acts = st.lists(
    st.one_of(
        st.tuples(
            st.just("ask"),
            st.integers(0, 3),
            st.sampled_from(["", "h100", "a100"]),
            st.integers(0, 6000),
        ),
        st.tuples(st.just("release"), st.integers(0, 40)),
        st.tuples(st.just("again"), st.integers(0, 40)),
    ),
    max_size=25,
)


@given(acts=acts)
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_c12_never_more_is_held_than_there_is_and_the_head_is_served(machine, ask, acts):
    Claim.objects.all().delete()
    cluster = machine(cpu_milli=2000, memory_mib=8000, gpus=["H100", "H100", "A100"])
    asked = []
    for act in acts:
        if act[0] == "ask":
            asked.append(ask(gpus=act[1], flavor=act[2], memory_mib=act[3]))
            local.admit(asked[-1])
        elif asked:
            request = asked[act[1] % len(asked)]
            (local.release if act[0] == "release" else local.admit)(
                request.uid if act[0] == "release" else request
            )
        granted = Claim.objects.filter(granted_at__isnull=False)
        assert sum(c.memory_mib for c in granted) <= 8000
        for claim in granted:
            assert claim.holds.count() == claim.gpus
        assert not Hold.objects.filter(claim__granted_at__isnull=True).exists()
    # everybody who was let in leaves: the queue empties, nobody starves
    for _round in range(len(asked) + 1):
        for claim in Claim.objects.filter(granted_at__isnull=False):
            local.release(str(claim.workload_uid))
    left = Line(cluster).verdicts()
    assert all(v.never for v in left)


def test_replicas_start_together_or_wait_together(machine, ask):
    machine(gpus=["H100"] * 4)
    four = replace(ask(gpus=1), replicas=4)
    assert isinstance(local.admit(ask(gpus=1)), Granted)
    assert local.admit(four).lacking == ("gpu",)
    assert Claim.objects.get(workload_uid=four.uid).gpus == 4


def test_the_queue_of_a_cluster_is_its_own_and_lets_all_in(ask, db):
    Cluster.objects.create(key="east", name="East", driver="kubernetes")
    elsewhere = replace(ask(gpus=9), cluster_key="east")
    assert admission.admit(elsewhere) == Granted()
    assert list(admission.line(Cluster.objects.get(key="east"))) == []
    admission.release(elsewhere.uid)  # nothing was kept


def test_the_line_says_who_waits_and_for_what(machine, ask):
    there = machine(gpus=["H100"] * 2)
    first, second = ask(gpus=1), ask(gpus=2)
    admission.admit(first)
    admission.admit(second)
    (waits,) = admission.line(there)
    assert (str(waits.claim.workload_uid), waits.lacking) == (second.uid, ("gpu",))
    admission.release(first.uid)
    assert list(admission.line(there)) == []


@pytest.mark.parametrize("fault", ["gone", "unread"])
def test_what_holds_a_device_that_fails_keeps_no_other_from_anybody(machine, ask, fault):
    cluster = machine(gpus=["H100", "H100"])
    first = local.admit(ask(gpus=1))
    held = Device.objects.get(uuid=first.devices[0])
    if fault == "gone":
        Device.objects.filter(pk=held.pk).update(healthy=False, seen_at=None)
    else:
        Device.objects.filter(pk=held.pk).update(healthy=False)
    assert isinstance(local.admit(ask(gpus=1)), Granted)
    assert cluster.devices.filter(hold__isnull=False).count() == 2


def test_what_holds_a_device_that_is_gone_still_counts_for_its_project(machine, ask):
    cluster = machine(gpus=["H100"] * 3)
    request = ask(gpus=1)
    first = local.admit(request)
    project = Project.objects.create(slug="p", name="P", uid=request.project_uid)
    queue = Queue.objects.create(project=project, name="p")
    flavor = Device.objects.first().flavor
    Guarantee.objects.create(queue=queue, cluster=cluster, flavor=flavor, guaranteed=0, most=1)
    Device.objects.filter(uuid=first.devices[0]).update(healthy=False, seen_at=None)
    again = local.admit(replace(ask(gpus=1), project_uid=request.project_uid))
    assert again.reason == Reason.CEILING


def test_who_asks_again_takes_as_many_queries_whatever_the_line(machine, ask):
    machine(gpus=["H100"])
    local.admit(ask(gpus=1))
    mine = ask(gpus=1)
    local.admit(mine)

    def asked() -> int:
        with CaptureQueriesContext(connection) as seen:
            local.admit(mine)
        return len(seen)

    few = asked()
    for _n in range(40):
        local.admit(ask(gpus=1))
    assert asked() == few


def test_e17_a_thousand_of_one_project_hold_up_nobody_within_a_guarantee(
    machine, ask, project, django_assert_max_num_queries
):
    cluster = machine(gpus=["H100"])
    queue = Queue.objects.create(project=project, name=project.slug)
    kind = Device.objects.get().flavor
    Guarantee.objects.create(queue=queue, cluster=cluster, flavor=kind, guaranteed=1)
    flood = str(uuid4())
    holder = replace(ask(gpus=1), project_uid=flood)
    local.admit(holder)
    first = Claim.objects.get()
    Claim.objects.bulk_create(
        Claim(
            cluster=cluster,
            workload_uid=uuid4(),
            workload_kind="thing",
            project_uid=UUID(flood),
            gpus=1,
            asked_at=first.asked_at,
        )
        for _n in range(1000)
    )
    mine = replace(ask(gpus=1), project_uid=str(project.uid))
    with django_assert_max_num_queries(40):
        assert isinstance(local.admit(mine), Waiting)
    local.release(holder.uid)
    assert isinstance(local.admit(mine), Granted)
    assert Claim.objects.filter(granted_at__isnull=True).count() == 1000
