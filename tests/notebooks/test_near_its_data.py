"""Work goes where its data is, where nobody said otherwise; and says when it does not (G7)."""

import json

import pytest

from clusters.models import Cluster
from notebooks.models import Workspace
from notebooks.reconciler import WorkspaceReconciler
from tests.notebooks.cluster_world import attach, pool
from volumes.models import ClassPlace, Volume
from volumes.services.classes import default_class
from volumes.services.create import NewVolume, volume_create

BASE = "/api/v1/projects/vision/workspaces"
IMAGE = "registry.example.org/team/train:1.2"
BODY = {"cluster": "gpu", "kind": "container", "image": IMAGE, "volumes": ["sets"]}


@pytest.fixture
def gpu(presets, monkeypatch) -> Cluster:
    return attach(monkeypatch)


@pytest.fixture
def near(gpu, project, alice, principal, settle):
    """A volume "sets" on storage that stands near the pool "east"; "west" is another one."""
    east, _west = pool(gpu, "east"), pool(gpu, "west")
    kind = default_class("gpu")
    ClassPlace.objects.get(volume_class=kind, cluster=gpu).near.add(east)
    wanted = NewVolume("sets", 1024, cluster="gpu")
    volume_create(principal=principal(alice), project=project, wanted=wanted)
    settle()
    return east


@pytest.fixture
def post(as_user, project, alice):
    def call(path="", **said):
        body = json.dumps({**BODY, **said})
        return as_user(alice).post(BASE + path, body, content_type="application/json")

    return call


def liked(post, **said):
    answer = post(**said)
    assert answer.status_code == 202, answer.content
    row = Workspace.objects.get(short_id=answer.json()["id"])
    return WorkspaceReconciler().spec_of(row).placement


def test_without_a_chosen_pool_the_nodes_near_its_data_are_preferred(post, near):
    placement = liked(post)
    assert placement.near == ({"pool": "east"},)
    assert placement.node_labels == {}  # none is needed


def test_a_chosen_pool_is_the_whole_choice(post, near):
    placement = liked(post, pool="west")
    assert (placement.near, placement.node_labels) == ((), {"pool": "west"})


def test_a_home_draws_nobody(post, near):
    assert liked(post, volumes=[]).near == ()


def test_a_pool_that_is_reserved_for_others_draws_nobody_and_is_not_named(post, near, operator):
    near.project_uids = [str(operator.uid)]
    near.save()
    assert liked(post).near == ()
    told = post("?plan=1", pool="west")
    assert told.status_code == 200
    assert "east" not in told.content.decode()


def test_the_plan_says_when_the_chosen_pool_is_not_near(post, near):
    said = "The volume “sets” stands near east; reading from west will be slower."
    assert said in post("?plan=1", pool="west").json()["sentences"]
    for quiet in ({"pool": "east"}, {}, {"pool": "west", "volumes": []}):
        told = post("?plan=1", **quiet)
        assert told.status_code == 200, told.content
        assert not [s for s in told.json()["sentences"] if "slower" in s]


def test_the_foot_of_the_form_says_it_too(near, as_user, alice, project):
    form = {
        "preset": "jupyterlab",
        "kind": "container",
        "cluster": "gpu",
        "pool": "west",
        "image": IMAGE,
        "cpu": "1",
        "memory": "2",
        "gpus": "0",
        "shown": "1",
        f"volume-{Volume.objects.get(name='sets').uid}": "ro",
    }
    answer = as_user(alice).post("/projects/vision/workspaces/launch/plan/", form)
    assert "reading from west will be slower" in answer.content.decode()
