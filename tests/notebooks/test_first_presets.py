"""The presets that nobody made: a GPU is offered as soon as one is seen, on a cluster as well."""

import pytest

from clusters.models import Cluster, Flavor
from clusters.services import ensure_local_cluster, health_refresh, nodes_store
from notebooks.models import Preset, Workspace
from notebooks.selectors import default_preset
from notebooks.services import (
    PresetFields,
    ensure_default_presets,
    preset_create,
    preset_delete,
    preset_update,
)
from portal.server.duties import Usage
from runtime.capabilities.clusters import NodeChanges
from runtime.protocol import Device
from tests.clusters.fleet import fleet, node
from tests.notebooks.cluster_world import attach


def offered():
    return list(Preset.objects.filter(gpus__gt=0).values_list("slug", flat=True))


def told(*nodes):
    """The cluster's nodes are seen, and the worker has its turn."""
    nodes_store(cluster_key="gpu", changes=NodeChanges(seen=nodes, full=True))
    Usage().tick()


@pytest.fixture
def cluster(presets, settings, monkeypatch):
    """A new installation whose operator has attached a cluster: its nodes are not known yet."""
    settings.BERTH_LOCAL_CLUSTER = False
    row = attach(monkeypatch)
    Cluster.objects.filter(pk=row.pk).update(kinds={})
    Flavor.objects.all().delete()  # none is known by name either
    return row


def change(principal, operator, preset, **values):
    fields = PresetFields(values=values)
    return preset_update(principal=principal(operator), preset=preset, fields=fields)


def test_a_cluster_with_gpus_brings_one_preset_and_home_says_what_is_free_by_kind(
    cluster, as_user, project, alice
):
    Usage().tick()
    assert offered() == []
    told(*fleet())
    told(*fleet())
    assert offered() == ["jupyterlab-gpu"]
    page = as_user(alice).get("/").content.decode()
    assert "JupyterLab + 1 GPU" in page
    assert "NVIDIA H100 80GB HBM3: 80 of 80 free" in page
    assert "Tesla T4: 11 of 11 free" in page
    made = as_user(alice).post(
        "/projects/vision/workspaces/launch/", {"preset": "jupyterlab-gpu", "nonce": "n1"}
    )
    assert made.status_code == 302, made.content.decode()[:2000]
    row = Workspace.objects.get(project=project)
    assert (row.gpus, row.cluster_key) == (1, cluster.key)


def test_a17_a_cluster_that_has_nothing_but_parts_of_gpus_offers_no_whole_one(cluster):
    told(node("n", accelerators={"nvidia.com/mig-1g.6gb": 4}))
    assert offered() == []
    told(node("n", accelerators={"nvidia.com/mig-1g.6gb": 4}), node("h", "h100-80"))
    assert offered() == ["jupyterlab-gpu"]


def test_a_launch_that_says_nothing_takes_no_gpu(cluster, as_user, project, alice):
    told(*fleet())
    made = as_user(alice).post(
        "/api/v1/projects/vision/workspaces", data="{}", content_type="application/json"
    )
    assert made.status_code == 202, made.content
    assert (made.json()["preset"], made.json()["spec"]["gpus"]) == ("jupyterlab", 0)


def test_a_launch_that_says_nothing_takes_a_gpu_only_where_there_is_nothing_else(cluster, project):
    told(*fleet())
    Preset.objects.filter(slug="jupyterlab").update(is_active=False)
    Preset.objects.filter(gpus__gt=0).update(position=1)
    assert default_preset(project).gpus == 0
    Preset.objects.filter(gpus=0).update(is_active=False)
    assert default_preset(project).gpus == 1


def test_a_preset_of_some_kinds_says_what_is_free_of_these(
    cluster, as_user, principal, operator, project, alice
):
    told(*fleet())
    (preset,) = Preset.objects.filter(gpus__gt=0)
    change(principal, operator, preset, gpu_flavor="t4")
    page = as_user(alice).get("/").content.decode()
    assert "Tesla T4: 11 of 11 free" in page
    assert "H100" not in page


def test_the_gpus_of_one_machine_are_told_by_kind_as_well(world, as_user, project, alice):
    ensure_local_cluster()
    names = ("NVIDIA H100 80GB", "NVIDIA H100 80GB", "Tesla T4")
    world.driver_for("local").set_devices(
        [Device(f"GPU-{n}", n, name, memory_mib=15_360) for n, name in enumerate(names)]
    )
    health_refresh(key="local")
    assert "jupyterlab-gpu" in [preset.slug for preset in ensure_default_presets()]
    page = as_user(alice).get("/").content.decode()
    assert "3 of 3 GPUs free" in page
    assert ": 2 of 2 free · " in page
    assert ": 1 of 1 free" in page


def test_nodes_without_gpus_and_clusters_that_are_switched_off_bring_none(cluster):
    told(node("plain"))
    assert offered() == []
    Cluster.objects.update(enabled=False)
    told(*fleet())
    assert offered() == []


def test_gpus_that_nobody_can_be_given_bring_none(cluster):
    told(node("h1", "h100-80", schedulable=False))
    assert Cluster.objects.get(key="gpu").kinds["h100-80"]["out"] == 8
    assert offered() == []


def test_a_preset_that_an_operator_deleted_or_switched_off_does_not_come_back(
    cluster, principal, operator
):
    told(*fleet())
    (preset,) = Preset.objects.filter(gpus__gt=0)
    change(principal, operator, preset, is_active=False, name="GPU of ours")
    Usage().tick()
    assert list(Preset.objects.filter(gpus__gt=0)) == [preset]
    preset_delete(principal=principal(operator), preset=preset)
    Usage().tick()
    assert offered() == []


def test_an_operator_who_makes_presets_is_not_given_more(cluster, principal, operator):
    fields = PresetFields(values={"name": "Ours", "cpu_milli": 1000})
    preset_create(principal=principal(operator), fields=fields)
    told(*fleet())
    assert offered() == []
