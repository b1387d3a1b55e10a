"""What people, projects and the clock do to workspaces."""

import re
from datetime import timedelta

import pytest
import time_machine

from clusters import registry
from clusters.models import Hold
from common.clock import now
from metrics import sampling
from metrics.models import Quiet, Sample
from notebooks.models import Preset, Workspace
from parking import services as parking
from parking.models import Stretch
from projects.models import Membership
from runtime.drivers.fake import FakeDriver
from runtime.models import ObservedWorkload, Route
from runtime.use_sources import DeviceUse, Holder, UseSource
from tests.support import driving, workspaces
from work import services as work


def test_the_time_limit_warns_once_and_then_stops_with_its_reason(launch, alice, settle):
    from notifications.models import Notification

    row = settle(launch(alice, "large"))
    assert work.limits_enforce() == 0
    with time_machine.travel(row.ends_at - timedelta(minutes=10), tick=False):
        assert work.limits_enforce() == 1
        assert work.limits_enforce() == 0
        told = Notification.objects.get(kind="workspace.ending")
        assert (told.user, told.params["minutes"]) == (alice, 10)
    with time_machine.travel(row.ends_at + timedelta(seconds=1), tick=False):
        assert work.limits_enforce() == 1
        settle(row)
    assert (row.phase, row.reason, row.stop_reason) == ("stopped", "time-limit", "time-limit")
    assert Notification.objects.filter(kind="workspace.stopped", user=alice).exists()


def test_an_extension_takes_the_warning_back(launch, alice, settle, principal):
    row = settle(launch(alice, "large"))
    with time_machine.travel(row.ends_at - timedelta(minutes=10), tick=False):
        work.limits_enforce()
        work.workload_extend(principal=principal(alice), row=row, minutes=60)
    with time_machine.travel(row.ends_at + timedelta(minutes=1), tick=False):
        assert work.limits_enforce() == 0
    row.refresh_from_db()
    assert row.desired == "running"


@pytest.mark.parametrize(("disabled", "reason"), [(False, "owner-left"), (True, "owner-disabled")])
def test_a3_a_launch_that_was_written_a_moment_after_its_owner_went_is_stopped(
    launch, alice, bob, project, settle, disabled, reason
):
    """Who is removed while a registry is asked about his image was allowed to, before."""
    row = settle(launch(alice))
    if disabled:
        type(alice).objects.filter(pk=alice.pk).update(is_active=False)
    else:
        Membership.objects.filter(project=project, user=alice).delete()
    assert work.limits_enforce() == 1
    settle(row)
    assert (row.phase, row.stop_reason) == ("stopped", reason)
    assert work.limits_enforce() == 0


def test_waiting_in_the_queue_does_not_use_up_the_time(launch, alice, presets, settle):
    from clusters.registry import driver_for

    row = launch(alice, "large")
    driver_for("local").script(str(row.uid), never_ready=True)
    driving.run_due(rounds=3)
    row.refresh_from_db()
    assert row.ends_at is None


def test_a_new_limit_counts_from_the_start(launch, alice, settle, principal):
    row = settle(launch(alice))
    workspaces.workspace_edit(
        principal=principal(alice), workspace=row, said={"time_limit_minutes": 30}
    )
    settle(row)
    assert row.ends_at - row.ready_at == timedelta(minutes=30)
    assert row.launch == 1


@pytest.fixture
def idle_row(launch, alice, settle):
    row = settle(launch(alice))
    Workspace.objects.filter(pk=row.pk).update(
        idle_stop_minutes=30, ready_at=now() - timedelta(hours=2)
    )
    row.refresh_from_db()
    return row


def _activity(row, *, since, busy=0, measured=True):
    from hubapi.models import Activity

    at = now()
    Activity.objects.filter(uid=row.uid).update(
        polled_at=at, last_activity=since, busy_kernels=busy, kernels=1, last_busy_at=None
    )
    if measured:
        long_ago = at - timedelta(days=1)
        Quiet.objects.update_or_create(uid=row.uid, defaults={"known_at": at, "since": long_ago})


def test_an_idle_workspace_is_warned_and_stopped_when_it_was_said(idle_row, settle):
    from notifications.models import Notification

    began = now()
    with time_machine.travel(began, tick=False):
        _activity(idle_row, since=began - timedelta(minutes=16))
        assert parking.enforce() == 1
        assert parking.enforce() == 0
    assert Notification.objects.get(kind="workspace.ending").params["minutes"] == 14
    with time_machine.travel(began + timedelta(minutes=13, seconds=50), tick=False):
        _activity(idle_row, since=began - timedelta(minutes=16))
        assert parking.enforce() == 0
    with time_machine.travel(began + timedelta(minutes=14), tick=False):
        _activity(idle_row, since=began - timedelta(minutes=16))
        assert parking.enforce() == 1
        settle(idle_row)
    assert (idle_row.phase, idle_row.reason) == ("stopped", "idle")


def test_nobody_is_stopped_sooner_after_a_warning_than_it_says(idle_row, settle):
    """It was idle for long when that became known."""
    from notifications.models import Notification

    began = now()
    with time_machine.travel(began, tick=False):
        _activity(idle_row, since=began - timedelta(hours=1))
        assert parking.enforce() == 1
    assert Notification.objects.get(kind="workspace.ending").params["minutes"] == 5
    with time_machine.travel(began + timedelta(minutes=4, seconds=50), tick=False):
        _activity(idle_row, since=began - timedelta(hours=1))
        assert parking.enforce() == 0
    with time_machine.travel(began + timedelta(minutes=5), tick=False):
        _activity(idle_row, since=began - timedelta(hours=1))
        assert parking.enforce() == 1


def test_a_busy_silent_kernel_is_not_idle(idle_row):
    _activity(idle_row, since=now() - timedelta(hours=1), busy=1)
    assert parking.enforce() == 0


def test_what_is_not_known_is_not_idle(idle_row):
    assert parking.enforce() == 0
    _activity(idle_row, since=now() - timedelta(hours=1), measured=False)
    assert parking.enforce() == 0


@pytest.mark.parametrize(
    ("gpus", "told", "is_idle"),
    [
        (0, {"cpu_milli": 12.0}, True),
        (0, {"cpu_milli": 250.0}, False),  # python train.py > log
        (0, {"memory_mib": 900.0}, False),
        (0, {}, False),
        (1, {"cpu_milli": 12.0, "gpu_utilisation": 1.0}, True),
        (1, {"cpu_milli": 12.0, "gpu_utilisation": 80.0}, False),
        (1, {"cpu_milli": 12.0}, False),
    ],
)
def test_idleness_needs_every_signal_to_be_quiet(idle_row, monkeypatch, gpus, told, is_idle):
    Workspace.objects.filter(pk=idle_row.pk).update(gpus=gpus)
    driver = registry.driver_for(idle_row.cluster_key)
    monkeypatch.setattr(driver, "usage", lambda uids: {uid: told for uid in uids if told})
    quiet, begun = now() + timedelta(minutes=1), now()
    for minute in range(0, 61, 2):
        with time_machine.travel(begun + timedelta(minutes=minute), tick=False):
            sampling.sample()
    with time_machine.travel(begun + timedelta(minutes=60), tick=False):
        _polled(idle_row, since=quiet)
        assert parking.enforce() == is_idle


def _polled(row, *, since):
    from hubapi.models import Activity

    Activity.objects.filter(uid=row.uid).update(polled_at=now(), last_activity=since)


def test_of_the_time_in_which_use_was_not_known_nobody_says_that_it_was_idle(idle_row, monkeypatch):
    begun = now()
    driver = registry.driver_for(idle_row.cluster_key)
    monkeypatch.setattr(driver, "usage", lambda uids: {uid: {"cpu_milli": 1.0} for uid in uids})
    sampling.sample()
    with time_machine.travel(begun + timedelta(hours=1), tick=False):
        sampling.sample()
        _polled(idle_row, since=begun)
        assert parking.enforce() == 0


def test_who_comes_back_in_time_is_not_stopped(idle_row):
    _activity(idle_row, since=now() - timedelta(hours=1))
    parking.enforce()
    _activity(idle_row, since=now())
    parking.enforce()
    idle_row.refresh_from_db()
    assert idle_row.desired == "running"
    assert not Stretch.objects.exists()


def test_who_leaves_the_project_keeps_nothing_running_and_opens_nothing(
    launch, alice, bob, mona, project, principal, settle
):
    from hubapi import registry
    from hubapi.registry import AccessLevel
    from projects.services import members

    mine, others = settle(launch(bob)), settle(launch(alice))
    work.workload_share(principal=principal(alice), row=others, username="bob")
    work.workload_share(principal=principal(bob), row=mine, username="mona")
    assert registry.access(bob, others.uid) == AccessLevel.VISITOR
    members.member_remove(principal=principal(alice), project=project, user=bob)
    settle(mine)
    assert (mine.phase, mine.stop_reason, mine.deleted_at) == ("stopped", "owner-left", None)
    for user, row in ((bob, mine), (bob, others), (mona, mine)):
        assert registry.access(user, row.uid) == AccessLevel.NONE


def test_nobody_but_owner_and_visitors_may_open(
    launch, alice, bob, mona, vera, charlie, operator, auditor, settle, principal
):
    from hubapi import registry
    from hubapi.registry import AccessLevel

    row = settle(launch(alice))
    assert registry.access(alice, row.uid) == AccessLevel.OWNER
    for user in (bob, mona, vera, charlie, operator, auditor):
        assert registry.access(user, row.uid) == AccessLevel.NONE
    work.workload_share(principal=principal(alice), row=row, username="vera")
    assert registry.access(vera, row.uid) == AccessLevel.VISITOR
    workspaces.workspace_delete(principal=principal(alice), workspace=row)
    for user in (alice, vera):
        assert registry.access(user, row.uid) == AccessLevel.NONE


def _gpu(number):
    from runtime.protocol import Device

    return Device(uuid=f"GPU-{number}", index=number, name="NVIDIA H100 80GB", memory_mib=81920)


@pytest.fixture
def one_gpu(db):
    from clusters.registry import driver_for
    from clusters.services import ensure_local_cluster, health_refresh

    ensure_local_cluster()
    driver_for("local").set_devices([_gpu(0)])
    health_refresh(key="local")
    return driver_for("local")


def test_the_second_for_the_last_gpu_waits_with_position_and_starts_by_itself(
    one_gpu, launch, alice, bob, settle, principal, as_user
):
    first = settle(launch(alice, gpus=1))
    second = settle(launch(bob, gpus=1))
    assert (first.phase, second.phase, second.reason) == ("running", "pending", "queued")
    Workspace.objects.filter(pk=first.pk).update(ends_at=now() + timedelta(minutes=150))
    page = as_user(bob).get(second.get_absolute_url()).content.decode()
    assert "position 1 in the queue" in page
    assert re.search(r"ends at the latest <time [^>]+>in 2 hours</time>\.<", page)
    assert "Start Small now" in page
    home = as_user(bob).get("/").content.decode()
    assert "Give up waiting" in home
    workspaces.workspace_stop(principal=principal(alice), workspace=first)
    settle(second)
    settle(second)
    assert second.phase == "running"
    assert one_gpu.spec_seen(str(second.uid))["devices"] == ["GPU-0"]


def test_what_is_offered_instead_of_waiting_is_what_a_press_would_start(
    one_gpu, launch, alice, bob, settle, as_user
):
    settle(launch(alice, gpus=1))
    second = settle(launch(bob, gpus=1))
    Preset.objects.create(slug="far", name="Far", cluster_key="far")
    box = {"kind": "container", "image": "registry.example.org/box:1"}
    Preset.objects.create(slug="box", name="Box", **box)
    page = as_user(bob).get(second.get_absolute_url()).content.decode()
    assert "Start Small now" in page
    assert ("Start Far now" in page, "Start Box now" in page) == (False, False)


def test_a_smaller_size_gives_the_gpu_back_only_when_the_old_process_is_gone(
    one_gpu, launch, alice, bob, settle, principal
):
    from clusters.models import Hold

    first = settle(launch(alice, gpus=1))
    one_gpu.script(str(first.uid), stop_after_s=60)
    second = settle(launch(bob, gpus=1))
    workspaces.workspace_edit(principal=principal(alice), workspace=first, said={"gpus": 0})
    settle(first, rounds=4)
    settle(second, rounds=4)
    assert Hold.objects.get().claim.workload_uid == first.uid
    assert second.phase == "pending"
    one_gpu.exit(str(first.uid), code=0)
    settle(first)
    settle(second)
    assert (first.phase, second.phase) == ("running", "running")
    assert Hold.objects.get().claim.workload_uid == second.uid


def test_stopping_revokes_tokens_before_the_route_goes(launch, alice, settle, principal):
    from hubapi.models import Client

    row = settle(launch(alice))
    assert Client.objects.get(uid=row.uid).revoked_at is None
    workspaces.workspace_stop(principal=principal(alice), workspace=row)
    settle(row)
    assert Client.objects.get(uid=row.uid).revoked_at is not None
    assert not Route.objects.filter(uid=row.uid).exists()


def test_what_a_workspace_uses_is_measured_and_shown(launch, alice, settle, as_user):
    row = settle(launch(alice))
    assert sampling.sample() == 1
    (shown,) = as_user(alice).get(f"/api/v1/projects/vision/workspaces/{row.short_id}/usage").json()
    assert (shown["memory_mib"], shown["gpu_utilisation"]) == (512, None)
    assert (shown["gpu_shared"], shown["gpu_simulated"]) == (False, False)


def test_what_exporters_say_of_devices_is_in_the_sample_and_unknown_otherwise(
    launch, alice, settle, monkeypatch, one_gpu
):
    """A17: only work that holds devices is asked about, with the place that the watch saw."""
    row = settle(launch(alice, gpus=1))
    settle(launch(alice))
    detail = {"namespace": "berth-demo", "pod": "ws-1-0", "node": "n1"}
    for seen in Workspace.objects.all():
        ObservedWorkload.objects.create(
            cluster_key=seen.cluster_key,
            uid=seen.uid,
            seen="ready",
            data={"detail": detail},
            seen_at=now(),
        )
    asked = []
    source = UseSource("app=exporter", "9400", "busy")
    monkeypatch.setattr(sampling, "use_sources", lambda _key: [source])

    def device_use(_self, holders, sources):
        asked.append((list(holders), list(sources)))
        return [DeviceUse("n1/0", str(row.uid), 12.5, 900.4, shared=True)] if asked[1:] else []

    monkeypatch.setattr(FakeDriver, "device_use", device_use, raising=False)
    assert sampling.sample() == 2
    assert Sample.objects.get(uid=row.uid).gpu_utilisation is None
    assert sampling.sample() == 2
    sample = Sample.objects.filter(uid=row.uid, device="").latest("pk")
    assert (sample.gpu_utilisation, sample.gpu_memory_mib, sample.memory_mib) == (12.5, 900, 512)
    device = Sample.objects.get(uid=row.uid, device="n1/0")
    assert (device.gpu_utilisation, device.cpu_milli, device.shared) == (12.5, None, True)
    (given,) = Hold.objects.values_list("device__uuid", flat=True)
    expected = Holder(str(row.uid), ("berth-demo", "ws-1-0"), "n1", 1, (given,), row.kind)
    assert asked == [([expected], [source])] * 2


def test_deleting_a_project_takes_workspaces_first_and_then_homes(
    launch, alice, project, principal, settle
):
    from projects.services import life
    from volumes.models import Volume

    row = settle(launch(alice))
    life.project_request_delete(principal=principal(alice), project=project, confirm=project.slug)
    settle(row)
    assert row.deleted_at is not None
    assert [v.deleted_at is not None for v in Volume.objects.all()] == [True, True]
    project.refresh_from_db()
    assert project.deleted_at is not None
