"""On which of several clusters a load runs whose volume is not made yet."""

import pytest

from clusters.models import Cluster
from common.errors import Invalid
from loaders.kind import LOAD
from loaders.services import load_create
from tests.notebooks.cluster_world import attach
from volumes.models import Volume
from work.services import workload_plan

IMAGE = "registry.example.org/data:1"
REFUSED = [  # by what the first cluster is, by its name
    {"options": {"data_image": IMAGE, "trusted": False}},  # its self-check is not green yet
    {"options": {}},  # no image of the copying program
    {"options": {"data_image": IMAGE}, "drain": True},
]


@pytest.fixture
def two(project, settings, monkeypatch):
    """Two clusters and no machine; ``first`` is as told, the other one takes any load."""
    settings.BERTH_LOCAL_CLUSTER = False

    def make(**first):
        attach(monkeypatch, "a-first", **first)
        attach(monkeypatch, "b-second", options={"data_image": IMAGE})

    return make


@pytest.fixture
def planned(principal, alice, project):
    return lambda: workload_plan(
        principal=principal(alice), project=project, kind=LOAD, said={"url": "s3://bucket/images"}
    )


@pytest.mark.parametrize("first", REFUSED)
def test_a_cluster_that_would_refuse_is_passed_over(two, planned, first):
    two(**first)
    plan = planned()
    assert (plan.row.cluster_key, plan.allowed) == ("b-second", True)


def test_the_volume_is_made_where_the_load_runs(two, principal, alice, project):
    two(**REFUSED[1])
    row = load_create(
        principal=principal(alice), project=project, said={"url": "s3://bucket/images"}
    )
    assert (row.cluster_key, row.volume.cluster_key) == ("b-second", "b-second")


def test_one_that_does_not_answer_is_taken_last(two, planned):
    two(options={"data_image": IMAGE})
    assert planned().row.cluster_key == "a-first"
    Cluster.objects.filter(key="a-first").update(reachable=False)
    assert planned().row.cluster_key == "b-second"
    Cluster.objects.filter(key="b-second").update(drain=True)
    assert planned().row.cluster_key == "a-first"


def test_where_every_cluster_refuses_the_first_one_says_why(two, planned):
    two(**REFUSED[0])
    Cluster.objects.filter(key="b-second").update(options={})
    plan = planned()
    assert (plan.row.cluster_key, plan.allowed) == ("a-first", False)
    assert "Cluster a-first" in plan.refusal


def test_of_several_volumes_of_the_project_one_must_be_named(two, planned, alice, project):
    two(options={"data_image": IMAGE})
    own = {"project": project, "created_by": alice, "name": "shared", "kind": "project"}
    keys = ("a-first", "b-second")
    one, other = (Volume.objects.create(cluster_key=key, **own) for key in keys)
    with pytest.raises(Invalid) as refused:
        planned()
    (said,) = refused.value.fields["volume"]
    assert "on several clusters" in said
    assert said.endswith(f"(a-first: {one.uid}, b-second: {other.uid})")
    Cluster.objects.filter(key="a-first").update(drain=True)
    assert planned().row.volume == other
    # where none takes anything the answer is the same as before
    Cluster.objects.update(drain=True)
    with pytest.raises(Invalid, match="on several clusters"):
        planned()
