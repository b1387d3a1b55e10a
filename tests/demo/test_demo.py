"""The world and the duty of the demonstration on the fake machine: through services, once."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from typing import Any

import httpx
import pytest
from django.test import Client
from django.urls import reverse

from accounts.models import User
from benchmarks.lib import poll
from clusters import services
from clusters.models import Claim, Cluster
from common.clock import now
from events.models import Event
from experiments.models import Experiment
from jobs.models import Job
from notebooks.models import Workspace
from perftests.models import PerfTest
from portal.demo import script, world
from portal.demo.callers import CALLERS
from portal.demo.duty import ANSWERS, KEPT, MOST_WAITING, Day
from portal.management.commands.berth_bootstrap import first_administrator
from portal.server.paths import Refusal
from portal.settings.env import TOGETHER
from projects.models import Project
from queues.models import Guarantee, Queue, Turn
from runtime.drivers.local.gpus import SimulatedGpus
from serving import traffic
from serving.models import Endpoint
from tests.support.ports import free_port

pytestmark = pytest.mark.django_db
GPUS = "8xH100-80,4xA100-40"


@pytest.fixture
def passwords(settings: Any) -> dict[str, str]:
    settings.BERTH_SIMULATED_GPUS, settings.BERTH_DEMO = GPUS, True
    first_administrator()
    return world.world_ensure(GPUS)


@pytest.fixture
def machine(passwords: dict[str, str], world: Any) -> Any:
    fake = world.driver_for("local")
    fake.set_devices(SimulatedGpus(GPUS).devices())
    fake.set_capacity(cpu_milli=64_000, memory_mib=256_000)
    services.health_store(key="local", health=fake.probe())
    return fake


def go(day: Day, until_s: float) -> None:
    """Let the duty turn at so many seconds after its start."""
    day.tick()
    day._began = now() - timedelta(seconds=until_s)
    day.tick()


def test_the_world_is_made_once_and_its_people_can_sign_in(passwords: dict[str, str]) -> None:
    assert len(passwords) == len(set(passwords.values())) == 12
    assert world.world_ensure(GPUS) == {}
    research = Queue.objects.get(name=script.ORGANISATION)
    assert {queue.project.slug for queue in research.children.all()} == {"vision", "language"}
    kept = dict(Guarantee.objects.values_list("queue__name", "guaranteed"))
    assert kept == {script.ORGANISATION: 4, "vision": 2, "language": 2, "robotics": 2}
    assert Turn.objects.count() > 300
    assert not Turn.objects.filter(ended_at__gt=now()).exists()
    client = Client()
    given = {"login": "aiko", "password": passwords["aiko"]}
    assert client.post(reverse("account_login"), given).status_code == 302
    page = client.get(reverse("projects:list")).content.decode()
    assert "This is a demonstration." in page
    assert "Simulated GPUs" in page
    text = world.told(passwords, "http://localhost:8000")
    assert all(password in text for password in passwords.values())


def test_it_is_never_made_among_the_work_of_others(alice: Any, settings: Any) -> None:
    first_administrator()
    User.objects.create(username="another")
    with pytest.raises(Refusal, match="database of its own"):
        world.world_ensure(GPUS)
    assert not Project.objects.filter(slug="vision").exists()


def test_real_gpus_are_never_held_by_made_up_work() -> None:
    check = TOGETHER["DEMO", "SIMULATED_GPUS"]
    assert check({"BERTH_DEMO": True, "BERTH_SIMULATED_GPUS": ""})
    assert not check({"BERTH_DEMO": True, "BERTH_SIMULATED_GPUS": GPUS})
    assert not check({"BERTH_DEMO": False, "BERTH_SIMULATED_GPUS": ""})


def test_the_duty_waits_until_the_simulated_machine_is_there(passwords: dict[str, str]) -> None:
    go_on = Day()
    go_on.tick()
    assert go_on._began is None
    assert not Job.objects.exists()


def test_within_the_first_minute_something_is_borrowed_reclaimed_and_waited_for(
    machine: Any, settle: Any
) -> None:
    day = Day()
    go(day, 5)
    settle()
    assert Claim.objects.filter(granted_at__isnull=False, workload_kind="job").count() == 8
    assert Event.objects.filter(verb="job.launched", actor_name="aiko").count() == 6
    go(day, 21)
    settle()
    assert Job.objects.filter(owner__username="ines", phase="running").count() == 2
    told = Turn.objects.filter(gave_back=True).values("workload_uid")
    gave = Claim.objects.filter(workload_uid__in=told, granted_at=None)
    vision = Project.objects.get(slug="vision")
    assert [claim.project_uid for claim in gave] == [vision.uid, vision.uid]
    go(day, 60)
    settle()
    assert Job.objects.filter(phase="pending", owner__username="farid").exists()
    assert Workspace.objects.filter(owner__username="lena").count() == 1


def test_the_queue_has_an_end_and_what_is_over_goes(machine: Any, settle: Any) -> None:
    day = Day()
    go(day, script.DAY_S)
    settle()
    waiting = Job.objects.filter(desired="running", phase="pending")
    assert 0 < waiting.count() <= MOST_WAITING
    one = waiting.first()
    assert one is not None
    long_ago = now() - KEPT - timedelta(seconds=1)
    Job.objects.filter(pk=one.pk).update(phase="stopped", stopped_at=long_ago)
    day.tick()
    one.refresh_from_db()
    assert one.desired == "absent"
    assert not Workspace.objects.filter(time_limit_minutes=None).exists()


def test_after_a_restart_the_day_goes_on_without_its_opening(machine: Any, settle: Any) -> None:
    go(Day(), 10)
    settle()
    before = Job.objects.count()
    again = Day()
    again.tick()
    assert Job.objects.count() == before
    assert again._began is not None
    again._began -= timedelta(seconds=script.DAY_S / 2)
    again.tick()
    assert Job.objects.count() > before
    assert Job.objects.filter(name__startswith="sweep-lr-1").count() == 1


def test_the_day_goes_on_without_a_project_that_somebody_deleted(machine: Any) -> None:
    Project.objects.filter(slug="vision").update(slug="elsewhere")
    go(Day(), 30)
    assert not Job.objects.filter(owner__username="aiko").exists()
    assert Job.objects.filter(owner__username="ines").count() == 2


def test_nothing_of_others_is_touched(machine: Any, alice: Any) -> None:
    long_ago = now() - 2 * KEPT
    own = Job.objects.create(
        project=Project.objects.get(slug="demo"),
        owner=alice,
        name="own",
        phase="stopped",
        stopped_at=long_ago,
    )
    go(Day(), 30)
    own.refresh_from_db()
    assert own.desired == "running"
    assert Cluster.objects.count() == 1


def test_a_search_and_a_measurement_are_begun_and_go_when_they_are_old(
    machine: Any, settle: Any
) -> None:
    day = Day()
    go(day, 30)
    settle()
    search, test = Experiment.objects.get(), PerfTest.objects.get()
    assert (search.owner.username, search.project.slug) == ("daisuke", "vision")
    assert test.project.slug == "robotics"
    PerfTest.objects.update(state="succeeded", ended_at=now())
    go(day, 60)  # what was measured first is what the second is compared with
    assert list(PerfTest.objects.values_list("is_baseline", flat=True)) == [False, True]
    long_ago = now() - KEPT - timedelta(seconds=1)
    Experiment.objects.update(state="succeeded", ended_at=long_ago)
    PerfTest.objects.update(state="succeeded", ended_at=long_ago)
    day.tick()
    assert not Experiment.objects.exists()
    assert PerfTest.objects.get().is_baseline


def test_models_are_served_called_tried_beside_each_other_and_one_is_asleep(
    machine: Any, settle: Any, settings: Any
) -> None:
    settings.BERTH_GATEWAY_URL = "http://127.0.0.1:9"  # nobody listens: the script goes on
    day = Day()
    go(day, 5)
    settle()
    defects = Endpoint.objects.get(name=script.CALLED, canary_of=None)
    assert (defects.model, defects.phase) == ("defects/v2", "running")
    go(day, 30)
    settle()
    defects.refresh_from_db()
    assert (defects.canary.model, defects.canary_percent) == ("defects/v3", 10)
    assert [key.name for key in defects.access_keys.order_by("pk")] == list(CALLERS)
    hour = traffic.total(traffic.series(defects, "hour"))
    assert 60 * 0.4 * sum(CALLERS.values()) < hour.requests < 60 * 1.7 * sum(CALLERS.values())
    again = Day()  # after a restart nobody has the secrets
    again.tick()
    live = defects.access_keys.filter(revoked_at=None)
    assert live.count() == len(CALLERS) == defects.access_keys.count() / 2
    assert Endpoint.objects.get(name=script.SLEEPY).sleep_after_minutes == 1
    go(day, 250)  # somebody asks what may sleep, by a key that is void afterwards
    assert not Endpoint.objects.get(name=script.SLEEPY).access_keys.filter(revoked_at=None)


def test_what_answers_speaks_the_protocol_and_refuses_what_is_wrong() -> None:
    port = free_port()
    env = {**os.environ, "PORT": str(port)}
    with subprocess.Popen([sys.executable, ANSWERS], env=env) as server:
        try:
            url = f"http://127.0.0.1:{port}/v1/models/defects:predict"
            poll(lambda: _is_up(port), within_s=20, every_s=0.05)
            good = httpx.post(url, json={"instances": [[0.5, 0.25], [1]]}).json()
            assert good == {"predictions": [0.75, 1.0]}
            assert httpx.post(url, json={"instances": 1}).status_code == 400
            assert httpx.post(url, content=b"\xff").status_code == 400
        finally:
            server.terminate()


def _is_up(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/").status_code == 200
    except httpx.TransportError:
        return False
