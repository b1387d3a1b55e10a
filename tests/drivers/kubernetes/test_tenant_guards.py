"""What guards a namespace stays until it is known that the cluster takes what replaces it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from runtime.capabilities.tenants import KubeUser, TenantSpec
from runtime.drivers.kubernetes.driver import KubernetesDriver
from runtime.protocol import InvalidSpec
from tests.drivers.kubernetes.stub import Stub

NAMESPACE = "berth-demo-7f1d2a3b"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ALICE = "a11ce000-0000-4000-8000-000000000001"
MEMBER = KubeUser(ALICE, viewer=True, grants=("6ea47000-0000-4000-8000-000000000002",))
SPEC = TenantSpec(
    uid="0b6a4c1e-0000-4000-8000-00000000000a",
    project="7f1d2a3b-0000-4000-8000-00000000000b",
    slug="demo",
    namespace=NAMESPACE,
    generation=1,
    kube_users=(MEMBER,),
)
BINDING = (f"{RBAC}/rolebindings", f"{NAMESPACE}/user-a11ce0000000")
POLICY = ("/apis/networking.k8s.io/v1/networkpolicies", f"{NAMESPACE}/default-deny")
QUOTA = ("/api/v1/resourcequotas", f"{NAMESPACE}/objects")


class Strict:
    """An API server that changes nothing that can't be changed, and takes only what it likes."""

    def __init__(self, stub: Stub) -> None:
        self.stub = stub
        self.likes: Callable[[str], bool] = lambda _path: True
        stub.fault = self._fault

    def _fault(self, handler: Any, method: str, path: str, query: dict[str, str]) -> bool:
        if method == "PATCH":
            path = path.partition("?")[0]
            is_changed = not query.get("dryRun") and self._fixed(path) != _fixed(handler.given)
            if not self.likes(path) or (self._fixed(path) is not None and is_changed):
                handler.refuse(422, "it is not taken")
                return True
        return False

    def _fixed(self, path: str) -> Any:
        head, _, rest = path.partition("/namespaces/")
        where, _, last = rest.partition("/")
        plural, _, name = last.partition("/")
        found = self.stub.objects.get((f"{head}/{plural}", f"{where}/{name}"))
        return None if found is None else _fixed(found)


def _fixed(obj: dict[str, Any]) -> Any:
    return obj.get("roleRef") or (obj.get("spec") or {}).get("scopes") or ""


@pytest.fixture
def driver(stub: Stub) -> Iterator[KubernetesDriver]:
    made = stub.driver(portal_role="berth-projects", portal_account="berth/worker")
    made.ensure_tenant(SPEC)
    yield made
    made.close()


@pytest.fixture
def strict(stub: Stub, driver: KubernetesDriver) -> Strict:
    del driver  # it has made all that there is
    return Strict(stub)


def _guards(stub: Stub) -> set[tuple[str, str]]:
    return {key for key in stub.objects if key[1].startswith(f"{NAMESPACE}/")}


@pytest.mark.parametrize(
    ("collection", "name", "content"),
    [
        ("/apis/networking.k8s.io/v1/networkpolicies", "default-deny", "spec"),
        ("/api/v1/resourcequotas", "objects", "spec"),
        ("/api/v1/limitranges", "defaults", "spec"),
        (f"{RBAC}/rolebindings", "berth-portal", "subjects"),
        (f"{RBAC}/roles", "user-a11ce0000000", "rules"),
    ],
)
def test_c10_a_guard_whose_replacement_is_refused_stays(
    stub: Stub, driver: KubernetesDriver, strict: Strict, collection: str, name: str, content: str
) -> None:
    before = _guards(stub)
    stub.objects[collection, f"{NAMESPACE}/{name}"].pop(content)
    strict.likes = lambda path: name not in path
    with pytest.raises(InvalidSpec):
        driver.ensure_tenant(SPEC)
    assert _guards(stub) == before
    assert not stub.count("DELETE")
    strict.likes = lambda _path: True
    driver.ensure_tenant(SPEC)
    assert content in stub.objects[collection, f"{NAMESPACE}/{name}"]


def _other_role(stub: Stub) -> None:
    stub.objects[BINDING]["roleRef"] = {**stub.objects[BINDING]["roleRef"], "name": "admin"}


def _other_scopes(stub: Stub) -> None:
    stub.objects[QUOTA]["spec"]["scopes"] = ["BestEffort"]


@pytest.mark.parametrize(("key", "touch"), [(BINDING, _other_role), (QUOTA, _other_scopes)])
def test_what_can_not_be_changed_is_made_again(
    stub: Stub,
    driver: KubernetesDriver,
    strict: Strict,
    key: tuple[str, str],
    touch: Callable[[Stub], None],
) -> None:
    before, good = _guards(stub), _fixed(stub.objects[key])
    touch(stub)
    driver.ensure_tenant(SPEC)
    assert _guards(stub) == before
    assert _fixed(stub.objects[key]) == good
    assert stub.count("DELETE") == 1
    assert stub.count("PATCH", dryRun="All") == 1


@pytest.mark.parametrize(("key", "touch"), [(BINDING, _other_role), (QUOTA, _other_scopes)])
def test_c10_what_can_not_be_changed_stays_where_ours_would_be_refused(
    stub: Stub,
    driver: KubernetesDriver,
    strict: Strict,
    key: tuple[str, str],
    touch: Callable[[Stub], None],
) -> None:
    touch(stub)
    strict.likes = lambda path: key[1].rpartition("/")[2] not in path
    with pytest.raises(InvalidSpec):
        driver.ensure_tenant(SPEC)
    assert key in stub.objects
    assert not stub.count("DELETE")


def test_a3_a_revocation_comes_through_where_a_guard_is_refused(
    stub: Stub, driver: KubernetesDriver, strict: Strict
) -> None:
    del stub.objects[POLICY]["spec"]
    strict.likes = lambda path: "networkpolicies" not in path
    with pytest.raises(InvalidSpec):
        driver.ensure_tenant(replace(SPEC, kube_users=()))
    assert ("/api/v1/secrets", f"{NAMESPACE}/grant-6ea470000000") not in stub.objects
