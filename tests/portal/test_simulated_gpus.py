"""BERTH_SIMULATED_GPUS: refused beside real ones, and marked wherever such GPUs are shown."""

from typing import Any

import pytest
from django.urls import reverse

from clusters import installed, registry
from clusters.models import Device, Flavor
from clusters.services.health import health_store
from common.clock import now
from jobs.models import Job
from portal.server import preflight
from portal.server.paths import Refusal
from runtime.drivers.local.gpus import SimulatedGpus
from runtime.protocol import Health

pytestmark = pytest.mark.django_db
SCRIPT = "2xH100-80"


@pytest.fixture
def simulated(settings: Any) -> None:
    settings.BERTH_SIMULATED_GPUS = SCRIPT
    registry.reset()
    Flavor.objects.create(name="h100", label="NVIDIA H100", match="H100")
    cluster = installed.ensure_local_cluster()
    devices = SimulatedGpus(SCRIPT).devices()
    health_store(key=cluster.key, health=Health(True, "1", 8000, 65536, devices))


@pytest.fixture
def job(project: Any, alice: Any) -> Job:
    return Job.objects.create(
        project=project,
        owner=alice,
        name="train",
        cluster_key="local",
        environment="jupyterlab",
        command=["true"],
        gpus=2,
        gpu_flavor="h100",
        asked_at=now(),
    )


def test_a_machine_with_gpus_of_its_own_refuses_them(settings: Any, monkeypatch: Any) -> None:
    preflight.check_gpus()  # none are asked for
    settings.BERTH_SIMULATED_GPUS = SCRIPT
    monkeypatch.setattr(installed, "own_gpus", list)
    preflight.check_gpus()
    monkeypatch.setattr(installed, "own_gpus", lambda: ["NVIDIA H200", "NVIDIA H200"])
    with pytest.raises(Refusal, match=r"GPUs of its own \(2: NVIDIA H200\)") as refused:
        preflight.check_gpus()
    assert refused.value.code == 2
    settings.BERTH_LOCAL_CLUSTER = False  # this machine is not offered at all
    preflight.check_gpus()


@pytest.mark.usefixtures("simulated")
def test_every_page_marks_them_and_operators_read_whence_they_are(
    as_user: Any, alice: Any, operator: Any, job: Job
) -> None:
    assert Device.objects.filter(simulated=True, utilisation=None).count() == 2
    at = {"project": job.project.slug, "job": job.short_id}
    pages = [reverse("projects:list"), reverse("jobs:detail", kwargs=at)]
    for page in (as_user(alice).get(url).content.decode() for url in pages):
        assert "Simulated GPUs" in page
        assert SCRIPT not in page
    assert "2\N{NO-BREAK SPACE}h100 (simulated)" in page
    client = as_user(operator)
    assert SCRIPT in client.get(reverse("console:overview")).content.decode()
    machines = client.get(reverse("console:machines")).content.decode()
    assert machines.partition('id="machines"')[2].count("Simulated") == 2
    assert SCRIPT not in client.get(reverse("projects:list")).content.decode()


@pytest.mark.usefixtures("simulated")
def test_the_api_says_so(as_user: Any, alice: Any, job: Job) -> None:
    client = as_user(alice)
    url = f"/api/v1/projects/{job.project.slug}/jobs/{job.short_id}"
    assert client.get(url).json()["gpus_simulated"] is True
    (cluster,) = client.get("/api/v1/clusters").json()
    assert cluster["gpus_simulated"] is True


@pytest.mark.usefixtures("simulated")
def test_metrics_count_them_apart(client: Any) -> None:
    text = client.get("/metrics").content.decode()
    assert 'berth_gpus_simulated{cluster="local"} 2.0' in text
    assert 'berth_gpus{cluster="local",state="free"} 2.0' in text


def test_nothing_is_marked_where_nothing_is_simulated(as_user: Any, alice: Any, job: Job) -> None:
    client = as_user(alice)
    url = f"/api/v1/projects/{job.project.slug}/jobs/{job.short_id}"
    assert client.get(url).json()["gpus_simulated"] is False
    assert "imulated" not in client.get(reverse("projects:list")).content.decode()
