"""What is promised is what the work may get: by its kind, its pool, its network and its project."""

from uuid import uuid4

import pytest

from clusters.device_use import uses
from clusters.models import CheckResult, Flavor
from clusters.services import nodes_store
from common.clock import now
from common.errors import Conflict
from notebooks.models import Workspace
from runtime.capabilities.clusters import NodeChanges
from runtime.models import ObservedWorkload
from tests.clusters.fleet import node
from tests.notebooks.cluster_world import BASE, CONTAINER, IMAGE, network, pool, row_of
from tests.support.workspaces import workspace_launch

H100 = {"gpu": "h100-80"}
TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}
TOLERATION = {"key": "team", "operator": "Exists", "effect": "NoSchedule"}


def stand(*placed, **more):
    """One node of four H100 in each of these pools; '' in none."""
    found = [
        node(
            f"n{number}",
            accelerators={"nvidia.com/gpu": 4},
            labels={**H100, **({"pool": name} if name else {})},
            **more.get(name, {}),
        )
        for number, name in enumerate(placed)
    ]
    nodes_store(cluster_key="gpu", changes=NodeChanges(seen=tuple(found), full=True))


@pytest.fixture
def plan(api, only_gpu, project, alice):
    def ask(gpus=1, **body):
        asked = {"gpus": gpus, "gpu_flavor": "h100-80", **body}
        answer = api(alice, "POST", f"{BASE}?plan=1", asked)
        assert answer.status_code == 200, answer.content
        return answer.json()

    return ask


@pytest.fixture
def held(post):
    """A workspace that runs on a node and holds its GPUs."""

    def make(gpus, on, **body):
        asked = {"gpus": gpus, "gpu_flavor": "h100-80", "name": f"on {on}", **body}
        row = row_of(post(asked))
        Workspace.objects.filter(pk=row.pk).update(phase="running")
        ObservedWorkload.objects.update_or_create(
            cluster_key="gpu",
            uid=row.uid,
            defaults={"seen": "ready", "data": {"detail": {"node": on}}, "seen_at": now()},
        )

    return make


def never(found):
    return any(said.startswith("No node of Cluster gpu has ") for said in found["sentences"])


@pytest.fixture
def boxes(only_gpu):
    """The pool of all H100 is for containers."""
    made = pool(only_gpu, "boxes", kinds=["container"])
    made.flavors.set(Flavor.objects.filter(name="h100-80"))
    stand("boxes")
    return made


@pytest.mark.usefixtures("boxes")
def test_a_page_starts_a_container_on_gpus_that_only_containers_may_have(
    plan, project, presets, principal, alice
):
    wanted = {"kind": "container", "image": IMAGE, "gpus": 1, "gpu_flavor": "h100-80"}
    launched = {"principal": principal(alice), "project": project, "must_fit": True}
    assert workspace_launch(said=wanted, **launched).gpus == 1
    assert plan(**CONTAINER)["starts_now"] is True
    with pytest.raises(Conflict):
        workspace_launch(
            said={"kind": "container", "image": IMAGE, "gpus": 5, "gpu_flavor": "h100-80"},
            **launched,
        )


@pytest.mark.usefixtures("boxes")
def test_the_form_offers_the_kinds_of_every_work_that_it_starts(text, alice, project):
    assert 'value="h100-80"' in text(alice, "/projects/vision/workspaces/launch/")


def test_a_full_pool_starts_nothing_now_though_others_are_free(plan, held, only_gpu):
    pool(only_gpu, "east")
    stand("east", "")
    assert plan(pool="east")["starts_now"] is True
    held(4, "n0")
    assert (plan()["starts_now"], plan(pool="east")["starts_now"]) == (True, False)
    assert not never(plan(pool="east"))


def test_a_pool_of_small_nodes_never_has_many_together(plan, only_gpu):
    pool(only_gpu, "east")
    stand("east", "east", "")
    assert plan(gpus=4, pool="east")["starts_now"] is True
    small = node("n9", accelerators={"nvidia.com/gpu": 8}, labels=H100)
    nodes_store(cluster_key="gpu", changes=NodeChanges(seen=(small,)))
    assert never(plan(gpus=8, pool="east"))
    assert not never(plan(gpus=8))


def test_a_network_leads_to_the_pools_that_have_it(plan, held, only_gpu):
    network(only_gpu, "rdma", pool(only_gpu, "wired"))
    stand("wired", "")
    held(4, "n0")
    assert (plan()["starts_now"], plan(network="rdma")["starts_now"]) == (True, False)


def test_nodes_kept_for_another_project_are_promised_to_nobody_else(plan, held, only_gpu):
    pool(only_gpu, "theirs", project_uids=[str(uuid4())])
    stand("theirs", "")
    assert plan()["starts_now"] is True
    held(4, "n1")
    found = plan()
    assert (found["starts_now"], never(found)) == (False, False)
    stand("theirs")
    assert never(plan())


def test_tainted_nodes_are_promised_to_work_that_tolerates_them(plan, only_gpu):
    closed = pool(only_gpu, "closed", tolerations=[TOLERATION])
    stand("closed", closed={"taints": (TAINT,)})
    assert (never(plan()), plan(pool="closed")["starts_now"]) == (True, True)
    closed.flavors.set(Flavor.objects.filter(name="h100-80"))  # then naming the kind is enough
    assert plan()["starts_now"] is True


def test_the_form_counts_what_may_be_got_and_names_the_pool_that_must_be_chosen(
    only_gpu, text, alice, project, plan
):
    closed = pool(only_gpu, "closed", tolerations=[TOLERATION])
    stand("closed", closed={"taints": (TAINT,)})
    label, page = Flavor.objects.get(name="h100-80").label, "/projects/vision/workspaces/launch/"
    assert never(plan())
    assert f"{label}: 4 of 4 free, only in the pool closed" in text(alice, page)
    stand("closed", "", closed={"taints": (TAINT,)})
    shown = text(alice, page)
    assert f"{label}: 4 of 4 free" in shown  # those of the open node
    assert "only in the pool" not in shown
    closed.flavors.set(Flavor.objects.filter(name="h100-80"))
    assert f"{label}: 8 of 8 free" in text(alice, page)


def big(*placed, **more):
    """Nodes without GPUs, of so many CPUs."""
    found = [node(f"c{n}", cpu_milli=cpu * 1000, **m) for n, (cpu, m) in enumerate(placed)]
    found += more.get("besides", [])
    nodes_store(cluster_key="gpu", changes=NodeChanges(seen=tuple(found), full=True))


@pytest.mark.parametrize(
    "closed",
    [
        {"taints": (TAINT,)},  # of a pool that must be named
        {  # by the name of its own device, which work without GPUs does not tolerate
            "taints": ({"key": "nvidia.com/gpu", "effect": "NoSchedule"},),
            "accelerators": {"nvidia.com/gpu": 4},
            "labels": H100,
        },
        {"labels": {"pool": "theirs"}},
        {"schedulable": False},
    ],
)
def test_cpus_that_only_nodes_have_which_it_may_not_use_are_never_there(plan, only_gpu, closed):
    pool(only_gpu, "closed", tolerations=[TOLERATION])
    pool(only_gpu, "theirs", project_uids=[str(uuid4())])
    big((2, {}), (64, closed))
    asked = {"gpus": 0, "gpu_flavor": "", "cpu_milli": 64_000}
    found = plan(**asked)
    assert never(found), found["sentences"]
    assert any("64" in said for said in found["sentences"])
    assert plan(**{**asked, "cpu_milli": 2000})["starts_now"] is True
    big((2, {}), (64, {}))
    assert plan(**asked)["starts_now"] is True


def test_without_any_pool_tainted_nodes_are_no_place_for_work_without_gpus(plan):
    taint = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
    gpus = {"accelerators": {"nvidia.com/gpu": 4}, "labels": H100, "taints": (taint,)}
    big((2, {}), (64, gpus))
    asked = {"gpus": 0, "gpu_flavor": "", "cpu_milli": 64_000}
    assert never(plan(**asked))
    assert plan(cpu_milli=64_000)["starts_now"] is True  # with a GPU it tolerates its taint


def test_cpus_are_those_of_the_nodes_with_such_gpus(plan):
    small = {"accelerators": {"nvidia.com/gpu": 4}, "labels": H100}
    big((8, small), (64, {}))
    assert never(plan(cpu_milli=16_000))
    assert plan(cpu_milli=8_000)["starts_now"] is True
    assert plan(gpus=0, gpu_flavor="", cpu_milli=16_000)["starts_now"] is True


def test_what_is_held_on_a_cordoned_node_takes_nothing_of_what_is_free(plan, held, only_gpu):
    stand("", "")
    held(4, "n0")
    rows = [node("n0", accelerators={"nvidia.com/gpu": 4}, labels=H100, schedulable=False)]
    nodes_store(cluster_key="gpu", changes=NodeChanges(seen=tuple(rows)))
    only_gpu.refresh_from_db()
    (use,) = [one for one in uses([only_gpu]) if one.flavor.name == "h100-80"]
    assert (use.total, use.used, use.free) == (4, 4, 4)
    assert plan(gpus=4)["starts_now"] is True


def test_where_no_volume_can_be_used_nothing_starts_now(plan, only_gpu):
    stand("")
    CheckResult.objects.create(cluster=only_gpu, name="storage", state="red", at=now())
    found = plan()
    assert found["starts_now"] is False
    assert any("no new volume can be used on Cluster gpu" in said for said in found["sentences"])


def test_a_pool_that_grows_from_no_node_is_not_said_to_be_too_small(plan, only_gpu):
    pool(only_gpu, "grows")
    stand("")
    assert plan(gpus=2, pool="grows")["starts_now"] is True


def test_a_card_counts_what_its_preset_may_get(held, only_gpu, text, alice, presets):
    pool(only_gpu, "east")
    stand("east", "", "")
    size = {"gpus": 1, "gpu_flavor": "h100-80", "pool": "east"}
    type(presets["small"]).objects.filter(slug="small").update(**size)
    label = Flavor.objects.get(name="h100-80").label
    assert f"{label}: 4 of 4 free" in text(alice)
    held(3, "n0")
    assert f"{label}: 1 of 4 free" in text(alice)
