"""Model servers of others on a cluster with GPUs: from the catalogue to what is run."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from clusters.models import Cluster, Flavor
from clusters.services import nodes_store
from runtime.capabilities.clusters import NodeChanges
from serving.models import Endpoint
from serving.runtime_spec import workload_spec
from tests.clusters.fleet import node
from tests.notebooks.cluster_world import attach
from tests.serving.conftest import ENDPOINTS

pytestmark = pytest.mark.django_db
IMAGE = "registry.example/vllm:1"


@pytest.fixture
def cluster(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Two hosts of eight devices, KServe, and an image for vLLM."""
    settings.BERTH_LOCAL_CLUSTER = False
    made = attach(monkeypatch, options={"serving_images": {"vllm": IMAGE}})
    Flavor.objects.filter(name="h100-80").update(memory_mib=81_559)
    devices = {"nvidia.com/gpu": 8}
    seen = [node(f"n{n}", labels={"gpu": "h100-80"}, accelerators=devices) for n in range(2)]
    nodes_store(cluster_key=made.key, changes=NodeChanges(seen=tuple(seen), full=True))
    Cluster.objects.filter(pk=made.pk).update(operators=["kserve"])
    made.refresh_from_db()
    return made


@pytest.fixture
def weights(cluster: Cluster, project: Any, model: Any, version: Any, alice: Any) -> Any:
    from volumes.models import Volume

    volume = Volume.objects.create(
        project=project, name="weights", kind="data", created_by=alice, cluster_key=cluster.key
    )
    return version(framework="huggingface", volume=volume, folder="llm", size_bytes=100 * 2**30)


def test_the_catalogue_recommends_gpus_for_vllm_and_its_press_gives_a_plan(
    cluster: Cluster, weights: Any, client: Any, api: Any, alice: Any
) -> None:
    client.force_login(alice)
    page = client.get("/projects/vision/endpoints/catalogue/").content.decode()
    assert "not tested by Berth on a GPU" in page
    address = next(one for one in page.split('"') if "endpoints/new/?model=" in one)
    said: dict[str, Any] = dict(parse_qsl(urlsplit(address.replace("&amp;", "&")).query))
    assert (said["model"], said["gpus"]) == (str(weights), "2")
    assert client.get(address.replace("&amp;", "&")).status_code == 200
    said |= {name: int(said[name]) for name in ("cpu_milli", "memory_mib", "gpus")}
    plan = api(alice, "POST", f"{ENDPOINTS}?plan=1", said)
    assert plan.status_code == 200, plan.content
    assert "vLLM was not tried by Berth" in plan.content.decode()

    made = api(alice, "POST", ENDPOINTS, said)
    assert made.status_code == 202, made.content
    spec = workload_spec(Endpoint.objects.get(short_id=made.json()["id"]))
    assert (spec.image, spec.command[:2]) == (IMAGE, ("python3", "-m"))
    assert spec.args[-2:] == ("--tensor-parallel-size", "2")
    assert spec.probe
    assert spec.probe.path == "/health"
    assert {one.name: one.read_only for one in spec.mounts}["weights"]


@pytest.mark.parametrize(
    ("options", "more", "field", "words"),
    [
        ({"serving_images": {}}, {"gpus": 2}, "runtime", "names no image for vLLM"),
        ({}, {}, "gpus", "vLLM needs a GPU"),
        ({}, {"gpus": 2, "runtime": "berth"}, "runtime", "What would do: vLLM"),
    ],
)
def test_what_it_lacks_is_refused_with_what_would_do(
    cluster: Cluster,
    weights: Any,
    api: Any,
    alice: Any,
    options: dict[str, Any],
    more: dict[str, Any],
    field: str,
    words: str,
) -> None:
    Cluster.objects.update(options={**cluster.options, **options})
    answer = api(alice, "POST", ENDPOINTS, {"name": "llm", "model": str(weights), **more})
    assert answer.status_code == 400
    assert words in answer.json()["fields"][field][0]
