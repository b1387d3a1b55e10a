"""Images of a real registry: looked up, tried, and pulled by a real pod with the sign-in."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from clusters import registry as drivers
from clusters.models import Cluster
from devcluster.kube import Kube
from images import services
from images.findings import Finding, Verdict
from images.models import ImageFacts
from projects import namespaces
from projects.models import ProjectNamespace
from runtime.capabilities.tenants import TenantSpec
from tests.cluster.pods import pod
from tests.cluster.tenants import World, world

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.beside,
    pytest.mark.django_db,
    pytest.mark.timeout(900),
]

USER, PASSWORD = "robot", "s3cret-of-the-test"
HASHED = "$2b$05$iPK24RdzxT6F2sI/oL7wT.j9NW9fq3smFj.bKiGOuIzGa6H6A./k2"
CHECK = "/api/v1/projects/vision/images/check"
SECONDS = 180


@pytest.fixture(autouse=True)
def asked_here(settings: Any, devcluster: dict[str, Any]) -> None:
    from django.core.cache import cache

    cache.clear()
    settings.BERTH_CLUSTER_PRIVATE_KEY = ["asked and answered in one process"]
    settings.BERTH_INSECURE_REGISTRIES = [devcluster["registry"]]


@pytest.fixture
def private(devcluster: dict[str, Any], tmp_path: Path, settings: Any) -> Iterator[str]:
    """The same images behind a sign-in, at an address that the node pulls from too."""
    storage = Path(devcluster["kubeconfig"]).parent / "registry"
    port = 5055
    (tmp_path / "people").write_text(f"{USER}:{HASHED}\n")
    content = {
        "version": "0.1",
        "log": {"level": "error", "accesslog": {"disabled": True}},
        "storage": {
            "filesystem": {"rootdirectory": str(storage)},
            "maintenance": {"readonly": {"enabled": True}},
        },
        "http": {"addr": f"127.0.0.1:{port}"},
        "auth": {"htpasswd": {"realm": "test", "path": str(tmp_path / "people")}},
    }
    (tmp_path / "registry.json").write_text(json.dumps(content))
    process = subprocess.Popen(
        [devcluster["programs"]["registry"], "serve", str(tmp_path / "registry.json")],
        stderr=subprocess.DEVNULL,
    )
    host = f"127.0.0.1:{port}"
    try:
        until(lambda: reached(f"http://{host}/v2/"))
        settings.BERTH_INSECURE_REGISTRIES = [*settings.BERTH_INSECURE_REGISTRIES, host]
        yield host
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def there(devcluster: dict[str, Any], kube: Kube) -> Iterator[World]:
    made = world(devcluster, kube)
    yield made
    made.close()


def until(ask: Any, seconds: float = SECONDS) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := ask():
            return found
        time.sleep(0.3)
    message = f"nothing after {seconds} s"
    raise AssertionError(message)


def reached(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).status_code in {200, 401}
    except httpx.HTTPError:
        return False


def check(client: Any, image: str, **more: Any) -> dict[str, Any]:
    """What is said of it; a registry that did not answer in time is asked again."""

    def said() -> dict[str, Any] | None:
        answer = client.post(CHECK, json.dumps({"image": image, **more}), "application/json")
        assert answer.status_code == 200, answer.content
        found: dict[str, Any] = answer.json()
        return None if found["verdict"] == Verdict.UNKNOWN else found

    return dict(until(said))


def tenant_of(there: World, project: Any) -> TenantSpec:
    """The project's place on the cluster, with the sign-ins that it has now."""
    logins, version = namespaces.registries_of(project.uid)
    spec = there.tenant(project.slug, registries=logins, registries_version=version)
    return there.ensure(spec)


def test_images_of_a_real_registry_are_found_and_described(
    devcluster: dict[str, Any], project: Any, bob: Any, as_user: Any
) -> None:
    client = as_user(bob)
    for name in ("tool", "jupyterlab"):
        image = devcluster["images"][name]
        found = check(client, image["reference"])
        assert (found["verdict"], found["digest"]) == ("good", image["digest"]), found
        assert (found["runs_as_root"], found["warnings"]) == (False, [])
        assert found["size_bytes"] > 10**7
    found = check(client, f"{devcluster['registry']}/berth/tool:no-such-tag")
    assert (found["verdict"], found["problem"]) == ("bad", "not-found")
    found = check(client, f"{devcluster['registry']}/berth/nothing:1")
    assert (found["verdict"], found["problem"]) == ("bad", "not-found")


def test_the_program_of_an_image_says_whether_it_is_a_notebook(
    devcluster: dict[str, Any],
    there: World,
    project: Any,
    bob: Any,
    as_user: Any,
    monkeypatch: Any,
) -> None:
    spec = tenant_of(there, project)
    Cluster.objects.create(key="dev", name="Dev", driver="kubernetes")
    ProjectNamespace.objects.create(
        project=project, cluster_key="dev", namespace=spec.namespace, phase="running"
    )
    monkeypatch.setitem(drivers._drivers, "dev", there.driver)
    monkeypatch.setattr("images.lookup.driver_for", lambda _key: there.driver)
    client = as_user(bob)

    def ended(name: str) -> dict[str, Any] | None:
        found = check(client, devcluster["images"][name]["reference"], cluster="dev")
        return None if found["probing"] else found

    lab = until(lambda: ended("jupyterlab"))
    assert lab["singleuser"].startswith("6."), lab
    assert lab["verdict"] == "good"
    tool = until(lambda: ended("tool"))
    assert (tool["verdict"], tool["problem"]) == ("bad", "no-singleuser"), tool
    as_container = check(client, devcluster["images"]["tool"]["reference"], kind="container")
    assert as_container["verdict"] == "good"
    assert set(ImageFacts.objects.values_list("singleuser", flat=True)) == {
        "none",
        lab["singleuser"],
    }


def test_c9_a_private_image_is_pulled_by_a_pod_with_the_sign_in_and_not_without(
    private: str,
    there: World,
    project: Any,
    alice: Any,
    bob: Any,
    as_user: Any,
    kube: Kube,
) -> None:
    reference = f"{private}/berth/tool:1"
    member, owner = as_user(bob), as_user(alice)
    found = check(member, reference, kind="container")
    assert (found["verdict"], found["problem"]) == ("bad", "sign-in")

    spec = tenant_of(there, project)
    kube.apply(sleeper(spec.namespace, "without", reference))
    until(lambda: pulling(kube, spec.namespace, "without") in {"ErrImagePull", "ImagePullBackOff"})

    body = {"name": "ours", "host": private, "username": USER, "password": PASSWORD}
    made = owner.post("/api/v1/projects/vision/credentials", json.dumps(body), "application/json")
    assert made.status_code == 201, made.content
    test = f"/api/v1/projects/vision/credentials/{made.json()['id']}/test"
    until(lambda: owner.post(test).json()["ok"])  # it asks once, and may be late
    found = check(member, reference, kind="container")
    assert found["verdict"] == "good", found

    logins, version = namespaces.registries_of(project.uid)
    spec = there.ensure(spec, registries=logins, registries_version=version)
    kube.apply(sleeper(spec.namespace, "with", found["pinned"]))
    until(lambda: phase(kube, spec.namespace, "with") == "Running")

    gone = owner.delete(f"/api/v1/projects/vision/credentials/{made.json()['id']}")
    assert gone.status_code == 204
    logins, version = namespaces.registries_of(project.uid)
    there.ensure(spec, registries=logins, registries_version=version)
    left = kube.get("v1", "Secret", "berth-registries", spec.namespace)
    assert left is not None
    assert json.loads(base64.b64decode(left["data"][".dockerconfigjson"])) == {"auths": {}}


def test_a2_the_secret_is_in_the_one_object_of_the_cluster_and_nowhere_else(
    private: str, there: World, project: Any, alice: Any, principal: Any, kube: Kube
) -> None:
    from base64 import b64encode

    from credentials.services import Label, credential_add

    credential_add(
        principal=principal(alice),
        project=project,
        kind="registry",
        label=Label("ours"),
        fields={"host": private, "username": USER, "password": PASSWORD},
    )
    spec = tenant_of(there, project)
    kept = kube.get("v1", "Secret", "berth-registries", spec.namespace)
    assert kept is not None
    pair = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    for version, kind in (
        ("v1", "ConfigMap"),
        ("v1", "Pod"),
        ("v1", "Event"),
        ("v1", "ServiceAccount"),
        ("v1", "Namespace"),
        ("networking.k8s.io/v1", "NetworkPolicy"),
        ("rbac.authorization.k8s.io/v1", "Role"),
    ):
        inside = None if kind == "Namespace" else spec.namespace
        text = json.dumps(kube.list(version, kind, inside))
        assert PASSWORD not in text
        assert pair not in text


def sleeper(namespace: str, name: str, image: str) -> dict[str, Any]:
    return pod(
        namespace,
        name,
        image,
        command=["sleep", "300"],
        resources={"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
        imagePullSecrets=[{"name": "berth-registries"}],
    )


def phase(kube: Kube, namespace: str, name: str) -> str:
    found = kube.get("v1", "Pod", name, namespace) or {}
    return str(found.get("status", {}).get("phase", ""))


def pulling(kube: Kube, namespace: str, name: str) -> str:
    found = kube.get("v1", "Pod", name, namespace) or {}
    states = found.get("status", {}).get("containerStatuses", [])
    return str(states[0]["state"].get("waiting", {}).get("reason", "")) if states else ""


def test_require_good_pins_what_the_registry_has(
    devcluster: dict[str, Any], project: Any, bob: Any, principal: Any
) -> None:
    image = devcluster["images"]["tool"]

    def said() -> Finding | None:
        found = services.require_good(
            principal=principal(bob),
            project=project,
            cluster_key="",
            reference=image["reference"],
            kind="container",
        )
        return None if found.verdict == Verdict.UNKNOWN else found

    found = until(said)
    assert found.pinned == image["reference"].rpartition(":")[0] + "@" + image["digest"]
