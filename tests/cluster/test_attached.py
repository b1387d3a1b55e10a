"""A real portal with the real cluster attached: nodes, kinds, self-check, pools, detaching."""

import secrets
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from benchmarks.lib import poll
from tests.support.cluster_state import lacking
from tests.support.clustered import KEY, ClusteredPortal, ok

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
FLEET = {"h100-80": 80, "a100-80": 48, "a100-40": 16, "a2": 16, "t4": 11}


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any]) -> Iterator[ClusteredPortal]:
    image = devcluster["images"]["tool"]["reference"]
    made = ClusteredPortal(
        devcluster,
        f"h4{secrets.token_hex(2)}-",
        options={"trusted": False, "check_image": image, "volume_size_gib": 1},
    )
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def api(portal: ClusteredPortal) -> Iterator[Any]:
    with portal.api(portal.token("admin")) as client:
        yield client


def totals(api: Any) -> dict[str, int]:
    return {k["name"]: k["total"] for k in ok(api.get(f"clusters/{KEY}")).json()["gpus"]}


@pytest.fixture
def fleet(devcluster: dict[str, Any]) -> None:
    """The simulated nodes; a cluster whose state names their keeper must have them."""
    if "kwok" not in devcluster["programs"]:
        lacking("simulated nodes")


def test_the_watch_brings_the_real_node(api: Any) -> None:
    poll(lambda: totals(api), within_s=120, every_s=0.3)
    seen = ok(api.get(f"clusters/{KEY}/nodes", params={"page_size": 200})).json()["results"]
    names = {node["name"] for node in seen}
    assert "node1" in names


def test_the_watch_brings_every_simulated_node_and_its_kind(api: Any, fleet: None) -> None:
    with suppress(TimeoutError):  # the assertion below says what there was instead
        poll(lambda: devices(simulated(api)) == FLEET, within_s=120, every_s=0.3)
    fake = simulated(api)
    assert devices(fake) == FLEET
    assert {"su", "rack"} <= {k.rsplit("/", 1)[-1] for n in fake for k in n["labels"]}


def simulated(api: Any) -> list[dict[str, Any]]:
    seen = ok(api.get(f"clusters/{KEY}/nodes", params={"page_size": 200})).json()["results"]
    return [node for node in seen if node["labels"].get("type") == "kwok"]


def devices(nodes: list[dict[str, Any]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for node in nodes:
        for kind, count in node["gpus"].items():
            found[kind] = found.get(kind, 0) + count
    return found


def test_devices_behind_a_taint_count_once_a_pool_tolerates_it(api: Any, fleet: None) -> None:
    poll(lambda: totals(api), within_s=120, every_s=0.3)
    before = sum(totals(api).values())
    body = {
        "name": "simulated",
        "node_labels": {"type": "kwok"},
        "tolerations": [
            {"key": "kwok.x-k8s.io/node", "operator": "Exists", "effect": "NoSchedule"}
        ],
    }
    ok(api.post(f"clusters/{KEY}/pools", json=body))
    wanted = before + sum(FLEET.values())
    try:
        poll(lambda: sum(totals(api).values()) == wanted, within_s=60, every_s=0.3)
    finally:  # also for a second try, which begins without it
        assert api.delete(f"clusters/{KEY}/pools/simulated").status_code == 204
        poll(lambda: sum(totals(api).values()) == before, within_s=60, every_s=0.3)


@pytest.mark.long("the same checks on the same cluster: test_self_check.py")
def test_c10_the_worker_proves_the_network_by_itself_after_attaching(api: Any) -> None:
    def answers() -> dict[str, Any]:
        return {c["name"]: c for c in ok(api.get(f"clusters/{KEY}/checks")).json()}

    poll(lambda: answers()["network"]["at"], within_s=360, every_s=1)
    assert answers()["network"]["state"] == "green", answers()["network"]
    assert ok(api.get(f"clusters/{KEY}")).json()["launch_refusal"] == ""


def test_switched_off_it_is_left_alone_and_comes_back(api: Any) -> None:
    ok(api.patch(f"clusters/{KEY}", json={"enabled": False}))
    assert "switched off" in ok(api.get(f"clusters/{KEY}")).json()["launch_refusal"]
    ok(api.patch(f"clusters/{KEY}", json={"enabled": True}))
    poll(lambda: ok(api.get(f"clusters/{KEY}")).json()["reachable"], within_s=120, every_s=0.5)


def test_detached_nothing_of_it_stays(api: Any) -> None:
    refused = api.delete(f"clusters/{KEY}", params={"confirm": "something else"})
    assert refused.status_code == 400
    assert (
        api.delete(f"clusters/{KEY}", params={"confirm": "Development cluster"}).status_code == 200
    )
    assert KEY not in {row["key"] for row in ok(api.get("clusters")).json()}
