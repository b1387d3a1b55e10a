"""The tree of queues as Kueue's objects: exact to the last device, and never more than there is."""

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.capabilities.queues import QueueKind, QueuePart, QueueShare, QueueTree
from runtime.drivers.kubernetes.builders import queues
from runtime.drivers.kubernetes.metrics import quantity
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.drivers.kubernetes.shapes import job
from runtime.spec import Placement, Together
from tests.drivers.kubernetes.goldens import check
from tests.drivers.kubernetes.test_builders import spec

OPTIONS = KubernetesOptions(installation="f00d", queue="default", manages_queues=True)
GPU, HOST = "nvidia.com/gpu", "kubernetes.io/hostname"
H100 = QueueKind(
    "h100",
    GPU,
    {"nvidia.com/gpu.product": "NVIDIA-H100"},
    16,
    beside={"cpu": 256_000, "memory": 2 * 2**20, "example.com/rdma_vf": 16},
)
A2 = QueueKind(
    "a2", GPU, {"nvidia.com/gpu.product": "NVIDIA-A2"}, 4, beside={"cpu": 33_333, "memory": 4096}
)
TREE = QueueTree(
    parts=(
        QueuePart("0rg", "Research", weight=Decimal("2.5"), shares={"h100": QueueShare(8, 12, 6)}),
        QueuePart("a", "alpha", "0rg", "berth-alpha", shares={"h100": QueueShare(3, 5, 1)}),
        QueuePart("b", "beta", "0rg", "berth-beta", shares={"h100": QueueShare(2)}),
        QueuePart("c", "gamma", "", "berth-gamma", weight=Decimal(0), shares={}),
    ),
    kinds=(H100, A2),
    plain={"cpu": 64_000, "memory": 262_144},
    priorities={"train": 100, "urgent": 10_000},
)


def test_golden() -> None:
    check("queues", *queues.objects(TREE, OPTIONS))


def quotas(objects: Iterable[dict[str, Any]], word: str = "nominalQuota") -> dict[Any, float]:
    """Return amount by (object, flavor, resource)."""
    return {
        (obj["metadata"]["name"], flavor["name"], has["name"]): quantity(has[word])
        for obj in objects
        for group in obj.get("spec", {}).get("resourceGroups", ())
        for flavor in group["flavors"]
        for has in flavor["resources"]
        if word in has
    }


def total(objects: list[dict[str, Any]], flavor: str, resource: str) -> float:
    found = quotas(objects).items()
    return sum(n for (_obj, where, what), n in found if (where, what) == (flavor, resource))


def test_all_together_have_what_exists() -> None:
    made = queues.objects(TREE, OPTIONS)
    assert total(made, "berth-h100", GPU) == 16
    assert total(made, "berth-h100", "cpu") == 256
    assert total(made, "berth-h100", "memory") == 2 * 2**40
    assert total(made, "berth-a2", "cpu") == 33.333
    assert total(made, "berth-plain", "cpu") == 64
    assert total(made, "berth-plain", GPU) == 0


def test_an_organisation_has_what_its_projects_have_not() -> None:
    found = quotas(queues.objects(TREE, OPTIONS))
    org = "berth-0rg"
    assert [found[name, "berth-h100", GPU] for name in (org, "berth-alpha", "berth-beta")] == [
        3,
        3,
        2,
    ]
    assert found["berth-alpha", "berth-h100", "cpu"] == 48
    assert found["berth", "berth-h100", GPU] == 8


def test_what_is_guaranteed_beyond_what_exists_shrinks_for_all_alike() -> None:
    assert queues.fitted({"a": 6, "b": 6, "c": 0}, 8) == {"a": 4, "b": 4, "c": 0}
    assert queues.fitted({"a": 1, "b": 1, "c": 1}, 2) == {"a": 1, "b": 1, "c": 0}
    assert queues.fitted({"a": 1}, 0) == {"a": 0}


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=8),
    st.lists(st.integers(0, 20), min_size=1, max_size=3),
)
def test_never_more_than_exists_on_any_sort_of_node(
    parts: list[tuple[int, int]], devices: list[int]
) -> None:
    kinds = tuple(
        QueueKind("k", GPU, {"model": f"m{n}"}, count, f"m{n}", beside={"cpu": 1000 * count + n})
        for n, count in enumerate(devices)
    )
    tree = QueueTree(
        tuple(
            QueuePart(f"p{n}", f"p{n}", f"p{above}", f"ns-{n}" if n else "", shares=share)
            for n, (count, above) in enumerate(parts)
            for share in [{"k": QueueShare(count, most=count + 3, lends=count // 2)}]
        ),
        kinds,
    )
    made = queues.objects(tree, OPTIONS)
    for kind in kinds:
        flavor = f"berth-{queues.kind_word(kind)}"
        assert total(made, flavor, GPU) == kind.devices
        assert abs(total(made, flavor, "cpu") * 1000 - kind.beside["cpu"]) < 1e-6
    assert all(amount >= 0 for amount in quotas(made).values())
    own, lends = quotas(made), quotas(made, "lendingLimit")
    projects = {part.namespace for part in tree.parts if part.namespace}
    assert all(n <= own[key] for key, n in lends.items() if key[0] in projects)


def test_a_circle_of_organisations_is_cut() -> None:
    parts = (
        QueuePart("x", "x", "y"),
        QueuePart("y", "y", "x"),
        QueuePart("p", "p", "x", "ns-p"),
    )
    made = queues.objects(QueueTree(parts), OPTIONS)
    above = {
        obj["metadata"]["name"]: obj["spec"].get("parentName") or obj["spec"].get("cohortName")
        for obj in made
        if obj["kind"] in {"Cohort", "ClusterQueue"}
    }
    seen, name = set(), "ns-p"
    while name != "berth":
        assert name not in seen
        seen.add(name)
        name = above[name]


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("memory", 0, "0"),
        ("cpu", 0, "0"),
        (GPU, 0, "0"),
        ("memory", 163, "163Mi"),
        ("memory", 2 * 2**20, "2Ti"),
        ("cpu", 160, "160m"),
        ("cpu", 5_000_000, "5k"),
        ("cpu", 1_280_000, "1280"),
        (GPU, 1000, "1k"),
    ],
)
def test_quantities_are_written_as_the_api_server_writes_them(
    name: str, amount: int, text: str
) -> None:
    """Else they would seem to be changed by hand, and be written again and again."""
    kind = QueueKind("k", GPU, {}, amount or 1, beside={name: amount} if name != GPU else {})
    made = queues.objects(QueueTree((), (kind,) if amount or name != GPU else ()), OPTIONS)
    (root,) = [obj for obj in made if obj["kind"] == "Cohort"]
    texts = {
        has["name"]: has["nominalQuota"]
        for flavor in root["spec"]["resourceGroups"][0]["flavors"]
        for has in flavor["resources"]
    }
    assert texts.get(name, "0") == text


LEVELLED = replace(
    TREE,
    kinds=(
        replace(H100, levels=("berth.dev/su", "berth.dev/rack", HOST)),
        replace(A2, levels=(HOST,)),
    ),
    plain_levels=(HOST,),
)


def test_golden_with_levels() -> None:
    made = queues.objects(LEVELLED, OPTIONS)
    check("levels", *(o for o in made if o["kind"] in {"Topology", "ResourceFlavor", "Cohort"}))


def test_all_flavors_of_a_queue_have_levels_or_none() -> None:
    """Kueue takes work that asks for no level only where every flavor has some."""
    for tree, all_of_them in ((TREE, False), (LEVELLED, True)):
        made = queues.objects(tree, OPTIONS)
        flavors = [o for o in made if o["kind"] == "ResourceFlavor"]
        assert {"topologyName" in o["spec"] for o in flavors} == {all_of_them}
        known = {o["metadata"]["name"] for o in made if o["kind"] == "Topology"}
        assert {o["spec"].get("topologyName") for o in flavors} - {None} == known


def test_other_levels_are_other_objects() -> None:
    """What has levels can't be changed, so nothing of another name may be what was there."""
    fewer = replace(LEVELLED, kinds=(replace(H100, levels=("berth.dev/rack", HOST)),))
    names = [
        {o["metadata"]["name"] for o in queues.objects(t, OPTIONS) if o["kind"] == "ResourceFlavor"}
        for t in (TREE, LEVELLED, fewer)
    ]
    assert not names[0] & names[1]
    assert len(names[1] & names[2]) == 1  # the plain one's are the same


@pytest.mark.parametrize(("required", "word"), [(True, "required"), (False, "preferred")])
def test_a10_pods_say_what_keeps_them_together(required: bool, word: str) -> None:
    placement = Placement(together=Together("berth.dev/su", required=required))
    (made,) = job.build(spec(once=True, image="x", placement=placement), OPTIONS)
    told = made["spec"]["template"]["metadata"]["annotations"]
    assert told[f"kueue.x-k8s.io/podset-{word}-topology"] == "berth.dev/su"
    (made,) = job.build(spec(once=True, image="x"), OPTIONS)
    assert not [n for n in made["spec"]["template"]["metadata"]["annotations"] if "topology" in n]
