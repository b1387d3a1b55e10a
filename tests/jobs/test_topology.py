"""Jobs whose replicas stand together (A10, L6): asked for, judged before the launch, told to pods.

The cluster is 2 units of 2 racks of 2 hosts of 8 devices.
"""

from __future__ import annotations

from typing import Any

import pytest

from clusters.models import Cluster
from clusters.services import nodes_store
from common.errors import Conflict, Invalid
from jobs.models import Job
from jobs.runtime_spec import workload_spec
from runtime.capabilities.clusters import NodeChanges
from runtime.reasons import Reason
from runtime.spec import Together
from tests.clusters.fleet import node
from tests.notebooks.cluster_world import IMAGE, attach
from work import services, waits
from work.services.manifest import manifest_of

pytestmark = pytest.mark.django_db
LABELS = {"manages_queues": True, "unit_label": "berth.dev/su", "rack_label": "berth.dev/rack"}
FORM = "/projects/vision/jobs/new/"


@pytest.fixture
def cluster(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    settings.BERTH_LOCAL_CLUSTER = False
    made = attach(monkeypatch, options=LABELS)
    seen = [
        node(
            f"n{n}",
            labels={
                "gpu": "h100-80",
                "berth.dev/su": f"su-{n // 4}",
                "berth.dev/rack": f"r{n // 2}",
            },
            accelerators={"nvidia.com/gpu": 8},
        )
        for n in range(8)
    ]
    nodes_store(cluster_key=made.key, changes=NodeChanges(seen=tuple(seen), full=True))
    made.refresh_from_db()
    return made


def said(gpus: int, replicas: int, where: str, how: str = "required") -> dict[str, Any]:
    size = {"gpus": gpus, "gpu_flavor": "h100-80", "replicas": replicas}
    return {"image": IMAGE, **size, "topology": how, "topology_level": where}


def test_l6_what_fits_no_unit_is_told_before_it_is_submitted(
    cluster: Cluster, asked: dict[str, Any]
) -> None:
    plan = services.workload_plan(**asked, said=said(8, 5, "unit"))
    assert plan.decision is not None
    assert not plan.decision.fits
    assert "40 GPUs are asked for, and the largest holds 32" in " ".join(plan.sentences)
    with pytest.raises(Conflict, match="does not fit into one scalable unit"):
        services.workload_create(**asked, said=said(8, 5, "unit"), must_fit=True)
    assert services.workload_plan(**asked, said=said(8, 4, "unit")).decision.starts_now  # type: ignore[union-attr]
    assert services.workload_plan(**asked, said=said(8, 5, "unit", "preferred")).decision.fits  # type: ignore[union-attr]


def test_l6_parameter_servers_in_one_unit_are_refused_before_the_launch(
    cluster: Cluster, asked: dict[str, Any]
) -> None:
    """Kueue keeps two roles together, not three."""
    Cluster.objects.update(operators=["jobset"])
    trains = {"framework": "tensorflow", "command": ["train"]}
    servers = {**trains, "parameter_servers": 1}
    with pytest.raises(Invalid, match="not parameter servers or an evaluator with them"):
        services.workload_create(**asked, said={**said(8, 2, "unit"), **servers})
    services.workload_create(**asked, said={**said(8, 2, "unit", "preferred"), **servers})
    services.workload_create(**asked, said={**said(8, 2, "unit"), **trains, "name": "other"})


def test_pods_get_the_label_of_the_level(cluster: Cluster, asked: dict[str, Any]) -> None:
    row = services.workload_create(**asked, said=said(8, 2, "rack"))
    assert workload_spec(row).placement.together == Together("berth.dev/rack", required=True)
    row = services.workload_edit(principal=asked["principal"], row=row, said={"topology": "none"})
    assert workload_spec(row).placement.together is None


@pytest.mark.parametrize(
    ("options", "asks", "field"),
    [
        ({**LABELS, "unit_label": ""}, said(8, 2, "unit"), "topology_level"),
        ({**LABELS, "unit_label": "", "rack_label": ""}, said(8, 1, "host"), "topology_level"),
        (LABELS, said(0, 2, "rack"), "topology"),
    ],
)
def test_what_a_cluster_does_not_know_is_refused_by_name(
    options: dict[str, Any], asks: dict[str, Any], field: str, cluster: Cluster, asked: Any
) -> None:
    Cluster.objects.update(options={**cluster.options, **options})
    with pytest.raises(Invalid) as refused:
        services.workload_create(**asked, said=asks)
    assert list(refused.value.fields) == [field]


def test_one_machine_is_one_host_whatever_is_asked(asked: dict[str, Any], alice: Any) -> None:
    plan = services.workload_plan(
        **asked, said={"command": ["true"], "topology": "required", "topology_level": "host"}
    )
    assert plan.allowed
    assert plan.decision is not None
    assert plan.decision.starts_now


def test_a_document_says_it_only_where_it_says_something(
    cluster: Cluster, asked: dict[str, Any]
) -> None:
    rows = [
        services.workload_create(**asked, said=said(8, 1, "unit", how))
        for how in ("none", "preferred")
    ]
    specs = [manifest_of(row, private=True)["spec"] for row in rows]
    assert not specs[0].keys() & {"topology", "topology_level"}
    assert specs[1]["topology"] == "preferred"


def test_who_waits_for_pieces_reads_the_largest_and_what_starts_sooner(
    cluster: Cluster, asked: dict[str, Any], as_user: Any, alice: Any
) -> None:
    Cluster.objects.update(held={f"n{n}": {"nvidia.com/gpu": 2} for n in range(8)})
    row = services.workload_create(**asked, said=said(2, 8, "rack"))
    Job.objects.filter(pk=row.pk).update(
        reason=Reason.QUEUED, observed_generation=row.generation, cluster_key=cluster.key
    )
    found = waits.wait_of(asked["principal"], Job.objects.get(pk=row.pk))
    assert found is not None
    assert "the freest rack has room for 12 of 16 GPUs" in found.sentence
    assert dict(found.changes[0].said) == {"topology_level": "unit"}
    url = f"/projects/vision/jobs/{row.short_id}/change/"
    press = {"topology_level": "unit", "generation": str(row.generation)}
    client = as_user(alice)
    assert client.post(url, press).status_code == 302
    row.refresh_from_db()
    assert (row.topology, row.topology_level) == ("required", "unit")
    assert "Change it back" in client.get(row.get_absolute_url()).content.decode()


def test_the_form_offers_the_levels_that_a_cluster_knows(
    cluster: Cluster, asked: dict[str, Any], as_user: Any, alice: Any
) -> None:
    html = as_user(alice).get(FORM).content.decode()
    assert 'name="topology_level"' in html
    assert "scalable unit" in html
    Cluster.objects.update(options={**cluster.options, "unit_label": "", "rack_label": ""})
    assert 'name="topology' not in as_user(alice).get(FORM).content.decode()
