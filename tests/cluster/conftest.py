"""The Kubernetes cluster that tests marked ``cluster`` share.

``make cluster-up`` makes it; ``make test`` does so by itself where the machine can.  A test makes
objects only in namespaces of its own (fixture ``namespace``), and removes what it made elsewhere.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from devcluster.kube import Kube
from tests.cluster.visitors import Person
from tests.support.cluster_state import cluster_state
from tests.support.clustered import ClusteredPortal
from tests.support.store_fixtures import begun
from tests.support.stores import VersityS3

# The tests' namespaces carry it, so that a person finds what a killed run left.
MARK = {"berth.dev/test": "true"}
KUEUE = "kueue.x-k8s.io/v1beta2"


@pytest.fixture(scope="session")
def devcluster() -> dict[str, Any]:
    """What ``var/cluster/state.json`` says (see devcluster/README.md)."""
    return cluster_state()


@pytest.fixture(scope="session")
def kube(devcluster: dict[str, Any]) -> Iterator[Kube]:
    """The administrator's client: get, list, apply, create, patch, delete, watch, until."""
    client = Kube(Path(devcluster["kubeconfig"]))
    yield client
    client.close()


@contextmanager
def managing_queues(
    devcluster: dict[str, Any], kube: Kube, word: str, **options: Any
) -> Iterator[ClusteredPortal]:
    """A portal that keeps the queues of the cluster; what it left of them is removed.

    ``word`` begins the names of what it makes.
    """
    prefix = f"{word}{secrets.token_hex(2)}-"
    running = ClusteredPortal(devcluster, prefix, options={"manages_queues": True, **options})
    try:
        yield running.start()
    finally:
        running.close()
        label = f"berth.dev/instance={prefix.strip('-')},berth.dev/kind=queue"
        flavors = ("ResourceFlavor", "WorkloadPriorityClass", "Topology")
        for kind in ("ClusterQueue", "Cohort", *flavors):
            for found in kube.list(KUEUE, kind, labelSelector=label):
                kube.delete(KUEUE, kind, found["metadata"]["name"])


@pytest.fixture(scope="module")
def api(portal: ClusteredPortal) -> Iterator[httpx.Client]:
    """The administrator's API, where a module has its ``portal``."""
    with portal.api(portal.token("admin")) as client:
        yield client


@pytest.fixture(scope="module")
def ann(portal: ClusteredPortal) -> Person:
    """The owner of ``demo``, where a module's ``portal`` has people."""
    return Person(portal, "ann")


@pytest.fixture(scope="module")
def ben(portal: ClusteredPortal) -> Person:
    """A member of ``demo``."""
    return Person(portal, "ben")


@pytest.fixture(scope="module")
def store(devcluster: dict[str, Any]) -> Iterator[VersityS3]:
    """An object store that pods reach by this machine's address among them."""
    made = begun(VersityS3, host=devcluster["host"])
    assert isinstance(made, VersityS3)
    with made:
        yield made


@contextmanager
def a_namespace(kube: Kube) -> Iterator[str]:
    """An empty one, for as long as it is wanted."""
    name = f"test-{secrets.token_hex(4)}"
    kube.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": MARK}}
    )
    try:
        kube.until("service account", lambda: kube.get("v1", "ServiceAccount", "default", name))
        yield name
    finally:
        kube.delete("v1", "Namespace", name)


@pytest.fixture
def namespace(kube: Kube) -> Iterator[str]:
    """An empty namespace of the test's own."""
    with a_namespace(kube) as name:
        yield name
