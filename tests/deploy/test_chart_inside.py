"""What a tenant's own pod reaches of the portal that runs on the same cluster (C10)."""

from collections.abc import Iterator
from typing import Any

import pytest

from devcluster.kube import Kube
from tests.cluster import dials
from tests.deploy.chart import NAMESPACE, PREFIX, Release

# What leaks is no matter of a second try.
pytestmark = [
    pytest.mark.deploy,
    pytest.mark.cluster,
    pytest.mark.timeout(900),
    pytest.mark.flaky(reruns=0),
]
OPEN_TO_TENANTS = "berth-internal"
SHUT = (
    "berth",
    "berth-postgresql",
    "berth-redis",
    "berth-gate-internal",
    "berth-proxy",
    "berth-proxy-api",
)
OUTSIDE = f"{PREFIX}outside"  # goes with the release's namespaces


def doors(kube: Kube, service: str, namespace: str = NAMESPACE) -> list[str]:
    """Each way to a Service: by its own address, and by those of the pods behind it."""
    found = kube.get("v1", "Service", service, namespace)
    assert found is not None, service
    spec = found["spec"]
    ways = [f"{spec['clusterIP']}:{port['port']}" for port in spec["ports"]]
    chosen = f"kubernetes.io/service-name={service}"
    for part in kube.list("discovery.k8s.io/v1", "EndpointSlice", namespace, labelSelector=chosen):
        addresses = [a for end in part["endpoints"] or [] for a in end["addresses"]]
        ways += [f"{a}:{port['port']}" for a in addresses for port in part["ports"] or []]
    return ways


@pytest.fixture(scope="module")
def outside(kube: Kube) -> Iterator[str]:
    """A namespace that no fence surrounds."""
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OUTSIDE}})
    kube.until("service account", lambda: kube.get("v1", "ServiceAccount", "default", OUTSIDE))
    yield OUTSIDE
    kube.delete("v1", "Namespace", OUTSIDE)


def test_c10_a_tenants_pod_reaches_the_internal_listener_and_nothing_else(
    release: Release, project: str, outside: str, devcluster: dict[str, Any]
) -> None:
    kube, image = release.kube, devcluster["images"]["tool"]["reference"]
    wanted = {way: False for service in SHUT for way in doors(kube, service)}
    wanted |= dict.fromkeys(doors(kube, "kubernetes", "default"), False)
    wanted |= dict.fromkeys(doors(kube, OPEN_TO_TENANTS), True)
    assert len(wanted) > 2 * len(SHUT)  # each by its Service and by a pod

    # They listen: from outside of all fences the chart lets everybody in to its pages.
    pages = dict.fromkeys(doors(kube, "berth"), True)
    assert dials.tcp(kube, outside, "dials", image, pages) == pages
    assert dials.tcp(kube, project, "dials", image, wanted) == wanted


def test_c10_the_portals_database_and_redis_are_shut_to_everybody_else(
    release: Release, outside: str, devcluster: dict[str, Any]
) -> None:
    """By their own fences: this pod has none that keep it in."""
    kube, image = release.kube, devcluster["images"]["tool"]["reference"]
    own = ("berth-postgresql", "berth-redis", "berth-gate-internal", OPEN_TO_TENANTS)
    wanted = {way: False for service in own for way in doors(kube, service)}
    assert dials.tcp(kube, outside, "dials-shut", image, wanted) == wanted
