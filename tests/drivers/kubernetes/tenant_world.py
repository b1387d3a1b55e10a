"""A project's place on a cluster, and an API server in memory that keeps it."""

import builtins
import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from runtime.capabilities.tenants import KubeUser, TenantSpec
from runtime.drivers.kubernetes.access import KubeAccess
from runtime.drivers.kubernetes.answers import Answer
from runtime.drivers.kubernetes.builders import tenant
from runtime.drivers.kubernetes.client import plural_of
from runtime.drivers.kubernetes.options import KubernetesOptions
from tests.drivers.kubernetes.stub import matches

PLACE = "0b6a4c1e-0000-4000-8000-00000000000a"
PROJECT = "7f1d2a3b-0000-4000-8000-00000000000b"
ALICE = "a11ce000-0000-4000-8000-000000000001"
GRANT = "6ea47000-0000-4000-8000-000000000002"

OPTIONS = KubernetesOptions(
    hub_url="http://10.244.0.1:8002",
    hub_peers=("10.244.0.1/32",),
    blocked_cidrs=("203.0.113.0/24",),
)
SPEC = TenantSpec(
    uid=PLACE, project=PROJECT, slug="demo", namespace="berth-demo-7f1d2a3b", generation=1
)
USERS = (
    KubeUser(ALICE, viewer=True, pods=("ws-b2-0", "ws-a1-0"), grants=(GRANT,)),
    KubeUser("b0b00000-0000-4000-8000-000000000003", viewer=True),
)


class Api:
    """An API server in memory: keeps what it is given, counts what it is asked."""

    access = KubeAccess("https://192.0.2.9:6443", "")

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.writes: list[str] = []
        self.refuse: Callable[[str], Exception | None] = lambda _act: None
        self._version = 0

    def write(self, act: str) -> None:
        if error := self.refuse(act):
            raise error
        self.writes.append(act)

    def apply(self, obj: Any) -> dict[str, Any]:
        key = tenant.key_of(obj)
        self.write(f"apply {key}")
        return self._keep(key, {**self.objects.get(key, {}), **copy.deepcopy(dict(obj))})

    def request(self, method: str, path: str, params: Any, body: Any) -> Answer:
        del path, params
        key = tenant.key_of(body)
        self.write(f"{method} {key}")
        self._keep(key, copy.deepcopy(dict(body)))
        return Answer(method, 200, b"{}")

    def _keep(self, key: str, obj: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        self.objects[key] = obj
        return copy.deepcopy(obj)

    def get(self, api_version: str, plural: str, name: str, namespace: str = "") -> Any:
        del api_version, namespace
        found = [o for o in self._all(plural) if o["metadata"]["name"] == name]
        return copy.deepcopy(found[0]) if found else None

    def list(
        self, api_version: str, plural: str, namespace: str = "", selector: str = ""
    ) -> list[dict[str, Any]]:
        del api_version, namespace
        asked = {"labelSelector": selector}
        return copy.deepcopy([o for o in self._all(plural) if matches(o, asked)])

    def _all(self, plural: str) -> builtins.list[dict[str, Any]]:
        return [o for o in self.objects.values() if plural_of(o["kind"]) == plural]

    def delete(self, api_version: str, plural: str, name: str, namespace: str = "") -> None:
        del api_version, namespace
        for key in [tenant.key_of(o) for o in self._all(plural)]:
            if key.endswith(f"/{name}"):
                self.write(f"delete {key}")
                del self.objects[key]

    def post(self, path: str, body: Any) -> dict[str, Any] | None:
        raise AssertionError((path, body))


class KilledError(BaseException):
    """What a SIGKILL is to a test that goes on."""


class DyingApi(Api):
    """Whoever writes to it dies at one of its writes."""

    _left = 0
    _lost = False

    def dies_at(self, nth: int, *, lost: bool) -> None:
        self._left, self._lost = nth, lost

    def apply(self, obj: Any) -> dict[str, Any]:
        with self._write():
            return super().apply(obj)

    def delete(self, *args: Any, **kwargs: Any) -> None:
        with self._write():
            super().delete(*args, **kwargs)

    @contextmanager
    def _write(self) -> Iterator[None]:
        self._left -= 1
        dies = not self._left
        if dies and not self._lost:
            raise KilledError
        yield
        if dies:
            raise KilledError
