"""What keeps a project to itself, on the real cluster: made once, and put back when touched."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from devcluster.kube import Kube, KubeError, path_of
from runtime.capabilities.tenants import KubeUser, TenantSpec
from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.namespaces import Leaving
from runtime.protocol import InvalidSpec, NotYet
from tests.cluster.pods import STRICT, pod
from tests.cluster.tenants import World, world

pytestmark = [pytest.mark.cluster, pytest.mark.pods]
ONCE = pytest.mark.flaky(reruns=0)  # what leaks once leaks
ALICE = "a11ce000-0000-4000-8000-000000000001"
GRANT = "6ea47000-0000-4000-8000-000000000002"
NETWORKING, RBAC = "networking.k8s.io/v1", "rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def here(devcluster: dict[str, Any], kube: Kube) -> Iterator[World]:
    made = world(devcluster, kube)
    yield made
    made.close()


@pytest.fixture(scope="module")
def demo(here: World) -> TenantSpec:
    user = KubeUser(ALICE, viewer=True, pods=("ws-a1-0",), grants=(GRANT,))
    return here.ensure(here.tenant("demo"), kube_users=(user,))


def _drift(here: World, spec: TenantSpec) -> Any:
    return here.driver._tenants.look(spec.uid).detail["drift"]


def test_the_first_time_takes_at_most_twelve_writes_and_the_second_none(here: World) -> None:
    took, wrote = [], []
    for _ in range(3):  # the machine may stand still meanwhile, or the cluster ask for a moment
        spec = here.tenant("writes")
        before, at = here.driver.client.writes, time.monotonic()
        assert "NetworkPolicy/default-deny" in here.put(spec)
        wrote.append(here.driver.client.writes - before)
        took.append(time.monotonic() - at)
    assert min(took) < 5
    assert min(wrote) <= 12
    before = here.driver.client.writes
    assert here.put(spec) == ()
    assert here.driver.client.writes == before


def test_what_lives_is_what_was_built(here: World, demo: TenantSpec) -> None:
    """No default of the API server and no spelling of a quantity looks like drift."""
    assert _drift(here, demo) == []


@pytest.mark.parametrize(
    "slug", ["a", "x" * 40, "ends-with-", "音声", "Über & Co.", "-", "1st", "kube-system", "a.b/c"]
)
def test_any_name_of_a_project_gives_a_valid_namespace(here: World, slug: str) -> None:
    spec = here.tenant(slug)
    assert here.kube.request(
        "POST",
        "/api/v1/namespaces?dryRun=All",
        json={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": spec.namespace}},
    )
    other = here.tenant(slug)
    assert other.namespace != spec.namespace


def _remove(version: str, kind: str, name: str) -> Callable[[Kube, TenantSpec], None]:
    return lambda kube, spec: bool(kube.delete(version, kind, name, spec.namespace)) or None


def _patch(version: str, kind: str, name: str, body: Any) -> Callable[[Kube, TenantSpec], None]:
    def act(kube: Kube, spec: TenantSpec) -> None:
        where = None if kind == "Namespace" else spec.namespace
        kube.patch(path_of(version, kind, where, name or spec.namespace), body)

    return act


def _bind_elsewhere(kube: Kube, spec: TenantSpec) -> None:
    found = kube.get(RBAC, "RoleBinding", "user-a11ce0000000", spec.namespace)
    assert found is not None
    kube.delete(RBAC, "RoleBinding", "user-a11ce0000000", spec.namespace)
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"}
    meta = {k: found["metadata"][k] for k in ("name", "namespace", "labels")}
    kube.create({**found, "metadata": meta, "roleRef": role})


OPEN = {"spec": {"ingress": [{}], "egress": [{}]}}
ENFORCE = "pod-security.kubernetes.io/enforce"
TOUCHED = {
    "policy removed": (
        _remove(NETWORKING, "NetworkPolicy", "default-deny"),
        "NetworkPolicy/default-deny",
    ),
    "policy opened": (
        _patch(NETWORKING, "NetworkPolicy", "default-deny", OPEN),
        "NetworkPolicy/default-deny",
    ),
    "policy narrowed to other pods": (
        _patch(
            NETWORKING,
            "NetworkPolicy",
            "default-deny",
            {"spec": {"podSelector": {"matchLabels": {"a": "b"}}}},
        ),
        "NetworkPolicy/default-deny",
    ),
    "security level lowered": (
        _patch("v1", "Namespace", "", {"metadata": {"labels": {ENFORCE: "privileged"}}}),
        "Namespace/",
    ),
    "security level removed": (
        _patch("v1", "Namespace", "", {"metadata": {"labels": {ENFORCE: None}}}),
        "Namespace/",
    ),
    "quota removed": (_remove("v1", "ResourceQuota", "objects"), "ResourceQuota/objects"),
    "quota raised": (
        _patch("v1", "ResourceQuota", "objects", {"spec": {"hard": {"services.nodeports": "9"}}}),
        "ResourceQuota/objects",
    ),
    "quota made to count CPU": (
        _patch("v1", "ResourceQuota", "objects", {"spec": {"hard": {"requests.cpu": "1"}}}),
        "ResourceQuota/objects",
    ),
    "limits removed": (_remove("v1", "LimitRange", "defaults"), "LimitRange/defaults"),
    "account gets a token": (
        _patch("v1", "ServiceAccount", "default", {"automountServiceAccountToken": True}),
        "ServiceAccount/default",
    ),
    "role widened": (
        _patch(
            RBAC,
            "Role",
            "user-a11ce0000000",
            {"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]},
        ),
        "Role/user-a11ce0000000",
    ),
    "bound to admin": (_bind_elsewhere, "RoleBinding/user-a11ce0000000"),
}


@ONCE
@pytest.mark.parametrize("act", TOUCHED)
def test_what_was_touched_by_hand_is_seen_and_put_back(
    here: World, demo: TenantSpec, act: str
) -> None:
    touch, expected = TOUCHED[act]
    if expected == "Namespace/":
        expected += demo.namespace
    touch(here.kube, demo)
    assert _drift(here, demo) == [expected]
    assert here.put(demo) == (expected,)
    assert _drift(here, demo) == []
    assert here.put(demo) == ()


@ONCE
def test_a_policy_of_others_that_opens_pods_is_seen_and_left(here: World, demo: TenantSpec) -> None:
    meta = {"name": "open-all", "namespace": demo.namespace}
    spec = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{}]}
    api, kind = "networking.k8s.io/v1", "NetworkPolicy"
    here.kube.apply({"apiVersion": api, "kind": kind, "metadata": meta, "spec": spec})
    try:
        found = here.driver._tenants.look(demo.uid).detail
        assert (found["foreign"], found["drift"]) == (["NetworkPolicy/open-all"], [])
        assert here.put(demo) == ()
        assert here.kube.get(api, kind, "open-all", demo.namespace)
        watched = next(here.driver.watch(stop=lambda: False))
        while watched is None:
            watched = next(here.driver.watch(stop=lambda: False))
        (place,) = [one for one in watched if one.uid == demo.uid]
        assert place.detail["foreign"] == ["NetworkPolicy/open-all"]
    finally:
        here.kube.delete(api, kind, "open-all", demo.namespace)


def test_a_namespace_of_somebody_else_is_neither_taken_nor_removed(
    here: World, namespace: str
) -> None:
    spec = replace(here.tenant("thief"), namespace=namespace)
    with pytest.raises(InvalidSpec):
        here.put(spec)
    here.driver.remove_tenant(spec.uid, namespace)
    found = here.kube.get("v1", "Namespace", namespace)
    assert found is not None
    assert "deletionTimestamp" not in found["metadata"]


def test_a_removed_project_leaves_nothing(here: World) -> None:
    spec = here.ensure(here.tenant("going"))
    until = time.monotonic() + 180
    while time.monotonic() < until:
        try:
            here.driver.remove_tenant(spec.uid, spec.namespace)
        except NotYet as wait:
            time.sleep(wait.retry_in)
        else:
            break
    assert here.kube.get("v1", "Namespace", spec.namespace) is None


def _secured(**more: Any) -> dict[str, Any]:
    return {"securityContext": {**STRICT, **more}}


# What a pod asks for, of itself and of its container, and what the refusal calls it.
REACHING: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "hostNetwork=true": ({"hostNetwork": True}, {}),
    "hostPID=true": ({"hostPID": True}, {}),
    "hostIPC=true": ({"hostIPC": True}, {}),
    'restricted volume type "hostPath"': (
        {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
        {},
    ),
    'restricted volume type "nfs"': (
        {"volumes": [{"name": "v", "nfs": {"server": "10.0.0.1", "path": "/"}}]},
        {},
    ),
    "forbidden sysctls": (
        {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "65536"}]}},
        {},
    ),
    "hostPort": ({}, {"ports": [{"containerPort": 8888, "hostPort": 8888}]}),
    "allowPrivilegeEscalation=false": ({}, _secured(allowPrivilegeEscalation=True)),
    '"SYS_ADMIN"': ({}, _secured(capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]})),
    'capabilities.drop=["ALL"]': ({}, _secured(capabilities={})),
    '"Unconfined"': ({}, _secured(seccompProfile={"type": "Unconfined"})),
    "runAsNonRoot=false": ({}, _secured(runAsNonRoot=False)),
    "runAsUser=0": ({}, _secured(runAsUser=0)),
}


@ONCE
class TestPodSecurity:
    @pytest.mark.parametrize("what", REACHING)
    def test_c3_a_pod_that_reaches_for_the_node_is_refused(
        self, here: World, demo: TenantSpec, what: str
    ) -> None:
        of_pod, of_container = REACHING[what]
        image = here.state["images"]["tool"]["reference"]
        bad = pod(demo.namespace, "bad", image, **of_pod)
        bad["spec"]["containers"][0] |= of_container
        with pytest.raises(KubeError, match=f"violates PodSecurity.*{re.escape(what)}"):
            here.kube.request(
                "POST", f"/api/v1/namespaces/{demo.namespace}/pods?dryRun=All", json=bad
            )

    def test_c3_a_privileged_pod_is_refused(self, here: World, demo: TenantSpec) -> None:
        """By that, or before by the API server itself where it allows none at all."""
        bad = pod(demo.namespace, "bad", here.state["images"]["tool"]["reference"])
        bad["spec"]["containers"][0] |= _secured(privileged=True, allowPrivilegeEscalation=True)
        refusal = "violates PodSecurity.*privileged=true|privileged: Forbidden: disallowed by"
        with pytest.raises(KubeError, match=refusal):
            here.kube.request(
                "POST", f"/api/v1/namespaces/{demo.namespace}/pods?dryRun=All", json=bad
            )

    def test_an_ordinary_pod_is_allowed(self, here: World, demo: TenantSpec) -> None:
        image = here.state["images"]["tool"]["reference"]
        path = f"/api/v1/namespaces/{demo.namespace}/pods?dryRun=All"
        made = here.kube.request("POST", path, json=pod(demo.namespace, "good", image))
        assert made["spec"]["serviceAccountName"] == "default"
        assert not any("projected" in v for v in made["spec"].get("volumes", ()))

    def test_services_that_open_the_node_are_refused(self, here: World, demo: TenantSpec) -> None:
        for kind in ("NodePort", "LoadBalancer"):
            spec = {"type": kind, "ports": [{"port": 80}], "selector": {"a": "b"}}
            with pytest.raises(KubeError, match="exceeded quota"):
                here.kube.request(
                    "POST",
                    f"/api/v1/namespaces/{demo.namespace}/services?dryRun=All",
                    json={
                        "apiVersion": "v1",
                        "kind": "Service",
                        "metadata": {"name": "open"},
                        "spec": spec,
                    },
                )


def test_everything_carries_the_marks(here: World, demo: TenantSpec) -> None:
    selector = names.selector(here.driver.options.namespace_prefix, {names.KIND: "place"})
    for version, kind in ((NETWORKING, "NetworkPolicy"), ("v1", "ResourceQuota"), (RBAC, "Role")):
        found = here.kube.list(version, kind, demo.namespace, labelSelector=selector)
        assert found
        assert all(o["metadata"]["labels"][names.PROJECT] == demo.project for o in found)


def test_leaving_takes_an_empty_namespace_and_leaves_one_that_holds_something(
    here: World, kube: Kube
) -> None:
    user = KubeUser(ALICE, viewer=True, pods=("ws-a1-0",), grants=(GRANT,))
    spec = here.ensure(here.tenant("leaving"), kube_users=(user,))
    leaving = Leaving(here.driver.client)
    meta = {"name": "notes", "namespace": spec.namespace}
    kube.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    assert leaving.remove_if_empty(spec.namespace, spec.uid) == "configmaps/notes"
    kube.delete("v1", "ConfigMap", "notes", spec.namespace)
    assert leaving.remove_if_empty(spec.namespace, "another") == "not made for this project"
    assert leaving.remove_if_empty(spec.namespace, spec.uid) == ""
    kube.until("gone", lambda: kube.get("v1", "Namespace", spec.namespace) is None, 300)
    assert leaving.remove_if_empty(spec.namespace, spec.uid) == ""
