"""“Starts now” is promised only where it can be."""

import json

import pytest

from clusters.models import Cluster
from clusters.services import nodes_store
from common.clock import now
from notebooks.forecast import Room, Rooms
from notebooks.models import Workspace
from runtime.models import ObservedWorkload
from runtime.protocol import NodeChanges, Resources
from tests.clusters.fleet import node
from tests.notebooks.cluster_world import attach

pytestmark = pytest.mark.django_db
BASE = "/api/v1/projects/vision/workspaces"
GIB = 1024


def nodes(**more):
    """Four nodes with four H100 each, as the flavor of the test's cluster knows them."""
    own = {"labels": {"gpu": "h100-80"}, "accelerators": {"nvidia.com/gpu": 4}}
    each = ({k: v(i) for k, v in more.items()} for i in range(4))
    seen = tuple(node(f"n{i}", **own, **said) for i, said in enumerate(each))
    return NodeChanges(seen=seen, full=True)


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
    never = "No node of the cluster is of the kind or size that it asks for."
    assert (never in found["sentences"]) is not fits


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
    assert "It would wait as the next one: what it asks for is in use." in found["sentences"]
    assert plan(gpus=4)["starts_now"] is False  # of any kind


def test_what_others_pods_hold_of_a_node_is_not_free_together(plan, gpu):
    taken = nodes(held=lambda number: {"nvidia.com/gpu": 1 if number else 3})
    nodes_store(cluster_key="gpu", changes=taken)
    assert plan(gpus=3, gpu_flavor="h100-80")["starts_now"] is True
    assert plan(gpus=4, gpu_flavor="h100-80")["starts_now"] is False


def test_many_clusters_cost_as_many_queries_as_one(
    gpu, project, monkeypatch, django_assert_max_num_queries
):
    for number in range(5):
        attach(monkeypatch, f"more-{number}")
        nodes_store(cluster_key=f"more-{number}", changes=nodes())
    rows = list(Cluster.objects.filter(driver="kubernetes"))
    with django_assert_max_num_queries(14):
        rooms = Rooms(project.uid)
        for gpus in (1, 2, 4, 8):
            rooms.ranked(rows, Resources(gpus=gpus, gpu_flavor="h100-80"))


def test_the_forecast_of_one_cluster_is_that_of_all(gpu, project, held):
    for name in ("n0", "n1", "n2", "n3"):
        held(3, name)
    asked = Resources(gpus=2, gpu_flavor="h100-80")
    alone = Room("gpu", project.uid).ask(asked)
    assert not alone.starts_now
    assert Rooms(project.uid).ranked([gpu], asked) == [(gpu, alone)]
