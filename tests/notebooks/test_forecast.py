"""“Starts now” is promised only where it can be."""

import html
import json

import pytest

from clusters.models import Cluster, Flavor
from clusters.services import nodes_store
from common.clock import now
from notebooks.kind import WORKSPACE
from notebooks.models import Preset, Workspace
from placement.decision import Request
from placement.fleet import Fleet, decision_on
from runtime.capabilities.clusters import NodeChanges
from runtime.models import ObservedWorkload
from runtime.spec import Resources
from tests.clusters.fleet import node
from tests.notebooks.cluster_world import attach
from work.attached import Attached
from work.services.resolve import Resolved, request_of

pytestmark = pytest.mark.django_db
BASE = "/api/v1/projects/vision/workspaces"
GIB = 1024


def nodes(**more):
    """Four nodes with four H100 each, as the flavor of the test's cluster knows them."""
    own = {"labels": {"gpu": "h100-80"}, "accelerators": {"nvidia.com/gpu": 4}}
    each = ({k: v(i) for k, v in more.items()} for i in range(4))
    seen = tuple(node(f"n{i}", **own, **said) for i, said in enumerate(each))
    return NodeChanges(seen=seen, full=True)


def asked(gpus, **more):
    size = {"cpu_milli": 1000, "memory_mib": 1024, "gpus": gpus, "gpu_flavor": "h100-80"}
    return Workspace(**size, **more)


@pytest.fixture
def gpu(presets, settings, monkeypatch):
    """A cluster of which more is known than how many GPUs it has."""
    settings.BERTH_LOCAL_CLUSTER = False
    made = attach(monkeypatch)
    nodes_store(cluster_key="gpu", changes=nodes())
    made.refresh_from_db()
    return made


@pytest.fixture
def plan(as_user, alice, project):
    def ask(**body):
        answer = as_user(alice).post(f"{BASE}?plan=1", json.dumps(body), "application/json")
        assert answer.status_code == 200, answer.content
        return answer.json()

    return ask


@pytest.fixture
def held(as_user, alice, project, gpu):
    """Workspaces that run and hold GPUs of a node."""

    def make(gpus, on, flavor="h100-80"):
        body = {"gpus": gpus, "gpu_flavor": flavor, "name": f"holds {gpus} on {on}"}
        answer = as_user(alice).post(BASE, json.dumps(body), "application/json")
        row = Workspace.objects.get(short_id=answer.json()["id"])
        Workspace.objects.filter(pk=row.pk).update(phase="running")
        ObservedWorkload.objects.update_or_create(
            cluster_key="gpu",
            uid=row.uid,
            defaults={"seen": "ready", "data": {"detail": {"node": on}}, "seen_at": now()},
        )

    return make


def test_a_silent_cluster_starts_nothing_now(plan, gpu):
    assert plan()["starts_now"] is True
    Cluster.objects.update(reachable=False)
    found = plan()
    assert (found["allowed"], found["starts_now"]) == (True, False)
    assert "It would wait: Cluster gpu does not answer." in found["sentences"]
    Cluster.objects.update(checked_at=None)  # just attached: nobody has asked it yet
    assert plan()["starts_now"] is True


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        ({"memory_mib": 512 * GIB}, True),
        ({"memory_mib": 513 * GIB}, False),
        ({"memory_mib": 16 * GIB * GIB}, False),
        ({"cpu_milli": 64_000}, True),
        ({"cpu_milli": 65_000}, False),
    ],
)
def test_more_than_the_largest_node_has_never_starts(plan, gpu, asked, fits):
    found = plan(**asked)
    assert found["starts_now"] is fits
    never = [said for said in found["sentences"] if said.startswith("No node of Cluster gpu has ")]
    assert bool(never) is not fits


@pytest.mark.parametrize(
    ("asked", "lacking"),
    [
        ({"memory_mib": 513 * GIB}, "513\N{NO-BREAK SPACE}GiB of memory"),
        (
            {"cpu_milli": 65_000, "memory_mib": 513 * GIB},
            "65 CPU, 513\N{NO-BREAK SPACE}GiB of memory",
        ),
        ({"gpus": 5, "gpu_flavor": "h100-80"}, "5 × h100-80"),  # noqa: RUF001 - the sign
    ],
)
def test_a_card_says_what_no_node_has_and_offers_no_start(
    gpu, text, alice, project, asked, lacking
):
    Preset.objects.filter(slug="small").update(**asked)
    home = text(alice)
    assert f"No node of Cluster gpu has {lacking}." in home
    started = 'name="preset" value="{}"'
    assert started.format("small") not in home
    assert started.format("jupyterlab") in home
    form = text(alice, "/projects/vision/workspaces/launch/", preset="small")
    assert "Does not fit" in form
    assert f"No node of Cluster gpu has {lacking}." in form


def test_the_form_starts_nothing_of_which_its_plan_says_that_it_does_not_fit(
    gpu, as_user, alice, project
):
    form = {"preset": "small", "memory": "513", "nonce": "n1"}
    page = "/projects/vision/workspaces/launch/"
    refused = as_user(alice).post(page, form)
    said = html.unescape(refused.content.decode())
    assert refused.status_code == 409
    assert said.count("No node of Cluster gpu has 513\N{NO-BREAK SPACE}GiB of memory.") == 1
    assert 'value="513"' in said
    assert not Workspace.objects.exists()
    # who types a command may wait for a node that is still to come
    asked = json.dumps({"preset": "small", "memory_mib": 513 * GIB})
    assert as_user(alice).post(BASE, asked, "application/json").status_code == 202
    assert as_user(alice).post(page, {**form, "memory": "512"}).status_code == 302


def test_a_card_says_what_one_machine_lacks(presets, text, alice, project):
    Preset.objects.filter(slug="small").update(gpus=64)
    assert "This machine has less than it asks for: 64 GPUs. The most here: 0 GPUs." in text(alice)


def test_processors_that_are_promised_several_times_count_as_often(plan, gpu):
    gpu.options = {**gpu.options, "cpu_overcommit": 10}
    gpu.save()
    assert plan(cpu_milli=640_000)["starts_now"] is True
    assert plan(cpu_milli=641_000)["starts_now"] is False


def test_a_cluster_of_which_no_size_is_known_is_in_nobodys_way(plan, gpu):
    Cluster.objects.update(capacity={})
    assert plan(memory_mib=16 * GIB * GIB)["starts_now"] is True
    # the next list of its nodes says it, although none of them changed
    nodes_store(cluster_key="gpu", changes=nodes())
    assert plan(memory_mib=16 * GIB * GIB)["starts_now"] is False


def test_gpus_that_are_free_on_several_nodes_start_nothing_that_needs_one(plan, gpu, held):
    for name in ("n0", "n1", "n2", "n3"):
        held(2, name, "" if name == "n3" else "h100-80")
    assert plan(gpus=2, gpu_flavor="h100-80")["starts_now"] is True
    found = plan(gpus=4, gpu_flavor="h100-80")  # eight are free, two on each
    assert found["starts_now"] is False
    said = "What is free is in pieces: the freest host has room for 2 of 4 GPUs."
    assert said in found["sentences"]
    assert plan(gpus=4)["starts_now"] is False  # of any kind


def test_what_others_pods_hold_of_a_node_is_not_free_together(plan, gpu):
    taken = nodes(held=lambda number: {"nvidia.com/gpu": 1 if number else 3})
    nodes_store(cluster_key="gpu", changes=taken)
    assert plan(gpus=3, gpu_flavor="h100-80")["starts_now"] is True
    assert plan(gpus=4, gpu_flavor="h100-80")["starts_now"] is False


AMD = node("amd", labels={"gpu": "mi300x"}, accelerators={"amd.com/gpu": 4})
SLICES = node(
    "a30",
    labels={"nvidia.com/gpu.product": "NVIDIA-A30", "nvidia.com/gpu.memory": "24576"},
    accelerators={"nvidia.com/mig-1g.6gb": 28},
)


@pytest.fixture
def mixed(gpu):
    """Beside the H100s some of another maker, and parts of which there are more than of all."""
    Flavor.objects.create(
        name="mi300x", label="MI300X", resource="amd.com/gpu", node_labels={"gpu": ["mi300x"]}
    )
    nodes_store(cluster_key="gpu", changes=NodeChanges(seen=(AMD, SLICES)))


def placed(project):
    request = Request.of_size("notebook", Resources(gpus=1))
    return decision_on("gpu", request, project.uid).nodes


def test_c11_of_any_kind_only_that_is_counted_which_would_be_asked_for(
    mixed, plan, held, project, alice, text
):
    assert placed(project).resource == "nvidia.com/gpu"
    gpu = Cluster.objects.get(key="gpu")
    any_kind = Request.of_size("notebook", Resources(gpus=1))
    (room,) = Fleet([gpu], project.uid).decide(gpu, any_kind).rooms
    assert (room.label, room.free, room.total) == ("H100", 16, 16)
    for name in ("n0", "n1", "n2", "n3"):
        assert plan(gpus=1)["starts_now"] is True
        held(4, name)
    assert plan(gpus=1)["starts_now"] is False  # of AMD's and of parts some are free
    Preset.objects.filter(slug="small").update(gpus=1)
    assert "MI300X" not in text(alice)
    Preset.objects.filter(slug="small").update(gpu_flavor="mi300x")
    assert "MI300X: 4 of 4 free" in text(alice)


def test_a17_where_there_are_only_parts_no_node_has_a_whole_one(gpu, plan, project):
    nodes_store(cluster_key="gpu", changes=NodeChanges(seen=(SLICES,), full=True))
    assert placed(project).any_of == ()
    assert any(
        said.startswith("No node of Cluster gpu has 1") for said in plan(gpus=1)["sentences"]
    )
    assert plan(gpus=1, gpu_flavor="a30-mig-1g-6gb")["starts_now"] is True


def test_many_clusters_cost_as_many_queries_as_one(
    gpu, project, monkeypatch, django_assert_max_num_queries
):
    for number in range(5):
        attach(monkeypatch, f"more-{number}")
        nodes_store(cluster_key=f"more-{number}", changes=nodes())
    rows = list(Cluster.objects.filter(driver="kubernetes"))
    with django_assert_max_num_queries(14):
        look = Fleet(rows, project.uid)
        for gpus in (1, 2, 4, 8):
            look.ranked(rows, request_of(WORKSPACE, asked(gpus)))


def test_the_forecast_of_one_cluster_is_that_of_all(gpu, project, held):
    for name in ("n0", "n1", "n2", "n3"):
        held(3, name)
    row = asked(2, cluster_key="gpu", project=project)
    alone = Resolved(WORKSPACE, row, Attached()).decision
    assert not alone.starts_now
    (ranked,) = Fleet([gpu], project.uid).ranked([gpu], request_of(WORKSPACE, row))
    assert (ranked, ranked.standing) == (alone, alone.standing)
