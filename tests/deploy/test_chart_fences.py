"""C6: what the portal's own identity may not do, by its roles and by the fence around them."""

import ssl
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.deploy.chart import EXPORT, NAMESPACE, PREFIX, Release, until

# What is allowed once is allowed: nothing here is tried a second time.
pytestmark = [
    pytest.mark.deploy,
    pytest.mark.cluster,
    pytest.mark.timeout(1800),
    pytest.mark.flaky(reruns=0),
]
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:berth"

_RBAC, _CERTS = "rbac.authorization.k8s.io", "certificates.k8s.io"
_HOOKS = "admissionregistration.k8s.io"
# verb, group, resource[/subresource], namespace ("": all of them)
DANGEROUS = [
    ("*", "*", "*", ""),
    *[(verb, "", "secrets", "") for verb in ("get", "list", "watch", "create", "update")],
    ("get", "", "secrets", "kube-system"),
    ("get", "", "secrets", NAMESPACE),
    ("list", "", "secrets", "@project"),
    ("watch", "", "secrets", "@project"),
    *[(verb, "", "pods", "kube-system") for verb in ("create", "patch", "delete")],
    *[(verb, "", "pods", NAMESPACE) for verb in ("create", "patch", "delete")],
    *[("create", "", f"pods/{sub}", "kube-system") for sub in ("exec", "attach", "portforward")],
    ("get", "", "pods/log", "kube-system"),
    ("patch", "", "pods/ephemeralcontainers", "@project"),
    ("create", "", "serviceaccounts/token", "kube-system"),
    ("create", "", "serviceaccounts/token", NAMESPACE),
    ("get", "", "nodes/proxy", ""),
    ("create", "", "nodes/proxy", ""),
    *[(verb, "", "nodes", "") for verb in ("create", "patch", "update", "delete")],
    ("patch", "", "nodes/status", ""),
    ("update", "", "namespaces/finalize", ""),
    *[("impersonate", "", who, "") for who in ("users", "groups", "serviceaccounts")],
    *[(verb, _RBAC, "clusterroles", "") for verb in ("create", "patch", "delete", "escalate")],
    ("bind", _RBAC, "clusterroles", ""),
    *[(verb, _RBAC, "clusterrolebindings", "") for verb in ("create", "patch", "delete")],
    *[(verb, _RBAC, "roles", "@project") for verb in ("escalate", "bind")],
    *[(verb, _RBAC, "roles", "kube-system") for verb in ("create", "patch")],
    ("approve", _CERTS, "signers", ""),
    ("update", _CERTS, "certificatesigningrequests/approval", ""),
    ("create", _CERTS, "certificatesigningrequests", ""),
    *[
        ("create", _HOOKS, f"{kind}webhookconfigurations", "")
        for kind in ("mutating", "validating")
    ],
    *[(verb, _HOOKS, "validatingadmissionpolicies", "") for verb in ("create", "patch", "delete")],
    *[(verb, _HOOKS, "validatingadmissionpolicybindings", "") for verb in ("patch", "delete")],
    ("create", "apiextensions.k8s.io", "customresourcedefinitions", ""),
    ("create", "apiregistration.k8s.io", "apiservices", ""),
    ("create", "apps", "daemonsets", ""),
    ("create", "apps", "deployments", NAMESPACE),
    ("create", "apps", "statefulsets", "kube-system"),
    ("create", "batch", "jobs", "kube-system"),
    ("patch", "", "configmaps", "kube-system"),
    ("patch", "", "services", "kube-system"),
]


def may(release: Release, verb: str, group: str, resource: str, namespace: str) -> bool:
    name, _, sub = resource.partition("/")
    attributes = {"verb": verb, "group": group, "resource": name, "subresource": sub}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    asked = {
        "user": ACCOUNT,
        "groups": [
            "system:serviceaccounts",
            f"system:serviceaccounts:{NAMESPACE}",
            "system:authenticated",
        ],
        "resourceAttributes": {**attributes, "namespace": namespace},
    }
    made = release.kube.request("POST", path, json={"spec": asked})
    return bool(made["status"]["allowed"])


@pytest.mark.parametrize("act", DANGEROUS, ids=lambda act: " ".join(filter(None, act)))
def test_c6_the_portals_own_identity_may_not(
    release: Release, project: str, act: tuple[str, str, str, str]
) -> None:
    verb, group, resource, namespace = act
    assert not may(release, verb, group, resource, namespace.replace("@project", project))


def test_c6_in_a_projects_namespace_it_may_what_it_needs(release: Release, project: str) -> None:
    """A namespace is seen before its rights are: those are made next, and read by a watch."""
    for verb, group, resource in (
        ("patch", "apps", "statefulsets"),
        ("get", "", "secrets"),
        ("create", "", "pods/exec"),
        ("create", "", "serviceaccounts/token"),
        ("create", "batch", "jobs"),
    ):
        until(f"{verb} {resource}", lambda a=(verb, group, resource): may(release, *a, project), 60)


@pytest.fixture(scope="package")
def itself(release: Release) -> Iterator[httpx.Client]:
    """The API server as worker and gate see it: with a token of their service account."""
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/berth/token"
    body = {"spec": {"expirationSeconds": 600}}
    token = release.kube.request("POST", path, json=body)["status"]["token"]
    with httpx.Client(
        base_url=release.state["server"],
        verify=ssl.create_default_context(cafile=release.state["authority"]),
        trust_env=False,
        headers={"Authorization": f"Bearer {token}"},
        timeout=60,
    ) as client:
        yield client


INSTANCE = {"berth.dev/managed": "true", "berth.dev/instance": PREFIX.strip("-")}
RESTRICTED = {**INSTANCE, "pod-security.kubernetes.io/enforce": "restricted"}
BINDING = {
    "apiVersion": f"{_RBAC}/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "mine"},
    "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "berth-projects"},
    "subjects": [{"kind": "ServiceAccount", "name": "berth", "namespace": NAMESPACE}],
}


def namespace(name: str, labels: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def volume(path: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "berth-deploytest"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "hostPath": {"path": path},
            "claimRef": {"namespace": f"{PREFIX}x", "name": "x"},
            "persistentVolumeReclaimPolicy": "Retain",
            **spec,
        },
    }


def csi_volume(folder: str, **attributes: str) -> dict[str, Any]:
    made = volume("")
    del made["spec"]["hostPath"]
    made["spec"]["csi"] = {
        "driver": "nfs.csi.k8s.io",
        "volumeHandle": "deploytest",
        "volumeAttributes": {
            "server": EXPORT["server"],
            "share": EXPORT["export"],
            "subDir": folder,
            **attributes,
        },
    }
    return made


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"/apis/{_RBAC}/v1/namespaces/kube-system/rolebindings", BINDING),
        (f"/apis/{_RBAC}/v1/namespaces/{NAMESPACE}/rolebindings", BINDING),
        ("/api/v1/namespaces", namespace("other-portal", RESTRICTED)),
        ("/api/v1/namespaces", namespace(f"{PREFIX}loose", INSTANCE)),
        (
            "/api/v1/namespaces",
            namespace(
                f"{PREFIX}loose", {**INSTANCE, "pod-security.kubernetes.io/enforce": "privileged"}
            ),
        ),
        ("/api/v1/persistentvolumes", volume("/")),
        ("/api/v1/persistentvolumes", volume("/var/lib/berth/volumes")),
        (
            "/api/v1/persistentvolumes",
            volume("/var/lib/berth/volumes/x", persistentVolumeReclaimPolicy="Delete"),
        ),
        (
            "/api/v1/persistentvolumes",
            volume("/var/lib/berth/volumes/x", claimRef={"namespace": "kube-system", "name": "x"}),
        ),
        ("/api/v1/persistentvolumes", csi_volume("..")),
        ("/api/v1/persistentvolumes", csi_volume("x/y")),
        ("/api/v1/persistentvolumes", csi_volume("x", share="/other")),
    ],
)
def test_c6_what_roles_cannot_say_the_fence_refuses(
    release: Release, itself: httpx.Client, path: str, body: dict[str, Any]
) -> None:
    answer = itself.post(path, json=body, params={"dryRun": "All"})
    assert answer.status_code in {403, 422}, answer.text
    assert "ValidatingAdmissionPolicy" in answer.text, answer.text


def test_c6_the_fence_lets_through_what_it_does_every_day(
    release: Release, itself: httpx.Client
) -> None:
    for path, body in (
        ("/api/v1/namespaces", namespace(f"{PREFIX}fine", RESTRICTED)),
        ("/api/v1/persistentvolumes", volume("/var/lib/berth/volumes/x")),
        ("/api/v1/persistentvolumes", csi_volume("x")),
    ):
        answer = itself.post(path, json=body, params={"dryRun": "All"})
        assert answer.status_code == httpx.codes.CREATED, answer.text


@pytest.mark.parametrize("name", ["kube-system", "default", NAMESPACE])
def test_c6_it_changes_no_namespace_that_it_did_not_make(
    release: Release, itself: httpx.Client, name: str
) -> None:
    answer = itself.patch(
        f"/api/v1/namespaces/{name}",
        json={"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}},
        headers={"Content-Type": "application/merge-patch+json"},
        params={"dryRun": "All"},
    )
    assert answer.status_code in {403, 422}, answer.text
    gone = itself.delete(f"/api/v1/namespaces/{name}", params={"dryRun": "All"})
    assert gone.status_code in {403, 422}, gone.text
