"""A cluster whose driver is the fake one: rows as an operator would have made them."""

from __future__ import annotations

from typing import Any

from clusters import registry
from clusters.models import Cluster, Flavor, NetworkProfile, Pool
from clusters.options import ClusterOptions
from common.clock import now
from notebooks.models import Workspace
from notebooks.reconciler import WorkspaceReconciler
from runtime.drivers.fake import FakeDriver
from runtime.spec import WorkloadSpec

BASE = "/api/v1/projects/vision/workspaces"
IMAGE = "registry.example.org/team/train:1.2"
CONTAINER = {"kind": "container", "image": IMAGE, "command": ["python", "app.py"]}
OPTIONS = ClusterOptions(
    namespace_prefix="t-",
    hub_url="http://hub.internal:8001",
    trusted=True,
    sidecar_image="registry.example.org/guard:1",
    default_image="registry.example.org/lab:6",
)


def attach(monkeypatch: Any, key: str = "gpu", **changes: Any) -> Cluster:
    """Attach a cluster with eight H100 on two nodes and an L40S, all free."""
    monkeypatch.setitem(registry.DRIVERS, "kubernetes", lambda _cluster: FakeDriver())
    for name, label in (("h100-80", "H100"), ("l40s", "L40S")):
        Flavor.objects.get_or_create(
            name=name,
            defaults={"label": label, "node_labels": {"gpu": [name]}, "price_per_hour": 2},
        )
    return Cluster.objects.create(
        key=key,
        name=f"Cluster {key}",
        driver="kubernetes",
        reachable=True,
        options={**OPTIONS.as_json(), **changes.pop("options", {})},
        kinds={
            "h100-80": {"total": 8, "nodes": 2, "largest": 4, "out": 0},
            "l40s": {"total": 1, "nodes": 1, "largest": 1, "out": 0},
        },
        checked_at=now(),
        attached_at=now(),
        **changes,
    )


def pool(cluster: Cluster, name: str, **values: Any) -> Pool:
    return Pool.objects.create(cluster=cluster, name=name, node_labels={"pool": name}, **values)


def network(cluster: Cluster, name: str, *pools: Pool, **values: Any) -> NetworkProfile:
    made = NetworkProfile.objects.create(
        cluster=cluster,
        name=name,
        attachment="net/rdma",
        resource="example.com/vf",
        env={"NCCL_IB_HCA": "mlx5"},
        **values,
    )
    made.pools.set(pools)
    return made


def row_of(answer: Any) -> Workspace:
    """Return the row that a launch made."""
    assert answer.status_code == 202, answer.content
    return Workspace.objects.get(short_id=answer.json()["id"])


def fields(answer: Any) -> Any:
    """Return what a refused launch says of each field."""
    assert answer.status_code in {400, 409, 422}, answer.content
    return answer.json().get("errors") or answer.json().get("fields") or answer.json()


def spec(row: Workspace) -> WorkloadSpec:
    return WorkspaceReconciler().spec_of(row)
